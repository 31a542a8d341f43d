package mounts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"hotmount/internal/disk"
)

// Claim is a place in the system's configuration that names a device. The author of the configuration intends the
// device for something other than hotmount.
type Claim struct {
	// Where names the file and the line, such as "/etc/fstab:4". If the file or directory is unreadable, the field
	// Where contains only the path.
	Where string
	// Spec names the device: a path, a pattern of paths (mdadm.conf(5)), or a tag such as UUID=… (fstab(5)). In Spec,
	// quotes are removed and octal escapes are decoded. An empty Spec means that the device is unknown, so the claim
	// may concern any disk.
	Spec string
}

// unitDirectories are the directories for the unit files of administrators, packages and generators (systemd.unit(5)).
// unitDirectories omits /run/systemd/transient, which contains hotmount's own units. Generated units repeat the lines
// of fstab. Mounts from the kernel command line (systemd.mount-extra=) appear only in generated units.
var unitDirectories = []string{
	"/etc/systemd/system.control",
	"/run/systemd/system.control",
	"/etc/systemd/system",
	"/run/systemd/system",
	"/run/systemd/generator.early",
	"/run/systemd/generator",
	"/run/systemd/generator.late",
	"/usr/local/lib/systemd/system",
	"/usr/lib/systemd/system",
}

// Claims returns all claims of fstab(5), crypttab(5), mdadm.conf(5) and libvirt's domains. The What= settings of mount
// and swap units are claims, too. All files lie below the given root, which is "" or "/" for the live system. Claims
// reads a unit file even if another unit file overrides it (systemd.unit(5)).
//
// A missing file claims nothing. An unreadable unit file, such as a link into a home directory, is a claim without a
// Spec. An unreadable file of a libvirt domain is also a claim without a Spec. Claims returns an error if it cannot
// read fstab, crypttab, mdadm.conf or a directory of unit files.
func Claims(root string) ([]Claim, error) {
	claims, err := claimsBelow(filepath.Join("/", root))
	if err != nil {
		return nil, fmt.Errorf("cannot read which disks are claimed: %w", err)
	}
	return claims, nil
}

func claimsBelow(root string) ([]Claim, error) {
	r := claimReader{root: root}
	r.file("/etc/fstab", parseFstab)
	r.file("/etc/crypttab", parseCrypttab)
	// Debian puts mdadm.conf(5) into /etc/mdadm. Upstream mdadm expects the file in /etc. Each path can have a drop-in
	// directory.
	for _, name := range []string{"/etc/mdadm/mdadm.conf", "/etc/mdadm.conf"} {
		r.file(name, parseMdadm)
		for _, dropIn := range r.list(name+".d", ".conf") {
			r.file(dropIn, parseMdadm)
		}
	}
	for _, dir := range unitDirectories {
		// The names of drop-in directories end in .d. Drop-ins apply to one unit, to all units with a common prefix, or
		// to all units of one type.
		for _, name := range r.list(dir, ".mount", ".swap", "mount.d", "swap.d") {
			if !strings.HasSuffix(name, ".d") {
				r.unit(name)
				continue
			}
			dropIns, err := list(root, name, ".conf")
			if err != nil || hidden(root, name) {
				r.unseen = append(r.unseen, Claim{Where: name})
				continue
			}
			for _, dropIn := range dropIns {
				r.unit(dropIn)
			}
		}
	}
	return slices.Concat(r.claims, r.unseen, domainClaims(root)), r.err
}

// claimReader collects the claims of files below a root directory.
type claimReader struct {
	root string
	// The field `unseen` contains one claim for each unreadable unit file or directory of drop-ins.
	claims, unseen []Claim
	err            error
}

// The method `list` calls the function `list` of this package. If that call returns an error, the method adds the error
// to r.err.
func (r *claimReader) list(dir string, endings ...string) []string {
	names, err := list(r.root, dir, endings...)
	r.err = errors.Join(r.err, err)
	return names
}

func (r *claimReader) file(name string, parse func(text, where string) []Claim) {
	text, err := ReadFile(r.root + name)
	r.err = errors.Join(r.err, err)
	r.add(parse(text, name))
}

// The method `add` drops the claims without a Spec, and adds all other claims to r.claims. In a readable file, a claim
// without a Spec comes from a line that names no device.
func (r *claimReader) add(all []Claim) {
	r.claims = append(r.claims, slices.DeleteFunc(all, func(c Claim) bool { return c.Spec == "" })...)
}

func (r *claimReader) unit(name string) {
	text, err := ReadFile(r.root + name)
	if err != nil || hidden(r.root, name) {
		r.unseen = append(r.unseen, Claim{Where: name})
		return
	}
	r.add(parseUnit(text, name))
}

// hidden reports whether a unit file or a directory of drop-ins is a link into a place that the daemon cannot see
// (disk.Hidden). The daemon's sandbox denies access below /home and shows an empty /tmp. Every hotmount process treats
// a link to /home or /tmp as unreadable, so that `hotmount plan` agrees with the daemon.
func hidden(root, name string) bool {
	// Like the kernel, this function follows at most 40 symlinks (MAXSYMLINKS in include/linux/namei.h).
	for range 40 {
		target, err := os.Readlink(filepath.Join(root, name))
		if err != nil {
			return false
		}
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(name), target)
		}
		if name = path.Clean(target); disk.Hidden(name) {
			return true
		}
	}
	return false
}

// The function `list` returns the paths of the directory's entries whose names end in one of the given endings.
func list(root, dir string, endings ...string) ([]string, error) {
	entries, err := os.ReadDir(root + dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if slices.ContainsFunc(endings, func(ending string) bool { return strings.HasSuffix(e.Name(), ending) }) {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	return names, nil
}

// ReadFile returns the text of a configuration file, or "" if the file is missing or is not a regular file. A masked
// unit, for example, is a link to /dev/null.
func ReadFile(name string) (string, error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("cannot read %s: more than %d bytes", name, maxFile)
	}
	return string(text), err
}

// The function `lines` returns the claims of all lines except empty lines and comments. specs() returns the devices that
// a line names.
func lines(text, where string, specs func(line string) []string) []Claim {
	var claims []Claim
	number := 0
	for line := range strings.Lines(text) {
		number++
		if start := strings.TrimSpace(line); start == "" || start[0] == '#' {
			continue
		}
		for _, spec := range specs(line) {
			claims = append(claims, Claim{lineLocation(where, number), spec})
		}
	}
	return claims
}

func lineLocation(where string, line int) string { return where + ":" + strconv.Itoa(line) }

// parseFstab reads fstab(5). The options in fstab can also name devices: logdev= of XFS, device= of btrfs,
// journal_path= of ext4.
func parseFstab(text, where string) []Claim {
	return lines(text, where, func(line string) []string {
		words := append(strings.Fields(line), "", "", "") // the line may have fewer than four words
		return append([]string{unquote(unescapeOctal(words[0]))}, inOptions(words[3])...)
	})
}

// parseCrypttab reads crypttab(5). A line names the encrypted device. A line may also name a device that contains the
// key (/key:LABEL=x) or a detached header (in the options).
func parseCrypttab(text, where string) []Claim {
	return lines(text, where, func(line string) []string {
		words := append(strings.Fields(line), "", "", "")
		return append([]string{unquote(unescapeOctal(words[1])), inKey(words[2])}, inOptions(words[3])...)
	})
}

// inOptions returns the devices that a list of options names.
func inOptions(options string) []string {
	var specs []string
	for option := range strings.SplitSeq(unescapeOctal(options), ",") {
		_, value, _ := strings.Cut(option, "=")
		specs = append(specs, inKey(value))
	}
	return specs
}

// inKey returns the device that the value of a key names. The value can be a device's path, or a path on a device
// (PATH:DEVICE in crypttab(5)). inKey returns "" if the value names no device.
func inKey(value string) string {
	value = unquote(value)
	if strings.HasPrefix(value, "/dev/") {
		return value
	}
	if file, device, found := strings.Cut(value, ":"); found && strings.HasPrefix(file, "/") {
		return unquote(device)
	}
	return ""
}

// parseMdadm reads the devices from the DEVICE and ARRAY lines of mdadm.conf(5). parseMdadm also reads the UUIDs of
// arrays, because each member of an array has the UUID of the array. A line that begins with white space continues the
// previous line. Keywords may be shortened to three letters.
func parseMdadm(text, where string) []Claim {
	keyword := ""
	return lines(text, where, func(line string) []string {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if line[0] != ' ' && line[0] != '\t' {
			keyword, words = strings.ToLower(words[0]), words[1:]
		}
		var specs []string
		for _, word := range words {
			word = unquote(word)
			key, value, found := strings.Cut(word, "=")
			switch {
			case isKeyword(keyword, "device") && strings.HasPrefix(word, "/"):
				specs = append(specs, word)
			case !isKeyword(keyword, "array") || !found:
			case strings.EqualFold(key, "uuid"):
				specs = append(specs, "UUID="+unquote(value))
			case strings.EqualFold(key, "devices"):
				specs = append(specs, strings.Split(unquote(value), ",")...)
			}
		}
		return specs
	})
}

func isKeyword(word, keyword string) bool {
	return len(word) >= 3 && strings.HasPrefix(keyword, word)
}

// parseUnit reads the What= settings of a unit file (systemd.syntax(7), systemd.mount(5), systemd.swap(5)).
func parseUnit(text, where string) []Claim {
	var (
		claims  []Claim
		section string
		joined  string
		first   int
		number  int
	)
	setting := func(line string) {
		if strings.HasPrefix(line, "[") {
			section = line
			return
		}
		key, value, _ := strings.Cut(line, "=")
		if section != "[Mount]" && section != "[Swap]" || strings.TrimSpace(key) != "What" {
			return
		}
		if value = strings.TrimSpace(value); value != "" {
			// Only the specifier %% is decoded. A claim whose device is named with another specifier matches no disk.
			claims = append(claims, Claim{lineLocation(where, first), unquote(strings.ReplaceAll(value, "%%", "%"))})
		}
	}
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		// A comment may stand between the lines of a setting that continues over several lines.
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		if joined == "" {
			first = number
		}
		if head, more := strings.CutSuffix(line, `\`); more {
			joined += head + " "
			continue
		}
		setting(strings.TrimSpace(joined + line))
		joined = ""
	}
	setting(strings.TrimSpace(joined))
	return claims
}

// unquote removes quotes around the whole string or around the value of a tag.
func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		s = s[1 : len(s)-1]
	}
	key, value, found := strings.Cut(s, "=")
	if found && len(value) >= 2 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
		return key + "=" + value[1:len(value)-1]
	}
	return s
}

// Matches reports whether the claim names the disk, or names a partition of the disk as in isPartitionOf. Matches also
// returns true for the name of a partition that the disk does not have now. For a whole disk, Matches returns false if
// the claim names a partition by UUID or label. Matches returns false for a claim on a device above the disk, such as an
// LVM volume. hotmount ignores a disk with an active LVM volume anyway, because the volume is a holder of the disk in
// sysfs.
func (c Claim) Matches(f *disk.Facts) bool {
	if strings.HasPrefix(c.Spec, "/") {
		return matchesPath(path.Clean(c.Spec), f)
	}
	key, value, found := strings.Cut(c.Spec, "=")
	if !found {
		return false
	}
	switch strings.ToUpper(key) {
	case "UUID":
		return matchesUUID(value, f)
	case "LABEL":
		return matchesLabel(value, f)
	case "ID":
		return matchesPath("/dev/disk/by-id/"+value, f)
	case "PARTUUID":
		return hasLink("/dev/disk/by-partuuid/"+strings.ToLower(value), f)
	case "PARTLABEL":
		return hasLink("/dev/disk/by-partlabel/"+value, f)
	}
	return false
}

// hasLink reports whether udev created the link, which is given without udev's \x escapes.
func hasLink(link string, f *disk.Facts) bool {
	return slices.ContainsFunc(f.Udev.Links, func(l string) bool { return disk.Unescape(l) == link })
}

func matchesUUID(uuid string, f *disk.Facts) bool {
	uuid = plainUUID(uuid)
	return uuid != "" && (uuid == plainUUID(f.Udev.FSUUID) || uuid == plainUUID(f.KnownContent().UUID))
}

// plainUUID removes the differences between spellings of a UUID: case, dashes, and the colons of mdadm.
func plainUUID(s string) string {
	return strings.ToLower(strings.NewReplacer("-", "", ":", "").Replace(s))
}

func matchesLabel(label string, f *disk.Facts) bool {
	return label != "" && (label == f.Udev.FSLabel || label == f.KnownContent().Label)
}

func matchesPath(p string, f *disk.Facts) bool {
	switch dir, name := path.Split(p); dir {
	case "/dev/disk/by-uuid/":
		// If two disks have the same UUID, the link in /dev/disk/by-uuid leads to only one of these disks. matchesPath
		// therefore compares the UUID, and not the link.
		if matchesUUID(disk.Unescape(name), f) {
			return true
		}
	case "/dev/disk/by-label/":
		if matchesLabel(disk.Unescape(name), f) {
			return true
		}
	case "/dev/block/":
		return name == f.Dev.String()
	}
	// In sysfs the kernel writes a slash in a device's name as "!".
	node := "/dev/" + strings.ReplaceAll(f.Name, "!", "/")
	own := append([]string{node}, f.Udev.Links...)
	for _, part := range f.Partitions {
		own = append(own, "/dev/"+strings.ReplaceAll(part, "!", "/"))
	}
	return slices.ContainsFunc(own, func(o string) bool { return matchesPattern(p, o) }) || isPartitionOf(p, node, f)
}

// matchesPattern reports whether the path in a claim equals the given path of the disk, or is a pattern that matches
// the given path (DEVICE in mdadm.conf(5)).
func matchesPattern(p, own string) bool {
	match, err := path.Match(p, own)
	return p == own || match && err == nil
}

// isPartitionOf reports whether the path names a partition that the disk might have. The kernel makes a partition's
// name from the disk's name and the partition's number, such as "vdb1" (add_partition in block/partitions/core.c). If
// the disk's name ends in a digit, the kernel puts "p" before the partition's number, as in the name "nvme0n1p1". The
// name of udev's link to a partition ends in "-part" and the number, such as "-part1".
func isPartitionOf(p, node string, f *disk.Facts) bool {
	separator := ""
	if last := node[len(node)-1]; last >= '0' && last <= '9' {
		separator = "p"
	}
	return isNumber(strings.TrimPrefix(p, node+separator)) ||
		slices.ContainsFunc(f.Udev.Links, func(link string) bool { return isNumber(strings.TrimPrefix(p, link+"-part")) })
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
