package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hotmount/internal/cli"
	"hotmount/internal/config"
	"hotmount/internal/control"
	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/store"
)

// The linker sets version, commit and date (Makefile).
var version, commit, date = "unknown", "unknown", "unknown"

// usageError is an error in the command line itself.
type usageError struct{ error }

func root() *cobra.Command {
	c := group(&cobra.Command{
		Use:           "hotmount",
		Short:         "Mount the disks that are plugged into a Kubernetes node",
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	// The help does not list the completion command, because the Debian package contains the scripts that the command
	// prints.
	c.CompletionOptions.HiddenDefaultCmd = true
	// The shell completes file names only for the arguments that are files.
	c.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	// The following commands are for people.
	c.AddCommand(
		planCommand(),
		explainCommand(),
		configCommand(),
		statusCommand(),
		eventsCommand(),
		acceptCommand(),
		releaseCommand(),
		forgetCommand(),
		formatCommand(),
		rescanCommand(),
		waitCommand(),
		historyCommand(),
		exportUnitsCommand(),
		doctorCommand(),
		provisionerCommand(),
		stateCommand(),
		versionCommand(),
	)
	// The following commands are for hotmount's units and for child processes that may hang.
	c.AddCommand(runCommand(), lookCommand(), usageCommand())
	c.AddCommand(unitCommands()...)
	return c
}

// The function `group` completes the definition of a command that has only subcommands. Without `group`, cobra prints
// the help for an unknown subcommand, or returns an error that is not a usageError.
func group(c *cobra.Command) *cobra.Command {
	c.DisableFlagsInUseLine = true
	c.SuggestionsMinimumDistance = 2
	c.Args = func(c *cobra.Command, given []string) error {
		if len(given) == 0 {
			return nil
		}
		hint := fmt.Sprintf("see %s --help", c.CommandPath())
		if like := c.SuggestionsFor(given[0]); len(like) > 0 {
			hint = "did you mean " + strings.Join(like, " or ") + "?"
		}
		return usageError{fmt.Errorf("unknown command %q for %q; %s", given[0], c.CommandPath(), hint)}
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}

// args returns a function that checks the number of arguments. A wrong number of arguments is a usageError.
func args(want cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		if err := want(c, given); err != nil {
			return usageError{fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
		}
		return nil
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			goVersion := runtime.Version()
			if info, ok := debug.ReadBuildInfo(); ok {
				goVersion = info.GoVersion
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "hotmount %s (commit %s, %s, %s)\n", version, commit, date, goVersion)
			return err
		},
	}
}

// outputFlag adds the flag -o with the given words as its possible values. The first word is the default value of the
// flag -o. A value of the flag -o that is not one of the words is a usageError.
func outputFlag(c *cobra.Command, output *string, words ...string) {
	last := len(words) - 1
	names := strings.Join(words[:last], ", ") + " or " + words[last]
	c.Flags().StringVarP(output, "output", "o", words[0], names)
	cli.CompleteFlag(c, "output", words...)
	c.PreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains(words, *output) {
			return usageError{fmt.Errorf("cannot print in the format %q: use %s", disk.Visible(*output), names)}
		}
		return nil
	}
}

// The function `configured` adds the configuration flags to the command, and returns the command. The configuration
// flags are --config and the flags that override single settings.
func configured(c *cobra.Command) *cobra.Command {
	config.AddFlags(c.Flags())
	if err := c.MarkFlagFilename("config", "yaml", "yml"); err != nil {
		panic(err) // a programming error: the flag does not exist
	}
	return c
}

// The function `load` returns the settings for a command that has the configuration flags (see `configured`).
func load(c *cobra.Command) (*disk.Settings, error) {
	s, err := config.Load(config.Source{Environ: os.Environ(), Flags: c.Flags()})
	if err != nil {
		return nil, err
	}
	return &s, nil
}

// The function `running` returns the settings of the daemon that runs, or that ran last since the boot. If no daemon
// has run since the boot, or the command line has configuration flags, the settings come from the function `load`.
// Settings from `load` can differ from the daemon's settings. The daemon's unit may name another configuration file, or
// the file may have changed since the last reload. If the configuration has a fault and the command line has no
// configuration flags, `running` returns the last good settings, with which the daemon will start.
func running(c *cobra.Command) (*disk.Settings, error) {
	if config.HasFlags(c.Flags()) {
		return load(c)
	}
	if s, err := host().Store.Settings(); err == nil {
		return s, nil
	}
	s, err := load(c)
	if err != nil {
		return lastGood(host().Store, err)
	}
	return s, nil
}

// The function `usable` returns the settings for commands that must work even if the configuration has a fault: doctor,
// status, `state init` and `state reset`. If the configuration has a fault, `usable` returns the daemon's settings, or
// the defaults if the daemon's settings cannot be read. With a faulty configuration, the function also prints the fault
// and a note that says which settings the command uses. If the command line has configuration flags, `usable` returns
// every fault as an error.
func usable(c *cobra.Command) (*disk.Settings, error) {
	s, err := load(c)
	if err == nil || config.HasFlags(c.Flags()) {
		return s, err
	}
	which := "the settings that the daemon used last"
	theirs, unread := host().Store.Settings()
	if unread != nil {
		which = "the defaults"
		d := config.Default()
		theirs = &d
	}
	_, err = fmt.Fprintf(c.ErrOrStderr(), "hotmount: %v\nThe output below uses %s.\n", err, which)
	return theirs, err
}

// The variable `host` is a function that returns the node. The variable `socket` is the path of the daemon's control
// socket. Tests replace both variables.
var (
	host   = func() inventory.Host { return inventory.Host{Store: store.Default()} }
	socket = control.Socket
)
