package inventory

import (
	"time"

	"hotmount/internal/disk"
)

// Udev needs seconds for the disks of a boot. udevTime is how long the first start waits for it, udevEvery how often it
// looks.
const (
	udevTime  = 5 * time.Second
	udevEvery = 50 * time.Millisecond
)

// RecordArrival records the attached disks if this is the daemon's first start on the worker, or under its machine-id.
// It first waits for udev, which knows the slot of a SCSI disk. Later only a disk's serial or slot identifies it.
func (h Host) RecordArrival() error {
	return h.Store.Start(func() ([]disk.Identity, error) {
		for end := time.Now().Add(udevTime); time.Now().Before(end); time.Sleep(udevEvery) {
			if unknown, err := h.Unknown(); err == nil && len(unknown) == 0 {
				break
			}
		}
		return h.identities()
	})
}

// identities returns the identities of all attached disks.
func (h Host) identities() ([]disk.Identity, error) {
	boot, err := h.Boot()
	if err != nil {
		return nil, err
	}
	names, err := h.Names()
	if err != nil {
		return nil, err
	}
	disks, err := each(names, h.sysfs().Disk)
	if err != nil {
		return nil, err
	}
	var all []disk.Identity
	for i := range disks {
		all = append(all, disks[i].Identity(boot))
	}
	return all, nil
}

// Elsewhere returns, in words, that the records belong to a worker with another machine-id, and what ends that. Both are
// empty if they are not.
func (h Host) Elsewhere() (what, next string) {
	if !h.Store.Elsewhere() {
		return "", ""
	}
	return "the records in " + h.Store.State + " belong to a worker with another machine-id: blank disks that were attached at the first start under this machine-id are formatted only with format_present",
		"if this is the same worker with a new machine-id: hotmount state keep; if this is another worker, such as a clone: hotmount state reset"
}
