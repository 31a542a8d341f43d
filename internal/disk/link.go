package disk

import (
	"cmp"
	"path"
	"strings"
)

// LinkDirectory is the directory of the links that lead to disks. Each link in a class directory leads to one of these
// links. After a reboot, LinkDirectory is gone, so an old link in a class directory leads nowhere.
const LinkDirectory = "/dev/hotmount"

// LinkName returns the name of the link by which the disk is given out. The name consists of the bus and the serial.
// Bytes other than letters, digits and "-._:=+@," are written in hexadecimal after a "%", so different serials give
// different names. LinkName returns "" for a disk without a serial. LinkName also returns "" for a name of more than
// longestLink bytes. udev derives longer names from the link's name, for its own links and lock files. The longer names
// must not exceed NAME_MAX (limits.h).
func (f *Facts) LinkName() string {
	var b [longestLink]byte
	return string(f.linkName(b[:0]))
}

// longestLink is the greatest length of a link's name, in bytes.
const longestLink = 200

// linkName returns the result of LinkName as bytes in the memory of b, or nil if the disk has no LinkName. If the name
// fits into b, linkName allocates no memory, because hotmount calls linkName each time it examines a disk.
func (f *Facts) linkName(b []byte) []byte {
	if f.Serial == "" {
		return nil
	}
	b = append(append(b, cmp.Or(f.Bus(), "disk")...), '-')
	for i := 0; i < len(f.Serial) && len(b) <= longestLink; i++ {
		const digits = "0123456789abcdef"
		switch c := f.Serial[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._:=+@,", c) >= 0:
			b = append(b, c)
		default:
			b = append(b, '%', digits[c>>4], digits[c&0xf])
		}
	}
	if len(b) > longestLink {
		return nil
	}
	return b
}

// Nameless reports whether the disk has no LinkName.
func (f *Facts) Nameless() bool {
	var b [longestLink]byte
	return len(f.linkName(b[:0])) == 0
}

// f.named(link) reports whether the path ends in the disk's LinkName.
func (f *Facts) named(link string) bool {
	var b [longestLink]byte
	name := f.linkName(b[:0])
	return len(name) > 0 && string(name) == path.Base(link)
}

// OwnLink returns Standing.Link if the link belongs to the disk itself. OwnLink returns "" if the link belongs to the
// whole disk of a partition, or to a disk below a device-mapper or md device.
func (f *Facts) OwnLink() string {
	if f.Whole == "" && f.named(f.Standing.Link) {
		return f.Standing.Link
	}
	return ""
}
