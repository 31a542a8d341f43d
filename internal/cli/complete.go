package cli

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hotmount/internal/config"
	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/policy"
)

// These are the shells' completions, for cobra's scripts in the package. They leave out anything unreadable, because a
// press of the tabulator should print no error.

// CompleteFirst offers words for the first argument of a command.
func CompleteFirst(words func() []cobra.Completion) cobra.CompletionFunc {
	return func(_ *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words(), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteFlag offers words for a flag.
func CompleteFlag(c *cobra.Command, flag string, words ...cobra.Completion) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
}

// seenDisk is a disk as far as the caller may read about it.
type seenDisk struct {
	facts    *disk.Facts
	decision disk.Decision
}

func seenDisks(h inventory.Host) []seenDisk {
	s, err := config.Load(config.Source{Environ: os.Environ()})
	if err != nil {
		s = config.Default()
	}
	disks, err := h.For(&s).Scan()
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

// DisksWith offers the names of the disks that are fit for a command.
func DisksWith(host func() inventory.Host, fit func(*disk.Facts, disk.Decision) bool) func() []cobra.Completion {
	return func() []cobra.Completion {
		var words []cobra.Completion
		for _, d := range seenDisks(host()) {
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

// UUIDsWith offers the UUIDs of the filesystems on such disks.
func UUIDsWith(host func() inventory.Host, fit func(*disk.Facts, disk.Decision) bool) func() []cobra.Completion {
	return func() []cobra.Completion {
		var words []cobra.Completion
		for _, d := range seenDisks(host()) {
			if fit(d.facts, d.decision) && disk.ValidUUID(d.decision.UUID) {
				words = append(words, cobra.CompletionWithDesc(d.decision.UUID, d.facts.Name+", "+disk.HumanSize(d.facts.Size)))
			}
		}
		return words
	}
}

// NotIgnored fits the disks that hotmount does not ignore. It is for DisksWith.
func NotIgnored(_ *disk.Facts, d disk.Decision) bool { return d.Action != disk.Ignore }

// MountedOnly fits the mounted disks. It is for DisksWith.
func MountedOnly(_ *disk.Facts, d disk.Decision) bool { return d.Mounted() }

// EventSubjects offers the arguments of hotmount events: disks, UUIDs, classes and reasons.
func EventSubjects(host func() inventory.Host) []cobra.Completion {
	words := slices.Concat(DisksWith(host, NotIgnored)(), UUIDsWith(host, NotIgnored)())
	for _, name := range ClassNames() {
		words = append(words, cobra.CompletionWithDesc(name, "class"))
	}
	for _, e := range policy.Reasons() {
		words = append(words, cobra.CompletionWithDesc(string(e.Reason), e.Means))
	}
	return words
}

// IsReason reports whether the word is the code of a reason.
func IsReason(word string) bool {
	return slices.ContainsFunc(policy.Reasons(), func(e policy.Entry) bool { return string(e.Reason) == word })
}

// ClassNames returns the names of the configuration's classes.
func ClassNames() []string {
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

// DiskName returns vdb for both vdb and /dev/vdb.
func DiskName(arg string) string { return strings.TrimPrefix(arg, "/dev/") }
