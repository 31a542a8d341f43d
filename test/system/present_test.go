//go:build vm && (long || full)

package system

import (
	"os"
	"testing"

	"hotmount/test/worker"
)

// TestPresentDisksAreHeld: a first installation holds the blank disks that are
// there, says so, and formats one when it is accepted.
func TestPresentDisksAreHeld(t *testing.T) {
	parallel(t)
	m, w := startAs(t, worker.Options{})
	held, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "OLD1"})
	full, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "OLD2"})
	noSerial := blank(t, 320<<20)
	bare, _ := m.attach(w, worker.Disk{File: noSerial})
	m.make(full, "mkfs.xfs -q")
	if err := w.Install(ctx(t), deb(t)); err != nil {
		t.Fatal(err)
	}
	m.mounted(full)
	m.says("/dev/" + held + " .*hold: .*attached before hotmount was installed: .*hotmount accept " + held)
	later, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "NEW"})
	m.mounted(later)

	// The hold lasts over restarts of the daemon and of the machine, also for a disk
	// without a serial, and of another size by then.
	slot := m.run("udevadm info -q property --property ID_PATH --value /dev/" + bare)
	m.run("systemctl restart hotmount")
	m.wait("the holds of the new daemon", "systemctl show -P StatusText hotmount | grep -q '^2 mounted, 2 held, '")
	m.untouched(held)
	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(noSerial, 400<<20); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the daemon", "systemctl is-active hotmount")
	bare = m.run("readlink -f /dev/disk/by-path/" + slot + " | xargs basename")
	m.says("/dev/" + bare + " .*400 MiB.*hold: .*attached before hotmount was installed")
	m.untouched(bare)
	held = m.run("lsblk -dno NAME,SERIAL | awk '$2 == \"OLD1\" {print $1}'")
	m.says("/dev/" + held + " .*hold: .*attached before hotmount was installed")
	if got := m.run("awk '{print $5+$12}' /sys/block/" + held + "/stat"); got != "0" {
		t.Errorf("%s write requests reached the disk that is held", got)
	}
	if plan := m.run("hotmount plan"); !regexpLine(plan, `^`+held+` .*hold `) {
		t.Errorf("the plan does not hold %s:\n%s", held, plan)
	}
	if out, err := m.Run(ctx(t), "su nobody -s /bin/sh -c 'hotmount accept "+held+"'"); err == nil {
		t.Errorf("nobody may accept: %s", out)
	}
	m.run("hotmount accept /dev/" + held)
	m.mounted(held)
}
