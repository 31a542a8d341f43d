package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"hotmount/internal/disk"
	"hotmount/internal/provisioner"
)

func provisionerCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "provisioner",
		Short: "Configure the local-static-provisioner",
	})
	values := &cobra.Command{
		Use:   "values",
		Short: "Print the Helm values for the configuration",
		Long: "Print the values of the Helm chart of sig-storage-local-static-provisioner 2.9 for this node's configuration:\n" +
			"one StorageClass for each class of disks.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := load(c)
			if err != nil {
				return err
			}
			text, err := provisioner.Values(s)
			if err == nil {
				_, err = c.OutOrStdout().Write(text)
			}
			return err
		},
	}
	check := &cobra.Command{
		Use:   "check FILE",
		Short: "Compare Helm values or a ConfigMap with the configuration",
		Long: "Compare a values file of the chart, or the ConfigMap that the chart makes, with this node's configuration. Print each\n" +
			"mismatch. The exit code is 3 if there is a mismatch. A FILE named - is the standard input:\n" +
			"  kubectl get configmap -n NAMESPACE NAME -o yaml | hotmount provisioner check -",
		Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(c *cobra.Command, given []string) error {
			s, err := load(c)
			if err != nil {
				return err
			}
			return checkProvisioner(c, s, given[0])
		},
	}
	c.AddCommand(configured(values), configured(check))
	return c
}

func checkProvisioner(c *cobra.Command, s *disk.Settings, file string) error {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(c.InOrStdin())
	} else {
		data, err = os.ReadFile(file)
	}
	var found []string
	if err == nil {
		found, err = provisioner.Check(s, data)
	}
	if err != nil {
		return fmt.Errorf("cannot check %s: %w", file, err)
	}
	for _, line := range found {
		fmt.Fprintln(c.OutOrStdout(), line)
	}
	if len(found) > 0 {
		return foundError{fmt.Errorf("%s in %s; to print values that fit: hotmount provisioner values", disk.Count(len(found), "difference"), file)}
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s fits the configuration\n", file)
	return err
}
