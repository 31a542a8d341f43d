package mounts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
)

func TestDeviceUsers(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"loop0": "/dev/vdb\n", "loop1": "/var/lib/image\n"} {
		dir := filepath.Join(root, "sys/block", name, "loop")
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "backing_file"), []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	process(t, root, "7", map[string]string{"comm": "sh\n", "fd/0": "no device"}, nil)
	process(t, root, "8", map[string]string{"comm": "gone\n"}, nil)
	got, err := DeviceUsers(root, disk.ID{Name: "vdb", Dev: disk.Dev{Major: 254, Minor: 16}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]User{{How: "behind /dev/loop0"}}, got); diff != "" {
		t.Error(diff)
	}
}
