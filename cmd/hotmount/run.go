package main

import (
	"github.com/spf13/cobra"

	"hotmount/internal/cli"
	"hotmount/internal/daemon"
	"hotmount/internal/disk"
	"hotmount/internal/report"
)

func runCommand() *cobra.Command {
	var format, metricsTo string
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := load(c)
			if err != nil {
				return err
			}
			log, err := report.NewAs(format)
			if err != nil {
				return usageError{err}
			}
			d := daemon.Daemon{
				Host: host(), Settings: s, Load: func() (*disk.Settings, error) { return load(c) }, Log: log,
				Socket: socket, MetricsDirectory: metricsTo, Version: version,
			}
			return d.Run(c.Context())
		},
	}
	c.Flags().StringVar(&format, "log-format", "auto", "text, json, or auto: the journal if standard error is connected to it, else text")
	cli.CompleteFlag(c, "log-format", report.Formats...)
	c.Flags().StringVar(&metricsTo, "metrics-directory", "/var/lib/prometheus/node-exporter", "the `directory` of node_exporter's textfile collector; without it there are no metrics")
	if err := c.MarkFlagDirname("metrics-directory"); err != nil {
		panic(err) // there is no such flag
	}
	return configured(c)
}
