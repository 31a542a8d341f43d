package identity

import (
	"cmp"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// before returns the last filesystem that lay on the disk during this attachment. A mounted one precedes one that was
// only made.
func (r *Records) before(id disk.Identity) *disk.Sighting {
	here := func(other *disk.Identity) bool { return other.Boot == id.Boot && other.Seq == id.Seq }
	for i := range slices.Backward(r.Sightings) {
		if s := &r.Sightings[i]; here(&s.Identity) && !s.Left {
			return s
		}
	}
	for i := range slices.Backward(r.History) {
		if r := &r.History[i]; here(&r.Identity) && r.Made() {
			return madeBy(r)
		}
	}
	return nil
}

// madeBy returns a sighting for a filesystem that was made and perhaps never mounted.
func madeBy(r *disk.Record) *disk.Sighting {
	return &disk.Sighting{Identity: r.Identity, UUID: r.UUID, Type: cmp.Or(r.Type, disk.XFS), Class: r.Class, Mounted: r.Ended}
}

// noted returns what was found on this attachment of the disk and is not mounted.
func (r *Records) noted(id disk.Identity) *disk.Sighting {
	i := slices.IndexFunc(r.Contents, func(s disk.Sighting) bool { return s.Identity.Boot == id.Boot && s.Identity.Seq == id.Seq })
	if i < 0 {
		return nil
	}
	return &r.Contents[i]
}

// formerSerial returns the last content on a disk with f's serial. Content that was never mounted comes first, if it
// was there when an earlier boot ended. It is the newest, because Remember drops what it replaces. Then come mounted
// filesystems, then filesystems that were made.
func (r *Records) formerSerial(f *disk.Facts) *disk.Sighting {
	for i := range slices.Backward(r.Contents) {
		if l := &r.Contents[i]; l.Identity.Boot != r.Boot && serialOf(l, f) {
			return l
		}
	}
	for i := range slices.Backward(r.Sightings) {
		if l := &r.Sightings[i]; serialOf(l, f) {
			return l
		}
	}
	for i := range slices.Backward(r.History) {
		if r := &r.History[i]; disk.SameSerial(r.Identity.Serial, f.Serial) && r.Made() {
			return madeBy(r)
		}
	}
	return nil
}

// serialOf reports whether the filesystem lay on a disk with f's serial, or on a partition of one.
func serialOf(l *disk.Sighting, f *disk.Facts) bool {
	serial := l.Identity.Serial
	i := strings.LastIndex(serial, disk.PartitionSuffix)
	return disk.SameSerial(serial, f.Serial) || i > 0 && disk.SameSerial(serial[:i], f.Serial)
}

// formerSlot returns what lay in f's slot when an earlier boot ended, on a disk that may have been f. It must be the
// last in that slot, not seen in this boot and not seen leaving. Content that was never mounted is newer, as in
// formerSerial.
func (r *Records) formerSlot(f *disk.Facts) *disk.Sighting {
	if f.Slot == "" {
		return nil
	}
	if l := r.lastInSlot(r.Contents, f); l != nil {
		return l
	}
	return r.lastInSlot(r.Sightings, f)
}

func (r *Records) lastInSlot(all []disk.Sighting, f *disk.Facts) *disk.Sighting {
	for i := range slices.Backward(all) {
		l := &all[i]
		part := strings.HasPrefix(l.Identity.Slot, f.Slot+disk.PartitionSuffix)
		if l.Identity.Slot != f.Slot && !part {
			continue
		}
		other := l.Identity.Serial != "" && f.Serial != "" && !serialOf(l, f)
		if l.Identity.Boot == r.Boot || l.Left || other || l.Identity.Size != f.Size && !part {
			return nil
		}
		return l
	}
	return nil
}

// Formatted returns the last record of each disk, the newest last. A restarted format has the same UUID or the same
// attachment of the disk.
func Formatted(all []disk.Record) []disk.Record {
	type attachment struct {
		boot string
		seq  uint64
	}
	uuids, disks := map[string]bool{}, map[attachment]bool{}
	var last []disk.Record
	for _, r := range slices.Backward(all) {
		at := attachment{r.Identity.Boot, r.Identity.Seq}
		if !uuids[r.UUID] && !disks[at] {
			last = append(last, r)
		}
		uuids[r.UUID], disks[at] = true, true
	}
	slices.Reverse(last)
	return last
}
