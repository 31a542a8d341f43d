package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"hotmount/internal/disk"
)

// XFSSuper contains the fields of an XFS superblock that hotmount needs.
type XFSSuper struct {
	// UUID has the 8-4-4-4-12 form, in lower case.
	UUID string
	// InProgress reports whether mkfs.xfs has begun and not finished the filesystem.
	InProgress bool
	// Size is the size of the filesystem in bytes. Block is the block size of the filesystem in bytes.
	Size, Block uint64
	// Group is the size of an allocation group in bytes, and Groups is the number of allocation groups. Sector is the
	// sector size of the filesystem in bytes.
	Group  uint64
	Groups uint32
	Sector uint32
	// Log is the size of the log in bytes, and LogStart is its byte offset.
	Log, LogStart uint64
	// RootInode is the number of the root inode. An unfinished filesystem has the number 1<<64 - 1. InodeSize is the size
	// of an inode in bytes.
	RootInode uint64
	InodeSize uint32
}

// unfinished reports whether the disk has an XFS superblock and mkfs.xfs has not finished the filesystem.
func (s *XFSSuper) unfinished() bool { return s != nil && s.InProgress }

// ErrNoXFS reports that the disk does not begin with the magic number of an XFS superblock.
var ErrNoXFS = errors.New("no XFS superblock")

// ReadXFS reads the XFS superblock at the start of the disk. The error is ErrNoXFS if the disk has no XFS superblock,
// and a *ReadError if the disk could not be read or memory was lacking. Any other error of ReadXFS means an unusable
// superblock with the right magic number.
func ReadXFS(r io.ReaderAt) (XFSSuper, error) {
	return readHead(r, parseXFS)
}

// readHead passes the first 4096 bytes of the disk to the function `parse`, which must not keep the slice.
func readHead[T any](r io.ReaderAt, parse func([]byte) (T, error)) (super T, err error) {
	buf, err := alignedBuffer(align)
	if err != nil {
		return super, err
	}
	defer buf.free()
	if err := readFull(r, buf, 0); err != nil {
		return super, err
	}
	return parse(buf)
}

// IsWholeXFS returns nil if the disk holds the finished XFS with the given UUID, even if the XFS has already been used.
// The superblock and the headers of all allocation groups must contain the given UUID. If two machines made filesystems
// on one disk at the same time, the headers of some allocation groups have another UUID.
func IsWholeXFS(r io.ReaderAt, uuid string) error {
	super, err := ReadXFS(r)
	switch {
	case err != nil:
		return err
	case super.UUID != uuid:
		return fmt.Errorf("expected the filesystem %s, but the disk holds the XFS filesystem %s", uuid, super.UUID)
	case super.InProgress:
		return errors.New("mkfs.xfs is still running on the disk, or was stopped before it finished")
	}
	// In each allocation group, the superblock, AGF, AGI and AGFL have one sector each. mkfs.xfs writes each of the
	// four sectors separately, so a power cut may lose any of the four sectors.
	buf, err := alignedBuffer(max(4*int(super.Sector), align))
	if err != nil {
		return err
	}
	defer buf.free()
	for i := range uint64(super.Groups) {
		at := i * super.Group
		if err := readFull(r, buf, at); err != nil {
			return err
		}
		// mkfs.xfs does not write the rest of the AGFL's block, so old data may remain there. An AGFL in use can
		// contain block numbers anywhere in its sector.
		bad, _ := newOwner(uuid).foreign(buf[:3*super.Sector+sector], at)
		for n := 0; n < 4 && bad < 0; n++ {
			if header := n * int(super.Sector); nonZero(buf[header:][:super.Sector]) < 0 {
				bad = header
			}
		}
		if bad >= 0 {
			return fmt.Errorf("byte %d, in the headers of group %d, does not belong to the XFS filesystem %s", at+uint64(bad), i, uuid)
		}
	}
	return nil
}

// IsNewXFS returns nil if the disk holds the finished XFS with the given UUID, in the state right after mkfs.xfs.
// IsNewXFS first calls IsWholeXFS. Then IsNewXFS reads the roots of the B-trees of all allocation groups, the first
// inodes, and the first header in the log. Each of these structures must contain the given UUID.
func IsNewXFS(r io.ReaderAt, uuid string) error {
	if err := IsWholeXFS(r, uuid); err != nil {
		return err
	}
	super, err := ReadXFS(r)
	if err != nil {
		return err
	}
	for i := range uint64(super.Groups) {
		roots, err := readRoots(r, &super, i)
		if err != nil {
			return err
		}
		for _, at := range roots {
			if err := checkStamps(r, uuid, at, super.Block, 1, fmt.Sprintf("the B-trees of group %d", i)); err != nil {
				return err
			}
		}
	}
	// XFS allocates 64 inodes at once (XFS_INODES_PER_CHUNK in Linux, fs/xfs/libxfs/xfs_format.h). mkfs.xfs puts the root
	// inode into the first allocation group, so the number of the root inode gives its place.
	size := uint64(super.InodeSize)
	if size < sector {
		return fmt.Errorf("cannot use the XFS superblock: its inodes have %d bytes", size)
	}
	if err := checkStamps(r, uuid, super.RootInode*size, size, 64, "the inodes"); err != nil {
		return err
	}
	return checkStamps(r, uuid, super.LogStart, align, 1, "the log")
}

// readRoots returns the byte offsets of the roots of the allocation group's B-trees. The offsets come from the fields
// agf_bno_root, agf_cnt_root, agf_rmap_root, agf_refcount_root, agi_root and agi_free_root.
func readRoots(r io.ReaderAt, super *XFSSuper, group uint64) (roots []uint64, err error) {
	buf, err := alignedBuffer(max(3*int(super.Sector), align))
	if err != nil {
		return nil, err
	}
	defer buf.free()
	if err := readFull(r, buf, group*super.Group); err != nil {
		return nil, err
	}
	agf, agi := buf[super.Sector:], buf[2*super.Sector:]
	for _, field := range [][]byte{agf[16:], agf[20:], agf[24:], agf[88:], agi[20:], agi[328:]} {
		// Without the feature of a B-tree, its field is zero, and leads to the group's superblock.
		roots = append(roots, group*super.Group+uint64(binary.BigEndian.Uint32(field))*super.Block)
	}
	return roots, nil
}

// checkStamps reads n XFS structures of the given size in bytes from the byte offset. checkStamps returns an error if
// one of the structures cannot be read or does not contain the UUID. The type of the structure does not matter. The
// parameter `where` names the structures for the error.
func checkStamps(r io.ReaderAt, uuid string, at, size, n uint64, where string) error {
	buf, err := alignedBuffer(int(n * size))
	if err != nil {
		return err
	}
	defer buf.free()
	if err := readFull(r, buf, at); err != nil {
		return err
	}
	for i := range n {
		if !newOwner(uuid).stamped(buf[i*size:]) {
			return fmt.Errorf("byte %d, in %s, does not belong to the XFS filesystem %s", at+i*size, where, uuid)
		}
	}
	return nil
}

// parseXFS parses the first 4096 bytes of a disk as struct xfs_dsb (Linux, fs/xfs/libxfs/xfs_format.h). parseXFS
// accepts XFS version 5, and XFS version 4, which has no checksum.
func parseXFS(b []byte) (XFSSuper, error) {
	const (
		magic      = 0x58465342 // "XFSB"
		crcOffset  = 224
		inProgress = 126
	)
	be := binary.BigEndian
	if be.Uint32(b) != magic {
		return XFSSuper{}, ErrNoXFS
	}
	blockSize, blocks := uint64(be.Uint32(b[4:])), be.Uint64(b[8:])
	version, sector := be.Uint16(b[100:])&0xf, int(be.Uint16(b[102:]))
	switch {
	case version != 4 && version != 5:
		return XFSSuper{}, fmt.Errorf("cannot use the XFS superblock: its version is %d", version)
	case sector < 512 || sector > len(b):
		return XFSSuper{}, fmt.Errorf("cannot use the XFS superblock: its sector size is %d bytes", sector)
	case blockSize < 512 || blockSize > 64<<10 || blocks == 0 || blocks > (1<<63-1)/blockSize:
		return XFSSuper{}, fmt.Errorf("cannot use the XFS superblock: it states %d blocks of %d bytes", blocks, blockSize)
	}
	// As in the kernel's xfs_end_cksum, the checksum is a CRC32c of the sector with zeros in the checksum field.
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(0, table, b[:crcOffset])
	sum = crc32.Update(sum, table, make([]byte, 4))
	sum = crc32.Update(sum, table, b[crcOffset+4:sector])
	if stored := binary.LittleEndian.Uint32(b[crcOffset:]); version == 5 && stored != sum {
		return XFSSuper{}, fmt.Errorf("cannot use the XFS superblock: its checksum is %08x, computed %08x", stored, sum)
	}
	group, groups := uint64(be.Uint32(b[84:]))*blockSize, be.Uint32(b[88:])
	if group == 0 || groups == 0 || uint64(groups-1) > (blockSize*blocks)/group {
		return XFSSuper{}, fmt.Errorf("cannot use the XFS superblock: it states %d allocation groups of %d bytes", groups, group)
	}
	log, bits := be.Uint64(b[48:]), b[124]
	return XFSSuper{
		UUID:       disk.UUID([16]byte(b[32:48])),
		InProgress: b[inProgress] != 0,
		Size:       blockSize * blocks,
		Block:      blockSize,
		Group:      group,
		Groups:     groups,
		Sector:     uint32(sector),
		Log:        blockSize * uint64(be.Uint32(b[96:])),
		// The lowest sb_agblklog bits of sb_logstart are a block number, and the higher bits are the group's number.
		LogStart:  log>>bits*group + log&(1<<bits-1)*blockSize,
		RootInode: be.Uint64(b[56:]),
		InodeSize: uint32(be.Uint16(b[104:])),
	}, nil
}
