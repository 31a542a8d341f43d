// Package sysfs reads the facts of disks from sysfs and from udev's database, below a root path. Package sysfs opens no
// disk, reads no content of a disk and starts no program.
package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"hotmount/internal/disk"
)

// FS is a directory tree with sysfs, procfs and udev's database in their usual places.
type FS struct {
	// Root is the root directory of the tree: "" or "/" for the live system.
	Root string
	// Partitions reports whether partitions count as disks, too.
	Partitions bool
}

func (f FS) path(elements ...string) string {
	return filepath.Join(append([]string{"/", f.Root}, elements...)...)
}

// Names returns the sorted kernel names of all whole disks. If FS.Partitions is set, the names of a disk's partitions
// follow the name of the disk.
//
// Names includes virtual, empty and removable disks, but leaves out hidden entries of /sys/block and unused loop
// devices. Hidden entries, such as the individual paths of NVMe multipath (GENHD_FL_HIDDEN), have no device node. A
// loop device without a backing file is unused.
func (f FS) Names() ([]string, error) {
	entries, err := os.ReadDir(f.path("sys/block"))
	if err != nil {
		return nil, fmt.Errorf("cannot list disks: %w", err)
	}
	var names []string
	for _, e := range entries {
		if hidden, err := readAttribute(f.path("sys/block", e.Name(), "hidden")); err == nil && hidden == "1\n" {
			continue
		}
		if detached(f.path("sys/block", e.Name())) {
			continue
		}
		names = append(names, e.Name())
		if f.Partitions {
			parts, err := partitionsOf(f.path("sys/block", e.Name()))
			if err != nil {
				return nil, fmt.Errorf("cannot list disks: %w", err)
			}
			names = append(names, parts...)
		}
	}
	return names, nil
}

// Newest returns the highest sequence number of the attached disks. The parameter `name` is the kernel name of a removed
// disk. Newest leaves out each disk that was certainly attached after this removal.
//
// If an attached disk has the removed disk's name, the attached disk and all disks with higher sequence numbers were
// attached after the removal. The function `later` reports whether the disk with the given name was attached after the
// removal. The parameter `later` may be nil.
func (f FS) Newest(name string, later func(other string) bool) (uint64, error) {
	names, err := FS{Root: f.Root}.Names()
	if err != nil {
		return 0, err
	}
	var all []uint64
	after := uint64(math.MaxUint64)
	for _, n := range names {
		seq, err := number(f.path("sys/block", n), "diskseq")
		if missing(err) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("cannot read the sequence number of disk %s: %w", n, err)
		}
		switch {
		case n == name:
			after = seq
		case later != nil && later(n):
			continue
		}
		all = append(all, seq)
	}
	var newest uint64
	for _, seq := range all {
		if seq < after {
			newest = max(newest, seq)
		}
	}
	return newest, nil
}

// Disk returns the facts that sysfs and udev's database contain about a disk: the fields of disk.Facts from ID to
// Holders except BackingDevice, and the field Udev. Disk reads the sequence number before and after all other facts, so
// that all facts are about one disk. The error wraps disk.ErrGone if the disk is not attached, or was detached during
// the call.
func (f FS) Disk(name string) (disk.Facts, error) {
	facts, err := f.disk(name)
	if err != nil {
		return disk.Facts{}, fmt.Errorf("cannot read facts of disk %s: %w", disk.Visible(name), err)
	}
	return facts, nil
}

func (f FS) disk(name string) (disk.Facts, error) {
	at, err := f.find(name)
	if err != nil {
		return disk.Facts{}, err
	}
	facts := disk.Facts{ID: disk.ID{Name: name, Seq: at.seq}}
	if facts.Partition() > 0 {
		err = f.fillPartition(&facts, at.dir)
	} else {
		err = f.fill(&facts, at.dir)
	}
	// If the disk is gone, a read error may come from another disk, so this method returns the error of at.check().
	if gone := at.check(); gone != nil {
		return disk.Facts{}, gone
	}
	if err != nil {
		return disk.Facts{}, err
	}
	return facts, nil
}

// The type `attachment` is a disk or a partition that is attached now.
type attachment struct {
	seq uint64
	// The field `entry` is a path in /sys/block or /sys/class/block. Until the disk is detached, this path leads to the
	// directory in the field `dir`.
	entry, dir string
	// The field `whole` is the directory of the whole disk.
	whole string
}

// The method `find` returns the attachment with that kernel name. If no disk or partition has the name, the error wraps
// disk.ErrGone.
func (f FS) find(name string) (at attachment, err error) {
	if at.entry, err = f.entry(name); err != nil {
		return at, err
	}
	at.dir, err = resolveEntry(at.entry)
	if missing(err) {
		return at, fmt.Errorf("%w: %w", disk.ErrGone, err)
	}
	if err != nil {
		return at, err
	}
	if at.seq, err = sequence(at.dir); err != nil {
		return at, goneOr(at.dir, err)
	}
	at.whole = at.dir
	if id := (disk.ID{Seq: at.seq}); id.Partition() > 0 {
		at.whole = filepath.Dir(at.dir)
	}
	if detached(at.whole) {
		return at, fmt.Errorf("%w: the loop device has no backing file", disk.ErrGone)
	}
	return at, nil
}

// The method `check` returns an error if the disk was detached after the method `find` had returned the attachment. The
// error wraps disk.ErrGone.
func (at *attachment) check() error {
	seq, err := sequence(at.entry)
	switch {
	case err != nil:
		return goneOr(at.entry, err)
	case seq != at.seq:
		return fmt.Errorf("%w: the name now belongs to another disk: the disk sequence number was %d and is now %d", disk.ErrGone, at.seq, seq)
	}
	return nil
}

// The method `entry` returns the path of a disk's entry in /sys/block. For a partition, if FS.Partitions is set, the path
// is in /sys/class/block.
func (f FS) entry(name string) (string, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return "", errors.New("not a name of a disk")
	}
	if f.Partitions {
		partition := f.path("sys/class/block", name)
		if _, err := os.Stat(filepath.Join(partition, "partition")); err == nil {
			return partition, nil
		} else if !missing(err) {
			return "", err
		}
	}
	return f.path("sys/block", name), nil
}

// resolveEntry returns the directory to which an entry of /sys/block or /sys/class/block leads. An entry is a symbolic
// link, whose target contains no other link. An entry can also be the directory itself (CONFIG_SYSFS_DEPRECATED, until
// Linux 6.2).
func resolveEntry(entry string) (string, error) {
	target, err := os.Readlink(entry)
	switch {
	case errors.Is(err, syscall.EINVAL):
		return entry, nil
	case err != nil:
		return "", err
	}
	return filepath.Join(filepath.Dir(entry), target), nil
}

// The function `detached` reports whether the directory of a whole disk belongs to a loop device without a backing file.
// The directory "loop" exists only while the loop device has a backing file (loop_sysfs_init in drivers/block/loop.c).
func detached(dir string) bool {
	if !strings.HasPrefix(filepath.Base(dir), "loop") {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, "loop"))
	return missing(err)
}

// goneOr adds disk.ErrGone to the error if the disk's directory no longer exists, or if the error is ENODEV.
func goneOr(dir string, err error) error {
	if _, stat := os.Stat(dir); missing(stat) || errors.Is(err, syscall.ENODEV) {
		return fmt.Errorf("%w: %w", disk.ErrGone, err)
	}
	return err
}

// The function `missing` reports whether the error means that a file or directory of sysfs does not exist. The kernel
// returns ENOENT for a missing file, and ENODEV for a file that disappeared while open (kernfs_get_active in
// fs/kernfs/dir.c).
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

// fillDevice reads the device number and the size of a disk or a partition.
func fillDevice(facts *disk.Facts, dir string) error {
	text, err := readAttribute(filepath.Join(dir, "dev"))
	if err != nil {
		return err
	}
	if facts.Dev, err = disk.ParseDev(text); err != nil {
		return err
	}
	sectors, err := number(dir, "size")
	if err != nil {
		return err
	}
	// sysfs gives the size in units of 512 bytes, whatever the sector size of the disk is (SECTOR_SIZE in
	// include/linux/blk_types.h).
	facts.Size = sectors * 512
	return nil
}

func (f FS) fill(facts *disk.Facts, dir string) error {
	if err := fillDevice(facts, dir); err != nil {
		return err
	}
	sector, err := number(dir, "queue/logical_block_size")
	if err != nil {
		return err
	}
	facts.LogicalSector = uint32(sector)
	for attribute, to := range map[string]*bool{"ro": &facts.ReadOnly, "removable": &facts.Removable, "queue/rotational": &facts.Rotational} {
		n, err := number(dir, attribute)
		if err != nil {
			return err
		}
		*to = n != 0
	}
	stat, err := readStat(dir)
	if err != nil {
		return err
	}
	facts.Writes, facts.InFlight = stat.writes+stat.discards, stat.inFlight
	if facts.Uncounted, err = uncounted(dir); err != nil {
		return err
	}
	// queue/discard_max_bytes is 0 for a disk that cannot discard.
	discards, err := readAttribute(filepath.Join(dir, "queue/discard_max_bytes"))
	if err != nil && !missing(err) {
		return err
	}
	discards = strings.TrimSpace(discards)
	facts.Discards = discards != "" && discards != "0"
	if err := fillHardware(facts, dir); err != nil {
		return err
	}
	if facts.Partitions, err = partitions(dir); err != nil {
		return err
	}
	if facts.Holders, err = f.holders(dir, facts.Partitions); err != nil {
		return err
	}
	u, slot, err := f.udev(facts.ID)
	if err != nil {
		return err
	}
	facts.Udev, facts.Slot = u, slot
	if facts.Slot == "" {
		facts.Slot = busAddress(dir)
	}
	facts.Fabric = f.fabric(facts, dir)
	return nil
}

func readAttribute(path string) (string, error) {
	b, err := os.ReadFile(path)
	return string(b), err
}

// The function `number` reads a sysfs attribute whose value is a decimal number.
func number(dir, attribute string) (uint64, error) {
	name := filepath.Join(dir, attribute)
	text, err := readAttribute(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(text, "\n"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cannot parse %s: %w", name, err)
	}
	return n, nil
}
