// Package identity decides whether what is on record is of a disk that is attached: whether it is the same disk, the
// same one resized, one that may be it, a copy, or a stranger. It is pure: records go in, a disk.Standing comes out.
package identity

import (
	"slices"
	"time"

	"hotmount/internal/disk"
)

// Records are all records of one moment.
type Records struct {
	// Boot is the id of this boot.
	Boot string
	// Present are the disks that were attached when hotmount was installed, Braked those that came while too many were
	// formatted. Nobody has accepted them since.
	Present, Braked []disk.Identity
	Twins           []Twin
	Intents         []disk.Intent
	// History are the decisions to format, the newest last.
	History []disk.Record
	// Sightings are the filesystems that were mounted, Contents what lay on disks and was not, the newest last.
	Sightings, Contents []disk.Sighting
	Given               []disk.Given
	// Formatted is the last record of each disk (Formatted), Formats how long ago each of these formats began.
	Formatted []disk.Record
	Formats   []time.Duration
	// Lost is why nothing may be formatted, nil if the records were readable.
	Lost error
}

// Attachment is what is on record of one attachment of a disk.
type Attachment struct {
	Accepted  []disk.Word
	Verdict   *disk.Verdict
	Fit       *disk.Fit
	Unmounted disk.Reason
	Remount   bool
	Link      string
}

// Standing returns what the records say of the disk.
func (r *Records) Standing(f *disk.Facts, a Attachment) disk.Standing {
	st := disk.Standing{Accepted: a.Accepted, Verdict: a.Verdict, Fit: a.Fit, Unmounted: a.Unmounted, Remount: a.Remount, Link: a.Link}
	if r.Lost != nil {
		st.Formatting = r.Lost.Error()
	}
	id, uuid := f.Identity(r.Boot), f.Known().UUID
	if i := slices.IndexFunc(r.Present, id.MayBe); i >= 0 {
		st.Present = &r.Present[i]
	}
	st.Braked = slices.ContainsFunc(r.Braked, id.Is)
	r.sightings(&st, f, id, uuid)
	r.place(&st, f, id, uuid)
	st.Before, st.FormerSerial, st.FormerSlot, st.Noted = r.before(id), r.formerSerial(f), r.formerSlot(f), r.noted(id)
	if l := st.FormerSlot; l != nil && l == st.FormerSerial && l.UUID == "" {
		st.FormerSlot = nil // or the word that gives it up would have to be given twice
	}
	if i := slices.IndexFunc(r.Given, func(g disk.Given) bool { return g.Is(f) }); i >= 0 {
		g := r.Given[i]
		g.ThisBoot = g.Boot != "" && g.Boot == r.Boot
		st.Given = &g
	}
	st.Intent, st.IntentDoubt, st.IntentBySlot = r.intent(id, uuid)
	st.Formats = r.others(&st, id)
	return st
}

// sightings fills in what is known of the filesystem on the disk, and of the attachment's own.
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
		if st.Beside || elsewhere(s, id) || disk.OtherSerial(s.Identity.Serial, f.Serial) {
			st.LastOn = s
		}
	}
}

// place fills in whether the disk is in the slot from which its filesystem was mounted last, and whether it was refused
// as a twin. The slot of one that left may be another's now, which within a boot the sequence number tells, also where
// nobody saw it leave.
func (r *Records) place(st *disk.Standing, f *disk.Facts, id disk.Identity, uuid string) {
	mounted := false
	if v := st.Volume; st.OnRecord && v != nil && !v.Left && (v.Identity.Boot != r.Boot || v.Identity.Seq == f.Seq) {
		mounted = v.Identity.Boot == r.Boot
		// Where it was refused while it came alone, the slot has not told which it is, and will not when the other comes.
		alone := slices.ContainsFunc(r.Twins, func(t Twin) bool { return t.UUID == uuid && t.attached(id) })
		// No volume of LVM is there twice, and none has a slot.
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

// beside reports whether the disk of that identity was attached already when the one of
// the sighting left: it is another, unless it has its slot, which has room for one.
func beside(s *disk.Sighting, id disk.Identity) bool {
	whole := disk.ID{Seq: id.Seq}.DiskSeq()
	return s.Left && s.Identity.Boot == id.Boot && s.Identity.Seq != id.Seq && whole <= s.Newest && (id.Slot == "" || s.Identity.Slot != id.Slot)
}

// elsewhere reports whether the disk of that identity is in another slot than the one of the
// sighting had in this boot, which nobody saw leave, and no serial tells that it is the
// same: a copy that was attached meanwhile looks like that.
func elsewhere(s *disk.Sighting, id disk.Identity) bool {
	was := s.Identity
	return !s.Left && was.Boot == id.Boot && was.Seq != id.Seq && (was.Serial == "" || id.Serial == "") &&
		was.Slot != "" && id.Slot != "" && was.Slot != id.Slot
}

// intent returns the format of which the end is not recorded that is the disk's, or may be,
// nil if none is: also one of an earlier attachment, or of a disk whose filesystem has the
// UUID that udev knows on this one. Of several it is the one that is surest. doubt and
// bySlot are Standing's.
func (r *Records) intent(id disk.Identity, uuid string) (of *disk.Intent, doubt, bySlot bool) {
	sure := func(n *disk.Intent) int {
		was := n.Identity
		switch {
		case was.Boot == id.Boot && was.Seq == id.Seq:
			return 5
		case was.Serial != "" && was.Like(id):
			return 4
		case n.UUID == uuid:
			return 3
		// Of several in one slot it is the last: there is one at most that no later one
		// has taken the slot from (Store.displace).
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

// isOf reports whether the intent is the disk's as far as its slot and size, or the UUID on
// it, can tell. Around an unfinished filesystem on a disk that was blank there is nothing
// to lose, and the likeness of an earlier attachment will do; without a serial also that of
// one in another slot, once the slots were dealt anew. What was to be overwritten a
// copy has as well, perhaps the only one: it is the disk itself that is wanted.
func isOf(n *disk.Intent, id disk.Identity) bool {
	if n.Over {
		return n.Identity.Is(id) && (n.Identity.Boot == id.Boot || id.Serial != "")
	}
	was := n.Identity
	if was.Serial == "" && id.Serial == "" && was.Size == id.Size && (n.Left || was.Boot != id.Boot) {
		return true
	}
	return was.Is(id) || was.Like(id)
}

// Twin is a disk that was refused since another had its UUID, and that nobody has accepted since.
type Twin struct {
	Identity disk.Identity `json:"identity"`
	UUID     string        `json:"uuid"`
}

// Is reports whether it may be the disk of that identity with that filesystem, whenever
// and wherever it was attached, and whatever size it has now. Of disks without a
// serial it can be any but the one on record; with or without one it is not the attachment from
// which the filesystem was mounted, if it was another that was refused.
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
	return t.Identity.Serial == id.Serial && (id.Serial != "" || !onRecord)
}

// attached reports whether it is that attachment of the disk.
func (t Twin) attached(id disk.Identity) bool {
	return t.Identity.Boot == id.Boot && t.Identity.Seq == id.Seq
}

// Renamed reports whether the refused disk has got a UUID of its own, by which it was mounted:
// what has the other one now is not it. Without a serial another in its slot looks like it.
func (t Twin) Renamed(n disk.Sighting) bool {
	same := t.attached(n.Identity) || n.Identity.Serial != "" && n.Identity.Slot != "" && t.Identity.Slot == n.Identity.Slot && t.Identity.Like(n.Identity)
	return !n.Left && t.UUID != n.UUID && same
}
