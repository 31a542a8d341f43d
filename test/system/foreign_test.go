//go:build vm && (long || full)

package system

import (
	"testing"

	"hotmount/test/worker"
)

// TestForeignHalfMade: a filesystem that another node has begun to make is nobody's
// business but the operator's.
func TestForeignHalfMade(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("systemctl stop hotmount")
	image := blank(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image})
	m.run("LIBXFS_DEBUG_WRITE_CRASH=ddev=20 mkfs.xfs -q -K /dev/" + name + " || true; sync")
	m.detach(w, id)
	before := digest(t, image)
	name, _ = m.attach(w, worker.Disk{File: image})
	m.run("udevadm settle; udevadm info -q property /dev/" + name + " | grep -x ID_FS_TYPE=xfs; systemctl start hotmount")
	m.says("/dev/" + name + " .*refuse: mkfs.xfs did not finish on it, and this node has no record of having begun the unfinished filesystem .*; .*hotmount format " + name)
	// udev calls it XFS, so that a mount was tried: the kernel flushes the disk
	// then, a write request without a sector.
	if got := m.run("awk '{print $7+$14}' /sys/block/" + name + "/stat"); got != "0" {
		t.Errorf("%s sectors were written", got)
	}
	if digest(t, image) != before {
		t.Error("its bytes have changed")
	}
	_, token := m.offer(name)
	m.run("hotmount format " + name + " --confirm " + token)
	m.mounted(name)
}

// TestWritesThatAreNotCounted: without the kernel's count of writes nothing is
// formatted.
func TestWritesThatAreNotCounted(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("systemctl stop hotmount")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.run("echo 0 >/sys/block/" + name + "/queue/iostats; systemctl start hotmount")
	m.says("/dev/" + name + " .*refuse: the kernel does not count the writes to it .*echo 1 >/sys/block/" + name + "/queue/iostats")
	m.run("echo 1 >/sys/block/" + name + "/queue/iostats; systemctl reload hotmount")
	m.mounted(name)
}
