package disk

import (
	"fmt"
	"hash/fnv"
)

// Geometry is how much of a disk a filesystem takes.
type Geometry struct {
	// Size and Block, the size of a block, in bytes.
	Size  uint64 `json:"size"`
	Block uint64 `json:"block"`
	// Group is the size in bytes of an allocation group of an XFS, 0 for another
	// filesystem.
	Group uint64 `json:"group,omitempty"`
	// UUID is that of an XFS, of one that is mounted as the kernel has read it from the disk; empty if it is
	// not known.
	UUID string `json:"uuid,omitempty"`
}

// leastGroup is how many blocks the last allocation group of an XFS has at least
// (XFS_MIN_AG_BLOCKS, Linux, fs/xfs/libxfs/xfs_fs.h).
const leastGroup = 64

// Usable returns how many bytes of a disk of that size the filesystem could take:
// as xfs_growfs_data_private (Linux, fs/xfs/xfs_fsops.c) has it for XFS; for
// another filesystem no less than it can.
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

// Fit is the result of the last try to have a filesystem fill its disk. It holds
// for that attachment and that size of the disk.
type Fit struct {
	Seq  uint64 `json:"seq"`
	Size uint64 `json:"size"`
	// Geometry is how much the filesystem took in the end.
	Geometry Geometry `json:"geometry"`
	// Failure says why it does not fill the disk, empty if it does.
	Failure string `json:"failure,omitempty"`
}

// Valid reports whether the disk is still as it was then.
func (v *Fit) Valid(f *Facts) bool { return v != nil && v.Seq == f.Seq && v.Size == f.Size }

// Spans returns how much of the disk its mounted filesystem takes, nil if that is
// not known.
func (f *Facts) Spans() *Geometry {
	if f.Geometry == nil && f.Standing.Fit.Valid(f) {
		return &f.Standing.Fit.Geometry
	}
	return f.Geometry
}

// Full reports that the disk's mounted filesystem was measured, now or when it was last seen,
// and takes all of the disk that it can, also by the superblock on the disk. One that has
// grown while it was mounted has that in its log alone for up to a minute (xfs_log_worker,
// Linux, fs/xfs/xfs_log.c): if the machine is reset then, it has to be seen to be smaller
// than its disk, so that its log is recovered before it is mounted in its place. Before
// Linux 6.12 the kernel that recovers a growth can go on with the old size of the last
// allocation group, and shut the filesystem down at the first use of what is new ("xfs:
// update the pag for the last AG at recovery time", 4a201dcfa1ff).
func (f *Facts) Full() bool {
	g, v := f.Spans(), f.Standing.Volume
	before := v != nil && v.Full && v.Identity.Size == f.Size
	if g == nil {
		return before
	}
	return g.Size <= f.Size && g.Usable(f.Size) <= g.Size && (before || f.Known().Span == g.Size)
}

// VolumeName returns the name that the local-static-provisioner gives to the
// PersistentVolume of an entry of a class directory, on the node and in the
// storage class of those names (generatePVName, pkg/discovery/discovery.go).
func VolumeName(entry, node, class string) string {
	h := fnv.New32a()
	h.Write([]byte(entry + node + class)) // it never fails
	return fmt.Sprintf("local-pv-%x", h.Sum32())
}
