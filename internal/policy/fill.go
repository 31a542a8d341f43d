package policy

import "hotmount/internal/disk"

// leastGain is the smallest growth in bytes with which XFS adds an allocation group, with blocks of 4 KiB: 64 blocks.
// XFS_MIN_AG_BLOCKS is 64 (Linux, fs/xfs/libxfs/xfs_fs.h), and 4 KiB is the largest XFS block size that Linux before
// 6.12 mounts with pages of 4 KiB.
const leastGain = 64 * 4096

// ShouldGrow reports whether the known filesystem on the disk is to be grown before it is mounted. udev in Debian 12
// does not report the size of an ext4 filesystem. ShouldGrow assumes that an ext4 filesystem fills the disk from which
// this node last mounted the filesystem. If this node never mounted the ext4 filesystem, the disk may be larger than
// the filesystem. In this case, the unit that grows filesystems reads the size of the filesystem.
//
// Before the first mount on this node, ShouldGrow can also return true for a filesystem that must not grow
// (Facts.Fixed). Another machine may have grown the filesystem, and the growth may be only in the journal. The unit
// that grows filesystems mounts the filesystem, so that the kernel replays the journal.
func ShouldGrow(f *disk.Facts, class *disk.Class) bool {
	span, v := f.KnownContent().Span, f.Standing.Volume
	if span == 0 && v != nil {
		span = v.Identity.Size
	}
	return Grows(f, class) && (v == nil || !f.Fixed()) && (span == 0 || f.Size >= span+leastGain)
}
