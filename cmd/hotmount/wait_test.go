package main

import (
	"testing"

	"hotmount/internal/disk"
)

func TestIsMounted(t *testing.T) {
	const uuid = "5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	s := &disk.Settings{Classes: []disk.Class{{Directory: "/mnt/slow"}, {Directory: "/mnt/disks"}}}
	dev, gone := disk.Dev{Major: 254, Minor: 16}, disk.Dev{Major: 254, Minor: 32}
	there := func(d disk.Dev) bool { return d == dev }
	right := disk.MountPoint{Path: "/mnt/disks/" + uuid, Root: "/", Dev: dev}
	for name, tt := range map[string]struct {
		change func(*disk.MountPoint)
		want   bool
	}{
		"right":                  {func(*disk.MountPoint) {}, true},
		"elsewhere":              {func(m *disk.MountPoint) { m.Path = "/mnt/" + uuid }, false},
		"another filesystem":     {func(m *disk.MountPoint) { m.Path = "/mnt/disks/x" }, false},
		"a directory of it":      {func(m *disk.MountPoint) { m.Root = "/d" }, false},
		"covered":                {func(m *disk.MountPoint) { m.Covered = true }, false},
		"of a disk that is gone": {func(m *disk.MountPoint) { m.Dev = gone }, false},
	} {
		m := right
		tt.change(&m)
		if got := isMounted([]disk.MountPoint{{Path: "/", Root: "/", Dev: dev}, m}, uuid, s, there); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
