//go:build root

package doctor

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestList checks that List finds the files that a mount hides, and does not list the mounted filesystem.
func TestList(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"mounted/hidden", "empty/", "full/x"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/vdb", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	point := filepath.Join(dir, "mounted")
	if err := unix.Mount("hotmount-test", point, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatalf("cannot mount (this needs root): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(point, "above"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := List(dir, &out); err != nil {
		t.Fatal(err)
	}
	got := map[string]Entry{}
	for _, a := range decode(t, &out) {
		got[a.Entry.Name] = *a.Entry
	}
	want := map[string]Entry{
		"mounted": {Name: "mounted", Kind: "directory", First: "hidden"}, "empty": {Name: "empty", Kind: "directory"}, "full": {Name: "full", Kind: "directory", First: "x"},
		"pipe": {Name: "pipe", Kind: "fifo"}, "link": {Name: "link", Kind: "symlink", Target: "/dev/vdb"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	for i := range maxEntries {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("empty/%d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := List(filepath.Join(dir, "empty"), io.Discard); err != nil {
		t.Errorf("%d entries: %v", maxEntries, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "empty/more"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := List(filepath.Join(dir, "empty"), &out); err == nil || len(decode(t, &out)) != maxEntries {
		t.Errorf("no error for the entries left out: %v", err)
	}
	if err := os.Symlink(dir, filepath.Join(dir, "self")); err != nil {
		t.Fatal(err)
	}
	if err := List(filepath.Join(dir, "self"), &out); err == nil {
		t.Error("followed a symlink")
	}
}
