// Package identity matches records to attached disks. A record may be of the same disk, of the same disk resized, of
// one that may be it, of a copy or of a stranger. The package is pure: records go in, a disk.Standing comes out.
package identity

import (
	"slices"
	"time"

	"hotmount/internal/disk"
)

// Records are all records at one moment.
type Records struct {
	// Boot is the id of this boot.
	Boot string
	// Present are the disks that were attached when hotmount was installed. Braked are those that came while the format
	// limit was reached. None has been accepted since.
	Present, Braked []disk.Identity
	Twins           []Twin
	// Used are the disks that another program used, and that have not been accepted since.
	Used    []disk.Use
	Intents []disk.Intent
	// History are the decisions to format, the newest last.
	History []disk.Record
	// Sightings are the filesystems that were mounted, Contents what lay on disks without being mounted. In both the
	// newest is last.
	Sightings, Contents []disk.Sighting
	Given               []disk.Given
	// Formatted is the last record of each disk (func Formatted). Formats is how long ago each of these formats began.
	Formatted []disk.Record
	Formats   []time.Duration
	// Arrived are the disks that were attached at the first start under another machine-id and not accepted since.
	Arrived []disk.Identity
	// Lost is why nothing may be formatted, nil if the records were readable.
	Lost error
}

// Standing returns the disk's standing according to the records. st is what is on record for this attachment alone.
func (r *Records) Standing(f *disk.Facts, st disk.Standing) disk.Standing {
	if r.Lost != nil {
		st.Formatting = r.Lost.Error()
	}
	id, uuid := f.Identity(r.Boot), f.Known().UUID
	if i := slices.IndexFunc(r.Present, id.MayBe); i >= 0 {
		st.Present = &r.Present[i]
	}
	if i := slices.IndexFunc(r.Arrived, id.MayBe); i >= 0 {
		st.Arrived = &r.Arrived[i]
	}
	st.Braked = slices.ContainsFunc(r.Braked, id.Is)
	if i := slices.IndexFunc(r.Used, func(u disk.Use) bool { return u.Is(id, uuid) }); i >= 0 {
		st.Used = &r.Used[i]
	}
	r.sightings(&st, f, id, uuid)
	r.place(&st, f, id, uuid)
	st.Before, st.FormerSerial, st.FormerSlot, st.Noted = r.before(id), r.formerSerial(id), r.formerSlot(id), r.noted(id)
	if l := st.FormerSlot; l != nil && l == st.FormerSerial && l.UUID == "" {
		st.FormerSlot = nil // otherwise its loss would have to be accepted twice
	}
	if i := slices.IndexFunc(r.Given, func(g disk.Given) bool { return g.Is(f) }); i >= 0 {
		g := r.Given[i]
		g.ThisBoot = g.Boot != "" && g.Boot == r.Boot
		st.Given = &g
	}
	st.Intent, st.IntentDoubt, st.IntentBySlot = r.intent(id, uuid)
	st.Made = r.made(uuid)
	st.Formats = r.others(&st, id)
	return st
}

// made reports whether this node made the filesystem of that UUID, or began to. It chose the UUID at random.
func (r *Records) made(uuid string) bool {
	return uuid != "" && (slices.ContainsFunc(r.Intents, func(i disk.Intent) bool { return i.UUID == uuid }) ||
		slices.ContainsFunc(r.History, func(of disk.Record) bool { return of.UUID == uuid }))
}

// sightings sets what is known of the filesystem on the disk and of the attachment's own mounts.
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
		st.Beside = beside(s, id)
		if st.Beside || elsewhere(s, id) || s.Identity.Other(id) {
			st.LastOn = s
		}
	}
}

// place sets whether the disk is in the slot from which its filesystem was last mounted, and whether it was refused as
// a twin. A disk that left may have been replaced in its slot. Within one boot the sequence number shows that, even if
// nobody saw it leave.
func (r *Records) place(st *disk.Standing, f *disk.Facts, id disk.Identity, uuid string) {
	mounted := false
	if v := st.Volume; st.OnRecord && v != nil && !v.Left && (v.Identity.Boot != r.Boot || v.Identity.Seq == f.Seq) {
		mounted = v.Identity.Boot == r.Boot
		// If the disk was refused while it was alone, its slot did not identify it, and will not once the other comes.
		alone := slices.ContainsFunc(r.Twins, func(t Twin) bool { return t.UUID == uuid && t.attached(id) })
		// An LVM volume cannot be attached twice, and has no slot.
		st.InPlace = v.Identity.Slot == id.Slot && (id.Slot != "" || f.Transport == "dm") && !alone
	}
	st.Twin = uuid != "" && slices.ContainsFunc(r.Twins, func(t Twin) bool { return t.Is(id, uuid, st.OnRecord, mounted) })
}

// others returns how long ago the last format of each other disk began.
func (r *Records) others(st *disk.Standing, id disk.Identity) []time.Duration {
	i := slices.IndexFunc(r.Formatted, func(of disk.Record) bool {
		return of.Identity.Boot == id.Boot && of.Identity.Seq == id.Seq || st.Intent != nil && !st.IntentBySlot && of.UUID == st.Intent.UUID
	})
	if i < 0 {
		return r.Formats
	}
	return slices.Delete(slices.Clone(r.Formats), i, i+1)
}

// beside reports whether the disk with that identity was already attached when the sighting's disk left. It is then
// another disk, unless both have the same slot, which has room for one.
func beside(s *disk.Sighting, id disk.Identity) bool {
	whole := disk.ID{Seq: id.Seq}.DiskSeq()
	return s.Left && s.Identity.Boot == id.Boot && s.Identity.Seq != id.Seq && whole <= s.Newest && (id.Slot == "" || s.Identity.Slot != id.Slot)
}

// elsewhere reports whether the disk is in another slot than the sighting's disk had in this boot, without that disk
// having been seen leaving. Neither serial nor WWN show that they are the same. A copy attached meanwhile looks like
// that.
func elsewhere(s *disk.Sighting, id disk.Identity) bool {
	was := s.Identity
	return !s.Left && was.Boot == id.Boot && was.Seq != id.Seq && !was.Same(id) &&
		was.Slot != "" && id.Slot != "" && was.Slot != id.Slot
}

// intent returns the unfinished format that is the disk's, or may be, nil if there is none. It may be of an earlier
// attachment, or of a disk whose filesystem has the UUID that udev knows on this one. The surest of several is
// returned. doubt and bySlot are Standing.IntentDoubt and Standing.IntentBySlot.
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
		// The last of several in one slot counts: it is the only one whose slot no later one has taken
		// (Store.displace).
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

// isOf reports whether the intent is the disk's, as far as slot, size and the UUID on it can tell.
//
// On a disk that was blank an unfinished filesystem holds nothing to lose. There the likeness of an earlier attachment
// suffices. Without serial and WWN another slot is acceptable as well, once slots may have been reassigned.
//
// Content that was to be overwritten may be on a copy as well, perhaps the only one. There it must be the disk itself.
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

// Twin is a disk that was refused because another had its UUID, and has not been accepted since.
type Twin struct {
	Identity disk.Identity `json:"identity"`
	UUID     string        `json:"uuid"`
}

// Is reports whether t may be the disk with that identity and filesystem, in any attachment, slot or size. If neither
// serial nor WWN decide, any disk may be it, except the one on record. The attachment from which the filesystem was
// mounted is never it, if another attachment was refused.
func (t Twin) Is(id disk.Identity, uuid string, onRecord, mounted bool) bool {
	switch {
	case t.UUID != uuid:
		return false
	case t.attached(id):
		return true
	case mounted:
		return false
	case t.Identity.Like(id):
		return true
	}
	if same, decides := t.Identity.Hardware(id); decides {
		return same
	}
	return t.Identity.Serial == id.Serial && !onRecord
}

// attached reports whether t is that attachment of the disk.
func (t Twin) attached(id disk.Identity) bool {
	return t.Identity.Boot == id.Boot && t.Identity.Seq == id.Seq
}

// Renamed reports whether the refused disk now has a UUID of its own and was mounted by it. A disk with the other UUID
// is then not it. Without serial and WWN, another disk in its slot looks the same, so that does not count.
func (t Twin) Renamed(n disk.Sighting) bool {
	same := t.attached(n.Identity) || t.Identity.Same(n.Identity) && n.Identity.Slot != "" && t.Identity.Slot == n.Identity.Slot && t.Identity.Like(n.Identity)
	return !n.Left && t.UUID != n.UUID && same
}
