package policy

import "hotmount/internal/disk"

// The constants are in nanoseconds, because package policy does not import time.
const (
	hour = 3600 * 1e9
	// trimAge is how long a filesystem must have been mounted on this node before it is trimmed. After a wrong format,
	// the old data can be recovered only until the first trim. After a move of the disk to another node, or after a
	// reinstallation, nobody knows for certain which filesystems hotmount made.
	trimAge = 24 * hour
	// trimPeriod is the least time between two trims: a little less than a week.
	trimPeriod = 7*24*hour - 12*hour
)

// Trim reports whether to give the free space of the mounted filesystem back to the storage. If Trim returns false, the
// second result is the reason. The parameter `since` is the time since the last trim in nanoseconds, or negative if the
// filesystem was never trimmed.
func Trim(f *disk.Facts, d disk.Decision, s *disk.Settings, r disk.Running, since int64) (bool, string) {
	class, known := Select(f, s), f.KnownContent()
	switch {
	case class == nil || !d.Mounted():
		return false, "hotmount has not mounted the filesystem"
	case !s.Trim || !class.Trim:
		return false, "trim: false in the configuration"
	case f.ReadOnly:
		return false, "the kernel refuses writes to the disk"
	case !f.Discards:
		return false, "the disk does not support discard (attach the disk with discard='unmap')"
	case f.Lost() != nil:
		return false, "a disk below this device is gone"
	case coveredBy(f, class) != "":
		// fstrim(8) would open the covering filesystem, which may never answer.
		return false, "another mount covers the disk's mount"
	case d.Reason == disk.ReasonShrunk:
		return false, "the disk has shrunk"
	case f.Fault != "":
		// Space that a damaged filesystem shows as free may contain data that a repair would find.
		return false, f.Fault
	case Intent(f, &known) != nil:
		return false, "an earlier format of the disk did not finish"
	case r.Ran < trimAge:
		return false, "hotmount has seen the filesystem mounted for less than 24 hours; a trim could destroy the old data that remains after a wrong format"
	case since >= 0 && since < trimPeriod:
		return false, "the filesystem was trimmed within the last week"
	}
	return true, ""
}
