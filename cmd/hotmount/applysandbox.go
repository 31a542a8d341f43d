package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"hotmount/internal/helper"
)

func applySandboxCommand() *cobra.Command {
	return configured(&cobra.Command{
		Use:   "apply-sandbox",
		Short: "Let the daemon make mount points in the directories of the classes",
		Long: "Write " + helper.SandboxDropIn + ", which lets the daemon make mount points\n" +
			"in the directories of the classes. If all classes use " + helper.ShippedDirectory + ", remove that file instead.\n" +
			"Disks need no such setting: the daemon opens none, and each unit that formats may open its own disk only.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return applySandbox(c) },
	})
}

func applySandbox(c *cobra.Command) error {
	s, err := load(c)
	if err != nil {
		return err
	}
	text := "The sandbox fits the configuration already."
	changed, err := helper.ApplySandbox(s, helper.SandboxDropIn)
	if err != nil {
		return err
	}
	if changed {
		text = helper.SandboxDropIn + " is changed. It takes effect with:\n  systemctl daemon-reload && systemctl restart hotmount"
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), text)
	return err
}
