package policy

import "hotmount/internal/disk"

// leastGain is less than any gain that XFS does not refuse: 64 blocks of 4 KiB, the
// largest that can be mounted where pages have that size (XFS_MIN_AG_BLOCKS, Linux,
// fs/xfs/libxfs/xfs_fs.h).
const leastGain = 64 * 4096

// Fills says whether the filesystem that is known on the disk is to fill it before it
// is mounted.
func Fills(f *disk.Facts, class *disk.Class) bool {
	c := f.Known()
	return Grows(f, class) && c.Span > 0 && f.Size >= c.Span+leastGain
}
