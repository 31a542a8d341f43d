package store

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
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

// TestWasMounted checks that WasMounted is set only if hotmount found the filesystem mounted during this attachment.
// Without WasMounted, a filesystem cannot count as unmounted by hand.
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
			seen := disk.Sighting{Identity: f.Identity("boot1"), UUID: f.Udev.FSUUID, Type: "xfs", Mounted: mounted, At: time.Hour}
			tt.put(&seen)
			if err := s.Remember([]disk.Sighting{seen}); err != nil {
				t.Fatal(err)
			}
			m := s.Load("boot1", nil)
			st := m.Standing(f)
			if got := st.WasMounted; got.Equal(mounted) != tt.want || got.IsZero() == tt.want || (st.MountedAt == time.Hour) != tt.want {
				t.Errorf("was mounted: %s, %s", got, st.MountedAt)
			}
		})
	}
}

// TestOnRecord checks that hotmount recognises the disk from which a filesystem was last mounted, in any attachment. If
// the disk has a serial, hotmount must notice any change of its size. If the disk has no serial, hotmount must notice
// only growth, and only in the same slot.
func TestOnRecord(t *testing.T) {
	type change = func(*disk.Facts)
	bare := func(f *disk.Facts) { f.Serial = "" }
	nowhere := func(f *disk.Facts) { f.Serial, f.Slot = "", "" }
	asIs := func(*disk.Facts) {}
	tests := []struct {
		name          string
		was, put      change
		want, resized bool
	}{
		{"the same disk, attached again", asIs, func(f *disk.Facts) { f.Seq = 40; f.Slot = "elsewhere" }, true, false},
		{"another serial", asIs, func(f *disk.Facts) { f.Serial = "S2" }, false, false},
		{"another serial, grown", asIs, func(f *disk.Facts) { f.Serial, f.Size = "S2", f.Size+1 }, false, false},
		{"no serial any more", asIs, func(f *disk.Facts) { f.Serial, f.Size = "", f.Size+1 }, false, false},
		{"grown", asIs, func(f *disk.Facts) { f.Size++; f.Slot = "elsewhere" }, false, true},
		{"shrunk", asIs, func(f *disk.Facts) { f.Size-- }, false, true},
		{"no serial", bare, func(f *disk.Facts) { f.Seq = 40 }, true, false},
		{"no serial, grown", bare, func(f *disk.Facts) { f.Size++ }, false, true},
		{"no serial, shrunk", bare, func(f *disk.Facts) { f.Size-- }, false, false},
		{"no serial, grown elsewhere", bare, func(f *disk.Facts) { f.Size++; f.Slot = "elsewhere" }, false, false},
		{"no serial and no slot, grown", nowhere, func(f *disk.Facts) { f.Size++ }, false, false},
		{"another filesystem", asIs, func(f *disk.Facts) { f.Udev.FSUUID = "bbbbbbbb-0000-4000-8000-000000000002" }, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, f := Store{State: t.TempDir(), Runtime: t.TempDir()}, standingDisk()
			tt.was(f)
			if err := s.Remember([]disk.Sighting{{Identity: f.Identity("boot0"), UUID: f.Udev.FSUUID, Type: "xfs"}}); err != nil {
				t.Fatal(err)
			}
			tt.put(f)
			m := s.Load("boot1", nil)
			if got := m.Standing(f); got.OnRecord != tt.want || got.Resized != tt.resized {
				t.Errorf("on record: %v, resized: %v", got.OnRecord, got.Resized)
			}
		})
	}
}

// TestVolume checks that hotmount remembers the class of a filesystem, even if the filesystem is now on another disk.
// hotmount forgets the class only when the operator accepts a change of the class. An accept for another reason must
// not free the filesystem from its class.
func TestVolume(t *testing.T) {
	s, f := Store{State: t.TempDir(), Runtime: t.TempDir()}, standingDisk()
	if _, err := s.Init(nil); err != nil {
		t.Fatal(err)
	}
	seen := disk.Sighting{Identity: f.Identity("boot1"), UUID: f.Udev.FSUUID, Type: "xfs", Class: "fast", Directory: "/mnt/fast"}
	if err := s.Remember([]disk.Sighting{{UUID: "bbbbbbbb-0000-4000-8000-000000000002", Class: "x", Directory: "/mnt/x"}, seen}); err != nil {
		t.Fatal(err)
	}
	place := func(change func(*disk.Facts)) disk.Place {
		other := *f
		change(&other)
		m := s.Load("boot1", nil)
		return m.Standing(&other).Volume.Place()
	}
	want := disk.Place{Directory: "/mnt/fast", Class: "fast"}
	for name, change := range map[string]func(*disk.Facts){
		"the disk":                 func(*disk.Facts) {},
		"another disk":             func(f *disk.Facts) { f.Seq, f.Serial, f.Size = 40, "S2", 1 },
		"udev has forgotten it":    func(f *disk.Facts) { f.Udev = disk.Udev{} },
		"of another name, restart": func(f *disk.Facts) { f.Name = "vdq" },
	} {
		if got := place(change); got != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for name, change := range map[string]func(*disk.Facts){
		"another filesystem":          func(f *disk.Facts) { f.Udev.FSUUID = "cccccccc-0000-4000-8000-000000000003" },
		"none, on another attachment": func(f *disk.Facts) { f.Seq, f.Udev = 40, disk.Udev{} },
	} {
		if got := place(change); got != (disk.Place{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	f.Standing.Volume = &seen
	for reason, want := range map[disk.Reason]disk.Place{disk.ReasonReleased: want, disk.ReasonOtherClass: {}} {
		if err := s.Accept(f, "boot1", disk.Word{Reason: reason}); err != nil {
			t.Fatal(err)
		}
		if got := place(func(*disk.Facts) {}); got != want {
			t.Errorf("accepted for %s: %+v", reason, got)
		}
		if err := s.Remember([]disk.Sighting{seen}); err != nil {
			t.Fatal(err)
		}
	}
	g := *f
	if err := s.GiveOut(&g, "boot", "raw", "/mnt/raw/virtio-S1"); err != nil {
		t.Fatal(err)
	}
	g.Standing = standing(s, &g, "boot1")
	if err := s.Accept(&g, "boot1", disk.Word{Reason: disk.ReasonOtherClass}); err != nil {
		t.Fatal(err)
	}
	if m := s.Load("boot1", nil); m.Standing(&g).Given == nil || m.Standing(&g).Given.Place() != (disk.Place{}) {
		t.Errorf("a block volume that was accepted: %+v", m.Standing(&g).Given)
	}
}

// TestKept checks for each hold whether it lasts beyond the attachment. An accept must end each hold.
func TestKept(t *testing.T) {
	s, f := Store{State: t.TempDir(), Runtime: t.TempDir()}, standingDisk()
	if _, err := s.Init(nil); err != nil {
		t.Fatal(err)
	}
	standing := func() disk.Standing {
		m := s.Load("boot1", nil)
		return m.Standing(f)
	}
	for _, err := range []error{
		s.RecordHold(f, "boot1", disk.ReasonTwin),
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
	m := s.Load("boot1", nil)
	if st := m.Standing(&again); !st.Twin || st.Unmounted != "" {
		t.Errorf("attached again: %+v", st)
	}
	again.Size++
	again.Slot = "elsewhere"
	if !m.Standing(&again).Twin {
		t.Error("a twin that has grown is forgotten")
	}
	again.Serial = "S2"
	if m.Standing(&again).Twin {
		t.Error("another disk is taken for the twin")
	}
	again.Serial = "S1"
	again.Udev.FSUUID = "bbbbbbbb-0000-4000-8000-000000000002"
	if m.Standing(&again).Twin {
		t.Error("a twin with a filesystem of its own")
	}
	f.Standing = standing()
	if err := s.Accept(f, "boot1", disk.Word{}); err != nil {
		t.Fatal(err)
	}
	if st := standing(); !st.Twin || st.Unmounted != "" || st.Verdict != nil || st.Accepted != nil {
		t.Errorf("another try: %+v", st)
	}
	if err := s.Accept(f, "boot1", disk.Word{Reason: disk.ReasonTwin}); err != nil {
		t.Fatal(err)
	}
	if st := standing(); st.Twin || len(st.Accepted) != 1 {
		t.Errorf("accepted: %+v", st)
	}
	if err := s.KeepUnmounted(f, disk.ReasonUnmounted); err != nil {
		t.Fatal(err)
	}
	if err := s.KeepUnmounted(f, ""); err != nil {
		t.Fatal(err)
	}
	if st := standing(); st.Unmounted != "" || st.Remount {
		t.Errorf("taken back: %q", st.Unmounted)
	}
	// After an accept, the record must state that the released filesystem is to be mounted again.
	f.Standing.WasMounted = time.Unix(1700000000, 0)
	if err := errors.Join(s.KeepUnmounted(f, disk.ReasonReleased), s.Accept(f, "boot1", disk.Word{})); err != nil {
		t.Fatal(err)
	}
	if st := standing(); st.Unmounted != "" || !st.Remount {
		t.Errorf("to be mounted again: %q, %v", st.Unmounted, st.Remount)
	}
	if err := s.KeepUnmounted(f, ""); err != nil {
		t.Fatal(err)
	}
	if standing().Remount {
		t.Error("mounted, and still to be")
	}
}

// TestTwinWithoutSerial checks two disks that have the same filesystem UUID and no serial. Any disk without a serial
// may be the refused copy (the twin), except the disk on record.
func TestTwinWithoutSerial(t *testing.T) {
	s, f := Store{State: t.TempDir(), Runtime: t.TempDir()}, standingDisk()
	if _, err := s.Init(nil); err != nil {
		t.Fatal(err)
	}
	f.Serial = ""
	twin := *f
	twin.Seq, twin.Slot = 13, "pci-0000:06:00.0"
	if err := s.Remember([]disk.Sighting{{Identity: f.Identity("boot1"), UUID: f.Udev.FSUUID, Type: "xfs"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.RecordHold(&twin, "boot1", disk.ReasonTwin); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		disk disk.Facts
		boot string
		put  func(*disk.Facts)
		want bool
	}{
		"the first":                 {*f, "boot1", func(*disk.Facts) {}, false},
		"the first after a boot":    {*f, "boot2", func(f *disk.Facts) { f.Seq = 2 }, false},
		"the twin":                  {twin, "boot1", func(*disk.Facts) {}, true},
		"the twin, grown":           {twin, "boot1", func(f *disk.Facts) { f.Size++ }, true},
		"the twin elsewhere, grown": {twin, "boot2", func(f *disk.Facts) { f.Seq, f.Size, f.Slot = 2, f.Size+1, "pci-0000:07:00.0" }, true},
		"the twin after the first":  {twin, "boot2", func(f *disk.Facts) { f.Seq, f.Size, f.Slot = 2, f.Size+1, "pci-0000:05:00.0" }, true},
		"one with a serial":         {twin, "boot2", func(f *disk.Facts) { f.Seq, f.Serial = 2, "S1" }, false},
	} {
		g := tt.disk
		tt.put(&g)
		m := s.Load(tt.boot, nil)
		if got := m.Standing(&g).Twin; got != tt.want {
			t.Errorf("%s: twin %v", name, got)
		}
	}
	// The test does not look at the disk again before the accept, because an accept can come at any time.
	if err := s.Accept(&twin, "boot1", disk.Word{Reason: disk.ReasonTwin}); err != nil {
		t.Fatal(err)
	}
	if m := s.Load("boot1", nil); m.Standing(&twin).Twin {
		t.Error("accepted, and still a twin")
	}
}

// TestAcceptOfOneTwin checks an accept while another refused copy is detached. No serial distinguishes the two copies.
// The accept must be valid only for the accepted copy, even if that copy was refused in another slot before a reboot.
func TestAcceptOfOneTwin(t *testing.T) {
	s, f := made(t), standingDisk()
	f.Serial = ""
	other := *f
	other.Seq, other.Slot = 13, "pci-0000:06:00.0"
	if err := s.RecordHold(&other, "boot1", disk.ReasonTwin); err != nil {
		t.Fatal(err)
	}
	twin := func(f *disk.Facts, boot string) bool { return standing(s, f, boot).Twin }
	if err := s.Accept(f, "boot2", disk.Word{Reason: disk.ReasonTwin, UUID: f.Udev.FSUUID}); err != nil {
		t.Fatal(err)
	}
	if twin(f, "boot2") || !twin(&other, "boot2") {
		t.Errorf("refused: the accepted copy %v, the other copy %v", twin(f, "boot2"), twin(&other, "boot2"))
	}
	if err := s.Remember([]disk.Sighting{{Identity: f.Identity("boot2"), UUID: f.Udev.FSUUID, Type: "xfs"}}); err != nil {
		t.Fatal(err)
	}
	if twin(f, "boot3") || !twin(&other, "boot3") {
		t.Errorf("refused after a reboot: the accepted copy %v, the other copy %v", twin(f, "boot3"), twin(&other, "boot3"))
	}
	// A later refusal in the same attachment is valid, despite the earlier accept.
	if err := s.RecordHold(f, "boot2", disk.ReasonTwin); err != nil {
		t.Fatal(err)
	}
	if !twin(f, "boot2") {
		t.Error("refused once more, and no twin")
	}
}

// TestLastOn checks a filesystem that appears on a disk with another serial. hotmount must remember the previous disk
// of the filesystem. If a bus truncates or hides the serial of a disk, the disk must not count as a disk with another
// serial.
func TestLastOn(t *testing.T) {
	const long = "20-bytes-of-a-serial"
	for name, tt := range map[string]struct {
		was, is string
		want    bool
	}{
		"the same":                   {"S1", "S1", false},
		"another":                    {"S1", "S2", true},
		"one that begins like it":    {"S1", "S11", true},
		"none before":                {"", "S2", false},
		"none now":                   {"S1", "", false},
		"cut before":                 {long, long + "-and-more", false},
		"cut now":                    {long + "-and-more", long, false},
		"another of the same length": {long, "20-bytes-of-a-SERIAL", true},
	} {
		s, f := Store{State: t.TempDir(), Runtime: t.TempDir()}, standingDisk()
		f.Serial = tt.was
		if err := s.Remember([]disk.Sighting{{Identity: f.Identity("boot0"), UUID: f.Udev.FSUUID, Type: "xfs"}}); err != nil {
			t.Fatal(err)
		}
		f.Seq, f.Serial = 40, tt.is
		m := s.Load("boot1", nil)
		if got := m.Standing(f).LastOn; (got != nil) != tt.want {
			t.Errorf("%s: %+v", name, got)
		}
		f.Udev.FSUUID = "bbbbbbbb-0000-4000-8000-000000000002"
		if got := m.Standing(f).LastOn; got != nil {
			t.Errorf("%s: another filesystem: %+v", name, got)
		}
	}
}

// TestBeside checks a filesystem on a disk that was already attached when the disk on record was removed. Two disks
// that were attached at the same time must count as different disks, whatever their serials are.
func TestBeside(t *testing.T) {
	part := func(number uint32) func(*disk.Facts) {
		return func(f *disk.Facts) { f.Seq, f.Slot = disk.PartitionSeq(14, number), "pci-0000:06:00.0-part1" }
	}
	for name, tt := range map[string]struct {
		boot string
		was  func(*disk.Sighting)
		put  func(*disk.Facts)
		want bool
	}{
		"attached together":                   {"boot1", func(*disk.Sighting) {}, func(f *disk.Facts) { f.Seq = 14 }, true},
		"attached before it":                  {"boot1", func(*disk.Sighting) {}, func(f *disk.Facts) { f.Seq = 3 }, true},
		"attached together, another serial":   {"boot1", func(*disk.Sighting) {}, func(f *disk.Facts) { f.Seq, f.Serial = 14, "S2" }, true},
		"attached together, no serial":        {"boot1", func(s *disk.Sighting) { s.Identity.Serial = "" }, func(f *disk.Facts) { f.Seq, f.Serial = 14, "" }, true},
		"on a disk that was":                  {"boot1", func(*disk.Sighting) {}, part(1), true},
		"attached later":                      {"boot1", func(*disk.Sighting) {}, func(f *disk.Facts) { f.Seq = 15 }, false},
		"the same attachment":                 {"boot1", func(*disk.Sighting) {}, func(f *disk.Facts) { f.Seq = 12 }, false},
		"after a boot":                        {"boot2", func(*disk.Sighting) {}, func(f *disk.Facts) { f.Seq = 14 }, false},
		"another filesystem":                  {"boot1", func(*disk.Sighting) {}, func(f *disk.Facts) { f.Seq, f.Udev.FSUUID = 14, "bbbbbbbb-0000-4000-8000-000000000002" }, false},
		"mounted, not seen leaving":           {"boot1", func(s *disk.Sighting) { s.Left = false }, func(f *disk.Facts) { f.Seq = 14 }, false},
		"in its slot, which has room for one": {"boot1", func(*disk.Sighting) {}, func(f *disk.Facts) { f.Seq, f.Slot = 14, "pci-0000:05:00.0" }, false},
		"no slot known":                       {"boot1", func(s *disk.Sighting) { s.Identity.Slot = "" }, func(f *disk.Facts) { f.Seq, f.Slot = 14, "" }, true},
	} {
		s, f := Store{State: t.TempDir(), Runtime: t.TempDir()}, standingDisk()
		left := disk.Sighting{Identity: f.Identity("boot1"), UUID: f.Udev.FSUUID, Type: "xfs", Left: true, Newest: 14}
		tt.was(&left)
		if err := s.Remember([]disk.Sighting{left}); err != nil {
			t.Fatal(err)
		}
		f.Slot = "pci-0000:06:00.0"
		tt.put(f)
		m := s.Load(tt.boot, nil)
		if got := m.Standing(f); got.Beside != tt.want || tt.want && (got.LastOn == nil || *got.LastOn != left) {
			t.Errorf("%s: %v, %+v", name, got.Beside, got.LastOn)
		}
	}
}

// TestElsewhere checks a filesystem that appears in another slot in the same boot. If one of the two disks has no
// serial, and hotmount noticed no removal of the disk on record, the filesystem may be a copy.
func TestElsewhere(t *testing.T) {
	for name, tt := range map[string]struct {
		boot string
		was  func(*disk.Sighting)
		put  func(*disk.Facts)
		want bool
	}{
		"no serials":             {"boot1", func(s *disk.Sighting) { s.Identity.Serial = "" }, func(f *disk.Facts) { f.Serial = "" }, true},
		"a serial, then none":    {"boot1", func(*disk.Sighting) {}, func(f *disk.Facts) { f.Serial = "" }, true},
		"no serial, then one":    {"boot1", func(s *disk.Sighting) { s.Identity.Serial = "" }, func(*disk.Facts) {}, true},
		"its serial":             {"boot1", func(*disk.Sighting) {}, func(*disk.Facts) {}, false},
		"the same attachment":    {"boot1", func(s *disk.Sighting) { s.Identity.Serial, s.Identity.Seq = "", 14 }, func(*disk.Facts) {}, false},
		"seen leaving":           {"boot1", func(s *disk.Sighting) { s.Identity.Serial, s.Left = "", true }, func(*disk.Facts) {}, false},
		"in its slot":            {"boot1", func(s *disk.Sighting) { s.Identity.Serial = "" }, func(f *disk.Facts) { f.Slot = "pci-0000:05:00.0" }, false},
		"no slot":                {"boot1", func(s *disk.Sighting) { s.Identity.Serial = "" }, func(f *disk.Facts) { f.Slot = "" }, false},
		"no slot on record":      {"boot1", func(s *disk.Sighting) { s.Identity.Serial, s.Identity.Slot = "", "" }, func(*disk.Facts) {}, false},
		"after a boot, anywhere": {"boot2", func(s *disk.Sighting) { s.Identity.Serial = "" }, func(f *disk.Facts) { f.Serial = "" }, false},
	} {
		s, f := Store{State: t.TempDir(), Runtime: t.TempDir()}, standingDisk()
		was := disk.Sighting{Identity: f.Identity("boot1"), UUID: f.Udev.FSUUID, Type: "xfs"}
		tt.was(&was)
		if err := s.Remember([]disk.Sighting{was}); err != nil {
			t.Fatal(err)
		}
		f.Seq, f.Slot = 14, "pci-0000:06:00.0"
		tt.put(f)
		m := s.Load(tt.boot, nil)
		if got := m.Standing(f); (got.LastOn != nil) != tt.want {
			t.Errorf("%s: %+v", name, got.LastOn)
		}
	}
}

// TestIntentOfAnotherDisk checks that an intent applies only to its own disk, and not to a copy of the disk. A copy of
// the disk has the same half-made filesystem, and the same content that was to be overwritten.
func TestIntentOfAnotherDisk(t *testing.T) {
	tests := []struct {
		name string
		over bool
		boot string
		put  func(*disk.Facts)
		want bool // whether the intent is in doubt
	}{
		{"this attachment", false, "boot1", func(*disk.Facts) {}, false},
		{"this attachment, grown meanwhile", false, "boot1", func(f *disk.Facts) { f.Size++ }, false},
		{"attached again", false, "boot1", func(f *disk.Facts) { f.Seq = 40 }, false},
		{"attached again without a serial", false, "boot1", func(f *disk.Facts) { f.Seq, f.Serial = 40, "" }, false},
		{"after a boot", false, "boot2", func(f *disk.Facts) { f.Seq = 2 }, false},
		{"another serial", false, "boot1", func(f *disk.Facts) { f.Seq, f.Serial = 40, "S2" }, true},
		{"another slot, no serial", false, "boot1", func(f *disk.Facts) { f.Seq, f.Serial, f.Slot = 40, "", "pci-0000:06:00.0" }, true},
		{"another size", false, "boot2", func(f *disk.Facts) { f.Size++ }, true},
		{"overwritten: this attachment", true, "boot1", func(*disk.Facts) {}, false},
		{"overwritten: this attachment, no serial", true, "boot1", func(f *disk.Facts) { f.Serial = "" }, false},
		{"overwritten: after a boot", true, "boot2", func(f *disk.Facts) { f.Seq = 2 }, false},
		{"overwritten: after a boot, no serial", true, "boot2", func(f *disk.Facts) { f.Seq, f.Serial = 2, "" }, true},
		{"overwritten: attached again", true, "boot1", func(f *disk.Facts) { f.Seq = 40 }, true},
		{"overwritten: another serial", true, "boot2", func(f *disk.Facts) { f.Seq, f.Serial = 2, "S2" }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, f := Store{State: t.TempDir(), Runtime: t.TempDir()}, standingDisk()
			g := *f
			tt.put(&g)
			if g.Serial == "" {
				f.Serial = ""
			}
			if err := s.Begin(disk.Intent{Identity: f.Identity("boot1"), UUID: f.Udev.FSUUID, Over: tt.over}); err != nil {
				t.Fatal(err)
			}
			m := s.Load(tt.boot, nil)
			st := m.Standing(&g)
			if st.Intent == nil || st.IntentDoubt != tt.want {
				t.Errorf("intent %v, doubt %v", st.Intent, st.IntentDoubt)
			}
		})
	}
}

// TestBefore checks that hotmount holds a disk on which another filesystem was seen earlier in the same attachment.
// Only an accept for ReasonBefore must end the hold, and the accept must not apply to the next filesystem.
func TestBefore(t *testing.T) {
	s, f := Store{State: t.TempDir(), Runtime: t.TempDir()}, standingDisk()
	if _, err := s.Init(nil); err != nil {
		t.Fatal(err)
	}
	uuid, next := f.Udev.FSUUID, "bbbbbbbb-0000-4000-8000-000000000002"
	lost := []disk.Reason{disk.ReasonBefore, disk.ReasonFormerSerial, disk.ReasonFormerSlot, disk.ReasonSameSerial, disk.ReasonContent}
	before := func(boot string, seq uint64) string {
		t.Helper()
		g := *f
		g.Seq, g.Udev, g.Serial = seq, disk.Udev{Initialized: true}, ""
		m := s.Load(boot, nil)
		g.Standing = m.Standing(&g)
		*f = g
		if b := g.Standing.Before; b != nil && !slices.ContainsFunc(g.Standing.Accepted, func(w disk.Word) bool { return w.UUID == b.UUID && slices.Contains(lost, w.Reason) }) {
			return b.UUID
		}
		return ""
	}
	accept := func(reason disk.Reason) {
		t.Helper()
		if err := s.Accept(f, "boot1", disk.Word{Reason: reason, UUID: uuid}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what, uuid string) {
		t.Helper()
		if got := before("boot1", 12); got != uuid {
			t.Errorf("%s: %q, want %q", what, got, uuid)
		}
	}
	want("at first", "")
	if err := s.Remember([]disk.Sighting{{Identity: f.Identity("boot1"), UUID: uuid, Type: "xfs", Mounted: time.Unix(1, 0)}}); err != nil {
		t.Fatal(err)
	}
	if got := before("boot2", 12) + before("boot1", 13); got != "" {
		t.Errorf("another attachment: %q", got)
	}
	want("mounted", uuid)
	accept(disk.ReasonUnmounted)
	want("accepted for something else", uuid)
	accept(disk.ReasonBefore)
	want("given up", "")
	accept(disk.ReasonPresent)
	want("given up, and accepted for something else", "")
	if err := s.Remember([]disk.Sighting{{Identity: f.Identity("boot1"), UUID: next, Type: "xfs", Mounted: time.Unix(2, 0)}}); err != nil {
		t.Fatal(err)
	}
	want("the next one", next)
	if err := s.Remember([]disk.Sighting{{Identity: f.Identity("boot1"), UUID: next, Type: "xfs", Left: true}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Forget(12); err != nil {
		t.Fatal(err)
	}
}

// TestIntentIsFoundAgain checks that hotmount finds the intent of a disk after the disk was attached again. hotmount
// must also find the intent if the disk no longer shows a serial, but udev knows the filesystem's UUID.
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
			m := s.Load("boot1", nil)
			if got := m.Standing(&g).Intent != nil; got != tt.want {
				t.Errorf("found: %v", got)
			}
		})
	}
}

// TestAGapLasts checks that hotmount remembers a failed write to the state directory until Init runs, even after a
// reboot.
func TestAGapLasts(t *testing.T) {
	s := Store{State: t.TempDir(), Runtime: t.TempDir()}
	initialise := func() {
		t.Helper()
		if _, err := s.Init(nil); err != nil {
			t.Fatal(err)
		}
		if m := s.Load("boot1", nil); m.Lost != nil {
			t.Errorf("initialised, and yet: %v", m.Lost)
		}
	}
	initialise()
	if err := s.failed(errors.New("no space left on device")); err == nil {
		t.Fatal("the failure is gone")
	}
	if m := s.Load("boot1", nil); m.Lost == nil {
		t.Error("in the same boot it is not known")
	}
	s.Runtime = t.TempDir()
	if m := s.Load("boot2", nil); m.Lost == nil {
		t.Error("after a boot it is not known")
	}
	initialise()
}

// TestHolders checks that Holders returns the last record, and nothing for another filesystem.
func TestHolders(t *testing.T) {
	s := Store{State: t.TempDir(), Runtime: t.TempDir()}
	const one, two = "aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002"
	for _, words := range []string{"process 7", "process 8\n  process 9"} {
		if err := s.SaveHolders(one, words); err != nil || s.Holders(one) != words || s.Holders(two) != "" {
			t.Errorf("%q, %q, %v", s.Holders(one), s.Holders(two), err)
		}
	}
	for range 2 {
		if err := s.ForgetHolders(one); err != nil || s.Holders(one) != "" {
			t.Errorf("forgotten: %q, %v", s.Holders(one), err)
		}
	}
	if err := s.SaveHolders("../x", "y"); err == nil {
		t.Error("what is no UUID is taken")
	}
}

// TestKeptByManyAtOnce checks that no record is lost if several processes write records at once.
func TestKeptByManyAtOnce(t *testing.T) {
	s := made(t)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if err := s.RecordHold(facts("vdb", uint64(i+1), fmt.Sprint("S", i)), "boot1", disk.ReasonBrake); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i := range 16 {
		if f := facts("vdb", uint64(i+1), fmt.Sprint("S", i)); !standing(s, f, "boot1").Braked {
			t.Errorf("%s is forgotten", f.Serial)
		}
	}
}

// TestNextInASlot checks the intents of disks without a serial. Only its slot identifies such a disk, and another disk
// can be in the slot now.
func TestNextInASlot(t *testing.T) {
	const first, second = "aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002"
	const old = "cccccccc-0000-4000-8000-000000000003"
	here, there := "pci-0000:04:00.0", "pci-0000:05:00.0"
	at := func(seq uint64, slot, uuid string) *disk.Facts {
		f := standingDisk()
		f.Serial, f.Seq, f.Slot, f.Udev.FSUUID = "", seq, slot, uuid
		if uuid == "" {
			f.Udev = disk.Udev{Initialized: true}
		}
		return f
	}
	type want struct {
		intent        string
		doubt, bySlot bool
	}
	intent := func(uuid string, of *disk.Facts, puts ...func(*disk.Intent)) disk.Intent {
		i := disk.Intent{UUID: uuid, Identity: of.Identity("boot1")}
		for _, put := range puts {
			put(&i)
		}
		return i
	}
	over := func(i *disk.Intent) { i.Over = true }
	overOld := func(i *disk.Intent) { i.Over, i.Was = true, old }
	withDoubt := func(i *disk.Intent) { i.Doubt = "x" }
	withSerial := func(i *disk.Intent) { i.Identity.Serial = "S1" }
	larger := func(i *disk.Intent) { i.Identity.Size++ }
	for name, tt := range map[string]struct {
		begun []disk.Intent
		boot  string
		f     *disk.Facts
		want  want
	}{
		"attached still":                   {[]disk.Intent{intent(first, at(12, here, ""))}, "boot1", at(12, here, ""), want{first, false, false}},
		"the next":                         {[]disk.Intent{intent(first, at(12, here, ""))}, "boot1", at(13, here, ""), want{first, false, true}},
		"the next, after a boot":           {[]disk.Intent{intent(first, at(12, here, ""))}, "boot2", at(12, here, ""), want{first, false, true}},
		"its UUID":                         {[]disk.Intent{intent(first, at(12, here, ""))}, "boot1", at(13, here, first), want{first, false, false}},
		"its UUID in another slot":         {[]disk.Intent{intent(first, at(12, here, ""))}, "boot1", at(13, there, first), want{first, true, false}},
		"its UUID elsewhere after a boot":  {[]disk.Intent{intent(first, at(12, here, ""))}, "boot2", at(13, there, first), want{first, false, false}},
		"its UUID, overwriting, elsewhere": {[]disk.Intent{intent(first, at(12, here, ""), over)}, "boot2", at(13, there, first), want{first, true, false}},
		"its UUID on a larger one":         {[]disk.Intent{intent(first, at(12, here, ""), larger)}, "boot2", at(13, there, first), want{first, true, false}},
		"its UUID, where it had a serial":  {[]disk.Intent{intent(first, at(12, here, ""), withSerial)}, "boot2", at(13, there, first), want{first, true, false}},
		"two, dealt anew":                  {[]disk.Intent{intent(first, at(12, here, "")), intent(second, at(13, there, ""))}, "boot2", at(2, there, first), want{first, false, false}},
		"another has been formatted":       {[]disk.Intent{intent(first, at(12, here, "")), intent(second, at(13, here, ""))}, "boot1", at(14, here, first), want{first, false, false}},
		"another, and it is in a new slot": {[]disk.Intent{intent(first, at(12, here, "")), intent(second, at(13, here, ""))}, "boot1", at(14, there, first), want{first, false, false}},
		"another, attached still":          {[]disk.Intent{intent(first, at(12, here, "")), intent(second, at(13, here, ""))}, "boot1", at(13, here, ""), want{second, false, false}},
		"another, and the next":            {[]disk.Intent{intent(first, at(12, here, "")), intent(second, at(13, here, ""))}, "boot1", at(14, here, ""), want{second, false, true}},
		"another in another slot":          {[]disk.Intent{intent(first, at(12, here, "")), intent(second, at(13, there, ""))}, "boot1", at(14, here, ""), want{first, false, true}},
		"overwriting, another formatted":   {[]disk.Intent{intent(first, at(12, here, ""), over), intent(second, at(13, there, ""))}, "boot1", at(14, here, ""), want{first, true, true}},
		"overwriting, then blank":          {[]disk.Intent{intent(first, at(12, here, ""), over), intent(second, at(13, here, ""))}, "boot2", at(2, here, ""), want{second, false, true}},
		"overwriting, the order of names":  {[]disk.Intent{intent(second, at(12, here, ""), over), intent(first, at(13, here, ""))}, "boot2", at(2, here, ""), want{first, false, true}},
		"blank, then overwriting":          {[]disk.Intent{intent(first, at(12, here, "")), intent(second, at(13, here, ""), over)}, "boot2", at(2, here, ""), want{second, true, true}},
		"overwriting twice":                {[]disk.Intent{intent(first, at(12, here, ""), over), intent(second, at(13, here, ""), over)}, "boot2", at(2, here, ""), want{second, true, true}},
		"disturbed, then blank":            {[]disk.Intent{intent(first, at(12, here, ""), withDoubt), intent(second, at(13, here, ""))}, "boot2", at(2, here, ""), want{second, false, true}},
		"what was overwritten, elsewhere":  {[]disk.Intent{intent(first, at(12, here, ""), overOld)}, "boot2", at(2, there, old), want{}},
		"with a serial, the next":          {[]disk.Intent{intent(first, at(12, here, ""), withSerial)}, "boot1", at(13, here, ""), want{}},
		"another size, the next":           {[]disk.Intent{intent(first, at(12, here, ""), larger)}, "boot1", at(13, here, ""), want{}},
	} {
		s := Store{State: t.TempDir(), Runtime: t.TempDir()}
		for _, i := range tt.begun {
			if err := s.Begin(i); err != nil {
				t.Fatal(err)
			}
		}
		m := s.Load(tt.boot, nil)
		var got want
		if st := m.Standing(tt.f); st.Intent != nil {
			got = want{st.Intent.UUID, st.IntentDoubt, st.IntentBySlot}
		}
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
	// When a format of another disk begins in the same slot, hotmount must set Left in some of the older intents. The
	// other intents must stay unchanged.
	blank, overwrites := intent(second, at(13, here, "")), intent(second, at(13, here, ""), over)
	for name, tt := range map[string]struct {
		former, by disk.Intent
		left       bool
	}{
		"another attachment":          {intent(first, at(12, here, "")), blank, true},
		"the same":                    {intent(first, at(13, here, "")), blank, false},
		"overwriting":                 {intent(first, at(12, here, ""), over), blank, false},
		"overwriting twice":           {intent(first, at(12, here, ""), over), overwrites, true},
		"overwriting something else":  {intent(first, at(12, here, ""), overOld), overwrites, false},
		"overwriting twice, the same": {intent(first, at(13, here, ""), over), overwrites, false},
		"somebody else wrote":         {intent(first, at(12, here, ""), withDoubt), blank, false},
		"a serial":                    {intent(first, at(12, here, ""), withSerial), blank, false},
		"another slot":                {intent(first, at(12, there, "")), blank, false},
	} {
		s := Store{State: t.TempDir(), Runtime: t.TempDir()}
		for _, i := range []disk.Intent{tt.former, tt.by} {
			if err := s.Begin(i); err != nil {
				t.Fatal(err)
			}
		}
		all, err := s.intents()
		if err != nil || len(all) != 2 || all[0].Left != tt.left || all[1].Left {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
}

// TestLeave checks an intent after the operator has accepted the content of the disk in the intent's slot. RecordLeft
// must set the field Left of the intent, and must keep all other fields.
func TestLeave(t *testing.T) {
	const uuidA, uuidB = "aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002"
	s := Store{State: t.TempDir(), Runtime: t.TempDir()}
	mine, other := disk.Intent{UUID: uuidA, Over: true, Was: uuidB, Doubt: "x"}, disk.Intent{UUID: uuidB}
	for _, i := range []disk.Intent{mine, other} {
		if err := s.Begin(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RecordLeft(uuidA); err != nil {
		t.Fatal(err)
	}
	mine.Left = true
	if all, err := s.intents(); err != nil || !reflect.DeepEqual(all, []disk.Intent{mine, other}) {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestIntentsAtOnce checks that many disks can be formatted at once, each by its own process. An intent that ends while
// the intents are read must not count as a fault of the state directory.
func TestIntentsAtOnce(t *testing.T) {
	s := Store{State: t.TempDir(), Runtime: t.TempDir()}
	if _, err := s.Init(nil); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for round := range 40 {
				i := disk.Intent{UUID: fmt.Sprintf("%08x-0000-4000-8000-%012x", n, round), Identity: disk.Identity{Slot: "pci-0000:04:00.0", Size: 1 << 30, Seq: uint64(n)}}
				if err := s.Begin(i); err != nil {
					t.Error(err)
				}
				if _, err := s.intents(); err != nil {
					t.Error(err)
				}
				if err := s.End(i.UUID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if left, err := s.intents(); err != nil || len(left) > 0 {
		t.Errorf("%+v, %v", left, err)
	}
	if m := s.Load("boot1", nil); m.Lost != nil {
		t.Errorf("it is taken for a fault of the state directory: %v", m.Lost)
	}
}

// TestTwinRenamed checks that hotmount no longer refuses a copied filesystem (a twin) that now has its own UUID.
// Another disk with the former UUID must not count as a twin either.
func TestTwinRenamed(t *testing.T) {
	s := made(t)
	const other = "0b7bf53a-6f0c-4a4c-a2c0-6c1f1d2c8c11"
	f, copied, third := facts("vdb", 2, "S1"), facts("vdc", 3, "S1"), facts("vdd", 4, "S1")
	copied.Slot, third.Slot = "pci-2", "pci-3"
	for _, f := range []*disk.Facts{f, copied, third} {
		f.Udev = disk.Udev{Initialized: true, FSUsage: "filesystem", FSType: "xfs", FSUUID: uuid}
	}
	remember := func(id disk.Identity, uuid string, left bool) {
		t.Helper()
		if err := s.Remember([]disk.Sighting{{Identity: id, UUID: uuid, Type: "xfs", Directory: "/mnt/disks", Left: left}}); err != nil {
			t.Fatal(err)
		}
	}
	keep := func(f *disk.Facts, boot string) {
		t.Helper()
		if err := s.RecordHold(f, boot, disk.ReasonTwin); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when, boot string, twin bool) {
		t.Helper()
		if st := standing(s, f, boot); st.Twin != twin {
			t.Errorf("%s: twin %v", when, st.Twin)
		}
	}
	remember(f.Identity("boot1"), uuid, false)
	keep(copied, "boot1")
	check("after a boot", "boot2", true)
	remember(copied.Identity("boot1"), uuid, true)
	check("when it has left", "boot2", true)
	remember(copied.Identity("boot1"), other, true)
	check("when a disk in its slot has left that had another", "boot2", true)
	remember(third.Identity("boot1"), other, false)
	check("when a third disk has another", "boot2", true)
	remember(copied.Identity("boot1"), other, false)
	check("when it has another", "boot2", false)
	keep(copied, "boot1")
	remember(copied.Identity("boot2"), other, false)
	check("when it has another after a boot", "boot3", false)
	keep(copied, "boot1")
	keep(third, "boot1")
	remember(copied.Identity("boot1"), other, false)
	check("while a third is refused", "boot3", true)
	remember(third.Identity("boot1"), other, false)
	check("when that has another, too", "boot3", false)
	keep(f, "boot2")
	remember(f.Identity("boot3"), uuid, false)
	check("when one in its place is mounted by the same UUID", "boot4", true)
	remember(f.Identity("boot2"), other, false)
	copied.Slot, f.Slot = "", ""
	remember(f.Identity("boot3"), uuid, false)
	keep(copied, "boot4")
	check("without slots", "boot5", true)
	remember(copied.Identity("boot4"), other, false)
	check("when the other without a slot has another", "boot5", false)
	for _, o := range []*disk.Facts{f, copied} {
		o.Serial, o.Slot = "", "pci-2"
	}
	keep(copied, "boot5")
	next := copied.Identity("boot5")
	next.Seq++
	remember(next, other, false)
	check("when the next in its slot has another, and no serial", "boot5", true)
	remember(copied.Identity("boot5"), other, false)
	check("when it has another itself, and no serial", "boot5", false)
}

// TestTwinOfOneSerial checks two disks with the same serial and the same filesystem UUID. hotmount recognises the disk
// on record by its slot, until hotmount notices the removal of that disk, or another disk in the slot. If only one of
// the two disks is attached after a reboot, the slot does not show which of the two disks is attached.
func TestTwinOfOneSerial(t *testing.T) {
	s := made(t)
	f, copied := facts("vdb", 2, "S1"), facts("vdc", 3, "S1")
	copied.Slot = "pci-2"
	for _, f := range []*disk.Facts{f, copied} {
		f.Udev = disk.Udev{Initialized: true, FSUsage: "filesystem", FSType: "xfs", FSUUID: uuid}
	}
	mounted := disk.Sighting{Identity: f.Identity("boot1"), UUID: uuid, Type: "xfs", Directory: "/mnt/disks"}
	if err := s.Remember([]disk.Sighting{mounted}); err != nil {
		t.Fatal(err)
	}
	if err := s.RecordHold(copied, "boot1", disk.ReasonTwin); err != nil {
		t.Fatal(err)
	}
	inTurn, moved := *copied, *f
	inTurn.Seq, inTurn.Slot, moved.Slot = 4, f.Slot, "pci-3"
	check := func(when string, f *disk.Facts, boot string, twin, inPlace bool) {
		t.Helper()
		if st := standing(s, f, boot); st.Twin != twin || st.InSameSlot != inPlace || !st.OnRecord {
			t.Errorf("%s: twin %v, in its place %v, on record %v", when, st.Twin, st.InSameSlot, st.OnRecord)
		}
	}
	check("the one that is mounted", f, "boot1", false, true)
	check("the copy", copied, "boot1", true, false)
	check("the copy where the first was, which nobody saw leave", &inTurn, "boot1", true, false)
	check("the first after a boot", f, "boot2", true, true)
	check("the copy after a boot where the first was", &inTurn, "boot2", true, true)
	if err := s.RecordHold(&inTurn, "boot2", disk.ReasonTwin); err != nil {
		t.Fatal(err)
	}
	check("the copy that was refused there", &inTurn, "boot2", true, false)
	check("the first in its slot after one more boot", f, "boot3", true, true)
	check("the copy after a boot", copied, "boot2", true, false)
	check("the first elsewhere", &moved, "boot2", true, false)
	mounted.Left, mounted.Newest = true, 3
	if err := s.Remember([]disk.Sighting{mounted}); err != nil {
		t.Fatal(err)
	}
	check("the copy where the first was, which has left", &inTurn, "boot1", true, false)
	check("the same after a boot", &inTurn, "boot2", true, false)
}
