package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"hotmount/internal/disk"
	"hotmount/internal/policy/identity"
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
	isRenamed := func(t identity.Twin) bool { return slices.ContainsFunc(seen, t.Renamed) }
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

// Sightings returns what is remembered of filesystems that were mounted, the one
// that was seen last at the end.
func (s Store) Sightings() ([]disk.Sighting, error) { return readSightings(s.sightingsFile()) }

// Noted returns what Note has recorded, the newest at the end.
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

// fullFile is named for the filesystem and the size of its disk in sectors of 512 bytes,
// as sysfs gives it.
func (s Store) fullFile(n *disk.Sighting) string {
	return filepath.Join(s.State, "full", fmt.Sprintf("%s-%d", n.UUID, n.Identity.Size/512))
}

func (s Store) sightingsFile() string { return filepath.Join(s.State, "filesystems.json") }
func (s Store) notedFile() string     { return filepath.Join(s.State, "contents.json") }
