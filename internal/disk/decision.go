package disk

import (
	"fmt"
	"path"
	"slices"
	"time"
)

// Action is what is to be done with a disk.
type Action string

// The actions.
const (
	// Ignore: the disk is none of our business.
	Ignore Action = "ignore"
	// Hold: the operator's word is wanted.
	Hold Action = "hold"
	// Refuse: the disk may not be used as it is.
	Refuse Action = "refuse"
	// Prove: nothing is known to be on it. Whether it is blank has to be
	// proven before anything else can be decided.
	Prove Action = "prove"
	// Format: blank by proof, and the class creates filesystems.
	Format Action = "format"
	// Mount: an accepted filesystem with a UUID.
	Mount Action = "mount"
	// Link: a disk of a block-mode class, to be given out by a link.
	Link Action = "link"
	// Grow: mounted, and the filesystem may be able to take more of the disk.
	Grow Action = "grow"
	// Keep: all is as it should be.
	Keep Action = "keep"
	// Wait: udev has not finished with the disk; its event will come.
	Wait Action = "wait"
)

// Decision is the answer of the policy for one disk. Package policy puts it into
// words.
type Decision struct {
	Action Action `json:"action"`
	Reason Reason `json:"reason"`
	// Class is the name of the class that selected the disk, empty if none did.
	Class string `json:"class,omitempty"`
	// UUID and Type say which filesystem it is about. Of a disk that is held as it may be
	// blank, UUID is that of the filesystem that is missed, or on another disk.
	UUID string `json:"uuid,omitempty"`
	Type string `json:"type,omitempty"`
}

// Mounted reports whether the disk is mounted where its class mounts it.
func (d Decision) Mounted() bool { return (d.Action == Keep || d.Action == Grow) && !d.GivenOut() }

// GivenOut reports whether the disk is given out as a block volume where its class
// does that.
func (d Decision) GivenOut() bool { return d.Reason == ReasonGivenOut }

// Settings is the whole checked configuration, made by package config.
type Settings struct {
	// Format switches all formatting.
	Format bool `json:"format"`
	// FormatPresent lifts the hold on blank disks that were attached before
	// hotmount was installed.
	FormatPresent bool `json:"format_present"`
	// FormatLimit is how many disks are formatted within FormatPeriod; at more
	// the operator's word is wanted.
	FormatLimit  int           `json:"format_limit"`
	FormatPeriod time.Duration `json:"format_period"`
	// Settle is for how long nobody may have written to a disk before it is
	// formatted.
	Settle time.Duration `json:"settle"`
	// ScanRate is how many bytes a second may be read of a disk to prove it
	// blank, 0 for as many as it gives.
	ScanRate uint64 `json:"scan_rate"`
	// ReadyTimeout is for how long a disk that was there at start may hold back
	// READY.
	ReadyTimeout time.Duration `json:"ready_timeout"`
	// Rescan is the period of the slow look at every disk.
	Rescan time.Duration `json:"rescan"`
	// Workers is how many disks are looked at at once.
	Workers int `json:"workers"`
	// Node is the node's name in the cluster, empty for the host's name.
	Node string `json:"node"`
	// Trim switches all trimming.
	Trim bool `json:"trim"`
	// Exclude are disks that no class has: those that one of them selects.
	Exclude []Selectors `json:"exclude"`
	// Classes in the order of precedence: the first that selects a disk has it.
	Classes []Class `json:"classes"`
}

// Partitions reports whether any class wants partitions.
func (s *Settings) Partitions() bool {
	return slices.ContainsFunc(s.Classes, func(c Class) bool { return c.Partitions })
}

// LoopDevices reports whether any class selects loop devices.
func (s *Settings) LoopDevices() bool {
	return slices.ContainsFunc(s.Classes, func(c Class) bool { return c.LoopDevices() })
}

// LoopDevices reports whether the class selects loop devices, which it does only by their files.
func (c *Class) LoopDevices() bool { return len(c.BackingFile) > 0 }

// The modes of a class: its disks become mounted filesystems, or are given out as
// they are, for volumes of Kubernetes' volumeMode Block.
const (
	ModeFilesystem = "filesystem"
	ModeBlock      = "block"
)

// Class is a kind of disk and what is done with it.
type Class struct {
	Name string `json:"name"`
	// Selectors say which disks the class has; the default is every virtio-blk
	// disk but that of the system.
	Selectors
	// Directory is where the mount points, or the links to disks, are made.
	// Absolute and clean.
	Directory string `json:"directory"`
	// Mode is ModeFilesystem or ModeBlock.
	Mode string `json:"mode"`
	// Create is the type of filesystem made on blank disks: XFS, Ext4, or "none".
	Create string `json:"create"`
	// MkfsOptions are for mkfs.xfs or mkfs.ext4, each as in its command line:
	// "-i size=1024".
	MkfsOptions []string `json:"mkfs_options"`
	// RootOwner ("UID:GID") and RootMode (octal, "0755") are those of the root
	// directory of a filesystem that is made. One that is there is not changed.
	RootOwner string `json:"root_owner"`
	RootMode  string `json:"root_mode"`
	// Accept are the types of filesystems that are mounted.
	Accept []string `json:"accept"`
	// Options are the mount options.
	Options []string `json:"options"`
	// Blank is how blankness is proven: "auto" reads every byte of a disk of up to
	// 64 GiB and samples a larger one, "full" reads every byte, "sampled" samples,
	// "unsigned" asks for the first 4 KiB to be zero.
	Blank string `json:"blank"`
	// MinimumSize in bytes of a disk that is formatted.
	MinimumSize uint64 `json:"minimum_size"`
	// Trim has the free space of filesystems given back to the storage.
	Trim bool `json:"trim"`
	// Grow has filesystems grow with their disks.
	Grow bool `json:"grow"`
	// Provision reports that a provisioner may make volumes of the directory.
	Provision bool `json:"provision"`
	// StorageClass is the name of the Kubernetes StorageClass that the
	// provisioner makes of the directory, empty if nobody has said it.
	StorageClass string `json:"storage_class"`
}

// MountPoint is where a filesystem of this UUID is mounted by the class.
func (c *Class) MountPoint(uuid string) string { return path.Join(c.Directory, uuid) }

// Marker is the one file in a mount point on which nothing is mounted. Marker and
// directory are immutable where the filesystem can that: nothing is written to the
// system disk through them, and what empties the directory fails. For the
// provisioner, when it finds the directory of a released volume, takes it for
// cleaned once it is empty, and the disk would come back with the old data under a
// new volume (DeleteContents in its pkg/util).
const Marker = "not-mounted"

// Unmake returns the commands by which a person removes a mount point on which nothing
// is mounted, once nothing but the marker is in it.
func Unmake(dir string) string {
	return fmt.Sprintf("chattr -i %[1]s %[1]s/%[2]s; rm -f %[1]s/%[2]s; rmdir %[1]s", dir, Marker)
}

// Unmarked returns the first of the names in a mount point that is not the marker's,
// empty if there is none.
func Unmarked(names []string) string {
	for _, name := range names {
		if name != Marker {
			return name
		}
	}
	return ""
}

// LinkTo is where a class in block mode gives the disk out, empty if the disk has
// no name that can be told apart (Facts.LinkName).
func (c *Class) LinkTo(f *Facts) string {
	name := f.LinkName()
	if name == "" {
		return ""
	}
	return path.Join(c.Directory, name)
}

// Links reports whether the path is LinkTo's.
func (c *Class) Links(f *Facts, to string) bool {
	return path.Dir(to) == c.Directory && f.named(to)
}
