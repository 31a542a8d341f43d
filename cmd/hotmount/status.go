package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"hotmount/internal/cli"
	"hotmount/internal/disk"
)

func statusCommand() *cobra.Command {
	var watch bool
	var output string
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the content and state of each disk, and why a disk is not used",
		Long: "Print a table of the disks, and below the table why a disk is not used and what helps. No disk is read: the command\n" +
			"prints the content that the daemon found. The exit code is 3 if a disk is refused, failed or not grown.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := usable(c)
			if err != nil {
				return err
			}
			if cli.DaemonRuns(host().Root) {
				if err := cli.OtherSettings(c.ErrOrStderr(), host().Store, s); err != nil {
					return err
				}
			}
			st, err := cli.ShowStatus(c.Context(), host(), c.OutOrStdout(), s, output, watch)
			if err != nil {
				return err
			}
			return statusVerdict(st)
		},
	}
	outputFlag(c, &output, cli.StatusOutputs()...)
	c.Flags().BoolVarP(&watch, "watch", "w", false, "print the table again at every change")
	return configured(c)
}

// statusVerdict returns an error if a disk is refused, failed or not grown.
func statusVerdict(st *cli.Status) error {
	if bad := st.Bad(); bad > 0 {
		return foundError{fmt.Errorf("%s refused, failed or not grown", disk.Count(bad, "disk"))}
	}
	return nil
}
