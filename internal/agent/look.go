package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

// disksPerGathering limits the cost of Host.Gather in a burst of events. Each call takes longer on a node with more
// disks. The wait before the next call is proportional to the number of busy disks. With 40 busy disks, the wait is as
// long as the last call. With few busy disks, the wait is not noticeable. With 200 busy disks, Host.Gather runs for a
// sixth of the time, unless longestRest makes the wait shorter.
const disksPerGathering = 40

// longestRest is the longest wait between two calls of Host.Gather.
const longestRest = time.Second

// startLooks starts the looks whose turn has come. The looks share one call of Host.Gather, because the call reads the
// mounts and loop devices of all disks. If a look becomes due while Host.Gather runs, the look waits for the next call.
// The running call may have read its data before the look became due.
func (a *Agent) startLooks(ctx context.Context, now time.Time) {
	if a.gathering || now.Before(a.gatherDue) {
		return
	}
	a.gatherDue = time.Time{}
	var look func(name string) (disk.Facts, error)
	gathered := make(chan struct{})
	for name, ok := a.lanes.looks.next(); ok; name, ok = a.lanes.looks.next() {
		a.gathering = true
		a.disks[name].peers.since = a.leftCount
		a.startWork(ctx, &a.lanes.looks, func() func() {
			<-gathered
			f, err := look(name)
			return func() { a.handleFacts(name, f, err) }
		})
	}
	if a.gathering {
		settings := a.settings
		a.work.Go(func() {
			begun := time.Now()
			look = a.host.Gather(settings)
			took := time.Since(begun)
			close(gathered)
			a.give(ctx, func() {
				a.gathering = false
				a.gatherDue = time.Now().Add(min(took*time.Duration(a.busy())/disksPerGathering, longestRest))
			})
		})
	}
}

// The method `busy` returns the number of disks that have queued or running work.
func (a *Agent) busy() (n int) {
	for _, st := range a.disks {
		if st.phase.busy() {
			n++
		}
	}
	return n
}

// handleFacts handles the facts from a look at a disk. handleFacts makes the decision and starts to carry out the
// decision.
func (a *Agent) handleFacts(name string, f disk.Facts, err error) {
	st := a.disks[name]
	gone, another := errors.Is(err, disk.ErrGone), err == nil && st.facts.Seq != 0 && st.facts.Seq != f.Seq
	// A postponed event may concern the next disk with this kernel name.
	if st.again || (gone || another) && !st.hints.due.IsZero() {
		defer a.requestLook(name)
	}
	switch {
	case gone && a.isUnselectedPartition(&st.facts):
		delete(a.disks, name)
		a.report.Report(disk.Event{Kind: disk.EventDisregarded, Facts: &st.facts})
		return
	case gone:
		a.forgetDisk(name)
		return
	case err != nil:
		a.backOff(name, disk.OfNode(err))
		return
	case another: // the known facts are those of the previous disk with this name
		a.forgetDisk(name)
		st = &state{phase: looking, initial: st.initial}
		a.disks[name] = st
	}
	if st.tries.mayHaveWritten && st.tries.failedFacts != nil {
		st.tries.failedFacts.Writes = f.Writes
	}
	st.tries.mayHaveWritten = false
	f.RecallBelow(&st.facts)
	st.looked = time.Now()
	if st.lostMount(&f) {
		st.facts = f
		a.enter(st, waiting)
		a.lanes.questions.add(name)
		return
	}
	a.decide(name, &f)
}

// decide makes the decision from the facts of a look.
func (a *Agent) decide(name string, f *disk.Facts) {
	st := a.disks[name]
	f.FindPeers(a.facts())
	c := f.KnownContent()
	d := policy.Decide(f, &c, a.settings)
	if a.outdated(st, d) {
		a.lookNext(name)
		return
	}
	changed := !st.seen || st.decision != d || st.unreported
	st.unreported = false
	was := st.act
	st.act = unconfirmedAction{mounting: was.mounting && d.Action == disk.Mount}
	st.facts, st.decision, st.seen = *f, d, true
	if changed {
		a.wakePeers(f)
	}
	wasTooEarly := st.peers.tooEarly
	if st.peers.tooEarly = a.tooEarlyToRefuse(f, d); st.peers.tooEarly {
		a.enter(st, idle)
		return
	}
	changed = changed || wasTooEarly
	if d.Mounted() {
		st.remount = false
	}
	a.unkeepUnmounted(st)
	a.delayRefusal(st)
	a.remember(st, changed)
	changed = st.reportRivals(changed)
	a.note(st, &c)
	if !active(d.Action) && a.asks(st) {
		st.unreported = changed
		a.enter(st, waiting)
		a.lanes.questions.add(name)
		return
	}
	if was.mounting && d.Mounted() {
		a.report.Report(disk.Event{Kind: disk.EventMounted, Facts: f, Decision: d, Path: a.path(st)})
		changed = active(d.Action) && changed || !active(d.Action) && d.Reason != disk.ReasonMounted
	}
	if changed {
		a.report.Report(disk.Event{Kind: disk.EventDecided, Facts: f, Decision: d, Content: &c, Settings: a.settings})
	}
	if active(d.Action) {
		a.carryOut(name, was.done, &c)
	} else {
		a.rest(st)
	}
	// READY also waits for the growth of a mounted filesystem, so that kubelet and the provisioner see the final size.
	// A filesystem grows after its mount if it could not be measured before its mount.
	if d.Action != disk.Mount && d.Action != disk.Link && d.Action != disk.Wait && d.Action != disk.Grow {
		st.initial = false
	}
}

// The method `outdated` reports whether a decision to mount the disk is outdated, because another disk with a recorded
// filesystem has left since the look began. The filesystem may be a copy of the filesystem on that other disk. The
// facts of the look may contain neither the other disk nor the record that it has left.
func (a *Agent) outdated(st *state, d disk.Decision) bool {
	return d.Action == disk.Mount && st.peers.since != a.leftCount
}

// The method `rest` makes a disk idle and forgets its failures, because nothing is to be done with the disk.
func (a *Agent) rest(st *state) {
	a.enter(st, idle)
	st.tries.forget()
	st.growSeq, st.growErr = 0, nil
	if st.tries.reported != "" {
		st.tries.reported = ""
		a.report.Report(disk.Event{Kind: disk.EventRecovered, Facts: &st.facts})
	}
}

// unkeepUnmounted removes the record that the disk is to stay unmounted or to be mounted again, if the disk is mounted
// or given out. A mounted disk can be on record as unmounted if the agent ended during a release, or if somebody
// mounted the disk again. If the mount is leaving, the record stays. If another look is already requested, the facts of
// this look may be outdated, so the record stays.
func (a *Agent) unkeepUnmounted(st *state) {
	s := &st.facts.Standing
	if s.Unmounted == "" && !s.Remount || !st.decision.Mounted() && !st.decision.GivenOut() {
		return
	}
	if a.leaving[a.path(st)] != nil || st.again {
		return
	}
	a.problem(a.host.RecordHold(&st.facts, "", ""))
}

// tooEarlyToRefuse reports whether the refusal of a disk because of its UUID (ReasonTwin) must wait. A disk that was
// refused earlier (Standing.Twin) may be in the slot of its last mount, while no other known disk has its UUID. In this
// case, the refusal waits until the agent has seen all disks (allSeen). The earlier refusal may concern a copy that the
// agent has not seen yet. If the original and the copy have the same serial, only their slots distinguish the two
// disks. If tooEarlyToRefuse returns true, wantDue requests another look later.
func (a *Agent) tooEarlyToRefuse(f *disk.Facts, d disk.Decision) bool {
	return refusedWithoutTwin(f, d) && !a.allSeen(time.Now())
}

// refusedWithoutTwin reports whether the disk is refused although no other disk with its UUID is attached. The disk may
// be the original, or a copy that was refused earlier and is now in the original's slot.
func refusedWithoutTwin(f *disk.Facts, d disk.Decision) bool {
	return d.Reason == disk.ReasonTwin && f.Standing.Twin && f.Standing.InSameSlot && len(f.SameUUID) == 0
}

// allSeen reports whether every disk that was present at start was looked at after udev had finished with it. Until
// udev has finished with a disk, the UUID of the disk is not known. allSeen also returns true once ReadyTimeout has
// passed.
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

// isUnselectedPartition reports whether a missing disk is really an existing partition that no class selects any more.
// The agent does not change such a partition.
func (a *Agent) isUnselectedPartition(f *disk.Facts) bool {
	if f.Partition() == 0 || a.settings.Partitions() {
		return false
	}
	seq, err := a.host.Attached(f.Dev)
	return err == nil && seq == f.Seq
}

// path returns the disk's present or planned mount point, or the path of its link as a block volume. The method `path`
// returns "" if the disk is not to be mounted and has no link.
func (a *Agent) path(st *state) string {
	switch {
	case st.decision.GivenOut():
		return st.facts.Standing.Link
	case st.decision.Action == disk.Ignore: // a class that is no longer configured may have given the disk out
		return st.facts.OwnLink()
	}
	class := policy.Select(&st.facts, a.settings)
	if class == nil || st.decision.UUID == "" || (st.decision.Action != disk.Mount && !st.decision.Mounted()) {
		return ""
	}
	return class.MountPoint(st.decision.UUID)
}

// wakePeers requests a look at the disks whose decision may depend on the disk with the facts f. The disk with the
// facts f may be gone when a waiting mount of a related disk starts. wakePeers therefore repeats the decision about
// each such mount at once.
func (a *Agent) wakePeers(f *disk.Facts) {
	uuid := f.KnownContent().UUID
	mounts := &a.lanes.mounts
	mounts.waiting = slices.DeleteFunc(mounts.waiting, func(name string) bool {
		o := &a.disks[name].facts
		peer := o.Seq != f.Seq && (disk.SameSerial(o.Serial, f.Serial) || uuid != "" && o.KnownContent().UUID == uuid)
		return peer && !a.decisionUnchanged(name)
	})
	for name, st := range a.disks {
		if !st.seen || st.facts.Seq == f.Seq {
			continue
		}
		if _, looks := policy.Peers(&st.facts, st.decision.Reason); looks {
			a.requestLook(name)
		}
	}
}

// wakeAbove requests a look at each device that was built on the disk with that name. When a disk leaves, the kernel
// sends no event for the devices that are built on the disk.
func (a *Agent) wakeAbove(name string) {
	for above, st := range a.disks {
		if slices.ContainsFunc(st.facts.Below, func(u disk.Underlying) bool { return u.Name == name }) {
			a.requestLook(above)
		}
	}
}

// The method `facts` returns the newest facts of every disk, for FindPeers.
func (a *Agent) facts() []*disk.Facts {
	all := make([]*disk.Facts, 0, len(a.disks))
	for _, st := range a.disks {
		if st.facts.Seq != 0 {
			all = append(all, &st.facts)
		}
	}
	return all
}
