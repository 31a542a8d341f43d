// Package disk holds the types that all other packages share. ID names a disk, Facts contains what is known about the
// disk, and Content describes what is on the disk. Decision contains what hotmount is to do with the disk. The package
// makes no system calls, and imports only the standard library.
package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// ErrGone reports that a disk is no longer attached, or that another disk now has its name.
var ErrGone = errors.New("the disk is gone")

// ErrHeld reports that the kernel still has a filesystem mounted in a place that the host cannot see. The filesystem of
// a detached disk stays mounted until no process uses the filesystem any more.
var ErrHeld = errors.New("the kernel still has the filesystem mounted, at a place that is not visible on the host")

// NodeError reports a fault of the node and not of the disk, such as a fault of PID 1 or a full filesystem. The fault
// may disappear without any action on the disk.
type NodeError struct{ Err error }

func (e *NodeError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *NodeError) Unwrap() error { return e.Err }

// OfNode wraps the error in a NodeError. OfNode returns nil if err is nil.
func OfNode(err error) error {
	if err == nil {
		return nil
	}
	return &NodeError{err}
}

// Dev is a device number as the kernel prints it in /sys/block/*/dev and in the third field of /proc/*/mountinfo
// (proc_pid_mountinfo(5)).
type Dev struct {
	Major uint32 `json:"major"`
	Minor uint32 `json:"minor"`
}

// String returns the number in the form "254:16".
func (d Dev) String() string { return fmt.Sprintf("%d:%d", d.Major, d.Minor) }

// ParseDev parses a number in the form "254:16", with or without a trailing newline.
func ParseDev(s string) (Dev, error) {
	first, second, _ := strings.Cut(strings.TrimSuffix(s, "\n"), ":")
	major, err := strconv.ParseUint(first, 10, 32)
	minor, minorErr := strconv.ParseUint(second, 10, 32)
	if err := cmp.Or(err, minorErr); err != nil {
		return Dev{}, fmt.Errorf("cannot parse device number %q: %w", s, err)
	}
	return Dev{uint32(major), uint32(minor)}, nil
}

// ID names one attachment of one disk. Once a disk is gone and nothing has it open, the kernel can give its Name and
// Dev to another disk. Within one boot, the kernel never reuses Seq.
type ID struct {
	// Name is the name that the kernel gives to the disk, such as "vdb". The directory /sys/block contains an entry
	// with the name of each whole disk.
	Name string `json:"name"`
	// Dev is the device number.
	Dev Dev `json:"dev"`
	// Seq is the disk sequence number (/sys/block/*/diskseq, Linux 5.15). A partition's Seq includes the partition
	// number (PartitionSeq), so no whole disk has the same Seq.
	Seq uint64 `json:"seq"`
}

// partitionShift leaves room for more disk sequence numbers than a machine can use up. With a shift of 40 bits, Seq
// stays within the 53 bits that JSON readers can represent.
const partitionShift = 40

// PartitionSeq returns the Seq of a partition. The parameter `seq` is the Seq of the partition's disk. The parameter
// number is the partition number (/sys/block/*/*/partition); the first partition has number 1.
func PartitionSeq(seq uint64, number uint32) uint64 { return seq | uint64(number)<<partitionShift }

// Partition returns the partition number, or 0 for a whole disk.
func (id ID) Partition() uint32 { return uint32(id.Seq >> partitionShift) }

// DiskSeq returns the disk sequence number. For a partition, DiskSeq returns the disk sequence number of the whole
// disk.
func (id ID) DiskSeq() uint64 { return id.Seq & (1<<partitionShift - 1) }

// Node returns the path of the device node that the kernel made for the disk. A "!" in the disk's name stands for a "/"
// in the path.
func (id ID) Node() string { return "/dev/" + strings.ReplaceAll(id.Name, "!", "/") }

// BySeq returns the path of the link that udev names after the sequence number of the disk or partition
// (60-persistent-storage.rules). udev removes the link when udev handles the removal of the disk. No other disk gets
// the same link. A link in by-uuid or by-id, however, can lead to another disk later.
func (id ID) BySeq() string {
	link := fmt.Sprintf("/dev/disk/by-diskseq/%d", id.DiskSeq())
	if n := id.Partition(); n > 0 {
		link += fmt.Sprintf("-part%d", n)
	}
	return link
}

// Sandboxed adds an explanation to err if err is a permission error. The error err must come from a root process that
// opened the disk in an instance of the template unit. In such a unit, the cause of EPERM or EACCES (open(2)) is the
// sandbox and not the disk. For a disk outside DeviceAllow=, the error is EPERM (systemd.resource-control(5)). If root
// does not own the device node, a root process without capabilities gets EACCES.
func (id ID) Sandboxed(template string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w: this is a fault of the sandbox of %s@%d.service, not of the disk; the unit can write only to the device that %s named when the unit started, and only if root owns the device; to see the device and the unit's drop-ins: ls -lL %[4]s; systemctl cat %[2]s@%[3]d",
		err, template, id.Seq, id.BySeq())
}

// String returns the disk in a form for people: "vdb (disk sequence number 12)".
func (id ID) String() string {
	return fmt.Sprintf("%s (disk sequence number %d)", id.Name, id.DiskSeq())
}
