package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// Stale gives what is still mounted in a place that a class gives out although its
// disk is gone: of each what is remembered of the disk, and that mount alone. With an
// error there may be more.
func (h Host) Stale(s *disk.Settings) ([]disk.Facts, error) {
	table, err := h.Mounts()
	if err != nil {
		return nil, err
	}
	var all []disk.Facts
	var errs error
	for _, m := range table {
		given := slices.ContainsFunc(s.Classes, func(c disk.Class) bool { return c.Directory == path.Dir(m.Path) })
		if !given || m.Root != "/" || m.Dev.Major == 0 || !disk.ValidUUID(path.Base(m.Path)) {
			continue
		}
		_, err := os.Lstat(filepath.Join("/", h.Root, "sys/dev/block", m.Dev.String()))
		if err == nil {
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, fmt.Errorf("cannot tell whether the disk of %s is there: %w", m.Path, err))
			continue
		}
		f := disk.Facts{ID: disk.ID{Name: disk.Visible(strings.TrimPrefix(m.Source, "/dev/")), Dev: m.Dev}, Mounts: []disk.MountPoint{m.MountPoint}}
		errs = errors.Join(errs, h.recall(&f, path.Base(m.Path)))
		all = append(all, f)
	}
	return all, errs
}

// recall fills in what is remembered of the disk with that filesystem.
func (h Host) recall(f *disk.Facts, uuid string) error {
	boot, err := h.Boot()
	if err != nil {
		return err
	}
	seen, err := h.Store.Sightings()
	for _, n := range seen {
		if n.UUID == uuid && n.Identity.Boot == boot {
			f.Seq, f.Serial, f.Slot, f.Size = n.Identity.Seq, n.Identity.Serial, n.Identity.Slot, n.Identity.Size
		}
	}
	return err
}
