package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// MachineIDFile is the file with the id of the worker (machine-id(5)).
const MachineIDFile = "/etc/machine-id"

// The type `arrival` lists the disks that were attached when the daemon first started under a machine-id that differs
// from the recorded machine-id. If Init records attached disks later, Init adds these disks.
type arrival struct {
	Machine string          `json:"machine"`
	Present []disk.Identity `json:"present"`
}

// machineHelps is the command that helps on a worker without a machine-id.
const machineHelps = disk.Helps + "systemd-machine-id-setup && systemctl restart hotmount"

var machineID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// The method `machine` returns the worker's machine-id, or "" if the field Store.MachineID is empty.
func (s Store) machine() (string, error) {
	if s.MachineID == "" {
		return "", nil
	}
	text, err := readFile(s.MachineID)
	if err != nil {
		return "", fmt.Errorf("cannot read the machine-id: %w"+machineHelps, err)
	}
	id := strings.TrimSpace(string(text))
	if !machineID.MatchString(id) {
		return "", fmt.Errorf("cannot use the machine-id in %s: it does not have 32 hexadecimal digits"+machineHelps, s.MachineID)
	}
	return id, nil
}

// The method `present` returns two lists of disks that apply to this worker. The first list contains the disks that were
// attached before hotmount was installed. If the records belong to another machine-id, the first list is empty, because
// the slots in these records mean nothing on this worker. The second list then contains the disks that were attached at
// the first start under this machine-id. If the method `present` returns an error, nothing may be formatted.
func (s Store) present(st *state) (before, arrived []disk.Identity, err error) {
	id, err := s.machine()
	switch {
	case s.MachineID == "" || st.Machine == "" || err == nil && id == st.Machine:
		return st.Present, nil, nil
	case err != nil:
		return st.Present, nil, err
	case st.Arrival == nil || st.Arrival.Machine != id:
		return nil, nil, errors.New("the machine-id has changed, and the attached disks are not recorded yet" + disk.Helps + "systemctl restart hotmount")
	}
	return nil, st.Arrival.Present, nil
}

// First reports whether the next start of the daemon is the first one: hotmount was installed into an image, or
// `hotmount state reset` was run. Nothing may be formatted until the disks that are attached at the first start are
// recorded.
func (s Store) First() bool {
	return exists(s.firstFile())
}

// Start records the worker's machine-id and, if necessary, the attached disks, before the daemon looks at the first
// disk. Start calls the function `attached` only at the first start, and at the first start under another machine-id.
func (s Store) Start(attached func() ([]disk.Identity, error)) error {
	return wrap(s.start(attached), "cannot record which disks are attached at the first start, so no disk is formatted")
}

func (s Store) start(attached func() ([]disk.Identity, error)) error {
	if s.First() {
		all, err := attached()
		if err == nil {
			_, err = s.Init(all)
		}
		if err != nil {
			return err
		}
	}
	st, err := s.load()
	if err != nil {
		return nil // Load reports the error
	}
	id, err := s.machine()
	switch {
	case err != nil || id == "" || st.Machine == id || st.Arrival != nil && st.Arrival.Machine == id:
		return nil
	case st.Machine == "": // the machine-id was unknown when the records were made
		return s.change(func(st *state) { st.Machine = id })
	}
	all, err := attached()
	if err != nil {
		return err
	}
	return s.change(func(st *state) { st.Arrival = &arrival{id, all} })
}

// Elsewhere reports whether the records belong to a worker with another machine-id. Elsewhere returns false if one of
// the two machine-ids is unknown.
func (s Store) Elsewhere() bool {
	st, err := s.load()
	id, idErr := s.machine()
	return err == nil && idErr == nil && id != "" && st.Machine != "" && st.Machine != id
}

// KeepMachine makes the existing records belong to this worker's current machine-id. KeepMachine ends the holds that
// began at the first start under the current machine-id.
func (s Store) KeepMachine() error {
	id, err := s.machine()
	if err == nil {
		err = s.change(func(st *state) { st.Machine, st.Arrival = id, nil })
	}
	return wrap(err, "cannot record that this is the same worker")
}

// Reset removes all records of the worker from the state directory. After Reset, the next start of the daemon is
// treated as its first start. Reset keeps the list of class directories, because the directories stay on this system
// and may need a cleanup. No other process may use the store during Reset.
func (s Store) Reset() error {
	err := os.MkdirAll(s.State, 0o700)
	if err == nil {
		// Reset first writes the file that marks a first start, and only then removes files. A crash therefore never
		// leaves a state in which hotmount may format a disk.
		err = replace(s.firstFile(), nil, true)
	}
	var entries []os.DirEntry
	if err == nil {
		entries, err = os.ReadDir(s.State)
	}
	kept := []string{filepath.Base(s.firstFile()), filepath.Base(s.directoriesFile()), "lock"}
	for _, e := range entries {
		if !slices.Contains(kept, e.Name()) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.State, e.Name())))
		}
	}
	// Reset also removes each accept that the operator gave on the former worker, because such an accept must not apply
	// to the new worker.
	err = errors.Join(err, os.RemoveAll(filepath.Join(s.Runtime, string(acceptedDir))), syncDir(s.State))
	return wrap(err, "cannot reset the state directory")
}

func (s Store) firstFile() string { return filepath.Join(s.State, "first-start") }
