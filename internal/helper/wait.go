package helper

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// Wait waits until the filesystem is mounted in a class directory. Wait reads the settings at each change of the mount
// table, because the daemon may start later than Wait.
func Wait(ctx context.Context, uuid string, settings func() (*disk.Settings, error)) error {
	watch, found := context.WithCancel(ctx)
	defer found()
	look := func() (bool, error) {
		s, err := settings()
		if err != nil {
			return false, err
		}
		tree, err := mounts.Tree("")
		return err == nil && isMounted(tree, uuid, s, attached), err
	}
	var mounted bool
	var lookErr error
	err := mounts.Watch(watch, func() {
		if mounted, lookErr = look(); mounted || lookErr != nil {
			found()
		}
	})
	switch {
	case err != nil || lookErr != nil:
		return cmp.Or(err, lookErr)
	case !mounted:
		return fmt.Errorf("cannot wait until %s is mounted: %w", uuid, context.Cause(ctx))
	}
	return nil
}

// isMounted reports whether the filesystem is mounted at its mount point, from an attached disk, with nothing mounted
// over it.
func isMounted(tree []mounts.Mount, uuid string, s *disk.Settings, attached func(disk.Dev) bool) bool {
	return slices.ContainsFunc(s.Classes, func(c disk.Class) bool {
		m := mounts.At(tree, c.MountPoint(uuid))
		return m != nil && m.Path == c.MountPoint(uuid) && m.Root == "/" && attached(m.Dev)
	})
}

func attached(dev disk.Dev) bool {
	_, err := os.Lstat("/sys/dev/block/" + dev.String())
	return err == nil
}
