package disk

import (
	"fmt"
	"hash/fnv"
)

// Geometry describes the part of a disk that a filesystem occupies.
type Geometry struct {
	// Size is the size of the filesystem in bytes. Block is the size of a block in bytes.
	Size  uint64 `json:"size"`
	Block uint64 `json:"block"`
	// Group is the size in bytes of an XFS allocation group, or 0 for any other filesystem.
	Group uint64 `json:"group,omitempty"`
	// UUID is the UUID of an XFS filesystem, empty if unknown. For a mounted filesystem, UUID is the UUID that the
	// kernel read from the disk.
	UUID string `json:"uuid,omitempty"`
}

// leastGroup is the least number of blocks that the last allocation group of an XFS filesystem can have
// (XFS_MIN_AG_BLOCKS, Linux, fs/xfs/libxfs/xfs_fs.h).
const leastGroup = 64

// Usable returns the largest size in bytes that the filesystem could have on a disk of the given size. For XFS, Usable
// computes the value as xfs_growfs_data_private does (Linux, fs/xfs/xfs_fsops.c). For any other filesystem, the
// returned value is an upper bound.
func (g Geometry) Usable(size uint64) uint64 {
	if g.Block == 0 {
		return 0
	}
	size -= size % g.Block
	if g.Group == 0 {
		return size
	}
	if last := size % g.Group; last < leastGroup*g.Block {
		size -= last
	}
	return size
}

// Fit is the result of the last attempt to grow a filesystem to the size of its disk. A Fit is valid for one attachment
// and one size of the disk.
type Fit struct {
	Seq  uint64 `json:"seq"`
	Size uint64 `json:"size"`
	// Geometry is the filesystem's geometry after the attempt.
	Geometry Geometry `json:"geometry"`
	// Failure is why the filesystem does not fill the disk, or empty if the filesystem fills the disk or must not grow
	// (Facts.Fixed).
	Failure string `json:"failure,omitempty"`
	// Recorded reports that the superblock of the ext4 filesystem records errors. The filesystem cannot grow until
	// e2fsck has repaired the errors.
	Recorded bool `json:"recorded,omitempty"`
}

// Valid reports whether the disk still has the attachment and the size that it had when the result was recorded.
func (v *Fit) Valid(f *Facts) bool { return v != nil && v.Seq == f.Seq && v.Size == f.Size }

// Adopted returns the size in bytes that the disk had when its filesystem was first mounted on this node. Adopted
// returns 0 if the node made the filesystem. Before the first mount, Adopted returns the present size of the disk.
func (f *Facts) Adopted() uint64 {
	switch v := f.Standing.Volume; {
	case v != nil:
		return v.Adopted
	case f.Standing.Made:
		return 0
	}
	return f.Size
}

// Fixed reports whether the filesystem on the disk must not grow. A filesystem is fixed if this node did not make it,
// and the disk has not grown since this node first mounted the filesystem. The owner of a filesystem that this node did
// not make may need the rest of the disk.
func (f *Facts) Fixed() bool { return f.Size <= f.Adopted() }

// Spans returns the geometry of the disk's mounted filesystem, or nil if unknown.
func (f *Facts) Spans() *Geometry {
	if f.Geometry == nil && f.Standing.Fit.Valid(f) {
		return &f.Standing.Fit.Geometry
	}
	return f.Geometry
}

// Full reports whether the disk's mounted filesystem has the largest size that is possible on the disk. Full is true
// only if hotmount measured the filesystem, now or when hotmount last saw it. The superblock on the disk must also
// contain the measured size, now or when hotmount last saw the filesystem.
//
// For up to a minute after an XFS filesystem has grown, the new size is only in the log of the filesystem
// (xfs_log_worker, Linux, fs/xfs/xfs_log.c). After a reset in that minute, hotmount must still see that the filesystem
// is smaller than its disk. If the class grows filesystems, hotmount-stage@.service mounts the filesystem at a
// temporary place, and the kernel recovers the log. hotmount mounts the filesystem in the class directory only after
// the recovery. Before Linux 6.12, the kernel can keep the old size of the last allocation group when it recovers the
// log. If the kernel has kept the old size, it shuts the filesystem down at the first use of the new space. The fix is
// "xfs: update the pag for the last AG at recovery time" (4a201dcfa1ff).
func (f *Facts) Full() bool {
	g, v := f.Spans(), f.Standing.Volume
	before := v != nil && v.Full && v.Identity.Size == f.Size
	if g == nil {
		return before
	}
	return g.Size <= f.Size && g.Usable(f.Size) <= g.Size && (before || f.KnownContent().Span == g.Size)
}

// VolumeName returns the name that the local-static-provisioner gives to the PersistentVolume of an entry in a class
// directory. node is the name of the node, and class is the name of the storage class (generatePVName,
// pkg/discovery/discovery.go).
func VolumeName(entry, node, class string) string {
	h := fnv.New32a()
	h.Write([]byte(entry + node + class)) // Write of a hash never fails
	return fmt.Sprintf("local-pv-%x", h.Sum32())
}
