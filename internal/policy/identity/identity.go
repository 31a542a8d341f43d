// Package identity matches records to attached disks. The package decides whether a record belongs to the attached
// disk: certainly, possibly or not at all. The package also decides whether the attached disk is a copy. The package is
// pure: it turns records into a disk.Standing.
package identity

import (
	"slices"
	"time"

	"hotmount/internal/disk"
)

// Records is a snapshot of all of the node's records.
type Records struct {
	// Boot is the boot id of the present boot.
	Boot string
	// The list Present contains the disks that were attached when hotmount was installed. The list Braked contains the
	// disks that hotmount held because the format limit was reached. The lists Present and Braked do not contain disks
	// that the operator accepted later.
	Present, Braked []disk.Identity
	Twins           []Twin
	// Used contains a record of each disk that somebody else has used and that no operator has accepted since.
	Used    []disk.Use
	Intents []disk.Intent
	// The list History contains one record for each decision to format a disk. The newest record is last.
	History []disk.Record
	// Sightings are the filesystems that were mounted. Contents are the sightings of content that lay on disks and was
	// not mounted. Sightings and Contents end with the newest sighting.
	Sightings, Contents []disk.Sighting
	Given               []disk.Given
	// Formatted is the last record of each disk (func Formatted). Formats[i] is the time that has passed since the
	// format Formatted[i] began.
	Formatted []disk.Record
	Formats   []time.Duration
	// The list Arrived contains the disks that were attached when hotmount first started with a new machine-id. The
	// list does not contain disks that an operator has accepted since.
	Arrived []disk.Identity
	// The error Lost is the reason why no disk may be formatted, such as an unreadable record. The error is nil if
	// there is no such reason.
	Lost error
}

// recentUses is the number of records at the end of the list Used that need no renewal. Package store keeps only the
// newest 1,024 records, so hotmount renews older records of attached disks (Standing.UsedLongAgo).
const recentUses = 900

// Standing returns the disk's standing according to the records. The parameter `st` is the part of the standing that is
// on record only for this attachment.
func (r *Records) Standing(f *disk.Facts, st disk.Standing) disk.Standing {
	if r.Lost != nil {
		st.Formatting = r.Lost.Error()
	}
	id, uuid := f.Identity(r.Boot), f.KnownContent().UUID
	if i := slices.IndexFunc(r.Present, id.MayBe); i >= 0 {
		st.Present = &r.Present[i]
	}
	if i := slices.IndexFunc(r.Arrived, id.MayBe); i >= 0 {
		st.Arrived = &r.Arrived[i]
	}
	st.Braked = slices.ContainsFunc(r.Braked, id.Is)
	if i := slices.IndexFunc(r.Used, func(u disk.Use) bool { return u.Is(id, uuid) }); i >= 0 {
		st.Used, st.UsedLongAgo = &r.Used[i], i < len(r.Used)-recentUses
	}
	r.sightings(&st, f, id, uuid)
	r.place(&st, f, id, uuid)
	st.Before, st.FormerSerial, st.FormerSlot, st.Noted = r.lastFilesystem(id), r.formerSerial(id), r.formerSlot(id), r.notedContent(id)
	if l := st.FormerSlot; l != nil && l == st.FormerSerial && l.UUID == "" {
		st.FormerSlot = nil // the operator must not have to accept the loss of the same content twice
	}
	if i := slices.IndexFunc(r.Given, func(g disk.Given) bool { return g.Is(f) }); i >= 0 {
		g := r.Given[i]
		g.ThisBoot = g.Boot != "" && g.Boot == r.Boot
		st.Given = &g
	}
	st.Intent, st.IntentDoubt, st.IntentBySlot = r.intent(id, uuid)
	st.Made = r.made(uuid)
	st.Formats = r.otherFormatAges(&st, id)
	return st
}

// made reports whether this node made the filesystem with that UUID, or began to make it. The node chose the UUID at
// random, so no other filesystem has the UUID by chance.
func (r *Records) made(uuid string) bool {
	return uuid != "" && (slices.ContainsFunc(r.Intents, func(i disk.Intent) bool { return i.UUID == uuid }) ||
		slices.ContainsFunc(r.History, func(of disk.Record) bool { return of.UUID == uuid }))
}

// The method `sightings` sets the fields of st about the filesystem on the disk and about the mounts in this attachment.
func (r *Records) sightings(st *disk.Standing, f *disk.Facts, id disk.Identity, uuid string) {
	for i := range r.Sightings {
		s := &r.Sightings[i]
		here := s.Identity.Boot == r.Boot && s.Identity.Seq == f.Seq && !s.Left
		if here {
			st.WasMounted, st.MountedAt = s.Mounted, s.At
		}
		if s.UUID == uuid || here && uuid == "" {
			st.Volume = s
		}
		if s.UUID != uuid {
			continue
		}
		st.OnRecord, st.Resized = s.Identity.Like(id), s.Identity.ResizedTo(id)
		st.Beside = attachedTogether(s, id)
		if st.Beside || isInOtherSlot(s, id) || s.Identity.Other(id) {
			st.LastOn = s
		}
	}
}

// The method `place` sets st.InSameSlot if the disk is in the slot of its filesystem's last mount. The method sets
// st.Twin if the disk was refused as a twin. Another disk may have taken the slot of a disk that left. Within one boot,
// the sequence number shows that a disk was replaced, even if hotmount did not see the first disk leave.
func (r *Records) place(st *disk.Standing, f *disk.Facts, id disk.Identity, uuid string) {
	mounted := false
	if v := st.Volume; st.OnRecord && v != nil && !v.Left && (v.Identity.Boot != r.Boot || v.Identity.Seq == f.Seq) {
		mounted = v.Identity.Boot == r.Boot
		// If the disk was refused in this attachment, its slot was not sufficient to identify the disk. Even after
		// another disk with the same UUID is attached, the slot does not identify the disk.
		refusedAlone := slices.ContainsFunc(r.Twins, func(t Twin) bool { return t.UUID == uuid && t.attached(id) })
		// An LVM volume has no slot and needs none, because it cannot be attached twice.
		st.InSameSlot = v.Identity.Slot == id.Slot && (id.Slot != "" || f.Transport == "dm") && !refusedAlone
	}
	here := mounted || st.Lifted(disk.ReasonTwin, uuid)
	st.Twin = uuid != "" && slices.ContainsFunc(r.Twins, func(t Twin) bool { return t.Is(id, uuid, st.OnRecord, here) })
}

// otherFormatAges returns how long ago the last format of each other disk began.
func (r *Records) otherFormatAges(st *disk.Standing, id disk.Identity) []time.Duration {
	i := slices.IndexFunc(r.Formatted, func(of disk.Record) bool {
		return of.Identity.Boot == id.Boot && of.Identity.Seq == id.Seq || st.Intent != nil && !st.IntentBySlot && of.UUID == st.Intent.UUID
	})
	if i < 0 {
		return r.Formats
	}
	return slices.Delete(slices.Clone(r.Formats), i, i+1)
}

// attachedTogether reports whether the disk with that identity was already attached when the sighting's disk was
// detached. Two disks that were attached at the same time are different disks. Disks with the same slot were not
// attached at the same time, because a slot has room for only one disk.
func attachedTogether(s *disk.Sighting, id disk.Identity) bool {
	whole := disk.ID{Seq: id.Seq}.DiskSeq()
	return s.Left && s.Identity.Boot == id.Boot && s.Identity.Seq != id.Seq && whole <= s.Newest && (id.Slot == "" || s.Identity.Slot != id.Slot)
}

// isInOtherSlot reports whether the filesystem was seen in this boot on a disk in another slot. If isInOtherSlot
// returns true, hotmount treats the disk with that identity as a copy. isInOtherSlot returns false if hotmount saw the
// other disk leave, or if serial or WWN match.
func isInOtherSlot(s *disk.Sighting, id disk.Identity) bool {
	was := s.Identity
	return !s.Left && was.Boot == id.Boot && was.Seq != id.Seq && !was.Same(id) &&
		was.Slot != "" && id.Slot != "" && was.Slot != id.Slot
}

// intent returns the unfinished format that belongs to the disk or may belong to it, or nil. A format belongs to the
// disk if the format's record matches the disk, or if the disk's filesystem has the format's UUID. If several formats
// may belong to the disk, the result is the format that most probably belongs to it. The results `doubt` and bySlot are
// the values for Standing.IntentDoubt and Standing.IntentBySlot.
func (r *Records) intent(id disk.Identity, uuid string) (of *disk.Intent, doubt, bySlot bool) {
	sure := func(n *disk.Intent) int {
		was := n.Identity
		switch {
		case was.Boot == id.Boot && was.Seq == id.Seq:
			return 5
		case was.Same(id) && was.Like(id):
			return 4
		case n.UUID == uuid:
			return 3
		case n.Attached: // all loop devices of one size look alike, because a loop device has no serial and no slot
			return 0
		// Of several formats in one slot, the newest applies. A new format usually sets Left in the older records of
		// its slot (see the function `displaced` in package store).
		case was.Like(id) && !n.Left && !n.Over && n.Doubt == "":
			return 2
		case was.Like(id) && !n.Left:
			return 1
		}
		return 0
	}
	most := 0
	for i := range r.Intents {
		if s := sure(&r.Intents[i]); s > most {
			of, most = &r.Intents[i], s
		}
	}
	if of == nil {
		return nil, false, false
	}
	return of, !isOf(of, id), most <= 2
}

// isOf reports whether the intent belongs to the disk, as far as attachment, serial, WWN, slot and size show.
//
// On a disk that was blank, an unfinished filesystem contains no data that can be lost. An intent for a blank disk
// therefore belongs to any disk that looks like the intent's disk. After a reboot, or if Left is set, the slot of a
// disk without a serial may differ, because slots may have been reassigned.
//
// Another disk may hold the last copy of content that was to be overwritten. An intent to overwrite therefore belongs
// only to the disk on which the format began.
func isOf(n *disk.Intent, id disk.Identity) bool {
	if n.Over {
		return n.Identity.Is(id) && (n.Identity.Boot == id.Boot || n.Identity.Same(id))
	}
	was := n.Identity
	if was.Serial == "" && id.Serial == "" && was.Size == id.Size && !was.Other(id) && (n.Left || was.Boot != id.Boot) {
		return true
	}
	return was.Is(id) || was.Like(id)
}

// Twin is a disk that was refused because another disk had its UUID, and that no operator has accepted since.
type Twin struct {
	Identity disk.Identity `json:"identity"`
	UUID     string        `json:"uuid"`
}

// Is reports whether the refused disk t may be the disk that has the given identity and UUID. The result can be true
// even if attachment, slot or size differ. If `here` is true, the filesystem was mounted or accepted during this
// attachment, and Is returns true only for a refusal in this attachment. If serials and WWNs do not show whether the two
// are the same disk (Hardware), Is returns true only if neither disk has a serial. If the slot or the size also differs,
// Is returns true only if onRecord is false.
func (t Twin) Is(id disk.Identity, uuid string, onRecord, here bool) bool {
	switch {
	case t.UUID != uuid:
		return false
	case t.attached(id):
		return true
	case here:
		return false
	case t.Identity.Like(id):
		return true
	}
	if same, decides := t.Identity.Hardware(id); decides {
		return same
	}
	return t.Identity.Serial == id.Serial && !onRecord
}

// attached reports whether the identity is from the attachment in which the disk t was refused.
func (t Twin) attached(id disk.Identity) bool {
	return t.Identity.Boot == id.Boot && t.Identity.Seq == id.Seq
}

// Renamed reports whether the filesystem of the refused disk got a new UUID and was mounted with the new UUID. After
// this change, a disk with the old UUID is another disk. In a later attachment, Renamed also compares serial, WWN, slot
// and size. Slot and size are not sufficient, because another disk in the slot could have the same size.
func (t Twin) Renamed(n disk.Sighting) bool {
	same := t.attached(n.Identity) || t.Identity.Same(n.Identity) && n.Identity.Slot != "" && t.Identity.Slot == n.Identity.Slot && t.Identity.Like(n.Identity)
	return !n.Left && t.UUID != n.UUID && same
}
