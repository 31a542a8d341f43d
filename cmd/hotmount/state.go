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
		Short: "Make the state directory, holding the blank disks that are attached now",
		Long: "Make the state directory if it is not there. The package does it when it is installed, also once more. Disks that\n" +
			"are attached at that moment and are not known to hold a filesystem are held until `hotmount accept DISK`.\n" +
			"One that is there is kept as it is; if it could not be written and can be now, disks are formatted again.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return helper.InitState(c.Context(), host(), socket, c.OutOrStdout(), usableBy(c))
		},
	}, &cobra.Command{
		Use:   "keep",
		Short: "Keep the records of a worker that has a new machine-id",
		Long: "Record that this is the same worker as before, under a new machine-id. The blank disks that are held because of\n" +
			"the new machine-id are formatted. For root.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return helper.KeepState(c.Context(), host(), socket, c.OutOrStdout())
		},
	}, &cobra.Command{
		Use:   "reset",
		Short: "Remove the records of another worker, or seal an image",
		Long: "Remove what hotmount remembers of disks, and touch no disk. The disks that are attached at the next start of\n" +
			"hotmount.service count as attached before the installation. It refuses while the service runs, a volume is mounted,\n" +
			"or a disk is attached that was given out as a block volume. For root.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return helper.ResetState(c.Context(), host(), socket, c.OutOrStdout(), usableBy(c))
		},
	})
	return c
}

// usableBy returns usable for the command.
func usableBy(c *cobra.Command) func() (*disk.Settings, error) {
	return func() (*disk.Settings, error) { return usable(c) }
}
