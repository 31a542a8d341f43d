package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
)

// settled has what is known look as if its files had last been changed long ago: the time of
// the last change of an inode can not be set.
func settled(k *Known) {
	for path, f := range k.files {
		f.stamp.Young = false
		k.files[path] = f
	}
}

// TestKnown: what is given is what would be read, whatever was written since; what can not
// be read is not kept, and what has not changed is not read again.
func TestKnown(t *testing.T) {
	disks := []disk.Identity{{Serial: "A", Size: 1 << 30, Boot: "boot", Seq: 7}, {Serial: "B", Size: 1 << 30, Boot: "boot", Seq: 8}}
	s := made(t, disks...)
	f := &disk.Facts{ID: disk.ID{Name: "vdb", Seq: 9}, Serial: "C", Size: 1 << 30}
	k := new(Known)
	s.Load("boot", k)
	if len(k.files) == 0 {
		t.Fatal("nothing is kept")
	}
	for path, kept := range k.files {
		if _, err := os.Stat(path); err == nil && kept.stamp.Holds() {
			t.Errorf("%s, which was made this moment, is taken for settled", path)
		}
	}
	for _, tt := range []struct {
		name   string
		change func() error
	}{
		{"nothing", func() error { return nil }},
		{"the state", func() error { return s.Keep(f, "boot", disk.ReasonBrake) }},
		{"a sighting", func() error { return s.Remember([]disk.Sighting{{Identity: disks[0], UUID: uuid, Type: "xfs"}}) }},
		{"the same", func() error { return s.Remember([]disk.Sighting{{Identity: disks[1], UUID: uuid, Type: "xfs"}}) }},
		{"a finding", func() error { return s.Note([]disk.Sighting{{Identity: disks[1], UUID: uuid, Type: "ext4"}}) }},
		{"given out", func() error { return s.GiveOut(f, "boot", "blocks", "/mnt/blocks/C") }},
		{"a format", func() error { return s.begin(&Format{Store: s, Record: disk.Record{UUID: uuid, Identity: disks[0]}}) }},
		{"its end", func() error { return s.EndFormat(uuid, errors.New("failed")) }},
		{"an intent", func() error { return s.Begin(disk.Intent{UUID: uuid, Identity: disks[0]}) }},
		{"unreadable", func() error { return os.WriteFile(s.sightingsFile(), []byte("{"), 0o600) }},
		{"a file less", func() error { return errors.Join(os.Remove(s.stateFile()), os.RemoveAll(s.sightingsFile())) }},
	} {
		s.Load("boot", k)
		settled(k)
		if err := tt.change(); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		got, want := s.Load("boot", k), s.Load("boot", nil)
		got.formats, want.formats = nil, nil // they are counted from now
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Memory{}, state{}, twin{}), cmp.Comparer(sameError)); diff != "" {
			t.Errorf("%s (-read +kept):\n%s", tt.name, diff)
		}
	}
	// And it is kept: what it was made to be is given although the file has something else.
	s = made(t)
	k = new(Known)
	s.Load("boot", k)
	settled(k)
	kept := k.files[s.sightingsFile()]
	kept.value = []disk.Sighting{{UUID: uuid, At: time.Second}}
	k.files[s.sightingsFile()] = kept
	if m := s.Load("boot", k); len(m.sightings) != 1 {
		t.Errorf("read again though nothing has changed: %v", m.sightings)
	}
}

// TestKnownWhileWritten: what is written while it is read is read once more.
func TestKnownWhileWritten(t *testing.T) {
	k, path := new(Known), filepath.Join(t.TempDir(), "x")
	for i := range 3 {
		got, err := once(k, path, func() (int, error) { return i, os.WriteFile(path, make([]byte, i+1), 0o600) })
		if err != nil || got != i {
			t.Errorf("%d, error %v, want %d", got, err, i)
		}
		settled(k)
	}
}

// TestKnownOfOwn: what was just recorded is known without that it is read, and what another has made
// of it since is read at once.
func TestKnownOfOwn(t *testing.T) {
	s := Store{State: t.TempDir(), Runtime: t.TempDir()}
	if _, err := s.Init(nil); err != nil {
		t.Fatal(err)
	}
	k := new(Known)
	seen := func(seq uint64) []disk.Sighting {
		return []disk.Sighting{{UUID: uuid, Identity: disk.Identity{Boot: "b", Seq: seq}, Mounted: time.Now()}}
	}
	for seq := range uint64(3) {
		if err := k.Remember(s, seen(seq)); err != nil {
			t.Fatal(err)
		}
		if f := k.files[s.sightingsFile()]; f.held == nil || !f.stamp.Holds() {
			t.Fatal("it is read again")
		}
		if got := s.Load("b", k).sightings; len(got) != 1 || got[0].Identity.Seq != seq {
			t.Errorf("known is %v, not %d", got, seq)
		}
		// Of the same size, and at once: what tells is that it is another file.
		if err := s.Remember(seen(seq + 5)); err != nil {
			t.Fatal(err)
		}
		if got := s.Load("b", k).sightings; len(got) != 1 || got[0].Identity.Seq != seq+5 {
			t.Errorf("known is %v, not what another has recorded", got)
		}
	}
	// What another has recorded is not lost, either.
	if err := s.Remember([]disk.Sighting{{UUID: "other"}}); err != nil {
		t.Fatal(err)
	}
	if err := k.Remember(s, seen(9)); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Sightings(); err != nil || len(got) != 2 || got[0].UUID != "other" {
		t.Errorf("on record: %v, error %v", got, err)
	}
	// Who has been given what was known keeps it.
	given := s.Load("b", k).sightings
	before := slices.Clone(given)
	if err := k.Remember(s, []disk.Sighting{{UUID: "other", Left: true}}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(given, before) {
		t.Errorf("what was given becomes %v", given)
	}
	if err := k.Remember(Store{State: s.State + "/none", Runtime: s.Runtime}, seen(10)); err == nil {
		t.Error("recorded nowhere")
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	for _, fd := range fds {
		if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.HasPrefix(to, s.State) {
			held++
		}
	}
	if held != 1 {
		t.Errorf("%d files are open", held)
	}
}

func sameError(a, b error) bool { return a == b || a != nil && b != nil && a.Error() == b.Error() }

// What is expected counts before it is recorded, as it does when it is, and no longer than until then.
func TestExpected(t *testing.T) {
	s := Store{State: t.TempDir(), Runtime: t.TempDir()}
	if _, err := s.Init(nil); err != nil {
		t.Fatal(err)
	}
	known := new(Known)
	mounted := disk.Sighting{UUID: "a", Identity: disk.Identity{Boot: "b", Seq: 2}}
	left, other := mounted, mounted
	left.Left, other.Identity.Seq = true, 3
	filesystems := func() []disk.Sighting { return s.Load("b", known).sightings }
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
	// What could not be recorded does not come back when something newer is.
	gone := other
	gone.Left = true
	known.Expect(gone)
	if err := s.Remember([]disk.Sighting{gone}); err != nil {
		t.Fatal(err)
	}
	known.Recorded([]disk.Sighting{gone})
	if got := filesystems(); !slices.Equal(got, []disk.Sighting{mounted}) || len(known.expected) != 0 {
		t.Errorf("after it was recorded: %+v, still expected %+v", got, known.expected)
	}
	if got, err := s.Sightings(); err != nil || !slices.Equal(got, []disk.Sighting{mounted}) {
		t.Errorf("on record: %+v, %v", got, err)
	}
	for range 2 * sightingsKept {
		known.Expect(mounted)
	}
	if got := len(known.expected); got != sightingsKept {
		t.Errorf("%d are kept", got)
	}
}

// What is seen is never unknown: not while it is recorded, either.
func TestExpectedWhileItIsRecorded(t *testing.T) {
	s := Store{State: t.TempDir(), Runtime: t.TempDir()}
	if _, err := s.Init(nil); err != nil {
		t.Fatal(err)
	}
	known := new(Known)
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
					if got := s.Load("b", known).sightings; !slices.Equal(got, []disk.Sighting{seen}) {
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
