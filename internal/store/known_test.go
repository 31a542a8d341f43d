package store

import (
	"errors"
	"os"
	"path/filepath"
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

func sameError(a, b error) bool { return a == b || a != nil && b != nil && a.Error() == b.Error() }
