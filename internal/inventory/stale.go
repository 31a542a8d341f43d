package inventory

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"hotmount/internal/disk"
	"hotmount/internal/store"
)

// Stale returns the mounts of detached disks in the directories of all current and earlier classes
// (store.Store.Directories). Each result contains one stale mount, and the recorded facts about its disk. If Stale also
// returns an error, some mounts may be missing from the result.
func (h Host) Stale(s *disk.Settings) ([]disk.Facts, error) {
	table, err := h.Mounts()
	if err != nil {
		return nil, err
	}
	dirs, errs := h.Store.Directories()
	for i := range s.Classes {
		dirs = append(dirs, s.Classes[i].Directory)
	}
	var all []disk.Facts
	for i := range table {
		m := &table[i]
		if !IsPlace(&m.MountPoint) || !slices.Contains(dirs, path.Dir(m.Path)) {
			continue
		}
		seq, err := h.Attached(m.Dev)
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("cannot tell whether the disk of %s is there: %w", m.Path, err))
		}
		if err != nil || seq != 0 {
			continue
		}
		f := disk.Facts{ID: disk.ID{Name: disk.Visible(strings.TrimPrefix(m.Source, "/dev/")), Dev: m.Dev}, Mounts: []disk.MountPoint{m.MountPoint}}
		errs = errors.Join(errs, h.fillRecorded(&f, path.Base(m.Path)))
		all = append(all, f)
	}
	return all, errs
}

// Attached returns the sequence number of the disk or partition with that device number, or 0 if none is attached. If
// an attached device has the device number of a mounted filesystem, the device is the filesystem's own disk. While a
// filesystem is mounted, the kernel gives the device number of its disk to no other device.
func (h Host) Attached(dev disk.Dev) (seq uint64, err error) { return h.sysfs().Attached(dev) }

// The method `load` reads the records, and finds out which unfinished formats began on a disk that is still attached.
// udev's by-diskseq link may be outdated. The method `load` therefore also compares two sequence numbers: the recorded
// number, and the number of the disk to which the link leads.
func (h Host) load(boot string) store.Memory {
	m := h.Store.Load(boot, h.Shared.expectations())
	for i := range m.Intents {
		n := &m.Intents[i]
		name := h.deviceName(disk.ID{Seq: n.Identity.Seq}.BySeq())
		seq, err := h.sysfs().Seq(name)
		n.Attached = n.Identity.Boot == boot && err == nil && seq == n.Identity.Seq
	}
	return m
}

// fillRecorded fills in the recorded facts about the disk of the filesystem with that UUID.
func (h Host) fillRecorded(f *disk.Facts, uuid string) error {
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
