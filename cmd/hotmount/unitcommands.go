package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"

	"github.com/spf13/cobra"

	"hotmount/internal/config"
	"hotmount/internal/disk"
	"hotmount/internal/helper"
	"hotmount/internal/inventory"
	"hotmount/internal/run"
	"hotmount/internal/usage"
)

// unitCommands returns the commands that hotmount's units run. The help does not list the commands of hotmount's
// units.
func unitCommands() []*cobra.Command {
	return []*cobra.Command{
		ofDisk("format-disk", "Prove that one disk is blank, and format the disk", helper.Format),
		growDiskCommand(),
		ofDisk("find-users", "Find the processes that have one disk open", helper.Users),
		ofDisk("give-out", "Give out one disk by a symbolic link while this command runs", helper.GiveOut),
		ofDisk("take-back", "Remove the link to one disk", func(ctx context.Context, h inventory.Host, seq uint64) error {
			return helper.TakeBack(ctx, h, seq, socket)
		}),
		cleanupCommand(),
		hidden("unmount-gone PATH:DEVICE", "Detach the mount of a disk that is gone, and name the users of the mount", 1, func(_ context.Context, given []string) error {
			where, dev, err := helper.ParseGone(given[0])
			if err != nil {
				return usageError{err}
			}
			return helper.UnmountGone(host(), where, dev)
		}),
		hidden("gone NAME:SEQ:[PARTITION]:DEVICE", "Unmount a disk that is gone, if no daemon runs", 1, func(ctx context.Context, given []string) error {
			id, err := helper.ParseID(given[0])
			if err != nil {
				return usageError{err}
			}
			return helper.Gone(ctx, host(), id, socket)
		}),
		hidden("try-options", "Try the mount options of the classes on scratch filesystems", 0, func(ctx context.Context, _ []string) error {
			return helper.TryClasses(ctx, host(), run.Exec{}, config.Default().Classes[0].Options)
		}),
		hidden("trim", "Return the free space of filesystems to the storage", 0, func(ctx context.Context, _ []string) error {
			return helper.Trim(ctx, host())
		}),
	}
}

func rescanCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rescan",
		Short: "Let the daemon look at every disk again",
		Long:  "Let the daemon look at every disk again. Without this command, the daemon does so at the interval of the key rescan.\nhotmount also triggers events for the disks that udev does not know.",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return errors.Join(helper.Announce(c.Context(), host(), run.Exec{}), helper.Rescan(c.Context(), socket))
		},
	}
}

// The function `hidden` returns a hidden command that takes the given number of arguments.
func hidden(use, short string, number int, do func(ctx context.Context, given []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Hidden: true, Args: args(cobra.ExactArgs(number)),
		RunE: func(c *cobra.Command, given []string) error { return do(c.Context(), given) },
	}
}

// ofDisk returns a hidden command that takes a disk sequence number as its argument.
func ofDisk(use, short string, do func(ctx context.Context, h inventory.Host, seq uint64) error) *cobra.Command {
	return hidden(use+" SEQ", short, 1, func(ctx context.Context, given []string) error {
		seq, err := strconv.ParseUint(given[0], 10, 64)
		if err != nil {
			return usageError{fmt.Errorf("%q is not a disk sequence number", given[0])}
		}
		return do(ctx, host(), seq)
	})
}

// growDiskCommand returns the command that hotmount-grow@.service and hotmount-stage@.service run.
func growDiskCommand() *cobra.Command {
	var stage string
	c := ofDisk("grow-disk", "Grow the filesystem of one disk to fill the disk", func(ctx context.Context, h inventory.Host, seq uint64) error {
		return helper.Grow(ctx, h, seq, stage)
	})
	c.Flags().StringVar(&stage, "stage", "", "mount the filesystem at this `directory` in a private mount namespace, and grow it there")
	return c
}

// cleanupCommand returns the command that hotmount-cleanup@.service and hotmount-tidy.service run.
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

// usageCommand returns the command with which hotmount status and the daemon measure how full filesystems are. The
// usage command runs as a separate process, because the command may hang on a dead filesystem.
func usageCommand() *cobra.Command {
	return &cobra.Command{
		Use: "usage PATH...", Short: "Print the usage of filesystems", Hidden: true, Args: args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, given []string) error { return usage.Print(c.OutOrStdout(), given) },
	}
}
