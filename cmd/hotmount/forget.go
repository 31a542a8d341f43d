package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"hotmount/internal/config"
	"hotmount/internal/disk"
	"hotmount/internal/helper"
)

func forgetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "forget UUID",
		Short: "Say that a missing disk will not come back",
		Long: "Say of a filesystem that is missing that its disk is gone for good: it is listed as missing no more, and a blank\n" +
			"disk in its slot is not held for it. Should the disk come back all the same, it is mounted. For root.",
		Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: completeFirst(func() []cobra.Completion {
			s, err := config.Load(config.Source{Environ: os.Environ()})
			if err != nil {
				s = config.Default()
			}
			var words []cobra.Completion
			missing, _ := missingOf(&s)
			for _, m := range missing {
				words = append(words, cobra.CompletionWithDesc(m.UUID, disk.HumanSize(m.Identity.Size)))
			}
			return words
		}),
		RunE: func(c *cobra.Command, given []string) error {
			if err := forget(c.OutOrStdout(), given[0]); err != nil {
				return fmt.Errorf("cannot forget %s: %w", disk.Visible(given[0]), err)
			}
			// What is missing is told anew; where no daemon runs nobody tells it.
			return helper.Rescan(c.Context(), socket)
		},
	}
}

func missingOf(s *disk.Settings) ([]disk.Sighting, error) {
	disks, err := hostFor(s).Scan()
	if err != nil {
		return nil, err
	}
	return host().Missing(disks)
}

func forget(w io.Writer, uuid string) error {
	s, err := config.Load(config.Source{Environ: os.Environ()})
	if err != nil {
		return err
	}
	missing, err := missingOf(&s)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(missing, func(m disk.Sighting) bool { return m.UUID == uuid }) {
		return errors.New("no filesystem of that UUID is missing; see hotmount status")
	}
	if err := host().Store.GiveUp(uuid); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s is listed as missing no more\n", uuid)
	return err
}
