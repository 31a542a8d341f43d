package disk

import (
	"fmt"
	"hash/fnv"
)

// Geometry is how much of a disk a filesystem takes.
type Geometry struct {
	// Size is in bytes, Block the size of a block in bytes.
	Size  uint64 `json:"size"`
	Block uint64 `json:"block"`
	// Group is the size in bytes of an XFS allocation group, 0 for another filesystem.
	Group uint64 `json:"group,omitempty"`
	// UUID is the UUID of an XFS, empty if unknown. For a mounted one it is what the kernel read from the disk.
	UUID string `json:"uuid,omitempty"`
}

// leastGroup is the least number of blocks in the last allocation group of an XFS (XFS_MIN_AG_BLOCKS, Linux,
// fs/xfs/libxfs/xfs_fs.h).
const leastGroup = 64

// Usable returns how many bytes of a disk of that size the filesystem could take. For XFS it computes as
// xfs_growfs_data_private does (Linux, fs/xfs/xfs_fsops.c). For another filesystem the result is an upper bound.
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

// Fit is the result of the last attempt to grow a filesystem to its disk. It is valid for one attachment and one size
// of the disk.
type Fit struct {
	Seq  uint64 `json:"seq"`
	Size uint64 `json:"size"`
	// Geometry is the filesystem's geometry after the attempt.
	Geometry Geometry `json:"geometry"`
	// Failure is why the filesystem does not fill the disk, empty if it does.
	Failure string `json:"failure,omitempty"`
	// Recorded reports that the cause are errors on record in an ext4, which e2fsck repairs.
	Recorded bool `json:"recorded,omitempty"`
}

// Valid reports whether attachment and size of the disk are still the same.
func (v *Fit) Valid(f *Facts) bool { return v != nil && v.Seq == f.Seq && v.Size == f.Size }

// Adopted returns the size in bytes that the disk had when its filesystem was first mounted on this node. It is 0 if the
// node made the filesystem. Before the first mount it is the disk's size.
func (f *Facts) Adopted() uint64 {
	switch v := f.Standing.Volume; {
	case v != nil:
		return v.Adopted
	case f.Standing.Made:
		return 0
	}
	return f.Size
}

// Fixed reports whether the filesystem on the disk must not grow: it is not this node's, and the disk has not become
// larger since it was first mounted here. Its owner may need the rest of the disk.
func (f *Facts) Fixed() bool { return f.Size <= f.Adopted() }

// Spans returns the geometry of the disk's mounted filesystem, nil if unknown.
func (f *Facts) Spans() *Geometry {
	if f.Geometry == nil && f.Standing.Fit.Valid(f) {
		return &f.Standing.Fit.Geometry
	}
	return f.Geometry
}

// Full reports whether the disk's mounted filesystem was measured, now or when last seen, and takes all of the disk
// that it can. The superblock on the disk must agree.
//
// An XFS that has just grown has its new size only in its log for up to a minute (xfs_log_worker, Linux,
// fs/xfs/xfs_log.c). After a reset it must be recognised as smaller than its disk, so that its log is recovered before
// it is mounted in its place. Before Linux 6.12 a kernel that recovers a growth can keep the old size of the last
// allocation group. It then shuts the filesystem down at the first use of the new space ("xfs: update the pag for the
// last AG at recovery time", 4a201dcfa1ff).
func (f *Facts) Full() bool {
	g, v := f.Spans(), f.Standing.Volume
	before := v != nil && v.Full && v.Identity.Size == f.Size
	if g == nil {
		return before
	}
	return g.Size <= f.Size && g.Usable(f.Size) <= g.Size && (before || f.Known().Span == g.Size)
}

// VolumeName returns the local-static-provisioner's name for the PersistentVolume of an entry in a class directory.
// Node and class are the node's and the storage class's names (generatePVName, pkg/discovery/discovery.go).
func VolumeName(entry, node, class string) string {
	h := fnv.New32a()
	h.Write([]byte(entry + node + class)) // it never fails
	return fmt.Sprintf("local-pv-%x", h.Sum32())
}
