package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"hotmount/internal/control"
)

func rescanCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "rescan",
		Short:  "Have the daemon look at every disk",
		Hidden: true, // for hotmount-udev.service
		Args:   args(cobra.NoArgs),
		RunE:   func(c *cobra.Command, _ []string) error { return rescan(c.Context()) },
	}
}

// rescan has the daemon look at every disk. One that does not run will, when it starts.
func rescan(ctx context.Context) error {
	_, err := control.Ask(ctx, socket, control.Request{Do: "look"})
	if errors.Is(err, control.ErrDown) {
		return nil
	}
	return err
}
