package main

import (
	"os"
	"path/filepath"
	"testing"

	"hotmount/internal/disk"
)

// TestCleanupCommand checks that cleanup removes one mount point, or all mount points in the class directories of the
// daemon that ran last. cleanup --all must remove the mount points even if the configuration is faulty, and then exit
// with code 1.
func TestCleanupCommand(t *testing.T) {
	const uuid = "aaaaaaaa-0000-4000-8000-000000000001"
	h, dir := machine(t), t.TempDir()
	write(t, h.Root, map[string]string{"proc/self/mountinfo": "27 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n"})
	if _, err := h.Store.Init(nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Store.SaveDirectories(&disk.Settings{Classes: []disk.Class{{Directory: dir}}}); err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"config": "classes: []\n"})
	for _, args := range [][]string{{"cleanup", filepath.Join(dir, uuid)}, {"cleanup", "--all", "--config", filepath.Join(dir, "config")}} {
		write(t, dir, map[string]string{uuid + "/": ""})
		_, code, err := call(t, args...)
		if fault := len(args) > 2; fault != (code == 1) {
			t.Errorf("%v: code %d, %v", args, code, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, uuid)); !os.IsNotExist(err) {
			t.Errorf("%v: the mount point is still there: %v", args, err)
		}
	}
}
