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

// units has PID 1 carry out what the agent decides.
type units struct {
	manager  *unit.Manager
	mounting *arrivals
	host     inventory.Host
}

func (u units) Format(ctx context.Context, seq uint64) error { return u.manager.StartFormat(ctx, seq) }

func (u units) Fill(ctx context.Context, seq uint64) error { return u.manager.StartStage(ctx, seq) }

func (u units) Grow(ctx context.Context, seq uint64) error { return u.manager.StartGrow(ctx, seq) }

func (u units) GiveOut(ctx context.Context, seq uint64) error { return u.manager.StartBlock(ctx, seq) }

func (u units) TakeBack(ctx context.Context, seq uint64) error { return u.manager.StopBlock(ctx, seq) }

func (u units) Unmount(ctx context.Context, path string) error {
	return untilUnmounted(ctx, func() error { return u.manager.StopMount(ctx, path) }, func() (bool, error) {
		table, err := u.host.Mounts()
		return slices.ContainsFunc(table, func(m mounts.Mount) bool { return m.Path == path }), err
	})
}

func (u units) UnmountGone(ctx context.Context, path string, dev disk.Dev) error {
	return u.manager.StartUnmountGone(ctx, path, dev)
}

// NameHolders costs nothing where nobody has it.
func (u units) NameHolders(ctx context.Context, f *disk.Facts, path string) error {
	if !mounts.MountedAnywhere(u.host.Root, f.Name) {
		return nil
	}
	return u.manager.StartUnmountGone(ctx, path, f.Dev)
}

func (u units) Plugged(ctx context.Context, f *disk.Facts) (time.Duration, error) {
	return u.manager.Plugged(ctx, f.Name)
}

func (u units) RemoveMountPoint(ctx context.Context, path string) error {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return u.manager.StartCleanup(ctx, path)
}
