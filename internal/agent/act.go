package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

// active reports whether the agent has to carry out the action. A mount, for example, is carried out, but a hold is
// only a state.
func active(a disk.Action) bool {
	return a == disk.Mount || a == disk.Link || a == disk.Prove || a == disk.Format || a == disk.Grow
}

// carryOut queues the disk in the lane for its action, or backs off after a failure. The parameter `done` is the action
// that was carried out since the previous look, or empty.
func (a *Agent) carryOut(name string, done disk.Action, c *disk.Content) {
	st := a.disks[name]
	d := st.decision
	// The unit that proves a disk blank also formats the disk. If the decision is still to format the disk after this
	// unit has ended, the unit has failed to format the disk.
	if done == d.Action || done == disk.Prove && (d.Action == disk.Format || d.Action == disk.Mount && !c.Proven) {
		st.tries.unmountable = st.tries.unmountable || done == disk.Mount
		a.backOff(name, unconfirmed(st, done))
		return
	}
	if st.tries.blocked(&st.facts, time.Now()) {
		st.tries.retry = st.tries.retryAfter
		a.enter(st, backingOff)
		return
	}
	if a.leaving[a.path(st)] != nil {
		// The agent is still removing an old mount from the mount point. When the mount point is free, the agent looks
		// at the disks that wait for the mount point.
		a.enter(st, idle)
		return
	}
	a.enter(st, waiting)
	a.lane(st, c).add(name)
}

// lane returns the lane in which the disk waits until its decision is carried out.
func (a *Agent) lane(st *state, c *disk.Content) *lane {
	switch d := st.decision; {
	case d.Action == disk.Grow:
		return &a.lanes.grows
	case d.Action == disk.Link:
		return &a.lanes.mounts
	// After a failed mount, the disk is read before the next try, because udev cannot recognise the result of an
	// unfinished mkfs. A partition is never read, because the unit that reads a disk may also format the disk. A disk
	// that is still mounted for a pod is not read, because the disk cannot be opened exclusively.
	case d.Action == disk.Mount && (c.Proven || !st.tries.unmountable || st.facts.Whole != "" || len(st.facts.Mounts) > 0):
		return &a.lanes.mounts
	}
	return &a.lanes.proofs
}

// The function `unconfirmed` returns the error of an action whose job succeeded, but without the expected result of the
// action. A job without effect can report success, so the agent trusts only the mount table and the disk.
func unconfirmed(st *state, done disk.Action) error {
	if done == disk.Mount {
		return fmt.Errorf("systemd has finished the job of the mount unit, but the mount table does not show %s", st.facts.Dev)
	}
	if st.decision.Action == disk.Link {
		return fmt.Errorf("the unit has started, but the disk's link does not exist; see journalctl -u hotmount-block@%d", st.facts.Seq)
	}
	if st.decision.Action == disk.Grow {
		return errors.New("the unit that grows the filesystem left no result")
	}
	if v := st.facts.Standing.Verdict; v.Valid(&st.facts) && v.Failure != "" {
		return errors.New(v.Failure)
	}
	return fmt.Errorf("the unit that reads the disk left no result; see journalctl -u hotmount-format@%d", st.facts.Seq)
}

// If the last look at a disk is older than oldestLook, the agent looks at the disk again before the mount. Another
// program can begin to use the disk without an event. If another look at the disk is already requested, for example
// after an event, the limit is oldestLookBefore, and not oldestLook. Actions other than mounts run in programs, which
// look at the disk themselves.
const (
	oldestLook       = 5 * time.Second
	oldestLookBefore = 100 * time.Millisecond
)

// startMounts starts to mount each disk whose turn has come, or to give the disk out as a block volume.
func (a *Agent) startMounts(ctx context.Context, now time.Time) {
	l := &a.lanes.mounts
	var deferred []string
	for name, ok := l.next(); ok; name, ok = l.next() {
		if !a.decisionUnchanged(name) {
			continue
		}
		st := a.disks[name]
		if !st.facts.Standing.InSameSlot && !a.allSeen(now) {
			// A disk that the agent has not seen yet may have this disk's serial, or a filesystem with this disk's
			// UUID.
			deferred = append(deferred, name)
			continue
		}
		if age := now.Sub(st.looked); age > oldestLook || st.again && age > oldestLookBefore {
			a.lookNext(name)
			continue
		}
		if a.asksFirst(ctx, name, l) {
			continue
		}
		a.enter(st, acting)
		class := policy.Select(&st.facts, a.settings)
		switch {
		case st.decision.Action == disk.Link:
			a.run(ctx, l, name, disk.ProgramBlock, disk.Link)
		// The filesystem grows before the mount, because the provisioner reads the size of a volume only once, when it
		// first sees the volume. After the growth, the agent decides about the mount again, because a disk with the
		// same UUID may have been attached during the growth.
		case policy.ShouldGrow(&st.facts, class) && st.growSeq != st.facts.Seq:
			a.startFill(ctx, name)
		default:
			a.startMount(ctx, name, class)
		}
	}
	l.waiting = append(deferred, l.waiting...)
}

// The method `run` starts the program p for the named disk.
func (a *Agent) run(ctx context.Context, l *lane, name string, p disk.Program, action disk.Action) {
	id := a.disks[name].facts.ID
	a.startWork(ctx, l, func() func() {
		err := a.units.Run(ctx, p, id, "")
		return func() { a.actionEnded(name, id.Seq, action, err) }
	})
}

// startFill starts to grow a filesystem to the size of its disk before the filesystem is mounted. After the growth, the
// next look decides about the mount again.
func (a *Agent) startFill(ctx context.Context, name string) {
	st := a.disks[name]
	id := st.facts.ID
	a.startWork(ctx, &a.lanes.mounts, func() func() {
		err := a.units.Run(ctx, disk.ProgramFill, id, "")
		return func() {
			st.growSeq, st.growErr = id.Seq, err
			a.lookNext(name)
		}
	})
}

func (a *Agent) startMount(ctx context.Context, name string, class *disk.Class) {
	st := a.disks[name]
	f, d := st.facts, st.decision
	var filling error
	if st.growSeq == f.Seq {
		filling = st.growErr
	}
	st.growSeq, st.growErr = 0, nil
	a.startWork(ctx, &a.lanes.mounts, func() func() {
		err := a.mount(ctx, &f, class, d)
		return func() {
			// If the mount fails with ErrHeld, the agent does not report the failed growth, because the mount is
			// retried often.
			if filling != nil && err == nil {
				a.problem(fmt.Errorf("cannot grow the filesystem of %s before the mount: %w", f.ID, filling))
			} else if filling != nil && !errors.Is(err, disk.ErrHeld) {
				err = errors.Join(err, filling)
			}
			a.actionEnded(name, f.Seq, disk.Mount, err)
		}
	})
}

// The method `mount` mounts the disk, and verifies that PID 1 has not mounted another disk instead. Until udev has
// handled the removal of a disk, the disk's link in /dev/disk/by-diskseq leads to the next disk with that kernel name.
// If the link is outdated, PID 1 mounts the wrong disk. A mounted disk keeps its sequence number, so the number shows
// which disk is mounted.
func (a *Agent) mount(ctx context.Context, f *disk.Facts, class *disk.Class, d disk.Decision) error {
	err := a.units.Mount(ctx, f, class, d.UUID, d.Type)
	seq, attachedErr := a.host.Attached(f.Dev)
	if attachedErr != nil || seq == f.Seq || seq == 0 {
		return errors.Join(err, disk.OfNode(attachedErr))
	}
	path := class.MountPoint(d.UUID)
	there, thereErr := a.host.MountedAt(path, f.Dev)
	if !there || thereErr != nil { // an unmount would remove another disk's mount, which covers this mount
		return errors.Join(err, thereErr)
	}
	unmountErr := a.units.Unmount(ctx, path)
	there, thereErr = a.host.MountedAt(path, f.Dev)
	outcome := "unmounted again"
	if there || unmountErr != nil || thereErr != nil {
		outcome = "still mounted; end the processes that use the mount, then: umount " + path
	}
	return errors.Join(err, fmt.Errorf("%w: the name belonged to another disk already (disk sequence number %d), and hotmount mounted that disk by mistake; that disk is %s", disk.ErrGone, seq, outcome), unmountErr, thereErr)
}

// startPrograms starts a program for each disk whose turn in the lane has come. The unit that proves a disk blank also
// formats it.
func (a *Agent) startPrograms(ctx context.Context, l *lane, p disk.Program, action disk.Action) {
	for name, ok := l.next(); ok; name, ok = l.next() {
		if a.decisionUnchanged(name) && !a.asksFirst(ctx, name, l) {
			a.enter(a.disks[name], acting)
			a.run(ctx, l, name, p, action)
		}
	}
}

// startQuestions starts the questions about the disks whose turn has come. If the mount of a disk has ended,
// startQuestions asks PID 1 for the time at which the disk's device unit became plugged. If a disk is refused or held,
// startQuestions starts the program that finds out which process has the disk open.
func (a *Agent) startQuestions(ctx context.Context) {
	l := &a.lanes.questions
	for name, ok := l.next(); ok; name, ok = l.next() {
		if a.asksFirst(ctx, name, l) {
			continue
		}
		st := a.disks[name]
		id := st.facts.ID
		a.enter(st, acting)
		a.startWork(ctx, l, func() func() {
			plugged, err := a.units.Plugged(ctx, id)
			return func() { a.unmounted(name, id.Seq, plugged, err) }
		})
	}
}

// decisionUnchanged reports whether the decision for a waiting disk is still the same. Disks may have come or gone
// since the decision, or the settings may have changed. If the decision has changed, the disk is looked at again.
func (a *Agent) decisionUnchanged(name string) bool {
	st := a.disks[name]
	f := st.facts
	f.FindPeers(a.facts())
	c := f.KnownContent()
	if policy.Decide(&f, &c, a.settings) == st.decision && !a.outdated(st, st.decision) {
		return true
	}
	a.lookNext(name)
	return false
}

// actionEnded handles the end of an action. The next look shows the result of the action.
func (a *Agent) actionEnded(name string, seq uint64, action disk.Action, err error) {
	st := a.disks[name]
	st.decisionWithOpeners = disk.Decision{}
	same := st.facts.Seq == seq
	st.act.mounting = st.act.mounting || action == disk.Mount && same
	if err != nil && same {
		st.tries.unmountable = st.tries.unmountable || action == disk.Mount
		a.failed(name, err)
		st.tries.mayHaveWritten = true
	} else {
		st.act.done = action
	}
	a.lookNext(name) // the action may have failed because the disk is gone
}

// stopPatience is how long PID 1 may take to stop a mount unit. stopPatience equals the timeout of hotmount's mount
// units (unit.MountTimeout).
const stopPatience = 15 * time.Minute

// The method `unmounted` evaluates PID 1's answer about a disk whose mount has ended. The parameter `plugged` is the time
// at which the disk's device unit became plugged (CLOCK_MONOTONIC), or 0 if the unit is not plugged.
//
// PID 1 ends a mount when the disk's device unit becomes unplugged. PID 1 may consider an attached disk unplugged when
// systemd is upgraded or a udev rule changes. A soft reboot also ends all mounts. After a soft reboot, the parameter
// `plugged` is not earlier than the start of the new userspace. If PID 1 did not end the mount, somebody unmounted the
// disk by hand.
// PID 1 tries only once to end a mount, and the try takes at most stopPatience. If the agent still found the disk
// mounted after the time plugged + stopPatience, PID 1's try had failed. After a failed try of PID 1, too, the agent
// concludes that somebody unmounted the disk by hand.
func (a *Agent) unmounted(name string, seq uint64, plugged time.Duration, err error) {
	st := a.disks[name]
	if st.facts.Seq == seq && err != nil {
		a.backOff(name, fmt.Errorf("cannot tell who unmounted %s: %w", cmp.Or(a.path(st), "the disk"), err))
		return
	}
	a.lookNext(name)
	if st.facts.Seq != seq {
		return
	}
	st.tries.forget()
	mounted := st.facts.Standing.MountedAt
	if st.record.sighting != nil {
		mounted = st.record.sighting.At
	}
	if plugged == 0 || plugged > mounted && st.record.alive <= plugged+stopPatience {
		st.remount = true
		a.report.Report(disk.Event{Kind: disk.EventBounced, Facts: &st.facts, Path: a.path(st)})
		return
	}
	if err := a.host.RecordHold(&st.facts, disk.ReasonUnmounted, ""); err != nil {
		a.problem(err)
		st.remount = true
	}
}
