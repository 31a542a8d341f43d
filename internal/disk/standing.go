package disk

import (
	"slices"
	"time"
)

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
	// IntentDoubt reports that Intent may be another disk's: what is the same is the
	// filesystem's UUID alone, as on a copy, or, where the intent is to overwrite
	// what is there, something that a copy has as well.
	IntentDoubt bool `json:"intent_doubt,omitempty"`
	// IntentBySlot reports that Intent is this disk's by nothing but slot and size: it has no
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
	// Braked reports that the disk was found while too many were formatted, and
	// that nobody has accepted it since.
	Braked bool `json:"braked,omitempty"`
	// Unmounted says why the disk is kept unmounted until it is attached again,
	// accepted or the machine booted: ReasonReleased or ReasonUnmounted; empty
	// if it is not.
	Unmounted Reason `json:"unmounted,omitempty"`
	// Remount reports that the operator has taken back that it is kept unmounted, and that it was
	// not found mounted since.
	Remount bool `json:"remount,omitempty"`
	// WasMounted is the time at which hotmount last found the disk's filesystem
	// newly mounted during this attachment, zero for never.
	WasMounted time.Time `json:"was_mounted,omitzero"`
	// MountedAt is the same moment by CLOCK_MONOTONIC.
	MountedAt time.Duration `json:"mounted_at,omitempty"`
	// OnRecord reports that the filesystem on the disk was last mounted from this
	// disk, as far as serial, slot and size tell.
	OnRecord bool `json:"on_record,omitempty"`
	// InPlace says beside that that it is in the slot in which it was then.
	InPlace bool `json:"in_place,omitempty"`
	// Resized says the same where the size was another then.
	Resized bool `json:"resized,omitempty"`
	// LastOn is the record of the filesystem on the disk where it is of another disk,
	// as far as the serials tell, or Beside; nil if it is not.
	LastOn *Sighting `json:"last_on,omitempty"`
	// Beside reports that this disk was attached already when that one left, in this boot.
	Beside bool `json:"beside,omitempty"`
	// Twin reports that the disk was refused since another had its UUID, and that
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

// Lifted reports whether the operator has given that very word.
func (s *Standing) Lifted(r Reason, uuid string) bool {
	return slices.Contains(s.Accepted, Word{r, uuid})
}

// Intent is written, synced, before the first write to a disk and removed after
// the finished filesystem was read back.
type Intent struct {
	Identity Identity `json:"identity"`
	Class    string   `json:"class"`
	// UUID is the filesystem's UUID, chosen before mkfs runs.
	UUID string `json:"uuid"`
	// Over reports that the disk was not blank: the operator gave the word to
	// overwrite what was on it.
	Over bool `json:"over,omitempty"`
	// Was is the UUID of the filesystem that is overwritten, empty if none was known.
	Was string `json:"was,omitempty"`
	// Left reports that another disk was formatted in the slot since, or accepted as it is:
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
	// Mode is the class's RootMode, which is set once mkfs.ext4 has finished: it cannot
	// do it. Empty is as mkfs.ext4 leaves it, 0755.
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
	// Retry reports that the same may go better later.
	Retry bool `json:"retry,omitempty"`
	// Shared reports that it failed because another machine writes to the disk.
	Shared bool `json:"shared,omitempty"`
}

// Valid reports whether the verdict still speaks of the disk as it is now.
func (v *Verdict) Valid(f *Facts) bool {
	return v != nil && v.Seq == f.Seq && v.Size == f.Size && v.Writes == f.Writes && !f.Uncounted
}
