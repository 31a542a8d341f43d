package sysfs

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
)

// The variable `parted` is the sysfs tree of the disk vdb with two partitions. In udev's database, the entry of the first
// partition contains the by-diskseq link of this partition, but the entry of the second partition does not.
var parted = scsi.with(tree{
	"sys/class/block/vdb":   "-> ../../devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/block/vdb",
	"sys/class/block/vdb1":  "-> ../../devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/block/vdb/vdb1",
	"sys/class/block/vdb2":  "-> ../../devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/block/vdb/vdb2",
	vdb + "vdb1/partition":  "1\n",
	vdb + "vdb1/dev":        "254:17\n",
	vdb + "vdb1/size":       "2048\n",
	vdb + "vdb1/ro":         "1\n",
	vdb + "vdb1/stat":       "1 2 3 4 77 6 7 8 9 10 11\n",
	vdb + "vdb1/holders/x":  "",
	vdb + "vdb2/partition":  "2\n",
	vdb + "vdb2/dev":        "254:18\n",
	vdb + "vdb2/size":       "4096\n",
	vdb + "vdb2/ro":         "0\n",
	vdb + "vdb2/stat":       "1 2 3 4 5 6 7 8 9 10 11\n",
	vdb + "vdb2/holders/y":  "",
	"run/udev/data/b254:17": "S:disk/by-diskseq/12-part1\nI:99\nE:ID_PATH=pci-0000:05:00.0\nE:ID_FS_TYPE=xfs\n",
	"run/udev/data/b254:18": "S:disk/by-diskseq/12-part1\nS:disk/by-diskseq/12\nS:disk/by-diskseq/11-part2\nI:99\n",
})

func wanting(fs FS) FS { fs.Partitions = true; return fs }

func TestPartitions(t *testing.T) {
	fs := wanting(parted.make(t))
	names, err := fs.Names()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names, " "); got != "dm-0 dm-1 dm-1p1 sda sda1 sda2 vdb vdb1 vdb2" {
		t.Errorf("names: %s", got)
	}
	whole, err := fs.Disk("vdb")
	if err != nil || whole.Whole != "" || whole.Partition() != 0 {
		t.Errorf("vdb: %+v, error %v", whole, err)
	}
	want := vdbFacts()
	want.ID = disk.ID{Name: "vdb1", Dev: disk.Dev{Major: 254, Minor: 17}, Seq: disk.PartitionSeq(12, 1)}
	want.Whole, want.WholeSize, want.Size, want.Serial, want.Slot = "vdb", want.Size, 1<<20, "a=b \x01c-part1", "pci-0000:05:00.0-part1"
	want.ReadOnly, want.Writes, want.InFlight, want.Holders = true, 77, 9, []string{"x"}
	want.Udev = disk.Udev{Initialized: true, FSType: "xfs", Links: []string{"/dev/disk/by-diskseq/12-part1"}}
	got, err := fs.Disk("vdb1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	if got.BySeq() != "/dev/disk/by-diskseq/12-part1" || got.OfDisk(got.Serial) != "a=b \x01c" || got.String() != "vdb1 (disk sequence number 12)" {
		t.Errorf("%s, %s, %s", got.BySeq(), got.OfDisk(got.Serial), got)
	}
	devices, err := fs.Devices(&got)
	if diff := cmp.Diff(map[disk.Dev]string{{Major: 254, Minor: 17}: "vdb1"}, devices); diff != "" || err != nil {
		t.Errorf("devices (-want +got):\n%s, error %v", diff, err)
	}
	// Disk must ignore the entry of vdb2 in udev's database, because the links in the entry name other devices.
	second, err := fs.Disk("vdb2")
	if err != nil || second.Udev.Initialized || second.Seq == got.Seq {
		t.Errorf("vdb2: %+v, error %v", second, err)
	}
	// Disk must also report the holders of the whole disk as holders of its partitions. If udev marks the whole disk as
	// not ready or as a multipath path, Disk must also mark the disk's partitions.
	fs = wanting(parted.with(tree{vdb + "holders/md0": "", "run/udev/data/b254:16": "S:disk/by-diskseq/12\nI:1\nE:SYSTEMD_READY=0\nE:DM_MULTIPATH_DEVICE_PATH=1\n"}).make(t))
	if got, err = fs.Disk("vdb1"); err != nil || strings.Join(got.Holders, " ") != "md0 x" || !got.Udev.NotReady || !got.Udev.Multipath {
		t.Errorf("vdb1: %+v, error %v", got, err)
	}
	// Devices must return ErrGone if the disk's name now belongs to a disk with another sequence number.
	if _, err := fs.Devices(&disk.Facts{ID: disk.ID{Name: "vdb1", Seq: disk.PartitionSeq(11, 1)}}); !errors.Is(err, disk.ErrGone) {
		t.Errorf("error %v", err)
	}
}

// TestHandedOn checks that Disk ignores the properties that udev has copied from a disk to its partition. Disk must
// keep the partition's own properties, including those of a partition table inside the partition.
func TestHandedOn(t *testing.T) {
	const table = "E:ID_PART_TABLE_TYPE=gpt\nE:ID_PART_TABLE_UUID=1\n"
	const fs = "E:ID_FS_TYPE=xfs\nE:ID_FS_UUID=2\nE:ID_FS_USAGE=filesystem\nE:ID_FS_LABEL=x\n"
	for name, tc := range map[string]struct {
		disk, part string
		want       disk.Udev
	}{
		"the table":               {table, table + fs, disk.Udev{FSType: "xfs", FSUUID: "2", FSUsage: "filesystem", FSLabel: "x"}},
		"the table, nothing":      {table, table, disk.Udev{}},
		"another table":           {table, "E:ID_PART_TABLE_TYPE=gpt\nE:ID_PART_TABLE_UUID=3\n", disk.Udev{PartTable: "gpt", PartTableUUID: "3"}},
		"a table of another kind": {table, "E:ID_PART_TABLE_TYPE=dos\nE:ID_PART_TABLE_UUID=1\n", disk.Udev{PartTable: "dos", PartTableUUID: "1"}},
		"the disk's filesystem":   {table + fs, table + fs, disk.Udev{}},
		"another filesystem":      {table + fs, table + "E:ID_FS_TYPE=xfs\nE:ID_FS_UUID=3\nE:ID_FS_USAGE=filesystem\n", disk.Udev{FSType: "xfs", FSUUID: "3", FSUsage: "filesystem"}},
		"the disk's ambivalence":  {table + "E:ID_FS_AMBIVALENT=y\n", table + "E:ID_FS_AMBIVALENT=y\n", disk.Udev{}},
		"its own ambivalence":     {table, table + "E:ID_FS_AMBIVALENT=y\n", disk.Udev{Ambivalent: "y"}},
	} {
		f, err := wanting(parted.with(tree{
			"run/udev/data/b254:16": "S:disk/by-diskseq/12\nI:1\n" + tc.disk,
			"run/udev/data/b254:17": "S:disk/by-diskseq/12-part1\nI:1\n" + tc.part,
		}).make(t)).Disk("vdb1")
		f.Udev.Initialized, f.Udev.Links = false, nil
		if diff := cmp.Diff(tc.want, f.Udev); diff != "" || err != nil {
			t.Errorf("%s (-want +got):\n%s, error %v", name, diff, err)
		}
	}
}

// TestNoPartitions checks that Disk and Names ignore partitions if FS.Partitions is not set.
func TestNoPartitions(t *testing.T) {
	fs := parted.make(t)
	if _, err := fs.Disk("vdb1"); !errors.Is(err, disk.ErrGone) {
		t.Errorf("error %v", err)
	}
	if names, err := fs.Names(); err != nil || strings.Join(names, " ") != "dm-0 dm-1 sda vdb" {
		t.Errorf("%q, error %v", names, err)
	}
	if _, err := wanting(fs).Disk("vdb3"); !errors.Is(err, disk.ErrGone) {
		t.Errorf("error %v", err)
	}
}
