package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"hotmount/internal/cli"
	"hotmount/internal/config"
	"hotmount/internal/disk"
)

func explainCommand() *cobra.Command {
	var facts bool
	var from string
	c := &cobra.Command{
		Use:   "explain (DISK | --from FILE)",
		Short: "Show which class selects a disk, each condition of a format, and the decision",
		Long: "Print each selector of each class and whether it matches, each condition for a format, and the decision. The command writes\n" +
			"nothing. As root, the command also reads a disk without known content, unless the daemon reads or formats the disk now.\n" +
			"--facts prints the facts behind the decision, for a bug report. hotmount explain --from FILE explains such facts\n" +
			"on any machine. The configuration also comes from FILE, unless flags name another configuration.",
		Args:              args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: cli.CompleteFirst(cli.DisksWith(host, cli.NotIgnored)),
		RunE: func(c *cobra.Command, given []string) error {
			if (from == "") == (len(given) == 0) {
				return usageError{fmt.Errorf("expected a disk, or --from FILE; see %s --help", c.CommandPath())}
			}
			var d *cli.Dump
			var err error
			if from != "" {
				if d, err = cli.ReadDump(c.InOrStdin(), from); err == nil && config.HasFlags(c.Flags()) {
					d.Settings, err = load(c)
					d.Fails = "" // with other settings the decision can differ, so the daemon's failure says nothing about this decision
				}
			} else {
				var s *disk.Settings
				if s, err = load(c); err == nil {
					d, err = cli.DumpOf(c.Context(), host(), cli.DiskName(given[0]), s, prove, version)
				}
			}
			if err != nil {
				return err
			}
			if facts {
				return cli.PrintJSON(c.OutOrStdout(), d)
			}
			return cli.Explain(c.OutOrStdout(), d)
		},
	}
	c.Flags().BoolVar(&facts, "facts", false, "print the facts behind the decision, as JSON")
	c.Flags().StringVar(&from, "from", "", "explain the facts in this `file`; - is the standard input")
	return configured(c)
}
