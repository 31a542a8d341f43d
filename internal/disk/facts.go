package disk

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Facts is what is known about one disk without reading its content. It comes from sysfs, the udev database, the mount
// table and hotmount's stores. Strings from the disk or from udev are foreign bytes; print them with Visible.
type Facts struct {
	ID

	// Whole is the kernel name of a partition's disk, empty for a whole disk. A partition's serial and slot are its
	// disk's with "-partN" appended. Its other hardware facts are its disk's.
	Whole string `json:"whole,omitempty"`
	// WholeSize is that disk's size in bytes.
	WholeSize uint64 `json:"whole_size,omitempty"`
	// Size is in bytes.
	Size uint64 `json:"size"`
	// Serial is the hardware's serial (/sys/block/*/serial), empty if it has none. Foreign bytes; virtio cuts it at 20
	// bytes.
	Serial string `json:"serial,omitempty"`
	// Model, Vendor and WWN are the hardware's. Foreign bytes.
	Model  string `json:"model,omitempty"`
	Vendor string `json:"vendor,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	// Transport is how the disk is attached: "virtio", "scsi", VirtioSCSI, "nvme", "dm", "md" or "loop". It is empty for
	// any other.
	Transport string `json:"transport,omitempty"`
	// MapperName is the name of a device-mapper device (/sys/block/*/dm/name).
	// Foreign bytes.
	MapperName string `json:"mapper_name,omitempty"`
	// BackingFile is the path of the file behind a loop device (/sys/block/*/loop/backing_file), as seen by the process
	// that set it up. It is empty for all other disks. Foreign bytes.
	BackingFile string `json:"backing_file,omitempty"`
	// BackingDevice reports that a loop device's backing file is a block device, or is not known to be a regular file.
	BackingDevice bool `json:"backing_device,omitempty"`
	// Slot is where the disk is plugged in: udev's ID_PATH, such as "pci-0000:05:00.0", else the last bus address in
	// the sysfs path.
	Slot string `json:"slot,omitempty"`
	// Fabric reports that the way from the disk to this machine leads over a fabric (iSCSI, Fibre Channel, SRP, NVMe over
	// fabrics), or does not show. A cloud's disks look local.
	Fabric bool `json:"fabric,omitempty"`
	// ReadOnly reports that the kernel refuses writes (/sys/block/*/ro).
	ReadOnly bool `json:"read_only,omitempty"`
	// Rotational and Removable are /sys/block/*/queue/rotational and /sys/block/*/removable.
	Rotational bool `json:"rotational,omitempty"`
	Removable  bool `json:"removable,omitempty"`
	// LogicalSector is the logical block size in bytes.
	LogicalSector uint32 `json:"logical_sector"`
	// Discards reports that the disk supports discard (/sys/block/*/queue/discard_max_bytes is not 0).
	Discards bool `json:"discards,omitempty"`
	// Writes counts the write and discard requests that the kernel has completed on this disk since it was attached
	// (/sys/block/*/stat).
	Writes uint64 `json:"writes"`
	// Uncounted reports that the kernel does not keep that count (/sys/block/*/queue/iostats is not 1). An unchanged
	// count then proves nothing.
	Uncounted bool `json:"uncounted,omitempty"`

	// InFlight counts the requests that the disk has not answered yet (/sys/block/*/stat).
	InFlight uint64 `json:"-"`

	// Partitions are the kernel names of the disk's partitions.
	Partitions []string `json:"partitions,omitempty"`
	// Holders are the kernel names of devices built on the disk or on its partitions (device mapper, md, bcache), at
	// any depth.
	Holders []string `json:"holders,omitempty"`
	// Below are the disks beneath a device-mapper or md device, at any depth.
	Below []Underlying `json:"below,omitempty"`
	// Loops are the kernel names of loop devices on the disk, on its partitions or on their holders. For a partition
	// they are those on it or on its whole disk. They claim nothing.
	Loops []string `json:"loops,omitempty"`
	// LoopsUnsure reports that none of these is certain.
	LoopsUnsure bool `json:"loops_unsure,omitempty"`
	// Bound are the places at which the disk's node is bound as a device (mounts.Bound). For a whole disk the nodes of
	// its partitions count too, for a partition its disk's.
	Bound []string `json:"bound,omitempty"`
	// Neighbours reports that other software on the node may open the disk without claiming it: a CSI driver or a
	// virtual machine monitor.
	Neighbours bool `json:"neighbours,omitempty"`
	// System is the mount point that makes this a disk of the running system: "/", "/boot", "/boot/efi", "/usr" or
	// "/var". The mount may be on a partition or holder. System is empty for other disks.
	System string `json:"system,omitempty"`
	// Mounts are the places at which the disk itself is mounted, from PID 1's mount table.
	Mounts []MountPoint `json:"mounts,omitempty"`
	// Fault describes what the kernel did to the mounted filesystem after an error, empty if it did nothing.
	Fault string `json:"fault,omitempty"`
	// Geometry is that of a filesystem mounted in one of hotmount's places, nil if unknown.
	Geometry *Geometry `json:"geometry,omitempty"`
	// Swap reports that the disk or something on it is active swap space.
	Swap bool `json:"swap,omitempty"`
	// Claim is the line of the system's configuration that names the disk, such as "/etc/fstab:4", empty if none does.
	Claim string `json:"claim,omitempty"`
	// Unseen is an unreadable unit file that may name the disk, empty if there is none.
	Unseen string `json:"unseen,omitempty"`

	// Drivers are the drivers on the node that bring or take disks. All disks share the list.
	Drivers []Driver `json:"-"`

	// Udev is the disk's entry in the udev database.
	Udev Udev `json:"udev"`
	// Standing is what hotmount's own stores hold about the disk.
	Standing Standing `json:"standing"`
	// SameSerial are the other attached disks with this disk's serial. SameWWN are further ones with its WWN that no serial
	// tells apart from it. SameUUID are those with a filesystem of this disk's UUID.
	SameSerial []Peer `json:"same_serial,omitempty"`
	SameWWN    []Peer `json:"same_wwn,omitempty"`
	SameUUID   []Peer `json:"same_uuid,omitempty"`
	// Moved is the attached disk that now holds the content of Standing.FormerSlot.
	Moved *Peer `json:"moved,omitempty"`
}

// VirtioSCSI is the transport of SCSI disks that a hypervisor attaches by virtio-scsi. Selectors of
// "scsi" and the names of its block volumes apply to them, too.
const VirtioSCSI = "virtio-scsi"

// Bus returns the transport, with "scsi" for VirtioSCSI.
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
	// Root is the mounted directory within the filesystem: "/" unless it is a bind mount of a part.
	Root string `json:"root"`
	// Path is the mount point, with the table's octal escapes undone.
	Path string `json:"path"`
	// Type is the filesystem type, Source the device as given to mount.
	Type   string `json:"type"`
	Source string `json:"source,omitempty"`
	// Options are the per-mount options, SuperOptions the filesystem's.
	Options      string `json:"options,omitempty"`
	SuperOptions string `json:"super_options,omitempty"`
	// Covered reports that the path leads to another mount, over this one or over a directory above it. The mount table
	// alone does not show it.
	Covered bool `json:"covered,omitempty"`
	// CoveredBy is where the mount is to which the path leads instead, empty if that is of the same filesystem.
	CoveredBy string `json:"covered_by,omitempty"`
}

// Udev is the udev database's entry for a disk (/run/udev/data/b*).
type Udev struct {
	// Initialized reports that udev's rules have run for this attachment: the entry exists and its DISKSEQ is the
	// disk's.
	Initialized bool `json:"initialized"`
	// NotReady reports that SYSTEMD_READY=0 or a rule forbids use of the disk. UDISKS_IGNORE does not count.
	NotReady bool `json:"not_ready,omitempty"`
	// Multipath reports that the disk is a leg of a multipath device.
	Multipath bool `json:"multipath,omitempty"`
	// FSUsage, FSType, FSUUID and FSLabel are ID_FS_USAGE, ID_FS_TYPE,
	// ID_FS_UUID_ENC and ID_FS_LABEL_ENC with udev's \x escapes undone.
	FSUsage string `json:"fs_usage,omitempty"`
	FSType  string `json:"fs_type,omitempty"`
	FSUUID  string `json:"fs_uuid,omitempty"`
	FSLabel string `json:"fs_label,omitempty"`
	// FSSpan is how many bytes of the disk the filesystem takes, 0 if unknown. It is ID_FS_LASTBLOCK times
	// ID_FS_BLOCKSIZE, or hotmount's udev rules compute it from an XFS superblock.
	FSSpan uint64 `json:"fs_span,omitempty"`
	// Ambivalent is ID_FS_AMBIVALENT: signatures of more than one kind.
	Ambivalent string `json:"ambivalent,omitempty"`
	// PartTable is ID_PART_TABLE_TYPE, PartTableUUID ID_PART_TABLE_UUID.
	PartTable     string `json:"part_table,omitempty"`
	PartTableUUID string `json:"part_table_uuid,omitempty"`
	// Links are the links below /dev that udev gave to the disk.
	Links []string `json:"links,omitempty"`
}

// OfDisk returns the whole disk's serial or slot for that of a partition: it removes "-partN".
func (f *Facts) OfDisk(s string) string {
	if f.Whole == "" {
		return s
	}
	i := strings.LastIndex(s, PartitionSuffix)
	return s[:max(i, 0)]
}

// PartitionSuffix precedes the partition number in a name derived from the disk's, as in udev's links.
const PartitionSuffix = "-part"

// Holds reports whether udev or the kernel knows of anything on the disk.
func (f *Facts) Holds() bool {
	u := &f.Udev
	return len(f.Partitions) > 0 || u.FSType != "" || u.FSUsage != "" || u.Ambivalent != "" || u.PartTable != ""
}

// MountedBy reports whether the whole filesystem is mounted at a path that ends in that UUID, as in the directory of a
// current or former class.
func (f *Facts) MountedBy(uuid string) bool {
	return slices.ContainsFunc(f.Mounts, func(m MountPoint) bool { return m.Root == "/" && path.Base(m.Path) == uuid })
}

// Through returns a clause that names the loop device through which the disk is in use, empty if there is none.
func (f *Facts) Through() string {
	switch {
	case len(f.Loops) == 0:
		return ""
	case f.LoopsUnsure:
		return "it seems to be in use through /dev/" + f.Loops[0]
	}
	return "it is in use through /dev/" + f.Loops[0]
}

// Lies returns the type and a printable identifier of what lies on the disk, whose content is c. Both are empty if
// nothing is known. The identifier is empty if there is none or it is not fit to print.
func (f *Facts) Lies(c *Content) (what, id string) {
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
	return cmp.Or(what, "something unknown"), id
}
