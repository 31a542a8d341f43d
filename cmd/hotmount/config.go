package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"hotmount/internal/config"
	"hotmount/internal/disk"
	"hotmount/internal/format"
	"hotmount/internal/policy"
	"hotmount/internal/run"
)

func configCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "config",
		Short: "Look at the configuration, and fit the sandbox to it",
	})
	check := &cobra.Command{
		Use:   "check",
		Short: "Say what is wrong with the configuration",
		Long: "Read the configuration as the daemon does and print every fault with its file and line, what was found and what was\n" +
			"expected; exit code 3 if there is any. The directories of the classes are looked at as they are on this machine.\n" +
			"A class or an exclusion that selects no attached disk is only a warning.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return checkConfig(c) },
	}
	show := &cobra.Command{
		Use:   "show",
		Short: "Print the effective configuration and where each value comes from",
		Long: "Print what the daemon would run with, as a configuration file that says the same, each value with the file and line,\n" +
			"the variable or the flag that it comes from.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := config.Show(source(c))
			if err == nil {
				_, err = fmt.Fprint(c.OutOrStdout(), text)
			}
			return err
		},
	}
	config.AddFlags(check.Flags())
	config.AddFlags(show.Flags())
	c.AddCommand(check, show, applySandboxCommand())
	return c
}

func source(c *cobra.Command) config.Source {
	return config.Source{Environ: os.Environ(), Flags: c.Flags()}
}

func checkConfig(c *cobra.Command) error {
	src := source(c)
	s, err := config.Load(src)
	if err == nil {
		err = errors.Join(config.Directories(src), askMkfs(c.Context(), run.Exec{}, src, &s))
	}
	if err != nil {
		fmt.Fprintln(c.OutOrStdout(), err)
		return foundError{errors.New("the configuration has " + disk.Count(1+strings.Count(err.Error(), "\n"), "fault"))}
	}
	names := make([]string, 0, len(s.Classes))
	for i := range s.Classes {
		names = append(names, s.Classes[i].Name+" ("+s.Classes[i].Directory+")")
	}
	if _, err = fmt.Fprintf(c.OutOrStdout(), "The configuration is good. Classes: %s\n", strings.Join(names, ", ")); err != nil {
		return err
	}
	disks, err := hostFor(&s).Scan()
	if err != nil {
		return fmt.Errorf("cannot tell whether each class selects a disk: %w", err)
	}
	return warnUnused(c.ErrOrStderr(), src, disks, &s)
}

// warnUnused warns of the classes and exclusions in the files that select none of the disks.
func warnUnused(w io.Writer, src config.Source, disks []disk.Facts, s *disk.Settings) error {
	var warnings strings.Builder
	for _, key := range policy.Unused(disks, s) {
		if at := config.Origin(src, key); at != "default" {
			fmt.Fprintf(&warnings, "%s: warning: %s selects no attached disk\n", at, key)
		}
	}
	if warnings.Len() > 0 {
		warnings.WriteString("Compare with what a disk has: hotmount explain DISK\n")
	}
	_, err := io.WriteString(w, warnings.String())
	return err
}

// askMkfs asks mkfs.xfs or mkfs.ext4 whether it takes what the classes want of it.
func askMkfs(ctx context.Context, r run.Runner, src config.Source, s *disk.Settings) (err error) {
	dir, err := os.MkdirTemp("", "hotmount-check-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for i := range s.Classes {
		class := &s.Classes[i]
		if class.Mode == disk.ModeBlock || class.Create == "none" || len(class.MkfsOptions) == 0 && class.Create != disk.Ext4 {
			continue
		}
		agrees := format.AgreesExt4
		if class.Create == disk.XFS {
			agrees = func(ctx context.Context, r run.Runner, options []string, file string) error {
				return format.Agrees(ctx, r, options, "", file)
			}
		}
		if refused := agrees(ctx, r, class.MkfsOptions, filepath.Join(dir, fmt.Sprint("disk", i))); refused != nil {
			// Its usage is long, and not about the fault.
			what, _, _ := strings.Cut(refused.Error(), `\n`)
			err = errors.Join(err, fmt.Errorf("%s: classes[%d].mkfs_options: found %q, which mkfs.%s refuses: %s", config.Origin(src, fmt.Sprintf("classes[%d].mkfs_options", i)), i, class.MkfsOptions, class.Create, what))
		}
	}
	return err
}
