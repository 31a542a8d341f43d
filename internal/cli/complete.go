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

// fit reports whether a disk is fit for a command.
type fit func(*disk.Facts, disk.Decision) bool

// DisksWith offers the names of the disks that are fit for a command.
func DisksWith(host func() inventory.Host, fits fit) func() []cobra.Completion {
	return offer(host, fits, func(f *disk.Facts, d disk.Decision) cobra.Completion {
		text := disk.HumanSize(f.Size) + ", " + string(d.Action)
		if f.Serial != "" {
			text += ", serial " + disk.Visible(f.Serial)
		}
		return cobra.CompletionWithDesc(f.Name, text)
	})
}

// UUIDsWith offers the UUIDs of the filesystems on such disks.
func UUIDsWith(host func() inventory.Host, fits fit) func() []cobra.Completion {
	known := func(f *disk.Facts, d disk.Decision) bool { return fits(f, d) && disk.ValidUUID(d.UUID) }
	return offer(host, known, func(f *disk.Facts, d disk.Decision) cobra.Completion {
		return cobra.CompletionWithDesc(d.UUID, f.Name+", "+disk.HumanSize(f.Size))
	})
}

// offer offers a word for each disk that is fit, as far as the caller may read about it.
func offer(host func() inventory.Host, fits fit, word func(*disk.Facts, disk.Decision) cobra.Completion) func() []cobra.Completion {
	return func() []cobra.Completion {
		s, err := config.Load(config.Source{Environ: os.Environ()})
		if err != nil {
			s = config.Default()
		}
		disks, _ := host().For(&s).Scan()
		var words []cobra.Completion
		for i := range disks {
			f, c := &disks[i], disks[i].Known()
			if d := policy.Decide(f, &c, &s); fits(f, d) {
				words = append(words, word(f, d))
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
