package corpus

import (
	"encoding/binary"
	"hash/crc32"
)

// The functions in this file write formats that Debian's tools cannot write. For some formats Debian has no tools. For
// other formats, the tools need a kernel that supports the format. wipefs(8) must recognise all these formats, except
// the output of the functions gpt4K and pages.

var (
	le = binary.LittleEndian
	be = binary.BigEndian
)

const mdMagic = 0xa92b4efc

// md090 writes struct mdp_superblock_s (linux/raid/md_p.h), at the start of the disk's last aligned 64 KiB.
func md090(im *image) {
	b := make([]byte, 4096)
	for i, v := range []uint32{mdMagic, 0, 90, 0, 0, 0x11223344, 1700000000, 1, 300000, 2, 2, 0, 0, 0x55667788, 0x99aabbcc, 0xddeeff00} {
		le.PutUint32(b[4*i:], v)
	}
	im.put(im.size/(64<<10)*(64<<10)-64<<10, b)
}

// md1 writes struct mdp_superblock_1.
func md1(im *image, at int64, minor uint64) {
	const devices = 2
	b := make([]byte, 256+2*devices)
	le.PutUint32(b, mdMagic)
	le.PutUint32(b[4:], 1)
	copy(b[16:], "0123456789abcdef")
	copy(b[32:], "corpus:0")
	le.PutUint32(b[72:], 1)
	data := uint64(2048)
	if minor == 0 {
		data = 0
	}
	le.PutUint64(b[80:], Size/512-4096)
	le.PutUint32(b[92:], devices)
	le.PutUint64(b[128:], data)
	le.PutUint64(b[136:], Size/512-4096)
	le.PutUint64(b[144:], uint64(at/512))
	le.PutUint32(b[220:], devices)
	le.PutUint16(b[258:], 1)
	var sum uint64
	for i := 0; i < len(b); i += 4 {
		sum += uint64(le.Uint32(b[i:]))
	}
	le.PutUint32(b[216:], uint32(sum&0xffffffff)+uint32(sum>>32))
	im.put(at, b)
}

// ddf writes the anchor header of SNIA's DDF, and the primary header to which the anchor points.
func ddf(im *image) {
	primary := im.size/512 - 2048
	b := make([]byte, 512)
	be.PutUint32(b, 0xde11de11)
	copy(b[8:], "hotmount  corpus    0001")
	copy(b[32:], "01.02.00")
	for i := 40; i < len(b); i++ {
		b[i] = 0xff
	}
	be.PutUint64(b[96:], uint64(primary))
	be.PutUint32(b[4:], 0xffffffff)
	be.PutUint32(b[4:], crc32.ChecksumIEEE(b))
	im.put(im.size-512, b)
	im.put(primary*512, b)
}

// zfs writes the rings of uberblocks in all four labels, and a stub of the list of name-value pairs (nvlist).
func zfs(im *image) {
	end := im.size / (256 << 10) * (256 << 10)
	for _, label := range []int64{0, 256 << 10, end - 512<<10, end - 256<<10} {
		im.put(label+16<<10, []byte("\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01version"))
		for i := int64(0); i < 128; i++ {
			b := make([]byte, 40)
			le.PutUint64(b, 0x00bab10c)
			le.PutUint64(b[8:], 5000)
			le.PutUint64(b[16:], uint64(100+i))
			im.put(label+128<<10+i*1024, b)
		}
	}
}

// gpt4K writes a GPT for sectors of 4096 bytes. gpt4K writes no protective MBR.
func gpt4K(im *image) {
	entries := make([]byte, 16<<10)
	copy(entries, "\xaf\x3d\xc6\x0f\x83\x84\x72\x47\x8e\x79\x3d\x69\xd8\x47\x7d\xe4partition-0000-1")
	le.PutUint64(entries[32:], 256)
	le.PutUint64(entries[40:], 70000)
	last := im.size/4096 - 1
	header := func(own, other, table int64) {
		b := make([]byte, 92)
		copy(b, "EFI PART\x00\x00\x01\x00\x5c\x00\x00\x00")
		le.PutUint64(b[24:], uint64(own))
		le.PutUint64(b[32:], uint64(other))
		le.PutUint64(b[40:], 6)
		le.PutUint64(b[48:], uint64(last-5))
		copy(b[56:], "disk-guid-000001")
		le.PutUint64(b[72:], uint64(table))
		le.PutUint32(b[80:], 128)
		le.PutUint32(b[84:], 128)
		le.PutUint32(b[88:], crc32.ChecksumIEEE(entries))
		le.PutUint32(b[16:], crc32.ChecksumIEEE(b))
		im.put(own*4096, b)
		im.put(table*4096, entries)
	}
	header(1, last, 2)
	header(last, 1, last-4)
}

// stratis writes both static headers (stratisd, docs/ondisk).
func stratis(im *image) {
	b := make([]byte, 512)
	copy(b[4:], "!Stra0tis\x86\xff\x02^\x41rh")
	le.PutUint64(b[20:], uint64(im.size/512))
	b[28] = 1
	copy(b[32:], "0b0f1c6e86e14b409d0b7a4c3b1e55aa")
	copy(b[64:], "1b0f1c6e86e14b409d0b7a4c3b1e55aa")
	le.PutUint64(b[96:], 8192)
	le.PutUint64(b[120:], 1700000000)
	le.PutUint32(b, crc32.Checksum(b[4:], crc32.MakeTable(crc32.Castagnoli)))
	im.put(512, b)
	im.put(9*512, b)
}

// integrity writes struct superblock of Linux, drivers/md/dm-integrity.c.
func integrity(im *image) {
	b := make([]byte, 512)
	copy(b, "integrt\x00\x02\x0b")
	le.PutUint16(b[10:], 4)
	le.PutUint32(b[12:], 8)
	le.PutUint64(b[16:], 600000)
	im.put(0, b)
	im.fillRandom(4096, 1<<20)
}

// bitlocker writes a boot sector and the three FVE blocks of Windows 7.
func bitlocker(im *image) {
	b := make([]byte, 512)
	copy(b, "\xeb\x58\x90-FVE-FS-")
	le.PutUint16(b[11:], 512)
	b[13] = 8
	copy(b[160:], "\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01")
	b[510], b[511] = 0x55, 0xaa
	fve := make([]byte, 112)
	copy(fve, "-FVE-FS-")
	le.PutUint16(fve[8:], 100)
	le.PutUint16(fve[10:], 2)
	le.PutUint32(fve[64:], 112)
	for i, at := range []int64{32 << 20, 64 << 20, 96 << 20} {
		le.PutUint64(b[176+8*i:], uint64(at))
		im.put(at, fve)
	}
	im.put(0, b)
	im.fillRandom(1<<20, 2<<20)
}

// drbd writes struct md_on_disk_08 (drbd, drbd-kernel-compat and
// user/shared/drbdmeta.c) in the last 4 KiB.
func drbd(im *image) {
	b := make([]byte, 4096)
	be.PutUint64(b, uint64(im.size/512-72))
	for i := range 4 {
		be.PutUint64(b[8+8*i:], 0x1122334455667788+uint64(i))
	}
	be.PutUint64(b[40:], 0xfeedfacecafe)
	be.PutUint32(b[56:], 1)
	be.PutUint32(b[60:], 0x8374026b)
	be.PutUint32(b[64:], 72)
	be.PutUint32(b[80:], 4096)
	im.put(im.size-4096, b)
}

// The method `pages` writes pages like those of a database that uses a disk without a filesystem. Each database page has
// a checksum, a number, rows, and many zeros.
func (im *image) pages(from, to int64) {
	const page = 16 << 10
	for at := from; at < to; at += 16 * page {
		b := make([]byte, page)
		be.PutUint32(b[4:], uint32(at/page))
		copy(b[120:], "\x00\x02infimum\x00\x0b\x00\x00supremum")
		be.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
		im.put(at, b)
	}
}
