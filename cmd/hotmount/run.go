package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"hotmount/internal/cli"
	"hotmount/internal/config"
	"hotmount/internal/control"
	"hotmount/internal/daemon"
	"hotmount/internal/disk"
	"hotmount/internal/report"
	"hotmount/internal/store"
)

func runCommand() *cobra.Command {
	var format, metricsTo string
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := report.NewAs(format)
			if err != nil {
				return usageError{err}
			}
			// A second daemon must change neither the last good settings nor the state of the first daemon. systemd runs
			// hotmount.service only once, but its former daemon may hang in the kernel and still have the socket open.
			if os.Getenv("NOTIFY_SOCKET") == "" && control.Listens(c.Context(), socket) {
				return errors.New("cannot run: another daemon runs; to stop it: systemctl stop hotmount")
			}
			s, fault := loadAndKeep(c, log)
			if fault != nil {
				if s, err = lastGood(host().Store, fault); err != nil {
					return err
				}
				log.Problem(fmt.Errorf("cannot use the configuration: %w; hotmount runs on its last good settings: it mounts or gives out only disks on record, and formats none; the daemon loads a corrected configuration by itself; to see each fault: hotmount config check", fault))
			}
			d := daemon.Daemon{
				Host: host(), Settings: s, Load: func() (*disk.Settings, error) { return loadAndKeep(c, log) }, Log: log,
				Socket: socket, MetricsDirectory: metricsTo, Version: version,
			}
			return d.Run(c.Context())
		},
	}
	c.Flags().StringVar(&format, "log-format", "auto", "text, json or auto (auto: the journal if standard error is connected to it, otherwise text)")
	cli.CompleteFlag(c, "log-format", report.Formats...)
	c.Flags().StringVar(&metricsTo, "metrics-directory", "/var/lib/prometheus/node-exporter", "the `directory` of node_exporter's textfile collector; if the directory does not exist, hotmount writes no metrics")
	if err := c.MarkFlagDirname("metrics-directory"); err != nil {
		panic(err) // a programming error: the flag does not exist
	}
	return configured(c)
}

// loadAndKeep reads the daemon's settings with the function `load`, and returns the settings. If the configuration has no
// fault, loadAndKeep saves the settings on disk. The daemon uses the saved settings if the daemon starts with a faulty
// configuration.
func loadAndKeep(c *cobra.Command, log *report.Log) (*disk.Settings, error) {
	s, err := load(c)
	if err != nil {
		return nil, err
	}
	log.Problem(host().Store.KeepSettings(config.File(s)))
	return s, nil
}

// lastGood returns the saved settings, which the daemon uses while the configuration has a fault. lastGood checks the
// saved settings like any configuration file. With the saved settings, no filesystem grows, because the faulty
// configuration may have turned growth off. If no settings were saved, lastGood returns the fault as its error.
func lastGood(st store.Store, fault error) (*disk.Settings, error) {
	file, err := st.KeptSettings()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault
	}
	var s disk.Settings
	if err == nil {
		s, err = config.Load(config.Source{Environ: []string{"HOTMOUNT_CONFIG=" + file}})
	}
	if err != nil {
		return nil, fmt.Errorf("%w\ncannot use the last good settings instead: %w", fault, err)
	}
	s.Fault = daemon.FaultText(fault)
	for i := range s.Classes {
		s.Classes[i].Grow = false
	}
	return &s, nil
}
