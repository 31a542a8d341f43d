package sysfs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
)

const entry = "S:disk/by-diskseq/12\nI:3037919\n"

func TestParseUdev(t *testing.T) {
	ours := func(change func(*disk.Udev)) disk.Udev {
		u := disk.Udev{Initialized: true, Links: []string{"/dev/disk/by-diskseq/12"}}
		change(&u)
		return u
	}
	for _, test := range []struct {
		name, text string
		want       disk.Udev
	}{
		{"empty", "", disk.Udev{}},
		{"nothing on it", entry, ours(func(*disk.Udev) {})},
		{"not initialized", "S:disk/by-diskseq/12\n", disk.Udev{}},
		{"initialized at no time", "S:disk/by-diskseq/12\nI:0\n", disk.Udev{}},
		{"initialized at nonsense", "S:disk/by-diskseq/12\nI:x\n", disk.Udev{}},
		{"of nobody", "I:3037919\nE:ID_FS_TYPE=xfs\n", disk.Udev{}},
		{"of the disk before", "S:disk/by-diskseq/1\nI:3037919\nE:ID_FS_TYPE=xfs\n", disk.Udev{}},
		{"of a longer number", "S:disk/by-diskseq/120\nI:3037919\n", disk.Udev{}},
		{"of a partition", "S:disk/by-diskseq/12-part1\nI:3037919\n", disk.Udev{}},
		{"the property alone", "I:3037919\nE:DISKSEQ=12\n", disk.Udev{}},
		{"the property agrees", entry + "E:DISKSEQ=12\n", ours(func(*disk.Udev) {})},
		{"the property contradicts", entry + "E:DISKSEQ=13\n", disk.Udev{}},
		{"a filesystem", entry + "E:ID_FS_UUID=7AB1\nE:ID_FS_UUID_ENC=7AB1\nE:ID_FS_LABEL=a_b\nE:ID_FS_LABEL_ENC=a\\x20b\nE:ID_FS_TYPE=xfs\nE:ID_FS_USAGE=filesystem\n",
			ours(func(u *disk.Udev) { u.FSUUID, u.FSLabel, u.FSType, u.FSUsage = "7AB1", "a b", "xfs", "filesystem" })},
		{"how much it takes", entry + "E:ID_FS_BLOCKSIZE=4096\nE:ID_FS_LASTBLOCK=1310720\nE:ID_FS_SIZE=1\n", ours(func(u *disk.Udev) { u.FSSpan = 5 << 30 })},
		{"half of how much it takes", entry + "E:ID_FS_LASTBLOCK=1310720\n", ours(func(*disk.Udev) {})},
		{"a negative block", entry + "E:ID_FS_BLOCKSIZE=-1\nE:ID_FS_LASTBLOCK=1310720\n", ours(func(*disk.Udev) {})},
		{"more than there is", entry + "E:ID_FS_BLOCKSIZE=4096\nE:ID_FS_LASTBLOCK=4503599627370496\n", ours(func(*disk.Udev) {})},
		{"half of all there is", entry + "E:ID_FS_BLOCKSIZE=4096\nE:ID_FS_LASTBLOCK=2251799813685248\n", ours(func(*disk.Udev) {})},
		{"how much an XFS takes, by our rules", entry + "E:ID_FS_TYPE=xfs\nE:HOTMOUNT_XFS= 00001000 00000000 0001a000\n", ours(func(u *disk.Udev) { u.FSType, u.FSSpan = "xfs", 416<<20 })},
		{"how much a large XFS takes", entry + "E:ID_FS_TYPE=xfs\nE:HOTMOUNT_XFS= 00001000 00000001 00000002\n", ours(func(u *disk.Udev) { u.FSType, u.FSSpan = "xfs", 1<<44+2<<12 })},
		{"libblkid comes first", entry + "E:ID_FS_TYPE=xfs\nE:ID_FS_BLOCKSIZE=4096\nE:ID_FS_LASTBLOCK=1310720\nE:HOTMOUNT_XFS= 00001000 00000000 0001a000\n", ours(func(u *disk.Udev) { u.FSType, u.FSSpan = "xfs", 5<<30 })},
		{"not an XFS", entry + "E:ID_FS_TYPE=ext4\nE:HOTMOUNT_XFS= 00001000 00000000 0001a000\n", ours(func(u *disk.Udev) { u.FSType = "ext4" })},
		{"a part of the superblock", entry + "E:ID_FS_TYPE=xfs\nE:HOTMOUNT_XFS= 00001000 00000000\n", ours(func(u *disk.Udev) { u.FSType = "xfs" })},
		{"a part of a number", entry + "E:ID_FS_TYPE=xfs\nE:HOTMOUNT_XFS= 00001000 00000000 0001a00\n", ours(func(u *disk.Udev) { u.FSType = "xfs" })},
		{"no number", entry + "E:ID_FS_TYPE=xfs\nE:HOTMOUNT_XFS= 00001000 0000000x 0001a000\n", ours(func(u *disk.Udev) { u.FSType = "xfs" })},
		{"more than there is, by our rules", entry + "E:ID_FS_TYPE=xfs\nE:HOTMOUNT_XFS= 00001000 ffffffff ffffffff\n", ours(func(u *disk.Udev) { u.FSType = "xfs" })},
		{"no escaped variants", entry + "E:ID_FS_UUID=7AB1\nE:ID_FS_LABEL=a\\x20b\n", ours(func(u *disk.Udev) { u.FSUUID, u.FSLabel = "7AB1", `a\x20b` })},
		{"an equals sign in a value", entry + "E:ID_FS_LABEL_ENC=a=b\n", ours(func(u *disk.Udev) { u.FSLabel = "a=b" })},
		{"ambivalent", entry + "E:ID_FS_AMBIVALENT=filesystem:xfs:1 raid:lvm:2\n", ours(func(u *disk.Udev) { u.Ambivalent = "filesystem:xfs:1 raid:lvm:2" })},
		{"a partition table", entry + "E:ID_PART_TABLE_TYPE=gpt\n", ours(func(u *disk.Udev) { u.PartTable = "gpt" })},
		{"not ready", entry + "E:SYSTEMD_READY=0\n", ours(func(u *disk.Udev) { u.NotReady = true })},
		{"not ready, in words", entry + "E:SYSTEMD_READY=No\n", ours(func(u *disk.Udev) { u.NotReady = true })},
		{"ready", entry + "E:SYSTEMD_READY=1\n", ours(func(*disk.Udev) {})},
		{"ready, by default", entry + "E:SYSTEMD_READY=\n", ours(func(*disk.Udev) {})},
		{"multipath", entry + "E:DM_MULTIPATH_DEVICE_PATH=1\n", ours(func(u *disk.Udev) { u.Multipath = true })},
		{"no multipath", entry + "E:DM_MULTIPATH_DEVICE_PATH=0\n", ours(func(*disk.Udev) {})},
		{"multipath by its type", entry + "E:ID_FS_TYPE=mpath_member\n", ours(func(u *disk.Udev) { u.FSType, u.Multipath = "mpath_member", true })},
		{"lines of kinds to come", entry + "Z:x\n\nE\nnonsense\n", ours(func(*disk.Udev) {})},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, _ := parseUdev(test.text, disk.ID{Seq: 12})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("udev (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseUdev(f *testing.F) {
	f.Add(virtio["run/udev/data/b254:16"], uint64(12))
	f.Add(entry+"E:ID_FS_LABEL_ENC=a\\x20b\nE:ID_FS_TYPE=xfs\nE:ID_FS_USAGE=filesystem\nE:SYSTEMD_READY=0\n", uint64(12))
	f.Add("S:\nI:\nE:\nE:=\nS:disk/by-diskseq/0\nI:1", uint64(0))
	f.Fuzz(func(t *testing.T, text string, seq uint64) {
		u, path := parseUdev(text, disk.ID{Seq: seq})
		if !u.Initialized {
			if diff := cmp.Diff(disk.Udev{}, u); diff != "" || path != "" {
				t.Errorf("properties of an invalid entry: %q and\n%s", path, diff)
			}
			return
		}
		if !strings.Contains(text, "S:disk/by-diskseq/") || !strings.Contains(text, "I:") {
			t.Errorf("initialized by %q", text)
		}
	})
}
