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
		Long: "Unmount a disk that nobody uses, and keep it unmounted until it is attached again, accepted or the machine\n" +
			"booted. Says that it is safe to detach only when nothing on this machine holds it any more; of a disk that is\n" +
			"unmounted already, too. Kills nothing: who uses it is named.",
		Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: cli.CompleteFirst(func() []cobra.Completion {
			return slices.Concat(cli.DisksWith(host, helper.Releasable)(), cli.UUIDsWith(host, cli.MountedOnly)())
		}),
		RunE: func(c *cobra.Command, given []string) error {
			r := helper.Release{Host: host(), Socket: socket, Out: c.OutOrStdout(), Force: force, Sync: helper.SyncFilesystem}
			return r.Do(c.Context(), given[0])
		},
	}
	c.Flags().BoolVar(&force, "force", false, "unmount it although pods still have it; their data is written first, and they are named to be deleted")
	return c
}
