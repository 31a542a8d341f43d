package inventory

import (
	"path/filepath"
	"slices"
	"sync"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
	"hotmount/internal/store"
)

// Shared is what looks have in common, which they need not each gather for
// themselves. The zero value is ready. It is for one Host.
type Shared struct {
	tables   mounts.Reader
	expected store.Expectations

	measuring sync.Mutex
	measured  map[uint64]measured // by disk sequence number
}

// Boot is the kernel's id of this boot.
func (h Host) Boot() (string, error) { return h.sysfs().BootID() }

func (s *Shared) reader() *mounts.Reader {
	if s == nil {
		return new(mounts.Reader)
	}
	return &s.tables
}

func (s *Shared) expectations() *store.Expectations {
	if s == nil {
		return nil
	}
	return &s.expected
}

// Expect has looks go by the sighting, which is of this boot, from now on, whether or not Remember
// can record it. It is for who has Shared.
func (h Host) Expect(seen disk.Sighting) {
	// Without the boot it is of another one; then no look is possible either.
	seen.Identity.Boot, _ = h.Boot()
	h.Shared.expected.Expect(seen)
}

// Remember records what is expected, also what could not be recorded before.
func (h Host) Remember() error {
	all := h.Shared.expected.Expected()
	err := h.Store.Remember(all)
	if err == nil {
		h.Shared.expected.Recorded(all)
	}
	return err
}

// measuredMost bounds what is kept of disks, of which nobody says that they are gone.
const measuredMost = 4096

// measured is what a mounted XFS takes of its disk.
type measured struct {
	path     string
	geometry disk.Geometry
}

// geometry returns that of the disk's XFS in a place of ours, nil if it is not known.
// The open that it needs may wait for whoever waits for the disk with the root
// directory locked (xfs_dir_open in the kernel's fs/xfs/xfs_file.c), and nobody can
// end who waits so: it is made once a mount, and only if the disk owes no answer.
// Else hotmount-grow@.service measures, which may wait.
func (s *Shared) geometry(f *disk.Facts, measure func(string, disk.Dev) (disk.Geometry, error)) *disk.Geometry {
	if s == nil || measure == nil {
		return nil
	}
	s.measuring.Lock()
	known, ok := s.measured[f.Seq]
	s.measuring.Unlock()
	i := slices.IndexFunc(f.Mounts, func(m disk.MountPoint) bool {
		return m.Type == "xfs" && m.Root == "/" && !m.Covered && disk.ValidUUID(filepath.Base(m.Path))
	})
	switch {
	case i < 0:
		if ok {
			s.measuring.Lock()
			delete(s.measured, f.Seq)
			s.measuring.Unlock()
		}
		return nil
	case ok && known.path == f.Mounts[i].Path:
		return &known.geometry
	case f.Uncounted, f.InFlight > 0, f.Fault != "":
		return nil
	}
	g, err := measure(f.Mounts[i].Path, f.Dev)
	if err != nil {
		return nil // a directory that belongs to the pod
	}
	s.measuring.Lock()
	defer s.measuring.Unlock()
	if s.measured == nil || len(s.measured) >= measuredMost {
		s.measured = map[uint64]measured{} // most are of disks that have long gone
	}
	s.measured[f.Seq] = measured{f.Mounts[i].Path, g}
	return &g
}
