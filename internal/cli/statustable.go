package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"path"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/usage"
)

// watchPeriod is the time between two reads of the status with --watch.
const watchPeriod = 2 * time.Second

// widestSerial is the largest number of characters of a serial that the wide table shows.
const widestSerial = 36

// StatusOutputs returns the output formats of a status.
func StatusOutputs() []string { return []string{"text", "wide", "json", "yaml"} }

// Print prints the status in the given output format, one of StatusOutputs.
func (s *Status) Print(w io.Writer, output string, colour bool) error {
	switch output {
	case "json":
		return PrintJSON(w, s)
	case "yaml":
		return PrintYAML(w, s)
	}
	return printStatus(w, s, colour, output == "wide", time.Now())
}

// ShowStatus prints the status and returns it. If watch is true, ShowStatus reads the status again and again until ctx
// ends, and returns the last status. On a terminal, ShowStatus prints each status. Otherwise, ShowStatus prints only a
// status that has changed.
func ShowStatus(ctx context.Context, h inventory.Host, w io.Writer, s *disk.Settings, output string, watch bool) (*Status, error) {
	terminal, colour, hung := Terminal(w), Colour(w), usage.Hung{}
	for before := []byte(nil); ; {
		var b bytes.Buffer
		st, err := GetStatus(ctx, h, s, hung)
		if err == nil {
			err = st.Print(&b, output, colour)
		} else if watch {
			// A read of the status can fail while disks are attached and detached. The next read may succeed.
			st = &Status{}
			_, err = fmt.Fprintln(&b, err)
		}
		if err == nil && watch && terminal {
			_, err = io.WriteString(w, "\x1b[H\x1b[2J")
		}
		if err == nil && (!bytes.Equal(b.Bytes(), before) || terminal) {
			_, err = w.Write(b.Bytes())
		}
		if err != nil || !watch {
			return st, err
		}
		before = b.Bytes()
		select {
		case <-ctx.Done():
			return st, nil
		case <-time.After(watchPeriod):
		}
	}
}

// printStatus prints the table. Below the table, printStatus prints the reason and the remedy for each refused, failed
// or held disk, and for each ignored disk of a class. printStatus does the same for each other disk that has a remedy.
func printStatus(w io.Writer, s *Status, colour, wide bool, now time.Time) error {
	var b bytes.Buffer
	if err := printTable(&b, s, wide, now); err != nil {
		return err
	}
	lines := strings.SplitAfter(b.String(), "\n")
	b.Reset()
	if s.Fault != "" {
		fmt.Fprintf(&b, "%s\n\n", wrap("hotmount runs on its last good settings, because the configuration has a fault: "+s.Fault+"; it mounts or gives out only disks on record, and formats none; what helps: hotmount config check", "  "))
	}
	for i, line := range lines {
		if line = strings.TrimRight(line, " \n"); line == "" {
			continue
		}
		if colour && i > 0 {
			line = paint(s.Disks[i-1].State, line)
		}
		b.WriteString(line + "\n")
	}
	for _, d := range s.Disks {
		ignored := d.State == "ignored" && d.Class != "" // the disks of the system belong to no class
		if d.Next == "" && d.State != "refused" && d.State != "failed" && d.State != "held" && !ignored {
			continue
		}
		state := d.State
		if state == "held" && d.Hold != "" {
			state += " (" + string(d.Hold) + ")"
		}
		fmt.Fprintf(&b, "\n%s\n", wrap(fmt.Sprintf("%s is %s: %s", d.title(), state, d.Why), "  "))
		for _, e := range d.Evidence {
			fmt.Fprintf(&b, "  %s\n", wrap("found: "+disk.Visible(e), "    "))
		}
		if d.Next != "" {
			fmt.Fprintf(&b, "  %s\n", wrap("what helps: "+d.Next, "    "))
		}
	}
	for _, m := range s.Missing {
		fmt.Fprintf(&b, "\n%s\n  %s\n", wrap("missing: "+m.Why, "  "), wrap("what helps: "+m.Next, "    "))
	}
	if s.MissingUnknown != "" {
		fmt.Fprintf(&b, "\n%s\n", wrap("cannot list the missing filesystems: "+disk.Visible(s.MissingUnknown), "  "))
	}
	if s.Elsewhere != "" {
		fmt.Fprintf(&b, "\n%s\n", wrap(s.Elsewhere, "  "))
	}
	if s.Daemon == "down" {
		b.WriteString("\nthe daemon does not run: systemctl start hotmount\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}

// printTable prints the table, with one line for each disk.
func printTable(w io.Writer, s *Status, wide bool, now time.Time) error {
	cut := func(s string, n int) string {
		s = disk.Visible(s)
		if wide || utf8.RuneCountInString(s) <= n {
			return s
		}
		return string([]rune(s)[:n-1]) + "…"
	}
	serial := func(s string) string {
		// The column of the serials also shows the names of logical volumes. The wide table shows the beginning and the
		// end of a long name, because long names can differ at either end.
		if all := []rune(disk.Visible(s)); wide && len(all) > widestSerial {
			return string(all[:widestSerial/2]) + "…" + string(all[len(all)-widestSerial/2+1:])
		}
		return cut(cmp.Or(s, "-"), 10)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "DISK\tSIZE\tSERIAL\tCONTENT\tCLASS\tSTATE\tSINCE\tUSE%\tWHERE")
	for _, d := range s.Disks {
		content := string(d.Content)
		if d.Type != "" {
			content = d.Type
		}
		since, use := "-", "-"
		if !d.Since.IsZero() {
			since = age(now.Sub(d.Since))
		}
		if d.Capacity > 0 {
			use = fmt.Sprintf("%d%%", int(math.Ceil(float64(d.Used)*100/float64(d.Capacity))))
		}
		where := d.Where
		if dir, name := path.Split(where); !wide && disk.ValidUUID(name) {
			where = cut(dir, 12) + name[:8] + "…"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cut(d.Disk, 8), disk.HumanSize(d.Size), serial(cmp.Or(d.Name, d.Serial)), cut(content, 9), cut(cmp.Or(d.Class, "-"), 8), d.State, since, use, cmp.Or(cut(where, 21), "-"))
	}
	return t.Flush()
}

// title returns the kernel name of the disk. For a device-mapper device, title adds the name of the device.
func (d *DiskStatus) title() string {
	if d.Name == "" {
		return d.Disk
	}
	return d.Disk + " (" + disk.Visible(d.Name) + ")"
}

// paint returns the line in colour if the state needs attention, and a dim line for an ignored disk.
func paint(state, line string) string {
	switch state {
	case "refused", "failed":
		return "\x1b[31m" + line + "\x1b[0m"
	case "held":
		return "\x1b[33m" + line + "\x1b[0m"
	case "ignored":
		return "\x1b[2m" + line + "\x1b[0m"
	}
	return line
}
