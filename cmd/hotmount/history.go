package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"hotmount/internal/disk"
)

func historyCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "history",
		Short: "Say which disks were formatted, when, by whom, and on what evidence",
		Long:  "Print the record of every filesystem that hotmount made on this node, the newest last. For root.",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return usageError{fmt.Errorf("cannot print as %q: give text or json", disk.Visible(output))}
			}
			all, err := host().Store.History()
			if errors.Is(err, fs.ErrPermission) {
				return fmt.Errorf("%w; it is for root alone", err)
			}
			if err != nil {
				return err
			}
			if output == "json" {
				return printJSON(c.OutOrStdout(), append([]disk.Record{}, all...))
			}
			return printHistory(c.OutOrStdout(), all)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	complete(c, "output", "text", "json")
	return c
}

func printHistory(w io.Writer, all []disk.Record) error {
	for i := range all {
		r := &all[i]
		outcome := "not recorded: under way, or ended by a crash"
		switch {
		case r.Made():
			outcome = "made " + stamp(r.Ended)
		case r.Failure != "":
			outcome = "failed " + stamp(r.Ended) + ": " + disk.Visible(r.Failure)
		}
		_, err := fmt.Fprintf(w, "%s  %s %s on %s, by the %s\n  disk: %s\n  outcome: %s\n  evidence:\n%s",
			stamp(r.Begun), cmp.Or(r.Type, disk.XFS), r.UUID, disk.Visible(r.Name), disk.Visible(r.By), describe(r.Identity), outcome, indented(r.Evidence))
		if err != nil {
			return err
		}
	}
	return nil
}

// describe tells a disk from others.
func describe(id disk.Identity) string {
	serial, slot := "no serial", "no slot"
	if id.Serial != "" {
		serial = "serial " + disk.Visible(id.Serial)
	}
	if id.Slot != "" {
		slot = "slot " + disk.Visible(id.Slot)
	}
	return fmt.Sprintf("%s, %s, %s, disk sequence number %d of boot %s", serial, disk.HumanSize(id.Size), slot, id.Seq, disk.Visible(id.Boot))
}

// indented gives each line of evidence on a line of its own.
func indented(evidence []string) string {
	var b []byte
	for _, line := range evidence {
		b = fmt.Appendf(b, "    %s\n", line)
	}
	return string(b)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
