package helper

import (
	"os"
	"path/filepath"
	"testing"

	"hotmount/internal/disk"
	"hotmount/internal/nodetest"
)

// TestAttached checks that hotmount treats a disk as attached unless the disk is known to be gone.
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

// TestIntentOfAnAttachedDisk checks that two attached disks with the same serial or WWN get different filesystem UUIDs.
func TestIntentOfAnAttachedDisk(t *testing.T) {
	const begun = "0a0b0c0d-1111-4222-8333-abcdefabcdef"
	f := &disk.Facts{ID: disk.ID{Seq: 3}}
	f.Standing.Intent = &disk.Intent{Identity: disk.Identity{Seq: 2}, UUID: begun, Attached: true}
	for name, tt := range map[string]struct {
		serial, wwn []disk.Peer
		own         bool
	}{
		"gone":       {nil, []disk.Peer{{ID: disk.ID{Seq: 1}}}, false},
		"one serial": {[]disk.Peer{{ID: disk.ID{Seq: 2}}}, nil, true},
		"one WWN":    {nil, []disk.Peer{{ID: disk.ID{Seq: 2}}}, true},
	} {
		f.SameSerial, f.SameWWN = tt.serial, tt.wwn
		if uuid, err := intendedUUID(f, false); err != nil || (uuid != begun) != tt.own {
			t.Errorf("%s: %s, %v", name, uuid, err)
		}
	}
}
