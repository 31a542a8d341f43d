package inventory

import (
	"slices"
	"sync"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
	"hotmount/internal/store"
)

// Shared is the state that a Host keeps between two calls of Look. With Shared, a call of Look need not read this state
// again. The zero value of Shared is ready for use. Use each Shared for one Host only.
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

// Expect adds the id of this boot to the sighting. Each later call of Look uses the sighting, even if Remember cannot
// record the sighting. Expect needs a Host whose field Shared is set.
func (h Host) Expect(seen disk.Sighting) {
	// Expect ignores the error of Boot. Without the boot id, the sighting seems to be from another boot. No call of
	// Look uses such a sighting, because Look also fails without the boot id.
	seen.Identity.Boot, _ = h.Boot()
	h.Shared.expected.Expect(seen)
}

// Remember records all expected sightings, including sightings that an earlier call could not record.
func (h Host) Remember() error {
	all := h.Shared.expected.Expected()
	err := h.Store.Remember(all)
	if err == nil {
		h.Shared.expected.Recorded(all)
	}
	return err
}

// measuredMost bounds the number of measurements that are kept. No event removes the measurements of detached disks.
const measuredMost = 4096

// The type `measured` is the measurement of a mounted XFS filesystem.
type measured struct {
	path     string
	geometry disk.Geometry
}

// The method `geometry` returns the geometry of the disk's XFS filesystem that is mounted in a class directory, or nil if
// the geometry is unknown.
//
// The measurement opens the root directory of the filesystem. open(2) needs a lock on the root directory (xfs_dir_open
// in fs/xfs/xfs_file.c). A process that waits for the disk may hold this lock. The wait for the lock cannot be
// interrupted. The method `geometry` therefore keeps each measurement, and measures only while the disk has no request
// in flight. If the method does not measure a filesystem, hotmount-grow@.service measures it, because that unit may
// wait for the lock.
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
		return nil // the pod has denied access to the root directory of its volume
	}
	s.measuring.Lock()
	defer s.measuring.Unlock()
	if s.measured == nil || len(s.measured) >= measuredMost {
		s.measured = map[uint64]measured{} // most of the old entries belong to disks that are long gone
	}
	s.measured[f.Seq] = measured{f.Mounts[i].Path, g}
	return &g
}
