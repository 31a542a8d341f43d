package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

// proofsAtOnce is how many units prove and format at once: while two are reading (how many do they see to
// themselves, package store, ScanPlace: a mkfs that hangs on dead storage has no part in that) two can
// begin or end. Where mkfs takes longer than the proof more would be faster, but each takes 3 MiB of memory and more.
// One that takes longer than proofPatience may hang, or wait to read, and does not count any more, up to proofsInAll.
const (
	proofsAtOnce  = 4
	proofsInAll   = 64
	proofPatience = time.Minute
)

// growthsAtOnce is how many filesystems are measured and grown at once.
const growthsAtOnce = 2

// mountsPerWorker is how many mounts there are at once for each worker: they wait for
// PID 1, which has those of fstab begin all at once.
const mountsPerWorker = 4

// saveAfter is how long what is seen at start waits to be recorded with that of the other disks: each
// record is a file that is written anew and synced, on the disk of which the node boots. What a daemon
// that is killed before that has seen, the next one sees again, unless it has left by then.
const saveAfter = time.Second

// saveEvery is the least time between two records of what is mounted, for the same reason: where disks come
// one after the other the last ones wait so long. The daemon itself goes by what it has seen (Host.Expect).
// That a disk has left does not wait: nobody can see it again.
const saveEvery = 250 * time.Millisecond

// bound sets the bounds of the lines.
func (a *Agent) bound() {
	a.lines[looks].bound = a.settings.Workers
	a.lines[mountings].bound = mountsPerWorker * a.settings.Workers
	a.lines[proofs].bound, a.lines[proofs].most = proofsAtOnce, proofsInAll
	a.lines[growths].bound = growthsAtOnce
	a.lines[questions].bound = a.settings.Workers
}

// start begins what is due, within the bounds.
func (a *Agent) start(ctx context.Context) {
	now := time.Now()
	for name, st := range a.disks {
		if !st.retry.IsZero() && !st.retry.After(now) {
			st.retry = time.Time{}
			a.wanted(name)
		}
		if !st.due.IsZero() && !st.due.After(now) {
			a.hinted(name)
		}
		if st.early && !st.busy && st.retry.IsZero() && a.allSeen(now) {
			a.wanted(name)
		}
	}
	var waiting []string
	for name, ok := a.lines[mountings].next(); ok; name, ok = a.lines[mountings].next() {
		if !a.holds(name) {
			a.lines[mountings].running--
			continue
		}
		f, d := a.disks[name].facts, a.disks[name].decision
		if !f.Standing.InPlace && !a.allSeen(now) {
			// One of which not all is known yet may be its twin, also with the same serial.
			a.lines[mountings].running--
			waiting = append(waiting, name)
			continue
		}
		if d.Action == disk.Link {
			a.begin(ctx, mountings, func() func() {
				err := a.units.GiveOut(ctx, f.Seq)
				return func() { a.acted(name, f.Seq, disk.Link, err) }
			})
			continue
		}
		class, st := policy.Select(&f, a.settings), a.disks[name]
		// The provisioner reads the size of a volume once, when it sees it first. The
		// recovery of a log may take long: what is mounted then is decided then, for
		// a twin may have come meanwhile.
		if policy.Fills(&f, class) && st.filled != f.Seq {
			a.begin(ctx, mountings, func() func() {
				err := a.units.Fill(ctx, f.Seq)
				return func() {
					st.busy, st.filled, st.filling = false, f.Seq, err
					a.wanted(name)
				}
			})
			continue
		}
		var filling error
		if st.filled == f.Seq {
			filling = st.filling
		}
		st.filled, st.filling = 0, nil
		a.begin(ctx, mountings, func() func() {
			err := a.mount(ctx, &f, class, d)
			return func() {
				// One that is held is tried again and again, and said to be once.
				if filling != nil && err == nil {
					a.report.Problem(fmt.Errorf("cannot grow the filesystem of %s before it is mounted: %w", f.ID, filling))
				} else if filling != nil && !errors.Is(err, disk.ErrHeld) {
					err = errors.Join(err, filling)
				}
				a.acted(name, f.Seq, disk.Mount, err)
			}
		})
	}
	a.lines[mountings].names = append(waiting, a.lines[mountings].names...)
	for name, ok := a.lines[proofs].next(); ok; name, ok = a.lines[proofs].next() {
		if !a.holds(name) {
			a.lines[proofs].running--
			continue
		}
		a.prove(ctx, name, a.disks[name].facts.Seq)
	}
	for name, ok := a.lines[growths].next(); ok; name, ok = a.lines[growths].next() {
		seq := a.disks[name].facts.Seq
		a.begin(ctx, growths, func() func() {
			err := a.units.Grow(ctx, seq)
			return func() { a.acted(name, seq, disk.Grow, err) }
		})
	}
	// Last: the others may want a look.
	for name, ok := a.lines[looks].next(); ok; name, ok = a.lines[looks].next() {
		a.disks[name].since = a.left
		a.begin(ctx, looks, func() func() {
			f, err := a.host.Look(name)
			return func() { a.looked(name, f, err) }
		})
	}
	for name, ok := a.lines[questions].next(); ok; name, ok = a.lines[questions].next() {
		f := a.disks[name].facts
		a.begin(ctx, questions, func() func() {
			plugged, err := a.units.Plugged(ctx, &f)
			return func() { a.unmounted(name, f.Seq, plugged, err) }
		})
	}
	if !now.Before(a.firstSave()) {
		a.save(ctx, !now.Before(a.saved.Add(saveEvery)))
	}
	// Once the disks of the start are dealt with, none is missing that is only
	// late.
	if a.glance && a.ready && !a.noticing {
		a.glance, a.noticing = false, true
		settings := a.settings
		a.work.Go(func() {
			notices, err := a.host.Notices(settings)
			a.give(ctx, func() { a.noticed(notices, err) })
		})
	}
	for _, dep := range a.leaving {
		if dep.busy || dep.retry.After(now) {
			continue
		}
		dep.busy, dep.retry = true, time.Time{}
		a.work.Go(func() {
			err := a.release(ctx, dep)
			a.give(ctx, func() { a.released(dep, err) })
		})
	}
}

// firstSave is before when nothing is recorded.
func (a *Agent) firstSave() time.Time {
	if a.ready {
		return time.Time{}
	}
	return a.started.Add(saveAfter)
}

// save has recorded what was seen of filesystems, once what was before is. What is mounted goes with what
// is not, and first: the record of it drops that of what was in its place before.
func (a *Agent) save(ctx context.Context, mountedToo bool) {
	mounted := a.unsaved && (mountedToo || len(a.found) > 0)
	if !mounted && len(a.found) == 0 || a.saving != nil {
		return
	}
	found, made := a.found, make(chan struct{})
	a.found, a.saving = nil, made
	if mounted {
		a.unsaved, a.saved = false, time.Now()
	}
	a.work.Go(func() {
		var err error
		if mounted {
			err = a.host.Remember()
		}
		if len(found) > 0 {
			err = errors.Join(err, a.host.Note(found))
		}
		close(made)
		a.give(ctx, func() {
			a.saving = nil
			if err != nil {
				a.report.Problem(err)
			}
		})
	})
}

// saveRest has recorded at the end what was not, unless the record that is under way hangs.
func (a *Agent) saveRest(ctx context.Context) {
	if a.saving != nil && (a.unsaved || len(a.found) > 0) {
		select {
		case <-a.saving:
			a.saving = nil
		case <-time.After(patience):
		}
	}
	a.save(ctx, true)
}

// mount has the disk mounted, and sees that it was this one. Until udev has heard that a disk
// is gone, its link by sequence number is there and leads to the next disk of that kernel
// name, and PID 1 mounts that. What is mounted keeps its sequence number.
func (a *Agent) mount(ctx context.Context, f *disk.Facts, class *disk.Class, d disk.Decision) error {
	err := a.units.Mount(ctx, f, class, d.UUID, d.Type)
	seq, attachedErr := a.host.Attached(f.Dev)
	if attachedErr != nil || seq == f.Seq || seq == 0 {
		return errors.Join(err, disk.OfNode(attachedErr))
	}
	path := class.MountPoint(d.UUID)
	there, thereErr := a.host.MountedAt(path, f.Dev)
	if !there {
		return errors.Join(err, thereErr)
	}
	unmountErr := a.units.Unmount(ctx, path)
	there, thereErr = a.host.MountedAt(path, f.Dev)
	outcome := "unmounted again"
	if there || unmountErr != nil || thereErr != nil {
		outcome = "still there; stop who uses it, then umount " + path
	}
	return errors.Join(err, fmt.Errorf("%w: disk sequence number %d, which has its name now, was mounted in its place, and is %s", disk.ErrGone, seq, outcome), unmountErr, thereErr)
}

// prove has the disk proven blank, and formatted.
func (a *Agent) prove(ctx context.Context, name string, seq uint64) {
	var overdue, ended bool // the loop's
	a.begin(ctx, proofs, func() func() {
		late := time.AfterFunc(proofPatience, func() {
			a.give(ctx, func() {
				if overdue = !ended; overdue {
					a.lines[proofs].running--
					a.lines[proofs].overdue++
				}
			})
		})
		defer late.Stop()
		err := a.units.Format(ctx, seq)
		return func() {
			if ended = true; overdue { // begin has counted it out once more
				a.lines[proofs].running++
				a.lines[proofs].overdue--
			}
			a.acted(name, seq, disk.Prove, err)
		}
	})
}

// holds says whether the decision for a disk whose turn has come is still the
// same: since it was taken another disk may have come or gone, or other settings. If not,
// the disk is looked at again.
func (a *Agent) holds(name string) bool {
	st := a.disks[name]
	f := st.facts
	f.FindPeers(a.facts())
	c := f.Known()
	stale := st.decision.Action == disk.Mount && st.since != a.left // as in looked
	if policy.Decide(&f, &c, a.settings) == st.decision && !stale {
		return true
	}
	st.busy = false
	a.wanted(name)
	return false
}

// allSeen says whether each disk that was there at start was looked at once udev had
// finished with it, which is what tells its UUID, or has had its time.
func (a *Agent) allSeen(now time.Time) bool {
	if now.Sub(a.started) >= a.settings.ReadyTimeout {
		return true
	}
	for _, st := range a.disks {
		if st.initial && (!st.seen || st.decision.Action == disk.Wait) {
			return false
		}
	}
	return true
}

// begin runs work in a goroutine of its own; what it returns is run by the loop.
func (a *Agent) begin(ctx context.Context, kind int, work func() func()) {
	a.work.Go(func() {
		result := work()
		a.give(ctx, func() {
			a.lines[kind].running--
			result()
		})
	})
}

// give hands a result to the loop, unless the loop has ended.
func (a *Agent) give(ctx context.Context, result func()) {
	select {
	case a.results <- result:
	case <-ctx.Done():
	}
}
