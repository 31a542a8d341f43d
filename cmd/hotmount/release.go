package main

import (
	"slices"

	"github.com/spf13/cobra"

	"hotmount/internal/cli"
	"hotmount/internal/helper"
)

func releaseCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "release {DISK | UUID}",
		Short: "Unmount a disk so that it can be detached",
		Long: "Unmount a disk that nothing uses. hotmount does not mount the disk again until the disk is attached again or\n" +
			"accepted, or the machine reboots. Once nothing on this machine uses the disk, the command prints that the disk\n" +
			"is safe to detach. The command also checks a disk that was unmounted earlier. The command ends no process, but names the processes that use the disk.",
		Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: cli.CompleteFirst(func() []cobra.Completion {
			return slices.Concat(cli.DisksWith(host, helper.Releasable)(), cli.UUIDsWith(host, cli.MountedOnly)())
		}),
		RunE: func(c *cobra.Command, given []string) error {
			r := helper.Release{Host: host(), Socket: socket, Out: c.OutOrStdout(), Force: force, Sync: helper.SyncFilesystem}
			return r.Do(c.Context(), given[0])
		},
	}
	c.Flags().BoolVar(&force, "force", false, "unmount the disk although pods use it; the command first writes the pods' data to the disk, and prints which pods to delete")
	return c
}
