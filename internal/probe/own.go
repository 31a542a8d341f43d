package probe

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

const (
	// sector is the smallest unit that mkfs.xfs writes, and block is the block size of the filesystem, both in bytes.
	sector = 512
	block  = 4096

	// maxRecord is XLOG_MAX_RECORD_BSIZE and headerCovers is XLOG_HEADER_CYCLE_SIZE (Linux,
	// fs/xfs/libxfs/xfs_log_format.h).
	maxRecord    = 256 << 10
	headerCovers = 32 << 10
	logMagic     = 0xfeedbabe
)

// The map `stamps` contains the XFS structures that mkfs.xfs writes, except inodes. For the magic number of each
// structure, the map gives the byte offset of the filesystem's UUID in the structure. XFS version 5 puts the UUID into
// the structures, to show to which filesystem a structure belongs (Linux, fs/xfs/libxfs/xfs_format.h). The field
// `whole` is set for the structures that fill a whole block.
var stamps = map[uint32]struct {
	offset int
	whole  bool
}{
	0x58465342: {offset: 32},              // XFSB, the superblock
	0x58414746: {offset: 64},              // XAGF, free space of an allocation group
	0x58414749: {offset: 296},             // XAGI, inodes of an allocation group
	0x5841464c: {offset: 8},               // XAFL, free list of an allocation group
	0x41423342: {offset: 32, whole: true}, // AB3B, B-tree of free space by block number
	0x41423343: {offset: 32, whole: true}, // AB3C, B-tree of free space by size
	0x49414233: {offset: 32, whole: true}, // IAB3, inodes
	0x46494233: {offset: 32, whole: true}, // FIB3, free inodes
	0x52334643: {offset: 32, whole: true}, // R3FC, reference counts
	0x524d4233: {offset: 32, whole: true}, // RMB3, reverse mappings
	logMagic:   {offset: 304},             // the header of a log record
}

const (
	inodeMagic, inodeStamp = 0x494e, 160 // IN, struct xfs_dinode
	freeListMagic          = 0x5841464c
)

// owner recognises the bytes of one unfinished XFS of our own. A killed mkfs.xfs leaves only zeros and structures with
// the filesystem's UUID, even if mkfs.xfs ran several times.
type owner struct {
	uuid []byte
	// o.at is the byte offset at which the previous read ended. Only a read that begins at the offset o.at can continue
	// a structure.
	at uint64
	// o.record is the number of bytes of the current log record that are not read yet. o.list is the highest possible
	// number of bytes of the current free list that are not read yet. o.words is set if the unmount entry of the log
	// record is not read yet.
	record, list int
	words        bool
}

// newOwner returns the owner for the UUID, or nil for an empty or invalid UUID. For a nil owner, every byte that is not
// zero is foreign.
func newOwner(uuid string) *owner {
	raw, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	if err != nil || len(raw) != 16 {
		return nil
	}
	return &owner{uuid: raw}
}

// The method `foreign` returns the index of the first foreign byte in the bytes b, or -1 if no byte is foreign. The
// bytes b were read from the disk at the given byte offset. A byte is foreign if it is neither zero nor written by the
// filesystem's mkfs. The second result is the size in bytes of all blocks that mkfs wrote, up to the block with the
// foreign byte.
func (o *owner) foreign(b []byte, offset uint64) (i int, own uint64) {
	if o == nil {
		return nonZero(b), 0
	}
	if offset != o.at {
		o.record, o.list = 0, 0
	}
	o.at = offset + uint64(len(b))
	for at := 0; at < len(b); at += block {
		part := b[at:min(at+block, len(b))]
		if o.record == 0 && o.list == 0 && nonZero(part) < 0 {
			continue
		}
		if n := o.inBlock(part); n < len(part) {
			return at + n + nonZero(part[n:]), own
		}
		own += uint64(len(part))
	}
	return -1, own
}

// inBlock returns the number of bytes at the start of the block that are zero or written by the filesystem's mkfs. The
// result is the length of the block, or the offset of the first foreign sector in the block.
func (o *owner) inBlock(b []byte) int {
	for at := 0; at < len(b); at += sector {
		s := b[at:min(at+sector, len(b))]
		switch {
		case o.continues(s):
		case nonZero(s) < 0:
		case len(s) < sector:
			return at
		case at == 0 && o.stamped(s) && stamps[binary.BigEndian.Uint32(s)].whole:
			return len(b)
		case !o.stamped(s):
			return at
		}
	}
	return len(b)
}

// stamped reports whether the sector begins an XFS structure with the UUID of our own filesystem.
func (o *owner) stamped(s []byte) bool {
	be := binary.BigEndian
	magic := be.Uint32(s)
	if be.Uint16(s) == inodeMagic {
		return bytes.Equal(s[inodeStamp:inodeStamp+16], o.uuid)
	}
	stamp, known := stamps[magic]
	if !known || !bytes.Equal(s[stamp.offset:stamp.offset+16], o.uuid) {
		return false
	}
	switch magic {
	case logMagic:
		// The fields h_len and h_size come from struct xlog_rec_header. A log record begins with one header for each 32
		// KiB of h_size, and h_len more bytes follow the headers.
		headers := (min(be.Uint32(s[320:]), maxRecord) + headerCovers - 1) / headerCovers
		o.record, o.words = int(min(be.Uint32(s[12:]), maxRecord)+max(headers, 1)*sector)-sector, true
	case freeListMagic:
		o.list = block - sector
	}
	return true
}

// continues() reports whether the sector belongs to a log record or a free list that began in an earlier sector. The
// log record that mkfs.xfs writes contains one unmount entry, in one sector. All other sectors after the header contain
// only a cycle number, in the first four bytes (xfsprogs, libxfs/rdwr.c, libxfs_log_header). In the unused entries of
// an XFS free list, every bit is one.
func (o *owner) continues(s []byte) bool {
	if o.record > 0 {
		o.record -= sector
		if len(s) > 4 && nonZero(s[4:]) < 0 {
			return true
		}
		if o.words {
			o.words = false
			return true
		}
		o.record = 0
	}
	if o.list > 0 {
		o.list -= sector
		for _, c := range s {
			if c != 0xff {
				o.list = 0
				return false
			}
		}
		return true
	}
	return false
}
