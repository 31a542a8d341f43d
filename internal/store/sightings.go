package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// sightingsKept bounds the memory of filesystems.
const sightingsKept = 1024

// sightings is filesystems.json, and of what is not mounted contents.json.
type sightings struct {
	Version int `json:"version"`
	// Filesystems, the one that was seen last at the end.
	Filesystems []disk.Sighting `json:"filesystems"`
}

// Remember records, synced, on which disks filesystems were found mounted, or
// that their disks have left.
func (s Store) Remember(seen []disk.Sighting) error {
	err := s.locked(func() error {
		all, err := s.Sightings()
		if err != nil {
			return err
		}
		all, before, now := merge(all, seen)
		if err := s.failed(writeSightings(s.sightingsFile(), all)); err != nil {
			return err
		}
		return errors.Join(s.markFull(before, now), s.note(seen, false))
	})
	if err == nil {
		err = s.dropRenamed(seen)
	}
	if err != nil {
		return fmt.Errorf("cannot record which filesystem lies on which disk: %w", err)
	}
	return nil
}

// writeSightings replaces the file, synced.
func writeSightings(path string, all []disk.Sighting) error {
	return writeSynced(path, sightings{Version: version, Filesystems: all})
}

// merge adds what was seen to what is remembered, one of each filesystem, and gives what that
// replaces, and what it adds. It may change all.
func merge(all, seen []disk.Sighting) (merged, before, now []disk.Sighting) {
	for _, n := range seen {
		i := slices.IndexFunc(all, func(o disk.Sighting) bool { return o.UUID == n.UUID })
		if i >= 0 {
			if n.Left && !all[i].Identity.Is(n.Identity) {
				continue // it came back meanwhile
			}
			before = append(before, all[i])
			all = slices.Delete(all, i, i+1)
		}
		all, now = append(all, n), append(now, n)
	}
	forgotten := max(0, len(all)-sightingsKept)
	return all[forgotten:], append(before, all[:forgotten]...), now
}

// dropRenamed takes from the refused disks those that have got a UUID of their own.
func (s Store) dropRenamed(seen []disk.Sighting) error {
	isRenamed := func(t twin) bool { return slices.ContainsFunc(seen, t.renamed) }
	// What is not on record need not be dropped, and Memory.Lost tells.
	if st, err := s.load(); err != nil || !slices.ContainsFunc(st.Twins, isRenamed) {
		return nil
	}
	return s.change(func(st *state) bool {
		before := len(st.Twins)
		st.Twins = slices.DeleteFunc(st.Twins, isRenamed)
		return len(st.Twins) != before
	})
}

// renamed says whether the refused disk has got a UUID of its own, by which it was mounted:
// what has the other one now is not it. Without a serial another in its slot looks like it.
func (t twin) renamed(n disk.Sighting) bool {
	same := t.attached(n.Identity) || n.Identity.Serial != "" && n.Identity.Slot != "" && t.Identity.Slot == n.Identity.Slot && t.Identity.Like(n.Identity)
	return !n.Left && t.UUID != n.UUID && same
}

// markFull makes for each filesystem that fills its disk the file for which
// udev/90-hotmount.rules look, and removes those of what was known before. They are not
// synced: of a lost one udev finds out once more.
func (s Store) markFull(before, now []disk.Sighting) error {
	var errs []error
	want := map[string]string{} // by UUID
	for i := range now {
		n := &now[i]
		if delete(want, n.UUID); n.Full {
			want[n.UUID] = s.fullFile(n)
		}
	}
	for i := range before {
		if o := &before[i]; o.Full && want[o.UUID] != s.fullFile(o) {
			errs = append(errs, removeIfThere(s.fullFile(o)))
		}
	}
	for _, file := range want {
		err := os.WriteFile(file, nil, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.Join(makeSynced(filepath.Dir(file)), os.WriteFile(file, nil, 0o600))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Note records, synced, what was found on disks and is not mounted from them, or that
// it is there no more (Left). Where a filesystem is mounted since, that is remembered
// instead (Remember).
func (s Store) Note(found []disk.Sighting) error {
	if err := s.locked(func() error { return s.note(found, true) }); err != nil {
		return fmt.Errorf("cannot record what lies on which disk: %w", err)
	}
	return nil
}

// note drops the records that what was found replaces, and adds those of it: each place
// has one at most.
func (s Store) note(found []disk.Sighting, add bool) error {
	before, err := s.Noted()
	if err != nil {
		return err
	}
	all := slices.Clone(before)
	for _, n := range found {
		id := n.Identity
		all = slices.DeleteFunc(all, func(o disk.Sighting) bool {
			here := o.Identity.Boot == id.Boot && o.Identity.Seq == id.Seq
			if n.Left {
				return here
			}
			return here || id.Slot != "" && o.Identity.Slot == id.Slot || id.Serial != "" && o.Identity.Serial == id.Serial && o.Identity.Boot != id.Boot
		})
		if add && !n.Left {
			all = append(all, n)
		}
	}
	if slices.Equal(all, before) {
		return nil
	}
	all = all[max(0, len(all)-sightingsKept):]
	return s.failed(writeSightings(s.notedFile(), all))
}

// GiveUp records, synced, that the disk of that filesystem has left for good, though
// nobody saw it. What else is known of it is kept, and in its place: what lay in a
// slot after it still did.
func (s Store) GiveUp(uuid string) error {
	err := s.locked(func() error {
		all, err := s.Sightings()
		if err != nil {
			return err
		}
		for i := range all {
			all[i].Left = all[i].Left || all[i].UUID == uuid
		}
		return s.failed(writeSightings(s.sightingsFile(), all))
	})
	if err != nil {
		return fmt.Errorf("cannot record that %s will not come back: %w", disk.Visible(uuid), err)
	}
	return nil
}

// Sightings gives what is remembered of filesystems that were mounted, the one
// that was seen last at the end.
func (s Store) Sightings() ([]disk.Sighting, error) { return readSightings(s.sightingsFile()) }

// Noted gives what Note has recorded, the newest at the end.
func (s Store) Noted() ([]disk.Sighting, error) { return readSightings(s.notedFile()) }

func readSightings(path string) ([]disk.Sighting, error) {
	var all sightings
	err := readJSON(path, &all)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read %s (moved away, it is begun anew): %w", path, err)
	case all.Version != version:
		return nil, fmt.Errorf("cannot use %s: it has version %d, this hotmount knows %d", path, all.Version, version)
	}
	return all.Filesystems, nil
}

// before gives the last filesystem that lay on the disk during this attachment: one
// that was mounted, else one that was made.
func (m *Memory) before(id disk.Identity) *disk.Sighting {
	here := func(other *disk.Identity) bool { return other.Boot == id.Boot && other.Seq == id.Seq }
	for i := range slices.Backward(m.sightings) {
		if s := &m.sightings[i]; here(&s.Identity) && !s.Left {
			return s
		}
	}
	for i := range slices.Backward(m.history) {
		if r := &m.history[i]; here(&r.Identity) && r.Made() {
			return madeBy(r)
		}
	}
	return nil
}

// madeBy is the sighting of a filesystem that was made and maybe never mounted.
func madeBy(r *disk.Record) *disk.Sighting {
	return &disk.Sighting{Identity: r.Identity, UUID: r.UUID, Type: cmp.Or(r.Type, disk.XFS), Class: r.Class, Mounted: r.Ended}
}

// noted gives what was found on this attachment of the disk and is not mounted.
func (m *Memory) noted(id disk.Identity) *disk.Sighting {
	i := slices.IndexFunc(m.contents, func(s disk.Sighting) bool { return s.Identity.Boot == id.Boot && s.Identity.Seq == id.Seq })
	if i < 0 {
		return nil
	}
	return &m.contents[i]
}

// formerSerial gives the last filesystem that lay on a disk with f's serial:
// one that was mounted, else one that was made. What was never mounted counts if it was
// there when an earlier boot ended; it is newer, since Remember drops what it replaces.
func (m *Memory) formerSerial(f *disk.Facts) *disk.Sighting {
	for i := range slices.Backward(m.contents) {
		if l := &m.contents[i]; l.Identity.Boot != m.boot && serialOf(l, f) {
			return l
		}
	}
	for i := range slices.Backward(m.sightings) {
		if l := &m.sightings[i]; serialOf(l, f) {
			return l
		}
	}
	for i := range slices.Backward(m.history) {
		if r := &m.history[i]; disk.SameSerial(r.Identity.Serial, f.Serial) && r.Made() {
			return madeBy(r)
		}
	}
	return nil
}

// serialOf says whether the filesystem lay on a disk with f's serial, or on a
// partition of one.
func serialOf(l *disk.Sighting, f *disk.Facts) bool {
	serial := l.Identity.Serial
	i := strings.LastIndex(serial, disk.PartitionSuffix)
	return disk.SameSerial(serial, f.Serial) || i > 0 && disk.SameSerial(serial[:i], f.Serial)
}

// formerSlot gives what lay in f's slot, on a disk that may have been f, when an
// earlier boot ended: it was the last one there, was not seen in this boot and was not
// seen leaving. What was never mounted is newer, as in formerSerial.
func (m *Memory) formerSlot(f *disk.Facts) *disk.Sighting {
	if f.Slot == "" {
		return nil
	}
	if l := m.lastInSlot(m.contents, f); l != nil {
		return l
	}
	return m.lastInSlot(m.sightings, f)
}

func (m *Memory) lastInSlot(all []disk.Sighting, f *disk.Facts) *disk.Sighting {
	for i := range slices.Backward(all) {
		l := &all[i]
		part := strings.HasPrefix(l.Identity.Slot, f.Slot+disk.PartitionSuffix)
		if l.Identity.Slot != f.Slot && !part {
			continue
		}
		other := l.Identity.Serial != "" && f.Serial != "" && !serialOf(l, f)
		if l.Identity.Boot == m.boot || l.Left || other || l.Identity.Size != f.Size && !part {
			return nil
		}
		return l
	}
	return nil
}

// fullFile is named for the filesystem and the size of its disk in sectors of 512 bytes,
// as sysfs gives it.
func (s Store) fullFile(n *disk.Sighting) string {
	return filepath.Join(s.State, "full", fmt.Sprintf("%s-%d", n.UUID, n.Identity.Size/512))
}

func (s Store) sightingsFile() string { return filepath.Join(s.State, "filesystems.json") }
func (s Store) notedFile() string     { return filepath.Join(s.State, "contents.json") }
