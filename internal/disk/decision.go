package disk

import (
	"fmt"
	"path"
	"slices"
	"time"
)

// Action is what hotmount does with a disk.
type Action string

// The actions.
const (
	// Ignore: the disk is not hotmount's to use.
	Ignore Action = "ignore"
	// Hold: the disk waits until the operator accepts it.
	Hold Action = "hold"
	// Refuse: the disk must not be used in its present state.
	Refuse Action = "refuse"
	// Prove: nothing is known to be on the disk. A proof of blankness has to come before any other decision.
	Prove Action = "prove"
	// Format: the disk is proven blank, and its class creates filesystems.
	Format Action = "format"
	// Mount: the disk holds an accepted filesystem with a UUID.
	Mount Action = "mount"
	// Link: the disk belongs to a block-mode class and is to be given out by a link.
	Link Action = "link"
	// Grow: the disk is mounted, and its filesystem may be able to take more of it.
	Grow Action = "grow"
	// Keep: the disk is as its class requires.
	Keep Action = "keep"
	// Wait: udev has not finished with the disk. Its event will come.
	Wait Action = "wait"
)

// Decision is the policy's answer for one disk. Package policy puts it into words.
type Decision struct {
	Action Action `json:"action"`
	Reason Reason `json:"reason"`
	// Class is the name of the class that selected the disk, empty if none did.
	Class string `json:"class,omitempty"`
	// UUID and Type name the filesystem that the decision concerns. If the disk is held because it may be blank, UUID
	// names the filesystem that is missing, or that lies on another disk.
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
	// Format switches formatting as a whole.
	Format bool `json:"format"`
	// FormatPresent lifts the hold on blank disks that were attached before hotmount was installed, at the first start of
	// a clone, or at the first start under another machine-id.
	FormatPresent bool `json:"format_present"`
	// FormatLimit is how many disks may be formatted within FormatPeriod. Further disks are held.
	FormatLimit  int           `json:"format_limit"`
	FormatPeriod time.Duration `json:"format_period"`
	// Settle is how long a disk must go without writes before it is formatted.
	Settle time.Duration `json:"settle"`
	// ScanRate limits in bytes per second how fast a proof of blankness reads a disk. 0 is no limit.
	ScanRate uint64 `json:"scan_rate"`
	// ReadyTimeout is how long a disk that was attached at start may delay READY=1.
	ReadyTimeout time.Duration `json:"ready_timeout"`
	// Rescan is the period of the full scan of all disks.
	Rescan time.Duration `json:"rescan"`
	// Workers is how many disks are examined at the same time.
	Workers int `json:"workers"`
	// Node is the node's name in the cluster. Empty means the host's name.
	Node string `json:"node"`
	// Trim switches trimming as a whole.
	Trim bool `json:"trim"`
	// CSIIgnore are the names of drivers (Driver) that hold no disk.
	CSIIgnore []string `json:"csi_ignore"`
	// Exclude selects disks that no class may have. One matching entry is enough.
	Exclude []Selectors `json:"exclude"`
	// Classes are in order of precedence: the first class that selects a disk has it.
	Classes []Class `json:"classes"`
	// Fault is why the configuration cannot be used, empty if it can. With a fault these are the last good settings, and
	// only what is on record is used. It is safe to print.
	Fault string `json:"fault,omitempty"`
}

// Class returns the class with that name, nil if there is none.
func (s *Settings) Class(name string) *Class {
	if i := slices.IndexFunc(s.Classes, func(c Class) bool { return c.Name == name }); i >= 0 {
		return &s.Classes[i]
	}
	return nil
}

// Partitions reports whether any class selects partitions.
func (s *Settings) Partitions() bool {
	return slices.ContainsFunc(s.Classes, func(c Class) bool { return c.Partitions })
}

// LoopDevices reports whether any class selects loop devices.
func (s *Settings) LoopDevices() bool {
	return slices.ContainsFunc(s.Classes, func(c Class) bool { return c.LoopDevices() })
}

// LoopDevices reports whether the class selects loop devices. It can select them only by their files.
func (c *Class) LoopDevices() bool { return len(c.BackingFile) > 0 }

// The modes of a class. Its disks become mounted filesystems, or are given out as block devices for Kubernetes volumes
// with volumeMode Block.
const (
	ModeFilesystem = "filesystem"
	ModeBlock      = "block"
)

// The values of Class.Neighbours.
const (
	NeighboursHold   = "hold"
	NeighboursIgnore = "ignore"
)

// What a class mounts of the filesystems whose type it accepts: any, or those that this node made or has mounted, and
// those that the operator has accepted.
const (
	AdoptAny   = "any"
	AdoptKnown = "known"
)

// Class is one kind of disk and what hotmount does with it.
type Class struct {
	Name string `json:"name"`
	// Selectors say which disks the class has. The default is every virtio-blk disk, and every virtio-scsi
	// disk of QEMU's, except the system's.
	Selectors
	// Directory is the absolute and clean path below which mount points or links to disks are made.
	Directory string `json:"directory"`
	// Mode is ModeFilesystem or ModeBlock.
	Mode string `json:"mode"`
	// Neighbours is NeighboursIgnore if the disks of the class are the node's own, whatever drivers (Driver) are on it.
	Neighbours string `json:"neighbours"`
	// Create is the type of the filesystems that are made on blank disks: XFS, Ext4 or "none".
	Create string `json:"create"`
	// MkfsOptions go to mkfs.xfs or mkfs.ext4. Each is written as on the command line: "-i size=1024".
	MkfsOptions []string `json:"mkfs_options"`
	// RootOwner ("UID:GID") and RootMode (octal, "0755") apply to the root directory of a new filesystem. An existing
	// filesystem keeps its own.
	RootOwner string `json:"root_owner"`
	RootMode  string `json:"root_mode"`
	// Accept are the types of existing filesystems that are mounted.
	Accept []string `json:"accept"`
	// Adopt is which of these are mounted: AdoptAny, or AdoptKnown.
	Adopt string `json:"adopt"`
	// Options are the mount options.
	Options []string `json:"options"`
	// Blank is how blankness is proven. "auto" reads every byte of a disk of up to 64 GiB and samples a larger one.
	// "full" reads every byte. "sampled" samples. "unsigned" requires only that the first 4 KiB are zero.
	Blank string `json:"blank"`
	// MinimumSize is the least size in bytes of a disk that is formatted.
	MinimumSize uint64 `json:"minimum_size"`
	// Trim gives the free space of filesystems back to the storage.
	Trim bool `json:"trim"`
	// Grow makes filesystems grow with their disks.
	Grow bool `json:"grow"`
	// Provision reports whether a provisioner may make volumes from the directory.
	Provision bool `json:"provision"`
	// StorageClass is the name of the Kubernetes StorageClass for the directory's volumes, empty if none is configured.
	StorageClass string `json:"storage_class"`
}

// MountPoint returns the path at which the class mounts the filesystem of this UUID.
func (c *Class) MountPoint(uuid string) string { return path.Join(c.Directory, uuid) }

// Marker is the only file in a mount point on which nothing is mounted. Marker and directory are immutable where the
// filesystem supports it. So nothing can write to the system disk through them, and nothing can empty the directory.
// The provisioner takes the directory of a released volume for cleaned once it is empty (DeleteContents in its
// pkg/util). The disk would then come back with the old data under a new volume.
const Marker = "not-mounted"

// Unmake returns the commands with which a person removes a mount point. Nothing may be mounted on it, and only the
// marker may be in it.
func Unmake(dir string) string {
	return fmt.Sprintf("chattr -i %[1]s %[1]s/%[2]s; rm -f %[1]s/%[2]s; rmdir %[1]s", dir, Marker)
}

// Unmarked returns the first name in a mount point that is not the marker's, empty if there is none.
func Unmarked(names []string) string {
	for _, name := range names {
		if name != Marker {
			return name
		}
	}
	return ""
}

// LinkTo returns the path at which a block-mode class gives the disk out. It is empty if the disk has no unique name
// (Facts.LinkName).
func (c *Class) LinkTo(f *Facts) string {
	name := f.LinkName()
	if name == "" {
		return ""
	}
	return path.Join(c.Directory, name)
}

// Links reports whether the class gives the disk out at this path.
func (c *Class) Links(f *Facts, to string) bool {
	return path.Dir(to) == c.Directory && f.named(to)
}
