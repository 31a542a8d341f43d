package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"

	"github.com/spf13/cobra"

	"hotmount/internal/disk"
	"hotmount/internal/helper"
	"hotmount/internal/run"
	"hotmount/internal/usage"
)

// The commands in this file are for hotmount's units, and hidden from people.

// diskCommand returns a command of a unit that takes a disk sequence number.
func diskCommand(use, short string, do func(ctx context.Context, seq uint64) error) *cobra.Command {
	return &cobra.Command{
		Use: use + " SEQ", Short: short, Hidden: true, Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, given []string) error {
			seq, err := strconv.ParseUint(given[0], 10, 64)
			if err != nil {
				return usageError{fmt.Errorf("cannot take %q for a disk sequence number", given[0])}
			}
			return do(c.Context(), seq)
		},
	}
}

// formatDiskCommand is for hotmount-format@.service.
func formatDiskCommand() *cobra.Command {
	return diskCommand("format-disk", "Prove one disk blank, and format it if it is", func(ctx context.Context, seq uint64) error {
		return helper.Format(ctx, host(), seq)
	})
}

// growDiskCommand is for hotmount-grow@.service and hotmount-stage@.service.
func growDiskCommand() *cobra.Command {
	var stage string
	c := diskCommand("grow-disk", "Grow the filesystem of one disk to fill it", func(ctx context.Context, seq uint64) error {
		return helper.Grow(ctx, host(), seq, stage)
	})
	c.Flags().StringVar(&stage, "stage", "", "mount it in the `directory` for that, in a private mount namespace")
	return c
}

// usersCommand is for hotmount-users@.service.
func usersCommand() *cobra.Command {
	return diskCommand("find-users", "Find out who has one disk open", func(ctx context.Context, seq uint64) error {
		return helper.Users(ctx, host(), seq)
	})
}

// giveOutCommand and takeBackCommand are for hotmount-block@.service.
func giveOutCommand() *cobra.Command {
	return diskCommand("give-out", "Give one disk out by a link while this runs", func(_ context.Context, seq uint64) error {
		return helper.GiveOut(host(), seq)
	})
}

func takeBackCommand() *cobra.Command {
	return diskCommand("take-back", "Remove the link to one disk", func(ctx context.Context, seq uint64) error {
		return helper.TakeBack(ctx, host(), seq, socket)
	})
}

// unmountGoneCommand is for hotmount-unmount@.service.
func unmountGoneCommand() *cobra.Command {
	return &cobra.Command{
		Use: "unmount-gone PATH:DEVICE", Short: "Detach the mount of a disk that is gone, and name its users", Hidden: true, Args: args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, given []string) error {
			where, dev, err := helper.ParseGone(given[0])
			if err != nil {
				return usageError{err}
			}
			return helper.UnmountGone(host(), where, dev)
		},
	}
}

// goneCommand is for hotmount-gone@.service.
func goneCommand() *cobra.Command {
	return &cobra.Command{
		Use: "gone NAME:SEQ:[PARTITION]:DEVICE", Short: "Unmount a disk that is gone, if no daemon does", Hidden: true, Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, given []string) error {
			id, err := helper.ParseID(given[0])
			if err != nil {
				return usageError{err}
			}
			return helper.Gone(c.Context(), host(), id, socket)
		},
	}
}

// cleanupCommand is for hotmount-cleanup@.service and hotmount-tidy.service.
func cleanupCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "cleanup {PATH | --all}", Short: "Remove empty mount points and dead links", Hidden: true, Args: args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, given []string) error {
			if all == (len(given) == 1) {
				return usageError{errors.New("give either a path or --all")}
			}
			if all {
				return helper.CleanupAll(host(), func() (*disk.Settings, error) { return load(c) })
			}
			return helper.RemoveMountPoint(host(), path.Dir(given[0]), path.Base(given[0]))
		},
	}
	c.Flags().BoolVar(&all, "all", false, "all mount points in all class directories")
	return configured(c)
}

// trimCommand is for hotmount-trim.service.
func trimCommand() *cobra.Command {
	return &cobra.Command{
		Use: "trim", Short: "Give the free space of filesystems back to the storage", Hidden: true, Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return helper.Trim(c.Context(), host()) },
	}
}

// rescanCommand is for hotmount-udev.service.
func rescanCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rescan", Short: "Trigger events for disks that udev does not know, and let the daemon look at each disk", Hidden: true, Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return errors.Join(helper.Announce(c.Context(), host(), run.Exec{}), helper.Rescan(c.Context(), socket))
		},
	}
}

// usageCommand is for status and the daemon. It runs as a process of its own that may hang.
func usageCommand() *cobra.Command {
	return &cobra.Command{
		Use: "usage PATH...", Short: "Print the usage of filesystems", Hidden: true, Args: args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, given []string) error { return usage.Print(c.OutOrStdout(), given) },
	}
}
