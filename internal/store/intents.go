package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hotmount/internal/disk"
)

// Begin durably records that a filesystem is about to be made. Begin also drops the records of content that was found
// on the disk (Note). After Begin, the disk's former content is not treated as missing, even if a crash leaves a
// half-made filesystem.
func (s Store) Begin(i disk.Intent) error { return s.begins(i, nil) }

// The method `begins` does the same as Begin, but makes one more check. If the parameter `attached` is not nil, the
// method `begins` also checks the other attached paths to the same disk. If a format through another path has not
// ended, the method returns an error.
func (s Store) begins(i disk.Intent, attached func(seq uint64) bool) error {
	if !disk.ValidUUID(i.UUID) {
		return fmt.Errorf("cannot record that a format begins: %q is not a UUID", i.UUID)
	}
	err := s.locked(func() error {
		all, err := s.intents()
		if err != nil {
			return s.failed(err)
		}
		if err := overlap(all, &i, attached); err != nil {
			return err
		}
		if err := s.note([]disk.Sighting{{Identity: i.Identity}}, false); err != nil {
			return err
		}
		if err := s.markLeft(all, func(n *disk.Intent) bool { return displaced(n, &i) }); err != nil {
			return err
		}
		return s.saveIntent(i)
	})
	return wrap(err, "cannot record that a format begins")
}

func (s Store) saveIntent(i disk.Intent) error {
	if err := makeSynced(s.intentDir()); err != nil {
		return s.failed(err)
	}
	return s.save(s.intentFile(i.UUID), intentRecord{version, i})
}

// intentRecord is the content of an intent's file.
type intentRecord struct {
	Version int `json:"version"`
	disk.Intent
}

// The function `overlap` returns an error if another attached block device with the same serial or WWN has an unfinished
// format. The two block devices may be two paths to one disk, or two disks with one serial. The second format must wait
// until the first format is finished.
func overlap(all []disk.Intent, by *disk.Intent, attached func(seq uint64) bool) error {
	for i := range all {
		was := all[i].Identity
		if attached != nil && was.Boot == by.Identity.Boot && was.Seq != by.Identity.Seq && was.Same(by.Identity) && attached(was.Seq) {
			return fmt.Errorf("another disk (disk sequence number %d) has the same serial or WWN, and its format has not ended", was.Seq)
		}
	}
	return nil
}

// The function `displaced` reports whether another disk has replaced the disk of an older intent (n) in its slot. The
// other disk is the disk of the new intent (`by`). The two disks match only by slot and size. The disk of the new
// intent was found blank or half-made, or is to be overwritten.
//
// The result is false if the field Doubt of the older intent is set. For example, another program may have written to
// the disk during the format. If the older intent overwrites content (Intent.Over), the result is true only if the new
// intent overwrites the same content. Otherwise the content may still be on the disk of the older intent.
func displaced(n, by *disk.Intent) bool {
	was := n.Identity
	if n.UUID == by.UUID || n.Doubt != "" || n.Over && !(by.Over && by.Was == n.Was) {
		return false
	}
	here := was.Boot == by.Identity.Boot && was.Seq == by.Identity.Seq
	return was.Serial == "" && was.Like(by.Identity) && !was.Same(by.Identity) && !here
}

// RecordLeft records that an intent's disk has left its slot. The reason is that the operator has accepted the content
// of the disk that is in the slot now.
func (s Store) RecordLeft(uuid string) error {
	err := s.locked(func() error {
		all, err := s.intents()
		if err != nil {
			return err
		}
		return s.markLeft(all, func(n *disk.Intent) bool { return n.UUID == uuid })
	})
	return wrap(err, "cannot record that the disk with the unfinished filesystem %s has left its slot", uuid)
}

// markLeft calls has(intent) for each intent that is not marked as left. If has(intent) is true, markLeft records that
// the intent's disk has left its slot.
func (s Store) markLeft(all []disk.Intent, has func(*disk.Intent) bool) error {
	for _, n := range all {
		if n.Left || !has(&n) {
			continue
		}
		n.Left = true
		if err := s.saveIntent(n); err != nil {
			return err
		}
	}
	return nil
}

// End durably removes the intent with that UUID.
func (s Store) End(uuid string) error {
	if !disk.ValidUUID(uuid) {
		return fmt.Errorf("cannot remove the record of the unfinished format: %q is not a UUID", uuid)
	}
	err := s.locked(func() error {
		if err := removeIfThere(s.intentFile(uuid)); err != nil {
			return err
		}
		return syncDir(s.intentDir())
	})
	return wrap(err, "cannot remove the record of the unfinished format")
}

// The method `intents` returns the intents of all formats that have begun but not ended. For each unreadable record, the
// result contains an intent with the UUID from the file name, and with the field Doubt set. If a record is unreadable,
// the method also returns an error. An unreadable record therefore hides no other intent, and the filesystem of an
// unreadable record is not treated as complete.
func (s Store) intents() ([]disk.Intent, error) {
	var all []disk.Intent
	var first error // only the first error is returned, because each error names its own remedy
	list, err := os.ReadDir(s.intentDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the records of unfinished formats: %w", err)
	}
	for _, e := range list {
		if filepath.Ext(e.Name()) != ".json" {
			continue // the temporary file of a write that a crash interrupted
		}
		var i intentRecord
		path := filepath.Join(s.intentDir(), e.Name())
		err := readJSON(path, &i)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the format has just ended
		}
		uuid := strings.TrimSuffix(e.Name(), ".json")
		switch {
		case isOther(i.Version, err):
			err = newer(path, i.Version)
		case err != nil:
			err = badIntent(path, fmt.Errorf("cannot read the record %s of an unfinished format: %w", path, err))
		case uuid != i.UUID || !disk.ValidUUID(uuid):
			err = badIntent(path, fmt.Errorf("cannot use the record %s of an unfinished format: its file name and the UUID %q in the file must be the same valid UUID", path, i.UUID))
		}
		if err != nil {
			first = cmp.Or(first, err)
			i.Intent = disk.Intent{UUID: uuid, Doubt: "the record cannot be read"}
		}
		all = append(all, i.Intent)
	}
	return all, first
}

// badIntent adds to the error the commands that remove the record of an unfinished format.
func badIntent(path string, err error) error {
	return fmt.Errorf("%w"+disk.Helps+"the filesystem of that UUID may be unfinished: detach its disk, or make sure that the filesystem is complete; then: mv %s %[2]s.bad && hotmount rescan", err, path)
}

func (s Store) intentDir() string { return filepath.Join(s.State, "intents") }

func (s Store) intentFile(uuid string) string { return filepath.Join(s.intentDir(), uuid+".json") }
