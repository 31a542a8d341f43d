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
		Short: "List the disks that were formatted: when, by whom and with which evidence",
		Long:  "Print the record of each filesystem that hotmount made on this node, the newest last. The command needs root.",
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
