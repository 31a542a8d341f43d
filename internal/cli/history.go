package cli

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"hotmount/internal/disk"
)

// PrintHistory prints the record of each decision to format a disk, in a form for people.
func PrintHistory(w io.Writer, all []disk.Record) error {
	for i := range all {
		r := &all[i]
		outcome := "not recorded: the format still runs, or a crash ended the format"
		switch {
		case r.Made():
			outcome = "made " + timestamp(r.Ended)
		case r.Failure != "":
			outcome = "failed " + timestamp(r.Ended) + ": " + disk.Visible(r.Failure)
		}
		when := timestamp(r.Begun)
		if noticed := r.Time(time.Now()); !noticed.Equal(r.Begun) {
			when += " (the clock was wrong, as hotmount noticed at " + timestamp(noticed) + ")"
		}
		_, err := fmt.Fprintf(w, "%s  %s %s on %s, by the %s\n  disk: %s\n  outcome: %s\n  evidence:\n%s",
			when, cmp.Or(r.Type, disk.XFS), r.UUID, disk.Visible(r.Name), disk.Visible(r.By), describe(r.Identity), outcome, indented(r.Evidence))
		if err != nil {
			return err
		}
	}
	return nil
}

// describe returns the values that identify the disk: serial, size, slot and disk sequence number.
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

// The function `indented` returns the lines of evidence, each with an indent.
func indented(evidence []string) string {
	var b []byte
	for _, line := range evidence {
		b = fmt.Appendf(b, "    %s\n", line)
	}
	return string(b)
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
