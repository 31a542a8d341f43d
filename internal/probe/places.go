package probe

import "slices"

// The variable `secondary` lists the places of second superblocks, labels and backups. A format is left out if all its
// places are in the first and the last 16 MiB of the disk.
//
// Every sampled scan reads the first and the last 16 MiB. The first and the last 16 MiB contain the superblocks, labels
// and tables of the following formats.
//   - GPT (backup in the last sector) and other partition tables.
//   - md: metadata 0.90 is in the last 128 KiB, 1.0 in the last 12 KiB, and 1.1 and 1.2 in the first 8 KiB.
//   - DDF, IMSM, LVM2, LUKS (LUKS2 has a second header at up to 4 MiB), ZFS (two labels of 256 KiB at each end).
//   - swap, VeraCrypt (last 128 KiB), DRBD's internal metadata, iso9660 and UDF (at 32 KiB, sectors 256 and N-256).
//   - NTFS' backup boot sector, HFS+ (1 KiB before the end), reiserfs (at 64 KiB), JFS (at 32 and 60 KiB).
//   - f2fs (superblocks at 1 and 5 KiB), nilfs2, exFAT, FAT, bcache, Stratis, VMFS.
var secondary = []struct {
	format string
	source string
	// The field `at` is a function that returns the byte offsets of the places. The argument `size` is the size of the
	// disk in bytes. The caller drops offsets beyond the end of the disk.
	at func(size uint64) []uint64
}{
	{"xfs", "xfsprogs, libxfs/topology.c, calc_default_ag_geometry: the start of every allocation group", xfsGroups},
	{"ext2, ext3, ext4", "Linux, fs/ext4/balloc.c, ext4_bg_has_super; with sparse_super2 (mke2fs(8)) the first and the last group", extGroups},
	{"btrfs", "Linux, fs/btrfs/disk-io.h, btrfs_sb_offset; the last offset only in old btrfs-progs", fixed(64<<20, 256<<30, 1<<50)},
	{"ocfs2", "Linux, fs/ocfs2/ocfs2_fs.h, OCFS2_BACKUP_SB_START", fixed(1<<30, 4<<30, 16<<30, 64<<30, 256<<30, 1<<40)},
	{"ceph bluestore", "Ceph, src/os/bluestore/BlueStore.cc, bdev_label_positions", fixed(1<<30, 10<<30, 100<<30, 1000<<30)},
	{"ntfs", "Linux, fs/ntfs3: mkfs puts $MFTMirr in the middle of the volume", func(size uint64) []uint64 { return []uint64{size / 2} }},
}

func fixed(at ...uint64) func(uint64) []uint64 { return func(uint64) []uint64 { return at } }

// The function `places` returns the byte offsets of all second superblocks in ascending order, rounded down for
// O_DIRECT.
func places(size uint64) []uint64 {
	var all []uint64
	for _, s := range secondary {
		for _, at := range s.at(size) {
			if at < size {
				all = append(all, at/align*align)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// xfsGroups returns the byte offsets of the allocation groups that mkfs.xfs would make with its default block size. On
// a plain disk below 4 TiB, mkfs.xfs makes 4 allocation groups. On a disk below 32 TiB that reports a stripe, mkfs.xfs
// makes 8 to 32 allocation groups, depending on the size of the disk. On any other disk, the size of each allocation
// group is just under 1 TiB. xfsGroups returns at most 1024 allocation groups for each layout, which is enough for a
// disk of 1 PiB.
//
// On a striped disk, the size of an allocation group is a multiple of the stripe unit. If all allocation groups would
// begin on the same member disk, mkfs.xfs makes each group one stripe unit smaller (xfsprogs, mkfs/xfs_mkfs.c,
// align_ag_geometry).
//
// On solid-state disks, mkfs.xfs 6.8 and later make one allocation group for each CPU, but never fewer groups than
// above. mkfs.xfs makes fewer allocation groups than CPUs if a group would otherwise be smaller than 4 GiB. mkfs.xfs
// makes two or more allocation groups for each CPU if a group would otherwise be larger than 1 TiB
// (calc_concurrency_ag_geometry). xfsGroups covers the CPU counts of real machines, up to 512. Above 32 CPUs, xfsGroups
// covers only every fourth CPU count. The step between CPU counts doubles above 64, above 128 and above 256 CPUs. A
// scan for all CPU counts up to 512 would need 130,000 places.
func xfsGroups(size uint64) []uint64 {
	const (
		block     = 4096
		max4K     = (1<<40 - 1) / block // XFS_AG_MAX_BLOCKS
		min4G     = 4 << 30 / block
		maxGroups = 1024
		maxCPUs   = 512
	)
	blocks := size / block
	var all []uint64
	add := func(group uint64) {
		for i := uint64(1); i < maxGroups && i*group < blocks; i++ {
			all = append(all, i*group*block)
		}
	}
	for shift := 2; shift <= 5; shift++ {
		group := (blocks + 1<<shift - 1) >> shift
		add(min(group, max4K))
		if group >= max4K {
			continue
		}
		for unit := uint64(4); unit <= 256; unit *= 2 { // stripe units of 16 KiB to 1 MiB, in blocks
			whole := (group + unit - 1) / unit * unit
			add(whole)
			if whole > unit {
				add(whole - unit)
			}
		}
	}
	for cpus, step := uint64(5), uint64(1); cpus <= maxCPUs && blocks/cpus >= min4G; cpus += step {
		groups := cpus
		for blocks/groups > max4K {
			groups += cpus
		}
		if groups <= maxCPUs {
			add(blocks / groups)
		}
		if cpus >= 32 && cpus&(cpus-1) == 0 {
			step = cpus / 8
		}
	}
	if most := blocks / min4G; most > 4 {
		add(blocks / most)
	}
	return all
}

// extGroups returns the byte offsets of the ext2, ext3 or ext4 block groups that hold a copy of the superblock. The
// copies are in group 1, in the groups whose number is a power of 3, 5 or 7, and with sparse_super2 in the last group.
// A block group has as many blocks as one block has bits.
func extGroups(size uint64) []uint64 {
	var all []uint64
	for _, block := range []uint64{1 << 10, 2 << 10, 4 << 10, 64 << 10} {
		group := block * 8 * block
		all = append(all, group, (size-1)/group*group)
		for _, base := range []uint64{3, 5, 7} {
			for n := base; n < size/group+1; n *= base {
				all = append(all, n*group)
			}
		}
	}
	return all
}
