//go:build vm && (long || full)

package system

import (
	"fmt"
	"strings"
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

// TestTornFormat: what a power cut during mkfs has left without the header of a group is
// refused, whatever is said for it but to have it formatted.
func TestTornFormat(t *testing.T) {
	m, w := obedientNode(t)
	v := m.victims(w, 0, "sx")[0]
	m.stopped(v)
	// Group 2 of 4, byte 150 MiB.
	m.run(fmt.Sprintf("systemctl stop hotmount; dd if=/dev/zero of=/dev/%s bs=4096 count=1 seek=38400 oflag=direct conv=notrunc status=none; systemctl kill -s KILL 'hotmount-format@*'", v.name))
	m.wait("the unit's end", "! systemctl is-active 'hotmount-format@*' | grep -E '^(de)?activating' && ! pgrep mkfs.xfs")
	m.run("systemctl start hotmount")
	refused := "^/dev/" + v.name + " .*refuse: this node's format of it did not finish: the superblock of xfs .* is there, and parts of the filesystem are not .*byte 157286400, in the headers of group 2, .*hotmount format " + v.name
	m.says(refused)
	if out := m.fails("hotmount accept " + v.name); !strings.Contains(out, "did not finish") {
		t.Error(out)
	}
	m.run("journalctl --rotate; journalctl --vacuum-time=1s; rm -f /run/hotmount/verdicts/*; systemctl restart hotmount")
	m.says(refused)
	if got := m.run("findmnt -no SOURCE /dev/" + v.name + " || true; ls " + v.dir() + "/runs | wc -l"); got != "1" {
		t.Errorf("mounted, or mkfs.xfs has run again: %s", got)
	}
	text, token := m.offer(v.name)
	if !strings.Contains(text, "what mkfs.xfs wrote is not all there: byte 157286400") {
		t.Error(text)
	}
	m.run("hotmount format " + v.name + " --confirm " + token)
	m.mounted(v.name)
	m.run("umount /dev/" + v.name + "; xfs_repair -n /dev/" + v.name)
}

// TestDisturbedFormat: what somebody has written to after mkfs and before it was read back
// is held, also when it is read again and found whole.
func TestDisturbedFormat(t *testing.T) {
	m, w := obedientWorker(t)
	name, _ := m.attach(w, m.ordered(w, blank(t, crashSize), "DISTURBED"))
	m.run(fmt.Sprintf(`yes theirs | head -c 4096 >/root/theirs
for i in $(seq 3000); do [ -e /var/lib/orders/DISTURBED/runs ] && break; sleep 0.05; done
while pgrep -f '[m]kfs.xfs .*/dev/%[1]s' >/dev/null; do sleep 0.05; done
dd if=/root/theirs of=/dev/%[1]s bs=4096 count=1 seek=51200 oflag=direct conv=notrunc status=none`, name))
	m.says("/dev/" + name + ".*somebody writes to it: 1 writes and discards meanwhile")
	held := "^/dev/" + name + " .*hold: this node made xfs .* on it and somebody else used the disk, or may have, before that was read back: .*hotmount accept " + name
	m.says(held)
	m.run("journalctl --rotate; journalctl --vacuum-time=1s; rm -f /run/hotmount/verdicts/*; systemctl restart hotmount")
	m.says(held)
	if got := m.run("findmnt -no SOURCE /dev/" + name + " || true; dd if=/dev/" + name + " bs=4096 skip=51200 count=1 iflag=direct status=none | cmp - /root/theirs"); got != "" {
		t.Error(got)
	}
	m.offer(name)
	m.run("hotmount accept " + name)
	uuid := m.mounted(name)
	if out := m.run("hotmount history"); !regexpLine(out, uuid) || m.run("ls /var/lib/hotmount/intents") != "" {
		t.Errorf("the history:\n%s", out)
	}
}
