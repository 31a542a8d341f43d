package helper

import (
	"os"
	"path/filepath"
	"testing"

	"hotmount/internal/nodetest"
)

// TestAttached: only a disk that is known to be gone is not attached.
func TestAttached(t *testing.T) {
	j := &job{host: nodetest.New(t)}
	for seq, want := range map[uint64]bool{1016: true, 1017: false} {
		if got := j.attached(seq); got != want {
			t.Errorf("%d: %v", seq, got)
		}
	}
	if err := os.Remove(filepath.Join(j.host.Root, "proc/1/mountinfo")); err != nil {
		t.Fatal(err)
	}
	if !j.attached(1017) {
		t.Error("where the disks cannot be looked at: gone")
	}
}
