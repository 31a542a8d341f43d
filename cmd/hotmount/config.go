package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"hotmount/internal/cli"
	"hotmount/internal/config"
	"hotmount/internal/disk"
	"hotmount/internal/helper"
	"hotmount/internal/run"
)

func configCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "config",
		Short: "Check and show the configuration, and fit the daemon's sandbox to the configuration",
	})
	check := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration",
		Long: "Read the configuration as the daemon does, and print each fault with its file and line, what was found and what is\n" +
			"expected. The check includes the class directories on this machine and, for root, the mount options. The exit code is 3 if\n" +
			"there is a fault.\n" +
			"If a class or an exclusion selects no attached disk, or if a class holds its new disks, the command prints a warning.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return checkConfig(c) },
	}
	show := &cobra.Command{
		Use:   "show",
		Short: "Print the effective configuration and where each value comes from",
		Long: "Print the effective configuration as a configuration file. A comment at each value names the file and line, the\n" +
			"variable or the flag that set it.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := config.Show(source(c))
			if err == nil {
				_, err = fmt.Fprint(c.OutOrStdout(), text)
			}
			return err
		},
	}
	sandbox := &cobra.Command{
		Use:   "apply-sandbox",
		Short: "Let the daemon make mount points in the directories of the classes",
		Long: "Write " + helper.SandboxDropIn + ", which lets the daemon make mount points\n" +
			"in the directories of the classes. If all classes use " + helper.ShippedDirectory + ", the command removes that file instead.\n" +
			"Disks need no such file, because the daemon opens no disk. Each unit that formats can write only to its own disk.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return applySandbox(c) },
	}
	c.AddCommand(configured(check), configured(show), configured(sandbox))
	return c
}

func applySandbox(c *cobra.Command) error {
	s, err := load(c)
	if err != nil {
		return err
	}
	changed, err := helper.ApplySandbox(s, helper.SandboxDropIn)
	if err != nil {
		return err
	}
	text := "The sandbox already fits the configuration."
	if changed {
		text = helper.SandboxDropIn + " is changed. The change takes effect with:\n  systemctl daemon-reload && systemctl restart hotmount"
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), text)
	return err
}

func source(c *cobra.Command) config.Source {
	return config.Source{Environ: os.Environ(), Flags: c.Flags()}
}

func checkConfig(c *cobra.Command) error {
	src := source(c)
	origin := func(key string) string { return config.Origin(src, key) }
	s, err := config.Load(src)
	if err == nil {
		warnings, refused := helper.TryOptions(c.Context(), run.Exec{}, &s, config.Default().Classes[0].Options, origin)
		err = errors.Join(config.Directories(src), helper.AskMkfs(c.Context(), run.Exec{}, &s, origin), refused)
		for _, w := range warnings {
			fmt.Fprintln(c.ErrOrStderr(), w)
		}
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
	if err := cli.WarnMissing(c.ErrOrStderr(), src, &s); err != nil {
		return err
	}
	disks, err := host().For(&s).Scan()
	if err != nil {
		return fmt.Errorf("cannot search for classes that select no disk: %w", err)
	}
	if err := cli.WarnUnused(c.ErrOrStderr(), src, disks, &s); err != nil {
		return err
	}
	return cli.WarnHeld(c.ErrOrStderr(), host(), &s)
}
