package config

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"hotmount/internal/disk"
)

// minimumXFS in bytes is the least that mkfs.xfs makes a filesystem on, which is
// asked before an ext4 is made, too, whether it would refuse (xfsprogs 5.19 and later, mkfs/xfs_mkfs.c, validate_supported).
const minimumXFS = 300 << 20

var classKeys = append([]string{"name"}, append(selectorKeys, classActs...)...)

// classActs are the keys that say what is done with the disks of a class.
var classActs = []string{"directory", "mode", "create", "mkfs_options", "root_owner", "root_mode", "accept", "options", "blank", "minimum_size", "grow", "trim", "provision", "storage_class"}

// word is a kind of text; wrong gives what was expected instead, or nothing.
func word(expected string, wrong func(string) string) kind {
	return kind{
		tag:      "!!str",
		expected: expected,
		parse:    func(s string) (any, bool) { return s, wrong(s) == "" },
		wrong:    wrong,
	}
}

// oneOf is a kind of text with few values.
func oneOf(values ...string) kind {
	last := len(values) - 1
	expected := strings.Join(values[:last], ", ") + " or " + values[last]
	return word(expected, func(s string) string {
		if !slices.Contains(values, s) {
			return expected
		}
		return ""
	})
}

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
)

// only says whether s is of these characters alone.
func only(s, characters string) bool { return strings.Trim(s, characters) == "" }

// printable says whether s is visible ASCII alone, which has no space.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

var (
	mode           = oneOf(disk.ModeFilesystem, disk.ModeBlock)
	filesystemMade = oneOf(disk.XFS, disk.Ext4, "none")
	filesystemKept = oneOf("xfs", "ext4")
	proof          = oneOf("auto", "full", "sampled", "unsigned")
	className      = word(expectedName, wrongName)
	nodeName       = kind{name: "name", tag: "!!str", expected: expectedObject, parse: func(s string) (any, bool) { return s, wrongObject(s) == "" }}
	storageClass   = word(expectedObject, wrongObject)
	kernelNames    = word(expectedPattern, wrongPattern)
	directory      = word(expectedDirectory, wrongDirectory)
	mountOption    = word(expectedOption, wrongOption)
	mkfsOption     = word(expectedMkfs, func(s string) string { return wrongMkfs(disk.XFS, s, expectedMkfs) })
	mkfsExt4Option = word(expectedMkfsExt4, func(s string) string { return wrongMkfs(disk.Ext4, s, expectedMkfsExt4) })
	rootOwner      = word(expectedOwner, wrongOwner)
	rootMode       = word(expectedMode, wrongMode)
)

const expectedName = "a name of 1 to 63 lower-case letters, digits and hyphens that does not begin with a hyphen"

func wrongName(s string) string {
	if s == "" || len(s) > 63 || s[0] == '-' || !only(s, lower+digits+"-") {
		return expectedName
	}
	return ""
}

// Names of objects of Kubernetes (DNS subdomains, RFC 1123).
const expectedObject = "the name of an object of Kubernetes: at most 253 lower-case letters, digits, '-' and '.', or \"\" for none"

func wrongObject(s string) string {
	if len(s) > 253 || !only(s, lower+digits+"-.") {
		return expectedObject
	}
	return ""
}

// A kernel name has at most 31 bytes (DISK_NAME_LEN, include/linux/blkdev.h)
// and no slash; a pattern needs some more.
const expectedPattern = "a pattern of kernel names such as vd[a-z], of at most 128 characters without slashes and spaces"

func wrongPattern(s string) string {
	if s == "" || len(s) > 128 || strings.Contains(s, "/") || !printable(s) {
		return expectedPattern
	}
	if wrong := wrongSyntax(s, expectedPattern); wrong != "" {
		return wrong
	}
	if reachesNothing(s) {
		return "a pattern that can match something: beside vd, sd and nvme a kind of device is named by its letters, such as dm-*"
	}
	return ""
}

const expectedDirectory = "an absolute path such as /mnt/disks, of letters, digits, '.', '_' and '-', without '.', '..' or a slash too many"

// reserved are the directories that the system needs as they are.
var reserved = []string{"/proc", "/sys", "/dev", "/run", "/etc", "/usr", "/boot"}

func wrongDirectory(s string) string {
	switch {
	case !path.IsAbs(s), path.Clean(s) != s, !only(s, lower+strings.ToUpper(lower)+digits+"/._-"):
		return expectedDirectory
	case s == "/":
		return "a directory of its own, not the root directory"
	// The unit's name is the path escaped, "-" becoming "\x2d", and has at most
	// 255 characters (UNIT_NAME_MAX, systemd's src/basic/unit-name.h). A UUID
	// below the directory and ".mount" take 55 of them.
	case len(s)+3*strings.Count(s, "-") > 190:
		return "a path that is short enough for the name of a mount unit: at most 190 characters, a '-' counted as 4"
	}
	for _, r := range reserved {
		if within(s, r) {
			return "a directory outside of " + strings.Join(reserved, ", ")
		}
	}
	if disk.Hidden(s) {
		return "a directory that the daemon sees: its unit hides /home, /root, /tmp and /var/tmp from it (ProtectHome=, PrivateTmp=)"
	}
	return ""
}

const expectedMkfs = `an option of mkfs.xfs such as "-i size=1024": -d (agcount, su, sw, sunit, swidth, noalign), -i (size, maxpct, sparse, nrext64), -l (size, su, sunit), -m (reflink, rmapbt, finobt, bigtime, inobtcount) or -n (size)`

const expectedMkfsExt4 = `an option of mkfs.ext4 such as "-m 0": -i, -m, -N with a number, -E (stride, stripe_width) or -J (size)`

func wrongMkfs(fstype, s, expected string) string {
	if !disk.MkfsOption(fstype, s) {
		return expected
	}
	return ""
}

const expectedOwner = `two numbers "UID:GID" in quotes, such as "1000:1000"`

func wrongOwner(s string) string {
	user, group, _ := strings.Cut(s, ":")
	for _, number := range []string{user, group} {
		if n, err := strconv.ParseUint(number, 10, 32); err != nil || n == 1<<32-1 || !only(number, digits) {
			return expectedOwner
		}
	}
	return ""
}

const expectedMode = `an octal mode of four digits in quotes, such as "0755" or "2770", without the sticky bit`

func wrongMode(s string) string {
	if len(s) != 4 || !only(s, "01234567") || strings.Contains("1357", s[:1]) {
		return expectedMode
	}
	return ""
}

// within says whether the path is the directory or below it.
func within(path, directory string) bool {
	return path == directory || strings.HasPrefix(path, directory+"/")
}

const expectedOption = "one mount option of at most 256 visible characters without ',', '\\', '%' and '\"'"

// refusal says what is expected instead of an option that changes who owns a
// mount or what is done by it (mount(8), systemd.mount(5)), that brings in
// another device, or that would let XFS mount a twin.
func refusal(name string) string {
	switch name {
	case "nofail":
		return `it to be left out: hotmount adds "nofail" itself`
	case "user", "users", "owner", "group":
		return "no option that lets others than root mount and unmount"
	case "auto", "noauto", "_netdev":
		return "no option that says when to mount: hotmount does"
	case "remount", "bind", "rbind", "move", "loop", "offset", "sizelimit", "encryption":
		return "no option that makes it another act than mounting the disk"
	case "shared", "rshared", "slave", "rslave", "private", "rprivate", "unbindable", "runbindable":
		return "no option of propagation: the class directory's mount has it"
	case "helper", "uhelper":
		return "no option that hands the unmounting to a helper"
	case "logdev", "rtdev", "journal_dev", "journal_path":
		return "no option that brings in another device"
	case "nouuid":
		return "no option that allows two filesystems with one UUID"
	}
	switch prefix, _, dotted := strings.Cut(name, "."); {
	case strings.HasPrefix(name, "x-"), strings.HasPrefix(name, "X-"):
		return "an option of the filesystem, not one for systemd or mount(8)"
	case dotted && prefix == "verity":
		return "no option that brings in another device"
	}
	return ""
}

func wrongOption(s string) string {
	if s == "" || len(s) > 256 || !printable(s) || strings.ContainsAny(s, `,\%"`) {
		return expectedOption
	}
	name, _, _ := strings.Cut(s, "=")
	return refusal(name)
}

// classNode is a class as the files say it, merged by name.
type classNode struct {
	// node is where the class begins, key its name in messages.
	node *yaml.Node
	key  string
	// at has the nodes of the values, from the key of the class that each is
	// written in: that of a drop-in, where that has the last word.
	at   map[string]*yaml.Node
	from map[string]string
}

// full is the whole key of a value.
func (c *classNode) full(name string) string {
	if from := c.from[name]; from != "" {
		return from + "." + name
	}
	return c.key + "." + name
}

// collect adds the classes of one file to those of the files before. What is not
// said there stays.
func (p *parser) collect(n *yaml.Node) {
	var own []*classNode
	for i, item := range p.items(n, "classes", "a class with name and directory", 1) {
		key := fmt.Sprintf("classes[%d]", i)
		at := p.mapping(item, key, classKeys)
		c := &classNode{node: item, key: key, at: at, from: map[string]string{}}
		for name := range at {
			c.from[name] = key
		}
		if name := c.name(); name != "" {
			if same := slices.IndexFunc(own, func(o *classNode) bool { return o.name() == name }); same >= 0 {
				p.at(at["name"], c.full("name"), "found %s, which is the name of %s (line %d), expected a name of its own", quote(name), own[same].key, own[same].node.Line)
			}
		}
		own = append(own, c)
	}
	for _, c := range own {
		// Within one file a name that stands twice is a fault already.
		same := slices.IndexFunc(p.merged, func(o *classNode) bool { return o.name() == c.name() && c.name() != "" && !slices.Contains(own, o) })
		if same < 0 {
			p.merged = append(p.merged, c)
			continue
		}
		for name, v := range c.at {
			p.merged[same].at[name], p.merged[same].from[name] = v, c.key
		}
	}
}

// name is the name of the class, empty if it has none.
func (c *classNode) name() string {
	if n := c.at["name"]; n != nil && n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}

// classes gives the merged list, in which no two may meet.
func (p *parser) classes() []disk.Class {
	var classes []disk.Class
	for i, n := range p.merged {
		c := p.class(n)
		for name, v := range n.at {
			p.origins[fmt.Sprintf("classes[%d].%s", i, name)] = place{name: p.file(v), line: v.Line}
		}
		for j := range classes {
			other := fmt.Sprintf("%s (line %d)", p.merged[j].key, p.merged[j].node.Line)
			if p.file(n.node) != p.file(p.merged[j].node) {
				other = fmt.Sprintf("%s (%s:%d)", p.merged[j].key, p.file(p.merged[j].node), p.merged[j].node.Line)
			}
			if !reflect.DeepEqual(c.Selectors, defaultClass().Selectors) && reflect.DeepEqual(c.Selectors, classes[j].Selectors) {
				p.at(n.node, n.key, "found the same selectors as in %s, which has all these disks, expected others", other)
			}
			if a, b := c.Directory, classes[j].Directory; a != "" && b != "" && (within(a, b) || within(b, a)) {
				p.at(n.at["directory"], n.full("directory"), "found %s, %s has %s, expected directories of which none lies in another", quote(a), other, quote(b))
			}
		}
		classes = append(classes, c)
	}
	return classes
}

// class reads one class; what is missing or wrong has its default, name and
// directory are then empty.
func (p *parser) class(n *classNode) disk.Class {
	c := defaultClass()
	at := n.at
	if at == nil {
		return c
	}
	for _, k := range []string{"name", "directory"} {
		if at[k] == nil {
			p.at(n.node, n.key, "found no %s, expected one", k)
		}
	}
	text := func(name string, k kind, otherwise string) string {
		return p.scalar(at[name], n.full(name), k, otherwise).(string)
	}
	c.Name = text("name", className, "")
	if given := p.selectors(n); !given.IsZero() {
		c.Selectors = given
		if only := (disk.Selectors{Partitions: true}); reflect.DeepEqual(given, only) {
			p.at(at["partitions"], n.full("partitions"), "found no other selector, expected one, such as names: [vd[b-z][1-9]]")
		}
	}
	c.Directory = text("directory", directory, "")
	c.Mode = text("mode", mode, c.Mode)
	c.Create = text("create", filesystemMade, c.Create)
	options := mkfsOption
	if c.Create == disk.Ext4 {
		options = mkfsExt4Option
	}
	c.MkfsOptions = p.list(at["mkfs_options"], n.full("mkfs_options"), options, 0, c.MkfsOptions)
	c.RootOwner = text("root_owner", rootOwner, c.RootOwner)
	c.RootMode = text("root_mode", rootMode, c.RootMode)
	c.Accept = p.list(at["accept"], n.full("accept"), filesystemKept, 1, c.Accept)
	c.Options = p.list(at["options"], n.full("options"), mountOption, 0, c.Options)
	c.Blank = text("blank", proof, c.Blank)
	c.MinimumSize = p.scalar(at["minimum_size"], n.full("minimum_size"), size, c.MinimumSize).(uint64)
	c.Grow = p.scalar(at["grow"], n.full("grow"), boolean, c.Grow).(bool)
	c.Trim = p.scalar(at["trim"], n.full("trim"), boolean, c.Trim).(bool)
	c.Provision = p.scalar(at["provision"], n.full("provision"), boolean, c.Provision).(bool)
	c.StorageClass = text("storage_class", storageClass, "")

	if !c.Provision && c.StorageClass != "" {
		p.at(at["storage_class"], n.full("storage_class"), "found %s, expected none: the class is not for the provisioner (provision)", quote(c.StorageClass))
	}
	if c.Partitions && c.Mode == disk.ModeBlock {
		p.at(at["mode"], n.full("mode"), "found %s, expected filesystem: partitions are not given out", quote(c.Mode))
	}
	if c.Create != "none" && !slices.Contains(c.Accept, c.Create) {
		p.at(at["accept"], n.full("accept"), "found no %s, expected it too: the class makes it (create)", c.Create)
	}
	if c.Create != "none" && c.MinimumSize < minimumXFS {
		p.at(at["minimum_size"], n.full("minimum_size"), "found %s, expected at least 300MiB: mkfs.xfs needs that", quote(at["minimum_size"].Value))
	}
	return c
}

// list reads a list of at least so many texts, or gives otherwise if there is
// none or a faulty one.
func (p *parser) list(n *yaml.Node, key string, k kind, least int, otherwise []string) []string {
	if n == nil {
		return otherwise
	}
	before := len(p.faults)
	values := []string{}
	for i, item := range p.items(n, key, k.expected, least) {
		full := fmt.Sprintf("%s[%d]", key, i)
		v, ok := p.scalar(item, full, k, nil).(string)
		switch {
		case !ok:
		case slices.Contains(values, v):
			p.at(item, full, "found %s a second time, expected once", quote(v))
		default:
			values = append(values, v)
		}
	}
	if len(p.faults) > before {
		return otherwise
	}
	return values
}
