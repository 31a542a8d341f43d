package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"hotmount/internal/disk"
)

// KeepUse records, synced, how somebody else uses the disk. The disk is held from then on, until Accept. If the state
// directory cannot be written, KeepUse returns an error, and the record is valid for this attachment.
func (s Store) KeepUse(f *disk.Facts, boot, how string) error {
	use := disk.Use{Identity: f.Identity(boot), UUID: f.Known().UUID, How: cut(how, 512), Seen: time.Now().UTC().Round(0)}
	err := s.change(func(st *state) bool {
		known := slices.ContainsFunc(st.Used, func(u disk.Use) bool { return u.Is(use.Identity, use.UUID) })
		if !known {
			st.Used = append(st.Used, use)
			st.Used = st.Used[max(0, len(st.Used)-identitiesKept):]
		}
		return !known
	})
	if err == nil {
		return nil
	}
	runErr := os.MkdirAll(s.usedDir(), 0o700)
	if runErr == nil {
		runErr = writeFile(seqFile(s.usedDir(), f.Seq), use, false)
	}
	return fmt.Errorf("cannot record that somebody else uses %s; after a reboot it may be mounted: %w", f.Name, errors.Join(err, runErr))
}

// SaveOpener records who has the disk with that sequence number open, nil for none.
func (s Store) SaveOpener(seq uint64, o *disk.Opener) error {
	err := os.MkdirAll(s.openerDir(), 0o700)
	if err == nil {
		err = writeFile(seqFile(s.openerDir(), seq), o, false)
	}
	if err != nil {
		return fmt.Errorf("cannot record who has the disk open: %w", err)
	}
	return nil
}

// TakeOpener returns what SaveOpener recorded, and removes it. Without a record it returns an error.
func (s Store) TakeOpener(seq uint64) (*disk.Opener, error) {
	var o *disk.Opener
	err := readJSON(seqFile(s.openerDir(), seq), &o)
	if err == nil {
		err = s.forgetOpener(seq)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("the look for open files left no result")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read who has the disk open: %w", err)
	}
	return o, nil
}

func (s Store) forgetOpener(seq uint64) error { return removeIfThere(seqFile(s.openerDir(), seq)) }

func (s Store) forgetUse(seq uint64) error { return removeIfThere(seqFile(s.usedDir(), seq)) }

func (s Store) usedDir() string   { return filepath.Join(s.Runtime, "used") }
func (s Store) openerDir() string { return filepath.Join(s.Runtime, "openers") }
