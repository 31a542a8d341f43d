package mounts

import (
	"testing"

	"hotmount/internal/disk"
)

// What ends meanwhile, and what is no device, has no disk open; one that has is in
// TestRealLoops.
func TestDeviceUsers(t *testing.T) {
	root := t.TempDir()
	process(t, root, "7", map[string]string{"comm": "sh\n", "fd/0": "no device"}, nil)
	process(t, root, "8", map[string]string{"comm": "gone\n"}, nil)
	got, err := DeviceUsers(root, disk.ID{Name: "vdb", Dev: disk.Dev{Major: 254, Minor: 16}})
	if err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}
