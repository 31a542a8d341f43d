package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"hotmount/internal/cli"
	"hotmount/internal/disk"
	"hotmount/internal/helper"
)

func forgetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "forget UUID",
		Short: "Give up a missing filesystem",
		Long: "Give up a filesystem whose disk will not come back. hotmount no longer lists the filesystem as missing, and no\n" +
			"longer holds a blank disk in the slot of the lost disk. If the disk comes back, hotmount mounts it as before. The command needs root.",
		Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: cli.CompleteFirst(func() []cobra.Completion {
			s, err := host().Store.Settings()
			if err != nil {
				return nil // no daemon has run since the node booted
			}
			var words []cobra.Completion
			missing, _ := helper.Missing(host(), s)
			for _, m := range missing {
				words = append(words, cobra.CompletionWithDesc(m.UUID, disk.HumanSize(m.Identity.Size)))
			}
			return words
		}),
		RunE: func(c *cobra.Command, given []string) error {
			s, err := load(c)
			if err == nil {
				err = helper.Forget(host(), s, given[0])
			}
			if err != nil {
				return fmt.Errorf("cannot forget %s: %w", disk.Visible(given[0]), err)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is no longer listed as missing\n", given[0])
			// After a rescan, the daemon reports only the filesystems that are still missing.
			return helper.Rescan(c.Context(), socket)
		},
	}
}
