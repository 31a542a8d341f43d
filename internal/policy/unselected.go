package policy

import (
	"strings"

	"hotmount/internal/disk"
)

// usable reports whether hotmount could use a disk that belongs to no class. Such a disk is usual, not in use, and
// according to udev empty or with a filesystem. Every node has other disks that belong to no class.
func usable(f *disk.Facts, c *disk.Content) bool {
	switch c.Kind {
	case disk.Unread, disk.Blank, disk.HalfMade, disk.Filesystem:
	default:
		return false
	}
	u := &f.Udev
	used := len(f.Mounts)+len(f.Bound)+len(f.Partitions)+len(f.Holders)+len(f.Loops) > 0 || f.Swap || f.Claim != "" || f.Standing.Link != ""
	return usual(f) && !used && u.Initialized && !u.NotReady && !u.Multipath && !seed(u.FSLabel)
}

// usual reports whether the disk is a whole disk of an ordinary kind.
func usual(f *disk.Facts) bool {
	return f.Whole == "" && ordinary(f.Name) && f.Size > 0 && !f.Removable
}

// classToAdd returns a class that selects only this disk. If a class is defined, the built-in class does not apply any
// more.
func classToAdd(w *told) string {
	f := w.f
	selector := "names: [" + f.Name + "]"
	switch {
	case plain(f.Serial):
		selector = `serial: ["` + f.Serial + `"]`
	case plain(f.Slot):
		selector = `by_path: ["` + f.Slot + `"]`
	}
	return say("to let hotmount use it, add to the classes that hotmount config show prints, in /etc/hotmount/config.yaml: {name: extra, %s, directory: /mnt/extra}", selector)
}

// plain reports whether the value, as a pattern, matches only itself and needs no escape in a configuration file.
func plain(value string) bool {
	return value != "" && !strings.HasPrefix(value, Regexp) && !strings.ContainsFunc(value, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._:", r))
	})
}
