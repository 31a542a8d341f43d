package disk

import (
	"slices"
	"time"
)

// HoldFile is the path of a file that turns all formatting off while the file exists. HeldBack, OffAtBoot and StateFull
// are values of Standing.Formatting. HeldBack: the operator has created the hold file. OffAtBoot: the kernel command
// line turns formatting off. StateFull: the filesystem that contains /var/lib/hotmount is full, so no record can be
// written now. A value that begins with StateGap means that a write has failed, so a record may be missing.
const (
	HoldFile  = "/etc/hotmount/hold"
	HeldBack  = HoldFile + " exists"
	OffAtBoot = "hotmount.format=no is on the kernel command line"
	StateFull = "the filesystem of /var/lib/hotmount is full"
	StateGap  = "the state directory could not be written"
)

// Helps is the text between the two parts of Standing.Formatting: the reason that forbids formatting, and a remedy for
// the operator. Without a remedy, Standing.Formatting does not contain Helps. If the text of an error becomes
// Standing.Formatting, that text also contains Helps before the remedy.
const Helps = "; what helps: "

// Standing is what hotmount's records contain about a disk.
type Standing struct {
	// Formatting is the reason why this node formats no disk, such as a lost store, the hold file or the kernel command
	// line. Formatting is empty if there is no such reason.
	Formatting string `json:"formatting,omitempty"`
	// Present is the recorded identity of a disk that was attached before hotmount was installed. The recorded disk may
	// be this disk. Present is nil if no recorded disk can be this disk. hotmount removes the record when the operator
	// accepts the disk for the reason ReasonPresent.
	Present *Identity `json:"present,omitempty"`
	// Arrived is the recorded identity of a disk that was attached when hotmount first started with a new machine-id.
	// The recorded disk may be this disk. Arrived is nil if no recorded disk can be this disk. hotmount removes the
	// record when the operator accepts the disk for the reason ReasonNewMachine.
	Arrived *Identity `json:"arrived,omitempty"`
	// Accepted lists the holds that the operator has accepted for this attachment.
	Accepted []Word `json:"accepted,omitempty"`
	// Intent is the record of an unfinished format of this disk, or nil if there is none. An unfinished format has
	// begun, and its end is not recorded.
	Intent *Intent `json:"intent,omitempty"`
	// IntentDoubt reports that Intent may belong to another disk. In this case, only the UUID of the disk's filesystem
	// matches Intent, and a copy of the filesystem has the same UUID. If Intent announces an overwrite (Intent.Over),
	// IntentDoubt is also true in two other cases. The first case is a new attachment of the disk in the same boot. The
	// second case is a reboot after which the size differs, or neither serial nor WWN matches.
	IntentDoubt bool `json:"intent_doubt,omitempty"`
	// IntentBySlot reports that only slot and size show that Intent belongs to this disk. Serial and WWN do not
	// identify the disk, the attachment has changed, and no filesystem with the intent's UUID is known on the disk.
	// Another disk of this size in the slot would match in the same way.
	IntentBySlot bool `json:"intent_by_slot,omitempty"`
	// Verdict is the result of the last proof in this attachment.
	Verdict *Verdict `json:"verdict,omitempty"`
	// Fit is the result of the last attempt to grow the disk's filesystem, or nil if there was none.
	Fit *Fit `json:"fit,omitempty"`
	// Before is the record of a filesystem that was on the disk earlier in this attachment, or nil if there was none.
	Before *Sighting `json:"before,omitempty"`
	// FormerSerial records the last content on a disk with this disk's serial or WWN (Identity.Same), or on a partition
	// of such a disk. The content is a filesystem that this node mounted or made, or any other content that was on the
	// disk when an earlier boot ended.
	FormerSerial *Sighting `json:"former_serial,omitempty"`
	// FormerSlot is the record of content that was in this slot when an earlier boot ended. The content was on a disk
	// of this size, or on a partition of a disk of any size. FormerSlot is nil if there is no such record. FormerSlot
	// is also nil if it would be the same record as FormerSerial, and the record names no UUID.
	FormerSlot *Sighting `json:"former_slot,omitempty"`
	// Noted is the record of content that hotmount found on the disk in this attachment, and that is not mounted. Noted
	// is nil if there is no such record.
	Noted *Sighting `json:"noted,omitempty"`
	// Braked reports that hotmount held the disk because the format limit was reached, and that the operator has not
	// accepted the disk since.
	Braked bool `json:"braked,omitempty"`
	// Unmounted is the reason why hotmount does not mount the disk: ReasonReleased or ReasonUnmounted. Unmounted is
	// empty if hotmount may mount the disk. hotmount clears Unmounted at a new attachment, at a reboot, or when the
	// operator accepts the disk. hotmount also clears Unmounted when it finds the disk mounted or given out.
	Unmounted Reason `json:"unmounted,omitempty"`
	// Remount reports that the operator has accepted the disk after a mount in this attachment, and that the disk has
	// not been found mounted since.
	Remount bool `json:"remount,omitempty"`
	// WasMounted is the time at which hotmount last recorded a mount of the disk's filesystem in this attachment
	// (Sighting.Mounted), or zero.
	WasMounted time.Time `json:"was_mounted,omitzero"`
	// MountedAt is the same point in time as WasMounted, measured by CLOCK_MONOTONIC.
	MountedAt time.Duration `json:"mounted_at,omitempty"`
	// OnRecord reports that the filesystem was last mounted from this disk, as far as serial, WWN, slot and size show.
	OnRecord bool `json:"on_record,omitempty"`
	// InSameSlot reports that OnRecord is true, and that the disk is in the same slot as at its last mount. InSameSlot
	// is false if the slot does not identify the disk, for example after the disk was detached (identity.Records).
	InSameSlot bool `json:"in_place,omitempty"`
	// Resized reports that the filesystem was last mounted from this disk, and that the disk had another size at that
	// time.
	Resized bool `json:"resized,omitempty"`
	// LastOn is the record of the last mount of this disk's filesystem, if the last mount was from another disk.
	// Otherwise, LastOn is nil. The serials, the WWNs, the slots or the field Beside show that the two disks are
	// different.
	LastOn *Sighting `json:"last_on,omitempty"`
	// Beside reports that, in this boot, this disk was already attached when the disk of LastOn was detached.
	Beside bool `json:"beside,omitempty"`
	// Twin reports that this disk, or a disk that may be this disk, was refused because another disk had the same UUID.
	// The disk has not been accepted since.
	Twin bool `json:"twin,omitempty"`
	// Made reports that this node made the filesystem on the disk, or began to make the filesystem.
	Made bool `json:"made,omitempty"`
	// Used is the record that other software used the disk. Used is nil if there is no such record, or if the operator
	// has accepted the disk since.
	Used *Use `json:"used,omitempty"`
	// UsedLongAgo reports that Used is among the oldest records. The package `store` drops the oldest records first. If
	// UsedLongAgo is true, the daemon records the use again, as the newest record.
	UsedLongAgo bool `json:"-"`
	// Volume is the record of the last sighting of this disk's filesystem, on this disk or on another disk. Volume is
	// nil if there is no such record.
	Volume *Sighting `json:"volume,omitempty"`
	// Given is the record that this disk was given out as a block volume. For a partition, the record is about its
	// whole disk. For a device-mapper or md device, the record can be about a disk below it. Given is nil if there is
	// no such record.
	Given *Given `json:"given,omitempty"`
	// Link is the path at which the disk is given out now, empty if it is not given out. Link is a path in a class
	// directory. For a partition and for a device-mapper or md device, the link may belong to a disk below it
	// (OwnLink). Link is also empty if the link leads nowhere, or to another attachment.
	Link string `json:"link,omitempty"`
	// MountFailure is why the daemon failed to mount the disk, or empty if no failure is known. Only the package
	// `helper` sets MountFailure, before `hotmount format` offers or checks a token.
	MountFailure string `json:"-"`
	// Formats contains one entry for each other disk that this node began to format. Each entry is the time that has
	// passed since the start of that disk's last format. The newest format is the last entry. A negative time means
	// that the clock was set back.
	Formats []time.Duration `json:"-"`
}

// Word is one accepted hold: the hold's reason, and the UUID that the decision named (Decision.UUID). A Word lifts only
// a hold that has the same reason and the same UUID. The functions isAccepted and givenUp of package policy define
// exceptions.
type Word struct {
	Reason Reason `json:"reason"`
	UUID   string `json:"uuid,omitempty"`
}

// Lifted reports whether the operator has accepted the hold with exactly this reason and UUID.
func (s *Standing) Lifted(r Reason, uuid string) bool {
	return slices.Contains(s.Accepted, Word{r, uuid})
}

// Intent announces a format. An intent is written and synced before the first write to a disk. The intent is removed
// after hotmount has read back the finished filesystem, or when the format has ended in another way.
type Intent struct {
	Identity Identity `json:"identity"`
	Class    string   `json:"class"`
	// UUID is the filesystem's UUID, chosen before mkfs runs.
	UUID string `json:"uuid"`
	// Over reports that the disk was not blank, and that the operator ordered hotmount to overwrite the disk.
	Over bool `json:"over,omitempty"`
	// Was contains the UUID of the overwritten filesystem, or is empty if no UUID was known.
	Was string `json:"was,omitempty"`
	// Left reports that the intent's disk has left its slot. hotmount sets Left only when it begins to format another
	// disk in the slot, or when the operator accepts the content of another disk there. If Left is true, only the UUID
	// of the filesystem identifies a disk without serial and WWN in a later attachment.
	Left bool `json:"left,omitempty"`
	// Doubt is the reason not to trust the new filesystem. For example, another program or machine may have written to
	// the disk during the format. Doubt is empty if there is no such reason.
	Doubt string `json:"doubt,omitempty"`
	// Ext4 are the parameters of mkfs.ext4, or nil for XFS.
	Ext4 *MkfsExt4 `json:"ext4,omitempty"`
	// Attached reports that the disk on which the format began is still attached. Attached is not recorded.
	Attached bool `json:"-"`
}

// Type returns the type of the filesystem.
func (i *Intent) Type() string {
	if i.Ext4 != nil {
		return Ext4
	}
	return XFS
}

// MkfsExt4 are the parameters of mkfs.ext4. With the same parameters, UUID and disk size, mkfs.ext4 writes the same
// bytes. hotmount recognises an unfinished ext4 filesystem by the bytes that mkfs.ext4 writes.
type MkfsExt4 struct {
	// Options and Owner are the values of MkfsOptions and RootOwner in the class.
	Options []string `json:"options,omitempty"`
	Owner   string   `json:"owner,omitempty"`
	// Time is the filesystem's creation time, in seconds since 1970.
	Time int64 `json:"time"`
	// Mode is the value of RootMode in the class. hotmount sets the mode after mkfs.ext4 has ended, because mkfs.ext4
	// cannot set the mode. If Mode is empty, the root directory keeps the mode 0755, which mkfs.ext4 sets.
	Mode string `json:"mode,omitempty"`
}

// Verdict is the result of a proof: what was found on the disk, and what was done with the disk after the proof. A
// Verdict is valid until something writes to the disk, or the disk is resized or attached again.
type Verdict struct {
	Seq     uint64  `json:"seq"`
	Size    uint64  `json:"size"`
	Writes  uint64  `json:"writes"`
	Content Content `json:"content"`
	// Failure is why the proof or mkfs did not begin or finish, or empty if there was no failure.
	Failure string `json:"failure,omitempty"`
	// Retry reports that another attempt may succeed.
	Retry bool `json:"retry,omitempty"`
	// Shared reports that the proof or mkfs failed because another machine writes to the disk.
	Shared bool `json:"shared,omitempty"`
}

// Valid reports whether the verdict still applies: attachment, size and number of writes of the disk have not changed,
// and the kernel counts the writes.
func (v *Verdict) Valid(f *Facts) bool {
	return v != nil && v.Seq == f.Seq && v.Size == f.Size && v.Writes == f.Writes && !f.Uncounted
}
