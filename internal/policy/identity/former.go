package identity

import (
	"cmp"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// lastFilesystem returns the last filesystem that lay on the disk during this attachment. A filesystem that was mounted
// takes precedence over a filesystem that was only made.
func (r *Records) lastFilesystem(id disk.Identity) *disk.Sighting {
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

// madeBy returns a sighting for a filesystem that was made and may never have been mounted.
func madeBy(r *disk.Record) *disk.Sighting {
	return &disk.Sighting{Identity: r.Identity, UUID: r.UUID, Type: cmp.Or(r.Type, disk.XFS), Class: r.Class, Mounted: r.Ended}
}

// notedContent returns the content that Note recorded for the disk in this attachment: content that was found and is
// not mounted.
func (r *Records) notedContent(id disk.Identity) *disk.Sighting {
	i := slices.IndexFunc(r.Contents, func(s disk.Sighting) bool { return s.Identity.Boot == id.Boot && s.Identity.Seq == id.Seq })
	if i < 0 {
		return nil
	}
	return &r.Contents[i]
}

// formerSerial returns the last content on a disk with the serial or WWN of id. Content that was never mounted, and
// that lay on the disk when an earlier boot ended, takes precedence over mounted filesystems. When a filesystem of the
// disk is mounted, package store removes older records of unmounted content (Remember). A remaining record of unmounted
// content is therefore newer than the mounted filesystems. Mounted filesystems take precedence over filesystems that
// were only made.
func (r *Records) formerSerial(id disk.Identity) *disk.Sighting {
	for i := range slices.Backward(r.Contents) {
		if l := &r.Contents[i]; l.Identity.Boot != r.Boot && sameDisk(l, id) {
			return l
		}
	}
	for i := range slices.Backward(r.Sightings) {
		if l := &r.Sightings[i]; sameDisk(l, id) {
			return l
		}
	}
	for i := range slices.Backward(r.History) {
		if r := &r.History[i]; r.Identity.Same(id) && r.Made() {
			return madeBy(r)
		}
	}
	return nil
}

// sameDisk reports whether serial or WWN show that the filesystem lay on the disk with the identity `id` or on a
// partition of that disk.
func sameDisk(l *disk.Sighting, id disk.Identity) bool {
	return l.Identity.Same(id) || wholeDiskIdentity(l.Identity).Same(id)
}

// otherDisk reports whether serial or WWN show that the filesystem lay neither on the disk with the identity `id` nor
// on its partitions.
func otherDisk(l *disk.Sighting, id disk.Identity) bool {
	return l.Identity.Other(id) && wholeDiskIdentity(l.Identity).Other(id)
}

// wholeDiskIdentity returns the identity `id`. If `id` is the identity of a partition, the result has the serial and
// the WWN of the whole disk.
func wholeDiskIdentity(id disk.Identity) disk.Identity {
	for _, s := range [...]*string{&id.Serial, &id.WWN} {
		if i := strings.LastIndex(*s, disk.PartitionSuffix); i > 0 {
			*s = (*s)[:i]
		}
	}
	return id
}

// formerSlot returns the content that was in the slot of id when an earlier boot ended, if the content's disk may be
// this disk. As in formerSerial, content that was never mounted takes precedence over mounted filesystems. formerSlot
// considers only the last unmounted content and the last mounted filesystem in the slot. formerSlot ignores content if
// hotmount saw its disk in this boot, or saw its disk leave.
func (r *Records) formerSlot(id disk.Identity) *disk.Sighting {
	if id.Slot == "" {
		return nil
	}
	if l := r.lastInSlot(r.Contents, id); l != nil {
		return l
	}
	return r.lastInSlot(r.Sightings, id)
}

func (r *Records) lastInSlot(all []disk.Sighting, id disk.Identity) *disk.Sighting {
	for i := range slices.Backward(all) {
		l := &all[i]
		part := strings.HasPrefix(l.Identity.Slot, id.Slot+disk.PartitionSuffix)
		if l.Identity.Slot != id.Slot && !part {
			continue
		}
		if l.Identity.Boot == r.Boot || l.Left || otherDisk(l, id) || l.Identity.Size != id.Size && !part {
			return nil
		}
		return l
	}
	return nil
}

// Formatted returns the last record of each disk. The newest record comes last. If a format is restarted, its record
// and the record of the first try have the same UUID or the same attachment.
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
