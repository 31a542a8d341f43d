package config

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"hotmount/internal/disk"
)

// minimumXFS is the smallest size in bytes on which mkfs.xfs makes a filesystem (validate_supported in mkfs/xfs_mkfs.c
// of xfsprogs 5.19 and later). minimumXFS is also the minimum for ext4, because hotmount always checks first whether
// mkfs.xfs would refuse the disk.
const minimumXFS = 300 << 20

// Each of the following kinds allows only a few values.
var (
	mode           = oneOf(disk.ModeFilesystem, disk.ModeBlock)
	neighbours     = oneOf(disk.NeighboursHold, disk.NeighboursIgnore)
	filesystemMade = oneOf(disk.XFS, disk.Ext4, "none")
	filesystemKept = oneOf("xfs", "ext4")
	adopted        = oneOf(disk.AdoptAny, disk.AdoptKnown)
	proof          = oneOf("auto", "full", "sampled", "unsigned")
	transport      = oneOf("virtio", "virtio-scsi", "scsi", "nvme", "dm")
)

// The following kinds allow any text of a certain form.
var (
	className = matching(`[a-z0-9][a-z0-9-]*`, 63,
		"a name of 1 to 63 lower-case letters, digits and hyphens that does not begin with a hyphen")
	// Names of Kubernetes objects are DNS subdomains (RFC 1123).
	storageClass = matching(`[a-z0-9.-]*`, 253,
		"the name of a Kubernetes object: at most 253 lower-case letters, digits, '-' and '.', or \"\" for none")
	driverName = matching(`[A-Za-z0-9._-]+`, 253, "the name of a driver, as hotmount status prints it: letters, digits, '.', '_' and '-'")
	rootMode   = matching(`[0246][0-7][0-7][0-7]`, 4,
		`an octal mode of four digits in quotes, such as "0755" or "2770", without the sticky bit`)
	rootOwner = matching(`[0-9]+:[0-9]+`, 128, `two numbers "UID:GID" in quotes, such as "1000:1000"`, wrongOwner)
	directory = matching(`/[A-Za-z0-9/._-]*`, 4096,
		"an absolute path such as /mnt/disks, of letters, digits, '.', '_' and '-', without an extra slash or a directory that is named '.' or '..'", wrongDirectory)
	mountOption = matching(`[!-~]+`, 256,
		"one mount option of at most 256 visible characters without ',', '\\', '%' and '\"'", wrongOption)
	// The kind mkfsOption accepts any text. The valid options depend on the filesystem that the class creates, so
	// checkActions examines the text.
	mkfsOption = matching(`(?s:.*)`, maxFile, "an option of mkfs in quotes")
	// A kernel name has at most 31 bytes (DISK_NAME_LEN in include/linux/blkdev.h) and no slash. A pattern may be
	// longer than the name that it matches.
	kernelNames = matching(`[!-.0-~]+`, 128,
		"a pattern of kernel names such as vd[a-z], of at most 128 characters without slashes and spaces", wrongPattern)
	anyText = matching(`[ -~]+`, 128,
		"a pattern of at most 128 visible characters: a glob such as FAST-*, or a regular expression after re:", wrongPattern)
	// The first directory of a pattern must be literal, so that no pattern can match every file.
	backingFile = matching(`/[ -)+-.0->@-Z\]-~]+/[ -~]+`, 128,
		"an absolute path whose first directory has no wildcard, such as /srv/ci/*.img", wrongBackingFile)
)

const expectedMkfs = `an option of mkfs.xfs such as "-i size=1024"; hotmount takes only -d (agcount, su, sw, sunit, swidth, noalign), -i (size, maxpct, sparse, nrext64), -l (size, su, sunit), -m (reflink, rmapbt, finobt, bigtime, inobtcount) and -n (size)`

const expectedMkfsExt4 = `an option of mkfs.ext4 such as "-m 0"; hotmount takes only -i, -m and -N with a number, -E (stride, stripe_width) and -J (size)`

func wrongOwner(s, expected string) string {
	for number := range strings.SplitSeq(s, ":") {
		// The highest 32-bit number is not an owner: chown(2) with this number leaves the owner unchanged.
		if n, err := strconv.ParseUint(number, 10, 32); err != nil || n == 1<<32-1 {
			return expected
		}
	}
	return ""
}

func wrongBackingFile(s, expected string) string {
	if _, err := path.Match(s, ""); err != nil || emptyBracket(s) || path.Clean(s) != s {
		return expected
	}
	return ""
}

// regexpPrefix is the prefix of a regular expression, as in policy.Regexp.
const regexpPrefix = "re:"

// wrongPattern describes the expected form if the pattern is invalid, and returns "" if the pattern is valid.
func wrongPattern(s, expected string) string {
	if expression, ok := strings.CutPrefix(s, regexpPrefix); ok {
		if _, err := regexp.Compile(expression); err != nil {
			return "a regular expression (RE2); " + err.Error()
		}
	} else if _, err := path.Match(s, ""); err != nil {
		return expected + "; a bracket is not closed, or nothing follows a backslash"
	} else if emptyBracket(s) {
		return "a pattern that can match a disk: in [z-a] the first character comes after the last"
	}
	return ""
}

// bracket matches a bracket expression of a glob, or an escaped character outside of brackets.
var bracket = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\\.|\[(?:\\.|[^\]\\])+\]`) })

// emptyBracket reports whether the glob has a bracket expression that matches no character.
func emptyBracket(glob string) bool {
	return slices.ContainsFunc(bracket().FindAllString(glob, -1), func(b string) bool {
		for r := rune(0); r < 0x180; r++ {
			if ok, _ := path.Match(b, string(r)); ok {
				return false
			}
		}
		return true
	})
}

// The variable `reserved` lists hotmount's state directory, and the directories that the system needs unchanged. A
// purge of the package removes the state directory with everything below it.
var reserved = []string{"/proc", "/sys", "/dev", "/run", "/etc", "/usr", "/boot", "/var/lib/hotmount"}

func wrongDirectory(s, expected string) string {
	switch {
	case path.Clean(s) != s:
		return expected
	case s == "/":
		return "a separate directory, not the root directory"
	// The mount unit's name is the escaped path, with "\x2d" for "-", and has at most 255 characters (UNIT_NAME_MAX in
	// systemd's src/basic/unit-name.h). The unit's name ends with a separator, the escaped UUID and ".mount", which
	// take 55 of the 255 characters.
	case len(s)+3*strings.Count(s, "-") > 190:
		return "a path that is short enough for the name of a mount unit: at most 190 characters, where a '-' counts as 4"
	}
	for _, r := range reserved {
		if isWithin(s, r) {
			return "a directory outside of " + strings.Join(reserved, ", ")
		}
	}
	if disk.Hidden(s) {
		return "a directory that the daemon can see: ProtectHome= and PrivateTmp= of the daemon's unit hide /home, /root, /tmp and /var/tmp"
	}
	return ""
}

// isWithin reports whether the path is the directory or below it.
func isWithin(path, directory string) bool {
	return path == directory || strings.HasPrefix(path, directory+"/")
}

func wrongOption(s, expected string) string {
	if strings.ContainsAny(s, `,\%"`) {
		return expected
	}
	name, _, _ := strings.Cut(s, "=")
	return refusal(name)
}

// refusal returns the text of the rule against a mount option, or "" if the option is allowed. Some forbidden options
// change who may unmount the filesystem, or what mount(8) or systemd does (systemd.mount(5)). Other forbidden options
// add a device, or let XFS mount two filesystems with one UUID.
func refusal(name string) string {
	switch name {
	case "nofail":
		return `a list without nofail: hotmount adds the option itself`
	case "user", "users", "owner", "group":
		return "no option that lets users other than root mount and unmount"
	case "auto", "noauto", "_netdev":
		return "an option without effect on the time of the mount: hotmount decides when to mount"
	case "remount", "bind", "rbind", "move", "loop", "offset", "sizelimit", "encryption":
		return "no option that makes mount(8) do something other than mount the disk"
	case "shared", "rshared", "slave", "rslave", "private", "rprivate", "unbindable", "runbindable":
		return "an option that does not set propagation: the mount of the class directory sets the propagation"
	case "helper", "uhelper":
		return "no option that makes a helper unmount the disk"
	case "logdev", "rtdev", "journal_dev", "journal_path":
		return "no option that adds another device"
	case "nouuid":
		return "no option that allows two filesystems with one UUID"
	}
	switch prefix, _, dotted := strings.Cut(name, "."); {
	case strings.HasPrefix(name, "x-"), strings.HasPrefix(name, "X-"):
		return "an option of the filesystem, not an option for systemd or mount(8)"
	case dotted && prefix == "verity":
		return "no option that adds another device"
	}
	return ""
}
