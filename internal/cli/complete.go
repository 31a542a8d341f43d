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

// Most functions in this file return completions for shells. The Debian package contains cobra's scripts, which ask
// hotmount for completions. The completion functions leave out anything that they cannot read, because a press of the
// tab key should print no error.

// CompleteFirst returns a completion function that offers words for the first argument of a command.
func CompleteFirst(words func() []cobra.Completion) cobra.CompletionFunc {
	return func(_ *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words(), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteFlag offers the given words as values of the flag.
func CompleteFlag(c *cobra.Command, flag string, words ...cobra.Completion) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // a programming error: the flag does not exist
	}
}

// diskFilter is a function that reports whether a disk is fit for a command.
type diskFilter func(*disk.Facts, disk.Decision) bool

// DisksWith returns a function that offers the names of the disks that are fit for a command.
func DisksWith(host func() inventory.Host, fits diskFilter) func() []cobra.Completion {
	return offer(host, fits, func(f *disk.Facts, d disk.Decision) cobra.Completion {
		text := disk.HumanSize(f.Size) + ", " + string(d.Action)
		if f.Serial != "" {
			text += ", serial " + disk.Visible(f.Serial)
		}
		return cobra.CompletionWithDesc(f.Name, text)
	})
}

// UUIDsWith returns a function that offers the UUIDs of the filesystems on the disks that are fit for a command.
func UUIDsWith(host func() inventory.Host, fits diskFilter) func() []cobra.Completion {
	known := func(f *disk.Facts, d disk.Decision) bool { return fits(f, d) && disk.ValidUUID(d.UUID) }
	return offer(host, known, func(f *disk.Facts, d disk.Decision) cobra.Completion {
		return cobra.CompletionWithDesc(d.UUID, f.Name+", "+disk.HumanSize(f.Size))
	})
}

// offer returns a function that returns one completion for each disk that passes the filter. The returned function uses
// only what the caller may read about a disk.
func offer(host func() inventory.Host, fits diskFilter, word func(*disk.Facts, disk.Decision) cobra.Completion) func() []cobra.Completion {
	return func() []cobra.Completion {
		s, err := config.Load(config.Source{Environ: os.Environ()})
		if err != nil {
			s = config.Default()
		}
		disks, _ := host().For(&s).Scan()
		var words []cobra.Completion
		for i := range disks {
			f, c := &disks[i], disks[i].KnownContent()
			if d := policy.Decide(f, &c, &s); fits(f, d) {
				words = append(words, word(f, d))
			}
		}
		return words
	}
}

// NotIgnored is a filter for DisksWith: NotIgnored excludes the disks that hotmount ignores.
func NotIgnored(_ *disk.Facts, d disk.Decision) bool { return d.Action != disk.Ignore }

// MountedOnly is a filter for DisksWith: MountedOnly reports whether the disk is mounted.
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

// ClassNames returns the names of the classes in the configuration.
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

// DiskName returns the kernel name of a disk that is given by name or by device node: "vdb" for "vdb" and for
// "/dev/vdb".
func DiskName(arg string) string { return strings.TrimPrefix(arg, "/dev/") }
