package disk

import (
	"cmp"
	"path"
	"strings"
)

// LinkDirectory holds the links to disks that class directories' links lead to. It
// is gone at reboot: what is left of a link then leads nowhere.
const LinkDirectory = "/dev/hotmount"

// LinkName is the name of the link by which the disk is given out: its transport
// and its serial, of which other bytes than letters, digits and "-._:=+@," are in
// hexadecimal after a "%". Disks of other serials have other names. It is empty
// for a disk without a serial, and one of which the name would be too long
// (NAME_MAX, limits.h; udev's links and lock files add to it).
func (f *Facts) LinkName() string {
	var b [longestLink]byte
	return string(f.linkName(b[:0]))
}

// longestLink is how many bytes the name of a link has at most.
const longestLink = 200

// linkName is LinkName in the memory of b, which may be too small for what is too long. So it allocates nothing
// for whoever asks for a disk's name each time that it is looked at.
func (f *Facts) linkName(b []byte) []byte {
	if f.Serial == "" {
		return nil
	}
	b = append(append(b, cmp.Or(f.Transport, "disk")...), '-')
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

// Nameless reports that the disk has no LinkName.
func (f *Facts) Nameless() bool {
	var b [longestLink]byte
	return len(f.linkName(b[:0])) == 0
}

// named reports whether the path ends in the disk's LinkName.
func (f *Facts) named(link string) bool {
	var b [longestLink]byte
	name := f.linkName(b[:0])
	return len(name) > 0 && string(name) == path.Base(link)
}

// OwnLink is Standing.Link if it is of the disk itself, and not of one that it is part of.
func (f *Facts) OwnLink() string {
	if f.Whole == "" && f.named(f.Standing.Link) {
		return f.Standing.Link
	}
	return ""
}
