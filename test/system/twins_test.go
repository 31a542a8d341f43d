//go:build vm && (long || full)

package system

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestTwins: of two disks with one UUID the one that was there first is mounted,
// also after a reboot; the other never takes its place by itself.
func TestTwins(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := made(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "FIRST"})
	uuid := m.mounted(name)
	m.run("echo first >/mnt/disks/" + uuid + "/f; sync; fsfreeze -f /mnt/disks/" + uuid)
	copied := copyOf(t, image)
	m.run("fsfreeze -u /mnt/disks/" + uuid)
	before := m.run("findmnt -no ID,SOURCE /mnt/disks/" + uuid)
	twin, twinID := m.attach(w, worker.Disk{File: copied, Serial: "SECOND"})
	refused := "/dev/" + twin + " .*refuse: it has the UUID " + uuid + " of another disk: .*FIRST.*SECOND.*xfs_admin -U generate /dev/" + twin + " && udevadm trigger /dev/" + twin
	m.says(refused)
	m.wait("the link by UUID to move", "[ $(readlink -f /dev/disk/by-uuid/"+uuid+") = /dev/"+twin+" ]")
	// What helps helps, with a copy that needs its log replayed.
	cured := func(d worker.Disk) {
		t.Helper()
		name, id := m.attach(w, d)
		command := "journalctl -b -u hotmount -o cat --no-pager | sed -n 's|^/dev/" + name + " .*" + d.Serial + ".* a UUID of its own: ||p' | grep ."
		m.wait("what helps "+name, command)
		m.run("sh -c " + quote(m.run(command))) // e2fsck's exit code is 1 where it has replayed a journal
		m.mounted(name)
		m.detach(w, id)
		m.wait(name+" to go", "! findmnt -n /dev/"+name)
	}
	cured(worker.Disk{File: copyOf(t, copied), Serial: "CURED-X"})
	ext4 := blank(t, 320<<20)
	if out, err := exec.CommandContext(ctx(t), "mkfs.ext4", "-q", "-F", ext4).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	e, eID := m.attach(w, worker.Disk{File: ext4, Serial: "FIRST-E"})
	m.run("touch /mnt/disks/" + m.mounted(e) + "/f; sync")
	cured(worker.Disk{File: copyOf(t, ext4), Serial: "CURED-E"})
	m.detach(w, eID)
	// One that goes takes nothing with it.
	m.detach(w, twinID)
	m.wait("the end of the twin", "udevadm settle; journalctl -b -u hotmount -o cat --no-pager | grep '^/dev/"+twin+" .*SECOND.*gone'")
	if got := m.run("findmnt -no ID,SOURCE /mnt/disks/" + uuid); got != before {
		t.Errorf("without the twin %q is mounted, before %q", got, before)
	}
	m.run("journalctl --rotate -q; journalctl --vacuum-size=1 -q")
	_, twinID = m.attach(w, worker.Disk{File: copied, Serial: "SECOND"})
	m.says(refused)
	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	// The one on record is known also by its serial alone.
	if err := os.Truncate(image, 384<<20); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the mount", "findmnt /mnt/disks/"+uuid)
	if got := m.run("lsblk -dno SERIAL $(findmnt -no SOURCE /mnt/disks/" + uuid + ")"); got != "FIRST" {
		t.Errorf("after a reboot %s is mounted", got)
	}
	m.detach(w, id)
	m.wait("the first to go", "! findmnt /mnt/disks/"+uuid)
	twin = m.run("lsblk -dno NAME,SERIAL | awk '$2 == \"SECOND\" {print $1}'")
	m.run("udevadm trigger -s block; udevadm settle; systemctl restart hotmount")
	gone := " .*its UUID .* was last mounted from another disk, which left when this one was attached already"
	m.says("/dev/" + twin + " .*refuse:" + gone + ": .*serial FIRST, at ")
	m.resize(w, twinID, 512<<20)
	m.wait("the kernel to see the size", fmt.Sprintf("[ $(cat /sys/block/%s/size) = %d ]", twin, 512<<20/512))
	m.run("udevadm settle; systemctl restart hotmount; hotmount plan | grep '^" + twin + " .*refuse" + gone + "'")
	if got := m.run("systemctl show -p StatusText --value hotmount; findmnt -n /dev/" + twin + " || true"); got != "0 mounted, 0 held, 1 refused, 0 failing" {
		t.Errorf("the twin took its place: %s", got)
	}
	m.run("hotmount accept " + twin)
	m.mounted(twin)
	// The other in its place, while nobody looks.
	m.run("systemctl stop hotmount")
	m.detach(w, twinID)
	name, id = m.attach(w, worker.Disk{File: image, Serial: "FIRST"})
	m.run("udevadm settle; systemctl start hotmount")
	m.says("/dev/" + name + " .*refuse: its UUID " + uuid + " was last mounted from another disk, which nobody saw leaving: .*SECOND.*hotmount accept " + name)
	if got := m.run("findmnt -n /dev/" + name + " || true"); got != "" {
		t.Errorf("the first took the twin's place: %s", got)
	}
	m.run("hotmount accept " + name)
	m.mounted(name)
	// And the other once more, with which udev is not done before the first has gone.
	m.run("journalctl --rotate -q; journalctl --vacuum-size=1 -q; udevadm control --stop-exec-queue")
	twin, twinID = m.attach(w, worker.Disk{File: copied, Serial: "SECOND"})
	m.detach(w, id)
	m.run("hotmount rescan") // udev's word of that waits in the same queue
	m.wait("the first to go", "[ -z \"$(ls -A /mnt/disks)\" ]")
	m.run("udevadm control --start-exec-queue")
	m.says("/dev/" + twin + " .*refuse: its UUID " + uuid + " was last mounted from another disk, which left when this one was attached already: .*FIRST.*hotmount accept " + twin)
	if got := m.run("udevadm settle; ls -A /mnt/disks"); got != "" {
		t.Errorf("the twin took the place of the first: %s", got)
	}
	m.detach(w, twinID)

	// Without serials they are told apart by their slots, and by which one is on record.
	m.wait("the mount to go", "[ -z \"$(ls -A /mnt/disks)\" ]")
	bare := made(t, 320<<20)
	name, id = m.attach(w, worker.Disk{File: bare})
	uuid = m.mounted(name)
	m.run("sync -f /mnt/disks/" + uuid)
	copied = copyOf(t, bare)
	twin, _ = m.attach(w, worker.Disk{File: copied})
	slot := func(name string) string {
		return m.run("udevadm info -q property --property ID_PATH --value /dev/" + name)
	}
	m.says("/dev/" + twin + " .*refuse: it has the UUID " + uuid + " of another disk: .*" + slot(name) + ".*no serial.*" + slot(twin) + ".*no serial")
	m.detach(w, id)
	m.wait("the first to go", "! findmnt /mnt/disks/"+uuid)
	m.run("udevadm trigger -s block; udevadm settle; systemctl restart hotmount")
	m.says("/dev/" + twin + " .*no serial.*refuse:" + gone + ": .*no serial, at ")
	name, _ = m.attach(w, worker.Disk{File: bare})
	if got := m.mounted(name); got != uuid {
		t.Errorf("the first came back as %s", got)
	}
	if got := m.run("hotmount plan; findmnt -n /dev/" + twin + " || true"); !regexpLine(got, "^"+twin+" .* refuse ") || !regexpLine(got, "^"+name+" .* keep ") {
		t.Errorf("the first and its twin: %s", got)
	}
	// The same after a boot, where the kernel may call them otherwise.
	first := slot(name)
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the mount", "findmnt /mnt/disks/"+uuid)
	if got := slot(strings.TrimPrefix(m.run("findmnt -no SOURCE /mnt/disks/"+uuid), "/dev/")); got != first {
		t.Errorf("after a reboot that at %s is mounted, before that at %s", got, first)
	}
	for _, a := range w.Attached() {
		m.detach(w, a.ID)
	}

	// Two of which none is on record, at boot: nobody knows which one is meant.
	m.wait("the mount to go", "[ -z \"$(ls -A /mnt/disks)\" ]")
	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	one := made(t, 320<<20)
	for image, serial := range map[string]string{one: "THIRD", copyOf(t, one): "FOURTH"} {
		if _, err := w.Attach(ctx(t), worker.Disk{File: image, Serial: serial}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the daemon", "systemctl is-active hotmount")
	m.says("refuse: it has the UUID .*this is vd. .*.serial THIRD.")
	m.says("refuse: it has the UUID .*this is vd. .*.serial FOURTH.")
	if got := m.run("ls -A /mnt/disks; journalctl -b -u hotmount -o cat --no-pager | grep ': mounted' || true"); got != "" {
		t.Errorf("of two that are not on record one is mounted: %s", got)
	}
}
