package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"hotmount/internal/cli"
)

func eventsCommand() *cobra.Command {
	var (
		output   string
		lines    int
		noFollow bool
	)
	c := &cobra.Command{
		Use:   "events [DISK | UUID | CLASS | REASON]",
		Short: "Follow what hotmount does",
		Long: "Print what hotmount and its units do, one line for each event, from the journal.\n" +
			"Only root and members of the groups adm or systemd-journal can run the command.",
		Args:              args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: cli.CompleteFirst(func() []cobra.Completion { return cli.EventSubjects(host) }),
		RunE: func(c *cobra.Command, given []string) error {
			if lines < 0 {
				return usageError{fmt.Errorf("cannot print %d lines", lines)}
			}
			w := c.OutOrStdout()
			show := cli.PrintEvent(w, cli.Colour(w))
			if output == "json" {
				show = cli.EncodeEvent(w)
			}
			return cli.FollowEvents(c.Context(), cli.EventMatches(given, cli.ClassNames()), lines, !noFollow, show)
		},
	}
	outputFlag(c, &output, "text", "json")
	c.Flags().IntVarP(&lines, "lines", "n", 10, "how many earlier events to print")
	c.Flags().BoolVar(&noFollow, "no-follow", false, "do not wait for further events")
	return c
}
