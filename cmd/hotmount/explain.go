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
		Short: "Say which class has a disk and why, and what speaks against formatting it",
		Long: "Print every class with every selector, what was found and whether it held; every condition that has to hold before\n" +
			"the disk is formatted; and the decision. Nothing is written. As root it also reads a disk on which nothing is known.\n" +
			"With --facts it prints instead all that this rests on, to be sent in: hotmount explain --from FILE explains that\n" +
			"anywhere, with the configuration of the node where it was made, or with the one that the other flags give.",
		Args:              args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: cli.CompleteFirst(cli.DisksWith(host, cli.NotIgnored)),
		RunE: func(c *cobra.Command, given []string) error {
			if (from == "") == (len(given) == 0) {
				return usageError{fmt.Errorf("expected a disk, or --from FILE; see %s --help", c.CommandPath())}
			}
			var d *cli.Dump
			var err error
			if from != "" {
				if d, err = cli.ReadDump(c.InOrStdin(), from); err == nil && config.Given(c.Flags()) {
					d.Settings, err = load(c)
					d.Fails = "" // with other settings it may be another decision
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
	c.Flags().BoolVar(&facts, "facts", false, "print what the decision rests on, as JSON")
	c.Flags().StringVar(&from, "from", "", "explain what --facts has printed into this `file`; - is the standard input")
	return configured(c)
}
