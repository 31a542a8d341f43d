package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"hotmount/internal/disk"
)

// TestAcceptOfAPartition accepts a partition that has inherited the record of use from its whole disk. hotmount must
// then remove the record of the whole disk. The records of other disks must stay.
func TestAcceptOfAPartition(t *testing.T) {
	s := made(t)
	whole, other := facts("vdb", 2, "S"), facts("vdc", 3, "T")
	for _, f := range []*disk.Facts{whole, other} {
		if err := s.KeepUse(f, "boot1", "mounted at /srv"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.keep(usedDir, whole.Seq, disk.Use{}); err != nil {
		t.Fatal(err)
	}
	part := facts("vdb1", 0, "S-part1")
	part.Seq, part.Whole, part.Standing.Used = disk.PartitionSeq(2, 1), "vdb", standing(s, whole, "boot1").Used
	// If the partition is in another slot, the record may be about another disk with the same serial. The record must
	// stay.
	part.Slot = "pci-vdz-part1"
	if err := s.Accept(part, "boot1", disk.Word{Reason: disk.ReasonUsed}); err != nil {
		t.Fatal(err)
	}
	if used := s.Load("boot1", nil).Used; len(used) != 2 {
		t.Errorf("after the accept of a disk in another slot: %+v", used)
	}
	part.Slot = whole.Slot + "-part1"
	if err := s.Accept(part, "boot1", disk.Word{Reason: disk.ReasonUsed}); err != nil {
		t.Fatal(err)
	}
	if used := s.Load("boot1", nil).Used; len(used) != 1 || used[0].Identity.Serial != "T" || standing(s, whole, "boot1").Used != nil {
		t.Errorf("after the accept: %+v", used)
	}
}

// TestRememberDrivers checks that each driver has exactly one record, even after restarts, reboots and a new
// machine-id. The list of drivers must have a maximum length.
func TestRememberDrivers(t *testing.T) {
	s := withMachineID(t, made(t), builder)
	starts(t, s, "boot1")
	for _, names := range [][]string{{"b.example"}, {"c.example", "a.example"}, nil, {"b.example"}} {
		if err := s.RememberDrivers(names); err != nil {
			t.Fatal(err)
		}
	}
	const want = "a.example b.example c.example"
	check := func(when string) {
		t.Helper()
		m := s.Load("boot2", nil)
		if got, loaded := strings.Join(s.Drivers(), " "), strings.Join(m.Drivers, " "); got != want || loaded != want {
			t.Errorf("%s: %q, loaded %q", when, got, loaded)
		}
	}
	check("at first")
	if _, err := s.Init([]disk.Identity{facts("vdb", 2, "S").Identity("boot2")}); err != nil {
		t.Fatal(err)
	}
	check("after state init")
	s = withMachineID(t, s, clone)
	starts(t, s, "boot2")
	check("under another machine-id")
	if err := s.KeepMachine(); err != nil {
		t.Fatal(err)
	}
	check("after state keep")

	var many []string
	for i := range mostKept + 5 {
		many = append(many, fmt.Sprintf("x%d.example", i))
	}
	if err := s.RememberDrivers(many); err != nil || len(s.Drivers()) != mostKept {
		t.Errorf("%d names: %v", len(s.Drivers()), err)
	}
	lost := newStore(t)
	if err := lost.RememberDrivers(many); !errors.Is(err, ErrLost) || !strings.HasPrefix(err.Error(), "cannot record the storage drivers") || lost.Drivers() != nil {
		t.Errorf("without a state: %v", err)
	}
}

// TestKeepUseRenews checks that the store drops the record of a disk's use only after many later records of other
// disks. A second call of KeepUse for the disk makes its record the newest, and changes nothing else in the record.
func TestKeepUseRenews(t *testing.T) {
	s := made(t)
	seq := uint64(2)
	use := func(serial, how string) {
		t.Helper()
		seq++
		if err := s.KeepUse(facts("vdb", seq, serial), "boot1", how); err != nil {
			t.Fatal(err)
		}
	}
	of := func(serial string) disk.Standing {
		m := s.Load("boot2", nil)
		return m.Standing(facts("vdb", 3, serial))
	}
	use("KEPT", "first")
	use("DROPPED", "first")
	if st := of("KEPT"); st.Used == nil || st.UsedLongAgo {
		t.Errorf("a new record: %+v, %v", st.Used, st.UsedLongAgo)
	}
	if err := s.change(func(st *state) {
		for i := range mostKept - 2 {
			seq++
			st.Used = append(st.Used, disk.Use{Identity: facts("vdb", seq, fmt.Sprintf("S%d", i)).Identity("boot1")})
		}
	}); err != nil {
		t.Fatal(err)
	}
	before := of("KEPT")
	if !before.UsedLongAgo || of("S1000").UsedLongAgo {
		t.Error("only the oldest records need a renewal")
	}
	use("KEPT", "again")
	use("LAST", "x")
	switch after := of("KEPT"); {
	case after.Used == nil || after.UsedLongAgo || *after.Used != *before.Used:
		t.Errorf("after the renewal: %+v, before %+v", after.Used, before.Used)
	case of("DROPPED").Used != nil:
		t.Error("the list has no bound")
	}
}
