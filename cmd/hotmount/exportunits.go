package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"hotmount/internal/config"
	"hotmount/internal/disk"
	"hotmount/internal/policy"
	"hotmount/internal/unit"
)

func exportUnitsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "export-units DIRECTORY",
		Short: "Write a static .mount file for each mounted filesystem, for those who leave",
		Long: "Write a unit file for each filesystem that is mounted now, which mounts it at the same path at every boot without\n" +
			"hotmount. Changes nothing else: no file is overwritten, and the commands that put them to use are printed.",
		Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(c *cobra.Command, given []string) error {
			s, err := running(c)
			if err != nil {
				return err
			}
			disks, err := hostFor(s).Scan()
			if err != nil {
				return err
			}
			return exportUnits(c.OutOrStdout(), given[0], disks, s)
		},
	}
	config.AddFlags(c.Flags())
	return c
}

func exportUnits(w io.Writer, dir string, disks []disk.Facts, s *disk.Settings) error {
	var names []string
	for i := range disks {
		f := &disks[i]
		c := f.Known()
		d := policy.Decide(f, &c, s)
		if d.GivenOut() {
			fmt.Fprintf(w, "%s is given out as a block volume: no unit can do that\n", f.Node())
		}
		if !d.Mounted() {
			continue
		}
		for _, class := range s.Classes {
			if class.Name != d.Class {
				continue
			}
			u := unit.MountUnit{
				ID: f.ID, Path: class.MountPoint(d.UUID), Type: d.Type, Options: class.Options, Timeout: mountTimeout,
				Description: fmt.Sprintf("%s %s, as hotmount mounted it", d.Type, d.UUID),
			}
			text, err := u.Static()
			if err != nil {
				return err
			}
			if err := writeNew(filepath.Join(dir, unit.Name(u.Path)), text); err != nil {
				return fmt.Errorf("cannot write the unit of %s: %w", f.ID, err)
			}
			names = append(names, unit.Name(u.Path))
		}
	}
	if len(names) == 0 {
		_, err := fmt.Fprintln(w, "no filesystem is mounted by hotmount: nothing was written")
		return err
	}
	_, err := fmt.Fprintf(w, "%s written to %s. To have them mounted without hotmount from the next boot on:\n  apt remove hotmount\n  systemctl daemon-reload\n  systemctl enable '%s'\n",
		disk.Count(len(names), "unit"), disk.Visible(dir), strings.Join(names, "' '"))
	return err
}

func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
