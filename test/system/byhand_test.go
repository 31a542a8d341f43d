//go:build vm

package system

import (
	"fmt"
	"testing"

	"hotmount/test/worker"
)

// TestUnmountedByHand: a hand is respected until the operator or a reboot takes it
// back; a device unit that bounced is no hand.
func TestUnmountedByHand(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid := m.mounted(name)
	where := "/mnt/disks/" + uuid
	for _, hand := range []string{"umount " + where, "systemctl stop " + quote(unitOf(uuid))} {
		m.run(hand)
		m.wait("the hand to be seen", "hotmount plan | grep -q '^"+name+" .*hold .*somebody unmounted it'")
		m.run(trigger + "; systemctl restart hotmount")
		m.wait("the directory to go", "[ ! -e "+where+" ]")
		if got := m.run("findmnt -n /dev/" + name + " || true"); got != "" {
			t.Errorf("after %s it was mounted again: %s", hand, got)
		}
		m.run("hotmount accept " + name)
		m.mounted(name)
	}
	// The clock was set meanwhile. That of a container is the host's.
	clock := ""
	if _, is := w.(*worker.Worker); is {
		clock = "date -s '+1 hour' >/dev/null; "
	}
	m.run("systemctl stop hotmount; umount " + where + "; " + clock + "systemctl start hotmount")
	m.wait("the hand to be seen", "hotmount plan | grep -q '^"+name+" .*hold .*somebody unmounted it'")

	m.run("hotmount accept " + name)
	m.mounted(name)
	// A release that a kill cut short has left this behind, and the mount.
	left := "/run/hotmount/unmounted/" + m.run("cat /sys/block/"+name+"/diskseq")
	m.run("printf released >" + left + "; systemctl restart hotmount")
	m.wait("the release to be forgotten", "[ ! -e "+left+" ]")
	// What a pod has stays.
	const pod = "/var/lib/kubelet/pods/p/volumes/kubernetes.io~local-volume/local-pv-1"
	m.run("mkdir -p " + pod + "; mount --bind " + where + " " + pod + "; umount " + where)
	m.wait("the hand to be seen", "hotmount plan | grep -q '^"+name+" .*hold .*somebody unmounted it'")
	m.run("systemctl restart hotmount; " + trigger)
	if got := m.run("findmnt -rno TARGET /dev/" + name); got != pod {
		t.Errorf("beneath a pod it is mounted at %s", got)
	}
	m.run("hotmount accept " + name)
	m.wait("the mount", "findmnt "+where)
	rule := "/run/udev/rules.d/99-away.rules"
	for i, down := range []bool{false, true} {
		if down {
			m.run("systemctl stop hotmount")
		}
		m.run(`mkdir -p /run/udev/rules.d; echo 'KERNEL=="` + name + `", ENV{SYSTEMD_READY}="0"' >` + rule + `; udevadm control --reload; udevadm trigger --settle /dev/` + name)
		m.wait("systemd to unmount it", "! findmnt "+where)
		m.run("rm " + rule + "; udevadm control --reload; udevadm trigger --settle /dev/" + name + "; systemctl start hotmount")
		m.wait("the mount", "findmnt "+where)
		m.wait("it to be said", fmt.Sprintf("[ $(journalctl -b -o cat --no-pager -u hotmount | grep -c '/dev/%s .*systemd took it for unplugged') = %d ]", name, i+1))
	}

	m.run("umount " + where + " " + pod)
	m.wait("the hand to be seen", "hotmount plan | grep -q '^"+name+" .*hold .*somebody unmounted it'")
	stopped, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	third := m.mounted(stopped)
	m.run("systemctl stop " + quote(unitOf(third)))
	m.wait("that hand to be seen", "hotmount plan | grep -q '^"+stopped+" .*hold .*somebody unmounted it'")
	// So is a release, until the same moment.
	released, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	second := "/mnt/disks/" + m.mounted(released)
	m.run("hotmount release " + released)
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the mounts after a reboot", "findmnt "+where+" && findmnt "+second+" && findmnt /mnt/disks/"+third)
}
