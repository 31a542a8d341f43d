package sysfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"hotmount/internal/disk"
)

// The function `sequence` returns the sequence number (disk.ID.Seq) of the disk or partition with that sysfs directory.
// Only a whole disk has the file diskseq. For a partition, the function therefore resolves the symbolic link to find
// the directory of the whole disk.
func sequence(dir string) (uint64, error) {
	seq, err := number(dir, "diskseq")
	if !missing(err) {
		return seq, err
	}
	part, partErr := number(dir, "partition")
	if missing(partErr) {
		return 0, err
	}
	if partErr != nil {
		return 0, partErr
	}
	real, err := resolveEntry(dir)
	if err != nil {
		return 0, err
	}
	seq, err = number(filepath.Dir(real), "diskseq")
	return disk.PartitionSeq(seq, uint32(part)), err
}

// Seq returns the sequence number of the whole disk with that kernel name.
func (f FS) Seq(name string) (uint64, error) { return number(f.path("sys/block", name), "diskseq") }

// Attached returns the sequence number of the disk or partition with that device number, or 0 if none is attached.
func (f FS) Attached(dev disk.Dev) (uint64, error) {
	link := f.path("sys/dev/block", dev.String())
	seq, err := sequence(link)
	if err != nil {
		if _, now := os.Lstat(link); missing(now) {
			return 0, nil
		}
		return 0, fmt.Errorf("cannot find out which disk has the device number %s: %w", dev, err)
	}
	return seq, nil
}

// fillPartition reads the facts of a partition: the facts of its disk, and the partition's own facts.
func (f FS) fillPartition(facts *disk.Facts, dir string) error {
	whole := disk.Facts{ID: disk.ID{Name: filepath.Base(filepath.Dir(dir)), Seq: facts.DiskSeq()}}
	if err := f.fill(&whole, filepath.Dir(dir)); err != nil {
		return err
	}
	id := facts.ID
	*facts = whole
	facts.ID, facts.Whole, facts.WholeSize, facts.Partitions = id, whole.Name, whole.Size, nil
	suffix := fmt.Sprintf("%s%d", disk.PartitionSuffix, facts.Partition())
	if facts.Serial != "" {
		facts.Serial += suffix
	}
	if err := fillDevice(facts, dir); err != nil {
		return err
	}
	readOnly, err := number(dir, "ro")
	if err != nil {
		return err
	}
	facts.ReadOnly = facts.ReadOnly || readOnly != 0
	stat, err := readStat(dir)
	if err != nil {
		return err
	}
	facts.Writes, facts.InFlight = stat.writes+stat.discards, stat.inFlight
	// A holder of the whole disk also holds each partition of the disk.
	of, err := f.holders(filepath.Dir(dir), nil)
	if err != nil {
		return err
	}
	own, err := f.holders(dir, nil)
	if err != nil {
		return err
	}
	facts.Holders = slices.Compact(slices.Sorted(slices.Values(append(of, own...))))
	slot := facts.Slot
	if facts.Udev, _, err = f.udev(facts.ID); err != nil {
		return err
	}
	removeDiskProperties(&facts.Udev, &whole.Udev)
	facts.Udev.NotReady = facts.Udev.NotReady || whole.Udev.NotReady
	facts.Udev.Multipath = facts.Udev.Multipath || whole.Udev.Multipath
	if facts.Slot = slot; slot != "" {
		facts.Slot += suffix
	}
	return nil
}

// removeDiskProperties removes the properties of the whole disk from the udev properties of a partition. udev's rules
// copy a disk's ID_* properties to its partitions before the partitions are probed (60-persistent-storage.rules). The
// copied properties include the properties of the partition table and, in older versions of udev, ID_FS_*.
func removeDiskProperties(part, whole *disk.Udev) {
	if part.PartTable == whole.PartTable && part.PartTableUUID == whole.PartTableUUID {
		part.PartTable, part.PartTableUUID = "", ""
	}
	if part.FSType == whole.FSType && part.FSUUID == whole.FSUUID && part.FSUsage == whole.FSUsage {
		part.FSType, part.FSUUID, part.FSUsage, part.FSLabel = "", "", "", ""
	}
	if part.Ambivalent == whole.Ambivalent {
		part.Ambivalent = ""
	}
}
