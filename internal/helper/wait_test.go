package helper

import (
	"testing"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

func TestIsMounted(t *testing.T) {
	const uuid = "5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	s := &disk.Settings{Classes: []disk.Class{{Directory: "/mnt/slow"}, {Directory: "/mnt/disks"}}}
	dev, gone := disk.Dev{Major: 254, Minor: 16}, disk.Dev{Major: 254, Minor: 32}
	there := func(d disk.Dev) bool { return d == dev }
	mount := func(id, parent int, path string) mounts.Mount {
		return mounts.Mount{ID: id, Parent: parent, MountPoint: disk.MountPoint{Path: path, Root: "/", Dev: dev}}
	}
	root, right := mount(1, 0, "/"), mount(2, 1, "/mnt/disks/"+uuid)
	with := func(change func(*mounts.Mount)) []mounts.Mount {
		m := right
		change(&m)
		return []mounts.Mount{root, m}
	}
	over := func(id, parent int, path string) mounts.Mount {
		m := mount(id, parent, path)
		m.Dev = disk.Dev{Minor: 40}
		return m
	}
	for name, tt := range map[string]struct {
		tree []mounts.Mount
		want bool
	}{
		"right":                  {with(func(*mounts.Mount) {}), true},
		"nothing":                {[]mounts.Mount{root}, false},
		"elsewhere":              {with(func(m *mounts.Mount) { m.Path = "/mnt/" + uuid }), false},
		"another filesystem":     {with(func(m *mounts.Mount) { m.Path = "/mnt/disks/x" }), false},
		"a directory of it":      {with(func(m *mounts.Mount) { m.Root = "/d" }), false},
		"of a disk that is gone": {with(func(m *mounts.Mount) { m.Dev = gone }), false},
		"covered":                {[]mounts.Mount{root, right, over(3, 2, right.Path)}, false},
		"its class is covered":   {[]mounts.Mount{root, right, over(3, 1, "/mnt/disks")}, false},
	} {
		if got := isMounted(tt.tree, uuid, s, there); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
