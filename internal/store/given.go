package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"time"

	"hotmount/internal/disk"
)

// givenOut is the content of given-out.json. Only a format with an operator's token (RemoveGiven) and Reset remove a
// record. Without the record of a former block volume, hotmount could mistake the disk for a blank disk.
type givenOut struct {
	Version int          `json:"version"`
	Disks   []disk.Given `json:"disks"`
}

// Given returns the records of the disks that were given out as block volumes, except records that RemoveGiven or Reset
// has removed. If the file has another format version, Given returns an error and all records that it can parse.
func (s Store) Given() ([]disk.Given, error) {
	var all givenOut
	err := readJSON(s.givenFile(), &all)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case isOther(all.Version, err):
		return all.Disks, newer(s.givenFile(), all.Version)
	case err != nil:
		return nil, fmt.Errorf("cannot read %s: %w"+disk.Helps+"do not remove the file, because hotmount would then format former block volumes that look blank; restore the file from a backup, then: hotmount rescan", s.givenFile(), err)
	}
	return all.Disks, nil
}

// changeGiven calls change(records). If the result differs from the records, changeGiven replaces and syncs the file.
func (s Store) changeGiven(change func([]disk.Given) []disk.Given) error {
	return s.locked(func() error {
		before, err := s.Given()
		if err != nil {
			return err
		}
		all := change(slices.Clone(before))
		if slices.Equal(all, before) {
			return nil
		}
		return s.save(s.givenFile(), givenOut{Version: version, Disks: all})
	})
}

// GiveOut durably records that hotmount is about to give the disk out as a block volume of that class. The parameter
// link is the path of the block volume. GiveOut makes a permanent record, and a second record that lasts only for this
// attachment. GiveOut fails if the state directory was never initialised.
func (s Store) GiveOut(f *disk.Facts, boot, class, link string) error {
	_, err := s.load()
	if err == nil {
		err = s.changeGiven(func(all []disk.Given) []disk.Given {
			now := disk.Given{Serial: f.Serial, WWN: f.WWN, Size: f.Size, Link: link, Class: class, Slot: f.Slot, Seq: f.Seq, Boot: boot, First: time.Now().UTC().Round(0)}
			if i := slices.IndexFunc(all, func(g disk.Given) bool { return g.Serial == f.Serial && g.WWN == f.WWN }); i >= 0 {
				now.First, now.Twice = all[i].First, all[i].Twice
				all[i] = now
				return all
			}
			return append(all, now)
		})
	}
	if err == nil {
		err = keepText(s.record(linkDir, f.Seq), link)
	}
	return wrap(err, "cannot record that %s is given out", f.ID)
}

// amendGiven durably changes every block volume record that may be about the disk.
func (s Store) amendGiven(f *disk.Facts, amend func(*disk.Given)) error {
	err := s.changeGiven(func(all []disk.Given) []disk.Given {
		for i := range all {
			if all[i].Is(f) {
				amend(&all[i])
			}
		}
		return all
	})
	return wrap(err, "cannot change the record of the block volume on %s", f.Name)
}

// RemoveGiven durably removes the block volume record of a disk. The disk has just been formatted with the operator's
// token. RemoveGiven keeps a record whose serial or WWN differs from the disk's, and the record of a serial that
// several disks have. Such a record may be about another disk. If RemoveGiven keeps a record that may be about this
// disk, it returns an error.
func (s Store) RemoveGiven(f *disk.Facts) error {
	kept := false
	err := s.changeGiven(func(all []disk.Given) []disk.Given {
		all = slices.DeleteFunc(all, func(g disk.Given) bool {
			same := g.Serial == f.Serial && g.WWN == f.WWN || g.Same(f)
			return g.Is(f) && same && !g.Twice && isUnambiguous(f, g.Slot)
		})
		kept = slices.ContainsFunc(all, func(g disk.Given) bool { return g.Is(f) })
		return all
	})
	if err == nil && kept {
		err = errors.New("hotmount keeps a record that may be about another disk with this serial or WWN")
	}
	return wrap(err, "cannot remove the record of the block volume on %s", f.Name)
}

// recordFreed durably records that the volume on the disk no longer belongs to a class. If several records of block
// volumes may be about the disk, recordFreed changes only the record in Standing.Given.
func (s Store) recordFreed(f *disk.Facts) error {
	var err error
	if given := f.Standing.Given; given != nil {
		err = s.amendGiven(f, func(g *disk.Given) {
			if g.Serial == given.Serial && g.WWN == given.WWN {
				g.Class = ""
			}
		})
	}
	if v := f.Standing.Volume; v != nil && err == nil {
		freed := *v
		freed.Class, freed.Directory = "", ""
		err = s.Remember([]disk.Sighting{freed})
	}
	return err
}

// Link returns the path that GiveOut last recorded for the attachment with that sequence number, or "" if there is no
// record.
func (s Store) Link(seq uint64) (string, error) {
	link, err := readFile(s.record(linkDir, seq))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the record of the disk's link: %w", err)
	}
	if p := string(link); !path.IsAbs(p) || path.Clean(p) != p {
		return "", fmt.Errorf("cannot use the record of the disk's link: %q is not a clean absolute path", disk.Visible(p))
	}
	return string(link), nil
}

// ForgetLink records that the disk of this attachment is no longer given out. The permanent record of the volume stays.
func (s Store) ForgetLink(seq uint64) error { return s.drop(linkDir, seq) }

func (s Store) givenFile() string { return filepath.Join(s.State, "given-out.json") }
