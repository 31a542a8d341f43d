package store

import (
	"slices"
	"sync"
	"testing"

	"hotmount/internal/disk"
)

// TestExpected checks that an expected sighting has the same effect before and after it is written to the file. After
// the write, the sighting must no longer be expected.
func TestExpected(t *testing.T) {
	s := Store{State: t.TempDir(), Runtime: t.TempDir()}
	if _, err := s.Init(nil); err != nil {
		t.Fatal(err)
	}
	known := new(Expectations)
	mounted := disk.Sighting{UUID: "a", Identity: disk.Identity{Boot: "b", Seq: 2}}
	left, other := mounted, mounted
	left.Left, other.Identity.Seq = true, 3
	filesystems := func() []disk.Sighting { return s.Load("b", known).Sightings }
	for _, step := range []struct {
		what string
		do   func()
		want []disk.Sighting
	}{
		{"nothing", func() {}, nil},
		{"it is mounted", func() { known.Expect(mounted) }, []disk.Sighting{mounted}},
		{"that is recorded", func() {
			if err := s.Remember([]disk.Sighting{mounted}); err != nil {
				t.Fatal(err)
			}
			known.Recorded([]disk.Sighting{mounted})
		}, []disk.Sighting{mounted}},
		{"it leaves", func() { known.Expect(left) }, []disk.Sighting{left}},
		{"it is back", func() { known.Expect(other) }, []disk.Sighting{other}},
		{"the first attachment leaves, late", func() { known.Expect(left) }, []disk.Sighting{other}},
	} {
		step.do()
		if got := filesystems(); !slices.Equal(got, step.want) {
			t.Errorf("%s: %+v, expected %+v", step.what, got, step.want)
		}
	}
	// When a newer sighting is recorded, Expectations must drop all older unwritten sightings of the same filesystem.
	gone := other
	gone.Left = true
	known.Expect(gone)
	if err := s.Remember([]disk.Sighting{gone}); err != nil {
		t.Fatal(err)
	}
	known.Recorded([]disk.Sighting{gone})
	if got := filesystems(); !slices.Equal(got, []disk.Sighting{mounted}) || len(known.all) != 0 {
		t.Errorf("after it was recorded: %+v, still expected %+v", got, known.all)
	}
	if got, err := s.Sightings(); err != nil || !slices.Equal(got, []disk.Sighting{mounted}) {
		t.Errorf("on record: %+v, %v", got, err)
	}
	for range 2 * mostKept {
		known.Expect(mounted)
	}
	if got := len(known.all); got != mostKept {
		t.Errorf("%d are kept", got)
	}
}

// TestExpectedWhileItIsRecorded checks that Load always returns an expected sighting, even while another goroutine
// records the sighting.
func TestExpectedWhileItIsRecorded(t *testing.T) {
	s := Store{State: t.TempDir(), Runtime: t.TempDir()}
	if _, err := s.Init(nil); err != nil {
		t.Fatal(err)
	}
	known := new(Expectations)
	for round := range uint64(200) {
		seen := disk.Sighting{UUID: "a", Identity: disk.Identity{Boot: "b", Seq: round}}
		known.Expect(seen)
		var loads sync.WaitGroup
		recorded := make(chan struct{})
		for range 8 {
			loads.Go(func() {
				for done := false; !done; {
					select {
					case <-recorded:
						done = true
					default:
					}
					if got := s.Load("b", known).Sightings; !slices.Equal(got, []disk.Sighting{seen}) {
						t.Errorf("round %d: %+v", round, got)
						return
					}
				}
			})
		}
		if err := s.Remember(known.Expected()); err != nil {
			t.Error(err)
		}
		known.Recorded([]disk.Sighting{seen})
		close(recorded)
		if loads.Wait(); t.Failed() {
			return
		}
	}
}
