package store

import (
	"testing"
	"time"

	"hotmount/internal/disk"
)

func standingDisk() *disk.Facts {
	return &disk.Facts{
		ID: disk.ID{Name: "vdb", Seq: 12}, Size: 5 << 30, Serial: "S1", Slot: "pci-0000:05:00.0",
		Udev: disk.Udev{Initialized: true, FSUsage: "filesystem", FSType: "xfs", FSUUID: "aaaaaaaa-0000-4000-8000-000000000001"},
	}
}

// TestWasMounted: only what was found mounted during this very attachment can
// have been unmounted by hand.
func TestWasMounted(t *testing.T) {
	mounted := time.Unix(1700000000, 0).UTC()
	tests := []struct {
		name string
		put  func(*disk.Sighting)
		want bool
	}{
		{"this attachment", func(*disk.Sighting) {}, true},
		{"an earlier boot", func(s *disk.Sighting) { s.Identity.Boot = "boot0" }, false},
		{"an earlier attachment", func(s *disk.Sighting) { s.Identity.Seq = 11 }, false},
		{"it has left", func(s *disk.Sighting) { s.Left = true }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, f := Store{State: t.TempDir(), Runtime: t.TempDir()}, standingDisk()
			seen := disk.Sighting{Identity: f.Identity("boot1"), UUID: f.Udev.FSUUID, Type: "xfs", Mounted: mounted}
			tt.put(&seen)
			if err := s.Remember([]disk.Sighting{seen}); err != nil {
				t.Fatal(err)
			}
			m := s.Load("boot1")
			if got := m.Standing(f).WasMounted; got.Equal(mounted) != tt.want || got.IsZero() == tt.want {
				t.Errorf("was mounted: %s", got)
			}
		})
	}
}

// TestOnRecord: the filesystem was last mounted from this disk, whenever it was
// attached.
func TestOnRecord(t *testing.T) {
	tests := []struct {
		name string
		put  func(*disk.Facts)
		want bool
	}{
		{"the same disk, attached again", func(f *disk.Facts) { f.Seq = 40; f.Slot = "elsewhere" }, true},
		{"another serial", func(f *disk.Facts) { f.Serial = "S2" }, false},
		{"another size", func(f *disk.Facts) { f.Size++ }, false},
		{"another filesystem", func(f *disk.Facts) { f.Udev.FSUUID = "bbbbbbbb-0000-4000-8000-000000000002" }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, f := Store{State: t.TempDir(), Runtime: t.TempDir()}, standingDisk()
			if err := s.Remember([]disk.Sighting{{Identity: f.Identity("boot0"), UUID: f.Udev.FSUUID, Type: "xfs"}}); err != nil {
				t.Fatal(err)
			}
			tt.put(f)
			m := s.Load("boot1")
			if got := m.Standing(f).OnRecord; got != tt.want {
				t.Errorf("on record: %v", got)
			}
		})
	}
}

// TestKept: what a disk is held for lasts over an attachment or not, and ends
// with the operator's word.
func TestKept(t *testing.T) {
	s, f := Store{State: t.TempDir(), Runtime: t.TempDir()}, standingDisk()
	if _, err := s.Init(nil); err != nil {
		t.Fatal(err)
	}
	standing := func() disk.Standing {
		m := s.Load("boot1")
		return m.Standing(f)
	}
	for _, err := range []error{
		s.Keep(f, "boot1", disk.ReasonTwin),
		s.KeepUnmounted(f, disk.ReasonReleased),
		s.SaveVerdict(disk.Verdict{Seq: f.Seq, Size: f.Size, Failure: "x"}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if st := standing(); !st.Twin || st.Unmounted != disk.ReasonReleased || st.Verdict == nil {
		t.Errorf("kept: %+v", st)
	}
	again := *f
	again.Seq = 40
	m := s.Load("boot1")
	if st := m.Standing(&again); !st.Twin || st.Unmounted != "" {
		t.Errorf("attached again: %+v", st)
	}
	again.Udev.FSUUID = "bbbbbbbb-0000-4000-8000-000000000002"
	if m.Standing(&again).Twin {
		t.Error("a twin with a filesystem of its own")
	}
	f.Standing = standing()
	if err := s.Accept(f, "boot1"); err != nil {
		t.Fatal(err)
	}
	if st := standing(); st.Twin || st.Unmounted != "" || st.Verdict != nil || !st.Accepted {
		t.Errorf("accepted: %+v", st)
	}
	if err := s.KeepUnmounted(f, disk.ReasonUnmounted); err != nil {
		t.Fatal(err)
	}
	if err := s.KeepUnmounted(f, ""); err != nil {
		t.Fatal(err)
	}
	if st := standing(); st.Unmounted != "" {
		t.Errorf("taken back: %q", st.Unmounted)
	}
}

// TestIntentIsFoundAgain: also after the disk was attached again, or when udev
// knows the filesystem's UUID only.
func TestIntentIsFoundAgain(t *testing.T) {
	f := standingDisk()
	tests := []struct {
		name string
		put  func(*disk.Facts)
		want bool
	}{
		{"this attachment", func(*disk.Facts) {}, true},
		{"attached again", func(f *disk.Facts) { f.Seq = 40 }, true},
		{"attached again without a serial, its UUID known", func(f *disk.Facts) { f.Seq, f.Serial = 40, "" }, true},
		{"another disk", func(f *disk.Facts) {
			f.Seq, f.Serial, f.Udev.FSUUID = 40, "S2", "bbbbbbbb-0000-4000-8000-000000000002"
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Store{State: t.TempDir(), Runtime: t.TempDir()}
			if err := s.Begin(disk.Intent{Identity: f.Identity("boot1"), UUID: f.Udev.FSUUID}); err != nil {
				t.Fatal(err)
			}
			g := *f
			tt.put(&g)
			m := s.Load("boot1")
			if got := m.Standing(&g).Intent != nil; got != tt.want {
				t.Errorf("found: %v", got)
			}
		})
	}
}
