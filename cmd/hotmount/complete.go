package main

import (
	"os"
	"slices"

	"github.com/spf13/cobra"

	"hotmount/internal/config"
	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

// What the shells offer (the scripts that ask for it are cobra's, and in the
// package). Whatever can not be read is not offered: nobody who presses the
// tabulator wants to read an error.

// completeFirst offers words for the first argument of a command.
func completeFirst(words func() []cobra.Completion) cobra.CompletionFunc {
	return func(_ *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words(), cobra.ShellCompDirectiveNoFileComp
	}
}

// complete offers words for a flag.
func complete(c *cobra.Command, flag string, words ...cobra.Completion) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
}

// seenDisk is a disk as far as the caller may know it.
type seenDisk struct {
	facts    *disk.Facts
	decision disk.Decision
}

func seenDisks() []seenDisk {
	s, err := config.Load(config.Source{Environ: os.Environ()})
	if err != nil {
		s = config.Default()
	}
	disks, err := hostFor(&s).Scan()
	if err != nil {
		return nil
	}
	var seen []seenDisk
	for i := range disks {
		c := disks[i].Known()
		seen = append(seen, seenDisk{&disks[i], policy.Decide(&disks[i], &c, &s)})
	}
	return seen
}

// disksWith offers the names of the disks that are fit for a command.
func disksWith(fit func(*disk.Facts, disk.Decision) bool) func() []cobra.Completion {
	return func() []cobra.Completion {
		var words []cobra.Completion
		for _, d := range seenDisks() {
			if fit(d.facts, d.decision) {
				text := disk.HumanSize(d.facts.Size) + ", " + string(d.decision.Action)
				if d.facts.Serial != "" {
					text += ", serial " + disk.Visible(d.facts.Serial)
				}
				words = append(words, cobra.CompletionWithDesc(d.facts.Name, text))
			}
		}
		return words
	}
}

// uuidsWith offers the UUIDs of the filesystems on such disks.
func uuidsWith(fit func(*disk.Facts, disk.Decision) bool) func() []cobra.Completion {
	return func() []cobra.Completion {
		var words []cobra.Completion
		for _, d := range seenDisks() {
			if fit(d.facts, d.decision) && disk.ValidUUID(d.decision.UUID) {
				words = append(words, cobra.CompletionWithDesc(d.decision.UUID, d.facts.Name+", "+disk.HumanSize(d.facts.Size)))
			}
		}
		return words
	}
}

func notIgnored(_ *disk.Facts, d disk.Decision) bool { return d.Action != disk.Ignore }

func mountedOnly(_ *disk.Facts, d disk.Decision) bool { return d.Mounted() }

// eventSubjects offers what hotmount events can be asked about.
func eventSubjects() []cobra.Completion {
	words := slices.Concat(disksWith(notIgnored)(), uuidsWith(notIgnored)())
	for _, name := range classNames() {
		words = append(words, cobra.CompletionWithDesc(name, "class"))
	}
	for _, e := range policy.Reasons() {
		words = append(words, cobra.CompletionWithDesc(string(e.Reason), e.Means))
	}
	return words
}

// classNames are those of the configuration.
func classNames() []string {
	s, err := config.Load(config.Source{Environ: os.Environ()})
	if err != nil {
		return nil
	}
	var names []string
	for i := range s.Classes {
		names = append(names, s.Classes[i].Name)
	}
	return names
}
