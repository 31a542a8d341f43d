package inventory

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
)

// TestStale checks that a mount in a class directory is stale if sysfs has no device with the mount's device number.
// The facts of the stale mount come from the record of its disk.
func TestStale(t *testing.T) {
	const where = "/mnt/disks/" + uuidA
	gone := "40 27 254:64 / " + where + " rw,noatime - xfs /dev/vde rw\n"
	s := &disk.Settings{Classes: []disk.Class{{Directory: "/mnt/fast"}, {Directory: "/mnt/disks"}}}
	identity := disk.Identity{Boot: boot, Seq: 7, Serial: "S7", Slot: "pci-7", Size: 5 << 30}
	for name, tt := range map[string]struct {
		line string
		want bool
	}{
		"gone":                     {gone, true},
		"there":                    {strings.Replace(gone, "254:64", "254:16", 1), false},
		"no directory of a class":  {strings.Replace(gone, "/mnt/disks", "/srv", 1), false},
		"no UUID":                  {strings.Replace(gone, uuidA, "x", 1), false},
		"a part of the filesystem": {strings.Replace(gone, "254:64 /", "254:64 /x", 1), false},
		"no disk":                  {strings.Replace(gone, "254:64", "0:64", 1), false},
	} {
		h := node.with(tree{"sys/dev/block/254:16": "-> ../../block/vdb", table: "27 1 0:2 / / rw - rootfs rootfs rw\n" + tt.line}).make(t)
		if err := h.Store.Remember([]disk.Sighting{{Identity: identity, UUID: uuidA, Type: "xfs"}}); err != nil {
			t.Fatal(err)
		}
		got, err := h.Stale(s)
		var want []disk.Facts
		if tt.want {
			dev := disk.Dev{Major: 254, Minor: 64}
			want = []disk.Facts{{ID: disk.ID{Name: "vde", Dev: dev, Seq: 7}, Serial: "S7", Slot: "pci-7", Size: 5 << 30,
				Mounts: []disk.MountPoint{{Dev: dev, Root: "/", Path: where, Type: "xfs", Source: "/dev/vde", Options: "rw,noatime", SuperOptions: "rw"}}}}
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	// Stale must find the mount even without a record of the disk. Stale must also find a mount of an earlier class.
	identity.Boot = "another"
	h := node.with(tree{table: gone + "41 27 254:64 / /mnt/fast/" + uuidB + " rw - xfs /dev/vde rw\n"}).make(t)
	if err := h.Store.Remember([]disk.Sighting{{Identity: identity, UUID: uuidA, Type: "xfs"}}); err != nil {
		t.Fatal(err)
	}
	if got, err := h.Stale(s); err != nil || len(got) != 2 || got[0].Serial != "" {
		t.Errorf("of another boot: %+v, %v", got, err)
	}
	if err := os.WriteFile(h.Store.State+"/filesystems.json", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := h.Stale(s); err == nil || len(got) != 2 {
		t.Errorf("unreadable record: %+v, %v", got, err)
	}
}

// TestStaleInAFormerDirectory checks that a stale mount is found after its class was removed from the configuration.
// Stale must also find the mount if there is no configuration.
func TestStaleInAFormerDirectory(t *testing.T) {
	const where = "/mnt/former/" + uuidA
	h := node.with(tree{table: "40 27 254:64 / " + where + " rw,noatime - xfs /dev/vde rw\n"}).make(t)
	now := &disk.Settings{Classes: []disk.Class{{Directory: "/mnt/disks"}}}
	if got, err := h.Stale(now); err != nil || len(got) != 0 {
		t.Errorf("in a directory that was never a class's: %+v, %v", got, err)
	}
	if err := h.Store.SaveDirectories(now, "/mnt/former"); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*disk.Settings{"with other classes": now, "without": {}} {
		if got, err := h.Stale(s); err != nil || len(got) != 1 || got[0].Mounts[0].Path != where {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	// An unreadable list of earlier directories does not hide the directories of the configured classes.
	if err := os.WriteFile(h.Store.State+"/directories.json", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := h.Stale(&disk.Settings{Classes: []disk.Class{{Directory: "/mnt/former"}}}); err == nil || len(got) != 1 {
		t.Errorf("unreadable list: %+v, %v", got, err)
	}
}
