//go:build vm && (long || full)

package system

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestNextInASlot: the power goes while a disk without a serial is formatted, and then
// others come to its slot. A volume that is on record is mounted as it was, what is blank gets a
// UUID of its own, and the disk itself, in another slot, the one that it was to have.
func TestNextInASlot(t *testing.T) {
	m, w := obedientWorker(t)
	slot := func(name string) string { return m.run("readlink -f /sys/block/" + name + " | cut -d/ -f5") }
	leave := func(name, id string) {
		t.Helper()
		m.run("udevadm settle")
		m.detach(w, id)
		m.wait(name+" to go", "[ ! -e /sys/block/"+name+" ] && ! findmnt -n /dev/"+name)
	}
	volume, half := blank(t, crashSize), blank(t, crashSize)
	name, id := m.attach(w, worker.Disk{File: volume})
	known, here := m.mounted(name), slot(name)
	m.run("echo data >/mnt/disks/" + known + "/f")
	leave(name, id)
	v := victim{order: "sp30", serial: "0:sp30"}
	m.run("echo " + v.serial + " >/var/lib/orders/serial")
	v.name, v.id = m.attach(w, worker.Disk{File: half})
	m.stopped(v)
	intended := strings.TrimSuffix(m.run("rm /var/lib/orders/serial; sync /var/lib/orders; ls /var/lib/hotmount/intents"), ".json")
	if got := slot(v.name); got != here || !uuidPattern.MatchString(intended) {
		t.Fatalf("the disk for %q is in slot %s, not %s", intended, got, here)
	}
	if err := w.PowerCut(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if err := w.Detach(ctx(t), v.id); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	name, id = m.attach(w, worker.Disk{File: volume})
	if uuid, at := m.mounted(name), slot(name); uuid != known || at != here {
		t.Errorf("in slot %s, for %s, is mounted %s, not %s", at, here, uuid, known)
	}
	if got := m.run("cat /mnt/disks/" + known + "/f"); got != "data" {
		t.Errorf("it holds %q", got)
	}
	leave(name, id)
	name, _ = m.attach(w, worker.Disk{File: blank(t, crashSize)})
	if uuid, at := m.mounted(name), slot(name); uuid == intended || at != here {
		t.Errorf("what is blank, in slot %s, for %s, has become %s", at, here, uuid)
	}
	name, _ = m.attach(w, worker.Disk{File: half})
	if uuid, at := m.mounted(name), slot(name); uuid != intended || at == here {
		t.Errorf("what was half made, in slot %s, has become %s, not %s", at, uuid, intended)
	}
	if got := m.run("ls /var/lib/hotmount/intents; journalctl -b --no-pager -o cat >/run/said; grep -E '(refuse|hold): ' /run/said || true"); got != "" {
		t.Errorf("at last: %s", got)
	}
}

// TestBackAtOnceInAnotherSlot: a disk is pulled, and is back in another slot before the daemon
// has heard of either. That it had left when it came the kernel's own order tells; it is mounted
// again by itself. What came before it left is another disk, whatever its serial.
func TestBackAtOnceInAnotherSlot(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := blank(t, 320<<20)
	if out, err := exec.CommandContext(ctx(t), "mkfs.xfs", "-q", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.xfs: %v: %s", err, out)
	}
	slot := func(name string) string { return m.run("readlink -f /sys/block/" + name + " | cut -d/ -f5") }
	_, first := m.attach(w, worker.Disk{File: blank(t, 300<<20), Serial: "FIRST"})
	name, id := m.attach(w, worker.Disk{File: image, Serial: "MOVED"})
	uuid, was := m.mounted(name), slot(name)
	where := "/mnt/disks/" + uuid
	m.run("echo kept >" + where + "/f; sync " + where + "/f")
	m.detach(w, first)

	m.run("udevadm settle; systemctl kill -s STOP hotmount")
	m.detach(w, id)
	back, id := m.attach(w, worker.Disk{File: image, Serial: "MOVED"})
	if at := slot(back); at == was {
		t.Fatalf("it is in slot %s again", at)
	}
	m.run("udevadm settle; systemctl kill -s CONT hotmount")
	if got := m.mounted(back); got != uuid {
		t.Errorf("it came back as %s, it was %s", got, uuid)
	}
	if got := m.run("cat " + where + "/f"); got != "kept" {
		t.Errorf("it holds %q", got)
	}

	// A copy with its serial comes while it is there, and nobody sees them side by side.
	snapshot := filepath.Join(t.TempDir(), "copy.raw")
	m.run("sync")
	if out, err := exec.CommandContext(ctx(t), "cp", "--sparse=always", image, snapshot).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	m.run("systemctl kill -s STOP hotmount")
	twin, _ := m.attach(w, worker.Disk{File: snapshot, Serial: "MOVED"})
	m.detach(w, id)
	m.run("udevadm settle; systemctl kill -s CONT hotmount")
	m.says("/dev/" + twin + " .*refuse: its UUID " + uuid + " was last mounted from another disk, which left when this one was attached already")
	m.wait("mount and directory to go", "[ ! -e "+where+" ]")
}
