package inventory

import (
	"time"

	"hotmount/internal/disk"
)

// At boot, udev takes seconds to process the disks. udevTime is the longest time that the first start waits for udev.
// udevEvery is the time between two checks of udev's progress.
const (
	udevTime  = 5 * time.Second
	udevEvery = 50 * time.Millisecond
)

// RecordArrival records the attached disks at the daemon's first start on the worker (store.Store.First), and at the
// first start under a new machine-id. RecordArrival first waits for udev, because only udev knows the slot of a SCSI
// disk. After a reboot, the daemon can recognise a disk only by its serial, its WWN or its slot.
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
	disks, err := gatherEach(names, h.sysfs().Disk)
	if err != nil {
		return nil, err
	}
	var all []disk.Identity
	for i := range disks {
		all = append(all, disks[i].Identity(boot))
	}
	return all, nil
}

// Elsewhere returns two texts. The first text reports that the records belong to a worker with another machine-id. The
// second text contains the commands that help. Both texts are empty if the records belong to this worker.
func (h Host) Elsewhere() (what, next string) {
	if !h.Store.Elsewhere() {
		return "", ""
	}
	return "the records in " + h.Store.State + " belong to a worker with another machine-id; if format_present is false, hotmount holds the blank disks that were attached at its first start under this machine-id",
		"if this is the same worker with a new machine-id: hotmount state keep; if this is another worker, such as a clone: hotmount state reset"
}
