package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"hotmount/internal/cli"
	"hotmount/internal/disk"
	"hotmount/internal/doctor"
	"hotmount/internal/helper"
)

func doctorCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find pods and kubelets that write to the system disk instead of a volume",
		Long: "Compare the mounts of the host with those of each kubelet, provisioner and pod. Print which data is not on its volume's disk,\n" +
			"and what to change. The command changes nothing, and needs root. The exit code is 3 if there is a problem or a warning.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return errors.New("cannot see the mounts of other processes; run as root: hotmount doctor")
			}
			s, err := usable(c)
			if err != nil {
				return err
			}
			r, err := doctor.Confirmed(func() (*doctor.Snapshot, error) { return helper.Snapshot(c.Context(), host(), s) })
			if err != nil {
				return err
			}
			if output == "json" {
				err = cli.PrintJSON(c.OutOrStdout(), r)
			} else {
				err = r.Print(c.OutOrStdout())
			}
			if err != nil {
				return err
			}
			return verdict(r)
		},
	}
	outputFlag(c, &output, "text", "json")
	return configured(c)
}

// foundError reports that a command found a fault on the node or in a file.
type foundError struct{ error }

func verdict(r *doctor.Report) error {
	problems, warnings := r.Count(doctor.Problem), r.Count(doctor.Warning)
	if problems+warnings == 0 {
		return nil
	}
	return foundError{fmt.Errorf("found %s and %s", disk.Count(problems, "problem"), disk.Count(warnings, "warning"))}
}

func lookCommand() *cobra.Command {
	var list bool
	c := &cobra.Command{
		Use:    "look {PID <PATHS | --list DIRECTORY}",
		Short:  "Print what a process sees at each NUL-terminated path on standard input, or print the entries of a directory",
		Hidden: true, // doctor runs the command as a separate process, because the command may hang
		Args:   args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, given []string) error {
			return doctor.Child(list, given[0], c.InOrStdin(), c.OutOrStdout())
		},
	}
	c.Flags().BoolVar(&list, "list", false, "list the entries of a directory, even if mounts hide them")
	return c
}
