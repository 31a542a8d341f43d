package main

import (
	"github.com/spf13/cobra"

	"hotmount/internal/helper"
)

func exportUnitsCommand() *cobra.Command {
	return configured(&cobra.Command{
		Use:   "export-units DIRECTORY",
		Short: "Write a .mount unit file for each mounted filesystem, to mount the filesystem without hotmount",
		Long: "Write a unit file for each filesystem that is mounted now. The unit mounts the filesystem at the same path at\n" +
			"every boot, without hotmount. The command overwrites no file, and prints the commands that enable the units.",
		Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(c *cobra.Command, given []string) error {
			s, err := running(c)
			if err != nil {
				return err
			}
			disks, err := host().For(s).Scan()
			if err != nil {
				return err
			}
			return helper.ExportUnits(c.OutOrStdout(), given[0], disks, s)
		},
	})
}
