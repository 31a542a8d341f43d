//go:build vm && (long || full)

package system

import (
	"testing"

	"hotmount/test/worker"
)

// TestSystemDisk: while disks are formatted, mounted, refused, released and detached the
// system disk stays the same byte for byte, and nothing is written to it (issue 2, shown 7).
// What the system would write there itself goes to memory.
func TestSystemDisk(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run(`modprobe overlay
		for d in var mnt; do mkdir -p /run/over/$d/upper /run/over/$d/work; mount -t overlay overlay -o lowerdir=/$d,upperdir=/run/over/$d/upper,workdir=/run/over/$d/work /$d; done
		systemctl restart systemd-journald hotmount; sync; echo u >/proc/sysrq-trigger`)
	m.wait("the root to be read-only", "findmnt -no FS-OPTIONS / | grep -w ^ro && ! touch /root/x")
	const state = "awk '{print $5+$12}' /sys/block/vda/stat; dd if=/dev/vda bs=4M iflag=direct status=none | sha256sum"
	before := m.run("blockdev --flushbufs /dev/vda; " + state)

	made, id := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "MADE"})
	uuid := m.mounted(made)
	m.run("echo data >/mnt/disks/" + uuid + "/f")
	other, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "OTHER"})
	m.mounted(other)
	m.run("hotmount release " + other + " && printf 'label: gpt\\n,\\n' | sfdisk -q --wipe always /dev/" + other + " && hotmount accept " + other)
	m.says("/dev/" + other + " .*refuse: ")
	m.run("hotmount plan; hotmount doctor >/dev/null || [ $? -lt 100 ]; systemctl restart hotmount; udevadm trigger -s block; udevadm settle; systemctl start hotmount-trim")
	m.detach(w, id)
	m.wait("the directory to go", "[ ! -e /mnt/disks/"+uuid+" ]")
	if after := m.run("blockdev --flushbufs /dev/vda; " + state); after != before {
		t.Errorf("the system disk, its writes and its digest: before %s, after %s", before, after)
	}
}
