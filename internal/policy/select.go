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

// Select gives the class that has the disk, or nil: the one in whose directory it is
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

// first gives the first class that selects the disk, or (other) what is not the
// disk itself: of a disk one of its partitions, of a partition its disk. A disk is
// one class's with all its partitions, or its partitions are.
func first(f *disk.Facts, s *disk.Settings) (class *disk.Class, other bool) {
	raw := volume(f, s)
	for i := range s.Classes {
		c := &s.Classes[i]
		switch {
		case c.Partitions && raw:
		case selects(f, c):
			return c, false
		case takes(f, c):
			return c, true
		}
	}
	return nil, false
}

// selects says whether the class asks for the disk itself.
func selects(f *disk.Facts, c *disk.Class) bool {
	return c.Partitions == (f.Whole != "") && !(c.Partitions && c.Mode == disk.ModeBlock) &&
		!c.Selectors.IsZero() && Named(f, &c.Selectors) && holds(f, &c.Selectors)
}

// takes says whether the class asks for a partition of the disk, by all that is known
// of both (its size is the partition's to say), or for the disk of the partition.
func takes(f *disk.Facts, c *disk.Class) bool {
	if f.Whole != "" {
		return selects(whole(f), c)
	}
	if !c.Partitions || len(f.Partitions) == 0 || f.Standing.Link != "" {
		return false
	}
	wide := *c
	wide.Size = disk.SizeRange{}
	part := *f
	part.Whole = f.Name
	for _, part.Name = range f.Partitions {
		part.Serial, part.Slot = f.Serial+disk.PartitionSuffix, f.Slot+disk.PartitionSuffix
		if selects(&part, &wide) {
			return true
		}
	}
	return false
}

// volume says whether the disk, or the partition's, is a block volume to some class
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

// whole gives what selectors may ask of the partition's disk; a whole disk's facts
// are its own.
func whole(f *disk.Facts) *disk.Facts {
	if f.Whole == "" {
		return f
	}
	w := *f
	w.Name, w.Whole, w.Size, w.Serial, w.Slot = f.Whole, "", f.WholeSize, f.OfDisk(f.Serial), f.OfDisk(f.Slot)
	return &w
}

// placed gives the class in whose directory the disk is mounted or given out, or
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

// excluded gives the place of the first exclusion that the disk falls under, or -1.
func excluded(f *disk.Facts, s *disk.Settings) int {
	for i := range s.Exclude {
		if excludes(f, &s.Exclude[i]) {
			return i
		}
	}
	return -1
}

// excludes says whether the disk falls under the exclusion. What is said of a disk is
// said of its partitions, also of these alone.
func excludes(f *disk.Facts, e *disk.Selectors) bool {
	switch {
	case e.IsZero():
		return false
	case holds(f, e):
		return true
	case f.Whole == "":
		return false
	}
	disks := *e
	disks.Partitions = false
	return holds(whole(f), &disks)
}

// unselected says why no class has the disk.
func unselected(f *disk.Facts, s *disk.Settings) disk.Reason {
	if excluded(f, s) >= 0 {
		return disk.ReasonExcluded
	}
	switch _, other := first(f, s); {
	case other && f.Whole != "":
		return disk.ReasonWhole
	case other:
		return disk.ReasonPartitioned
	}
	return disk.ReasonNoClass
}

func holds(f *disk.Facts, s *disk.Selectors) bool {
	for i := range selectors {
		if given, held := selectors[i].match(f, s); given && !held {
			return false
		}
	}
	return true
}

// Named says whether the disk is of a kind that the selectors may select at all:
// virtio-blk, SCSI and NVMe disks, and what a pattern names literally. A pattern
// such as "*" is never to reach a device-mapper, loop or RAM device that somebody
// else has made.
func Named(f *disk.Facts, s *disk.Selectors) bool {
	for _, prefix := range []string{"vd", "sd", "nvme"} {
		if strings.HasPrefix(f.Name, prefix) {
			return true
		}
	}
	kind := f.Name[:min(2, len(f.Name))]
	if strings.HasPrefix(f.Name, "dm-") {
		kind = "dm-"
	}
	return len(kind) > 1 && slices.ContainsFunc(s.Names, func(p string) bool {
		return strings.HasPrefix(strings.TrimPrefix(p, Regexp), kind) && pattern(s, p, f.Name)
	})
}

// Regexp begins a pattern that is a regular expression (RE2, package regexp) and
// no glob.
const Regexp = "re:"

// Pattern says whether the pattern matches the whole value: a glob of path.Match,
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

// expression gives the regular expression of a pattern, nil for a glob and for one
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

// Compile prepares the regular expressions of the settings, so that Decide does
// not compile them for each disk. Without it the answers are the same.
func Compile(s *disk.Settings) {
	one := func(s *disk.Selectors) {
		s.Compiled = nil
		for _, patterns := range [][]string{s.Names, s.MapperNames, s.Transport, s.Serial, s.WWN, s.Model, s.Vendor, s.ByPath} {
			for _, p := range patterns {
				if re := expression(p); re != nil {
					if s.Compiled == nil {
						s.Compiled = map[string]*regexp.Regexp{}
					}
					s.Compiled[p] = re
				}
			}
		}
	}
	for i := range s.Exclude {
		one(&s.Exclude[i])
	}
	for i := range s.Classes {
		one(&s.Classes[i].Selectors)
	}
}

// pattern is Pattern for one of the selectors' patterns.
func pattern(s *disk.Selectors, pattern, value string) bool {
	if re := s.Compiled[pattern]; re != nil {
		return re.MatchString(value)
	}
	return Pattern(pattern, value)
}

// slashless has a byte in the place of a slash that neither patterns nor what
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

// Matches gives what becomes of each selector that is given.
func Matches(f *disk.Facts, s *disk.Selectors) []Match {
	var all []Match
	for i := range selectors {
		if given, held := selectors[i].match(f, s); given {
			wants, found := selectors[i].show(f, s)
			all = append(all, Match{selectors[i].key, wants, disk.Visible(found), held})
		}
	}
	return all
}

// selector is one key. Match allocates nothing (TestDecideAllocatesNothing).
type selector struct {
	key   string
	match func(*disk.Facts, *disk.Selectors) (given, held bool)
	show  func(*disk.Facts, *disk.Selectors) (wants, found string)
}

// textual makes a selector of patterns.
func textual(key string, wants func(*disk.Selectors) []string, found func(*disk.Facts) string) selector {
	return selector{key,
		func(f *disk.Facts, s *disk.Selectors) (bool, bool) { return matches(s, wants(s), found(f)) },
		func(f *disk.Facts, s *disk.Selectors) (string, string) {
			return strings.Join(wants(s), ", "), found(f)
		}}
}

// boolean makes a selector of true or false.
func boolean(key string, wants func(*disk.Selectors) *bool, found func(*disk.Facts) bool) selector {
	return selector{key,
		func(f *disk.Facts, s *disk.Selectors) (bool, bool) {
			w := wants(s)
			return w != nil, w != nil && *w == found(f)
		},
		func(f *disk.Facts, s *disk.Selectors) (string, string) {
			return strconv.FormatBool(*wants(s)), strconv.FormatBool(found(f))
		}}
}

func matches(s *disk.Selectors, patterns []string, value string) (given, held bool) {
	for _, p := range patterns {
		held = held || value != "" && pattern(s, p, value)
	}
	return len(patterns) > 0, held
}

// ownSerial is the disk's without the spaces at its end, which nobody is to count.
func ownSerial(f *disk.Facts) string { return strings.TrimRight(f.OfDisk(f.Serial), " ") }

var selectors = [...]selector{
	textual("names", func(s *disk.Selectors) []string { return s.Names }, func(f *disk.Facts) string { return f.Name }),
	textual("mapper_names", func(s *disk.Selectors) []string { return s.MapperNames }, func(f *disk.Facts) string { return f.MapperName }),
	textual("transport", func(s *disk.Selectors) []string { return s.Transport }, func(f *disk.Facts) string { return f.Transport }),
	{"serial",
		func(f *disk.Facts, s *disk.Selectors) (bool, bool) {
			given, held := matches(s, s.Serial, ownSerial(f))
			// What names an NVMe disk by the serial in /sys/block means all its namespaces.
			_, controller := matches(s, s.Serial, f.ControllerSerial(ownSerial(f)))
			return given, held || controller
		},
		func(f *disk.Facts, s *disk.Selectors) (string, string) {
			return strings.Join(s.Serial, ", "), ownSerial(f)
		}},
	textual("wwn", func(s *disk.Selectors) []string { return s.WWN }, func(f *disk.Facts) string { return f.WWN }),
	textual("model", func(s *disk.Selectors) []string { return s.Model }, func(f *disk.Facts) string { return f.Model }),
	textual("vendor", func(s *disk.Selectors) []string { return s.Vendor }, func(f *disk.Facts) string { return f.Vendor }),
	textual("by_path", func(s *disk.Selectors) []string { return s.ByPath }, func(f *disk.Facts) string { return f.OfDisk(f.Slot) }),
	{"size",
		func(f *disk.Facts, s *disk.Selectors) (bool, bool) {
			return s.Size != (disk.SizeRange{}), s.Size.Has(f.Size)
		},
		func(f *disk.Facts, s *disk.Selectors) (string, string) {
			return s.Size.String(), disk.ExactSize(f.Size)
		}},
	boolean("rotational", func(s *disk.Selectors) *bool { return s.Rotational }, func(f *disk.Facts) bool { return f.Rotational }),
	boolean("removable", func(s *disk.Selectors) *bool { return s.Removable }, func(f *disk.Facts) bool { return f.Removable }),
	{"partitions",
		func(f *disk.Facts, s *disk.Selectors) (bool, bool) { return s.Partitions, f.Whole != "" },
		func(f *disk.Facts, s *disk.Selectors) (string, string) {
			return "true", strconv.FormatBool(f.Whole != "")
		}},
	{"logical_sector",
		func(f *disk.Facts, s *disk.Selectors) (bool, bool) {
			return len(s.LogicalSector) > 0, slices.Contains(s.LogicalSector, f.LogicalSector)
		},
		func(f *disk.Facts, s *disk.Selectors) (string, string) {
			return strings.Trim(fmt.Sprint(s.LogicalSector), "[]"), fmt.Sprint(f.LogicalSector)
		}},
}
