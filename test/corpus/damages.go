package corpus

import "hotmount/internal/disk"

// The type `damage` describes one way to damage an image, and the expected results.
type damage struct {
	name string
	do   func(*image, *format)
	of   []outcome
}

// The type `outcome` names a format to damage, and the kind of content that hotmount must report after the damage.
type outcome struct {
	format string
	kind   disk.Kind
}

func allOutcomes(kind disk.Kind, formats ...string) []outcome {
	var list []outcome
	for _, f := range formats {
		list = append(list, outcome{f, kind})
	}
	return list
}

func concatOutcomes(a ...[]outcome) []outcome {
	var list []outcome
	for _, o := range a {
		list = append(list, o...)
	}
	return list
}

const (
	window = 16 << 20
	mib    = 1 << 20
)

var damages = []damage{
	{
		name: "first 4 KiB zero",
		do:   func(im *image, _ *format) { im.zero(0, 4096) },
		of: concatOutcomes(
			allOutcomes(disk.Unknown, "xfs", "ext4", "ext2", "ext3", "f2fs", "exfat", "minix", "hfs", "erofs", "ocfs2", "LUKS1", "squashfs", "cramfs", "tar", "zip",
				"gzip", "xz", "qcow2", "vmdk", "BitLocker", "dm-verity", "LVM2 with a group", "a program", "xfs of 4096-byte sectors", "xfs, version 4"),
			allOutcomes(disk.Filesystem, "btrfs", "jfs", "reiserfs", "reiser4", "gfs2"),
		),
	},
	{
		name: "first MiB zero",
		do:   func(im *image, _ *format) { im.zero(0, mib) },
		of: concatOutcomes(
			allOutcomes(disk.Unknown, "xfs", "ext4", "btrfs", "f2fs", "ntfs", "jfs", "reiserfs", "gfs2", "ocfs2", "LUKS1", "LUKS2", "exfat", "hfs",
				"a raw database of pages", "VeraCrypt, formatted quickly: random at both ends"),
			allOutcomes(disk.Other, "GPT", "zfs", "GPT with a filesystem in it"),
		),
	},
	{
		name: "first and last MiB zero",
		do:   func(im *image, _ *format) { im.zero(0, mib); im.zero(im.size-mib, im.size) },
		of: allOutcomes(disk.Unknown, "xfs", "ext4", "btrfs", "f2fs", "ntfs", "jfs", "reiserfs", "gfs2", "ocfs2", "LUKS1", "LUKS2",
			"GPT with a filesystem in it", "a raw database of pages"),
	},
	{
		name: "first and last 16 MiB zero",
		do:   func(im *image, _ *format) { im.zero(0, window); im.zero(im.size-window, im.size) },
		of: allOutcomes(disk.Unknown, "xfs", "ext4", "btrfs", "reiserfs", "gfs2", "ntfs", "a raw database of pages", "VeraCrypt, plain dm-crypt: random everywhere",
			"xfs of 100 GiB", "ext4 of 100 GiB", "data from 1 GiB on, of 100 GiB"),
	},
	{
		name: "first and last 64 MiB zero",
		do:   func(im *image, _ *format) { im.zero(0, 4*window); im.zero(im.size-4*window, im.size) },
		of:   allOutcomes(disk.Unknown, "xfs", "xfs of 100 GiB", "ext4 of 100 GiB"),
	},
	{
		name: "one bit of the magic number flipped",
		do:   func(im *image, f *format) { im.flip(f.magic) },
		of: concatOutcomes(
			allOutcomes(disk.Unknown, "xfs", "ext4", "ext2", "ext3", "btrfs", "jfs", "reiserfs", "reiser4", "minix", "gfs2", "ocfs2", "erofs", "hfs", "swap",
				"md 0.90", "md 1.0", "md 1.1", "md 1.2", "ddf", "Intel Matrix RAID", "MBR", "LVM2", "LUKS1", "bcache", "drbd, internal metadata"),
			allOutcomes(disk.Unknown, "f2fs"),
			allOutcomes(disk.Other, "GPT", "LUKS2", "BitLocker"),
			allOutcomes(disk.Filesystem, "nilfs2"),
		),
	},
	{
		// The test requires only that hotmount does not format the damaged disk. Whether a filesystem with a wrong
		// checksum can be mounted depends on the kernel.
		name: "one bit of the superblock flipped",
		do:   func(im *image, f *format) { im.flip(f.super + 100) },
		of: concatOutcomes(
			allOutcomes(disk.Unknown, "xfs"),
			allOutcomes(disk.Other, "md 1.1", "md 1.2", "LVM2"),
		),
	},
	{
		name: "only backups left",
		do:   func(im *image, f *format) { im.zero(0, f.backup) },
		of: concatOutcomes(
			allOutcomes(disk.Unknown, "xfs", "ext4", "ntfs", "jfs", "hfs", "exfat", "btrfs of 300 GiB", "btrfs", "f2fs"),
			allOutcomes(disk.Other, "GPT", "LUKS2", "zfs", "GPT of 100 GiB"),
			allOutcomes(disk.Filesystem, "nilfs2"),
		),
	},
	{
		name: "the first half gone",
		do:   func(im *image, _ *format) { im.zero(0, im.size/2) },
		of:   allOutcomes(disk.Unknown, "xfs", "ext4", "ntfs", "gfs2", "xfs of 100 GiB", "ext4 of 100 GiB", "VeraCrypt, plain dm-crypt: random everywhere"),
	},
	{
		name: "overwritten from the start by text",
		do:   func(im *image, _ *format) { im.put(0, []byte("this disk is mine\n")) },
		of:   allOutcomes(disk.Unknown, "xfs", "LUKS1", "one byte at the end"),
	},
}
