package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// TestPublished: anybody may read it, whatever the daemon's umask.
func TestPublished(t *testing.T) {
	s := Store{Runtime: t.TempDir()}
	if lines, err := s.Published(); err != nil || len(lines) != 0 {
		t.Errorf("before the first: %v, %v", lines, err)
	}
	want := []disk.Line{{Disk: "vdb", Seq: 7, Kind: disk.Unknown, Decision: disk.Decision{Action: disk.Refuse, Reason: disk.ReasonUnknown, Class: "default"}, Why: "w", Next: "n", Failure: "f", Remedy: "r"}}
	before := unix.Umask(0o077)
	err := (&Publisher{Store: s}).Publish(want)
	unix.Umask(before)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Published()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	info, err := os.Stat(s.publishedFile())
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o644 {
		t.Errorf("mode %o", mode)
	}
	if err := os.WriteFile(s.publishedFile(), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Published(); err == nil {
		t.Error("half a file was read")
	}
}

// TestEncoder: a list is encoded as it would be anew, whatever was encoded before; what was in the last
// one is not encoded again, and what was not is not kept.
func TestEncoder(t *testing.T) {
	sighting := func(i int) disk.Sighting {
		return disk.Sighting{UUID: numbered(i), Type: "<&>", Identity: disk.Identity{Serial: "a\u2028\"", Seq: uint64(i)}, Mounted: time.Unix(int64(i), 5).UTC()}
	}
	one, two, three := sighting(1), sighting(2), sighting(3)
	var known Known
	e := &known.encoded
	for _, all := range [][]disk.Sighting{{}, {one}, {one, two}, {two, one, three}, {three}, {one, three, one}, {one, two, three}, {one, two, three}, {one, sighting(4), three}, {three, two}, nil} {
		want, err := json.MarshalIndent(sightings{Version: version, Filesystems: append([]disk.Sighting{}, all...)}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		s := Store{State: t.TempDir()}
		if err := s.writeSightings(&known, s.sightingsFile(), all); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(s.sightingsFile())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want)+"\n", string(got)); diff != "" {
			t.Errorf("%d (-want +got):\n%s", len(all), diff)
		}
		if len(e.encoded) != len(all) {
			t.Errorf("%d are kept of %d", len(e.encoded), len(all))
		}
	}
	e.last, e.encoded = []disk.Sighting{one, two}, [][]byte{nil, []byte("kept")}
	if got, err := e.list([]disk.Sighting{two}, ""); err != nil || string(got) != "[\n  kept\n]" {
		t.Errorf("encoded again: %s, error %v", got, err)
	}
	// What can not be encoded can not the next time, either.
	never := three
	never.Mounted = time.Unix(1<<40, 0)
	for range 2 {
		if got, err := e.list([]disk.Sighting{one, never}, ""); err == nil {
			t.Errorf("encoded: %s", got)
		}
	}
	all := []disk.Sighting{one}
	before, err := e.list(all, "")
	if err != nil {
		t.Fatal(err)
	}
	all[0] = two
	if after, err := e.list(all, ""); err != nil || bytes.Equal(after, before) {
		t.Errorf("changed where it lies, that is %s, error %v", after, err)
	}
}

// BenchmarkPublish is one of 250 disks that has changed.
func BenchmarkPublish(b *testing.B) {
	p := Publisher{Store: Store{Runtime: b.TempDir()}}
	var lines []disk.Line
	for i := range 250 {
		lines = append(lines, disk.Line{Disk: fmt.Sprintf("vd%d", i), Seq: uint64(i), Kind: disk.Filesystem, Type: disk.XFS, UUID: numbered(i), Why: "it is mounted at /mnt/disks/" + numbered(i)})
	}
	b.ReportAllocs()
	for b.Loop() {
		lines[7].Seq++
		if err := p.Publish(lines); err != nil {
			b.Fatal(err)
		}
	}
}
