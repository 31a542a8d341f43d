//go:build vm && (long || full)

package system

import (
	"os"
	"testing"

	"hotmount/test/worker"
)

// TestAFilesystemVanishes: a disk without a serial that turns to zeros while it is
// attached is held, naming what lay on it, and freed by no word for something else.
func TestAFilesystemVanishes(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	image := made(t, 320<<20)
	name, _ := m.attach(w, worker.Disk{File: image})
	uuid := m.mounted(name)
	m.wait("the filesystem to be remembered", "grep -q "+uuid+" /var/lib/hotmount/filesystems.json")
	m.run("umount /mnt/disks/" + uuid)
	m.says("/dev/" + name + " .*hold: somebody unmounted it")
	for _, size := range []int64{0, 320 << 20} {
		if err := os.Truncate(image, size); err != nil {
			t.Fatal(err)
		}
	}
	zeros := digest(t, image)
	m.run("hotmount accept " + name)
	m.says("/dev/" + name + " .*refuse: it was read as blank, and udev knows something on it; udevadm trigger -s block -y " + name)
	m.run("udevadm trigger -s block -y " + name)
	m.says("/dev/" + name + " .*hold: it looks blank, but data lay on it since it was attached: xfs " + uuid + " .*hotmount accept " + name)
	if digest(t, image) != zeros {
		t.Error("it was written to")
	}
	m.run("hotmount accept " + name)
	if now := m.mounted(name); now == uuid {
		t.Error("the new filesystem has the old UUID")
	}
}

// TestASickFilesystemVanishes: the word that what failed is worth another try says nothing
// of zeros, either.
func TestASickFilesystemVanishes(t *testing.T) {
	m, w := start(t, worker.Options{})
	zeros := digest(t, blank(t, 320<<20))
	image := made(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "SICK"})
	uuid := m.mounted(name)
	m.wait("the filesystem to be remembered", "grep -q "+uuid+" /var/lib/hotmount/filesystems.json")
	m.detach(w, id)
	scribble(t, image, 1024, 512) // as in TestDamaged
	name, _ = m.attach(w, worker.Disk{File: image, Serial: "SICK"})
	m.says("/dev/" + name + " .*tried again in")
	m.run("hotmount accept " + name)
	for _, size := range []int64{0, 320 << 20} {
		if err := os.Truncate(image, size); err != nil {
			t.Fatal(err)
		}
	}
	m.run("udevadm trigger -s block -y " + name)
	m.says("/dev/" + name + " .*hold: .*" + uuid + ".*hotmount accept " + name)
	if digest(t, image) != zeros {
		t.Error("it was written to")
	}
}
