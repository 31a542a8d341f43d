package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotmount/internal/disk"
)

const builder, clone, third = "0f3b5c6d7e8f4a1b9c2d3e4f5a6b7c8d", "11111111222233334444555555555555", "99999999222233334444555555555555"

// withMachineID(t, s, id) makes the worker's machine-id file, and returns the Store with the path of that file. If id is
// empty, the worker has no machine-id.
func withMachineID(t *testing.T, s Store, id string) Store {
	t.Helper()
	s.MachineID = filepath.Join(filepath.Dir(s.State), "machine-id")
	err := os.WriteFile(s.MachineID, []byte(id+"\n"), 0o644)
	if id == "" {
		err = os.Remove(s.MachineID)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The function `starts` calls Start, as the daemon does, while the given disks are attached. The result reports whether
// Start called the function that lists the attached disks.
func starts(t *testing.T, s Store, boot string, attached ...*disk.Facts) (asked bool) {
	t.Helper()
	err := s.Start(func() (all []disk.Identity, err error) {
		asked = true
		for _, f := range attached {
			all = append(all, f.Identity(boot))
		}
		return all, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return asked
}

// The function `effect` returns the effect of the records on a blank disk: "off", "present", "arrived", "both" or
// "nothing".
func effect(s Store, f *disk.Facts, boot string) string {
	switch st := standing(s, f, boot); {
	case st.Formatting != "":
		return "off"
	case st.Present != nil && st.Arrived != nil:
		return "both"
	case st.Present != nil:
		return "present"
	case st.Arrived != nil:
		return "arrived"
	}
	return "nothing"
}

// The function `expect` checks the effect of the records on several disks.
func expect(t *testing.T, when string, s Store, boot string, want map[*disk.Facts]string) {
	t.Helper()
	for f, w := range want {
		if got := effect(s, f, boot); got != w {
			t.Errorf("%s: %s of serial %q: %s, want %s", when, f.Name, f.Serial, got, w)
		}
	}
}

// TestAnotherMachineID checks that a clone of a machine holds the disks of its first start. On the clone, the records
// of the original machine must cause no hold. The holds persist across reboots until the operator decides whether the
// clone is the same worker.
func TestAnotherMachineID(t *testing.T) {
	seed, old := facts("vdb", 2, ""), facts("vdc", 3, "OLD")
	was := made(t, seed.Identity("boot1"), old.Identity("boot1"))
	was = withMachineID(t, was, builder)
	if asked := starts(t, was, "boot1", seed, old); asked {
		t.Error("the disks are recorded again in the state of an older hotmount")
	}
	expect(t, "the builder", was, "boot1", map[*disk.Facts]string{seed: "present", old: "present"})
	if was.Elsewhere() {
		t.Error("the builder is taken for another worker")
	}

	s := withMachineID(t, was, clone)
	first, later, inItsSlot := facts("vdd", 4, "NEW"), facts("vde", 9, "S9"), facts("vdb", 10, "")
	expect(t, "before the first start", s, "boot2", map[*disk.Facts]string{first: "off", seed: "off"})
	if !starts(t, s, "boot2", first) || starts(t, s, "boot2", first, later) {
		t.Error("the disks are not recorded at the first start, or once more")
	}
	expect(t, "the clone", s, "boot2", map[*disk.Facts]string{first: "arrived", later: "nothing", inItsSlot: "nothing", old: "nothing"})
	moved := facts("vdq", 11, "NEW")
	expect(t, "the clone's next boot", s, "boot3", map[*disk.Facts]string{moved: "arrived", later: "nothing", inItsSlot: "nothing"})
	if !s.Elsewhere() || starts(t, s, "boot3", later) {
		t.Error("it is not known any more that this is a clone")
	}

	if err := s.Accept(moved, "boot3", disk.Word{Reason: disk.ReasonNewMachine}); err != nil {
		t.Fatal(err)
	}
	if st := standing(s, moved, "boot3"); st.Arrived != nil || !st.Lifted(disk.ReasonNewMachine, "") {
		t.Errorf("after accept: %+v", st)
	}
	expect(t, "accepted, the next boot", s, "boot4", map[*disk.Facts]string{facts("vdd", 4, "NEW"): "nothing"})

	// hotmount must treat each new machine-id as a new worker, even if the id changes at each boot.
	s = withMachineID(t, s, third)
	expect(t, "a third id", s, "boot5", map[*disk.Facts]string{later: "off"})
	if !starts(t, s, "boot5", later) {
		t.Error("a third id is not noticed")
	}
	expect(t, "a third id, recorded", s, "boot5", map[*disk.Facts]string{later: "arrived", first: "nothing"})

	s = withMachineID(t, s, builder)
	expect(t, "the builder again", s, "boot6", map[*disk.Facts]string{facts("vdb", 30, ""): "present", later: "nothing"})
	if s.Elsewhere() {
		t.Error("the builder's own id is another one")
	}
}

// TestKeepMachine checks that the same worker with a new machine-id keeps its own records.
func TestKeepMachine(t *testing.T) {
	old, first := facts("vdc", 3, "OLD"), facts("vdd", 4, "NEW")
	s := withMachineID(t, made(t, old.Identity("boot1")), builder)
	starts(t, s, "boot1")
	s = withMachineID(t, s, clone)
	starts(t, s, "boot2", first, old)
	expect(t, "before", s, "boot2", map[*disk.Facts]string{first: "arrived", old: "arrived"})
	if err := s.KeepMachine(); err != nil {
		t.Fatal(err)
	}
	expect(t, "after", s, "boot2", map[*disk.Facts]string{first: "nothing", facts("vdx", 20, "OLD"): "present"})
	if s.Elsewhere() || starts(t, s, "boot3", first) {
		t.Error("it is another worker still")
	}
	s = withMachineID(t, s, builder)
	if !s.Elsewhere() {
		t.Error("the former id is this worker's, too")
	}
	lost := withMachineID(t, newStore(t), clone)
	if err := lost.KeepMachine(); !errors.Is(err, ErrLost) {
		t.Errorf("without a state: %v", err)
	}
}

// TestNoMachineID checks that hotmount formats no disk if the worker's machine-id is unknown. Records without a machine-id
// must apply to every worker.
func TestNoMachineID(t *testing.T) {
	f := facts("vdb", 2, "S1")
	s := withMachineID(t, made(t), builder)
	starts(t, s, "boot1")
	for _, id := range []string{"", "uninitialized", builder + "0", strings.Repeat("x", 32), strings.Repeat("0", 5<<20)} {
		s := withMachineID(t, s, id)
		if st := standing(s, f, "boot2"); !strings.Contains(st.Formatting, "machine-id") || !strings.Contains(st.Formatting, "systemd-machine-id-setup") || len(st.Formatting) > 300 {
			t.Errorf("%.20q: %q", id, st.Formatting)
		}
		if starts(t, s, "boot2", f) || s.Elsewhere() || s.KeepMachine() == nil {
			t.Errorf("%.20q is taken for an id", id)
		}
		withMachineID(t, s, builder)
	}
	s = withMachineID(t, made(t), builder)
	s = withMachineID(t, s, "")
	expect(t, "no worker is named", s, "boot1", map[*disk.Facts]string{f: "nothing"})
}

// TestFirstStart checks that the first start in a clone of an image records the attached disks, as an installation
// does.
func TestFirstStart(t *testing.T) {
	s := newStore(t)
	for _, dir := range []string{s.State, s.Runtime} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s = withMachineID(t, s, clone)
	// The package's postinst script also makes the file that marks a first start.
	if err := os.WriteFile(s.firstFile(), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	there, later := facts("vdb", 2, ""), facts("vdc", 3, "S")
	expect(t, "before", s, "boot1", map[*disk.Facts]string{there: "off"})
	fails := errors.New("cannot look")
	if err := s.Start(func() ([]disk.Identity, error) { return nil, fails }); !errors.Is(err, fails) {
		t.Errorf("error %v", err)
	}
	expect(t, "without a look", s, "boot1", map[*disk.Facts]string{there: "off"})
	if !starts(t, s, "boot1", there) || starts(t, s, "boot1", later) || s.First() || s.Elsewhere() {
		t.Error("not once")
	}
	expect(t, "after", s, "boot1", map[*disk.Facts]string{there: "present", later: "nothing"})

	// A crash interrupted the reset, and the records still exist.
	if err := os.WriteFile(s.firstFile(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cut := facts("vde", 5, "CUT")
	if !starts(t, s, "boot1", cut) || s.First() {
		t.Error("a reset that was cut short is not noticed")
	}
	expect(t, "cut short", s, "boot1", map[*disk.Facts]string{cut: "present", there: "present"})

	// The package was removed and reinstalled while the system was not running. The disks that are attached now must
	// also be recorded as present.
	for _, mark := range []string{s.removedFile(), s.firstFile()} {
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !starts(t, s, "boot2", later) || s.Removed() {
		t.Error("a reinstallation into an image is not noticed")
	}
	expect(t, "installed once more", s, "boot2", map[*disk.Facts]string{facts("vdb", 9, ""): "present", later: "present", facts("vdd", 7, "T"): "nothing"})
}

// TestReset checks that Reset keeps only the list of class directories of the former worker. After a reset, even a very
// recent accept must be gone.
func TestReset(t *testing.T) {
	f, block := facts("vdb", 2, "S1"), facts("vdc", 3, "S2")
	s := withMachineID(t, made(t, f.Identity("boot1")), builder)
	starts(t, s, "boot1")
	settings := &disk.Settings{Classes: []disk.Class{{Directory: "/mnt/disks"}}}
	for _, err := range []error{
		s.Accept(f, "boot1", disk.Word{Reason: disk.ReasonPresent}), s.RecordHold(f, "boot1", disk.ReasonBrake), s.GiveOut(block, "boot1", "raw", "/mnt/raw/virtio-S2"),
		s.Remember([]disk.Sighting{{Identity: f.Identity("boot1"), UUID: uuid, Type: "xfs", Full: true}}), s.Begin(disk.Intent{Identity: f.Identity("boot1"), UUID: uuid}),
		s.Note([]disk.Sighting{{Identity: block.Identity("boot1"), Type: "swap"}}), s.SaveDirectories(settings), s.RememberDrivers([]string{"csi.example.com"}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Reset(); err != nil {
		t.Fatal(err)
	}
	expect(t, "before the start", s, "boot1", map[*disk.Facts]string{f: "off", block: "off"})
	var left []string
	entries, err := os.ReadDir(s.State)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if strings.Join(left, " ") != "directories.json first-start lock" || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	s = withMachineID(t, s, clone)
	if !starts(t, s, "boot1", f) || s.Elsewhere() {
		t.Error("it is no first start")
	}
	expect(t, "after the start", s, "boot1", map[*disk.Facts]string{f: "present", block: "nothing"})
	if st := standing(s, f, "boot1"); st.Lifted(disk.ReasonPresent, "") || st.Braked || st.Intent != nil || st.FormerSerial != nil {
		t.Errorf("%+v", st)
	}
	if st := standing(s, block, "boot1"); st.Given != nil || st.FormerSerial != nil {
		t.Errorf("%+v", st)
	}
	if all := s.Drivers(); len(all) > 0 {
		t.Errorf("the drivers of the former worker: %v", all)
	}
	// Reset must also succeed without a state directory.
	none := newStore(t)
	if err := none.Reset(); err != nil || !none.First() {
		t.Errorf("without a state directory: %v", err)
	}
}

// TestUngive checks that a disk is no longer treated as a block volume after a format with a token. The records of
// other disks must stay.
func TestUngive(t *testing.T) {
	s := made(t)
	one, two, other := facts("vdb", 2, "S1"), facts("vdc", 3, "S2"), facts("vdd", 4, "S1")
	one.WWN, other.WWN = "naa.1", "naa.2"
	for _, f := range []*disk.Facts{one, two, other} {
		if err := s.GiveOut(f, "boot1", "raw", "/mnt/raw/virtio-"+f.Serial+f.WWN); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RemoveGiven(one); err == nil {
		t.Error("the record of the other disk with this serial is not reported")
	}
	if standing(s, two, "boot2").Given == nil {
		t.Error("not the one that was overwritten")
	}
	// A record of another disk with the same serial must stay. Because of this record, hotmount must still not format
	// the overwritten disk without the operator.
	if left, err := s.Given(); err != nil || len(left) != 2 || left[0].WWN == "naa.1" || left[1].WWN == "naa.1" {
		t.Errorf("%+v, %v", left, err)
	}
}

// TestInstalledAgainInAClone checks the hold for disks that were attached while the package was removed. The hold must
// also apply under another machine-id.
func TestInstalledAgainInAClone(t *testing.T) {
	s := withMachineID(t, withMachineID(t, made(t), builder), clone)
	if err := s.change(func(st *state) { st.Machine = builder }); err != nil {
		t.Fatal(err)
	}
	starts(t, s, "boot1")
	if err := os.WriteFile(s.removedFile(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	vdb := facts("vdb", 2, "NEW")
	if _, err := s.Init([]disk.Identity{vdb.Identity("boot1")}); err != nil {
		t.Fatal(err)
	}
	expect(t, "installed again", s, "boot1", map[*disk.Facts]string{vdb: "arrived"})
}
