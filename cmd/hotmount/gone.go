package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"hotmount/internal/control"
	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/unit"
)

func goneCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "gone DEVICE",
		Short:  "Unmount what is mounted of a device that is gone, if there is no daemon that does",
		Hidden: true, // for hotmount-gone@.service
		Args:   args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, given []string) error {
			dev, err := disk.ParseDev(given[0])
			if err != nil {
				return usageError{err}
			}
			h := host()
			return gone(c.Context(), units{manager: new(unit.Manager), store: h.Store}, h, dev)
		},
	}
}

// The daemon that runs when the disk goes may end before it is done. It is looked after
// that long, and then each time after twice as long.
const (
	goneFirst = time.Second
	goneMost  = 30 * time.Second
)

// gone does what the daemon does with a disk that is gone (agent.Agent), but once: of
// what failed the unit makes another try.
func gone(ctx context.Context, u units, h inventory.Host, dev disk.Dev) error {
	// Those of the last daemon: there may be no configuration that can be read.
	dirs, err := u.store.Directories()
	if err != nil {
		return err
	}
	var s disk.Settings
	for _, dir := range dirs {
		s.Classes = append(s.Classes, disk.Class{Directory: dir})
	}
	for wait := goneFirst; ; wait = min(2*wait, goneMost) {
		all, err := h.Stale(&s)
		if err != nil {
			return err
		}
		var left []disk.Facts
		for _, f := range all {
			if f.Dev == dev {
				left = append(left, f)
			}
		}
		if len(left) == 0 {
			return nil
		}
		if !control.Listens(ctx, socket) {
			for i := range left {
				err = errors.Join(err, leave(ctx, u, &left[i]))
			}
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// leave unmounts the disk where it is mounted, but not what is mounted over it, which
// PID 1 would. If nobody uses the disk PID 1 may have been first.
func leave(ctx context.Context, u units, f *disk.Facts) error {
	where := f.Mounts[0].Path
	there, err := isThere(where, f.Dev)
	switch {
	case err != nil || !there:
	case u.Unmount(ctx, where) == nil:
		err = u.NameHolders(ctx, f, where)
	default:
		err = u.UnmountGone(ctx, where, f.Dev)
	}
	if err != nil {
		return fmt.Errorf("cannot unmount %s of %s, which is gone: %w", where, f.ID, err)
	}
	return u.RemoveMountPoint(ctx, where)
}
