package policy

import "hotmount/internal/disk"

// leastGain is less than any gain that XFS does not refuse: 64 blocks of 4 KiB, the
// largest that can be mounted where pages have that size (XFS_MIN_AG_BLOCKS, Linux,
// fs/xfs/libxfs/xfs_fs.h).
const leastGain = 64 * 4096

// Fills reports whether the filesystem that is known on the disk is to fill it before it
// is mounted. Debian 12's udev does not say how much an ext4 takes; there it is taken to
// have filled the disk that it was last mounted from here, and one that never was may
// have room: the unit that has it fill the disk reads how much it takes.
func Fills(f *disk.Facts, class *disk.Class) bool {
	span := f.Known().Span
	if v := f.Standing.Volume; span == 0 && v != nil {
		span = v.Identity.Size
	}
	return Grows(f, class) && (span == 0 || f.Size >= span+leastGain)
}
