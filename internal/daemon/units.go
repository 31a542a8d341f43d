package daemon

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/mounts"
	"hotmount/internal/unit"
)

// units makes PID 1 carry out what the agent decides. The embedded manager runs single units.
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

// NameHolders records who still holds the removed disk's filesystem. It does nothing if nobody does.
func (u units) NameHolders(ctx context.Context, f *disk.Facts, path string) error {
	if !mounts.MountedAnywhere(u.host.Root, f.Name) {
		return nil
	}
	return u.UnmountGone(ctx, path, f.Dev)
}

func (u units) Opener(ctx context.Context, seq uint64) (*disk.Opener, error) {
	if err := u.Users(ctx, seq); err != nil {
		return nil, err
	}
	return u.host.Store.TakeOpener(seq)
}

func (u units) Plugged(ctx context.Context, f *disk.Facts) (time.Duration, error) {
	return u.Manager.Plugged(ctx, f.Name)
}

func (u units) RemoveMountPoint(ctx context.Context, path string) error {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return u.StartCleanup(ctx, path)
}
