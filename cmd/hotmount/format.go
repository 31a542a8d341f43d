package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"hotmount/internal/cli"
	"hotmount/internal/disk"
	"hotmount/internal/helper"
)

func formatCommand() *cobra.Command {
	var token string
	c := &cobra.Command{
		Use:   "format DISK [--confirm TOKEN]",
		Short: "Format a refused or held disk and lose its data",
		Long: "Show what is on a refused or held disk, and print a token. With the token, format the disk: everything on the disk is lost.\n" +
			"The token is valid only for the disk as it is now. The token expires when the disk is written to, resized or\n" +
			"detached, or when the machine restarts. A disk that is mounted, in use, swap space or part of the system is never formatted.",
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: cli.CompleteFirst(cli.DisksWith(host, func(_ *disk.Facts, d disk.Decision) bool { return d.Action == disk.Refuse || d.Action == disk.Hold })),
		RunE: func(c *cobra.Command, given []string) error {
			if os.Geteuid() != 0 {
				return errors.New("cannot format: only root may format a disk")
			}
			name := cli.DiskName(given[0])
			if c.Flags().Changed("confirm") {
				if !helper.ValidToken(token) {
					return usageError{fmt.Errorf("%q is not a token; to print a token: hotmount format %s", disk.Visible(token), disk.Visible(name))}
				}
				return helper.Confirm(c.Context(), host(), c.OutOrStdout(), name, token, socket)
			}
			return helper.PrintToken(c.Context(), host(), c.OutOrStdout(), name)
		},
	}
	c.Flags().StringVar(&token, "confirm", "", "the `token` for the disk")
	return c
}
