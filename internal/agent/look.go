package agent

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

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
	if errors.Is(err, disk.ErrGone) && a.disregarded(&st.facts) {
		delete(a.disks, name)
		a.report.Disregarded(&st.facts)
		return
	}
	if errors.Is(err, disk.ErrGone) {
		a.gone(name)
		return
	}
	if err != nil {
		a.failed(name, disk.OfNode(err))
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
	if d.Action == disk.Mount && st.since != a.left {
		// It may be a copy of what has left since the look began, and not know it.
		a.wanted(name)
		return
	}
	changed := !st.seen || st.decision != d
	acted := st.acted
	tried := st.tried && d.Mounted()
	st.tried = st.tried && d.Action == disk.Mount
	st.facts, st.decision, st.seen, st.acted = f, d, true, ""
	if changed {
		a.wakePeers(&f)
	}
	early := st.early
	if st.early = a.early(&f, d); st.early {
		return
	}
	changed = changed || early
	if d.Mounted() {
		st.remount = false
	}
	// What was to be unmounted and is there: the agent ended in the midst of a release,
	// or somebody has mounted it again. With another look wanted this one may be too old.
	if (f.Standing.Unmounted != "" || f.Standing.Remount) && (d.Mounted() || d.GivenOut()) && a.leaving[a.path(st)] == nil && !st.again {
		if err := a.host.KeepUnmounted(&f, ""); err != nil {
			a.report.Problem(err)
		}
	}
	a.meet(st)
	a.remember(st, changed)
	if rivals := st.rivals(); changed || slices.ContainsFunc(st.spoken, func(seq uint64) bool { return !slices.Contains(rivals, seq) }) {
		changed, st.spoken = true, rivals
	}
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
		st.filled, st.filling = 0, nil
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

// early says whether the disk, which is where its filesystem was, is refused for another that was
// refused once and may be there: not all disks have been looked at, and of two of one serial
// the slot tells. When they have, start wants another look.
func (a *Agent) early(f *disk.Facts, d disk.Decision) bool {
	return doubted(f, d) && !a.allSeen(time.Now())
}

// doubted says whether the disk is refused since it came alone and another that was refused
// may have taken its slot.
func doubted(f *disk.Facts, d disk.Decision) bool {
	return d.Reason == disk.ReasonTwin && f.Standing.Twin && f.Standing.InPlace && len(f.SameUUID) == 0
}

// disregarded says whether what is not found is a partition that is there, since no class asks
// for partitions any more. It is left as it is, as it would be by a daemon that starts now.
func (a *Agent) disregarded(f *disk.Facts) bool {
	if f.Partition() == 0 || a.settings.Partitions() {
		return false
	}
	seq, err := a.host.Attached(f.Dev)
	return err == nil && seq == f.Seq
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
	if acted == st.decision.Action || acted == disk.Prove && (st.decision.Action == disk.Format || st.decision.Action == disk.Mount && !c.Proven) {
		st.unmountable = st.unmountable || acted == disk.Mount
		a.failed(name, unconfirmed(st, acted))
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
	// filesystem whose mkfs did not finish is one like any other. What a pod still has was mounted,
	// and can not be read alone.
	if st.decision.Action == disk.Link || st.decision.Action == disk.Mount && (c.Proven || !st.unmountable || st.facts.Whole != "" || len(st.facts.Mounts) > 0) {
		a.lines[mountings].add(name)
	} else {
		a.lines[proofs].add(name)
	}
}

// unconfirmed says why an action whose job was done has to be done again. A
// job's result can be wrong; the mount table and the disk count.
func unconfirmed(st *state, acted disk.Action) error {
	if acted == disk.Mount {
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
		st.unmountable = st.unmountable || action == disk.Mount
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
// or a rule of udev changes its mind. Else it was somebody's hand; also if it was there
// long after: it was in use then, and PID 1 tries but once.
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
	if plugged == 0 || plugged > mounted && st.alive <= plugged+stopPatience {
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
	// A filesystem that is held can not be mounted until they have let go who have it, and
	// nothing tells when; nor when a fault of the node is mended.
	most := 0
	if of := (*disk.NodeError)(nil); errors.As(err, &of) {
		most = retries
	} else if errors.Is(err, disk.ErrHeld) {
		most = heldMost
	}
	wait := st.fail(time.Now(), most)
	// What is tried for ever is not told for ever.
	if most > 0 && st.failing && st.told == err.Error() && st.failures >= most {
		return
	}
	st.failing, st.told = true, err.Error()
	a.report.Failed(&st.facts, st.decision, a.path(st), err, wait)
}

// path is where the disk is or is to be mounted, or is given out; empty for nowhere.
func (a *Agent) path(st *state) string {
	switch {
	case st.decision.GivenOut():
		return st.facts.Standing.Link
	case st.decision.Action == disk.Ignore: // also given out by a class that is not configured any more
		return st.facts.OwnLink()
	}
	class := policy.Select(&st.facts, a.settings)
	if class == nil || st.decision.UUID == "" || (st.decision.Action != disk.Mount && !st.decision.Mounted()) {
		return ""
	}
	return class.MountPoint(st.decision.UUID)
}

// wakePeers wants a look at the disks whose decision may have rested on f, or has to rest on it
// where it waits to be carried out: when its turn comes f may have gone.
func (a *Agent) wakePeers(f *disk.Facts) {
	uuid := f.Known().UUID
	var waiting []string
	for _, name := range a.lines[mountings].names {
		o := &a.disks[name].facts
		peer := o.Seq != f.Seq && (disk.SameSerial(o.Serial, f.Serial) || uuid != "" && o.Known().UUID == uuid)
		if !peer || a.holds(name) {
			waiting = append(waiting, name)
		}
	}
	a.lines[mountings].names = waiting
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
func (a *Agent) facts() []*disk.Facts {
	all := make([]*disk.Facts, 0, len(a.disks))
	for _, st := range a.disks {
		if st.seen {
			all = append(all, &st.facts)
		}
	}
	return all
}
