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
		Short: "Let a held disk be used",
		Long: "Give the operator's word that a held disk may be used, or that a disk that failed is worth another try.\n" +
			"It is still formatted only if it is proven blank.",
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
