package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

// proofsAtOnce is how many units prove and format at once. How many disks are
// read at once they see to themselves (package store, ScanPlace): a mkfs that
// hangs on dead storage has no part in that. One that takes longer than proofPatience may
// hang and does not count any more, up to proofsInAll: each takes some 4 MiB of memory.
const (
	proofsAtOnce  = 16
	proofsInAll   = 64
	proofPatience = time.Minute
)

// The least time between two lines of status while there is work, and how long that takes
// before it is told.
const (
	statusEvery = time.Second
	statusAfter = 500 * time.Millisecond
)

// growthsAtOnce is how many filesystems are measured and grown at once.
const growthsAtOnce = 2

// mountsPerWorker is how many mounts there are at once for each worker: they wait for
// PID 1, which has those of fstab begin all at once.
const mountsPerWorker = 4

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
	}
	var waiting []string
	for name, ok := a.lines[mountings].next(); ok; name, ok = a.lines[mountings].next() {
		if !a.holds(name) {
			a.lines[mountings].running--
			continue
		}
		f, d := a.disks[name].facts, a.disks[name].decision
		if !f.Standing.OnRecord && !a.allSeen(now) {
			// One of which not all is known yet may be its twin.
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
		class := policy.Select(&f, a.settings)
		a.begin(ctx, mountings, func() func() {
			// The provisioner reads the size of a volume once, when it sees it first.
			var filling error
			if policy.Fills(&f, class) {
				filling = a.units.Fill(ctx, f.Seq)
			}
			err := a.units.Mount(ctx, &f, class, d.UUID, d.Type)
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
	if len(a.seen)+len(a.found) > 0 && !a.saving {
		seen, found := a.seen, a.found
		a.seen, a.found, a.saving = nil, nil, true
		a.work.Go(func() {
			var err error
			if len(found) > 0 {
				err = a.host.Note(found)
			}
			if len(seen) > 0 {
				err = errors.Join(err, a.host.Remember(seen))
			}
			a.give(ctx, func() {
				a.saving = false
				if err != nil {
					a.report.Problem(err)
				}
			})
		})
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
// same: since it was taken another disk may have come, or other settings. If not,
// the disk is looked at again.
func (a *Agent) holds(name string) bool {
	st := a.disks[name]
	f := st.facts
	f.FindPeers(a.facts())
	c := f.Known()
	if policy.Decide(&f, &c, a.settings) == st.decision {
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

// looked takes the facts of a disk, decides, and has the decision carried out.
func (a *Agent) looked(name string, f disk.Facts, err error) {
	st := a.disks[name]
	st.busy = false
	if st.again {
		defer a.wanted(name)
	}
	another := err == nil && st.seen && st.facts.Seq != f.Seq
	if (another || errors.Is(err, disk.ErrGone)) && !st.due.IsZero() {
		defer a.wanted(name) // what was put off may be of the next disk
	}
	if errors.Is(err, disk.ErrGone) {
		a.gone(name)
		return
	}
	if err != nil {
		a.failed(name, err)
		return
	}
	if another {
		// What was known is of the one before.
		a.gone(name)
		st = &state{initial: st.initial}
		a.disks[name] = st
	}
	if st.own && st.stuck != nil {
		st.stuck.Writes = f.Writes
	}
	st.own = false
	if st.lost(&f) {
		st.facts, st.busy = f, true
		a.lines[questions].add(name)
		return
	}
	f.FindPeers(a.facts())
	c := f.Known()
	d := policy.Decide(&f, &c, a.settings)
	changed := !st.seen || st.decision != d
	acted := st.acted
	tried := st.tried && d.Mounted()
	st.tried = st.tried && d.Action == disk.Mount
	st.facts, st.decision, st.seen, st.acted = f, d, true, ""
	if changed {
		a.wakePeers(&f)
	}
	if d.Mounted() {
		st.remount = false
	}
	// What was to be unmounted and is there: the agent ended in the midst of a release,
	// or somebody has mounted it again. With another look wanted this one may be too old.
	if f.Standing.Unmounted != "" && (d.Mounted() || d.GivenOut()) && a.leaving[a.path(st)] == nil && !st.again {
		if err := a.host.KeepUnmounted(&f, ""); err != nil {
			a.report.Problem(err)
		}
	}
	a.remember(st, changed)
	a.note(st, &c)
	switch {
	case active(d.Action):
		if tried {
			a.report.Mounted(&f, d, a.path(st))
		}
		a.act(name, acted, changed, &c)
	case tried:
		a.report.Mounted(&f, d, a.path(st))
		if d.Reason != disk.ReasonMounted {
			a.report.Decided(&f, &c, a.settings, d)
		}
	case changed:
		a.report.Decided(&f, &c, a.settings, d)
	}
	if !active(d.Action) {
		st.succeed()
		if st.failing {
			st.failing = false
			a.report.Recovered(&f)
		}
	}
	// READY waits for a filesystem that nobody could measure before it was mounted,
	// so that kubelet and the provisioner see what it has grown to.
	if d.Action != disk.Mount && d.Action != disk.Link && d.Action != disk.Wait && d.Action != disk.Grow {
		st.initial = false
	}
}

// active says whether the action is the agent's to carry out.
func active(a disk.Action) bool {
	return a == disk.Mount || a == disk.Link || a == disk.Prove || a == disk.Format || a == disk.Grow
}

// act puts a disk that is to be mounted, given out, proven, formatted or grown into its line.
func (a *Agent) act(name string, acted disk.Action, changed bool, c *disk.Content) {
	st := a.disks[name]
	if changed {
		a.report.Decided(&st.facts, c, a.settings, st.decision)
	}
	// A disk that was proven blank, and held meanwhile, is proven again.
	if acted == st.decision.Action || acted == disk.Prove && st.decision.Action == disk.Format {
		a.failed(name, unconfirmed(st))
		return
	}
	if st.blocked(time.Now()) {
		st.retry = st.until
		return
	}
	if d := st.decision; d.Action == disk.Grow && a.leaving[a.path(st)] == nil {
		st.busy = true
		a.lines[growths].add(name)
		return
	}
	if a.leaving[a.path(st)] != nil {
		// The mount point is still another's. When it is free every disk is
		// looked at again.
		return
	}
	st.busy = true
	// What can not be mounted, other than a partition, is read before it is tried again: to udev a
	// filesystem whose mkfs did not finish is one like any other.
	if st.decision.Action == disk.Link || st.decision.Action == disk.Mount && (c.Proven || st.failures == 0 || st.facts.Whole != "") {
		a.lines[mountings].add(name)
	} else {
		a.lines[proofs].add(name)
	}
}

// unconfirmed says why an action whose job was done has to be done again. A
// job's result can be wrong; the mount table and the disk count.
func unconfirmed(st *state) error {
	if st.decision.Action == disk.Mount {
		return fmt.Errorf("the mount unit's job is done, but the mount table does not show %s", st.facts.Dev)
	}
	if st.decision.Action == disk.Link {
		return fmt.Errorf("the unit is started, but the link is not in its place; see journalctl -u hotmount-block@%d", st.facts.Seq)
	}
	if st.decision.Action == disk.Grow {
		return errors.New("the filesystem was not measured")
	}
	if v := st.facts.Standing.Verdict; v.Valid(&st.facts) && v.Failure != "" {
		return errors.New(v.Failure)
	}
	return fmt.Errorf("its proof left no result; see journalctl -u hotmount-format@%d", st.facts.Seq)
}

// acted takes the end of an action; the next look shows what came of it.
func (a *Agent) acted(name string, seq uint64, action disk.Action, err error) {
	st := a.disks[name]
	st.busy = false
	st.tried = st.tried || action == disk.Mount && st.facts.Seq == seq
	if err != nil && st.facts.Seq == seq {
		a.failed(name, err)
		st.own = true
		// The action may have failed because the disk is gone.
		a.wanted(name)
		return
	}
	st.acted = action
	a.wanted(name)
}

// unmounted takes the answer whether a mount that is not there any more ended
// since PID 1 took the disk for unplugged, which happens when systemd is upgraded
// or a rule of udev changes its mind. Else it was somebody's hand.
func (a *Agent) unmounted(name string, seq uint64, plugged time.Duration, err error) {
	st := a.disks[name]
	st.busy = false
	if st.facts.Seq == seq && err != nil {
		a.failed(name, fmt.Errorf("cannot tell who unmounted %s: %w", a.path(st), err))
		return
	}
	a.wanted(name)
	if st.facts.Seq != seq {
		return
	}
	st.succeed()
	mounted := st.facts.Standing.MountedAt
	if st.sighting != nil {
		mounted = st.sighting.At
	}
	if plugged == 0 || plugged > mounted {
		st.remount = true
		a.report.Bounced(&st.facts, a.path(st))
		return
	}
	if err := a.host.KeepUnmounted(&st.facts, disk.ReasonUnmounted); err != nil {
		a.report.Problem(err)
		st.remount = true
	}
}

// failed plans the next try of what could not be done.
func (a *Agent) failed(name string, err error) {
	st := a.disks[name]
	if !st.seen {
		st.facts.Name = name
	}
	held := errors.Is(err, disk.ErrHeld)
	wait := st.fail(time.Now(), held)
	// What is tried for ever is not told for ever.
	if held && st.failing && st.told == err.Error() && st.failures >= heldMost {
		return
	}
	st.failing, st.told = true, err.Error()
	a.report.Failed(&st.facts, st.decision, a.path(st), err, wait)
}

// path is where the disk is or is to be mounted, or is given out; empty for nowhere.
func (a *Agent) path(st *state) string {
	if st.decision.GivenOut() {
		return st.facts.Standing.Link
	}
	class := policy.Select(&st.facts, a.settings)
	if class == nil || st.decision.UUID == "" || (st.decision.Action != disk.Mount && !st.decision.Mounted()) {
		return ""
	}
	return class.MountPoint(st.decision.UUID)
}

// gone drops a disk that is not attached any more, and has what is left of its
// mount removed.
func (a *Agent) gone(name string) {
	st := a.disks[name]
	delete(a.disks, name)
	if !st.seen {
		return
	}
	where := a.path(st)
	if where != "" {
		a.leaving[where] = &departure{facts: st.facts, path: where}
	}
	if st.decision.Action != disk.Ignore {
		a.report.Gone(&st.facts, where)
	}
	a.left(st)
	if st.facts.Standing.Noted != nil || st.noted != nil {
		a.found = append(a.found, disk.Sighting{Identity: st.facts.Identity(""), Left: true})
	}
	if err := a.host.Forget(st.facts.Seq); err != nil {
		a.report.Problem(err)
	}
	a.wakePeers(&st.facts)
}

// left has recorded that the disk of a filesystem left, also of one that was not mounted
// any more when this agent started. What was attached together with it is no other
// attachment of it.
func (a *Agent) left(st *state) {
	s := st.sighting
	if v := st.facts.Standing.Volume; s == nil && v != nil && !st.facts.Standing.WasMounted.IsZero() && v.Identity.Seq == st.facts.Seq {
		s = v
	}
	if s == nil {
		return
	}
	left := *s
	left.Left = true
	var err error
	if left.Newest, err = a.host.Newest(cmp.Or(st.facts.Whole, st.facts.Name)); err != nil {
		a.report.Problem(err)
	}
	a.seen = append(a.seen, left)
}

// remember has recorded what has to last of the decision: on which disk a
// filesystem lies, and that a disk stays held when another one is gone or time has passed.
func (a *Agent) remember(st *state, changed bool) {
	f, d := &st.facts, st.decision
	switch {
	case d.Mounted():
		id := f.Identity("")
		if changed || st.sighting == nil || st.sighting.Identity != id {
			st.sighting = &disk.Sighting{Identity: id, UUID: d.UUID, Type: d.Type, Class: d.Class, Directory: path.Dir(a.path(st)), Mounted: time.Now().UTC(), At: a.host.Monotonic(), Full: d.Type == "xfs" && f.Full()}
			a.seen = append(a.seen, *st.sighting)
		}
	case d.Reason == disk.ReasonBrake && !f.Standing.Braked, d.Reason == disk.ReasonTwin && !f.Standing.Twin,
		d.Reason == disk.ReasonSerialTwice && f.Standing.Given != nil && !f.Standing.Given.Twice:
		if err := a.host.Keep(f, d.Reason); err != nil {
			a.report.Problem(err)
		}
	}
}

// note has recorded what lies on a disk that is not mounted from it by hotmount: at the
// next boot it may be missed. What is about to be mounted is not written down before, nor
// what is being overwritten. The disk of the system is not: without it there is no boot.
func (a *Agent) note(st *state, c *disk.Content) {
	f, d := &st.facts, st.decision
	if !f.Udev.Initialized || f.Standing.Intent != nil || f.System != "" || f.Slot == "" && f.Serial == "" {
		return
	}
	want := disk.Sighting{Identity: f.Identity("")}
	v := f.Standing.Volume
	remembered := d.Mounted() || f.Standing.OnRecord && v != nil && !v.Left
	if !remembered && f.Standing.Given == nil && d.Reason != disk.ReasonPartitioned {
		want.Type, want.UUID = f.Lies(c)
	}
	want.Left = want.Type == ""
	if !want.Left && active(d.Action) && st.stuck == nil {
		return
	}
	have := disk.Sighting{Identity: want.Identity, Left: true}
	if n := f.Standing.Noted; n != nil {
		have.Identity, have.UUID, have.Type, have.Left = n.Identity, n.UUID, n.Type, false
		have.Identity.Boot = ""
	}
	switch {
	case want == have:
		st.noted = nil
	case st.noted == nil || *st.noted != want:
		st.noted = &want
		found := want
		found.Mounted = time.Now().UTC().Round(0)
		a.found = append(a.found, found)
	}
}

// wakePeers wants a look at the disks whose decision may have rested on f.
func (a *Agent) wakePeers(f *disk.Facts) {
	for name, st := range a.disks {
		if !st.seen || st.facts.Seq == f.Seq {
			continue
		}
		switch st.decision.Reason {
		case disk.ReasonTwin, disk.ReasonSameSerial, disk.ReasonSerialTwice, disk.ReasonFormerSlot:
			a.wanted(name)
		}
	}
}

// facts are those of all disks as they were last seen, for FindPeers.
func (a *Agent) facts() []disk.Facts {
	var all []disk.Facts
	for _, st := range a.disks {
		if st.seen {
			all = append(all, st.facts)
		}
	}
	return all
}

// noticed reports what was not amiss at the last look around.
func (a *Agent) noticed(notices []string, err error) {
	a.noticing = false
	if err != nil {
		a.report.Problem(err)
		return
	}
	for _, n := range notices {
		if !slices.Contains(a.notices, n) {
			a.report.Notice(n)
		}
	}
	a.notices = notices
}

// nextDue gives the time of the next retry or of the end of the wait for READY.
func (a *Agent) nextDue() (time.Time, bool) {
	var next time.Time
	earlier := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, st := range a.disks {
		earlier(st.retry)
		earlier(st.due)
	}
	for _, dep := range a.leaving {
		earlier(dep.retry)
	}
	if !a.ready {
		earlier(a.started.Add(a.settings.ReadyTimeout))
	}
	earlier(a.untold)
	return next, !next.IsZero()
}

// tell gives the reporter the state of the whole, and READY when it is time.
func (a *Agent) tell() {
	var mounted, given, held, refused, failing, left int
	var open bool
	var outstanding, proving []string
	for name, st := range a.disks {
		open = open || st.initial
		switch {
		case st.stuck != nil, st.decision.Amiss():
			failing++
		case st.busy && (st.decision.Action == disk.Prove || st.decision.Action == disk.Format):
			proving = append(proving, name)
		case st.busy || st.decision.Action == disk.Wait:
			outstanding = append(outstanding, name)
		case st.decision.Mounted():
			mounted++
		case st.decision.GivenOut():
			given++
		case st.decision.Action == disk.Hold:
			held++
		case st.decision.Action == disk.Refuse:
			refused++
		}
	}
	for _, dep := range a.leaving {
		if dep.answer == nil && dep.facts.Standing.Link != dep.path {
			left++
		}
	}
	text := fmt.Sprintf("%d mounted, %d held, %d refused, %d failing", mounted, held, refused, failing)
	if given > 0 {
		text += fmt.Sprintf(", %d given out", given)
	}
	if left > 0 {
		text += fmt.Sprintf(", %d gone but still mounted", left)
	}
	if len(outstanding) > 0 {
		slices.Sort(outstanding)
		text += "; working on " + strings.Join(outstanding, ", ")
	}
	if len(proving) > 0 {
		slices.Sort(proving)
		text += "; proving blank, and formatting if so: " + strings.Join(proving, ", ")
	}
	// Each line is work for PID 1, which has enough to do when disks come: while there is
	// work it gets one a second, none at first but after a reload, and the last one at once.
	now, work := time.Now(), len(outstanding)+len(proving) > 0
	switch {
	case text == a.lastLine:
		a.untold = time.Time{}
	case work && a.untold.IsZero():
		if a.untold = now.Add(statusAfter); a.untold.Before(a.told.Add(statusEvery)) {
			a.untold = a.told.Add(statusEvery)
		}
	case !work || !now.Before(a.untold):
		a.untold = time.Time{}
		a.lastLine, a.told = text, now
		a.report.Status(text)
	}
	if !a.ready && (!open || time.Since(a.started) >= a.settings.ReadyTimeout) {
		a.ready = true
		a.report.Ready()
	}
}
