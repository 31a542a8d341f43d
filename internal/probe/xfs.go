package probe

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// XFSSuper is what is of interest in the superblock of an XFS.
type XFSSuper struct {
	// UUID is in the 8-4-4-4-12 form, in lower case.
	UUID string
	// InProgress says that mkfs.xfs has begun and not finished.
	InProgress bool
	// Size of the filesystem in bytes.
	Size uint64
}

// unfinished is false for a superblock that is not there.
func (s *XFSSuper) unfinished() bool { return s != nil && s.InProgress }

// ErrNoXFS says that the disk does not begin with the superblock of an XFS.
var ErrNoXFS = errors.New("no XFS superblock")

// ReadXFS reads the superblock at the start of the disk. The error is ErrNoXFS
// if there is none, a *ReadError if it could not be read, another if there is a
// magic number and what follows it is damaged.
func ReadXFS(r io.ReaderAt) (XFSSuper, error) {
	buf, err := alignedBuffer(align)
	if err != nil {
		return XFSSuper{}, err
	}
	defer buf.free()
	if err := readFull(r, buf, 0); err != nil {
		return XFSSuper{}, err
	}
	return parseXFS(buf)
}

// parseXFS reads the first 4096 bytes of a disk as struct xfs_dsb (Linux,
// fs/xfs/libxfs/xfs_format.h), version 5, or 4, which has no checksum.
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
		return XFSSuper{}, fmt.Errorf("cannot use the XFS superblock: version %d", version)
	case sector < 512 || sector > len(b):
		return XFSSuper{}, fmt.Errorf("cannot use the XFS superblock: a sector of %d bytes", sector)
	case blockSize < 512 || blockSize > 64<<10 || blocks == 0 || blocks > (1<<63-1)/blockSize:
		return XFSSuper{}, fmt.Errorf("cannot use the XFS superblock: %d blocks of %d bytes", blocks, blockSize)
	}
	// xfs_end_cksum: CRC32c over the sector, the field itself taken as zero.
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(0, table, b[:crcOffset])
	sum = crc32.Update(sum, table, make([]byte, 4))
	sum = crc32.Update(sum, table, b[crcOffset+4:sector])
	if stored := binary.LittleEndian.Uint32(b[crcOffset:]); version == 5 && stored != sum {
		return XFSSuper{}, fmt.Errorf("cannot use the XFS superblock: its checksum is %08x, computed %08x", stored, sum)
	}
	u := hex.EncodeToString(b[32:48])
	return XFSSuper{
		UUID:       u[:8] + "-" + u[8:12] + "-" + u[12:16] + "-" + u[16:20] + "-" + u[20:],
		InProgress: b[inProgress] != 0,
		Size:       blockSize * blocks,
	}, nil
}
