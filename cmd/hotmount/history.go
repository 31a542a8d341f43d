package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"hotmount/internal/cli"
	"hotmount/internal/disk"
)

func historyCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "history",
		Short: "List the formats of disks: when, by whom, with which evidence and with which result",
		Long:  "Print the record of each format on this node, the newest last. Failed and unfinished formats have a record, too. The command needs root.",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := host().Store.History()
			if errors.Is(err, fs.ErrPermission) {
				return fmt.Errorf("%w; only root may read the history", err)
			}
			if err != nil {
				return err
			}
			if output == "json" {
				return cli.PrintJSON(c.OutOrStdout(), append([]disk.Record{}, all...))
			}
			return cli.PrintHistory(c.OutOrStdout(), all)
		},
	}
	outputFlag(c, &output, "text", "json")
	return c
}
