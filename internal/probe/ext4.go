package probe

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// The constants describe parts of the layout of an ext4 filesystem (Linux, Documentation/filesystems/ext4). Offsets and
// sizes are in bytes.
const (
	superSize   = 1024
	superMagic  = 0xef53 // s_magic
	inodeLow    = 0x7c   // i_checksum_lo
	inodeHigh   = 0x82   // i_checksum_hi
	inodeExtra  = 0x80   // i_extra_isize, the first field after the 128 bytes of an ext2 inode
	leastInode  = 128
	csumSeed    = 0x2000 // s_feature_incompat: INCOMPAT_CSUM_SEED
	wide        = 0x80   // s_feature_incompat: INCOMPAT_64BIT
	csum        = 0x400  // s_feature_ro_compat: RO_COMPAT_METADATA_CSUM
	sparseSuper = 0x1    // s_feature_ro_compat: RO_COMPAT_SPARSE_SUPER
	metaBG      = 0x10   // s_feature_incompat: INCOMPAT_META_BG
)

// ext4Super contains the fields of an ext4 superblock that hotmount needs. parseExt4 returns an ext4Super only for a
// sound superblock with metadata checksums.
type ext4Super struct {
	uuid                  string
	seed                  uint32
	block                 uint64
	groups                uint64
	perGroup, inodesGroup uint64
	first                 uint64
	descriptor, inode     int
	// s.whole is set if s_state is EXT2_VALID_FS: mkfs.ext4 or the kernel had finished its work on the filesystem.
	// s.used is set if the filesystem was ever mounted (s_mtime, s_mnt_count).
	whole, used bool
}

// parseExt4 parses 1024 bytes as struct ext4_super_block.
func parseExt4(b []byte) (ext4Super, error) {
	le := binary.LittleEndian
	if le.Uint16(b[0x38:]) != superMagic {
		return ext4Super{}, errors.New("the disk has no ext4 superblock")
	}
	if le.Uint32(b[0x64:])&csum == 0 || le.Uint32(b[0x64:])&sparseSuper == 0 || le.Uint32(b[0x60:])&metaBG != 0 {
		return ext4Super{}, errors.New("the ext4 superblock has other features than hotmount requests from mkfs.ext4")
	}
	if sum, stored := ext4Sum(^uint32(0), b[:0x3fc]), le.Uint32(b[0x3fc:]); sum != stored {
		return ext4Super{}, fmt.Errorf("cannot use the ext4 superblock: its checksum is %08x, computed %08x", stored, sum)
	}
	blocks := uint64(le.Uint32(b[0x04:]))
	s := ext4Super{
		first: uint64(le.Uint32(b[0x14:])), perGroup: uint64(le.Uint32(b[0x20:])), inodesGroup: uint64(le.Uint32(b[0x28:])),
		inode: int(le.Uint16(b[0x58:])), descriptor: 32, whole: le.Uint16(b[0x3a:]) == 1,
		used: le.Uint32(b[0x2c:]) != 0 || le.Uint16(b[0x34:]) != 0,
	}
	if le.Uint32(b[0x60:])&wide != 0 {
		blocks |= uint64(le.Uint32(b[0x150:])) << 32
		s.descriptor = int(le.Uint16(b[0xfe:]))
	}
	shift := le.Uint32(b[0x18:])
	if shift > 6 || s.perGroup == 0 || blocks <= s.first || blocks > 1<<48 || s.inode < leastInode || s.inode > block || block%s.inode != 0 || s.descriptor < 32 || s.descriptor > 1024 {
		return ext4Super{}, errors.New("cannot use the ext4 superblock: its numbers contradict each other")
	}
	s.block = superSize << shift
	s.groups = (blocks - s.first + s.perGroup - 1) / s.perGroup
	u := hex.EncodeToString(b[0x68:0x78])
	s.uuid = u[:8] + "-" + u[8:12] + "-" + u[12:16] + "-" + u[16:20] + "-" + u[20:]
	s.seed = ext4Sum(^uint32(0), b[0x68:0x78])
	if le.Uint32(b[0x60:])&csumSeed != 0 {
		s.seed = le.Uint32(b[0x270:])
	}
	return s, nil
}

// ext4Sum computes ext4_chksum (Linux, fs/ext4/ext4.h), which is a CRC32c without the usual inversion of the seed and
// of the result.
func ext4Sum(seed uint32, b []byte) uint32 {
	return ^crc32.Update(^seed, crc32.MakeTable(crc32.Castagnoli), b)
}

// readExt4 reads the first superblock of the ext4 filesystem.
func readExt4(r io.ReaderAt) (ext4Super, error) {
	return readHead(r, func(b []byte) (ext4Super, error) { return parseExt4(b[superSize : 2*superSize]) })
}

// IsWholeExt4 returns nil if the disk holds the finished ext4 filesystem with the given UUID, in the state right after
// mkfs.ext4. The superblock, its copies and all group descriptors must contain the given UUID, directly or in their
// checksums. mkfs.ext4 writes the superblock last. If two machines made filesystems on one disk at the same time, some
// superblocks or group descriptors have another UUID.
func IsWholeExt4(r io.ReaderAt, uuid string) error {
	super, err := readExt4(r)
	switch {
	case err != nil:
		return err
	case super.uuid != uuid:
		return fmt.Errorf("expected the filesystem %s, but the disk holds the ext4 filesystem %s", uuid, super.uuid)
	case !super.whole:
		return errors.New("mkfs.ext4 is still running on the disk, or was stopped before it finished")
	case super.block != block:
		return fmt.Errorf("expected a filesystem with a block size of %d bytes, found %d bytes", block, super.block)
	}
	size := (super.groups*uint64(super.descriptor) + block - 1) / block * block
	if size > 1<<30 {
		return fmt.Errorf("the filesystem has too many block groups: %d", super.groups)
	}
	buf, err := alignedBuffer(int(size))
	if err != nil {
		return err
	}
	defer buf.free()
	if err := readFull(r, buf, block); err != nil {
		return err
	}
	for i := range super.groups {
		d := buf[i*uint64(super.descriptor):][:super.descriptor]
		if sum := super.descriptorSum(uint32(i), d); sum != binary.LittleEndian.Uint16(d[0x1e:]) {
			return fmt.Errorf("the descriptor of group %d does not belong to the ext4 filesystem %s", i, uuid)
		}
	}
	for i := range super.groups {
		if !hasCopy(i) {
			continue
		}
		at := i * super.perGroup * super.block
		if err := readFull(r, buf[:block], at); err != nil {
			return err
		}
		if c, err := parseExt4(buf[:superSize]); err != nil || c.uuid != uuid {
			return fmt.Errorf("at byte %d there is no copy of the superblock of the ext4 filesystem %s", at, uuid)
		}
	}
	return nil
}

// Ext4Used reports whether the ext4 filesystem with the given UUID is on the disk and has been mounted since mkfs.ext4
// made the filesystem.
func Ext4Used(r io.ReaderAt, uuid string) bool {
	super, err := readExt4(r)
	return err == nil && super.uuid == uuid && super.used
}

// descriptorSum computes ext4_group_desc_csum (Linux, fs/ext4/super.c).
func (s *ext4Super) descriptorSum(group uint32, d []byte) uint16 {
	sum := ext4Sum(s.seed, binary.LittleEndian.AppendUint32(nil, group))
	sum = ext4Sum(sum, d[:0x1e])
	sum = ext4Sum(sum, make([]byte, 2))
	return uint16(ext4Sum(sum, d[0x20:]))
}

// hasCopy reports whether the group begins with a copy of the superblock. hasCopy returns false for group 0, which
// contains the original superblock. The groups with a copy are group 1, and the groups whose number is a power of 3, 5
// or 7 (ext4_bg_has_super).
func hasCopy(group uint64) bool {
	for _, base := range []uint64{3, 5, 7} {
		for n := uint64(1); n <= group; n *= base {
			if n == group {
				return true
			}
		}
	}
	return false
}

// ext4Owner recognises the bytes of one unfinished ext4 filesystem of our own. If the UUID, the options and the
// creation time are the same, one version of mkfs.ext4 writes the same bytes to a file as to the disk. Each sector of
// the disk must be zero, or equal the sector at the same offset in a file that mkfs.ext4 has written.
//
// Inodes and superblocks on the disk may differ from the file, and are recognised by checksums that include the UUID.
// mkfs.ext4 writes inodes more than once, so the disk may contain an earlier version of an inode. A superblock on the
// disk may have another geometry than the superblock in the file.
type ext4Owner struct {
	like  io.ReaderAt
	super ext4Super
	// The field `inodes` is the byte range of the first block group's inodes on the disk. mkfs.ext4 writes inodes
	// only in the first block group.
	inodes extent
	buf    []byte
}

func newExt4Owner(ctx context.Context, own Own) (*ext4Owner, error) {
	like, err := own.Like(ctx)
	if err != nil {
		return nil, err
	}
	if err := IsWholeExt4(like, own.UUID); err != nil {
		return nil, fmt.Errorf("cannot tell what mkfs.ext4 writes: %w", err)
	}
	o := &ext4Owner{like: like, buf: make([]byte, block)}
	if o.super, err = readExt4(like); err != nil {
		return nil, err
	}
	start, err := o.super.inodes(like, o.buf)
	o.inodes = extent{start, start + o.super.inodesGroup*uint64(o.super.inode)}
	return o, err
}

// The method `inodes` returns the byte offset at which the first block group's inodes begin. The parameter `buf` is
// scratch memory, one block in size.
func (s *ext4Super) inodes(r io.ReaderAt, buf []byte) (uint64, error) {
	if err := readFull(r, buf, block); err != nil {
		return 0, err
	}
	// bg_inode_table
	table := uint64(binary.LittleEndian.Uint32(buf[8:]))
	if s.descriptor > 32 {
		table |= uint64(binary.LittleEndian.Uint32(buf[0x28:])) << 32
	}
	return table * block, nil
}

// Ext4Root returns the mode bits, without the file type, of the root directory of the ext4 filesystem with the given
// UUID. The second result reports whether the filesystem has been mounted since mkfs.ext4 made the filesystem.
func Ext4Root(r io.ReaderAt, uuid string) (mode uint16, used bool, err error) {
	super, err := readExt4(r)
	if err == nil && (super.uuid != uuid || super.block != block) {
		err = fmt.Errorf("expected the filesystem %s, but the disk holds the ext4 filesystem %s (block size %d)", uuid, super.uuid, super.block)
	}
	if err != nil {
		return 0, false, err
	}
	buf, err := alignedBuffer(block)
	if err != nil {
		return 0, false, err
	}
	defer buf.free()
	// The inode of the root directory is the second inode. An inode fits into a block, but may fill it.
	at, err := super.inodes(r, buf)
	if err == nil {
		err = readFull(r, buf, at+uint64(super.inode/block*block))
	}
	if err != nil {
		return 0, false, err
	}
	const (
		number    = 2      // EXT4_ROOT_INO; inode numbers begin at 1
		kind      = 0xf000 // S_IFMT
		directory = 0x4000 // S_IFDIR
	)
	inode := buf[super.inode%block:][:super.inode]
	if mode = binary.LittleEndian.Uint16(inode); mode&kind != directory || !super.isInode(number, inode) {
		return 0, false, fmt.Errorf("cannot use the inode of the root directory: its mode (%#o) or its checksum is wrong", mode)
	}
	return mode &^ kind, super.used, nil
}

// The method `foreign` returns the same values for ext4 as owner.foreign returns for XFS.
func (o *ext4Owner) foreign(b []byte, offset uint64) (i int, own uint64) {
	for at := 0; at < len(b); at += block {
		part := b[at:min(at+block, len(b))]
		if nonZero(part) < 0 {
			continue
		}
		like := o.buf[:len(part)]
		if err := readFull(o.like, like, offset+uint64(at)); err != nil {
			return at + nonZero(part), own
		}
		for s := 0; s < len(part); s += sector {
			x := part[s:min(s+sector, len(part))]
			if nonZero(x) < 0 || bytes.Equal(x, like[s:s+len(x)]) || o.knows(part, like, s, offset+uint64(at)) {
				continue
			}
			return at + s + nonZero(x), own
		}
		own += uint64(len(part))
	}
	return -1, own
}

// knows() reports whether a sector of a block is part of a superblock with our UUID, or of inodes whose checksums
// include our UUID. The block b begins at the given byte offset of the disk, and the sector begins at byte s of the
// block b. The parameter `like` is the block at the same byte offset in the file that mkfs.ext4 has written.
func (o *ext4Owner) knows(b, like []byte, s int, offset uint64) bool {
	if at := s / superSize * superSize; at+superSize <= len(b) && (offset == 0 && at == superSize || offset > 0 && at == 0) {
		if super, err := parseExt4(b[at : at+superSize]); err == nil && super.uuid == o.super.uuid {
			return true
		}
	}
	if offset < o.inodes.start || offset >= o.inodes.end || len(b) < block {
		return false
	}
	size := o.super.inode
	for at := s / size * size; at < s+sector; at += size {
		inode := b[at : at+size]
		number := uint32((offset+uint64(at)-o.inodes.start)/uint64(size)) + 1
		if nonZero(inode) >= 0 && !bytes.Equal(inode, like[at:at+size]) && !o.super.isInode(number, inode) {
			return false
		}
	}
	return true
}

// isInode reports whether the checksum of the inode is correct. The algorithm is from ext4_inode_csum (Linux,
// fs/ext4/inode.c).
func (s *ext4Super) isInode(number uint32, b []byte) bool {
	le := binary.LittleEndian
	sum := ext4Sum(s.seed, le.AppendUint32(nil, number))
	sum = ext4Sum(sum, b[0x64:0x68]) // i_generation
	blanked := bytes.Clone(b)
	stored, high := uint32(le.Uint16(b[inodeLow:])), false
	clear(blanked[inodeLow : inodeLow+2])
	if len(b) > leastInode && le.Uint16(b[inodeExtra:]) >= 4 {
		stored, high = stored|uint32(le.Uint16(b[inodeHigh:]))<<16, true
		clear(blanked[inodeHigh : inodeHigh+2])
	}
	sum = ext4Sum(sum, blanked)
	if !high {
		sum &= 0xffff
	}
	return sum == stored
}
