package corpus

import (
	"math/rand/v2"

	"hotmount/internal/disk"
)

// format is one kind of content that a user's disk may have.
type format struct {
	name  string
	class Class
	// The field `kind` is the kind of content that hotmount must recognise. The field `blkid` is libblkid's name of the
	// format, or hotmount's name of a file format.
	kind  disk.Kind
	blkid string
	// The field `mounts` reports whether hotmount mounts the filesystem. The shell function files() or proto() makes the
	// content of a filesystem that hotmount mounts.
	mounts bool
	// The field `script` is a shell script that makes the format. After the end of the script, the function in the
	// field `write` changes the image. Most formats have only a script or only a function.
	script string
	write  func(*image)
	// The field `size` is the size of the disk in bytes. A size of 0 stands for the constant Size.
	size int64

	// The ways to damage an image (variable `damages`) use three byte offsets. The superblock begins at the first
	// offset (super), and its magic number at the second (magic). The damage "only backups left" zeroes the image up to
	// the third offset (backup).
	super, magic, backup int64
}

const gib = 1 << 30

var formats = []format{
	{name: "xfs", class: Filesystem, kind: disk.Filesystem, blkid: "xfs", mounts: true, backup: 80 << 20, script: "mkfs.xfs -q -p $(proto) $d"},
	{name: "ext4", class: Filesystem, kind: disk.Filesystem, blkid: "ext4", mounts: true, super: 1024, magic: 1024 + 56, backup: 8<<20 + 1024, script: "mke2fs -q -F -b 1024 -O $ext4 -d $(files) $d"},
	{name: "xfs of 4096-byte sectors", class: Filesystem, kind: disk.Filesystem, blkid: "xfs", mounts: true, script: "mkfs.xfs -q -s size=4096 -p $(proto) $d"},
	{name: "xfs, version 4", class: Filesystem, kind: disk.Filesystem, blkid: "xfs", mounts: true, script: "mkfs.xfs -q -m crc=0 -p $(proto) $d"},
	{name: "ext2", class: Filesystem, kind: disk.Filesystem, blkid: "ext2", super: 1024, magic: 1024 + 56, script: "mke2fs -q -F -t ext2 $d"},
	{name: "ext3", class: Filesystem, kind: disk.Filesystem, blkid: "ext3", super: 1024, magic: 1024 + 56, script: "mke2fs -q -F -t ext3 -j $d"},
	{name: "btrfs", class: Filesystem, kind: disk.Filesystem, blkid: "btrfs", super: 64 << 10, magic: 64<<10 + 64, backup: 64 << 20, script: "mkfs.btrfs -q $d"},
	{name: "f2fs", class: Filesystem, kind: disk.Filesystem, blkid: "f2fs", super: 1024, magic: 1024, backup: 4096, script: "mkfs.f2fs -q $d"},
	{name: "FAT32", class: Filesystem, kind: disk.Other, blkid: "vfat", magic: 510, backup: 6 * 512, script: "mkfs.vfat -F 32 $d"},
	{name: "FAT16", class: Filesystem, kind: disk.Other, blkid: "vfat", magic: 510, script: "mkfs.vfat -F 16 $d"},
	{name: "exfat", class: Filesystem, kind: disk.Other, blkid: "exfat", magic: 3, backup: 12 * 512, script: "mkfs.exfat $d"},
	{name: "ntfs", class: Filesystem, kind: disk.Other, blkid: "ntfs", magic: 3, backup: Size - 512, script: "mkntfs -q -F -f $d"},
	{name: "jfs", class: Filesystem, kind: disk.Filesystem, blkid: "jfs", super: 32 << 10, magic: 32 << 10, backup: 60 << 10, script: "mkfs.jfs -q $d"},
	{name: "reiserfs", class: Filesystem, kind: disk.Filesystem, blkid: "reiserfs", super: 64 << 10, magic: 64<<10 + 52, script: "mkfs.reiserfs -q -ff $d"},
	{name: "reiser4", class: Filesystem, kind: disk.Filesystem, blkid: "reiser4", super: 64 << 10, magic: 64 << 10, script: "mkfs.reiser4 -ffy $d"},
	{name: "nilfs2", class: Filesystem, kind: disk.Filesystem, blkid: "nilfs2", super: 1024, magic: 1024 + 6, backup: 1 << 20, script: "mkfs.nilfs2 -q -f $d"},
	{name: "minix", class: Filesystem, kind: disk.Other, blkid: "minix", super: 1024, magic: 1024 + 16, script: "mkfs.minix $d"},
	{name: "bfs", class: Filesystem, kind: disk.Other, blkid: "bfs", script: "mkfs.bfs $d"},
	{name: "hfs", class: Filesystem, kind: disk.Other, blkid: "hfs", super: 1024, magic: 1024, backup: 320 << 19, script: "hformat $d"},
	{name: "squashfs", class: Filesystem, kind: disk.Other, blkid: "squashfs", script: "mksquashfs $(files) $tmp/x -quiet -no-progress; put $tmp/x"},
	{name: "cramfs", class: Filesystem, kind: disk.Other, blkid: "cramfs", script: "mkfs.cramfs $(files) $tmp/x; put $tmp/x"},
	{name: "erofs", class: Filesystem, kind: disk.Filesystem, blkid: "erofs", super: 1024, magic: 1024, script: "mkfs.erofs $tmp/x $(files); put $tmp/x"},
	{name: "iso9660", class: Filesystem, kind: disk.Other, blkid: "iso9660", super: 32 << 10, magic: 32<<10 + 1, script: "genisoimage -quiet -R -o $tmp/x $(files); put $tmp/x"},
	{name: "udf", class: Filesystem, kind: disk.Other, blkid: "udf", super: 32 << 10, magic: 32<<10 + 1, backup: 1 << 20, script: "mkudffs -b 512 $d"},
	{name: "gfs2", class: Filesystem, kind: disk.Filesystem, blkid: "gfs2", super: 64 << 10, magic: 64 << 10, script: "mkfs.gfs2 -O -p lock_nolock $d"},
	{name: "ocfs2", class: Filesystem, kind: disk.Filesystem, blkid: "ocfs2", super: 2048, magic: 2048, script: "mkfs.ocfs2 -q -F -M local $d </dev/null"},
	{name: "xfs and ext4", class: Filesystem, kind: disk.Other, script: "mke2fs -q -F -t ext4 $d; truncate -s 320M $tmp/x; mkfs.xfs -q $tmp/x; dd if=$tmp/x of=$d bs=512 count=1 conv=notrunc status=none"},
	{name: "xfs that has lost its end", class: Filesystem, kind: disk.Filesystem, blkid: "xfs", script: "truncate -s 640M $d; mkfs.xfs -q $d; truncate -s 320M $d"},
	{name: "xfs, half made by somebody", class: Filesystem, kind: disk.HalfMade, script: "LIBXFS_DEBUG_WRITE_CRASH=ddev=10 mkfs.xfs -q -K $d || true"},
	{name: "zfs", class: Filesystem, kind: disk.Other, blkid: "zfs_member", magic: 128 << 10, backup: 1 << 20, write: zfs},

	{name: "swap", class: Swap, kind: disk.Other, blkid: "swap", magic: 4086, script: "mkswap -q $d"},
	{name: "swap of 64 KiB pages", class: Swap, kind: disk.Other, blkid: "swap", script: "mkswap -q -p 65536 $d 2>/dev/null"},
	{name: "hibernation", class: Swap, kind: disk.Other, blkid: "swsuspend", script: "mkswap -q $d; printf S1SUSPEND | dd of=$d bs=1 seek=4086 conv=notrunc status=none"},

	{name: "md 0.90", class: Raid, kind: disk.Other, blkid: "linux_raid_member", super: Size - 64<<10, magic: Size - 64<<10, write: md090},
	{name: "md 1.0", class: Raid, kind: disk.Other, blkid: "linux_raid_member", super: Size - 8<<10, magic: Size - 8<<10, write: func(im *image) { md1(im, (im.size-8<<10)/4096*4096, 0) }},
	{name: "md 1.1", class: Raid, kind: disk.Other, blkid: "linux_raid_member", write: func(im *image) { md1(im, 0, 1) }},
	{name: "md 1.2", class: Raid, kind: disk.Other, blkid: "linux_raid_member", super: 4096, magic: 4096, write: func(im *image) { md1(im, 4096, 2) }},
	{name: "xfs in a disk of md 0.90", class: Raid, kind: disk.Other, blkid: "linux_raid_member", script: smallXFS, write: md090},
	{name: "xfs in a disk of md 1.0", class: Raid, kind: disk.Other, blkid: "linux_raid_member", script: smallXFS, write: func(im *image) { md1(im, (im.size-8<<10)/4096*4096, 0) }},
	{name: "md 0.90 of an odd size", class: Raid, kind: disk.Other, blkid: "linux_raid_member", size: Size + 512*77, write: md090},
	{name: "ddf", class: Raid, kind: disk.Other, blkid: "ddf_raid_member", super: Size - 512, magic: Size - 512, write: ddf},
	{name: "Intel Matrix RAID", class: Raid, kind: disk.Other, blkid: "isw_raid_member", super: Size - 1024, magic: Size - 1024, write: func(im *image) { im.put(im.size-1024, []byte("Intel Raid ISM Cfg Sig. 1.3.00")) }},

	{name: "GPT", class: Table, kind: disk.Other, blkid: "gpt", magic: 512, super: 512, backup: 34 * 512, script: "sgdisk -n 1:0:0 $d"},
	{name: "GPT with a filesystem in it", class: Table, kind: disk.Other, backup: 34 * 512, magic: 512, super: 512, script: "sgdisk -n 1:0:0 $d; truncate -s 300M $tmp/x; mke2fs -q -F -t ext4 $tmp/x; dd if=$tmp/x of=$d bs=1M seek=1 conv=notrunc,sparse status=none"},
	{name: "GPT of 4096-byte sectors without an MBR", class: Table, kind: disk.Unknown, magic: 4096, super: 4096, write: gpt4K},
	{name: "MBR", class: Table, kind: disk.Other, blkid: "dos", magic: 510, script: "printf 'label: dos\n,\n' | sfdisk -q $d"},
	{name: "MBR with a filesystem in it", class: Table, kind: disk.Other, blkid: "dos", magic: 510, script: "printf 'label: dos\n,\n' | sfdisk -q $d; truncate -s 300M $tmp/x; mkfs.xfs -q $tmp/x; dd if=$tmp/x of=$d bs=1M seek=1 conv=notrunc,sparse status=none"},
	{name: "Sun label", class: Table, kind: disk.Other, blkid: "sun", script: "printf 'label: sun\n' | sfdisk -q $d"},
	{name: "SGI label", class: Table, kind: disk.Other, blkid: "sgi", script: "printf 'label: sgi\n' | sfdisk -q $d"},
	{name: "BSD label", class: Table, kind: disk.Unknown, script: "parted -s $d mklabel bsd"},
	{name: "Macintosh map", class: Table, kind: disk.Other, blkid: "mac", script: "parted -s $d mklabel mac"},
	{name: "Amiga map", class: Table, kind: disk.Unknown, script: "parted -s $d mklabel amiga"},
	{name: "PC98 table", class: Table, kind: disk.Other, blkid: "dos", script: "parted -s $d mklabel pc98"},
	{name: "a boot sector's last two bytes", class: Table, kind: disk.Other, blkid: "dos", write: func(im *image) { im.put(510, []byte{0x55, 0xaa}) }},

	{name: "LVM2", class: Volumes, kind: disk.Other, blkid: "LVM2_member", super: 512, magic: 512, script: lvm},
	{name: "LVM2 with a group", class: Volumes, kind: disk.Other, blkid: "LVM2_member", super: 512, magic: 512, script: lvm + `lvm vgcreate -qq --config "$config" corpus$RANDOM$RANDOM $l`},
	{name: "Stratis", class: Volumes, kind: disk.Other, blkid: "stratis", write: stratis},
	{name: "VDO", class: Volumes, kind: disk.Other, blkid: "vdo", write: func(im *image) { im.put(0, []byte("dmvdo001\x05\x00\x00\x00")) }},

	{name: "LUKS1", class: Crypto, kind: disk.Other, blkid: "crypto_LUKS", script: "printf xxxxxxxx | cryptsetup -q luksFormat --type luks1 --pbkdf-force-iterations 1000 $d -"},
	{name: "LUKS2", class: Crypto, kind: disk.Other, blkid: "crypto_LUKS", backup: 16 << 10, script: "printf xxxxxxxx | cryptsetup -q luksFormat --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 $d -"},
	{name: "dm-verity", class: Crypto, kind: disk.Other, blkid: "DM_verity_hash", script: "head -c 1M /dev/urandom >$tmp/x; veritysetup format $tmp/x $tmp/y; put $tmp/y"},
	{name: "dm-integrity", class: Crypto, kind: disk.Other, blkid: "DM_integrity", write: integrity},
	{name: "BitLocker", class: Crypto, kind: disk.Other, blkid: "BitLocker", magic: 3, write: bitlocker},
	{name: "VeraCrypt, plain dm-crypt: random everywhere", class: Crypto, kind: disk.Unknown, write: func(im *image) { im.fillRandom(0, im.size) }},
	{name: "VeraCrypt, formatted quickly: random at both ends", class: Crypto, kind: disk.Unknown, write: func(im *image) { im.fillRandom(0, 128<<10); im.fillRandom(im.size-128<<10, im.size) }},

	{name: "bcache", class: Cache, kind: disk.Other, blkid: "bcache", super: 4096, magic: 4096 + 24, script: "make-bcache -B $d"},
	{name: "bcache, the cache", class: Cache, kind: disk.Other, blkid: "bcache", super: 4096, magic: 4096 + 24, script: "make-bcache -C $d"},
	{name: "drbd, internal metadata", class: Cache, kind: disk.Other, blkid: "drbd", magic: Size - 4096 + 60, write: drbd},
	{name: "xfs under drbd's metadata", class: Cache, kind: disk.Other, blkid: "drbd", script: smallXFS, write: drbd},
	{name: "ceph bluestore", class: Cache, kind: disk.Other, blkid: "ceph_bluestore", write: bluestore(0)},
	{name: "dm-thin metadata", class: Cache, kind: disk.Unknown, write: func(im *image) { im.put(0, []byte{0x9d, 1, 2, 3}); im.put(32, []byte{0x1a, 0x58, 0x9c, 0x01, 2}) }},

	{name: "tar", class: File, kind: disk.Other, blkid: "tar", script: "tar -cf $tmp/x -C $(files) .; put $tmp/x"},
	{name: "zip", class: File, kind: disk.Other, blkid: "zip", script: "cd $(files); zip -q -r $tmp/x.zip .; put $tmp/x.zip"},
	{name: "gzip", class: File, kind: disk.Other, blkid: "gzip", script: "gzip <$(files)/numbers >$tmp/x; put $tmp/x"},
	{name: "xz", class: File, kind: disk.Other, blkid: "xz", script: "xz <$(files)/numbers >$tmp/x; put $tmp/x"},
	{name: "text", class: File, kind: disk.Unknown, script: "put $(files)/numbers"},
	{name: "qcow2", class: File, kind: disk.Other, blkid: "qcow2", script: "qemu-img create -q -f qcow2 $tmp/x 1G; put $tmp/x"},
	{name: "vhd", class: File, kind: disk.Other, blkid: "vhd", script: "qemu-img create -q -f vpc $tmp/x 1G; put $tmp/x"},
	{name: "vmdk", class: File, kind: disk.Other, blkid: "vmdk", script: "qemu-img create -q -f vmdk $tmp/x 1G; put $tmp/x"},
	{name: "vdi", class: File, kind: disk.Other, blkid: "vdi", script: "qemu-img create -q -f vdi $tmp/x 1G; put $tmp/x"},
	{name: "vhdx", class: File, kind: disk.Other, blkid: "vhdx", script: "qemu-img create -q -f vhdx $tmp/x 300M; put $tmp/x"},
	{name: "sqlite", class: File, kind: disk.Unknown, script: `sqlite3 $tmp/x 'create table t(x); insert into t values(1)'; put $tmp/x`},
	{name: "a program", class: File, kind: disk.Unknown, script: "put /bin/bash"},
	{name: "a raw database of pages", class: File, kind: disk.Unknown, write: func(im *image) { im.pages(0, 64<<20) }},

	{name: "one byte at the start", class: Bytes, kind: disk.Unknown, write: byteAt(0)},
	{name: "one byte at 511", class: Bytes, kind: disk.Unknown, write: byteAt(511)},
	{name: "one byte at 4095", class: Bytes, kind: disk.Unknown, write: byteAt(4095)},
	{name: "one byte at 4096", class: Bytes, kind: disk.Unknown, write: byteAt(4096)},
	{name: "one byte right before 1 MiB", class: Bytes, kind: disk.Unknown, write: byteAt(1<<20 - 1)},
	{name: "one byte right after 16 MiB", class: Bytes, kind: disk.Unknown, write: byteAt(16 << 20)},
	{name: "one byte in the middle", class: Bytes, kind: disk.Unknown, write: byteAt(Size / 2)},
	{name: "one byte at an odd place", class: Bytes, kind: disk.Unknown, write: byteAt(123456789)},
	{name: "one byte right before the last 16 MiB", class: Bytes, kind: disk.Unknown, write: byteAt(Size - 16<<20 - 1)},
	{name: "one byte at the end", class: Bytes, kind: disk.Unknown, write: byteAt(Size - 1)},
	{name: "one byte at the end of an odd size", class: Bytes, kind: disk.Unknown, size: Size + 512*3, write: byteAt(Size + 512*3 - 1)},
	{name: "one byte in the first of three odd sectors at the end", class: Bytes, kind: disk.Unknown, size: Size + 512*3, write: byteAt(Size)},
	{name: "data from 1 MiB on", class: Bytes, kind: disk.Unknown, write: func(im *image) { im.fillRandom(1<<20, 24<<20) }},
	{name: "data in the middle", class: Bytes, kind: disk.Unknown, write: func(im *image) { im.fillRandom(im.size/2, im.size/2+1<<20) }},
	{name: "data at the end", class: Bytes, kind: disk.Unknown, write: func(im *image) { im.fillRandom(im.size-4096, im.size) }},
	{name: "a database in the middle", class: Bytes, kind: disk.Unknown, write: func(im *image) { im.pages(100<<20, 101<<20) }},
	{name: "all bits set", class: Bytes, kind: disk.Unknown, write: func(im *image) { im.fill(0, 8<<20, 0xff) }},

	{name: "xfs of 100 GiB", class: Large, kind: disk.Filesystem, blkid: "xfs", mounts: true, size: 100 * gib, script: "mkfs.xfs -q -p $(proto) $d"},
	{name: "ext4 of 100 GiB", class: Large, kind: disk.Filesystem, blkid: "ext4", mounts: true, size: 100 * gib, script: "mke2fs -q -F -b 4096 -O $ext4 -J size=4 -d $(files) $d"},
	{name: "btrfs of 300 GiB", class: Large, kind: disk.Filesystem, blkid: "btrfs", size: 300 * gib, backup: 64 << 20, script: "mkfs.btrfs -q $d"},
	{name: "GPT of 100 GiB", class: Large, kind: disk.Other, blkid: "gpt", size: 100 * gib, backup: 34 * 512, script: "sgdisk -n 1:0:0 $d"},
	{name: "ceph bluestore's copies of the label, of 200 GiB", class: Large, kind: disk.Unknown, size: 200 * gib, write: bluestore(gib, 10*gib, 100*gib)},
	{name: "md 0.90 of 100 GiB", class: Large, kind: disk.Other, blkid: "linux_raid_member", size: 100*gib + 512, write: md090},
	{name: "data from 1 GiB on, of 100 GiB", class: Large, kind: disk.Unknown, size: 100 * gib, write: func(im *image) { im.fillRandom(gib, gib+64<<20) }},
	{name: "one byte at the end of 100 GiB", class: Large, kind: disk.Unknown, size: 100*gib + 512, write: byteAt(100*gib + 511)},
}

// smallXFS makes a filesystem that leaves 1 MiB free at the end of the disk.
const smallXFS = "mkfs.xfs -q -d size=319m $d"

const lvm = `
l=$(losetup -f --show $d)
trap 'losetup -d $l; rm -rf "$tmp"' EXIT
config="devices { use_devicesfile=0 scan=[\"/dev\"] filter=[\"a|^$l\$|\",\"r|.*|\"] } activation { udev_sync=0 } global { event_activation=0 }"
lvm pvcreate -qq --config "$config" $l
`

// byteAt returns a function that writes a byte with the value 1 at the given offset.
func byteAt(offset int64) func(*image) { return func(im *image) { im.put(offset, []byte{1}) } }

// bluestore returns a function that writes BlueStore's label at the given offsets.
func bluestore(offsets ...int64) func(*image) {
	return func(im *image) {
		for _, at := range offsets {
			im.put(at, []byte("bluestore block device\n0b0f1c6e-86e1-4b40-9d0b-7a4c3b1e55aa\n\x02\x01\x87"))
		}
	}
}

// fillRandom fills a range with bytes that look random. For the same start of the range, fillRandom always writes the
// same bytes.
func (im *image) fillRandom(from, to int64) {
	r := rand.NewChaCha8([32]byte{byte(from), byte(from >> 20), 1})
	buf := make([]byte, 1<<20)
	for at := from; at < to; at += int64(len(buf)) {
		b := buf[:min(int64(len(buf)), to-at)]
		r.Read(b)
		im.put(at, b)
	}
}

// fill fills a range with the byte c.
func (im *image) fill(from, to int64, c byte) {
	b := make([]byte, to-from)
	for i := range b {
		b[i] = c
	}
	im.put(from, b)
}
