package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotmount/internal/disk"
)

// TestGiven checks that hotmount always recognises a former block volume by its serial or WWN, whatever else has
// changed.
func TestGiven(t *testing.T) {
	dir := t.TempDir()
	s := Store{State: filepath.Join(dir, "lib"), Runtime: filepath.Join(dir, "run")}
	for _, d := range []string{s.State, s.Runtime} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f := &disk.Facts{ID: disk.ID{Name: "sda", Seq: 7}, Size: 1 << 30, Serial: "S1", WWN: "0x5"}
	if err := s.GiveOut(f, "boot", "raw", "/mnt/raw/scsi-S1"); err == nil {
		t.Error("given out without a state directory that remembers it")
	}
	if _, err := s.Init(nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.GiveOut(f, "boot", "raw", "/mnt/raw/scsi-S1"); err != nil {
			t.Fatal(err)
		}
	}
	long := &disk.Facts{ID: disk.ID{Name: "sdb", Seq: 8}, Size: 1 << 30, Serial: "0123456789abcdef0123456789"}
	if err := s.GiveOut(long, "boot", "raw", "/mnt/raw/scsi-"+long.Serial); err != nil {
		t.Fatal(err)
	}
	all, err := s.Given()
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	standing := func(f disk.Facts) disk.Standing { m := s.Load("boot", nil); return m.Standing(&f) }
	if st := standing(*f); st.Link != "/mnt/raw/scsi-S1" || st.Given == nil {
		t.Errorf("just given out: %+v", st)
	}
	if err := s.ForgetLink(7); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]disk.Facts{
		"later":                    {ID: disk.ID{Name: "vdb", Seq: 9}, Size: 2 << 30, Serial: "S1"},
		"with another serial":      {ID: disk.ID{Seq: 9}, Serial: "S2", WWN: "0x5"},
		"by a serial that is cut":  {ID: disk.ID{Seq: 9}, Serial: "0123456789abcdef0123", Transport: "virtio"},
		"the first, not given out": *f,
	} {
		if st := standing(f); st.Given == nil || st.Link != "" {
			t.Errorf("%s: %+v", name, st)
		}
	}
	for _, f := range []disk.Facts{{Serial: "S2"}, {}, {WWN: "0x6"}} {
		if st := standing(f); st.Given != nil {
			t.Errorf("%+v was given out as %+v", f, st.Given)
		}
	}

	// An unreadable record of block volumes must stop all formatting.
	if err := os.WriteFile(filepath.Join(s.State, "given-out.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if m := s.Load("boot", nil); m.Lost == nil {
		t.Error("a record that cannot be read is taken for none")
	}
	if err := s.GiveOut(f, "boot", "raw", "/mnt/raw/scsi-S1"); err == nil {
		t.Error("a record that cannot be read is written over")
	}
}

// TestRemoveGiven checks which record of a block volume RemoveGiven removes after a format by token. RemoveGiven must
// report a record that it keeps although the record may be about the formatted disk.
func TestRemoveGiven(t *testing.T) {
	cut := strings.Repeat("s", 20)
	given := disk.Facts{ID: disk.ID{Name: "sda", Seq: 7}, Size: 1 << 30, Serial: "S1", WWN: "0x5", Slot: "a"}
	long := given
	long.Serial, long.WWN = cut+"-long", ""
	for name, tt := range map[string]struct {
		given   disk.Facts
		put     func(*disk.Facts)
		removed bool
	}{
		"the disk":                      {given, func(*disk.Facts) {}, true},
		"on a bus without WWNs":         {given, func(f *disk.Facts) { f.WWN = "" }, true},
		"with another WWN":              {given, func(f *disk.Facts) { f.WWN = "0x6" }, false},
		"by its WWN alone":              {given, func(f *disk.Facts) { f.Serial = "S2" }, false},
		"by a serial that is cut":       {long, func(f *disk.Facts) { f.Serial, f.Transport = cut, "virtio" }, false},
		"beside a disk of its serial":   {given, func(f *disk.Facts) { f.SameSerial, f.Slot = []disk.Peer{{}}, "b" }, false},
		"in its slot, beside such disk": {given, func(f *disk.Facts) { f.SameSerial = []disk.Peer{{}} }, true},
	} {
		s := made(t)
		f := tt.given
		if err := s.GiveOut(&f, "boot", "raw", "/mnt/raw/scsi-S1"); err != nil {
			t.Fatal(err)
		}
		tt.put(&f)
		err := s.RemoveGiven(&f)
		if kept := standing(s, &f, "boot").Given != nil; kept == tt.removed || kept != (err != nil) {
			t.Errorf("%s: kept %v, error %v", name, kept, err)
		}
	}
}

// TestFreedGiven checks an accept of a block volume for another class. The accept must change only the record that the
// hold names, and not the record of another disk with the same truncated serial.
func TestFreedGiven(t *testing.T) {
	s, cut := made(t), strings.Repeat("s", 20)
	for _, end := range []string{"-one", "-two"} {
		f := &disk.Facts{ID: disk.ID{Name: "sda", Seq: 7}, Size: 1 << 30, Serial: cut + end}
		if err := s.GiveOut(f, "boot", "raw", "/mnt/raw/scsi-S1"); err != nil {
			t.Fatal(err)
		}
	}
	f := &disk.Facts{ID: disk.ID{Name: "vdb", Seq: 8}, Size: 1 << 30, Serial: cut, Transport: "virtio"}
	f.Standing = standing(s, f, "later")
	if err := s.Accept(f, "later", disk.Word{Reason: disk.ReasonOtherClass}); err != nil {
		t.Fatal(err)
	}
	all, err := s.Given()
	if err != nil || len(all) != 2 || all[0].Class != "" || all[1].Class != "raw" || standing(s, f, "later").Given.Class != "" {
		t.Errorf("%+v, error %v", all, err)
	}
}

// TestGivenTwice checks the record of a block volume after hotmount has seen another disk with the same serial. When
// one of the disks is given out again, hotmount must still know that two disks have the same serial.
func TestGivenTwice(t *testing.T) {
	s := Store{State: t.TempDir(), Runtime: t.TempDir()}
	if _, err := s.Init(nil); err != nil {
		t.Fatal(err)
	}
	first := &disk.Facts{ID: disk.ID{Name: "vdb", Seq: 7}, Size: 1 << 30, Serial: "S1", Slot: "a", Transport: "virtio"}
	second := &disk.Facts{ID: disk.ID{Name: "vdc", Seq: 8}, Size: 1 << 30, Serial: "S1", Slot: "b", Transport: "virtio"}
	sameIn := func(boot string, f *disk.Facts) bool { m := s.Load(boot, nil); return m.Standing(f).Given.Same(f) }
	same := func(f *disk.Facts) bool { return sameIn("later", f) }
	if err := s.GiveOut(first, "boot", "raw", "/mnt/raw/virtio-S1"); err != nil {
		t.Fatal(err)
	}
	if !same(first) || !same(second) {
		t.Error("before: one serial, one disk")
	}
	if err := s.RecordHold(second, "boot", disk.ReasonSerialTwice); err != nil {
		t.Fatal(err)
	}
	if same(first) || same(second) {
		t.Error("one of the two is taken for the first in another boot")
	}
	// From now on the slot proves nothing, because the second disk may be in the slot of the first disk. In this boot,
	// only the disk sequence number still identifies the first disk.
	again := *first
	again.Seq = 9
	if !sameIn("boot", first) || sameIn("boot", &again) || sameIn("boot", second) {
		t.Error("in the same boot the slot is believed")
	}
	if err := s.GiveOut(second, "boot", "raw", "/mnt/raw/virtio-S1"); err != nil { // after an accept
		t.Fatal(err)
	}
	if sameIn("boot", first) || !sameIn("boot", second) || same(second) {
		t.Error("the operator's word is not for this attachment alone")
	}
}
