package store

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"hotmount/internal/disk"
)

// KeepUse durably records how another program uses the disk. The record keeps the disk on hold until the operator
// accepts the disk. If the state directory cannot be written, KeepUse returns an error. After a failed write, the
// record is valid only for this attachment. If the disk already has a record, KeepUse moves this record to the end of
// the list, because lastKept drops the oldest records.
func (s Store) KeepUse(f *disk.Facts, boot, how string) error {
	use := disk.Use{Identity: f.Identity(boot), UUID: f.KnownContent().UUID, How: truncate(how, 512), Seen: time.Now().UTC().Round(0)}
	err := s.change(func(st *state) {
		newest := use
		if i := slices.IndexFunc(st.Used, func(u disk.Use) bool { return u.Is(use.Identity, use.UUID) }); i >= 0 {
			newest = st.Used[i]
			st.Used = slices.Delete(st.Used, i, i+1)
		}
		st.Used = lastKept(append(st.Used, newest))
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot record that somebody else uses %s, so hotmount may mount the disk by mistake after a reboot: %w", f.Name, errors.Join(err, s.keep(usedDir, f.Seq, use)))
}

// SaveOpener records which process has the disk with that sequence number open. If o is nil, SaveOpener records that no
// process has the disk open.
func (s Store) SaveOpener(seq uint64, o *disk.Opener) error {
	return wrap(s.keep(openerDir, seq, o), "cannot record who has the disk open")
}

// TakeOpener returns the record that SaveOpener has written, and removes this record. Without a record, TakeOpener
// returns an error.
func (s Store) TakeOpener(seq uint64) (*disk.Opener, error) {
	var o *disk.Opener
	err := readJSON(s.record(openerDir, seq), &o)
	if err == nil {
		err = s.drop(openerDir, seq)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("the search for open files wrote no result")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read who has the disk open: %w", err)
	}
	return o, nil
}

// RememberDrivers durably adds the names to the list of storage drivers that were seen on this worker. After a storage
// driver has ended normally, its sockets are gone, but its disks may still be attached.
func (s Store) RememberDrivers(names []string) error {
	err := s.change(func(st *state) {
		st.Drivers = append(st.Drivers, names...)
		slices.Sort(st.Drivers)
		st.Drivers = lastKept(slices.Compact(st.Drivers))
	})
	return wrap(err, "cannot record the storage drivers of this node, so hotmount may use a driver's disks when the driver no longer runs")
}

// Drivers returns the names that RememberDrivers has recorded, or none if the state directory cannot be read.
func (s Store) Drivers() []string {
	st, _ := s.load() // Load reports the error
	return st.Drivers
}
