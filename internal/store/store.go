// Package store keeps the facts that hotmount cannot derive from the disks, systemd and the kernel. Package store
// writes to two directories. The state directory (/var/lib/hotmount) is synced and survives reboots. The runtime
// directory (/run/hotmount) survives restarts of the service, but not a reboot. Each record about one attachment is a
// file whose name is the disk sequence number.
package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/policy/identity"
)

// StateDirectory and RuntimeDirectory are the directories that hotmount.service sets with StateDirectory= and
// RuntimeDirectory=.
const (
	StateDirectory   = "/var/lib/hotmount"
	RuntimeDirectory = "/run/hotmount"
)

// The constant `version` is the format version of the JSON files in the state directory. A daemon that finds such a
// file with another version does not change the file, and formats nothing. The daemon does not read running.json, and
// always writes directories.json anew.
const version = 1

// ErrLost reports that state.json does not exist: the state directory was never initialised, or the file was lost.
// Nothing may be formatted until the directory is initialised.
var ErrLost = errors.New("the state directory is not initialised" + disk.Helps + "hotmount state init")

// Store gives access to the state directory and the runtime directory. Several processes may call the methods of Store
// at once, except Publish, Reset, and Accept with a reason. A file is always replaced as a whole. A method takes a lock
// if its change to the state directory depends on the old content of a file.
type Store struct {
	State   string
	Runtime string
	// MachineID is the path of the file with the worker's machine-id. If MachineID is empty, all records are treated as
	// records of this worker.
	MachineID string
}

// Default returns the store of the installed package.
func Default() Store {
	return Store{State: StateDirectory, Runtime: RuntimeDirectory, MachineID: MachineIDFile}
}

// The type `state` is the content of state.json. Each field from Arrival to Used contains a list of disks, which
// belongs to one reason. When the operator accepts a disk for that reason, Accept removes the disk from the list.
type state struct {
	Version int `json:"version"`
	// Machine is the machine-id of the worker to which the records belong, or empty if the daemon has not recorded the
	// machine-id yet.
	Machine string `json:"machine,omitempty"`
	// Arrival contains the disks that were attached at the first start under another machine-id, or at a later Init.
	// Arrival is nil until the machine-id changes, and after KeepMachine.
	Arrival *arrival `json:"arrival,omitempty"`
	// Present lists the disks that were attached when Init recorded them, such as at an installation.
	Present []disk.Identity `json:"present"`
	// Braked lists the disks that were held because the format limit was reached. The disk that was added last is at
	// the end of the list.
	Braked []disk.Identity `json:"braked,omitempty"`
	// Twins lists the disks that were refused because another disk had the same UUID. The disk that was added last is
	// at the end of the list.
	Twins []identity.Twin `json:"twins,omitempty"`
	// Used contains the disks that another program used. The disk that KeepUse added or moved last is at the end.
	Used []disk.Use `json:"used,omitempty"`
	// Drivers is the sorted list of the storage drivers that were seen on this worker.
	Drivers []string `json:"drivers,omitempty"`
}

func (s Store) stateFile() string { return filepath.Join(s.State, "state.json") }

// Init initialises the state directory with the disks that are attached now. If the directory is already initialised,
// Init keeps its content. Init then adds the attached disks only if the package was removed, or if the first start is
// still to come. The result `made` reports whether Init recorded the disks. If Init returns no error, the directory is
// writable, and earlier failed writes no longer stop formatting.
func (s Store) Init(present []disk.Identity) (made bool, err error) {
	_, err = s.load()
	if err != nil && !errors.Is(err, ErrLost) {
		return false, err
	}
	if made = err != nil || s.Removed() || s.First(); made {
		if err := os.MkdirAll(s.State, 0o700); err != nil {
			return false, fmt.Errorf("cannot make the state directory: %w", err)
		}
		err := s.locked(func() error {
			st, err := s.load()
			if err != nil && !errors.Is(err, ErrLost) {
				return err
			}
			if st.Arrival != nil { // after a change of the machine-id, only the disks in Arrival count as already attached
				st.Arrival.Present = slices.Concat(st.Arrival.Present, present)
			}
			for _, p := range st.Present {
				if !slices.ContainsFunc(present, func(n disk.Identity) bool { return n.Like(p) && n.Slot == p.Slot }) {
					present = append(present, p)
				}
			}
			st.Version, st.Present = version, present
			if st.Machine == "" {
				st.Machine, _ = s.machine() // if the machine-id is unknown now, the daemon records it at a later start
			}
			return writeJSON(s.stateFile(), st, true)
		})
		if err != nil {
			return false, fmt.Errorf("cannot initialise the state directory: %w", err)
		}
	}
	if err = s.Check(); err == nil {
		err = wrap(replace(s.soundFile(), nil, true), "cannot initialise the state directory")
	}
	if err == nil {
		err = errors.Join(removeIfThere(s.removedFile()), removeIfThere(s.failedFile()), removeIfThere(s.firstFile()))
	}
	return made, err
}

// Exists reports whether the state directory exists. The directory is made when the package is installed, when
// hotmount.service starts, or by `hotmount state`.
func (s Store) Exists() bool { return exists(s.State) }

// Removed reports whether the package was removed since Init. Disks that were attached while the package was removed
// are not on record, so nothing may be formatted until Init runs. The package's prerm makes the file that shows the
// removal. The package's postrm makes the file again, because dpkg does not always call prerm. If Init ran before the
// installation, postinst makes the file.
func (s Store) Removed() bool {
	return exists(s.removedFile())
}

func (s Store) removedFile() string { return filepath.Join(s.State, "removed") }

// Check writes a file to the state directory, and returns an error if the write fails. If the write fails because the
// filesystem is full, no record is lost, and formatting continues after the next successful Check. After any other
// failed write, nothing is formatted until Init runs.
func (s Store) Check() error {
	path := filepath.Join(s.State, "check")
	err := replace(path, make([]byte, 4*evidenceSize), true)
	if err == nil {
		err = removeIfThere(path)
	}
	if err == nil {
		return removeIfThere(s.fullFile())
	}
	err = fmt.Errorf("cannot write to the state directory: %w", err)
	if errors.Is(err, unix.ENOSPC) {
		return errors.Join(err, replace(s.fullFile(), nil, false))
	}
	return s.failed(err)
}

// The method `save` replaces the file of a record and syncs the new file. On a full filesystem, the method `save` works
// until the whole reserve is used up.
func (s Store) save(path string, v any) error {
	return s.failed(s.WithReserve(func() error { return writeJSON(path, v, true) }))
}

// failed(err) records that a write to the state directory failed with err, and returns err. The error stays recorded
// until Init runs or the machine reboots. After a failed write, the record of a format may be missing (a gap). The call
// also removes soundFile. After a reboot, the missing soundFile shows hotmount that the state has a gap. The removal of
// a file also works on a full filesystem, but not on a read-only filesystem.
func (s Store) failed(err error) error {
	if err == nil {
		return nil
	}
	_ = os.Remove(s.soundFile())
	if _, there := os.Lstat(s.failedFile()); there == nil {
		return err // only the first failure is recorded
	}
	return errors.Join(err, replace(s.failedFile(), []byte(err.Error()), false))
}

func (s Store) failure() error {
	if s.Removed() {
		return errors.New("hotmount was removed and installed again, and the attached disks are not recorded" + disk.Helps + "hotmount state init")
	}
	if s.First() {
		return errors.New("this is a new worker, and its attached disks are not recorded yet" + disk.Helps + "systemctl restart hotmount")
	}
	text, err := readFile(s.failedFile())
	if errors.Is(err, fs.ErrNotExist) {
		if !exists(s.soundFile()) && exists(s.stateFile()) {
			return errors.New(disk.StateGap + " in an earlier boot, and a record may be missing")
		}
		if exists(s.fullFile()) {
			return errors.New(disk.StateFull)
		}
		return nil
	}
	if err != nil {
		return err
	}
	return s.gap(string(text))
}

// The method `gap` returns an error that reports the first failed write, its time, and whether the directory can be
// written now.
func (s Store) gap(text string) error {
	at := "earlier"
	if info, err := os.Stat(s.failedFile()); err == nil {
		at = "at " + info.ModTime().UTC().Format("2006-01-02 15:04 MST")
	}
	var st unix.Statfs_t
	now := "the directory can be written now"
	if err := unix.Statfs(s.State, &st); err != nil {
		now = err.Error()
	} else if why := unwritable(&st); why != "" {
		now = why
	}
	return fmt.Errorf("%s %s (%s), and a record may be missing; %s", disk.StateGap, at, strings.Join(strings.Fields(text), " "), now)
}

func (s Store) soundFile() string { return filepath.Join(s.State, "sound") }

func (s Store) failedFile() string { return filepath.Join(s.Runtime, "state-failed") }

func (s Store) load() (state, error) {
	var st state
	err := readJSON(s.stateFile(), &st)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return st, ErrLost
	case errors.Is(err, fs.ErrPermission):
		return st, fmt.Errorf("cannot read the records: %w; only root may read them", err)
	case isOther(st.Version, err):
		return st, newer(s.stateFile(), st.Version)
	case err != nil:
		return st, damaged(s.stateFile(), err, "begin a new file and hold the blank disks that are attached", "hotmount state init")
	}
	return st, nil
}

// Memory is the content of the state directory and the runtime directory. Load reads the state directory, and Standing
// reads the runtime directory.
type Memory struct {
	identity.Records
	// Drivers is the result of Store.Drivers.
	Drivers []string
	store   Store
}

// Load reads the state directory. The parameter `boot` is the id of the current boot. If a record is unreadable,
// Memory.Lost contains the error. An unreadable record stops formatting, but not mounting.
func (s Store) Load(boot string, e *Expectations) Memory {
	m := Memory{store: s, Records: identity.Records{Boot: boot}}
	var errs [8]error
	var st state
	st, errs[0] = s.load()
	m.Present, m.Arrived, errs[7] = s.present(&st)
	m.Braked, m.Twins, m.Used, m.Drivers = st.Braked, st.Twins, st.Used, st.Drivers
	m.Intents, errs[1] = s.intents()
	m.History, errs[2] = s.History()
	m.Sightings, errs[3] = e.sightings(s)
	errs[4] = s.failure()
	m.Given, errs[5] = s.Given()
	m.Contents, errs[6] = s.NotedSightings()
	m.Lost = cmp.Or(errs[:]...)
	now := time.Now()
	m.Formatted = identity.Formatted(m.History)
	for i := range m.Formatted {
		m.Formats = append(m.Formats, now.Sub(m.Formatted[i].Time(now)))
	}
	return m
}

// Standing returns what is on record about the disk and its attachment.
func (m *Memory) Standing(f *disk.Facts) disk.Standing {
	return m.Records.Standing(f, m.store.attachment(f.Seq))
}

// Accept records the operator's accept for this attachment of the disk.
//
// If the accept names a reason, Accept also removes the lasting records of the disk for this reason. Lasting records
// exist for disks that were attached before installation or at the first start under a new machine-id. Lasting records
// also exist for these reasons: used by another program, format limit, twin, and volume of another class. An accept
// without a reason allows another attempt after a failure or an unmount. An accept without a reason does not end the
// hold of a disk that looks blank. An accept with a reason does not end a release or an unmount by hand.
func (s Store) Accept(f *disk.Facts, boot string, w disk.Word) error {
	if w.Reason != "" {
		if err := s.recordAccept(f, boot, w); err != nil {
			return fmt.Errorf("cannot accept %s: %w", f.Name, err)
		}
	}
	err := errors.Join(s.drop(verdictDir, f.Seq), s.drop(fitDir, f.Seq))
	switch {
	case w.Reason != "" && f.Standing.Unmounted != "":
		return err
	case f.Standing.WasMounted.IsZero():
		return errors.Join(err, s.KeepUnmounted(f, ""))
	}
	// Without this record, a daemon that starts before the disk is mounted again would assume that the disk was
	// unmounted by hand. The running daemon knows that the disk is to be mounted, even if the record cannot be written.
	if s.KeepUnmounted(f, remount) != nil {
		err = errors.Join(err, s.KeepUnmounted(f, ""))
	}
	return err
}

// The constant `remount` is a value in the record that KeepUnmounted writes. The value remount means that the disk is to
// be mounted again. Every other value means that the disk stays unmounted.
const remount = disk.Reason("remount")

func (s Store) recordAccept(f *disk.Facts, boot string, w disk.Word) error {
	id := f.Identity(boot)
	// An accept applies to one disk only. All lists except Twins keep the records of another disk with the same serial
	// or WWN. Twins keeps a record if neither serial, WWN nor slot shows that the refused disk is the accepted disk.
	unambiguous := func(p disk.Identity) bool { return isUnambiguous(f, p.Slot) }
	err := s.change(func(st *state) {
		switch w.Reason {
		case disk.ReasonNewMachine:
			if st.Arrival != nil {
				st.Arrival.Present = slices.DeleteFunc(st.Arrival.Present, func(p disk.Identity) bool { return id.MayBe(p) && unambiguous(p) })
			}
		case disk.ReasonPresent:
			st.Present = slices.DeleteFunc(st.Present, func(p disk.Identity) bool { return id.MayBe(p) && unambiguous(p) })
		case disk.ReasonUsed:
			st.Used = slices.DeleteFunc(st.Used, func(u disk.Use) bool {
				return u.Is(id, f.KnownContent().UUID) && unambiguous(u.Identity) || u.OfWhole(f)
			})
		case disk.ReasonBrake:
			st.Braked = slices.DeleteFunc(st.Braked, func(p disk.Identity) bool { return id.Is(p) && unambiguous(p) })
		case disk.ReasonTwin:
			st.Twins = slices.DeleteFunc(st.Twins, func(t identity.Twin) bool { return t.Is(id, f.KnownContent().UUID, true, false) })
		}
	})
	switch {
	case err != nil:
	case w.Reason == disk.ReasonOtherClass:
		err = s.recordFreed(f)
	case w.Reason == disk.ReasonUsed:
		err = errors.Join(s.drop(usedDir, f.Seq), s.drop(usedDir, f.DiskSeq()))
	}
	if all := s.attachment(f.Seq).Accepted; err == nil && !slices.Contains(all, w) {
		err = s.keep(acceptedDir, f.Seq, append(all, w))
	}
	return err
}

// isUnambiguous reports whether a record that matches the disk is about this disk, and not about another attached disk
// with the same serial or WWN. The parameter `slot` is the slot in the record.
func isUnambiguous(f *disk.Facts, slot string) bool {
	return len(f.SameSerial)+len(f.SameWWN) == 0 || slot == f.Slot
}

// The method `change` calls f with the state. If f has changed the state, the method `change` writes the state durably. If
// f changes nothing, the call succeeds even if the state directory cannot be written.
func (s Store) change(f func(*state)) error {
	changed := func() (st state, differs bool, err error) {
		if st, err = s.load(); err != nil {
			return st, false, err
		}
		before, err := json.Marshal(st)
		f(&st)
		after, afterErr := json.Marshal(st)
		return st, !bytes.Equal(before, after), cmp.Or(err, afterErr)
	}
	if _, differs, err := changed(); err != nil || !differs {
		return err
	}
	return s.locked(func() error {
		st, differs, err := changed()
		if err != nil || !differs {
			return err
		}
		return s.save(s.stateFile(), st)
	})
}

// RecordHold durably records that a disk stays held or refused after the cause has gone. The cause is the format limit
// (ReasonBrake), another disk with the same UUID (ReasonTwin), or another disk with the serial of a block volume
// (ReasonSerialTwice). Accept removes a record of ReasonBrake or ReasonTwin. A record of ReasonSerialTwice is
// permanent.
func (s Store) RecordHold(f *disk.Facts, boot string, reason disk.Reason) error {
	if reason == disk.ReasonSerialTwice {
		return s.amendGiven(f, func(g *disk.Given) { g.Twice = true })
	}
	err := s.change(func(st *state) {
		id := f.Identity(boot)
		if reason == disk.ReasonTwin {
			st.Twins = lastKept(append(st.Twins, identity.Twin{Identity: id, UUID: f.KnownContent().UUID}))
		} else {
			st.Braked = lastKept(append(st.Braked, id))
		}
	})
	return wrap(err, "cannot record that %s is held", f.Name)
}
