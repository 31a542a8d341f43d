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

// someDisk draws a disk of few that are easily mistaken for each other.
func someDisk(t *rapid.T) *disk.Facts {
	of := func(label string, values ...string) string { return rapid.SampledFrom(values).Draw(t, label) }
	return &disk.Facts{
		ID: disk.ID{Name: "vdb", Seq: rapid.Uint64Range(1, 4).Draw(t, "seq")}, Serial: of("serial", "", "S1", "S2"), Slot: of("slot", "", "pci-1", "pci-2"),
		Size: rapid.Uint64Range(1, 3).Draw(t, "size") << 30,
		Udev: disk.Udev{Initialized: true, FSUsage: "filesystem", FSType: "xfs", FSUUID: of("uuid", uuidA, uuidB)},
	}
}

// someRecords draws records of such disks.
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
			r.Given = append(r.Given, disk.Given{Serial: id.Serial, Slot: id.Slot, Seq: id.Seq, Boot: id.Boot, Size: id.Size})
		}
	}
	return r
}

// TestStrangersChangeNothing: records of a disk that shares nothing with this one change nothing of what is known of it.
func TestStrangersChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, r := someDisk(t), someRecords(t)
		alone := r.Standing(f, Attachment{})
		stranger := disk.Identity{Boot: rapid.SampledFrom([]string{"now", "then"}).Draw(t, "boot"), Seq: 99, Serial: "STRANGER", Slot: "pci-9", Size: 9 << 40}
		r.Present = slices.Insert(r.Present, 0, stranger)
		r.Braked = slices.Insert(r.Braked, 0, stranger)
		r.Twins = slices.Insert(r.Twins, 0, Twin{stranger, uuidC})
		r.Used = slices.Concat([]disk.Use{{Identity: stranger, UUID: uuidC}}, r.Used) // alone points into the old one
		r.Intents = slices.Insert(r.Intents, 0, disk.Intent{Identity: stranger, UUID: uuidC})
		r.Sightings = append(r.Sightings, disk.Sighting{Identity: stranger, UUID: uuidC, Type: "xfs"})
		r.Contents = append(r.Contents, disk.Sighting{Identity: stranger, UUID: uuidC, Type: "xfs"})
		r.Given = slices.Insert(r.Given, 0, disk.Given{Serial: stranger.Serial, Slot: stranger.Slot})
		if with := r.Standing(f, Attachment{}); !reflect.DeepEqual(with, alone) {
			t.Fatalf("with the records of a stranger:\n%+v\nwithout:\n%+v", with, alone)
		}
	})
}

// TestRecordedHere: a disk whose filesystem was mounted during this attachment is on record, in its place, and no copy.
func TestRecordedHere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := someDisk(t)
		f.Slot = "pci-1"
		mounted := time.Unix(2, 0)
		r := Records{Boot: "now", Sightings: []disk.Sighting{{Identity: f.Identity("now"), UUID: f.Udev.FSUUID, Type: "xfs", Mounted: mounted}}}
		st := r.Standing(f, Attachment{})
		if !st.OnRecord || !st.InPlace || st.LastOn != nil || st.Beside || st.Twin || !st.WasMounted.Equal(mounted) || st.Volume == nil {
			t.Fatalf("%+v", st)
		}
	})
}

// TestRelations: what one record of a filesystem means for a disk that has it.
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
		"no serial, in another slot meanwhile": {was: func(s *disk.Sighting) { s.Identity.Boot, s.Identity.Serial = "now", "" }, is: func(f *disk.Facts) { f.Serial, f.Slot = "", "pci-2" }, want: want{lastOn: true}},
	} {
		s := disk.Sighting{Identity: was, UUID: uuidA, Type: "xfs", Mounted: time.Unix(1, 0)}
		if test.was != nil {
			test.was(&s)
		}
		f := &disk.Facts{ID: disk.ID{Name: "vdb", Seq: 5}, Serial: "S1", Slot: "pci-1", Size: 1 << 30, Udev: disk.Udev{Initialized: true, FSUsage: "filesystem", FSType: "xfs", FSUUID: uuidA}}
		test.is(f)
		r := Records{Boot: "now", Sightings: []disk.Sighting{s}}
		st := r.Standing(f, Attachment{})
		if got := (want{st.OnRecord, st.InPlace, st.Resized, st.LastOn != nil, st.Beside}); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
