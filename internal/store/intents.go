package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hotmount/internal/disk"
)

// Begin records, synced, that a filesystem is about to be made, and drops what is noted of
// the disk: it is not missed any more, also where a crash leaves the disk half made.
func (s Store) Begin(i disk.Intent) error {
	if !disk.ValidUUID(i.UUID) {
		return fmt.Errorf("cannot record the intent: %q is not a UUID", i.UUID)
	}
	err := s.locked(func() error {
		if err := s.note([]disk.Sighting{{Identity: i.Identity}}, false); err != nil {
			return err
		}
		if err := s.displace(i); err != nil {
			return err
		}
		return s.saveIntent(i)
	})
	if err != nil {
		return fmt.Errorf("cannot record the intent: %w", err)
	}
	return nil
}

func (s Store) saveIntent(i disk.Intent) error {
	err := makeSynced(s.intentDir())
	if err == nil {
		err = writeSynced(filepath.Join(s.intentDir(), i.UUID+".json"), i)
	}
	if err != nil {
		return s.failed(err)
	}
	return nil
}

// displace records of the intents that are the disk's by nothing but slot and size that
// they are another's: it has been found to be blank. What the operator wanted gone may
// lie on that other one, and is held by its slot all the same, until the operator wants
// the same gone once more. So is what somebody else was at work on.
func (s Store) displace(by disk.Intent) error {
	all, err := s.intents()
	if err != nil {
		return s.failed(err)
	}
	for _, n := range all {
		was := n.Identity
		if n.UUID == by.UUID || n.Left || n.Over && !(by.Over && by.Was == n.Was) || n.Doubt != "" || was.Serial != "" || !was.Like(by.Identity) || was.Boot == by.Identity.Boot && was.Seq == by.Identity.Seq {
			continue
		}
		n.Left = true
		if err := s.saveIntent(n); err != nil {
			return fmt.Errorf("cannot record that the disk of the intent %s has left its slot: %w", n.UUID, err)
		}
	}
	return nil
}

// Leave records that the disk of the intent of that UUID is not the one in its slot: the
// operator has accepted what is on that.
func (s Store) Leave(uuid string) error {
	err := s.locked(func() error {
		all, err := s.intents()
		if err != nil {
			return err
		}
		for _, n := range all {
			if n.UUID == uuid {
				n.Left = true
				err = s.saveIntent(n)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot record that the disk of the intent %s has left its slot: %w", uuid, err)
	}
	return nil
}

// End removes the intent of that UUID, synced.
func (s Store) End(uuid string) error {
	if !disk.ValidUUID(uuid) {
		return fmt.Errorf("cannot remove the intent: %q is not a UUID", uuid)
	}
	err := s.locked(func() error {
		if err := removeIfThere(filepath.Join(s.intentDir(), uuid+".json")); err != nil {
			return err
		}
		return syncDir(s.intentDir())
	})
	if err != nil {
		return fmt.Errorf("cannot remove the intent: %w", err)
	}
	return nil
}

// intents returns the formats of which the end is not recorded. One whose record cannot be read is
// an error, and among them with the UUID that its name says, and in doubt: no other is
// forgotten for it, and what carries that UUID is not taken for whole.
func (s Store) intents() ([]disk.Intent, error) {
	var all []disk.Intent
	var errs []error
	list, err := os.ReadDir(s.intentDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the intents: %w", err)
	}
	for _, e := range list {
		if filepath.Ext(e.Name()) != ".json" {
			continue // the temporary file of a write that a crash ended
		}
		var i disk.Intent
		path := filepath.Join(s.intentDir(), e.Name())
		err := readJSON(path, &i)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has just ended
		}
		uuid := strings.TrimSuffix(e.Name(), ".json")
		switch {
		case err != nil:
			err = fmt.Errorf("cannot read the intent %s: %w", path, err)
		case uuid != i.UUID || !disk.ValidUUID(uuid):
			err = fmt.Errorf("cannot use the intent %s: it names the UUID %q", path, i.UUID)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%w (the filesystem of that UUID may be unfinished: detach its disk, or be sure of it, and move the file away; then: hotmount state init)", err))
			i = disk.Intent{UUID: uuid, Doubt: "its record cannot be read"}
		}
		all = append(all, i)
	}
	return all, errors.Join(errs...)
}

func (s Store) intentDir() string { return filepath.Join(s.State, "intents") }
