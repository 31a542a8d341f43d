package policy

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hotmount/internal/disk"
)

// Select returns the class that has the disk, or nil: the one in whose directory it is
// as a volume, else the first that selects it. No configuration gives a class a disk
// of the running system.
func Select(f *disk.Facts, s *disk.Settings) *disk.Class {
	if f.System != "" || excluded(f, s) >= 0 {
		return nil
	}
	class, other := first(f, s)
	if other {
		class = nil
	}
	if at := placed(f, s, class); at != nil {
		return at
	}
	return class
}

// first returns the first class that selects the disk, or (other) what is not the
// disk itself: of a disk one of its partitions, of a partition its disk. A disk is
// one class's with all its partitions, or its partitions are.
func first(f *disk.Facts, s *disk.Settings) (class *disk.Class, other bool) {
	raw := volume(f, s)
	for i := range s.Classes {
		c := &s.Classes[i]
		switch {
		case c.Partitions && raw:
		case selects(itself(f), c):
			return c, false
		case takes(f, c):
			return c, true
		}
	}
	return nil, false
}

// subject is what selectors are asked about: a disk, or a partition. It is passed as a value, so that of a disk's
// partition, and of a partition's disk, nothing is allocated (TestDecide).
type subject struct {
	// The facts of the one or of the other.
	*disk.Facts
	name      string
	size      uint64
	partition bool
	// anySize and anyKind have the selectors size and partitions not asked.
	anySize, anyKind bool
}

// itself is the disk, or the partition, of the facts.
func itself(f *disk.Facts) subject {
	return subject{Facts: f, name: f.Name, size: f.Size, partition: f.Whole != ""}
}

// whole is the partition's disk, or the disk itself.
func whole(f *disk.Facts) subject {
	if f.Whole == "" {
		return itself(f)
	}
	return subject{Facts: f, name: f.Whole, size: f.WholeSize}
}

// serial is the disk's without the spaces at its end, which nobody is to count.
func (a subject) serial() string { return strings.TrimRight(a.OfDisk(a.Serial), " ") }

// selects reports whether the class asks for it.
func selects(a subject, c *disk.Class) bool {
	return c.Partitions == a.partition && !(c.Partitions && c.Mode == disk.ModeBlock) &&
		!c.Selectors.IsZero() && named(a.name, &c.Selectors) && unbacked(a, &c.Selectors) == "" && holds(a, &c.Selectors)
}

// unbacked returns why the selectors may not select the disk for what lies behind it, "" if they may. They may
// select a loop device only with patterns of its file, and never over a block device or over what is kubelet's.
func unbacked(a subject, s *disk.Selectors) string {
	switch {
	case !strings.HasPrefix(a.name, "loop"):
		return ""
	case len(s.BackingFile) == 0:
		return "loop devices are selected only with backing_file"
	case a.BackingDevice || strings.HasPrefix(a.BackingFile, "/dev/"):
		return "what lies behind it is a block device, or below /dev"
	case strings.HasSuffix(a.BackingFile, " (deleted)"): // d_path() in the kernel's fs/d_path.c
		return "its file is deleted"
	case ofKubelet(a.BackingFile):
		return "its file lies below a kubelet's root directory"
	}
	return ""
}

// ofKubelet reports whether the path lies below a kubelet's root directory: /var/lib/kubelet, that of another
// distribution, which ends in "kubelet" too, or any that has kubelet's directories for volumes
// (pkg/kubelet/kubelet_getters.go, pkg/volume/plugins.go).
func ofKubelet(path string) bool {
	for _, part := range []string{"/kubelet/", "/plugins/kubernetes.io/", "/volumes/kubernetes.io~", "/volume-subpaths/", "/volumeDevices/"} {
		if strings.Contains(path, part) {
			return true
		}
	}
	return false
}

// takes reports whether the class asks for a partition of the disk, by all that is known
// of both (its size is the partition's to say), or for the disk of the partition.
func takes(f *disk.Facts, c *disk.Class) bool {
	if f.Whole != "" {
		return selects(whole(f), c)
	}
	if !c.Partitions || len(f.Partitions) == 0 || f.Standing.Link != "" {
		return false
	}
	return slices.ContainsFunc(f.Partitions, func(name string) bool {
		return selects(subject{Facts: f, name: name, partition: true, anySize: true}, c)
	})
}

// volume reports whether the disk, or the partition's, is a block volume to some class
// and was given out: whoever has it may have put the partitions there.
func volume(f *disk.Facts, s *disk.Settings) bool {
	if f.Standing.Given == nil && f.Standing.Link == "" {
		return false
	}
	for i := range s.Classes {
		if c := &s.Classes[i]; c.Mode == disk.ModeBlock && selects(whole(f), c) {
			return true
		}
	}
	return false
}

// placed returns the class in whose directory the disk is mounted or given out, or
// nil: it stays a volume of that class until that ends. The class that selects the
// disk goes before others; where none does, the mount has to be of our making.
func placed(f *disk.Facts, s *disk.Settings, class *disk.Class) *disk.Class {
	var at *disk.Class
	for i := range s.Classes {
		c := &s.Classes[i]
		var there bool
		if c.Mode == disk.ModeBlock {
			there = f.Whole == "" && f.Standing.Link != "" && path.Dir(f.Standing.Link) == c.Directory
		} else {
			there = ours(f, c) != nil && (class != nil || f.Standing.Volume.Place().In(c))
		}
		switch {
		case there && c == class:
			return c
		case there:
			at = c
		}
	}
	return at
}

// excluded returns the place of the first exclusion that the disk falls under, or -1.
func excluded(f *disk.Facts, s *disk.Settings) int {
	for i := range s.Exclude {
		if excludes(f, &s.Exclude[i]) {
			return i
		}
	}
	return -1
}

// excludes reports whether the disk falls under the exclusion. What is said of a disk is
// said of its partitions, also of these alone.
func excludes(f *disk.Facts, e *disk.Selectors) bool {
	switch {
	case e.IsZero():
		return false
	case holds(itself(f), e):
		return true
	case f.Whole == "":
		return false
	}
	disks := whole(f)
	disks.anyKind = true
	return holds(disks, e)
}

func holds(a subject, s *disk.Selectors) bool {
	for i := range selectors {
		if given, held := selectors[i].match(a, s); given && !held {
			return false
		}
	}
	return true
}

// named reports whether a disk of that kernel name is of a kind that the selectors may select at all:
// virtio-blk, SCSI and NVMe disks, and what a pattern names literally. A pattern
// such as "*" is never to reach a device-mapper, loop or RAM device that somebody
// else has made.
func named(name string, s *disk.Selectors) bool {
	for _, prefix := range []string{"vd", "sd", "nvme"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	kind := name[:min(2, len(name))]
	if strings.HasPrefix(name, "dm-") {
		kind = "dm-"
	}
	return len(kind) > 1 && slices.ContainsFunc(s.Names, func(p string) bool {
		return strings.HasPrefix(strings.TrimPrefix(p, Regexp), kind) && pattern(s, p, name)
	})
}

// Regexp begins a pattern that is a regular expression (RE2, package regexp) and
// no glob.
const Regexp = "re:"

// Pattern reports whether the pattern matches the whole value: a glob of path.Match,
// in which "*" also stands for a slash, or after "re:" a regular expression. One
// with a fault, which config refuses, matches nothing.
func Pattern(pattern, value string) bool {
	if strings.HasPrefix(pattern, Regexp) {
		re := expression(pattern)
		return re != nil && re.MatchString(value)
	}
	ok, err := path.Match(slashless.Replace(pattern), slashless.Replace(value))
	return ok && err == nil
}

// expression returns the regular expression of a pattern, nil for a glob and for one
// with a fault.
func expression(pattern string) *regexp.Regexp {
	text, ok := strings.CutPrefix(pattern, Regexp)
	if !ok {
		return nil
	}
	re, err := regexp.Compile(`(?s)\A(?:` + text + `)\z`)
	if err != nil {
		return nil
	}
	return re
}

// Compile returns the settings with their regular expressions prepared, so that Decide
// does not compile them for each disk. Without it the answers are the same.
func Compile(s *disk.Settings) *disk.Settings {
	compiled := *s
	compiled.Exclude, compiled.Classes = slices.Clone(s.Exclude), slices.Clone(s.Classes)
	for i := range compiled.Exclude {
		compiled.Exclude[i].Compiled = expressions(&compiled.Exclude[i])
	}
	for i := range compiled.Classes {
		compiled.Classes[i].Compiled = expressions(&compiled.Classes[i].Selectors)
	}
	return &compiled
}

// expressions returns the regular expressions among the patterns, by pattern, nil for none.
func expressions(s *disk.Selectors) map[string]*regexp.Regexp {
	var all map[string]*regexp.Regexp
	for _, patterns := range [][]string{s.Names, s.MapperNames, s.Transport, s.Serial, s.WWN, s.Model, s.Vendor, s.ByPath} {
		for _, p := range patterns {
			if re := expression(p); re != nil {
				if all == nil {
					all = map[string]*regexp.Regexp{}
				}
				all[p] = re
			}
		}
	}
	return all
}

// pattern is Pattern for one of the selectors' patterns.
func pattern(s *disk.Selectors, pattern, value string) bool {
	if re := s.Compiled[pattern]; re != nil {
		return re.MatchString(value)
	}
	return Pattern(pattern, value)
}

// slashless has a byte in place of a slash that neither patterns nor what
// sysfs says can hold, so that a slash is a character like others.
var slashless = strings.NewReplacer("/", "\x00")

// Match is what became of one selector.
type Match struct {
	// Selector is its key, Wants the value that was given.
	Selector string
	Wants    string
	// Found is what the disk has, made visible; empty for nothing.
	Found string
	Held  bool
}

// matchesOf returns what becomes of each selector that is given.
func matchesOf(a subject, s *disk.Selectors) []Match {
	var all []Match
	for i := range selectors {
		if given, held := selectors[i].match(a, s); given {
			wants, found := selectors[i].show(a, s)
			all = append(all, Match{selectors[i].key, wants, disk.Visible(found), held})
		}
	}
	return all
}

// selector is one key. Match allocates nothing (TestDecide).
type selector struct {
	key   string
	match func(subject, *disk.Selectors) (given, held bool)
	show  func(subject, *disk.Selectors) (wants, found string)
}

// textual makes a selector of patterns.
func textual(key string, wants func(*disk.Selectors) []string, found func(subject) string) selector {
	return selector{key,
		func(a subject, s *disk.Selectors) (bool, bool) { return matches(s, wants(s), found(a)) },
		func(a subject, s *disk.Selectors) (string, string) {
			return strings.Join(wants(s), ", "), found(a)
		}}
}

// boolean makes a selector of true or false.
func boolean(key string, wants func(*disk.Selectors) *bool, found func(subject) bool) selector {
	return selector{key,
		func(a subject, s *disk.Selectors) (bool, bool) {
			w := wants(s)
			return w != nil, w != nil && *w == found(a)
		},
		func(a subject, s *disk.Selectors) (string, string) {
			return strconv.FormatBool(*wants(s)), strconv.FormatBool(found(a))
		}}
}

func matches(s *disk.Selectors, patterns []string, value string) (given, held bool) {
	for _, p := range patterns {
		held = held || value != "" && pattern(s, p, value)
	}
	return len(patterns) > 0, held
}

var selectors = [...]selector{
	textual("names", func(s *disk.Selectors) []string { return s.Names }, func(a subject) string { return a.name }),
	textual("mapper_names", func(s *disk.Selectors) []string { return s.MapperNames }, func(a subject) string { return a.MapperName }),
	{"backing_file",
		func(a subject, s *disk.Selectors) (bool, bool) {
			return len(s.BackingFile) > 0, slices.ContainsFunc(s.BackingFile, func(p string) bool {
				ok, err := path.Match(p, a.BackingFile)
				return ok && err == nil
			})
		},
		func(a subject, s *disk.Selectors) (string, string) {
			return strings.Join(s.BackingFile, ", "), a.BackingFile
		}},
	textual("transport", func(s *disk.Selectors) []string { return s.Transport }, func(a subject) string { return a.Transport }),
	{"serial",
		func(a subject, s *disk.Selectors) (bool, bool) {
			given, held := matches(s, s.Serial, a.serial())
			// What names an NVMe disk by the serial in /sys/block means all its namespaces.
			_, controller := matches(s, s.Serial, a.ControllerSerial(a.serial()))
			return given, held || controller
		},
		func(a subject, s *disk.Selectors) (string, string) {
			return strings.Join(s.Serial, ", "), a.serial()
		}},
	textual("wwn", func(s *disk.Selectors) []string { return s.WWN }, func(a subject) string { return a.WWN }),
	textual("model", func(s *disk.Selectors) []string { return s.Model }, func(a subject) string { return a.Model }),
	textual("vendor", func(s *disk.Selectors) []string { return s.Vendor }, func(a subject) string { return a.Vendor }),
	textual("by_path", func(s *disk.Selectors) []string { return s.ByPath }, func(a subject) string { return a.OfDisk(a.Slot) }),
	{"size",
		func(a subject, s *disk.Selectors) (bool, bool) {
			return !a.anySize && s.Size != (disk.SizeRange{}), s.Size.Has(a.size)
		},
		func(a subject, s *disk.Selectors) (string, string) {
			return s.Size.String(), disk.ExactSize(a.size)
		}},
	boolean("rotational", func(s *disk.Selectors) *bool { return s.Rotational }, func(a subject) bool { return a.Rotational }),
	boolean("removable", func(s *disk.Selectors) *bool { return s.Removable }, func(a subject) bool { return a.Removable }),
	{"partitions",
		func(a subject, s *disk.Selectors) (bool, bool) { return s.Partitions && !a.anyKind, a.partition },
		func(a subject, s *disk.Selectors) (string, string) {
			return "true", strconv.FormatBool(a.partition)
		}},
	{"logical_sector",
		func(a subject, s *disk.Selectors) (bool, bool) {
			return len(s.LogicalSector) > 0, slices.Contains(s.LogicalSector, a.LogicalSector)
		},
		func(a subject, s *disk.Selectors) (string, string) {
			return strings.Trim(fmt.Sprint(s.LogicalSector), "[]"), fmt.Sprint(a.LogicalSector)
		}},
}
