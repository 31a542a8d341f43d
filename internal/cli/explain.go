package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/policy"
)

// Dump contains all facts and settings on which the decision about one disk is based. A Dump can be examined on
// another machine.
type Dump struct {
	Version  int            `json:"version"`
	Hotmount string         `json:"hotmount"`
	Settings *disk.Settings `json:"settings"`
	Facts    *disk.Facts    `json:"facts"`
	// Formats is a copy of Facts.Standing.Formats, in nanoseconds. The JSON of Facts does not contain
	// Facts.Standing.Formats.
	Formats []time.Duration `json:"formats"`
	// Attached is a copy of Facts.Standing.Intent.Attached, which is not in the JSON of Facts either.
	Attached bool          `json:"attached,omitempty"`
	Content  *disk.Content `json:"content"`
	// Fails is the reason why the daemon could not carry out the decision. Helps is the remedy for the failure. Fails
	// and Helps are empty if the daemon has reported no failure of this decision.
	Fails string `json:"fails,omitempty"`
	Helps string `json:"helps,omitempty"`
}

const (
	dumpVersion = 1
	maxDump     = 4 << 20
)

// DumpOf returns the dump of the disk with the given name. If the caller is root and the daemon would read the disk,
// DumpOf also reads the disk, except while the daemon reads the disk (daemonReads). The parameter `version` is the
// version of hotmount.
func DumpOf(ctx context.Context, h inventory.Host, name string, s *disk.Settings, prove Prover, version string) (*Dump, error) {
	f, err := h.For(s).ByName(name)
	if err != nil {
		return nil, err
	}
	published, err := h.Store.Published()
	if err != nil {
		return nil, err
	}
	content := f.KnownContent()
	d := policy.Decide(f, &content, s)
	line, daemon := lineOf(f, published), daemonState(h)
	fails, helps := failing(line, d, daemon)
	if d.Action == disk.Prove && !daemonReads(line, daemon) && os.Geteuid() == 0 {
		if content, err = prove(ctx, f, s); err != nil {
			return nil, err
		}
	}
	dump := newDump(version, s, f, &content)
	dump.Fails, dump.Helps = fails, helps
	return dump, nil
}

// newDump returns the dump without a failure of the daemon.
func newDump(version string, s *disk.Settings, f *disk.Facts, c *disk.Content) *Dump {
	i := f.Standing.Intent
	return &Dump{Version: dumpVersion, Hotmount: version, Settings: s, Facts: f, Formats: f.Standing.Formats, Attached: i != nil && i.Attached, Content: c}
}

// ReadDump reads a printed dump from the file. If the file is "-", ReadDump reads the dump from stdin.
func ReadDump(stdin io.Reader, file string) (*Dump, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("cannot explain: %w", err)
		}
		defer f.Close()
		stdin = f
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxDump+1))
	var d Dump
	switch {
	case err != nil:
	case len(data) > maxDump:
		err = fmt.Errorf("larger than %s", disk.HumanSize(maxDump))
	default:
		err = json.Unmarshal(data, &d)
	}
	if err == nil && (d.Version != dumpVersion || d.Settings == nil || d.Facts == nil || d.Content == nil || d.Facts.Name == "") {
		err = errors.New("the input is not the output of hotmount explain --facts of this version")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot explain %s: %w", file, err)
	}
	d.Facts.Standing.Formats = d.Formats
	if i := d.Facts.Standing.Intent; i != nil {
		i.Attached = d.Attached
	}
	return &d, nil
}

// Explain prints the class of a disk, the reason why the class matches, the obstacles to formatting, and the decision.
func Explain(w io.Writer, from *Dump) error {
	f, c, s := from.Facts, from.Content, from.Settings
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, serial %s, %s\n", disk.Visible(f.ID.String()), disk.HumanSize(f.Size), cmp.Or(disk.Visible(f.Serial), "nothing"), cmp.Or(disk.Visible(f.Transport), "nothing"))
	classes, exclusions := policy.Consider(f, s)
	if f.System != "" {
		fmt.Fprintf(&b, "\nThe disk carries the running system (%s): no class can use the disk.\n", disk.Visible(f.System))
	}
	for _, e := range exclusions {
		fmt.Fprintf(&b, "\nexclude[%d] matches the disk: no class can use the disk.\n%s", e.Index, matchLines(e.Matches))
	}
	var class *disk.Class
	for _, one := range classes {
		if one.Has {
			class = one.Class
		}
		fmt.Fprintf(&b, "\nClass %s %s.\n%s", disk.Visible(one.Class.Name), one.Verdict, matchLines(one.Matches))
	}
	d := policy.Decide(f, c, s)
	if class != nil {
		act := "formatting the disk"
		if class.Mode == disk.ModeBlock {
			act = "giving out the disk"
		}
		fmt.Fprintf(&b, "\nConditions for %s:\n", act)
		for _, cond := range policy.Conditions(f, c, s, class) {
			mark := signs[cond.Held]
			if cond.Open {
				mark = "?  "
			}
			fmt.Fprintf(&b, "  %s  %s", mark, cond.Wanted)
			if cond.Found != "" {
				fmt.Fprintf(&b, ": %s", cond.Found)
			}
			b.WriteByte('\n')
		}
	}
	why, next := policy.Words(f, c, s, d)
	fmt.Fprintf(&b, "\nDecision: %s: %s (%s)\n", d.Action, disk.Visible(why), d.Reason)
	if from.Fails != "" {
		fmt.Fprintf(&b, "The last try failed: %s\n", disk.Printable(from.Fails))
		next = disk.Printable(from.Helps) // the dump may come from another, untrusted machine
	}
	if next != "" {
		fmt.Fprintf(&b, "What helps: %s\n", next)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// The variable `signs` contains the words that show whether a disk matches a selector or meets a condition.
var signs = map[bool]string{true: "yes", false: "NO "}

// matchLines returns a line for each selector, with what the selector expects and what was found on the disk.
func matchLines(all []policy.Match) string {
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "  %s  %s: %s: found %s\n", signs[m.Held], m.Selector, disk.Visible(m.Configured), cmp.Or(m.Found, "nothing"))
	}
	return b.String()
}
