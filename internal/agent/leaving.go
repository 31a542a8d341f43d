package agent

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"hotmount/internal/disk"
)

// The type `departure` describes a mount, mount point or link that must be removed, because its disk is gone or was
// released.
type departure struct {
	facts disk.Facts
	path  string
	busy  bool
	attempts
	retry time.Time
	// The field `named` is true if ProgramUnmount has already named the processes that use the filesystem. The field
	// `unnamed` is the error of the search for processes that still use the filesystem, or nil.
	named   bool
	unnamed error
	// The field `unmounted` is true if the mount is unmounted, and only the mount point remains to be removed.
	unmounted bool
	// The field `leftover` is true if the mount ended before the disk left. At most the mount point of such a mount
	// remains. The agent tries only once to remove a leftover mount point.
	leftover bool
	// The field `answer` receives the result of a release by the operator. The field is nil if the disk is gone. A
	// release by the operator is not retried.
	answer chan error
}

// startDepartures starts the departures that are due.
func (a *Agent) startDepartures(ctx context.Context, now time.Time) {
	for _, dep := range a.leaving {
		if dep.busy || dep.retry.After(now) {
			continue
		}
		dep.busy, dep.retry = true, time.Time{}
		settings := a.settings
		a.work.Go(func() {
			err := a.release(ctx, dep, settings)
			a.give(ctx, func() { a.released(dep, err) })
		})
	}
}

// takeBack removes the link of a block volume. takeBack returns an error if the link still exists afterwards.
func (a *Agent) takeBack(ctx context.Context, dep *departure, s *disk.Settings) error {
	if err := a.units.Stop(ctx, disk.ProgramBlock, dep.facts.ID); err != nil {
		return fmt.Errorf("cannot remove the link %s to %s: %w", dep.path, dep.facts.ID, err)
	}
	now, err := a.host.Gather(s)(dep.facts.Name)
	switch {
	case errors.Is(err, disk.ErrGone):
	case err != nil:
		return err
	case now.Seq == dep.facts.Seq && now.Standing.Link == dep.path:
		return fmt.Errorf("cannot remove the link %s to %s: the link is still there; see journalctl -u hotmount-block@%d", dep.path, dep.facts.ID, dep.facts.Seq)
	}
	return nil
}

// The method `release` removes the mount of a gone or released disk, and then the mount point. When a disk is gone,
// PID 1 itself stops the mount unit if nothing uses the mount. While the method `release` runs, the agent mounts no
// other disk at the path, so `release` cannot unmount the wrong disk.
func (a *Agent) release(ctx context.Context, dep *departure, s *disk.Settings) error {
	if dep.leftover {
		return a.units.Run(ctx, disk.ProgramCleanup, dep.facts.ID, dep.path)
	}
	if dep.facts.Standing.Link == dep.path {
		return a.takeBack(ctx, dep, s)
	}
	there, err := a.host.MountedAt(dep.path, dep.facts.Dev)
	if err == nil && there && dep.answer == nil {
		// If a disk with the mount's device number is attached, the mount belongs to that disk and must stay.
		attached, err := a.host.Attached(dep.facts.Dev)
		if err != nil {
			return fmt.Errorf("cannot tell whether the disk of %s is there: %w", dep.path, err)
		}
		if attached != 0 {
			return nil
		}
	}
	if err == nil && there {
		err = a.units.Unmount(ctx, dep.path)
		if err != nil && dep.answer == nil {
			err = a.units.Run(ctx, disk.ProgramUnmount, dep.facts.ID, dep.path)
			dep.named = dep.named || err == nil
		}
		if err == nil {
			there, err = a.host.MountedAt(dep.path, dep.facts.Dev)
		}
		if err == nil && there {
			err = fmt.Errorf("the mount table still shows %s", dep.facts.Dev)
		}
	}
	if err != nil {
		if dep.answer != nil {
			return fmt.Errorf("cannot unmount %s of %s: %w", dep.path, dep.facts.ID, err)
		}
		return fmt.Errorf("cannot unmount %s, whose disk %s is gone: %w", dep.path, dep.facts.ID, err)
	}
	dep.unmounted = true
	if err := a.units.Run(ctx, disk.ProgramCleanup, dep.facts.ID, dep.path); err != nil {
		return err
	}
	// The unmount on the host succeeds even if a pod has its own mount of the filesystem. ProgramUnmount names the
	// processes that still use the filesystem.
	if dep.answer == nil && !dep.named {
		dep.unnamed = a.units.Run(ctx, disk.ProgramUnmount, dep.facts.ID, dep.path)
	}
	return nil
}

// startMissedDepartures starts to remove each mount whose disk is gone, unless a look will notice that the disk is
// gone. A disk can leave while no agent is running, or an agent can end before it has removed the mount of a gone disk.
func (a *Agent) startMissedDepartures() {
	stale, err := a.host.Stale(a.settings)
	a.problem(err)
	for i := range stale {
		f := &stale[i]
		where := f.Mounts[0].Path
		if a.leaving[where] == nil && !a.knows(f.Dev, where) {
			a.leaving[where] = &departure{facts: *f, path: where}
			a.report.Report(disk.Event{Kind: disk.EventGone, Facts: f, Path: where})
		}
	}
}

// The method `knows` reports whether the next look at a disk will notice that the disk's mount at this path has to be
// removed.
func (a *Agent) knows(dev disk.Dev, where string) bool {
	for _, st := range a.disks {
		if st.seen && st.facts.Dev == dev && a.path(st) == where {
			return true
		}
	}
	return false
}

func (a *Agent) released(dep *departure, err error) {
	dep.busy = false
	if dep.answer != nil {
		if err != nil && !dep.unmounted {
			err = errors.Join(err, a.host.RecordHold(&dep.facts, "", ""))
		}
		dep.answer <- err
		if a.leaving[dep.path] == dep { // otherwise the disk has left since the departure began
			delete(a.leaving, dep.path)
		}
		a.rescan(a.requestLook)
		return
	}
	if a.leaving[dep.path] != dep {
		return
	}
	if err == nil || dep.leftover {
		a.problem(err)
		delete(a.leaving, dep.path)
		a.problem(dep.unnamed)
		// The disk may have come back under another kernel name, and may wait for this mount point.
		for name, st := range a.disks {
			if st.seen && a.path(st) == dep.path {
				// Earlier mounts may have failed because the old mount was still at the path.
				st.tries.forget()
				a.requestLook(name)
			}
		}
		a.noticeSearch.wanted = true
		return
	}
	now := time.Now()
	again := dep.again(err, now, nodeLongest)
	dep.retry = now.Add(again.Wait)
	a.report.Report(disk.Event{Kind: disk.EventFailed, Facts: &dep.facts, Decision: disk.Decision{UUID: path.Base(dep.path)}, Path: dep.path, Err: err, Tries: again})
}

// removeLeftover starts to remove the mount point of a disk whose mount ended before the disk left. A mount unit that
// hotmount did not make, for example one of systemd-mount, does not remove the mount point.
func (a *Agent) removeLeftover(st *state) {
	seen := st.record.sighting
	if seen == nil {
		return
	}
	where := path.Join(seen.Directory, seen.UUID)
	if a.leaving[where] == nil {
		a.leaving[where] = &departure{facts: st.facts, path: where, leftover: true}
	}
}

// forgetDisk forgets a disk that is no longer attached, and starts to remove its mount.
func (a *Agent) forgetDisk(name string) {
	st := a.disks[name]
	delete(a.disks, name)
	a.wakeAbove(name)
	if st.facts.Seq == 0 {
		return // no look at the disk has succeeded
	}
	where := a.path(st)
	// If the mount of another disk is still being removed at the path, the mount at the path belongs to that other
	// disk.
	if was := a.leaving[where]; where != "" && (was == nil || was.facts.Seq == st.facts.Seq) {
		a.leaving[where] = &departure{facts: st.facts, path: where}
	}
	if where == "" {
		// The disk may be mounted in a directory that no longer belongs to any class.
		a.startMissedDepartures()
		a.removeLeftover(st)
	}
	switch d := st.decision; {
	case d.Reason == disk.ReasonUnselected:
		a.report.Report(disk.Event{Kind: disk.EventDisregarded, Facts: &st.facts})
	case d.Action != disk.Ignore:
		was := where
		if !d.Mounted() && !d.GivenOut() {
			was = "" // the disk was never mounted at the path
		}
		a.report.Report(disk.Event{Kind: disk.EventGone, Facts: &st.facts, Path: was})
	}
	a.recordLeft(st)
	if st.facts.Standing.Noted != nil || st.record.noted != nil {
		a.saves.found = append(a.saves.found, disk.Sighting{Identity: st.facts.Identity(""), Left: true})
	}
	a.problem(a.host.Forget(st.facts.Seq))
	a.wakePeers(&st.facts)
}
