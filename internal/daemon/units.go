package daemon

import (
	"context"
	"errors"
	"os"
	"slices"

	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/mounts"
	"hotmount/internal/unit"
)

// The type `units` makes PID 1 carry out what the agent has decided.
type units struct {
	*unit.Manager
	mounting *arrivals
	host     inventory.Host
}

func (u units) Unmount(ctx context.Context, path string) error {
	return untilUnmounted(ctx, func() error { return u.StopMount(ctx, path) }, func() (bool, error) {
		table, err := u.host.Mounts()
		return slices.ContainsFunc(table, func(m mounts.Mount) bool { return m.Path == path }), err
	})
}

// Run runs the program. Run does not start ProgramCleanup if the mount point no longer exists. Run does not start
// ProgramUnmount if no filesystem of the device is mounted anywhere.
func (u units) Run(ctx context.Context, p disk.Program, id disk.ID, path string) error {
	switch p {
	case disk.ProgramCleanup:
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			return nil
		}
	case disk.ProgramUnmount:
		if there, err := u.host.MountedAt(path, id.Dev); err == nil && !there && !mounts.MountedAnywhere(u.host.Root, id.Name) {
			return nil
		}
	}
	return u.Manager.Run(ctx, p, id, path)
}

func (u units) Opener(ctx context.Context, id disk.ID) (*disk.Opener, error) {
	if err := u.Manager.Run(ctx, disk.ProgramUsers, id, ""); err != nil {
		return nil, err
	}
	return u.host.Store.TakeOpener(id.Seq)
}
