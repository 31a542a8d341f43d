package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"hotmount/internal/config"
	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

func waitCommand() *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "wait UUID",
		Short: "Wait until the filesystem of that UUID is mounted",
		Long: "Wait until the filesystem of that UUID is mounted in its class directory. A service that needs it can have\n" +
			"Requires= and After=hotmount-wait@UUID.service.",
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: completeFirst(uuidsWith(notIgnored)),
		RunE: func(c *cobra.Command, given []string) error {
			if !disk.ValidUUID(given[0]) {
				return usageError{fmt.Errorf("%q is not a UUID in small letters", disk.Visible(given[0]))}
			}
			ctx := c.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it was not within %s; see hotmount plan", timeout))
				defer cancel()
			}
			return wait(ctx, given[0], func() (*disk.Settings, error) { return running(c) })
		},
	}
	c.Flags().DurationVar(&timeout, "timeout", 0, "for how long at most, such as 90s; 0 is for ever")
	config.AddFlags(c.Flags())
	return c
}

// wait looks at the mount table each time it changes, and at the settings: the daemon may
// come after the one who waits.
func wait(ctx context.Context, uuid string, settings func() (*disk.Settings, error)) error {
	watch, found := context.WithCancel(ctx)
	defer found()
	var mounted bool
	var lookErr error
	err := mounts.Watch(watch, func() {
		s, err := settings()
		var tree []mounts.Mount
		if err == nil {
			tree, err = mounts.Tree("")
		}
		if err != nil {
			lookErr = err
			found()
			return
		}
		if isMounted(tree, uuid, s, attached) {
			mounted = true
			found()
		}
	})
	switch {
	case err != nil:
		return err
	case lookErr != nil:
		return lookErr
	case !mounted:
		return fmt.Errorf("cannot wait until %s is mounted: %w", uuid, context.Cause(ctx))
	}
	return nil
}

// isMounted says whether the filesystem is in its place, from a disk that is attached and
// with nothing mounted over it.
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
