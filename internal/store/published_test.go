package store

import (
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// TestPublished checks that every user may read the published status, whatever the daemon's umask is.
func TestPublished(t *testing.T) {
	s := Store{Runtime: t.TempDir()}
	if lines, err := s.Published(); err != nil || len(lines) != 0 {
		t.Errorf("before the first: %v, %v", lines, err)
	}
	want := []disk.Line{{Disk: "vdb", Seq: 7, Kind: disk.Unknown, Decision: disk.Decision{Action: disk.Refuse, Reason: disk.ReasonUnknown, Class: "default"}, Why: "w", Next: "n", Failure: "f", Remedy: "r"}}
	before := unix.Umask(0o077)
	err := s.Publish(want)
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

// BenchmarkPublish publishes the state of 250 disks, one of which has changed.
func BenchmarkPublish(b *testing.B) {
	s := Store{Runtime: b.TempDir()}
	var lines []disk.Line
	for i := range 250 {
		lines = append(lines, disk.Line{Disk: fmt.Sprintf("vd%d", i), Seq: uint64(i), Kind: disk.Filesystem, Type: disk.XFS, UUID: numbered(i), Why: "the disk is mounted at /mnt/disks/" + numbered(i)})
	}
	b.ReportAllocs()
	for b.Loop() {
		lines[7].Seq++
		if err := s.Publish(lines); err != nil {
			b.Fatal(err)
		}
	}
}
