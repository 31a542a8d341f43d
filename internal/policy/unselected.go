package policy

import (
	"strings"

	"hotmount/internal/disk"
)

// usable reports whether hotmount could use a disk that belongs to no class. hotmount could use a disk if usual(f) is
// true, nothing uses the disk, and the disk seems empty or holds a filesystem. hotmount gives no advice about other
// unselected disks, because every node has such disks.
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

// usual reports whether the disk is a whole virtio-blk, SCSI or NVMe disk that has a size and is not removable.
func usual(f *disk.Facts) bool {
	return f.Whole == "" && ordinary(f.Name) && f.Size > 0 && !f.Removable
}

// classToAdd returns a remedy that contains the text of a new class. The new class selects the disk by its serial, its
// slot or its name. The remedy tells the operator to copy all present classes, because the built-in class does not
// apply once the configuration defines a class.
func classToAdd(w *wording) string {
	f := w.f
	selector := "names: [" + f.Name + "]"
	switch {
	case isPlain(f.Serial):
		selector = `serial: ["` + f.Serial + `"]`
	case isPlain(f.Slot):
		selector = `by_path: ["` + f.Slot + `"]`
	}
	return say("to let hotmount use the disk, copy all classes from hotmount config show to /etc/hotmount/config.yaml, and add this class: {name: extra, %s, directory: /mnt/extra}", selector)
}

// isPlain reports whether the value, as a pattern, matches only itself and needs no escape in a configuration file.
func isPlain(value string) bool {
	return value != "" && !strings.HasPrefix(value, Regexp) && !strings.ContainsFunc(value, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._:", r))
	})
}
