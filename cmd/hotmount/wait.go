package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"hotmount/internal/cli"
	"hotmount/internal/disk"
	"hotmount/internal/helper"
)

func waitCommand() *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "wait UUID",
		Short: "Wait until the filesystem with this UUID is mounted",
		Long: "Wait until the filesystem with this UUID is mounted in its class directory. A service that needs the filesystem\n" +
			"can have Requires= and After=hotmount-wait@UUID.service.",
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: cli.CompleteFirst(cli.UUIDsWith(host, cli.NotIgnored)),
		RunE: func(c *cobra.Command, given []string) error {
			if !disk.ValidUUID(given[0]) {
				return usageError{fmt.Errorf("%q is not a UUID in lower case", disk.Visible(given[0]))}
			}
			ctx := c.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the filesystem was not mounted within %s; see hotmount plan", timeout))
				defer cancel()
			}
			return helper.Wait(ctx, given[0], func() (*disk.Settings, error) { return running(c) })
		},
	}
	c.Flags().DurationVar(&timeout, "timeout", 0, "the longest time to wait, such as 90s; 0 means no limit")
	return configured(c)
}
