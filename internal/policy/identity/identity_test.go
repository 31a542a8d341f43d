package identity

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hotmount/internal/disk"
)

const uuidA, uuidB, uuidC = "aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002", "cccccccc-0000-4000-8000-000000000003"

// someDisk draws one of a few disks that are easily mistaken for each other.
func someDisk(t *rapid.T) *disk.Facts {
	of := func(label string, values ...string) string { return rapid.SampledFrom(values).Draw(t, label) }
	return &disk.Facts{
		ID: disk.ID{Name: "vdb", Seq: rapid.Uint64Range(1, 4).Draw(t, "seq")}, Serial: of("serial", "", "S1", "S2"), Slot: of("slot", "", "pci-1", "pci-2"),
		WWN:  of("wwn", "", "naa.1", "naa.2", "eui.3"),
		Size: rapid.Uint64Range(1, 3).Draw(t, "size") << 30,
		Udev: disk.Udev{Initialized: true, FSUsage: "filesystem", FSType: "xfs", FSUUID: of("uuid", uuidA, uuidB)},
	}
}

// someRecords draws records about the disks that someDisk draws.
func someRecords(t *rapid.T) Records {
	r := Records{Boot: "now"}
	identity := func() disk.Identity {
		return someDisk(t).Identity(rapid.SampledFrom([]string{"now", "then"}).Draw(t, "boot"))
	}
	uuid := func() string { return rapid.SampledFrom([]string{uuidA, uuidB}).Draw(t, "uuid") }
	for range rapid.IntRange(0, 3).Draw(t, "records") {
		switch rapid.IntRange(0, 7).Draw(t, "kind") {
		case 7:
			r.Used = append(r.Used, disk.Use{Identity: identity(), UUID: uuid()})
		case 0:
			r.Present = append(r.Present, identity())
		case 1:
			r.Braked = append(r.Braked, identity())
		case 2:
			r.Twins = append(r.Twins, Twin{identity(), uuid()})
		case 3:
			r.Intents = append(r.Intents, disk.Intent{Identity: identity(), UUID: uuid(), Over: rapid.Bool().Draw(t, "over"), Left: rapid.Bool().Draw(t, "left")})
		case 4:
			r.Sightings = append(r.Sightings, disk.Sighting{Identity: identity(), UUID: uuid(), Type: "xfs", Mounted: time.Unix(1, 0), Left: rapid.Bool().Draw(t, "left")})
		case 5:
			r.Contents = append(r.Contents, disk.Sighting{Identity: identity(), UUID: uuid(), Type: "xfs"})
		case 6:
			id := identity()
			r.Given = append(r.Given, disk.Given{Serial: id.Serial, WWN: id.WWN, Slot: id.Slot, Seq: id.Seq, Boot: id.Boot, Size: id.Size})
		}
	}
	return r
}

// TestStrangersChangeNothing checks that records of an unrelated disk do not change what is known about this disk.
func TestStrangersChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, r := someDisk(t), someRecords(t)
		alone := r.Standing(f, disk.Standing{})
		stranger := disk.Identity{Boot: rapid.SampledFrom([]string{"now", "then"}).Draw(t, "boot"), Seq: 99, Serial: "STRANGER", WWN: "naa.9", Slot: "pci-9", Size: 9 << 40}
		if f.WorldWide() != "" && rapid.Bool().Draw(t, "by its WWN alone") {
			stranger.Serial = ""
		}
		// The first standing contains pointers into the old slices, so the test must not move the elements of these
		// slices.
		r.Present = slices.Concat([]disk.Identity{stranger}, r.Present)
		r.Arrived = slices.Concat([]disk.Identity{stranger}, r.Arrived)
		r.Braked = slices.Concat([]disk.Identity{stranger}, r.Braked)
		r.Twins = slices.Concat([]Twin{{stranger, uuidC}}, r.Twins)
		r.Used = slices.Concat([]disk.Use{{Identity: stranger, UUID: uuidC}}, r.Used)
		r.Intents = slices.Concat([]disk.Intent{{Identity: stranger, UUID: uuidC}}, r.Intents)
		r.Sightings = append(r.Sightings, disk.Sighting{Identity: stranger, UUID: uuidC, Type: "xfs"})
		r.Contents = append(r.Contents, disk.Sighting{Identity: stranger, UUID: uuidC, Type: "xfs"})
		r.Given = slices.Concat([]disk.Given{{Serial: stranger.Serial, WWN: stranger.WWN, Slot: stranger.Slot}}, r.Given)
		if with := r.Standing(f, disk.Standing{}); !reflect.DeepEqual(with, alone) {
			t.Fatalf("with the records of a stranger:\n%+v\nwithout:\n%+v", with, alone)
		}
	})
}

// TestRecordedHere checks a disk whose filesystem was mounted during this attachment. The disk must be on record and in
// the slot of its last mount, and hotmount must not treat the disk as a copy.
func TestRecordedHere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := someDisk(t)
		f.Slot = "pci-1"
		mounted := time.Unix(2, 0)
		r := Records{Boot: "now", Sightings: []disk.Sighting{{Identity: f.Identity("now"), UUID: f.Udev.FSUUID, Type: "xfs", Mounted: mounted}}}
		st := r.Standing(f, disk.Standing{})
		if r.Sightings[0].Identity.WWN != f.WWN || !st.OnRecord || !st.InSameSlot || st.LastOn != nil || st.Beside || st.Twin || !st.WasMounted.Equal(mounted) || st.Volume == nil {
			t.Fatalf("%+v", st)
		}
	})
}

// TestMade checks that Standing.Made is true if this node chose the filesystem's UUID, whatever happened to the
// filesystem later.
func TestMade(t *testing.T) {
	f := &disk.Facts{ID: disk.ID{Name: "vdb", Seq: 5}, Size: 1 << 30, Udev: disk.Udev{Initialized: true, FSUsage: "filesystem", FSType: "xfs", FSUUID: uuidA}}
	blank := &disk.Facts{ID: f.ID, Size: f.Size, Udev: disk.Udev{Initialized: true}}
	for name, c := range map[string]struct {
		f    *disk.Facts
		r    Records
		want bool
	}{
		"nothing is on record":         {f, Records{}, false},
		"made":                         {f, Records{History: []disk.Record{{UUID: uuidB}, {UUID: uuidA, Ended: time.Unix(1, 0)}}}, true},
		"failed":                       {f, Records{History: []disk.Record{{UUID: uuidA, Ended: time.Unix(1, 0), Failure: "x"}}}, true},
		"begun":                        {f, Records{Intents: []disk.Intent{{UUID: uuidA}}}, true},
		"others":                       {f, Records{History: []disk.Record{{UUID: uuidB}}, Intents: []disk.Intent{{UUID: uuidC}}}, false},
		"mounted, and made elsewhere":  {f, Records{Sightings: []disk.Sighting{{UUID: uuidA, Adopted: 1 << 30}}}, false},
		"no filesystem, and no record": {blank, Records{History: []disk.Record{{}}, Intents: []disk.Intent{{}}}, false},
	} {
		if got := c.r.Standing(c.f, disk.Standing{}).Made; got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestRelations checks a disk whose filesystem has the same UUID as the filesystem in one record. The test checks what
// hotmount concludes from the record.
func TestRelations(t *testing.T) {
	was := disk.Identity{Boot: "then", Seq: 2, Serial: "S1", Slot: "pci-1", Size: 1 << 30}
	type want struct{ onRecord, inPlace, resized, lastOn, beside bool }
	for name, test := range map[string]struct {
		was  func(*disk.Sighting)
		is   func(*disk.Facts)
		want want
	}{
		"the same, after a reboot":             {is: func(*disk.Facts) {}, want: want{onRecord: true, inPlace: true}},
		"the same, in another slot":            {is: func(f *disk.Facts) { f.Slot = "pci-2" }, want: want{onRecord: true}},
		"resized":                              {is: func(f *disk.Facts) { f.Size *= 2 }, want: want{resized: true}},
		"a stranger with a copy":               {is: func(f *disk.Facts) { f.Serial = "S2" }, want: want{lastOn: true}},
		"another attached when this one left":  {was: func(s *disk.Sighting) { s.Identity.Boot, s.Left, s.Newest = "now", true, 7 }, is: func(f *disk.Facts) { f.Slot = "pci-2" }, want: want{onRecord: true, lastOn: true, beside: true}},
		"back in its slot after it has left":   {was: func(s *disk.Sighting) { s.Identity.Boot, s.Left, s.Newest = "now", true, 4 }, is: func(*disk.Facts) {}, want: want{onRecord: true}},
		"one WWN, in another slot meanwhile":   {was: func(s *disk.Sighting) { s.Identity.Boot, s.Identity.Serial, s.Identity.WWN = "now", "", "naa.1" }, is: func(f *disk.Facts) { f.Serial, f.WWN, f.Slot = "", "naa.1", "pci-2" }, want: want{onRecord: true}},
		"no serial, in another slot meanwhile": {was: func(s *disk.Sighting) { s.Identity.Boot, s.Identity.Serial = "now", "" }, is: func(f *disk.Facts) { f.Serial, f.Slot = "", "pci-2" }, want: want{lastOn: true}},
	} {
		s := disk.Sighting{Identity: was, UUID: uuidA, Type: "xfs", Mounted: time.Unix(1, 0)}
		if test.was != nil {
			test.was(&s)
		}
		f := &disk.Facts{ID: disk.ID{Name: "vdb", Seq: 5}, Serial: "S1", Slot: "pci-1", Size: 1 << 30, Udev: disk.Udev{Initialized: true, FSUsage: "filesystem", FSType: "xfs", FSUUID: uuidA}}
		test.is(f)
		r := Records{Boot: "now", Sightings: []disk.Sighting{s}}
		st := r.Standing(f, disk.Standing{})
		if got := (want{st.OnRecord, st.InSameSlot, st.Resized, st.LastOn != nil, st.Beside}); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// TestWWN checks disks without a serial. The same WWN must identify the disk of a record in any slot. Another WWN must
// show that the disk in the slot of the record is another disk.
func TestWWN(t *testing.T) {
	const own, copied, elsewhere, nothing = "naa.1", "naa.2", "pci-2", ""
	of := func(wwn, slot string) *disk.Facts {
		return &disk.Facts{ID: disk.ID{Name: "sda", Seq: 5}, WWN: wwn, Slot: slot, Size: 1 << 30, Udev: disk.Udev{Initialized: true, FSUsage: "filesystem", FSType: "xfs", FSUUID: uuidA}}
	}
	was := of(own, "pci-1").Identity("then")
	was.Seq = 2
	sighting := disk.Sighting{Identity: was, UUID: uuidA, Type: "xfs", Mounted: time.Unix(1, 0)}
	intent := disk.Intent{Identity: was, UUID: uuidB}
	over := disk.Intent{Identity: was, UUID: uuidB, Over: true}
	partition := sighting
	partition.Identity.WWN, partition.Identity.Slot, partition.Identity.Size = own+"-part1", "pci-1-part1", 1<<20
	for name, tt := range map[string]struct {
		records               Records
		of                    func(disk.Standing) bool
		moved, next, unmarked bool // the same WWN in another slot; another WWN in the slot of the record; no WWN in the slot of the record
	}{
		"present":                  {Records{Present: []disk.Identity{was}}, func(s disk.Standing) bool { return s.Present != nil }, true, false, true},
		"braked":                   {Records{Braked: []disk.Identity{was}}, func(s disk.Standing) bool { return s.Braked }, true, false, true},
		"a twin":                   {Records{Twins: []Twin{{was, uuidA}}}, func(s disk.Standing) bool { return s.Twin }, true, false, true},
		"on record":                {Records{Sightings: []disk.Sighting{sighting}}, func(s disk.Standing) bool { return s.OnRecord }, true, false, true},
		"in place":                 {Records{Sightings: []disk.Sighting{sighting}}, func(s disk.Standing) bool { return s.InSameSlot }, false, false, true},
		"last on another":          {Records{Sightings: []disk.Sighting{sighting}}, func(s disk.Standing) bool { return s.LastOn != nil }, false, true, false},
		"mounted from such a disk": {Records{Sightings: []disk.Sighting{sighting}}, func(s disk.Standing) bool { return s.FormerSerial != nil }, true, false, false},
		"content of such a disk":   {Records{Contents: []disk.Sighting{sighting}}, func(s disk.Standing) bool { return s.FormerSerial != nil }, true, false, false},
		"made on such a disk":      {Records{History: []disk.Record{{Identity: was, UUID: uuidA, Ended: time.Unix(1, 0)}}}, func(s disk.Standing) bool { return s.FormerSerial != nil }, true, false, false},
		"on a partition of it":     {Records{Sightings: []disk.Sighting{partition}}, func(s disk.Standing) bool { return s.FormerSerial != nil }, true, false, false},
		"in its slot":              {Records{Contents: []disk.Sighting{sighting}}, func(s disk.Standing) bool { return s.FormerSlot != nil }, false, false, true},
		"a partition in its slot":  {Records{Contents: []disk.Sighting{partition}}, func(s disk.Standing) bool { return s.FormerSlot != nil }, false, false, true},
		"a format":                 {Records{Intents: []disk.Intent{intent}}, func(s disk.Standing) bool { return s.Intent != nil && !s.IntentDoubt }, true, false, true},
		"a format, by its slot":    {Records{Intents: []disk.Intent{intent}}, func(s disk.Standing) bool { return s.IntentBySlot }, false, false, true},
		"a format over content":    {Records{Intents: []disk.Intent{over}}, func(s disk.Standing) bool { return s.Intent != nil && !s.IntentDoubt }, true, false, false},
	} {
		tt.records.Boot = "now"
		for wwn, c := range map[string]struct {
			slot string
			want bool
		}{own: {elsewhere, tt.moved}, copied: {was.Slot, tt.next}, nothing: {was.Slot, tt.unmarked}} {
			if got := tt.of(tt.records.Standing(of(wwn, c.slot), disk.Standing{})); got != c.want {
				t.Errorf("%s, a disk of WWN %q at %s: %v", name, wwn, c.slot, got)
			}
		}
	}
	// hotmount also finds an unfinished format by the UUID on the disk. An intent that matches only by the UUID is in
	// doubt if the disk has another WWN, because the disk may be a copy.
	by := Records{Boot: "now", Intents: []disk.Intent{{Identity: was, UUID: uuidA}}}
	for wwn, doubt := range map[string]bool{own: false, copied: true, nothing: false} {
		if st := by.Standing(of(wwn, elsewhere), disk.Standing{}); st.Intent == nil || st.IntentDoubt != doubt {
			t.Errorf("a disk of WWN %q with the UUID of a format: %+v, doubt %v", wwn, st.Intent, st.IntentDoubt)
		}
	}
	// The record of a partition also applies to the disk of the partition.
	if st := (&Records{Boot: "now", Contents: []disk.Sighting{partition}}).Standing(of(own, was.Slot), disk.Standing{}); st.FormerSlot == nil {
		t.Error("nothing lay in its slot, where a partition of it lay")
	}
	renamed := sighting
	renamed.Identity.Seq, renamed.UUID = 9, uuidB
	if !(Twin{was, uuidA}).Renamed(renamed) {
		t.Error("a refused disk with a UUID of its own is not known by its WWN")
	}
}
