package agent

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"hotmount/internal/disk"
)

// release makes sure that nothing is left of the mount of a disk that is gone.
// PID 1 stops the mount unit by itself when the disk was idle. No other disk is
// mounted there meanwhile, so that what is unmounted is the one that is gone.
func (a *Agent) release(ctx context.Context, dep *departure) error {
	if dep.facts.Standing.Link == dep.path {
		if err := a.units.TakeBack(ctx, dep.facts.Seq); err != nil {
			return fmt.Errorf("cannot remove the link %s to %s: %w", dep.path, dep.facts.ID, err)
		}
		now, err := a.host.Look(dep.facts.Name)
		switch {
		case errors.Is(err, disk.ErrGone):
		case err != nil:
			return err
		case now.Seq == dep.facts.Seq && now.Standing.Link == dep.path:
			return fmt.Errorf("cannot remove the link %s to %s: it is still there; see journalctl -u hotmount-block@%d", dep.path, dep.facts.ID, dep.facts.Seq)
		}
		return nil
	}
	there, err := a.host.MountedAt(dep.path, dep.facts.Dev)
	if err == nil && there {
		err = a.units.Unmount(ctx, dep.path)
		if err != nil && dep.answer == nil && dep.failures > 0 {
			dep.pinned = true
			err = a.units.UnmountGone(ctx, dep.path)
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
		return fmt.Errorf("cannot unmount %s of %s, which is gone: %w", dep.path, dep.facts.ID, err)
	}
	return a.units.RemoveMountPoint(ctx, dep.path)
}

func (a *Agent) released(dep *departure, err error) {
	dep.busy = false
	if dep.answer != nil {
		if err != nil {
			err = errors.Join(err, a.host.KeepUnmounted(&dep.facts, ""))
		}
		dep.answer <- err
		delete(a.leaving, dep.path)
		a.rescan(a.wanted)
		return
	}
	if a.leaving[dep.path] != dep {
		return
	}
	if err == nil {
		delete(a.leaving, dep.path)
		if dep.pinned {
			a.pinned[dep.path] = true
		}
		// The same filesystem may have come back under another name meanwhile.
		for name, st := range a.disks {
			if st.seen && a.path(st) == dep.path {
				a.wanted(name)
			}
		}
		a.glance = true
		return
	}
	dep.failures++
	wait := backoff(min(dep.failures, retries))
	dep.retry = time.Now().Add(wait)
	a.report.Failed(&dep.facts, disk.Decision{UUID: path.Base(dep.path)}, dep.path, err, wait)
}
