package main

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"hotmount/internal/config"
	"hotmount/internal/disk"
	"hotmount/internal/unit"
)

func cleanupCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:    "cleanup {PATH | --all}",
		Short:  "Remove empty mount points on which nothing is mounted, and dead links",
		Hidden: true, // for hotmount-cleanup@.service and hotmount-tidy.service
		Args:   args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, given []string) error {
			if all == (len(given) == 1) {
				return usageError{errors.New("give either a path or --all")}
			}
			if all {
				return cleanupAll(c)
			}
			return removeMountPoint(path.Dir(given[0]), path.Base(given[0]))
		},
	}
	c.Flags().BoolVar(&all, "all", false, "all mount points in all class directories")
	config.AddFlags(c.Flags())
	return c
}

// removeMountPoint removes nothing in a mount namespace that does not see the
// host's mounts.
func removeMountPoint(dir, name string) error {
	if err := host().Propagates(dir); err != nil {
		return err
	}
	return unit.RemoveMountPoint(dir, name)
}

// cleanupAll takes the class directories of the configuration, and also those
// that the last daemon had: leftovers must go with a broken configuration, too.
func cleanupAll(c *cobra.Command) error {
	dirs, err := host().Store.Directories()
	s, configErr := load(c)
	if configErr == nil {
		for i := range s.Classes {
			dirs = append(dirs, s.Classes[i].Directory)
		}
	}
	err = errors.Join(err, configErr)
	for _, dir := range dirs {
		names, listErr := unit.Leftovers(dir)
		if listErr != nil {
			err = errors.Join(err, fmt.Errorf("cannot clean up %s: %w", dir, listErr))
			continue
		}
		for _, name := range names {
			// A link by which a disk was given out, of an earlier boot perhaps.
			err = errors.Join(err, unit.RemoveDeadLink(dir, name))
			// One that was being made or removed has a "." before its name.
			name = strings.TrimPrefix(name, ".")
			if !disk.ValidUUID(name) {
				continue
			}
			err = errors.Join(err, removeMountPoint(dir, name))
		}
	}
	return err
}
