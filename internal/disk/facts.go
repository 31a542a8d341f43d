package disk

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Facts contains everything that hotmount knows about one disk without reading the disk's content. The facts come from
// sysfs, the udev database, the mount table, the system's configuration and hotmount's stores. Strings from the disk or
// from udev can contain arbitrary bytes, such as control characters, because anybody may have chosen them. Print such
// strings only with Visible.
type Facts struct {
	ID

	// Whole is the kernel name of the disk that a partition is on, or empty for a whole disk. The serial and the slot
	// of a partition are the serial and the slot of its disk, each with "-partN" appended. Apart from serial, slot and
	// size, the hardware facts of a partition are the facts of its disk.
	Whole string `json:"whole,omitempty"`
	// WholeSize is the size in bytes of the disk that Whole names.
	WholeSize uint64 `json:"whole_size,omitempty"`
	// Size is the size of the disk in bytes.
	Size uint64 `json:"size"`
	// Serial is the serial number of the hardware (for NVMe, after NamespacePrefix), or the dm/uuid of a device-mapper
	// device. Serial is empty if sysfs shows neither. Serial can contain arbitrary characters. virtio truncates a
	// serial after 20 bytes.
	Serial string `json:"serial,omitempty"`
	// Model, Vendor and WWN are values that the hardware reports. Each of them can contain arbitrary characters.
	Model  string `json:"model,omitempty"`
	Vendor string `json:"vendor,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	// Transport is how the disk is attached: "virtio", "scsi", VirtioSCSI, "nvme", "dm", "md" or "loop", or empty for
	// any other transport.
	Transport string `json:"transport,omitempty"`
	// MapperName is the name of a device-mapper device (/sys/block/*/dm/name). The name can contain arbitrary bytes.
	MapperName string `json:"mapper_name,omitempty"`
	// BackingFile is the path of the file behind a loop device (/sys/block/*/loop/backing_file), as the process that
	// set up the loop device saw the path. BackingFile is empty for all other disks. BackingFile can contain arbitrary
	// bytes.
	BackingFile string `json:"backing_file,omitempty"`
	// BackingDevice reports that the backing file of a loop device is a block device. BackingDevice is also true if
	// hotmount cannot tell whether the backing file is a regular file.
	BackingDevice bool `json:"backing_device,omitempty"`
	// Slot is where the disk is plugged in: udev's ID_PATH, such as "pci-0000:05:00.0". If udev gives no ID_PATH, Slot
	// is the last bus address in the sysfs path.
	Slot string `json:"slot,omitempty"`
	// Fabric reports that the disk is connected over a fabric (iSCSI, Fibre Channel, SRP, NVMe over fabrics). Fabric is
	// also true if sysfs does not show how an NVMe disk or a virtual device, such as md or nbd, is connected. For the
	// network disks of a cloud, Fabric is false, because these disks look like local disks.
	Fabric bool `json:"fabric,omitempty"`
	// ReadOnly reports that the kernel refuses writes (/sys/block/*/ro).
	ReadOnly bool `json:"read_only,omitempty"`
	// Rotational and Removable are the values of /sys/block/*/queue/rotational and /sys/block/*/removable.
	Rotational bool `json:"rotational,omitempty"`
	Removable  bool `json:"removable,omitempty"`
	// LogicalSector is the size of a logical sector in bytes.
	LogicalSector uint32 `json:"logical_sector"`
	// Discards reports that the disk supports discard (/sys/block/*/queue/discard_max_bytes is not 0).
	Discards bool `json:"discards,omitempty"`
	// Writes is the number of write and discard requests that the kernel has completed since the disk was attached
	// (/sys/block/*/stat).
	Writes uint64 `json:"writes"`
	// Uncounted reports that the kernel does not count the disk's reads and writes (/sys/block/*/queue/iostats is not
	// 1). If Uncounted is set, an unchanged value of Writes proves nothing.
	Uncounted bool `json:"uncounted,omitempty"`

	// InFlight is the number of requests that the disk has not answered yet (/sys/block/*/stat).
	InFlight uint64 `json:"-"`

	// Partitions are the kernel names of the disk's partitions.
	Partitions []string `json:"partitions,omitempty"`
	// Holders are the kernel names of devices built on the disk or on its partitions (device mapper, md, bcache), at
	// any depth. A mounted partition of the disk is also a holder, and so is the mounted whole disk of a partition.
	Holders []string `json:"holders,omitempty"`
	// Below lists the disks beneath a device-mapper or md device, at any depth, except detached disks without which the
	// device still works.
	Below []Underlying `json:"below,omitempty"`
	// Loops are the kernel names of the loop devices on the disk, on its partitions, or on devices built on the disk.
	// For a partition, Loops are the loop devices on the partition or on its whole disk. For a loop device, Loops also
	// contains the other loop devices with the same backing file. A loop device does not open the disk exclusively, so
	// an open with O_EXCL does not detect the loop device.
	Loops []string `json:"loops,omitempty"`
	// LoopsUnsure reports that hotmount cannot tell whether the loop devices in Loops are on this disk or on another
	// disk.
	LoopsUnsure bool `json:"loops_unsure,omitempty"`
	// Bound lists the places at which the disk's device node is bind-mounted (mounts.Bound). For a whole disk, Bound
	// includes the nodes of its partitions. For a partition, Bound includes the device node of the whole disk.
	Bound []string `json:"bound,omitempty"`
	// Neighbours reports that a storage driver or a virtual machine monitor on the node may open the disk without
	// O_EXCL.
	Neighbours bool `json:"neighbours,omitempty"`
	// Unlisted reports that the kernel has mounted an XFS or ext4 filesystem of a disk with this name at an unknown
	// place. PID 1's mount table does not list the mount. The mount is in another mount namespace, or is not complete
	// yet.
	Unlisted bool `json:"unlisted,omitempty"`
	// System is the mount point that makes this a disk of the running system: "/", "/boot", "/boot/efi", "/usr" or
	// "/var". The filesystem that is mounted at System may be on a partition or a holder of the disk. System is empty
	// if the disk does not belong to the running system.
	System string `json:"system,omitempty"`
	// Mounts are the places at which the disk itself is mounted, from PID 1's mount table.
	Mounts []MountPoint `json:"mounts,omitempty"`
	// Fault describes what the kernel did to the mounted filesystem after an error, or is empty if the kernel did
	// nothing.
	Fault string `json:"fault,omitempty"`
	// Geometry is the geometry of the filesystem that is mounted in a class directory, or nil if unknown.
	Geometry *Geometry `json:"geometry,omitempty"`
	// Swap reports that the disk or something on it is active swap space.
	Swap bool `json:"swap,omitempty"`
	// Claim is where the system's configuration names the disk, such as "/etc/fstab:4". For a whole disk, the
	// configuration may instead name a partition of the disk. For a partition, it may instead name the whole disk or
	// another partition of the disk. Claim can also be the path of a foreign link in a class directory. Claim is empty if
	// nothing names the disk.
	Claim string `json:"claim,omitempty"`
	// Unseen is the path of an unreadable file or class directory that may name the disk, or empty if there is none.
	Unseen string `json:"unseen,omitempty"`

	// Drivers are the storage drivers on the node that attach disks to the node or take disks for themselves. All disks
	// of the node share the list of drivers.
	Drivers []Driver `json:"-"`

	// Udev is the disk's entry in the udev database.
	Udev Udev `json:"udev"`
	// Standing is what hotmount's records contain about the disk.
	Standing Standing `json:"standing"`
	// SameSerial are the other attached disks with this disk's serial. SameWWN are the other attached disks that have
	// this disk's WWN, if this disk or the other disk has no serial. SameWWN also contains the multipath device for the
	// WWN. SameUUID are the other attached disks that have a filesystem with the UUID of this disk's filesystem.
	SameSerial []Peer `json:"same_serial,omitempty"`
	SameWWN    []Peer `json:"same_wwn,omitempty"`
	SameUUID   []Peer `json:"same_uuid,omitempty"`
	// Moved is the attached disk on which the content of Standing.FormerSlot is now. If several disks have this content,
	// Moved is the disk that was attached first.
	Moved *Peer `json:"moved,omitempty"`
}

// VirtioSCSI is the transport of SCSI disks that a hypervisor attaches by virtio-scsi. The selector "scsi" also matches
// these disks, and the names of their block volumes also begin with "scsi".
const VirtioSCSI = "virtio-scsi"

// Bus returns the transport of the disk, with "scsi" in place of VirtioSCSI.
func (f *Facts) Bus() string {
	if f.Transport == VirtioSCSI {
		return "scsi"
	}
	return f.Transport
}

// MountPoint is one line of the mount table.
type MountPoint struct {
	// Dev is the device number of the mounted filesystem.
	Dev Dev `json:"dev"`
	// Root is the mounted directory within the filesystem: "/", unless a part of the filesystem is bind-mounted.
	Root string `json:"root"`
	// Path is the mount point, without the octal escapes of the mount table.
	Path string `json:"path"`
	// Type is the filesystem type. Source is the device as named in the call of mount(2).
	Type   string `json:"type"`
	Source string `json:"source,omitempty"`
	// Options are the options of this mount. SuperOptions are the options of the filesystem.
	Options      string `json:"options,omitempty"`
	SuperOptions string `json:"super_options,omitempty"`
	// Covered reports that the path leads to another mount, which covers this mount. hotmount checks this only for
	// mounts that have the form of its own. The covering mount is at the same path or at one of its parent directories.
	// The mount table alone does not show whether a mount is covered.
	Covered bool `json:"covered,omitempty"`
	// CoveredBy is the path of the covering mount. CoveredBy is empty if the covering mount shows the same directory of
	// the same filesystem.
	CoveredBy string `json:"covered_by,omitempty"`
}

// Udev is the udev database's entry for a disk (/run/udev/data/b*).
type Udev struct {
	// Initialized reports that udev's rules have run for this attachment. Initialized is true if the entry has a time
	// of initialisation, the disk's link by sequence number (ID.BySeq) and no other DISKSEQ.
	Initialized bool `json:"initialized"`
	// NotReady reports that a udev rule has set SYSTEMD_READY=0. UDISKS_IGNORE does not change NotReady.
	NotReady bool `json:"not_ready,omitempty"`
	// Multipath reports that the disk is a path of a multipath device.
	Multipath bool `json:"multipath,omitempty"`
	// FSUsage, FSType, FSUUID and FSLabel are ID_FS_USAGE, ID_FS_TYPE, ID_FS_UUID_ENC and ID_FS_LABEL_ENC, without
	// udev's \x escapes.
	FSUsage string `json:"fs_usage,omitempty"`
	FSType  string `json:"fs_type,omitempty"`
	FSUUID  string `json:"fs_uuid,omitempty"`
	FSLabel string `json:"fs_label,omitempty"`
	// FSSpan is the number of bytes that the filesystem occupies on the disk, or 0 if unknown. FSSpan is
	// ID_FS_LASTBLOCK times ID_FS_BLOCKSIZE, or the value that hotmount's udev rules compute from an XFS superblock.
	FSSpan uint64 `json:"fs_span,omitempty"`
	// Ambivalent is the value of ID_FS_AMBIVALENT. udev sets this property if the disk has signatures of more than one
	// kind.
	Ambivalent string `json:"ambivalent,omitempty"`
	// PartTable is the value of ID_PART_TABLE_TYPE. PartTableUUID is the value of ID_PART_TABLE_UUID.
	PartTable     string `json:"part_table,omitempty"`
	PartTableUUID string `json:"part_table_uuid,omitempty"`
	// Links are the symbolic links below /dev that udev created for the disk.
	Links []string `json:"links,omitempty"`
}

// OfDisk returns the serial or the slot of the whole disk. For a partition, OfDisk removes "-partN" from s, the
// partition's serial or slot.
func (f *Facts) OfDisk(s string) string {
	if f.Whole == "" {
		return s
	}
	i := strings.LastIndex(s, PartitionSuffix)
	return s[:max(i, 0)]
}

// PartitionSuffix comes before the partition number in the serial, the slot and the result of WorldWide of a partition.
// PartitionSuffix is also part of the names of udev's links.
const PartitionSuffix = "-part"

// Holds reports whether udev or the kernel has found content on the disk.
func (f *Facts) Holds() bool {
	u := &f.Udev
	return len(f.Partitions) > 0 || u.FSType != "" || u.FSUsage != "" || u.Ambivalent != "" || u.PartTable != ""
}

// MountedBy reports whether the root directory of the disk's filesystem is mounted at a path that ends in the UUID.
// MountedBy takes such a path for a mount point of a current or a former class.
func (f *Facts) MountedBy(uuid string) bool {
	return slices.ContainsFunc(f.Mounts, func(m MountPoint) bool { return m.Root == "/" && path.Base(m.Path) == uuid })
}

// ThroughLoop returns a clause that names the loop device through which the disk is in use, or "" if the disk has no
// loop device.
func (f *Facts) ThroughLoop() string {
	switch {
	case len(f.Loops) == 0:
		return ""
	case f.LoopsUnsure:
		return "the disk seems to be in use through /dev/" + f.Loops[0]
	}
	return "the disk is in use through /dev/" + f.Loops[0]
}

// TypeAndID returns the type and a printable identifier of what is on the disk. c is the content of the disk. Both
// results are empty if the disk is blank, or if nothing is known of its content. The identifier is also empty if the
// content has no printable identifier.
func (f *Facts) TypeAndID(c *Content) (what, id string) {
	switch c.Kind {
	case Filesystem:
		return c.Type, c.UUID
	case Unread, Blank:
		return "", ""
	}
	what, id = c.Type, cmp.Or(c.UUID, f.Udev.FSUUID)
	if f.Udev.PartTable != "" {
		what, id = f.Udev.PartTable, f.Udev.PartTableUUID
	}
	if len(id) > 64 || strings.Trim(id, Alphanumeric+"-") != "" {
		id = ""
	}
	return cmp.Or(what, "unknown content"), id
}
