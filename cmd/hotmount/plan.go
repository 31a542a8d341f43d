package main

import (
	"context"

	"github.com/spf13/cobra"

	"hotmount/internal/cli"
	"hotmount/internal/disk"
	"hotmount/internal/helper"
)

func planCommand() *cobra.Command {
	var verbose bool
	c := &cobra.Command{
		Use:   "plan",
		Short: "Show what the daemon would do with each disk, and why",
		Long: "Print the decision for each disk, and the reason. The command writes nothing. As root, the command also reads disks without known\n" +
			"content, as the daemon does before it formats them.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := load(c)
			if err != nil {
				return err
			}
			disks, err := cli.Plan(c.Context(), host(), c.OutOrStdout(), s, prove, verbose)
			if err != nil {
				return err
			}
			if err := cli.WarnUnused(c.ErrOrStderr(), source(c), disks, s); err != nil {
				return err
			}
			if err := cli.WarnHeld(c.ErrOrStderr(), host(), s); err != nil {
				return err
			}
			if !cli.DaemonRuns(host().Root) {
				return nil
			}
			return cli.OtherSettings(c.ErrOrStderr(), host().Store, s)
		},
	}
	c.Flags().BoolVarP(&verbose, "evidence", "v", false, "print what was found on each disk, below the table")
	return configured(c)
}

// prove reads a disk, and returns its proven content. A command calls the function `prove` only if root runs the command.
func prove(ctx context.Context, f *disk.Facts, s *disk.Settings) (disk.Content, error) {
	return helper.Prove(ctx, host(), f, s)
}
