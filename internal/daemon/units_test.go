package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"hotmount/internal/disk"
	"hotmount/internal/nodetest"
	"hotmount/internal/unit"
)

// TestRunOnlyWithWork checks that no program runs to remove a directory that is gone. If the filesystem of a device is
// mounted nowhere, no program may run to unmount it.
func TestRunOnlyWithWork(t *testing.T) {
	h := nodetest.New(t)
	u := units{Manager: new(unit.Manager), host: h}
	vdb := disk.ID{Name: "vdb", Dev: disk.Dev{Major: 254, Minor: 16}, Seq: 1016}
	there := t.TempDir()
	// The path is not a mount point of hotmount. Run therefore returns an error in each case in which Run would start a
	// program.
	check := func(what string, p disk.Program, path string, runs bool) {
		t.Helper()
		if err := u.Run(t.Context(), p, vdb, path); (err != nil) != runs {
			t.Errorf("%s: error %v, want one: %v", what, err, runs)
		}
	}
	check("no directory", disk.ProgramCleanup, there+"/gone", false)
	check("a directory", disk.ProgramCleanup, there, true)
	check("mounted nowhere", disk.ProgramUnmount, there, false)
	nodetest.Write(t, h.Root, map[string]string{"sys/fs/xfs/vdb/": ""})
	check("mounted for a pod", disk.ProgramUnmount, there, true)
	if err := os.Remove(filepath.Join(h.Root, "sys/fs/xfs/vdb")); err != nil {
		t.Fatal(err)
	}
	nodetest.Write(t, h.Root, map[string]string{"proc/1/mountinfo": "27 1 254:0 / / rw - ext4 /dev/vda rw\n40 27 254:16 / " + there + " rw - xfs /dev/mapper/a rw\n"})
	check("mounted in its place, by another name", disk.ProgramUnmount, there, true)
	if err := os.Remove(filepath.Join(h.Root, "proc/1/mountinfo")); err != nil {
		t.Fatal(err)
	}
	check("without a mount table", disk.ProgramUnmount, there, true)
}
