package main

import (
	"github.com/spf13/cobra"

	"hotmount/internal/disk"
	"hotmount/internal/helper"
)

func stateCommand() *cobra.Command {
	c := group(&cobra.Command{Use: "state", Short: "Manage the state directory"})
	c.AddCommand(&cobra.Command{
		Use:   "init",
		Short: "Make the state directory, and hold the blank disks that are attached now",
		Long: "Make the state directory if it does not exist. The package runs this command at its first installation and at an\n" +
			"installation after a removal, except in an image or a chroot. Disks that are attached when the command runs, and\n" +
			"are not known to hold a filesystem, are held until `hotmount accept DISK`.\n" +
			"The command keeps an existing state directory. If hotmount could not write to the directory before and can now,\n" +
			"hotmount formats disks again.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return helper.InitState(c.Context(), host(), socket, c.OutOrStdout(), usableBy(c))
		},
	}, &cobra.Command{
		Use:   "keep",
		Short: "Keep the records of a worker that has a new machine-id",
		Long: "Record that this is the same worker as before, under a new machine-id. hotmount then formats the blank disks\n" +
			"that it holds because of the new machine-id. The command needs root.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return helper.KeepState(c.Context(), host(), socket, c.OutOrStdout())
		},
	}, &cobra.Command{
		Use:   "reset",
		Short: "Remove the records of another worker, or seal an image",
		Long: "Remove hotmount's records of disks. The command touches no disk. Disks that are attached at the next start of\n" +
			"hotmount.service count as attached before the installation. The command fails while the service or a format runs,\n" +
			"while a volume is mounted, or while a disk that was given out as a block volume is attached. The command needs root.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return helper.ResetState(c.Context(), host(), socket, c.OutOrStdout(), usableBy(c))
		},
	})
	return c
}

func usableBy(c *cobra.Command) func() (*disk.Settings, error) {
	return func() (*disk.Settings, error) { return usable(c) }
}
