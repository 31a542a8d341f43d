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
		Long: "Make the state directory if it does not exist. Each installation of the package runs this command. Disks that\n" +
			"are attached at that moment and are not known to hold a filesystem are held until `hotmount accept DISK`.\n" +
			"An existing state directory is kept. If hotmount could not write to it but can now, it formats disks again.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return helper.InitState(c.Context(), host(), socket, c.OutOrStdout(), usableBy(c))
		},
	}, &cobra.Command{
		Use:   "keep",
		Short: "Keep the records of a worker that has a new machine-id",
		Long: "Record that this is the same worker as before, under a new machine-id. The blank disks that are held because of\n" +
			"the new machine-id are formatted. This needs root.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return helper.KeepState(c.Context(), host(), socket, c.OutOrStdout())
		},
	}, &cobra.Command{
		Use:   "reset",
		Short: "Remove the records of another worker, or seal an image",
		Long: "Remove hotmount's records of disks. No disk is touched. Disks that are attached at the next start of\n" +
			"hotmount.service count as attached before the installation. The command refuses while the service runs, while a volume\n" +
			"is mounted, or while a disk that was given out as a block volume is attached. This needs root.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return helper.ResetState(c.Context(), host(), socket, c.OutOrStdout(), usableBy(c))
		},
	})
	return c
}

// usableBy returns a function that calls usable for the command.
func usableBy(c *cobra.Command) func() (*disk.Settings, error) {
	return func() (*disk.Settings, error) { return usable(c) }
}
