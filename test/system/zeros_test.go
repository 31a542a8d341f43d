//go:build vm && (long || full)

package system

import (
	"errors"
	"os"
	"testing"

	"hotmount/test/worker"
)

// TestZerosWhereAFilesystemWas: a disk without a serial that reads as zeros
// after a reboot, in its old slot, is held, naming what is missing, whether hotmount
// had mounted or refused it. A new disk in a slot that was given up while hotmount watched
// is not.
func TestZerosWhereAFilesystemWas(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, id := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	first := m.mounted(name)
	slotOf := func(name string) string {
		return m.run("udevadm info -q property --property ID_PATH --value /dev/" + name)
	}
	slot := slotOf(name)
	m.detach(w, id)
	m.says("/dev/" + name + " .*gone")
	image := blank(t, 320<<20)
	name, _ = m.attach(w, worker.Disk{File: image})
	uuid := m.mounted(name)
	if now := slotOf(name); now != slot || uuid == first {
		t.Fatalf("it came to %s, not to %s, with the UUID %s", now, slot, uuid)
	}
	m.wait("the filesystem to be remembered", "grep -q "+uuid+" /var/lib/hotmount/filesystems.json")
	m.run("systemctl stop hotmount")
	foreign := blank(t, 320<<20)
	refused, _ := m.attach(w, worker.Disk{File: foreign})
	refusedSlot := slotOf(refused)
	m.make(refused, "mkfs.btrfs -q")
	m.run("systemctl start hotmount")
	btrfs := m.run("blkid -p -o value -s UUID /dev/" + refused)
	m.says("/dev/" + refused + " .*refuse: .*btrfs")
	m.wait("what was refused to be noted", "grep -q "+btrfs+" /var/lib/hotmount/contents.json")
	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	// As a snapshot from before the format would.
	for _, size := range []int64{0, 320 << 20} {
		if err := errors.Join(os.Truncate(image, size), os.Truncate(foreign, size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	name = m.run("readlink -f /dev/disk/by-path/" + slot + " | xargs basename")
	m.says("/dev/" + name + " .*hold: it looks blank, but data that lay in its slot at the last boot is missing: xfs " + uuid + " .* at " + slot + "; .*hotmount accept " + name)
	m.untouched(name)
	if plan := m.run("hotmount plan"); !regexpLine(plan, `^`+name+` .*hold .*`+uuid) {
		t.Errorf("the plan does not hold %s:\n%s", name, plan)
	}
	refused = m.run("readlink -f /dev/disk/by-path/" + refusedSlot + " | xargs basename")
	m.says("/dev/" + refused + " .*hold: it looks blank, but data that lay in its slot at the last boot is missing: btrfs " + btrfs + " .* at " + refusedSlot + "; .*hotmount accept " + refused)
	m.untouched(refused)
	for name, before := range map[string]string{name: uuid, refused: btrfs} {
		m.run("hotmount accept " + name)
		if now := m.mounted(name); now == before {
			t.Errorf("the new filesystem has the old UUID")
		}
	}
	m.wait("what is mounted in the slot to be noted no more", "! grep -q "+btrfs+" /var/lib/hotmount/contents.json")
}
