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
		Use:   "accept DISK [REASON]",
		Short: "Let hotmount use a held disk",
		Long: "Lift the hold that hotmount status shows for the disk, or let hotmount try a failed disk again.\n" +
			"With a REASON, the command accepts the disk only if the disk is still held for this reason. With or without a REASON, hotmount formats only a disk that is proven blank.",
		Args:              args(cobra.RangeArgs(1, 2)),
		ValidArgsFunction: cli.CompleteFirst(cli.DisksWith(host, func(f *disk.Facts, d disk.Decision) bool { return cli.NotIgnored(f, d) && !d.Mounted() })),
		RunE: func(c *cobra.Command, given []string) error {
			r := control.Request{Do: "accept", Disk: cli.DiskName(given[0])}
			if len(given) > 1 {
				if r.Reason = given[1]; !cli.IsReason(r.Reason) {
					return usageError{fmt.Errorf("%q is not a reason; to see the reason: hotmount status", disk.Visible(given[1]))}
				}
			}
			text, err := control.Ask(c.Context(), socket, r)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), text)
			return err
		},
	}
}
