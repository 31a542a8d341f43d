//go:build vm && (long || full)

package system

import (
	"testing"

	"hotmount/test/worker"
)

// TestUnmountedByHand: a hand is respected until the operator or a reboot takes it
// back; a device unit that bounced is no hand.
func TestUnmountedByHand(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "HAND"})
	uuid := m.mounted(name)
	where := "/mnt/disks/" + uuid
	for _, hand := range []string{"umount " + where, "systemctl stop " + quote(unitOf(uuid))} {
		m.run(hand)
		m.wait("the hand to be seen", "hotmount plan | grep -q '^"+name+" .*hold .*somebody unmounted it'")
		m.run("udevadm trigger -s block; udevadm settle; systemctl restart hotmount")
		m.wait("the directory to go", "[ ! -e "+where+" ]")
		if got := m.run("findmnt -n /dev/" + name + " || true"); got != "" {
			t.Errorf("after %s it was mounted again: %s", hand, got)
		}
		m.run("hotmount accept " + name)
		m.mounted(name)
	}
	// What PID 1 starts when a mount has ended takes nothing from the next one, whichever
	// is slow: here it waits for that to begin, as long as one can wait, and that for it.
	m.run(`cd /run/systemd/system; mkdir -p hotmount-cleanup@.service.d mnt-disks-.mount.d
cat >/run/slow-cleanup <<'X'
for i in $(seq 100); do [ ! -e /run/mounting ] || exit 0; sleep 0.2; done
X
cat >/run/slow-mount <<'X'
touch /run/mounting
until [ -e /run/cleaned ]; do sleep 0.2; done
X
printf '[Service]\nExecStartPre=/bin/sh /run/slow-cleanup\nExecStopPost=touch /run/cleaned\n' >hotmount-cleanup@.service.d/slow.conf
printf '[Service]\nType=oneshot\nExecStart=/bin/sh /run/slow-mount\n' >slow.service
printf '[Unit]\nWants=slow.service\nAfter=slow.service\n' >mnt-disks-.mount.d/slow.conf
systemctl daemon-reload`)
	m.run("umount " + where)
	m.wait("the hand to be seen", "hotmount plan | grep -q '^"+name+" .*hold .*somebody unmounted it'")
	m.run("hotmount accept " + name)
	m.mounted(name)
	if got := m.run("[ -e /run/mounting ]; mkdir /run/below; mount --bind /mnt/disks /run/below; cd /run/below; ls -A . " + uuid + "; lsattr -d " + uuid + " | cut -c5; cd /; umount /run/below"); got != ".:\n"+uuid+"\n\n"+uuid+":\nnot-mounted\ni" {
		t.Errorf("below the mount: %s", got)
	}
	m.run("cd /run/systemd/system; rm -r hotmount-cleanup@.service.d mnt-disks-.mount.d slow.service; systemctl daemon-reload")

	// The clock was set meanwhile.
	m.run("systemctl stop hotmount; umount " + where + "; date -s '+1 hour' >/dev/null; systemctl start hotmount")
	m.wait("the hand to be seen", "hotmount plan | grep -q '^"+name+" .*hold .*somebody unmounted it'")

	m.run("hotmount accept " + name)
	m.mounted(name)
	// A release that a kill cut short has left this behind, and the mount.
	left := "/run/hotmount/unmounted/" + m.run("cat /sys/block/"+name+"/diskseq")
	m.run("printf released >" + left + "; systemctl restart hotmount")
	m.wait("the release to be forgotten", "[ ! -e "+left+" ]")
	rule := "/run/udev/rules.d/99-away.rules"
	m.run(`mkdir -p /run/udev/rules.d; echo 'KERNEL=="` + name + `", ENV{SYSTEMD_READY}="0"' >` + rule + `; udevadm control --reload; udevadm trigger --settle /dev/` + name)
	m.wait("systemd to unmount it", "! findmnt "+where)
	m.run("rm " + rule + "; udevadm control --reload; udevadm trigger --settle /dev/" + name)
	m.mounted(name)
	m.says("/dev/" + name + " .*systemd took it for unplugged")

	m.run("umount " + where)
	m.wait("the hand to be seen", "hotmount plan | grep -q '^"+name+" .*hold .*somebody unmounted it'")
	// So is a release, until the same moment.
	released, _ := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "RELEASED"})
	second := "/mnt/disks/" + m.mounted(released)
	m.run("hotmount release " + released)
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the mounts after a reboot", "findmnt "+where+" && findmnt "+second)
}
