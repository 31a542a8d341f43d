//go:build vm && (long || full)

package system

import (
	"fmt"
	"testing"

	"hotmount/test/worker"
)

// TestStalledWrite: a write that begins while a disk settles, past the page cache, and
// that the storage does not answer is in no count of writes that are done. It has won.
func TestStalledWrite(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("printf '[Service]\\nEnvironment=HOTMOUNT_SETTLE=15s\\n' >/etc/systemd/system/hotmount.service.d/quick.conf; systemctl daemon-reload; systemctl stop hotmount")
	name, id := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: "STALLS"})
	m.run("udevadm settle")
	throttle(t, w, id+"/virtio-backend", 0, 1)
	write := func(from, at string) string {
		return fmt.Sprintf("dd if=%s of=/dev/%s bs=4096 count=1 seek=%s oflag=direct conv=notrunc status=none", from, name, at)
	}
	m.run(write("/dev/zero", "0")) // the first write goes, the next one waits for ever
	before := m.writes(name)
	m.run("yes theirs | head -c 4096 >/root/theirs; systemctl start hotmount")
	unit := "hotmount-format@" + m.run("cat /sys/block/"+name+"/diskseq")
	m.wait("the proof", "systemctl is-active "+unit+" | grep activating")
	m.run("systemd-run -q --unit=theirs " + write("/root/theirs", "51200")) // byte 200 MiB
	m.wait("the write to stall", "awk '$2 != 1 {exit 1}' /sys/block/"+name+"/inflight")
	m.says("/dev/" + name + ".*somebody writes to it: 1 writes that the disk has not answered yet")
	if now := m.writes(name); now != before {
		t.Errorf("%s writes are done, %s were: the count alone would have told it", now, before)
	}
	throttle(t, w, id+"/virtio-backend", 0, 0)
	m.says("^/dev/" + name + " .*refuse: .*old data from byte 209715200")
	m.run("dd if=/dev/" + name + " bs=4096 skip=51200 count=1 iflag=direct status=none | cmp - /root/theirs")
	if got := m.run("dd if=/dev/" + name + " bs=1M count=1 iflag=direct status=none | tr -d '\\0' | wc -c; journalctl -b -o cat --no-pager | grep -E ': formatted|making XFS' || true"); got != "0" {
		t.Errorf("it was written to: %s", got)
	}
}
