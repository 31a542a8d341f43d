package policy

import "hotmount/internal/disk"

// leastGain is a number of bytes that is less than every growth that XFS accepts. It is 64 blocks (XFS_MIN_AG_BLOCKS,
// Linux, fs/xfs/libxfs/xfs_fs.h) of 4 KiB, which is the largest block that can be mounted with pages of 4 KiB.
const leastGain = 64 * 4096

// Fills reports whether the known filesystem on the disk is to be grown before it is mounted. Debian 12's udev does not
// give the size of an ext4 filesystem. Such a filesystem is assumed to fill the disk from which this node last mounted
// it. If this node never mounted it, the disk may have room, and the unit that grows filesystems reads the size.
//
// The unit also runs for a filesystem that must not grow, before this node mounts it for the first time. The log of
// such a filesystem may contain a growth that another machine made.
func Fills(f *disk.Facts, class *disk.Class) bool {
	span, v := f.Known().Span, f.Standing.Volume
	if span == 0 && v != nil {
		span = v.Identity.Size
	}
	return Grows(f, class) && (v == nil || !f.Fixed()) && (span == 0 || f.Size >= span+leastGain)
}
