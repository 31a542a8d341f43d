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
	// Ignore: hotmount must not use the disk.
	Ignore Action = "ignore"
	// Hold: the disk waits until the operator accepts it, or until the cause of the hold is gone.
	Hold Action = "hold"
	// Refuse: the disk must not be used in its present state.
	Refuse Action = "refuse"
	// Prove: hotmount must prove what is on the disk before any other decision.
	Prove Action = "prove"
	// Format: the disk is proven blank or half-made by this node, and its class creates filesystems.
	Format Action = "format"
	// Mount: the disk holds an accepted filesystem with a UUID.
	Mount Action = "mount"
	// Link: the disk belongs to a class in block mode. hotmount is to give the disk out by a symbolic link.
	Link Action = "link"
	// Grow: the disk is mounted, and its filesystem may be able to grow to the size of the disk.
	Grow Action = "grow"
	// Keep: the disk is already mounted or given out in its class directory, so hotmount does nothing.
	Keep Action = "keep"
	// Wait: udev has not finished with the disk. udev sends another event when it has finished.
	Wait Action = "wait"
)

// Decision is the policy's answer for one disk. Package policy puts the decision into words.
type Decision struct {
	Action Action `json:"action"`
	Reason Reason `json:"reason"`
	// Class is the name of the class to which the disk belongs, or empty if the disk belongs to no class.
	Class string `json:"class,omitempty"`
	// UUID and Type name the filesystem that the decision concerns. If hotmount holds a disk that looks blank, UUID can
	// also name content that is missing, or a filesystem on another disk.
	UUID string `json:"uuid,omitempty"`
	Type string `json:"type,omitempty"`
}

// Mounted reports whether the disk is mounted where its class mounts it.
func (d Decision) Mounted() bool { return (d.Action == Keep || d.Action == Grow) && !d.GivenOut() }

// GivenOut reports whether the disk is given out as a block volume in the directory of its class.
func (d Decision) GivenOut() bool { return d.Reason == ReasonGivenOut }

// Settings is the complete configuration, after package config has checked it.
type Settings struct {
	// Format turns the formatting of all disks on or off.
	Format bool `json:"format"`
	// FormatPresent lifts the hold on blank disks that were attached before hotmount was installed. FormatPresent also
	// lifts the hold on blank disks that were attached when hotmount first started under a new machine-id (on a clone).
	FormatPresent bool `json:"format_present"`
	// FormatLimit is how many disks may be formatted within FormatPeriod. Further disks within FormatPeriod are held.
	FormatLimit  int           `json:"format_limit"`
	FormatPeriod time.Duration `json:"format_period"`
	// Settle is how long a disk must remain without writes before it is formatted.
	Settle time.Duration `json:"settle"`
	// ScanRate is the limit, in bytes per second, for the reads of a proof that a disk is blank. 0 means no limit.
	ScanRate uint64 `json:"scan_rate"`
	// ReadyTimeout is the longest time by which the daemon delays READY=1 (sd_notify(3)) at its start. During this
	// time, the daemon waits for the disks that are attached at its start.
	ReadyTimeout time.Duration `json:"ready_timeout"`
	// Rescan is the interval at which the daemon examines all disks again.
	Rescan time.Duration `json:"rescan"`
	// Workers is the number of disks that the daemon examines at the same time.
	Workers int `json:"workers"`
	// Node is the node's name in the cluster. If Node is empty, the name of the host is used.
	Node string `json:"node"`
	// Trim turns trimming on or off for all classes.
	Trim bool `json:"trim"`
	// CSIIgnore is the list of names of drivers (Driver) that cause no holds, such as removed drivers. CSIIgnore does not
	// change Facts.Neighbours.
	CSIIgnore []string `json:"csi_ignore"`
	// Exclude selects disks that no class may use. A disk is excluded if at least one entry matches the disk.
	Exclude []Selectors `json:"exclude"`
	// Classes is the list of classes in order of precedence. A disk belongs to the first class that selects it, unless
	// the disk is a volume of another class.
	Classes []Class `json:"classes"`
	// Fault is the reason why the configuration cannot be used, or empty if the configuration can be used. While Fault
	// is set, the other fields come from the last valid configuration, except that Class.Grow is false. The daemon then
	// uses only disks that are on record. Fault is safe to print.
	Fault string `json:"fault,omitempty"`
}

// Class returns the class with that name, or nil if no class has the name.
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

// LoopDevices reports whether the class selects loop devices. A class can select loop devices only by their backing
// files.
func (c *Class) LoopDevices() bool { return len(c.BackingFile) > 0 }

// The modes of a class. A class with ModeFilesystem mounts the filesystems of its disks. A class with ModeBlock gives
// its disks out as block devices for Kubernetes volumes with volumeMode Block.
const (
	ModeFilesystem = "filesystem"
	ModeBlock      = "block"
)

// The values of Class.Neighbours.
const (
	NeighboursHold   = "hold"
	NeighboursIgnore = "ignore"
)

// The values of Class.Adopt. A class with AdoptAny may mount any filesystem of an accepted type. A class with
// AdoptKnown mounts only filesystems that this node made or has mounted before, or that the operator has accepted.
const (
	AdoptAny   = "any"
	AdoptKnown = "known"
)

// Class describes a group of disks, and what hotmount does with these disks.
type Class struct {
	Name string `json:"name"`
	// Selectors select the disks of the class. The default is every virtio-blk disk, and every virtio-scsi disk of
	// QEMU, except the disks of the system.
	Selectors
	// Directory is the absolute and clean path of the directory in which hotmount makes mount points or links to disks.
	Directory string `json:"directory"`
	// Mode is ModeFilesystem or ModeBlock.
	Mode string `json:"mode"`
	// Neighbours is NeighboursHold or NeighboursIgnore. With NeighboursHold, a driver (Driver) on the node can be a
	// reason to hold disks of this class.
	Neighbours string `json:"neighbours"`
	// Create is the type of the filesystem that is made on blank disks: XFS, Ext4 or "none".
	Create string `json:"create"`
	// MkfsOptions are the options for mkfs.xfs or mkfs.ext4. Each option is written as on the command line: "-i
	// size=1024".
	MkfsOptions []string `json:"mkfs_options"`
	// RootOwner ("UID:GID") and RootMode (octal, "0755") apply to the root directory of a new filesystem. The root
	// directory of an existing filesystem is not changed.
	RootOwner string `json:"root_owner"`
	RootMode  string `json:"root_mode"`
	// Accept is the list of filesystem types that the class may mount.
	Accept []string `json:"accept"`
	// Adopt is AdoptAny or AdoptKnown, and applies to filesystems whose type is in Accept.
	Adopt string `json:"adopt"`
	// Options are the mount options for the filesystems of the class.
	Options []string `json:"options"`
	// Blank is the method by which hotmount proves that a disk is blank. "auto" reads every byte of a disk of up to 64
	// GiB, and samples a larger disk. "full" reads every byte. "sampled" reads samples of a disk of any size.
	// "unsigned" requires only that the first 4 KiB are zero, and that wipefs and blkid find nothing.
	Blank string `json:"blank"`
	// MinimumSize is the smallest size, in bytes, of a disk that may be formatted.
	MinimumSize uint64 `json:"minimum_size"`
	// Trim enables trimming, which gives the free space of filesystems back to the storage.
	Trim bool `json:"trim"`
	// Grow reports whether hotmount grows a filesystem after its disk has grown.
	Grow bool `json:"grow"`
	// Provision reports whether a provisioner may create PersistentVolumes from the entries of the class directory.
	Provision bool `json:"provision"`
	// StorageClass is the name of the Kubernetes StorageClass of the volumes in the directory, or empty if none is
	// configured.
	StorageClass string `json:"storage_class"`
}

// MountPoint returns the path at which the class mounts the filesystem with this UUID.
func (c *Class) MountPoint(uuid string) string { return path.Join(c.Directory, uuid) }

// Marker is the name of the only file in a mount point on which nothing is mounted. The marker and its directory are
// immutable (chattr(1)) if the filesystem supports the attribute. If the mount point is immutable, a program cannot
// create files there, and cannot remove the marker. Files in an unmounted mount point would be on the system disk. The
// provisioner regards a released volume as cleaned when the volume's directory is empty (DeleteContents in the
// provisioner's pkg/util). If the mount point of an unmounted volume were empty, the provisioner would regard the
// volume as cleaned. The provisioner would then give the disk out again as a new volume, with the old data.
const Marker = "not-mounted"

// RemoveCommands returns the commands with which an operator removes a mount point. Nothing may be mounted on the mount
// point, and the marker must be the only file in it.
func RemoveCommands(dir string) string {
	return fmt.Sprintf("chattr -i %[1]s %[1]s/%[2]s; rm -f %[1]s/%[2]s; rmdir %[1]s", dir, Marker)
}

// Unmarked returns the first of the names that is not Marker, or "" if there is none. The names are the entries of a
// mount point.
func Unmarked(names []string) string {
	for _, name := range names {
		if name != Marker {
			return name
		}
	}
	return ""
}

// LinkTo returns the path at which a class in block mode gives the disk out. LinkTo returns "" if the disk has no
// unique name (Facts.LinkName).
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
