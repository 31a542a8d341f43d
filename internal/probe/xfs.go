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
	// Log is the size of the log in bytes.
	Log uint64
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
	return XFSSuper{
		UUID:       disk.UUID([16]byte(b[32:48])),
		InProgress: b[inProgress] != 0,
		Size:       blockSize * blocks,
		Block:      blockSize,
		Group:      group,
		Groups:     groups,
		Sector:     uint32(sector),
		Log:        blockSize * uint64(be.Uint32(b[96:])),
	}, nil
}
