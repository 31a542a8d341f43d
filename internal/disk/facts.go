package disk

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"
)

// Facts is what is known of one disk without reading its content: from sysfs,
// the udev database, the mount table and hotmount's own stores. Strings that
// come from the disk or from udev are foreign bytes; print them with Visible.
type Facts struct {
	ID

	// Whole is the kernel's name of the disk that this is a partition of, empty for a
	// whole disk. A partition's serial and slot are its disk's, with "-partN" at the
	// end; what else is the disk's alone is said of both.
	Whole string `json:"whole,omitempty"`
	// WholeSize is that disk's size in bytes.
	WholeSize uint64 `json:"whole_size,omitempty"`
	// Size in bytes.
	Size uint64 `json:"size"`
	// Serial as the hardware gives it (/sys/block/*/serial), empty if it has
	// none. Foreign bytes; virtio cuts it at 20 bytes.
	Serial string `json:"serial,omitempty"`
	// Model, Vendor and WWN as the hardware gives them. Foreign bytes.
	Model  string `json:"model,omitempty"`
	Vendor string `json:"vendor,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	// Transport is how the disk is attached: "virtio", "scsi", "nvme", "dm",
	// "md", "loop", or empty where it is none of these.
	Transport string `json:"transport,omitempty"`
	// MapperName is the name of a device-mapper device (/sys/block/*/dm/name).
	// Foreign bytes.
	MapperName string `json:"mapper_name,omitempty"`
	// BackingFile is the path of the file behind a loop device (/sys/block/*/loop/backing_file), as
	// the process that set it up sees it. It is empty for all other disks. Foreign bytes.
	BackingFile string `json:"backing_file,omitempty"`
	// BackingDevice reports that a block device lies behind a loop device, or what is not known to be a
	// regular file.
	BackingDevice bool `json:"backing_device,omitempty"`
	// Slot is where the disk is plugged in: udev's ID_PATH, such as
	// "pci-0000:05:00.0", else the last bus address of the sysfs path.
	Slot string `json:"slot,omitempty"`
	// ReadOnly says that the kernel refuses writes (/sys/block/*/ro).
	ReadOnly bool `json:"read_only,omitempty"`
	// Rotational and Removable as in /sys/block/*/queue/rotational and
	// /sys/block/*/removable.
	Rotational bool `json:"rotational,omitempty"`
	Removable  bool `json:"removable,omitempty"`
	// LogicalSector is the logical block size in bytes.
	LogicalSector uint32 `json:"logical_sector"`
	// Discards says that the disk can take space back
	// (/sys/block/*/queue/discard_max_bytes is not 0).
	Discards bool `json:"discards,omitempty"`
	// Writes counts the write and discard requests the kernel has completed
	// for this disk since it was attached (/sys/block/*/stat).
	Writes uint64 `json:"writes"`
	// Uncounted says that the kernel does not keep that count
	// (/sys/block/*/queue/iostats is not 1): that it is the same says nothing.
	Uncounted bool `json:"uncounted,omitempty"`

	// InFlight counts the requests that the disk has not answered yet
	// (/sys/block/*/stat).
	InFlight uint64 `json:"-"`

	// Partitions are the kernel names of the disk's partitions.
	Partitions []string `json:"partitions,omitempty"`
	// Holders are the kernel names of what is built on the disk or on its
	// partitions (device mapper, md, bcache), at any depth.
	Holders []string `json:"holders,omitempty"`
	// Loops are the kernel names of the loop devices that lie on the disk, on its
	// partitions or on what is built on them; of a partition those on it or on its whole
	// disk. They claim nothing.
	Loops []string `json:"loops,omitempty"`
	// LoopsUnsure says that this is known of none of them.
	LoopsUnsure bool `json:"loops_unsure,omitempty"`
	// System is the mount point that makes this a disk of the running system
	// ("/", "/boot", "/boot/efi", "/usr" or "/var"), also through partitions
	// and holders; empty otherwise.
	System string `json:"system,omitempty"`
	// Mounts are the places where the disk itself is mounted, in PID 1's
	// mount table.
	Mounts []MountPoint `json:"mounts,omitempty"`
	// Fault says, in words, what the kernel has done to the mounted filesystem
	// since something went wrong with it; empty for nothing.
	Fault string `json:"fault,omitempty"`
	// Geometry is that of the filesystem that is mounted in a place of ours, nil if
	// it is not known.
	Geometry *Geometry `json:"geometry,omitempty"`
	// Swap says that the disk or something on it is active swap space.
	Swap bool `json:"swap,omitempty"`
	// Claim is the place in the system's configuration that names the disk,
	// such as "/etc/fstab:4", empty if none does.
	Claim string `json:"claim,omitempty"`
	// Unseen is a unit file that may name the disk, since it can not be read, empty if
	// there is none.
	Unseen string `json:"unseen,omitempty"`

	// Udev is what the udev database says.
	Udev Udev `json:"udev"`
	// Standing is what hotmount's own stores say.
	Standing Standing `json:"standing"`
	// SameSerial are the other attached disks with this disk's serial, SameWWN others with its
	// WWN, SameUUID those with a filesystem of this disk's UUID.
	SameSerial []Peer `json:"same_serial,omitempty"`
	SameWWN    []Peer `json:"same_wwn,omitempty"`
	SameUUID   []Peer `json:"same_uuid,omitempty"`
	// Moved is the attached disk on which what Standing.FormerSlot names is now.
	Moved *Peer `json:"moved,omitempty"`
}

// MountPoint is one line of the mount table.
type MountPoint struct {
	// Dev is the device number of the mounted filesystem.
	Dev Dev `json:"dev"`
	// Root is the directory within the filesystem that is mounted, "/" unless
	// it is a bind mount of a part.
	Root string `json:"root"`
	// Path is the mount point, with the table's octal escapes undone.
	Path string `json:"path"`
	// Type is the filesystem type, Source the device as it was given.
	Type   string `json:"type"`
	Source string `json:"source,omitempty"`
	// Options are the per-mount options, SuperOptions the filesystem's.
	Options      string `json:"options,omitempty"`
	SuperOptions string `json:"super_options,omitempty"`
	// Covered says that the path leads to another mount, which lies over this one or
	// over a directory above it. The mount table alone does not say it.
	Covered bool `json:"covered,omitempty"`
}

// Udev is what the udev database holds of a disk (/run/udev/data/b*).
type Udev struct {
	// Initialized says that udev's rules have run for this attachment of the
	// disk: there is an entry and its DISKSEQ is the disk's.
	Initialized bool `json:"initialized"`
	// NotReady says that SYSTEMD_READY=0 or a rule forbids its use
	// (UDISKS_IGNORE does not).
	NotReady bool `json:"not_ready,omitempty"`
	// Multipath says that the disk is a leg of a multipath device.
	Multipath bool `json:"multipath,omitempty"`
	// FSUsage, FSType, FSUUID and FSLabel are ID_FS_USAGE, ID_FS_TYPE,
	// ID_FS_UUID_ENC and ID_FS_LABEL_ENC with udev's \x escapes undone.
	FSUsage string `json:"fs_usage,omitempty"`
	FSType  string `json:"fs_type,omitempty"`
	FSUUID  string `json:"fs_uuid,omitempty"`
	FSLabel string `json:"fs_label,omitempty"`
	// FSSpan is how many bytes of the disk the filesystem takes, ID_FS_LASTBLOCK times
	// ID_FS_BLOCKSIZE, or of an XFS what our rules make of its superblock; 0 if neither
	// says it.
	FSSpan uint64 `json:"fs_span,omitempty"`
	// Ambivalent is ID_FS_AMBIVALENT: signatures of more than one kind.
	Ambivalent string `json:"ambivalent,omitempty"`
	// PartTable is ID_PART_TABLE_TYPE, PartTableUUID ID_PART_TABLE_UUID.
	PartTable     string `json:"part_table,omitempty"`
	PartTableUUID string `json:"part_table_uuid,omitempty"`
	// Links are the links below /dev that udev gave to the disk.
	Links []string `json:"links,omitempty"`
}

// OfDisk takes from a partition's serial or slot what its disk does not have.
func (f *Facts) OfDisk(s string) string {
	if f.Whole == "" {
		return s
	}
	i := strings.LastIndex(s, PartitionSuffix)
	return s[:max(i, 0)]
}

// NamespacePrefix is put before the serial that an NVMe disk has in common with the other
// namespaces of its controller; the first has none.
func NamespacePrefix(namespace string) string {
	if namespace == "" || namespace == "1" {
		return ""
	}
	return "n" + namespace + "-"
}

// ControllerSerial takes NamespacePrefix from a serial of the disk, if it is of NVMe.
func (f *Facts) ControllerSerial(serial string) string {
	digits, rest, found := strings.Cut(strings.TrimPrefix(serial, "n"), "-")
	if f.Transport != "nvme" || !found || serial != NamespacePrefix(digits)+rest || strings.Trim(digits, "0123456789") != "" {
		return serial
	}
	return rest
}

// PartitionSuffix is before the number of a partition in what is derived from a name
// of its disk, as in udev's links.
const PartitionSuffix = "-part"

// Standing is what hotmount remembers of a disk.
type Standing struct {
	// Formatting says why formatting is switched off for every disk, empty if
	// it is not: a lost store, the hold file, the kernel command line.
	Formatting string `json:"formatting,omitempty"`
	// Present is the disk that was attached before hotmount was installed, may be
	// this one, and was not accepted since; nil if there was none.
	Present *Identity `json:"present,omitempty"`
	// Accepted are the operator's words for this attachment.
	Accepted []Word `json:"accepted,omitempty"`
	// Intent is the record of a format of this disk that began and of which
	// the end is not recorded.
	Intent *Intent `json:"intent,omitempty"`
	// IntentDoubt says that Intent may be another disk's: what is the same is the
	// filesystem's UUID alone, as on a copy, or, where the intent is to overwrite
	// what is there, something that a copy has as well.
	IntentDoubt bool `json:"intent_doubt,omitempty"`
	// IntentBySlot says that Intent is this disk's by nothing but slot and size: it has no
	// serial, is another attachment, and udev does not know the intent's UUID on it. The
	// next disk in the slot looks the same.
	IntentBySlot bool `json:"intent_by_slot,omitempty"`
	// Verdict is the last proof's result for this attachment.
	Verdict *Verdict `json:"verdict,omitempty"`
	// Fit is the result of the last try to have the disk's filesystem fill it.
	Fit *Fit `json:"fit,omitempty"`
	// Before is the filesystem that lay on the disk during this attachment, nil for none.
	Before *Sighting `json:"before,omitempty"`
	// FormerSerial is the last filesystem that lay on a disk with this disk's
	// serial, or what else lay there when an earlier boot ended.
	FormerSerial *Sighting `json:"former_serial,omitempty"`
	// FormerSlot is what lay on a disk of this size in this slot when an earlier boot
	// ended; nil where FormerSerial is the same and has no UUID.
	FormerSlot *Sighting `json:"former_slot,omitempty"`
	// Noted is what is on record to lie on this attachment of the disk beside what
	// is mounted, nil for nothing.
	Noted *Sighting `json:"noted,omitempty"`
	// Braked says that the disk was found while too many were formatted, and
	// that nobody has accepted it since.
	Braked bool `json:"braked,omitempty"`
	// Unmounted says why the disk is kept unmounted until it is attached again,
	// accepted or the machine booted: ReasonReleased or ReasonUnmounted; empty
	// if it is not.
	Unmounted Reason `json:"unmounted,omitempty"`
	// Remount says that the operator has taken back that it is kept unmounted, and that it was
	// not found mounted since.
	Remount bool `json:"remount,omitempty"`
	// WasMounted is the time at which hotmount last found the disk's filesystem
	// newly mounted during this attachment, zero for never.
	WasMounted time.Time `json:"was_mounted,omitzero"`
	// MountedAt is the same moment by CLOCK_MONOTONIC.
	MountedAt time.Duration `json:"mounted_at,omitempty"`
	// OnRecord says that the filesystem on the disk was last mounted from this
	// disk, as far as serial, slot and size tell.
	OnRecord bool `json:"on_record,omitempty"`
	// InPlace says beside that that it is in the slot in which it was then.
	InPlace bool `json:"in_place,omitempty"`
	// Resized says the same where the size was another then.
	Resized bool `json:"resized,omitempty"`
	// LastOn is the record of the filesystem on the disk where it is of another disk,
	// as far as the serials tell, or Beside; nil if it is not.
	LastOn *Sighting `json:"last_on,omitempty"`
	// Beside says that this disk was attached already when that one left, in this boot.
	Beside bool `json:"beside,omitempty"`
	// Twin says that the disk was refused since another had its UUID, and that
	// nobody has accepted it since.
	Twin bool `json:"twin,omitempty"`
	// Volume is the last sighting of the filesystem on the disk, on whatever disk it
	// was then, nil if there was none.
	Volume *Sighting `json:"volume,omitempty"`
	// Given is the record of the disk, the partition's, or one below a device-mapper
	// device having been given out as a block volume, whenever that was, nil if none was.
	Given *Given `json:"given,omitempty"`
	// Link is where it is given out now: a link in a class directory that leads to
	// this attachment of the disk and can lead to no other. Empty for nowhere.
	Link string `json:"link,omitempty"`
	// Formats are the times since the last format of each other disk on this node
	// began, the newest last; a negative one is a clock that was set back.
	Formats []time.Duration `json:"-"`
}

// Word is the operator's word that a disk may be used although it was held: for which
// reason, and which filesystem was named with it (Decision.UUID). It says nothing of what
// the disk is held for next.
type Word struct {
	Reason Reason `json:"reason"`
	UUID   string `json:"uuid,omitempty"`
}

// Lifted says whether the operator has given that very word.
func (s *Standing) Lifted(r Reason, uuid string) bool {
	return slices.Contains(s.Accepted, Word{r, uuid})
}

// Identity is what tells a disk from others over reboots, as far as it can be
// told: a disk without a serial is known by its slot and its size only.
type Identity struct {
	// Boot is the kernel's boot id (/proc/sys/kernel/random/boot_id). Within
	// it Seq alone decides.
	Boot   string `json:"boot"`
	Seq    uint64 `json:"seq"`
	Serial string `json:"serial,omitempty"`
	Slot   string `json:"slot,omitempty"`
	Size   uint64 `json:"size"`
}

// Identity gives the identity of the disk as attached in the boot of that id.
func (f *Facts) Identity(boot string) Identity {
	return Identity{Boot: boot, Seq: f.Seq, Serial: f.Serial, Slot: f.Slot, Size: f.Size}
}

// Is says whether both may be the same disk. Within one boot the sequence
// number decides. Over a reboot the serial does where there is one, and the
// slot where there is none; the size must be the same in both cases.
func (i Identity) Is(other Identity) bool {
	if i.Boot == other.Boot {
		return i.Seq == other.Seq
	}
	return i.Like(other)
}

// OtherSerial says whether the serials are those of two disks. What has none can be
// any, and one that virtio has cut is the whole one on another bus.
func OtherSerial(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return a != "" && a != b && (len(a) != serialLength || !strings.HasPrefix(b, a))
}

// SameSerial says whether the serials may be those of one disk, on whatever bus.
func SameSerial(a, b string) bool { return a != "" && b != "" && !OtherSerial(a, b) }

// Like says whether both may be the same disk, attached again perhaps, also
// within one boot.
func (i Identity) Like(other Identity) bool {
	if i.Serial != other.Serial || i.Size != other.Size {
		return false
	}
	return i.Serial != "" || i.Slot == other.Slot
}

// ResizedTo says whether the other may be the same disk of another size, attached again
// perhaps: by its serial, and without one by its slot if it has grown.
func (i Identity) ResizedTo(other Identity) bool {
	if i.Serial != other.Serial || i.Size == other.Size {
		return false
	}
	return i.Serial != "" || i.Slot != "" && i.Slot == other.Slot && i.Size < other.Size
}

// MayBe says whether it may be the disk that was there as other in an earlier boot,
// however it was changed meanwhile: its size, or by a serial that it got, does not
// make it another disk. Where both have a serial that decides, else the slot does.
// Within one boot the sequence number decides.
func (i Identity) MayBe(other Identity) bool {
	switch {
	case i.Boot == other.Boot:
		return i.Seq == other.Seq
	case i.Serial != "" && other.Serial != "":
		return i.Serial == other.Serial
	case i.Slot == "":
		return i.Like(other)
	}
	return i.Slot == other.Slot
}

// Given is what is remembered for ever of a disk that was given out as a block
// volume: what is on it belongs to whoever had the volume, whatever it looks like.
type Given struct {
	Serial string `json:"serial"`
	WWN    string `json:"wwn,omitempty"`
	// Size in bytes, Link and Class as of the last time, First the first. Class is empty
	// once the operator has accepted that another class has the disk.
	Size  uint64    `json:"size"`
	Link  string    `json:"link"`
	Class string    `json:"class"`
	First time.Time `json:"first"`
	// Slot, Seq and Boot as of the last time, as in Facts and Identity. Twice says that
	// another disk with its serial was there since it was first given out: then nothing
	// tells them apart but the attachment itself, for a slot is used again. ThisBoot says
	// that Boot is this one.
	Slot     string `json:"slot,omitempty"`
	Seq      uint64 `json:"seq,omitempty"`
	Boot     string `json:"boot,omitempty"`
	Twice    bool   `json:"twice,omitempty"`
	ThisBoot bool   `json:"this_boot,omitempty"`
}

// Is says whether the record may be of the disk, also on another bus, where virtio does
// not cut its serial. Its size does not count: it may have grown since.
func (g *Given) Is(f *Facts) bool {
	return SameSerial(f.Serial, g.Serial) || f.WWN != "" && f.WWN == g.WWN
}

// serialLength is the most that virtio-blk hands on of a serial (VIRTIO_BLK_ID_BYTES
// in linux/virtio_blk.h): two longer ones can be one.
const serialLength = 20

// SerialCut says that the serial may be the beginning of a longer one.
func (f *Facts) SerialCut() bool { return f.Transport == "virtio" && len(f.Serial) >= serialLength }

// Same says that f is the disk that was given out, and not just one that it can not
// be told from by its serial alone. What is known on a disk whose serial may have been
// cut is perhaps not the volume's.
func (g *Given) Same(f *Facts) bool {
	switch {
	case f.Serial != g.Serial || f.WWN != g.WWN && f.WWN != "" && g.WWN != "":
		return false
	case g.Twice && !(g.ThisBoot && g.Seq == f.Seq):
		return false
	case f.SerialCut() && (f.Size != g.Size || f.Holds()):
		return false
	}
	return f.Size >= g.Size
}

// LinkDirectory holds the links to disks that class directories' links lead to. It
// is gone at reboot: what is left of a link then leads nowhere.
const LinkDirectory = "/dev/hotmount"

// LinkName is the name of the link by which the disk is given out: its transport
// and its serial, of which other bytes than letters, digits and "-._:=+@," are in
// hexadecimal after a "%". Disks of other serials have other names. It is empty
// for a disk without a serial, and one of which the name would be too long
// (NAME_MAX, limits.h; udev's links and lock files add to it).
func (f *Facts) LinkName() string {
	var b [longestLink]byte
	return string(f.linkName(b[:0]))
}

// longestLink is how many bytes the name of a link has at most.
const longestLink = 200

// linkName is LinkName in the memory of b, which may be too small for what is too long. So it allocates nothing
// for whoever asks for a disk's name each time that it is looked at.
func (f *Facts) linkName(b []byte) []byte {
	if f.Serial == "" {
		return nil
	}
	b = append(append(b, cmp.Or(f.Transport, "disk")...), '-')
	for i := 0; i < len(f.Serial) && len(b) <= longestLink; i++ {
		const digits = "0123456789abcdef"
		switch c := f.Serial[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._:=+@,", c) >= 0:
			b = append(b, c)
		default:
			b = append(b, '%', digits[c>>4], digits[c&0xf])
		}
	}
	if len(b) > longestLink {
		return nil
	}
	return b
}

// Nameless says that the disk has no LinkName.
func (f *Facts) Nameless() bool {
	var b [longestLink]byte
	return len(f.linkName(b[:0])) == 0
}

// named says whether the path ends in the disk's LinkName.
func (f *Facts) named(link string) bool {
	var b [longestLink]byte
	name := f.linkName(b[:0])
	return len(name) > 0 && string(name) == path.Base(link)
}

// Intent is written, synced, before the first write to a disk and removed after
// the finished filesystem was read back.
type Intent struct {
	Identity Identity `json:"identity"`
	Class    string   `json:"class"`
	// UUID is the filesystem's UUID, chosen before mkfs runs.
	UUID string `json:"uuid"`
	// Over says that the disk was not blank: the operator gave the word to
	// overwrite what was on it.
	Over bool `json:"over,omitempty"`
	// Was is the UUID of the filesystem that is overwritten, empty if none was known.
	Was string `json:"was,omitempty"`
	// Left says that another disk was formatted in the slot since, or accepted as it is:
	// this one, which has no serial, is known by the UUID alone.
	Left bool `json:"left,omitempty"`
	// Doubt says who else was at work on the disk after mkfs had ended, empty for nobody.
	Doubt string `json:"doubt,omitempty"`
	// Ext4 is what mkfs.ext4 is called with, nil for an XFS.
	Ext4 *MkfsExt4 `json:"ext4,omitempty"`
}

// Type is the filesystem's.
func (i *Intent) Type() string {
	if i.Ext4 != nil {
		return Ext4
	}
	return XFS
}

// MkfsExt4 is what mkfs.ext4 is called with. With the same it writes the same, by which
// an ext4 that it did not finish is known.
type MkfsExt4 struct {
	// Options and Owner are the class's MkfsOptions and RootOwner.
	Options []string `json:"options,omitempty"`
	Owner   string   `json:"owner,omitempty"`
	// Time is that of the filesystem's creation, in seconds since 1970.
	Time int64 `json:"time"`
	// Mode is the class's RootMode, which is set once mkfs.ext4 has finished: it can
	// not do it. Empty is as mkfs.ext4 leaves it, 0755.
	Mode string `json:"mode,omitempty"`
}

// Verdict is the result of a proof: what was found on the disk and what was
// then done. It holds as long as nobody writes to the disk.
type Verdict struct {
	Seq     uint64  `json:"seq"`
	Size    uint64  `json:"size"`
	Writes  uint64  `json:"writes"`
	Content Content `json:"content"`
	// Failure says why the proof or mkfs could not be brought to an end, empty
	// if it was.
	Failure string `json:"failure,omitempty"`
	// Retry says that the same may go better later.
	Retry bool `json:"retry,omitempty"`
	// Shared says that it failed because another machine writes to the disk.
	Shared bool `json:"shared,omitempty"`
}

// Valid says whether the verdict still speaks of the disk as it is now.
func (v *Verdict) Valid(f *Facts) bool {
	return v != nil && v.Seq == f.Seq && v.Size == f.Size && v.Writes == f.Writes && !f.Uncounted
}

// Peer is another attached disk, as far as one that shares a serial or a UUID
// with it needs to know it.
type Peer struct {
	ID
	Slot string `json:"slot,omitempty"`
	// Type and UUID are of what is on it, empty if nobody knows; UUID is a filesystem's.
	Type string `json:"type,omitempty"`
	UUID string `json:"uuid,omitempty"`
	// Mounted is the first place where it is mounted.
	Mounted string `json:"mounted,omitempty"`
	// InUse is what is known to use it or anything on it, empty for nothing: a mount point,
	// what is built on it, or "swap".
	InUse string `json:"in_use,omitempty"`
	// Known says that udev or the kernel knows anything on it.
	Known bool `json:"known,omitempty"`
	// Serial, WWN, OnRecord, InPlace and Resized as in Facts and Standing.
	Serial   string `json:"serial,omitempty"`
	WWN      string `json:"wwn,omitempty"`
	OnRecord bool   `json:"on_record,omitempty"`
	InPlace  bool   `json:"in_place,omitempty"`
	Resized  bool   `json:"resized,omitempty"`
}

// MayBe says that neither serial nor WWN tells the two to be different disks.
func (p *Peer) MayBe(f *Facts) bool {
	return !OtherSerial(p.Serial, f.Serial) && (p.WWN == "" || f.WWN == "" || p.WWN == f.WWN)
}

// Holds says whether udev or the kernel knows anything on the disk.
func (f *Facts) Holds() bool {
	u := &f.Udev
	return len(f.Partitions) > 0 || u.FSType != "" || u.FSUsage != "" || u.Ambivalent != "" || u.PartTable != ""
}

// MountedBy says whether the filesystem is mounted as a whole at a path that ends with that
// UUID, as in the directory of a class, also of a former one.
func (f *Facts) MountedBy(uuid string) bool {
	return slices.ContainsFunc(f.Mounts, func(m MountPoint) bool { return m.Root == "/" && path.Base(m.Path) == uuid })
}

// inUse is Peer.InUse.
func (f *Facts) inUse() string {
	switch {
	case f.System != "":
		return f.System
	case len(f.Mounts) > 0:
		return f.Mounts[0].Path
	case len(f.Holders) > 0:
		return f.Holders[0]
	case len(f.Loops) > 0:
		return f.Loops[0]
	case f.Swap:
		return "swap"
	}
	return ""
}

// OwnLink is Standing.Link if it is of the disk itself, and not of one that it is part of.
func (f *Facts) OwnLink() string {
	if f.Whole == "" && f.named(f.Standing.Link) {
		return f.Standing.Link
	}
	return ""
}

// Through says in words that the disk is in use through a loop device, empty if it is not.
func (f *Facts) Through() string {
	switch {
	case len(f.Loops) == 0:
		return ""
	case f.LoopsUnsure:
		return "it seems to be in use through /dev/" + f.Loops[0]
	}
	return "it is in use through /dev/" + f.Loops[0]
}

// Lies names what is known to lie on the disk, c by its content: the type, and an
// identifier where there is one that is fit to be printed. Both are empty where nothing is
// known.
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
	if len(id) > 64 || strings.ContainsFunc(id, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-')
	}) {
		id = ""
	}
	return cmp.Or(what, "something unknown"), id
}

// FindPeers fills in the disks of all that share f's serial, WWN or UUID.
func (f *Facts) FindPeers(all []*Facts) {
	f.SameSerial, f.SameWWN, f.SameUUID, f.Moved = nil, nil, nil, nil
	mine, _ := f.known()
	own, former := mine.UUID, ""
	if f.Standing.FormerSlot != nil {
		former = f.Standing.FormerSlot.UUID
	}
	for _, o := range all {
		if o.Seq == f.Seq && o.Name == f.Name {
			continue
		}
		c, _ := o.known()
		fstype, uuid := c.Type, c.UUID
		if v := o.Standing.Volume; v != nil && uuid == "" && len(o.Mounts) > 0 {
			fstype, uuid = v.Type, v.UUID // which udev does not know, or not yet
		}
		alike := (f.Whole == "") == (o.Whole == "")
		serial := alike && SameSerial(f.Serial, o.Serial)
		world := alike && !serial && f.WWN != "" && f.WWN == o.WWN
		same := own != "" && uuid == own
		moved := former != "" && uuid == former
		if former != "" && !moved {
			_, lies := o.Lies(&c)
			moved = lies == former
		}
		if !serial && !world && !same && !moved {
			continue
		}
		p := Peer{ID: o.ID, Slot: o.Slot, Type: fstype, UUID: uuid, Serial: o.Serial, WWN: o.WWN, OnRecord: o.Standing.OnRecord, InPlace: o.Standing.InPlace, Resized: o.Standing.Resized, Known: o.Holds(), InUse: o.inUse()}
		if len(o.Mounts) > 0 {
			p.Mounted = o.Mounts[0].Path
		}
		if serial {
			f.SameSerial = append(f.SameSerial, p)
		}
		if world {
			f.SameWWN = append(f.SameWWN, p)
		}
		if same {
			f.SameUUID = append(f.SameUUID, p)
		}
		if moved {
			f.Moved = &p
		}
	}
	// The first is named to the operator, and stays the same.
	slices.SortFunc(f.SameSerial, func(a, b Peer) int { return cmp.Compare(a.Seq, b.Seq) })
}
