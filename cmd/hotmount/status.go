package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/coreos/go-systemd/v22/unit"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"hotmount/internal/config"
	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/policy"
	"hotmount/internal/usage"
)

func statusCommand() *cobra.Command {
	var (
		output string
		watch  bool
	)
	c := &cobra.Command{
		Use:   "status",
		Short: "Say of every disk what is on it, where it is, and why it is not used",
		Long: "Print a table of the disks, and below it why a disk is not used and what helps. Nothing is read from the disks:\n" +
			"what the daemon has found on them is shown. The exit code is 3 if a disk is refused or failed.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			print, ok := statusPrinters[output]
			if !ok {
				return usageError{fmt.Errorf("cannot print as %q: give text, wide, json or yaml", disk.Visible(output))}
			}
			s, err := usable(c)
			if err != nil {
				return err
			}
			if daemonRuns("/") {
				if err := otherSettings(c.ErrOrStderr(), s); err != nil {
					return err
				}
			}
			w := c.OutOrStdout()
			t, hung := terminal(w), map[string]int{}
			colour := t && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
			for before := []byte(nil); ; {
				var b bytes.Buffer
				st, err := getStatus(c.Context(), s, hung)
				if err == nil {
					err = print(&b, st, colour)
				} else if watch {
					// What is read while disks come and go may fail, and not the next time.
					st = &status{}
					_, err = fmt.Fprintln(&b, err)
				}
				if err == nil && watch && t {
					_, err = io.WriteString(w, "\x1b[H\x1b[2J")
				}
				if err == nil && (!bytes.Equal(b.Bytes(), before) || t) {
					_, err = w.Write(b.Bytes())
				}
				if err != nil {
					return err
				}
				if !watch {
					return st.verdict()
				}
				before = b.Bytes()
				select {
				case <-c.Context().Done():
					return st.verdict()
				case <-time.After(watchPeriod):
				}
			}
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "text, wide, json or yaml")
	complete(c, "output", "text", "wide", "json", "yaml")
	c.Flags().BoolVarP(&watch, "watch", "w", false, "go on, and print what has changed")
	config.AddFlags(c.Flags())
	return c
}

// watchPeriod is how often --watch looks.
const watchPeriod = 2 * time.Second

// status is what hotmount status prints.
type status struct {
	// Daemon is "running" or "down".
	Daemon string       `json:"daemon"`
	Disks  []diskStatus `json:"disks"`
	// Missing are the filesystems of earlier boots whose disks nobody saw leaving, and
	// that are on none of the disks. Only root can know them.
	Missing []missingStatus `json:"missing,omitempty"`
	// MissingUnknown is why it is not known what is missing, empty if it is.
	MissingUnknown string `json:"missing_unknown,omitempty"`
}

// missingStatus is one filesystem that is missing.
type missingStatus struct {
	UUID  string `json:"uuid"`
	Type  string `json:"type"`
	Class string `json:"class,omitempty"`
	// Size, Serial and Slot are those of the disk, Since when it was last mounted.
	Size   uint64    `json:"size"`
	Serial string    `json:"serial,omitempty"`
	Slot   string    `json:"slot,omitempty"`
	Since  time.Time `json:"since"`
	Why    string    `json:"why"`
	Next   string    `json:"next"`
}

// diskStatus is one disk.
type diskStatus struct {
	Disk string `json:"disk"`
	// Size in bytes.
	Size    uint64    `json:"size"`
	Serial  string    `json:"serial,omitempty"`
	Content disk.Kind `json:"content"`
	Type    string    `json:"type,omitempty"`
	UUID    string    `json:"uuid,omitempty"`
	Class   string    `json:"class,omitempty"`
	// State is a word for the decision and its reason.
	State    string        `json:"state"`
	Decision disk.Decision `json:"decision"`
	// Hold is the kind of a hold, empty where the disk is not held.
	Hold policy.Hold `json:"hold,omitempty"`
	// Since is when it was mounted, when the daemon has decided so, or else when udev
	// last saw it change.
	Since time.Time `json:"since,omitzero"`
	Where string    `json:"where,omitempty"`
	// Used and Capacity in bytes, of a mounted filesystem that answers.
	Used     uint64 `json:"used,omitempty"`
	Capacity uint64 `json:"capacity,omitempty"`
	Why      string `json:"why"`
	Next     string `json:"next,omitempty"`
	// Evidence is what was found on the disk, by udev or, for root to see, by the
	// proof; it may quote the disk.
	Evidence []string `json:"evidence,omitempty"`
}

// verdict is an error if a disk is refused or failed.
func (s *status) verdict() error {
	bad := 0
	for _, d := range s.Disks {
		if d.State == "refused" || d.State == "failed" {
			bad++
		}
	}
	if bad == 0 {
		return nil
	}
	return foundError{fmt.Errorf("%s refused or failed", disk.Count(bad, "disk"))}
}

// getStatus decides as the daemon does, on the same facts. Hung is as for usage.Of.
func getStatus(ctx context.Context, s *disk.Settings, hung map[string]int) (*status, error) {
	disks, sizes, err := usage.Scan(ctx, hostFor(s), hung)
	if err != nil {
		return nil, err
	}
	st := &status{Daemon: "down", Disks: []diskStatus{}}
	if daemonRuns("/") {
		st.Daemon = "running"
	}
	said, err := host().Store.Published()
	if err != nil {
		return nil, err
	}
	for i := range disks {
		f := &disks[i]
		c := f.Known()
		d := policy.Decide(f, &c, s)
		if d.Action == disk.Ignore && (f.Size == 0 || d.Reason == disk.ReasonNoClass) {
			continue
		}
		line := diskStatus{Disk: f.Name, Size: f.Size, Serial: f.Serial, Content: c.Kind, Type: c.Type, UUID: c.UUID, Class: d.Class, State: d.State(), Decision: d}
		if d.GivenOut() {
			line.Where = f.Standing.Link
		}
		seen := "/run/udev/data/b" + f.Dev.String()
		if len(f.Mounts) > 0 {
			line.Where = f.Mounts[0].Path
		}
		if d.Mounted() {
			for _, class := range s.Classes {
				if class.Name == d.Class {
					line.Where = class.MountPoint(d.UUID)
				}
			}
			seen = "/run/systemd/transient/" + unit.UnitNamePathEscape(line.Where) + ".mount"
		}
		if info, err := os.Lstat(seen); err == nil {
			line.Since = info.ModTime()
		}
		line.Evidence, c.Evidence = c.Evidence, nil
		line.Why, line.Next = policy.Words(f, &c, s, d)
		if i := slices.IndexFunc(said, func(l disk.Line) bool { return l.Disk == f.Name && l.Seq == f.Seq }); i >= 0 {
			line.hear(&said[i], st.Daemon)
		}
		line.Hold = policy.HoldOf(line.Decision)
		if u := sizes[line.Where]; u.Dev == f.Dev {
			line.Used, line.Capacity = u.Used, u.Capacity
		}
		st.Disks = append(st.Disks, line)
	}
	if os.Geteuid() == 0 {
		missing, err := host().Missing(disks)
		if err != nil {
			st.MissingUnknown = err.Error()
		}
		for _, m := range missing {
			why, next := inventory.Absence(&m)
			st.Missing = append(st.Missing, missingStatus{UUID: m.UUID, Type: m.Type, Class: m.Class, Size: m.Identity.Size, Serial: m.Identity.Serial, Slot: m.Identity.Slot, Since: m.Mounted, Why: why, Next: next})
		}
	}
	return st, nil
}

// daemonRuns says whether the daemon's main process is there, below a root path.
// Anybody may see it, unlike the control socket (cgroups(7)). A child of it that
// hangs on a dead filesystem outlives it.
func daemonRuns(root string) bool {
	for _, hierarchy := range []string{"", "systemd", "unified"} {
		b, err := os.ReadFile(filepath.Join(root, "sys/fs/cgroup", hierarchy, "system.slice/hotmount.service/cgroup.procs"))
		if err != nil {
			continue
		}
		for _, pid := range strings.Fields(string(b)) {
			line, err := os.ReadFile(filepath.Join(root, "proc", pid, "cmdline"))
			// With hidepid= (proc(5)) others than root see no process but their own.
			if args := strings.Split(string(line), "\x00"); err != nil || len(args) > 1 && args[1] == "run" {
				return true
			}
		}
	}
	return false
}

// hear takes from what the daemon said of the disk what can not be seen by looking
// at it: what the proofs have found and what is remembered, where the caller is
// not root and may not read that; and what could not be done.
func (d *diskStatus) hear(l *disk.Line, daemon string) {
	// Whether it is mounted anybody can see; how much of the disk it takes, and which filesystem it is, not.
	told := d.Decision.Mounted() == l.Decision.Mounted() || d.Decision.Mounted() && l.Decision.Reason == disk.ReasonMisplaced
	if os.Geteuid() != 0 && told {
		d.Content, d.Type, d.UUID, d.Class, d.State, d.Decision, d.Why, d.Next = l.Kind, l.Type, l.UUID, l.Decision.Class, l.Decision.State(), l.Decision, l.Why, l.Next
	}
	if l.Decision == d.Decision && !l.Since.IsZero() && (d.State != "mounted" || d.Since.IsZero()) {
		d.Since = l.Since
	}
	switch {
	case l.Failure == "" || l.Decision.Action != d.Decision.Action:
	case daemon == "down":
		d.State, d.Why, d.Next = "failed", "when the daemon ran: "+l.Failure, "it is tried again when the daemon is started: systemctl start hotmount"
	default:
		d.State, d.Why, d.Next = "failed", l.Failure, l.Remedy
	}
}

// statusPrinters are the forms in which a status is printed, the last argument
// says whether in colour.
var statusPrinters = map[string]func(io.Writer, *status, bool) error{
	"text": func(w io.Writer, s *status, colour bool) error { return printStatus(w, s, colour, false, time.Now()) },
	"wide": func(w io.Writer, s *status, colour bool) error { return printStatus(w, s, colour, true, time.Now()) },
	"json": func(w io.Writer, s *status, _ bool) error { return printJSON(w, s) },
	"yaml": func(w io.Writer, s *status, _ bool) error {
		// By way of JSON, so that both have the same keys; that is YAML, too.
		b, err := json.Marshal(s)
		if err != nil {
			return err
		}
		var n yaml.Node
		if err := yaml.Unmarshal(disk.VisibleYAML(b), &n); err != nil {
			return err
		}
		plain(&n)
		if b, err = yaml.Marshal(&n); err != nil {
			return err
		}
		_, err = w.Write(disk.VisibleYAML(b))
		return err
	},
}

// plain takes from nodes the style of JSON, but for the quotes of values: what is
// called "no" is no boolean, also to older readers.
func plain(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode {
		n.Style = 0
	}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			c.Style = 0
		}
		plain(c)
	}
}

// columns is the width that the table keeps within.
const columns = 100

// printStatus prints the table and then, for each disk that is not used, why and
// what helps.
func printStatus(w io.Writer, s *status, colour, wide bool, now time.Time) error {
	cut := func(s string, n int) string {
		s = disk.Visible(s)
		if wide || utf8.RuneCountInString(s) <= n {
			return s
		}
		return string([]rune(s)[:n-1]) + "…"
	}
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
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
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cut(d.Disk, 8), disk.HumanSize(d.Size), cut(or(d.Serial), 10), cut(content, 9), cut(or(d.Class), 8), d.State, since, use, or(cut(where, 21)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	lines := strings.SplitAfter(b.String(), "\n")
	b.Reset()
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
		if d.Next == "" && d.State != "refused" && d.State != "failed" && d.State != "held" {
			continue
		}
		state := d.State
		if state == "held" && d.Hold != "" {
			state += " (" + string(d.Hold) + ")"
		}
		fmt.Fprintf(&b, "\n%s\n", wrap(fmt.Sprintf("%s is %s: %s", d.Disk, state, d.Why), "  "))
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
		fmt.Fprintf(&b, "\n%s\n", wrap("what is missing is not known: "+disk.Visible(s.MissingUnknown), "  "))
	}
	if s.Daemon == "down" {
		b.WriteString("\nthe daemon does not run: systemctl start hotmount\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}

func or(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// paint colours the lines that want something.
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

// wrap breaks a text at spaces so that its lines fit.
func wrap(text, indent string) string {
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case width+1+n > columns-len(indent):
			b.WriteString("\n" + indent)
			width = len(indent)
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += n
	}
	return b.String()
}

// age gives a duration in its largest unit.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "-"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// terminal says whether a person reads it.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
