package policy

import "hotmount/internal/disk"

// leastGain is less than any growth that XFS accepts. It is 64 blocks (XFS_MIN_AG_BLOCKS, Linux,
// fs/xfs/libxfs/xfs_fs.h) of 4 KiB, the largest block that can be mounted with pages of that size.
const leastGain = 64 * 4096

// Fills reports whether the known filesystem on the disk is to be grown before it is mounted. Debian 12's udev does not
// give the size of an ext4. Such a filesystem is assumed to fill the disk from which this node last mounted it. If this
// node never did, it may have room: the unit that grows it reads its size.
//
// The unit also takes a filesystem that must not grow, before this node mounts it for the first time: its log may have a
// growth from elsewhere.
func Fills(f *disk.Facts, class *disk.Class) bool {
	span, v := f.Known().Span, f.Standing.Volume
	if span == 0 && v != nil {
		span = v.Identity.Size
	}
	return Grows(f, class) && (v == nil || !f.Fixed()) && (span == 0 || f.Size >= span+leastGain)
}
