// Package disk holds the values that travel through hotmount: which disk it is
// (ID), what is known of it (Facts), what is on it (Content) and what is to be
// done with it (Decision). It has no behaviour that needs an operating system
// and imports nothing but the standard library.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// ErrGone reports that a disk is not attached any more, or that another one has its
// name.
var ErrGone = errors.New("the disk is gone")

// ErrHeld reports that the kernel has a filesystem mounted already, somewhere: that of a
// disk that was detached stays until the last who uses it has let go.
var ErrHeld = errors.New("the kernel still has this filesystem mounted, where the host does not show it")

// NodeError reports that something failed for a fault of the node, of PID 1 or of a full
// filesystem, say, and not of the disk: it may pass by itself.
type NodeError struct{ Err error }

func (e *NodeError) Error() string { return e.Err.Error() }

// Unwrap returns the fault.
func (e *NodeError) Unwrap() error { return e.Err }

// OfNode marks the error as a NodeError, nil as nil.
func OfNode(err error) error {
	if err == nil {
		return nil
	}
	return &NodeError{err}
}

// Dev is a device number as the kernel prints it in /sys/block/*/dev and in
// the third field of /proc/*/mountinfo (proc_pid_mountinfo(5)).
type Dev struct {
	Major uint32 `json:"major"`
	Minor uint32 `json:"minor"`
}

// String returns the form "254:16".
func (d Dev) String() string { return fmt.Sprintf("%d:%d", d.Major, d.Minor) }

// ParseDev reads the form "254:16", with or without a trailing newline.
func ParseDev(s string) (Dev, error) {
	var d Dev
	major, minor, found := strings.Cut(strings.TrimSuffix(s, "\n"), ":")
	if !found {
		return d, fmt.Errorf("cannot parse device number %q: no colon", s)
	}
	var err error
	if d.Major, err = parseUint32(major); err != nil {
		return d, fmt.Errorf("cannot parse device number %q: %w", s, err)
	}
	if d.Minor, err = parseUint32(minor); err != nil {
		return d, fmt.Errorf("cannot parse device number %q: %w", s, err)
	}
	return d, nil
}

// ID names one attachment of one disk. Name and Dev are used again by the
// kernel as soon as a disk is gone; Seq never is within one boot.
type ID struct {
	// Name is the kernel's name, the entry in /sys/block, such as "vdb".
	Name string `json:"name"`
	// Dev is the device number.
	Dev Dev `json:"dev"`
	// Seq is the disk sequence number (/sys/block/*/diskseq, Linux 5.15). Of a
	// partition it has the partition's number, too (PartitionSeq), so that what is
	// known by it is known of the partition alone.
	Seq uint64 `json:"seq"`
}

// partitionShift leaves room for as many disk sequence numbers as no machine counts,
// and keeps what programs read as JSON within 53 bits.
const partitionShift = 40

// PartitionSeq is the Seq of a partition, by its disk's sequence number and its own
// number (/sys/block/*/*/partition), which begins at 1.
func PartitionSeq(seq uint64, number uint32) uint64 { return seq | uint64(number)<<partitionShift }

// Partition is the number of a partition, 0 for a whole disk.
func (id ID) Partition() uint32 { return uint32(id.Seq >> partitionShift) }

// DiskSeq is the sequence number of the disk, also for a partition of it.
func (id ID) DiskSeq() uint64 { return id.Seq & (1<<partitionShift - 1) }

// Node is the path of the device node the kernel made for the disk.
func (id ID) Node() string { return "/dev/" + id.Name }

// BySeq is udev's link to the disk by its sequence number
// (60-persistent-storage.rules), or to a partition of it. Unlike by-uuid and by-id it
// can never come to mean another disk.
func (id ID) BySeq() string {
	link := fmt.Sprintf("/dev/disk/by-diskseq/%d", id.DiskSeq())
	if n := id.Partition(); n > 0 {
		link += fmt.Sprintf("-part%d", n)
	}
	return link
}

// Sandboxed returns the error with which root could not open the disk in an instance
// of that template unit, with what it means if it is EPERM or EACCES (open(2)): not
// the disk has refused, but the unit's sandbox. A disk that is not among its
// DeviceAllow= is EPERM (systemd.resource-control(5)), one whose node belongs to
// somebody else EACCES, for root without capabilities.
func (id ID) Sandboxed(template string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w: that is the sandbox of %s@%d.service and no fault of the disk: the unit may open what %s leads to when it starts, if that is root's, and drop-ins may have changed it: ls -lL %[4]s; systemctl cat %[2]s@%[3]d",
		err, template, id.Seq, id.BySeq())
}

// String returns the form that people read: "vdb (disk sequence number 12)".
func (id ID) String() string {
	return fmt.Sprintf("%s (disk sequence number %d)", id.Name, id.DiskSeq())
}
