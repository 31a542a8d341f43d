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

// Remember durably records the mounted filesystems and their disks. Remember also records the removal of a disk from
// which a filesystem was mounted.
func (s Store) Remember(seen []disk.Sighting) error {
	err := s.locked(func() error {
		all, err := s.Sightings()
		if err != nil {
			return err
		}
		all = lastKept(merge(all, seen))
		if err := saveList(s, s.sightingsFile(), all); err != nil {
			return err
		}
		return errors.Join(s.WithReserve(func() error { return s.markFull(all) }), s.note(seen, false))
	})
	if err == nil {
		err = s.dropRenamed(seen)
	}
	return wrap(err, "cannot record which filesystem is on which disk")
}

// merge(all, seen) adds the new sightings of the second list to the first list. The result has one sighting for each
// filesystem. The call may change the first list in place.
func merge(all, seen []disk.Sighting) []disk.Sighting {
	for _, n := range seen {
		i := slices.IndexFunc(all, func(o disk.Sighting) bool { return o.UUID == n.UUID })
		if i >= 0 {
			if n.Left && !all[i].Identity.Is(n.Identity) {
				continue // the filesystem was seen again later, on another attachment
			}
			all = slices.Delete(all, i, i+1)
		}
		all = append(all, n)
	}
	return all
}

// dropRenamed removes the twin records of disks whose filesystems now have their own UUIDs.
func (s Store) dropRenamed(seen []disk.Sighting) error {
	// If the state is unreadable, dropRenamed drops nothing, and returns no error. Load reports the error
	// (Memory.Lost).
	if _, err := s.load(); err != nil {
		return nil
	}
	return s.change(func(st *state) {
		st.Twins = slices.DeleteFunc(st.Twins, func(t identity.Twin) bool { return slices.ContainsFunc(seen, t.Renamed) })
	})
}

// markFull makes one file for each filesystem that fills its disk, and removes all other files from the same directory.
// The rules in udev/90-hotmount.rules check whether such a file exists. The name of a file consists of the filesystem's
// UUID and the size of its disk in sectors of 512 bytes, as in sysfs. markFull does not sync the files. The loss of a
// file does no harm, because the udev rule then reads the size of the filesystem once more.
func (s Store) markFull(all []disk.Sighting) error {
	dir, want := filepath.Join(s.State, "full"), map[string]bool{}
	for _, n := range all {
		if n.Full {
			want[fmt.Sprintf("%s-%d", n.UUID, n.Identity.Size/512)] = true
		}
	}
	there, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = makeSynced(dir)
	}
	for _, e := range there {
		if !want[e.Name()] {
			err = errors.Join(err, removeIfThere(filepath.Join(dir, e.Name())))
		}
		delete(want, e.Name())
	}
	for name := range want {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	return err
}

// Note durably records content that hotmount found on disks and that is not mounted. If the field Left of a sighting is
// true, Note removes the record of the same attachment. Mounted filesystems are recorded by Remember, not by Note.
func (s Store) Note(found []disk.Sighting) error {
	return wrap(s.locked(func() error { return s.note(found, true) }), "cannot record the content of the disks")
}

// The method `note` drops the records that the found content replaces. If the parameter `add` is true, the method
// `note` also adds new records, at most one for each slot.
func (s Store) note(found []disk.Sighting, add bool) error {
	before, err := s.NotedSightings()
	if err != nil {
		return err
	}
	all := slices.Clone(before)
	for _, n := range found {
		id := n.Identity
		all = slices.DeleteFunc(all, func(o disk.Sighting) bool {
			same, _ := o.Identity.Hardware(id)
			here := o.Identity.Boot == id.Boot && o.Identity.Seq == id.Seq
			if n.Left {
				return here
			}
			return here || id.Slot != "" && o.Identity.Slot == id.Slot || same && o.Identity.Boot != id.Boot
		})
		if add && !n.Left {
			all = append(all, n)
		}
	}
	if slices.Equal(all, before) {
		return nil
	}
	return saveList(s, s.notedFile(), all)
}

// GiveUp durably records that the filesystem's disk will not come back, although hotmount did not notice its removal.
// GiveUp changes neither the other fields of the record nor its position in the list. A filesystem that was seen later
// in the same slot therefore still comes later in the list.
func (s Store) GiveUp(uuid string) error {
	err := s.locked(func() error {
		all, err := s.Sightings()
		if err != nil {
			return err
		}
		for i := range all {
			all[i].Left = all[i].Left || all[i].UUID == uuid
		}
		return saveList(s, s.sightingsFile(), all)
	})
	return wrap(err, "cannot record that the disk of the filesystem %s will not be attached again", disk.Visible(uuid))
}

// Sightings returns the filesystems known to have been mounted. The list ends with the filesystem that was seen last.
func (s Store) Sightings() ([]disk.Sighting, error) {
	return readList[disk.Sighting](s.sightingsFile())
}

// NotedSightings returns what Note has recorded. The newest record is at the end.
func (s Store) NotedSightings() ([]disk.Sighting, error) {
	return readList[disk.Sighting](s.notedFile())
}

func (s Store) sightingsFile() string { return filepath.Join(s.State, "filesystems.json") }
func (s Store) notedFile() string     { return filepath.Join(s.State, "contents.json") }
