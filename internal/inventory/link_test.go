package inventory

import (
	"os"
	"path/filepath"
	"testing"

	"hotmount/internal/disk"
)

// TestGivenOut checks that a disk counts as given out only while both links exist and lead to this attachment.
func TestGivenOut(t *testing.T) {
	const link = "/mnt/raw/virtio-S1"
	good := tree{"mnt/raw/virtio-S1": "-> /dev/hotmount/virtio-S1", "dev/hotmount/virtio-S1": "-> /dev/disk/by-diskseq/12"}
	for name, tt := range map[string]struct {
		change tree
		want   bool
	}{
		"there":                              {nil, true},
		"no link":                            {tree{"mnt/raw/virtio-S1": "-"}, false},
		"after a reboot":                     {tree{"dev/hotmount/virtio-S1": "-"}, false},
		"a file":                             {tree{"mnt/raw/virtio-S1": "x"}, false},
		"to the device itself":               {tree{"mnt/raw/virtio-S1": "-> /dev/vdb"}, false},
		"to another attachment":              {tree{"dev/hotmount/virtio-S1": "-> /dev/disk/by-diskseq/13"}, false},
		"to another disk's link":             {tree{"mnt/raw/virtio-S1": "-> /dev/hotmount/virtio-S2", "dev/hotmount/virtio-S2": "-> /dev/disk/by-diskseq/12"}, false},
		"to the device in place of its link": {tree{"dev/hotmount/virtio-S1": "-> /dev/vdb"}, false},
	} {
		h := good.with(tt.change).make(t)
		if got := h.leadsTo(link, 12); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
		if h.leadsTo("", 12) {
			t.Errorf("%s: not given out", name)
		}
	}
}

// TestOwnEntries checks that describeStrays does not report hotmount's own entries in class directories. describeStrays
// must report entries that only look like hotmount's own entries.
func TestOwnEntries(t *testing.T) {
	root := t.TempDir()
	class := filepath.Join(root, "mnt/disks")
	write(t, root, "mnt/disks/"+uuidA+"/"+disk.Marker, "")
	write(t, root, "mnt/disks/."+uuidB+"/"+disk.Marker, "")
	write(t, root, "proc/1/mountinfo", "24 1 254:1 / / rw shared:1 - ext4 /dev/vda1 rw\n")
	if err := os.Mkdir(filepath.Join(class, "."+uuidC), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"virtio-S1": "/dev/hotmount/virtio-S1", "virtio-S2": "/dev/hotmount/virtio-S1", "virtio-S3": "/dev/vdb"} {
		if err := os.Symlink(target, filepath.Join(class, name)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Host{Root: root}.describeStrays("/mnt/disks")
	if err != nil || len(got) != 2 {
		t.Errorf("%q, %v", got, err)
	}
}
