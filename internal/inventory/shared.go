package inventory

import (
	"slices"
	"sync"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
	"hotmount/internal/store"
)

// Shared is the state that looks have in common, so that not each has to gather it. The zero value is ready. It is for
// one Host.
type Shared struct {
	tables   mounts.Reader
	expected store.Expectations

	measuring sync.Mutex
	measured  map[uint64]measured // by disk sequence number
}

// Boot returns the kernel's id of this boot.
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

// Expect makes looks use the sighting of this boot from now on, whether or not Remember can record it. It needs Shared.
func (h Host) Expect(seen disk.Sighting) {
	// Without a boot id it counts as another boot's. No look is possible then either.
	seen.Identity.Boot, _ = h.Boot()
	h.Shared.expected.Expect(seen)
}

// Remember records all expected sightings, including those that it could not record before.
func (h Host) Remember() error {
	all := h.Shared.expected.Expected()
	err := h.Store.Remember(all)
	if err == nil {
		h.Shared.expected.Recorded(all)
	}
	return err
}

// measuredMost bounds the measurements that are kept, because no event removes those of detached disks.
const measuredMost = 4096

// measured is the part of its disk that a mounted XFS uses.
type measured struct {
	path     string
	geometry disk.Geometry
}

// geometry returns the geometry of the disk's XFS where hotmount mounts it, nil if unknown.
//
// Measuring needs an open. That may wait for a process that waits for the disk with the root directory locked
// (xfs_dir_open in fs/xfs/xfs_file.c), and nothing can end such a wait. So geometry measures once for each mount, and
// only if the disk owes no answer. Otherwise hotmount-grow@.service measures, which may wait.
func (s *Shared) geometry(f *disk.Facts, measure func(string, disk.Dev) (disk.Geometry, error)) *disk.Geometry {
	if s == nil || measure == nil {
		return nil
	}
	s.measuring.Lock()
	known, ok := s.measured[f.Seq]
	s.measuring.Unlock()
	i := slices.IndexFunc(f.Mounts, func(m disk.MountPoint) bool {
		return m.Type == "xfs" && !m.Covered && IsPlace(&m)
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
		s.measured = map[uint64]measured{} // most of these disks are long gone
	}
	s.measured[f.Seq] = measured{f.Mounts[i].Path, g}
	return &g
}
