package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"hotmount/internal/cli"
	"hotmount/internal/control"
	"hotmount/internal/disk"
)

func acceptCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "accept DISK",
		Short: "Let hotmount use a held disk",
		Long: "Lift the hold that hotmount status shows for the disk, or let hotmount try a failed disk again.\n" +
			"hotmount still formats the disk only if it is proven blank.",
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: cli.CompleteFirst(cli.DisksWith(host, func(f *disk.Facts, d disk.Decision) bool { return cli.NotIgnored(f, d) && !d.Mounted() })),
		RunE: func(c *cobra.Command, given []string) error {
			text, err := control.Ask(c.Context(), socket, control.Request{Do: "accept", Disk: cli.DiskName(given[0])})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), text)
			return err
		},
	}
}
