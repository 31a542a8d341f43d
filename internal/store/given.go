package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"hotmount/internal/disk"
)

// givenOut is given-out.json. Only an operator's token shortens it, because a forgotten disk could be taken for blank.
type givenOut struct {
	Version int          `json:"version"`
	Disks   []disk.Given `json:"disks"`
}

// Given returns the records of all disks that were ever given out as block volumes and not formatted with a token
// since.
func (s Store) Given() ([]disk.Given, error) {
	var all givenOut
	err := readJSON(s.givenFile(), &all)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read %s: %w"+disk.Helps+"put it back from a backup, then: hotmount rescan; without the file, disks that were given out as block volumes and look blank are formatted", s.givenFile(), err)
	case all.Version != version:
		return nil, newer(s.givenFile(), all.Version)
	}
	return all.Disks, nil
}

// GiveOut records, synced, that the class is about to give the disk out by that link, in the boot with that id. One
// record is permanent, the other is for this attachment. GiveOut fails if the state directory was never initialised.
func (s Store) GiveOut(f *disk.Facts, boot, class, link string) error {
	err := s.locked(func() error {
		if _, err := s.load(); err != nil {
			return err
		}
		all, err := s.Given()
		if err != nil {
			return err
		}
		now := disk.Given{Serial: f.Serial, WWN: f.WWN, Size: f.Size, Link: link, Class: class, Slot: f.Slot, Seq: f.Seq, Boot: boot, First: time.Now().UTC().Round(0)}
		if i := slices.IndexFunc(all, func(g disk.Given) bool { return g.Serial == f.Serial && g.WWN == f.WWN }); i >= 0 {
			now.First, now.Twice = all[i].First, all[i].Twice
			if now == all[i] {
				return nil
			}
			all[i] = now
		} else {
			all = append(all, now)
		}
		return s.save(s.givenFile(), givenOut{Version: version, Disks: all})
	})
	if err == nil {
		err = os.MkdirAll(s.linkDir(), 0o700)
	}
	if err == nil {
		err = replace(seqFile(s.linkDir(), f.Seq), []byte(link), false)
	}
	if err != nil {
		return fmt.Errorf("cannot record that %s is given out: %w", f.ID, err)
	}
	return nil
}

// changeGiven changes, synced, the block volume records that may be the disk's.
func (s Store) changeGiven(f *disk.Facts, change func(*disk.Given)) error {
	err := s.locked(func() error {
		all, err := s.Given()
		if err != nil {
			return err
		}
		for i := range all {
			if all[i].Is(f) {
				change(&all[i])
			}
		}
		return s.save(s.givenFile(), givenOut{Version: version, Disks: all})
	})
	if err != nil {
		return fmt.Errorf("cannot change the record of the block volume on %s: %w", f.Name, err)
	}
	return nil
}

// Ungive removes, synced, the block volume record of the disk: the operator has had it overwritten. Records that may be
// another disk's stay: with another WWN, or of one of several disks with its serial.
func (s Store) Ungive(f *disk.Facts) error {
	err := s.locked(func() error {
		all, err := s.Given()
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(g disk.Given) bool { return g.Serial == f.Serial && g.WWN == f.WWN && !g.Twice })
		return s.save(s.givenFile(), givenOut{Version: version, Disks: all})
	})
	if err != nil {
		return fmt.Errorf("cannot remove the record of the block volume on %s: %w", f.Name, err)
	}
	return nil
}

// free records, synced, that the volume on the disk no longer belongs to a class.
func (s Store) free(f *disk.Facts) error {
	var err error
	if f.Standing.Given != nil {
		err = s.changeGiven(f, func(g *disk.Given) { g.Class = "" })
	}
	if v := f.Standing.Volume; v != nil && err == nil {
		freed := *v
		freed.Class, freed.Directory = "", ""
		err = s.Remember([]disk.Sighting{freed})
	}
	return err
}

// Link returns the path at which the attachment with that sequence number was last given out, empty for none.
func (s Store) Link(seq uint64) (string, error) {
	link, err := readFile(seqFile(s.linkDir(), seq))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read where the disk is given out: %w", err)
	}
	if p := string(link); !path.IsAbs(p) || path.Clean(p) != p {
		return "", fmt.Errorf("cannot use %q as the place where a disk is given out", disk.Visible(p))
	}
	return string(link), nil
}

// ForgetLink records that the attachment is no longer given out. The permanent record stays.
func (s Store) ForgetLink(seq uint64) error { return removeIfThere(seqFile(s.linkDir(), seq)) }

func (s Store) givenFile() string { return filepath.Join(s.State, "given-out.json") }
func (s Store) linkDir() string   { return filepath.Join(s.Runtime, "links") }
