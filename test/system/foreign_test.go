//go:build vm && (long || full)

package system

import (
	"testing"

	"hotmount/test/worker"
)

// TestForeignHalfMade: a filesystem that another node has begun to make is nobody's
// business but the operator's.
func TestForeignHalfMade(t *testing.T) {
	m, w := startNode(t, worker.Options{})
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
	m, w := startNode(t, worker.Options{})
	m.run("systemctl stop hotmount")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.run("echo 0 >/sys/block/" + name + "/queue/iostats; systemctl start hotmount")
	m.says("/dev/" + name + " .*refuse: the kernel does not count the writes to it .*echo 1 >/sys/block/" + name + "/queue/iostats")
	m.run("echo 1 >/sys/block/" + name + "/queue/iostats; systemctl reload hotmount")
	m.mounted(name)
}

// TestDriverThatDoesNotCount: a driver can be told to count, and never do it (the heads of NVMe
// multipath on this kernel; null_blk, where it does not queue): what nobody would see written to is
// not formatted.
func TestDriverThatDoesNotCount(t *testing.T) {
	m, _ := start(t, worker.Options{})
	m.run("printf 'classes:\\n  - name: nulls\\n    names: [nullb0]\\n    directory: /mnt/disks\\n' >/etc/hotmount/config.yaml; systemctl reload hotmount")
	// The link by sequence number is made for no such disk.
	m.run(`echo 'KERNEL=="nullb0", SYMLINK+="disk/by-diskseq/$env{DISKSEQ}"' >/etc/udev/rules.d/99-null.rules; udevadm control --reload`)
	m.run("modprobe null_blk queue_mode=0 memory_backed=1 gb=1 nr_devices=1; udevadm settle")
	m.says("/dev/nullb0 .*refuse: the kernel does not count the writes to it .*echo 1 >/sys/block/nullb0/queue/iostats")
	m.run("echo 1 >/sys/block/nullb0/queue/iostats; systemctl reload hotmount")
	m.says("/dev/nullb0 .*its driver does not count")
	// The disk reads as zeros, and reading it shows nowhere.
	if got := m.run("cmp -n 1073741824 /dev/nullb0 /dev/zero; awk '{print $3, $7}' /sys/block/nullb0/stat; ls -A /mnt/disks"); got != "0 0" {
		t.Errorf("counted, written to, or mounted: %q", got)
	}
}
