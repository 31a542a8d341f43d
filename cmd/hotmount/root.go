package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"hotmount/internal/config"
	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/store"
)

// Set by the linker (Makefile).
var version, commit, date = "unknown", "unknown", "unknown"

// usageError is a mistake in the call itself.
type usageError struct{ error }

func root() *cobra.Command {
	c := &cobra.Command{
		Use:           "hotmount",
		Short:         "Mount the disks that are plugged into a Kubernetes node",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	// For people.
	c.AddCommand(
		planCommand(),
		statusCommand(),
		acceptCommand(),
		releaseCommand(),
		formatCommand(),
		waitCommand(),
		historyCommand(),
		doctorCommand(),
		stateCommand(),
		versionCommand(),
	)
	// For the units.
	c.AddCommand(
		runCommand(),
		lookCommand(),
		usageCommand(),
		formatDiskCommand(),
		cleanupCommand(),
		unmountGoneCommand(),
	)
	return c
}

// args makes a wrong number of arguments a mistake in the call.
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
		Use: "version", Short: "Say which hotmount this is", Args: args(cobra.NoArgs),
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

// load reads the configuration for a command that has config.AddFlags' flags.
func load(c *cobra.Command) (*disk.Settings, error) {
	s, err := config.Load(config.Source{Environ: os.Environ(), Flags: c.Flags()})
	if err != nil {
		return nil, err
	}
	return &s, nil
}

func host() inventory.Host { return inventory.Host{Store: store.Default()} }
