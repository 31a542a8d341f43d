package main

import (
	"errors"
	"io/fs"
	"testing"

	"hotmount/internal/config"
	"hotmount/internal/control"
)

// TestReleaseCommand checks that hotmount release writes the data to the disk before the call to the daemon. In the
// test, the mount point is missing, so the write must fail before the call.
func TestReleaseCommand(t *testing.T) {
	h := machine(t)
	write(t, h.Root, map[string]string{
		"proc/1/mountinfo": "27 1 254:0 / / rw - ext4 /dev/vda rw\n40 27 254:16 / /mnt/disks/0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f rw - xfs /dev/vdb rw\n",
		"proc/1/ns/mnt":    "-> mnt:[1]",
	})
	settings := config.Default()
	if err := h.Store.SaveSettings(&settings); err != nil {
		t.Fatal(err)
	}
	if _, _, err := call(t, "release", "--force", "vdb"); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, control.ErrDown) {
		t.Errorf("got %v", err)
	}
}
