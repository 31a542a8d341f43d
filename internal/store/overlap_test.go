package store

import (
	"slices"
	"strings"
	"testing"

	"hotmount/internal/disk"
)

// TestFormatsOfOneDiskDoNotOverlap checks that two formats of one disk do not overlap. The disk is recognised by its
// serial or its WWN. The second format must be refused until the first format has ended or its disk is detached.
func TestFormatsOfOneDiskDoNotOverlap(t *testing.T) {
	of := func(seq uint64, serial, wwn string) *disk.Facts {
		f := facts("sda", seq, serial)
		f.WWN, f.Slot = wwn, ""
		return f
	}
	for name, tt := range map[string]struct {
		first, second *disk.Facts
		boot          string
		gone, ended   bool
		refused       bool
	}{
		"one WWN":                       {first: of(1, "", "naa.1"), second: of(2, "", "naa.1"), refused: true},
		"one WWN, the later one first":  {first: of(2, "", "naa.1"), second: of(1, "", "naa.1"), refused: true},
		"one serial":                    {first: of(1, "S", ""), second: of(2, "S", ""), refused: true},
		"one serial, cut on one bus":    {first: of(1, "ABCDEFGHIJKLMNOPQRST", ""), second: of(2, "ABCDEFGHIJKLMNOPQRSTU", ""), refused: true},
		"another WWN":                   {first: of(1, "", "naa.1"), second: of(2, "", "naa.2")},
		"another serial":                {first: of(1, "S1", "naa.1"), second: of(2, "S2", "naa.1")},
		"neither":                       {first: of(1, "", ""), second: of(2, "", "")},
		"the same attachment":           {first: of(1, "S", ""), second: of(1, "S", "")},
		"an earlier boot":               {first: of(1, "S", ""), second: of(2, "S", ""), boot: "boot2"},
		"an attachment that is gone":    {first: of(1, "S", ""), second: of(2, "S", ""), gone: true},
		"one WWN, the first is through": {first: of(1, "", "naa.1"), second: of(2, "", "naa.1"), ended: true},
	} {
		s := made(t)
		begin := func(f *disk.Facts, i int, boot string) error {
			id := f.Identity(boot)
			r := &Format{Store: s, Record: disk.Record{Identity: id, UUID: numbered(i)}, Attached: func(seq uint64) bool { return seq == tt.first.Seq && !tt.gone }}
			return r.Begin(disk.Intent{Identity: id, UUID: numbered(i)})
		}
		if err := begin(tt.first, 1, "boot1"); err != nil {
			t.Fatal(err)
		}
		if tt.ended {
			if err := s.EndFormat(numbered(1), nil); err != nil {
				t.Fatal(err)
			}
		}
		boot := "boot1"
		if tt.boot != "" {
			boot = tt.boot
		}
		err := begin(tt.second, 2, boot)
		if (err != nil) != tt.refused || tt.refused && !strings.Contains(err.Error(), "has the same serial or WWN, and its format has not ended") {
			t.Errorf("%s: %v", name, err)
		}
		all, err := s.intents()
		begun := slices.ContainsFunc(all, func(i disk.Intent) bool { return i.UUID == numbered(2) })
		if err != nil || begun == tt.refused {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
}

// TestWhatAWWNKeeps checks that hotmount recognises a disk without a serial by its WWN. The WWN must be enough to find
// the record of an unfinished format and the record of former content.
func TestWhatAWWNKeeps(t *testing.T) {
	f := facts("sda", 1, "")
	f.WWN = "naa.1"
	s := made(t)
	if err := s.Begin(disk.Intent{Identity: f.Identity("boot1"), UUID: numbered(1)}); err != nil {
		t.Fatal(err)
	}
	again := *f
	again.Seq = 2
	if err := s.Begin(disk.Intent{Identity: again.Identity("boot1"), UUID: numbered(2)}); err != nil {
		t.Fatal(err)
	}
	if all, err := s.intents(); err != nil || len(all) != 2 || all[0].Left {
		t.Errorf("it was taken for the next disk in its slot: %+v, %v", all, err)
	}

	note := func(f *disk.Facts, boot string, left bool) {
		t.Helper()
		if err := s.Note([]disk.Sighting{{Identity: f.Identity(boot), Type: "LVM2_member", Left: left}}); err != nil {
			t.Fatal(err)
		}
	}
	moved, other := *f, *f
	moved.Slot, moved.Seq = "pci-2", 3
	other.Slot, other.WWN, other.Seq = "pci-3", "naa.2", 4
	note(f, "boot1", false)
	note(&other, "boot1", false)
	note(&moved, "boot2", false)
	note(&moved, "boot2", true)
	if all, err := s.NotedSightings(); err != nil || len(all) != 1 || all[0].Identity.WWN != other.WWN {
		t.Errorf("noted: %+v, %v", all, err)
	}

	// Two paths to one disk have the same WWN. An accept of one path must not lift the hold of the other path.
	s = made(t, f.Identity("boot1"), moved.Identity("boot1"))
	moved.SameWWN = []disk.Peer{{ID: f.ID, WWN: f.WWN}}
	if err := s.Accept(&moved, "boot2", disk.Word{Reason: disk.ReasonPresent}); err != nil {
		t.Fatal(err)
	}
	if st, err := s.load(); err != nil || len(st.Present) != 1 || st.Present[0].Slot != f.Slot {
		t.Errorf("present: %+v, %v", st.Present, err)
	}
}
