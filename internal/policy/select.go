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

// Select returns the class to which the disk belongs, or nil. An excluded disk belongs to no class, even if the disk is
// a volume. A volume belongs to the class whose directory contains the volume. Any other disk belongs to the first
// class that selects it. No configuration can make a class select a disk of the running system.
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

// The function `first` returns the first class that selects f, a partition of f, or the whole disk of f. The second
// result is true if this class does not select f itself. Either the whole disk or its partitions belong to classes,
// never both.
func first(f *disk.Facts, s *disk.Settings) (class *disk.Class, other bool) {
	raw := volume(f, s)
	for i := range s.Classes {
		c := &s.Classes[i]
		switch {
		case c.Partitions && raw:
		case selects(ownSubject(f), c):
			return c, false
		case selectsRelated(f, c):
			return c, true
		}
	}
	return nil, false
}

// subject is a disk or a partition, against which selectors are matched. A subject is passed by value, so that a
// decision allocates no memory (TestDecide).
type subject struct {
	// Facts are the facts of the disk or partition that is examined.
	*disk.Facts
	name      string
	size      uint64
	partition bool
	// If anySize is true, the selector "size" is not checked. If anyKind is true, the selector "partitions" is not
	// checked.
	anySize, anyKind bool
}

// ownSubject returns the disk or partition that the facts describe.
func ownSubject(f *disk.Facts) subject {
	return subject{Facts: f, name: f.Name, size: f.Size, partition: f.Whole != ""}
}

// wholeDisk returns the disk of a partition, or the disk itself.
func wholeDisk(f *disk.Facts) subject {
	if f.Whole == "" {
		return ownSubject(f)
	}
	return subject{Facts: f, name: f.Whole, size: f.WholeSize}
}

// serial returns the serial of the disk without trailing spaces, so that nobody has to count spaces in a pattern.
func (a subject) serial() string { return strings.TrimRight(a.OfDisk(a.Serial), " ") }

// selects reports whether the class selects the subject.
func selects(a subject, c *disk.Class) bool {
	return c.Partitions == a.partition && !(c.Partitions && c.Mode == disk.ModeBlock) &&
		!c.Selectors.IsZero() && nameMayMatch(a.name, &c.Selectors) && unbacked(a, &c.Selectors) == "" && matchesAll(a, &c.Selectors)
}

// unbacked returns the reason why the class cannot select a loop device with this backing file, or "" if there is no
// such reason. A class can select a loop device only with patterns for the backing file. Block devices and files of
// kubelet are never allowed as backing files.
func unbacked(a subject, s *disk.Selectors) string {
	switch {
	case !strings.HasPrefix(a.name, "loop"):
		return ""
	case len(s.BackingFile) == 0:
		return "the disk is a loop device, and the class has no backing_file"
	case a.BackingDevice || strings.HasPrefix(a.BackingFile, "/dev/"):
		return "the loop device's backing file is a block device, or is below /dev"
	case strings.HasSuffix(a.BackingFile, " (deleted)"): // d_path() in the kernel's fs/d_path.c adds " (deleted)"
		return "the loop device's backing file is deleted"
	case ofKubelet(a.BackingFile):
		return "the loop device's backing file is below a kubelet's root directory"
	}
	return ""
}

// ofKubelet reports whether the path lies below the root directory of a kubelet. Such a root directory has the name
// kubelet, as in /var/lib/kubelet, or contains kubelet's directories for volumes (pkg/kubelet/kubelet_getters.go,
// pkg/volume/plugins.go).
func ofKubelet(path string) bool {
	for _, part := range []string{"/kubelet/", "/plugins/kubernetes.io/", "/volumes/kubernetes.io~", "/volume-subpaths/", "/volumeDevices/"} {
		if strings.Contains(path, part) {
			return true
		}
	}
	return false
}

// selectsRelated reports whether the class selects a partition of the disk, or the disk of the partition. For a disk
// with partitions, selectsRelated skips the selector `size`, because the facts of a disk do not contain the sizes of
// its partitions.
func selectsRelated(f *disk.Facts, c *disk.Class) bool {
	if f.Whole != "" {
		return selects(wholeDisk(f), c)
	}
	if !c.Partitions || len(f.Partitions) == 0 || f.Standing.Link != "" {
		return false
	}
	return slices.ContainsFunc(f.Partitions, func(name string) bool {
		return selects(subject{Facts: f, name: name, partition: true, anySize: true}, c)
	})
}

// volume reports whether the whole disk is a block volume: the disk was given out, and a class in block mode still
// selects the disk. No class for partitions selects the partitions of a block volume, because the user of the block
// volume may have made these partitions.
func volume(f *disk.Facts, s *disk.Settings) bool {
	if f.Standing.Given == nil && f.Standing.Link == "" {
		return false
	}
	for i := range s.Classes {
		if c := &s.Classes[i]; c.Mode == disk.ModeBlock && selects(wholeDisk(f), c) {
			return true
		}
	}
	return false
}

// placed returns the class in whose directory the disk is mounted or given out, or nil. The disk stays a volume of its
// class until the mount or the link ends. If the disk is mounted or linked in the directories of several classes, the
// class that selects the disk takes precedence. If no class selects a mounted disk, the disk belongs to the class of
// the directory only if hotmount mounted the disk.
func placed(f *disk.Facts, s *disk.Settings, class *disk.Class) *disk.Class {
	var at *disk.Class
	for i := range s.Classes {
		c := &s.Classes[i]
		var there bool
		if c.Mode == disk.ModeBlock {
			there = f.Whole == "" && f.Standing.Link != "" && path.Dir(f.Standing.Link) == c.Directory
		} else {
			there = ownMount(f, c) != nil && (class != nil || f.Standing.Volume.Place().In(c))
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

// excluded returns the index of the first exclusion that matches the disk, or -1.
func excluded(f *disk.Facts, s *disk.Settings) int {
	for i := range s.Exclude {
		if excludes(f, &s.Exclude[i]) {
			return i
		}
	}
	return -1
}

// excludes reports whether the exclusion matches the disk. An exclusion that matches a disk also excludes the
// partitions of the disk. An exclusion can also match one partition alone.
func excludes(f *disk.Facts, e *disk.Selectors) bool {
	switch {
	case e.IsZero():
		return false
	case matchesAll(ownSubject(f), e):
		return true
	case f.Whole == "":
		return false
	}
	disks := wholeDisk(f)
	disks.anyKind = true
	return matchesAll(disks, e)
}

func matchesAll(a subject, s *disk.Selectors) bool {
	for i := range selectors {
		if given, held := selectors[i].match(a, s); given && !held {
			return false
		}
	}
	return true
}

// nameMayMatch reports whether the selectors may select a disk with that kernel name at all. For virtio-blk, SCSI and
// NVMe disks, the result is always true. Any other device needs a name pattern that begins with the first two letters
// of the device's name, or with "dm-" for device mapper. A pattern such as "*" must never select a device-mapper, loop
// or RAM device that somebody else made.
func nameMayMatch(name string, s *disk.Selectors) bool {
	if ordinary(name) {
		return true
	}
	kind := name[:min(2, len(name))]
	if strings.HasPrefix(name, "dm-") {
		kind = "dm-"
	}
	return len(kind) > 1 && slices.ContainsFunc(s.Names, func(p string) bool {
		return strings.HasPrefix(strings.TrimPrefix(p, Regexp), kind) && pattern(s, p, name)
	})
}

// ordinary reports whether the kernel name is that of a virtio-blk, SCSI or NVMe disk.
func ordinary(name string) bool {
	for _, prefix := range []string{"vd", "sd", "nvme"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// Regexp is the prefix of a pattern that is a regular expression (RE2, package regexp) and not a glob.
const Regexp = "re:"

// Pattern reports whether the pattern matches the whole value. The pattern has one of two forms: a glob of path.Match
// in which "*" also matches a slash, or "re:" followed by a regular expression. A faulty pattern matches nothing;
// package config refuses such a pattern.
func Pattern(pattern, value string) bool {
	if strings.HasPrefix(pattern, Regexp) {
		re := expression(pattern)
		return re != nil && re.MatchString(value)
	}
	ok, err := path.Match(slashless.Replace(pattern), slashless.Replace(value))
	return ok && err == nil
}

// expression returns the regular expression of a pattern, or nil for a glob and for a faulty pattern.
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

// Compile returns the settings with compiled regular expressions, so that Decide does not compile them for each disk.
// The decisions are the same without Compile, but slower.
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

// The function `expressions` returns a map from each pattern that is a regular expression to its compiled form. Without
// such patterns, the map is nil.
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

// The function `pattern` returns the same result as Pattern. If the selectors contain the compiled expression of the
// pattern, the function uses this expression.
func pattern(s *disk.Selectors, pattern, value string) bool {
	if re := s.Compiled[pattern]; re != nil {
		return re.MatchString(value)
	}
	return Pattern(pattern, value)
}

// slashless replaces the slash, which is special in path.Match, with a byte that no pattern contains, and that values
// from sysfs practically never contain.
var slashless = strings.NewReplacer("/", "\x00")

// Match is the result of one selector for one disk.
type Match struct {
	// Selector is the key of the selector. Configured is the value in the configuration.
	Selector   string
	Configured string
	// Found is the disk's value, escaped so that it is safe to print. Found is empty if the disk has no value for the
	// selector.
	Found string
	Held  bool
}

// matchesOf returns the results of the selectors that are configured.
func matchesOf(a subject, s *disk.Selectors) []Match {
	var all []Match
	for i := range selectors {
		if given, held := selectors[i].match(a, s); given {
			configured, found := selectors[i].show(a, s)
			all = append(all, Match{selectors[i].key, configured, disk.Visible(found), held})
		}
	}
	return all
}

// selector is one key of the selectors. The function `match` allocates no memory (TestDecide).
type selector struct {
	key   string
	match func(subject, *disk.Selectors) (given, held bool)
	show  func(subject, *disk.Selectors) (configured, found string)
}

// textual returns a selector whose values are patterns.
func textual(key string, configured func(*disk.Selectors) []string, found func(subject) string) selector {
	return selector{key,
		func(a subject, s *disk.Selectors) (bool, bool) { return matches(s, configured(s), found(a)) },
		func(a subject, s *disk.Selectors) (string, string) {
			return strings.Join(configured(s), ", "), found(a)
		}}
}

// boolean returns a selector whose value is true or false.
func boolean(key string, configured func(*disk.Selectors) *bool, found func(subject) bool) selector {
	return selector{key,
		func(a subject, s *disk.Selectors) (bool, bool) {
			w := configured(s)
			return w != nil, w != nil && *w == found(a)
		},
		func(a subject, s *disk.Selectors) (string, string) {
			return strconv.FormatBool(*configured(s)), strconv.FormatBool(found(a))
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
	{"transport",
		func(a subject, s *disk.Selectors) (bool, bool) {
			given, held := matches(s, s.Transport, a.Transport)
			_, bus := matches(s, s.Transport, a.Bus())
			return given, held || bus
		},
		func(a subject, s *disk.Selectors) (string, string) {
			return strings.Join(s.Transport, ", "), a.Transport
		}},
	{"serial",
		func(a subject, s *disk.Selectors) (bool, bool) {
			given, held := matches(s, s.Serial, a.serial())
			// If a pattern matches the serial that /sys/block shows for an NVMe controller, the pattern matches all
			// namespaces of the controller.
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
	boolean("local", func(s *disk.Selectors) *bool { return s.Local }, func(a subject) bool { return !a.Fabric }),
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
