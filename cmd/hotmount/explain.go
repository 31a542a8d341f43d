package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hotmount/internal/config"
	"hotmount/internal/disk"
	"hotmount/internal/helper"
	"hotmount/internal/policy"
)

// dump is all that a decision rests on, for a disk that is elsewhere.
type dump struct {
	Version  int            `json:"version"`
	Hotmount string         `json:"hotmount"`
	Settings *disk.Settings `json:"settings"`
	Facts    *disk.Facts    `json:"facts"`
	// Formats is Facts.Standing.Formats, in nanoseconds.
	Formats []time.Duration `json:"formats"`
	Content *disk.Content   `json:"content"`
}

const (
	dumpVersion = 1
	maxDump     = 4 << 20
)

func explainCommand() *cobra.Command {
	var facts bool
	var from string
	c := &cobra.Command{
		Use:   "explain (DISK | --from FILE)",
		Short: "Say which class has a disk and why, and what speaks against formatting it",
		Long: "Print every class with every selector, what was found and whether it held; every condition that has to hold before\n" +
			"the disk is formatted; and the decision. Nothing is written. As root it also reads a disk on which nothing is known.\n" +
			"With --facts it prints instead all that this rests on, to be sent in: hotmount explain --from FILE explains that\n" +
			"anywhere, with the configuration of the node where it was made, or with the one that the other flags give.",
		Args:              args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: completeFirst(disksWith(notIgnored)),
		RunE: func(c *cobra.Command, given []string) error {
			if (from == "") == (len(given) == 0) {
				return usageError{fmt.Errorf("expected a disk, or --from FILE; see %s --help", c.CommandPath())}
			}
			var d *dump
			var err error
			if from != "" {
				if d, err = readDump(c.InOrStdin(), from); err == nil && config.Given(c.Flags()) {
					d.Settings, err = load(c)
				}
			} else {
				d, err = dumpOf(c, diskName(given[0]))
			}
			if err != nil {
				return err
			}
			if facts {
				return printJSON(c.OutOrStdout(), d)
			}
			return explain(c.OutOrStdout(), d)
		},
	}
	c.Flags().BoolVar(&facts, "facts", false, "print what the decision rests on, as JSON")
	c.Flags().StringVar(&from, "from", "", "explain what --facts has printed into this `file`; - is the standard input")
	config.AddFlags(c.Flags())
	return c
}

// dumpOf looks at the disk, and as root reads it where the daemon would.
func dumpOf(c *cobra.Command, name string) (*dump, error) {
	s, err := load(c)
	if err != nil {
		return nil, err
	}
	f, err := hostFor(s).ByName(name)
	if err != nil {
		return nil, err
	}
	content := f.Known()
	if policy.Decide(f, &content, s).Action == disk.Prove && os.Geteuid() == 0 {
		if content, err = helper.Prove(c.Context(), host(), f, s); err != nil {
			return nil, err
		}
	}
	return &dump{dumpVersion, version, s, f, f.Standing.Formats, &content}, nil
}

func readDump(stdin io.Reader, file string) (*dump, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("cannot explain: %w", err)
		}
		defer f.Close()
		stdin = f
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxDump+1))
	var d dump
	switch {
	case err != nil:
	case len(data) > maxDump:
		err = fmt.Errorf("larger than %s", disk.HumanSize(maxDump))
	default:
		err = json.Unmarshal(data, &d)
	}
	if err == nil && (d.Version != dumpVersion || d.Settings == nil || d.Facts == nil || d.Content == nil || d.Facts.Name == "") {
		err = errors.New("it is not what hotmount explain --facts of this version prints")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot explain %s: %w", file, err)
	}
	d.Facts.Standing.Formats = d.Formats
	return &d, nil
}

func explain(w io.Writer, from *dump) error {
	f, c, s := from.Facts, from.Content, from.Settings
	var b strings.Builder
	sign := map[bool]string{true: "yes", false: "NO "}
	nothing := func(s string) string {
		if s == "" {
			return "nothing"
		}
		return s
	}
	fmt.Fprintf(&b, "%s: %s, serial %s, %s\n", disk.Visible(f.ID.String()), disk.HumanSize(f.Size), nothing(disk.Visible(f.Serial)), nothing(disk.Visible(f.Transport)))
	classes, exclusions := policy.Consider(f, s)
	if f.System != "" {
		fmt.Fprintf(&b, "\nIt carries the running system (%s): no class may have it.\n", disk.Visible(f.System))
	}
	for _, e := range exclusions {
		fmt.Fprintf(&b, "\nexclude[%d] holds for it: no class has it.\n%s", e.Index, matchLines(e.Matches, sign, nothing))
	}
	var class *disk.Class
	for _, one := range classes {
		if one.Has {
			class = one.Class
		}
		fmt.Fprintf(&b, "\nClass %s %s.\n%s", disk.Visible(one.Class.Name), one.Verdict, matchLines(one.Matches, sign, nothing))
	}
	d := policy.Decide(f, c, s)
	if class != nil {
		act := "formatting it"
		if class.Mode == disk.ModeBlock {
			act = "giving it out"
		}
		fmt.Fprintf(&b, "\nConditions for %s:\n", act)
		for _, cond := range policy.Conditions(f, c, s, class) {
			mark := sign[cond.Held]
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
	if next != "" {
		fmt.Fprintf(&b, "What helps: %s\n", next)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func matchLines(all []policy.Match, sign map[bool]string, nothing func(string) string) string {
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "  %s  %s: %s: found %s\n", sign[m.Held], m.Selector, disk.Visible(m.Wants), nothing(m.Found))
	}
	return b.String()
}
