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
			load := func() (*disk.Settings, error) { return usable(c) }
			return helper.InitState(c.Context(), host(), socket, c.OutOrStdout(), load)
		},
	})
	return c
}
