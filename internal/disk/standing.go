package disk

import (
	"slices"
	"time"
)

// HoldFile switches all formatting off while it exists. HeldBack, OffAtBoot and StateFull are values of
// Standing.Formatting: an operator has made that file, or has started the kernel with that word, or no record can be
// written now. One that begins with StateGap means that a record could not be written, so one may be missing.
const (
	HoldFile  = "/etc/hotmount/hold"
	HeldBack  = HoldFile + " exists"
	OffAtBoot = "hotmount.format=no is on the kernel command line"
	StateFull = "the filesystem of /var/lib/hotmount is full"
	StateGap  = "the state directory could not be written"
)

// Helps separates why the records forbid to format from what helps, in Standing.Formatting and in the errors that it is
// made of.
const Helps = "; what helps: "

// Standing is what hotmount's stores hold about a disk.
type Standing struct {
	// Formatting is why formatting is switched off for every disk: a lost store, the hold file or the kernel command
	// line. It is empty if formatting is on.
	Formatting string `json:"formatting,omitempty"`
	// Present is a disk that was attached before hotmount was installed, was not accepted since, and may be this one.
	// It is nil if there is none.
	Present *Identity `json:"present,omitempty"`
	// Arrived is a disk that was attached at the first start under another machine-id than that of the records, was not
	// accepted since, and may be this one. It is nil if there is none.
	Arrived *Identity `json:"arrived,omitempty"`
	// Accepted are the holds that the operator has accepted for this attachment.
	Accepted []Word `json:"accepted,omitempty"`
	// Intent is the record of a format of this disk that began and whose end is not recorded.
	Intent *Intent `json:"intent,omitempty"`
	// IntentDoubt reports that Intent may be another disk's. Only the filesystem's UUID matches, as on a copy. If the
	// intent overwrites content, what matches is something that a copy has as well.
	IntentDoubt bool `json:"intent_doubt,omitempty"`
	// IntentBySlot reports that only slot and size match Intent to this disk. Neither serial nor WWN decide, it is
	// another attachment, and udev does not know the intent's UUID on it. The next disk in the slot looks the same.
	IntentBySlot bool `json:"intent_by_slot,omitempty"`
	// Verdict is the result of the last proof for this attachment.
	Verdict *Verdict `json:"verdict,omitempty"`
	// Fit is the result of the last attempt to grow the disk's filesystem to the disk.
	Fit *Fit `json:"fit,omitempty"`
	// Before is the filesystem that lay on the disk earlier in this attachment, nil for none.
	Before *Sighting `json:"before,omitempty"`
	// FormerSerial is the last filesystem on a disk with this disk's serial or WWN (Identity.Same), or other content that
	// was there when an earlier boot ended.
	FormerSerial *Sighting `json:"former_serial,omitempty"`
	// FormerSlot is what lay on a disk of this size in this slot when an earlier boot ended. It is nil where
	// FormerSerial is the same and has no UUID.
	FormerSlot *Sighting `json:"former_slot,omitempty"`
	// Noted is the content on record for this attachment, besides what is mounted, nil for nothing.
	Noted *Sighting `json:"noted,omitempty"`
	// Braked reports that the disk was found while the format limit was exceeded and has not been accepted since.
	Braked bool `json:"braked,omitempty"`
	// Unmounted is why the disk is kept unmounted: ReasonReleased or ReasonUnmounted, else empty. Another attachment,
	// an accept or a reboot ends it.
	Unmounted Reason `json:"unmounted,omitempty"`
	// Remount reports that the operator has ended that, and that the disk has not been found mounted since.
	Remount bool `json:"remount,omitempty"`
	// WasMounted is when hotmount last found the disk's filesystem newly mounted during this attachment, zero for
	// never.
	WasMounted time.Time `json:"was_mounted,omitzero"`
	// MountedAt is the same moment by CLOCK_MONOTONIC.
	MountedAt time.Duration `json:"mounted_at,omitempty"`
	// OnRecord reports that the filesystem on the disk was last mounted from this disk, as far as serial, slot and size
	// tell.
	OnRecord bool `json:"on_record,omitempty"`
	// InPlace reports that in addition the disk is in the same slot as then.
	InPlace bool `json:"in_place,omitempty"`
	// Resized reports the same as OnRecord where the size was another.
	Resized bool `json:"resized,omitempty"`
	// LastOn is the record of the filesystem on the disk if serial, WWN, slot or Beside show that it was on another disk,
	// else nil.
	LastOn *Sighting `json:"last_on,omitempty"`
	// Beside reports that this disk was already attached when the other one left, in this boot.
	Beside bool `json:"beside,omitempty"`
	// Twin reports that the disk was refused because another had its UUID, and has not been accepted since.
	Twin bool `json:"twin,omitempty"`
	// Made reports that this node made the filesystem on the disk, or began to.
	Made bool `json:"made,omitempty"`
	// Used is the record of somebody else's use of the disk, which has not been accepted since. It is nil if there is
	// none.
	Used *Use `json:"used,omitempty"`
	// Volume is the last sighting of the filesystem on the disk, on whatever disk it was then, nil if there is none.
	Volume *Sighting `json:"volume,omitempty"`
	// Given is the permanent record that this disk, this partition or a disk below this device-mapper device was given
	// out as a block volume. It is nil if none was.
	Given *Given `json:"given,omitempty"`
	// Link is where the disk is given out now, empty for nowhere. It is a link in a class directory that leads to this
	// attachment and can lead to no other.
	Link string `json:"link,omitempty"`
	// MountFailure is why the daemon has failed to mount the disk, empty if it has not or nobody asked.
	MountFailure string `json:"-"`
	// Formats are the times since the last format of each other disk on this node began, the newest last. A negative
	// one means that the clock was set back.
	Formats []time.Duration `json:"-"`
}

// Word is one accepted hold: its reason, and the filesystem named with it (Decision.UUID). It does not cover the disk's
// next hold.
type Word struct {
	Reason Reason `json:"reason"`
	UUID   string `json:"uuid,omitempty"`
}

// Lifted reports whether the operator has accepted exactly this hold.
func (s *Standing) Lifted(r Reason, uuid string) bool {
	return slices.Contains(s.Accepted, Word{r, uuid})
}

// Intent announces a format. It is written and synced before the first write to a disk, and removed after the finished
// filesystem is read back.
type Intent struct {
	Identity Identity `json:"identity"`
	Class    string   `json:"class"`
	// UUID is the filesystem's UUID, chosen before mkfs runs.
	UUID string `json:"uuid"`
	// Over reports that the disk was not blank: the operator ordered to overwrite it.
	Over bool `json:"over,omitempty"`
	// Was is the UUID of the overwritten filesystem, empty if none was known.
	Was string `json:"was,omitempty"`
	// Left reports that another disk in the slot was since formatted, or accepted as it is. This disk has no serial and
	// is recognised only by the UUID.
	Left bool `json:"left,omitempty"`
	// Doubt names what else worked on the disk after mkfs had ended, empty for nothing.
	Doubt string `json:"doubt,omitempty"`
	// Ext4 are the parameters of mkfs.ext4, nil for an XFS.
	Ext4 *MkfsExt4 `json:"ext4,omitempty"`
}

// Type returns the filesystem's type.
func (i *Intent) Type() string {
	if i.Ext4 != nil {
		return Ext4
	}
	return XFS
}

// MkfsExt4 are the parameters of mkfs.ext4. The same parameters write the same bytes, which identifies an ext4 that it
// did not finish.
type MkfsExt4 struct {
	// Options and Owner are the class's MkfsOptions and RootOwner.
	Options []string `json:"options,omitempty"`
	Owner   string   `json:"owner,omitempty"`
	// Time is the filesystem's creation time, in seconds since 1970.
	Time int64 `json:"time"`
	// Mode is the class's RootMode. It is set after mkfs.ext4, which cannot set it. Empty leaves mkfs.ext4's own, 0755.
	Mode string `json:"mode,omitempty"`
}

// Verdict is the result of a proof: what was found on the disk and what was done then. It is valid until the disk is
// written to.
type Verdict struct {
	Seq     uint64  `json:"seq"`
	Size    uint64  `json:"size"`
	Writes  uint64  `json:"writes"`
	Content Content `json:"content"`
	// Failure is why the proof or mkfs did not finish, empty if it did.
	Failure string `json:"failure,omitempty"`
	// Retry reports that another attempt may succeed.
	Retry bool `json:"retry,omitempty"`
	// Shared reports that it failed because another machine writes to the disk.
	Shared bool `json:"shared,omitempty"`
}

// Valid reports whether the verdict still applies to the disk.
func (v *Verdict) Valid(f *Facts) bool {
	return v != nil && v.Seq == f.Seq && v.Size == f.Size && v.Writes == f.Writes && !f.Uncounted
}
