//go:build vm

package system

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"hotmount/internal/disk"
	"hotmount/test/worker"
)

// untouched fails if a write or discard has reached the disk.
func (m machine) untouched(name string) {
	m.t.Helper()
	if got := m.run("awk '{print $5+$12}' /sys/block/" + name + "/stat"); got != "0" {
		m.t.Errorf("%s write requests reached %s", got, name)
	}
}

// history is what `hotmount history -o json` prints.
func (m machine) history() []disk.Record {
	m.t.Helper()
	var all []disk.Record
	if err := json.Unmarshal([]byte(m.run("hotmount history -o json")), &all); err != nil {
		m.t.Fatal(err)
	}
	return all
}

// TestHistoryAndFormerSerial: a format is recorded with disk, evidence and UUID;
// a blank disk that comes with the serial of one that is gone is held, naming
// that UUID, also after a reboot, until it is accepted.
func TestHistoryAndFormerSerial(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, id := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "H1"})
	uuid := m.mounted(name)
	all := m.history()
	if len(all) != 1 {
		t.Fatalf("got %d records, want 1: %+v", len(all), all)
	}
	r := all[0]
	seq := m.run("cat /sys/block/" + name + "/diskseq")
	if r.Name != name || r.UUID != uuid || r.By != disk.ByDaemon || !r.Made() || r.Identity.Serial != "H1" || r.Identity.Size != 320<<20 ||
		fmt.Sprint(r.Identity.Seq) != seq || !strings.HasPrefix(r.Identity.Slot, "pci-") || len(r.Evidence) < 3 {
		t.Errorf("the record is %+v", r)
	}
	text := m.run("hotmount history")
	for _, want := range []string{uuid, "serial H1, 320 MiB, slot pci-", "disk sequence number " + seq, "by the daemon", "outcome: made ", r.Evidence[0]} {
		if !strings.Contains(text, want) {
			t.Errorf("the history does not say %q:\n%s", want, text)
		}
	}
	t.Logf("history:\n%s", text)
	if out, err := m.Run(ctx(t), "su nobody -s /bin/sh -c 'hotmount history'"); err == nil || !strings.Contains(err.Error(), "for root alone") {
		t.Errorf("nobody may read the history: %s, %v", out, err)
	}

	m.detach(w, id)
	again, _ := m.attach(w, worker.Disk{File: blank(t, 400<<20), Serial: "H1"})
	held := "/dev/%s .*hold: it looks blank, and on the disk with its serial H1 lay xfs " + uuid + ".*hotmount accept %s"
	m.says(fmt.Sprintf(held, again, again))
	m.untouched(again)
	m.run("sync")
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	again = m.run("lsblk -dno NAME,SERIAL | awk '$2 == \"H1\" {print $1}'")
	m.says(fmt.Sprintf(held, again, again))
	m.untouched(again)
	m.run("hotmount accept " + again)
	if second := m.mounted(again); second == uuid {
		t.Errorf("both have the UUID %s", uuid)
	}
	if all := m.history(); len(all) != 2 || all[0].UUID != uuid || !all[1].Made() {
		t.Errorf("the history is %+v", all)
	}
}

// TestZerosWhereAFilesystemWas: a disk without a serial that reads as zeros
// after a reboot, in its old slot, is held, naming what is missing. A new disk in
// a slot that was given up while hotmount watched is not.
func TestZerosWhereAFilesystemWas(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, id := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	first := m.mounted(name)
	slot := m.run("udevadm info -q property --property ID_PATH --value /dev/" + name)
	m.detach(w, id)
	m.says("/dev/" + name + " .*gone")
	image := blank(t, 320<<20)
	name, _ = m.attach(w, worker.Disk{File: image})
	uuid := m.mounted(name)
	if now := m.run("udevadm info -q property --property ID_PATH --value /dev/" + name); now != slot || uuid == first {
		t.Fatalf("it came to %s, not to %s, with the UUID %s", now, slot, uuid)
	}
	m.wait("the filesystem to be remembered", "grep -q "+uuid+" /var/lib/hotmount/filesystems.json")
	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	// As a snapshot from before the format would.
	if err := os.Truncate(image, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 320<<20); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	name = m.run("readlink -f /dev/disk/by-path/" + slot + " | xargs basename")
	m.says("/dev/" + name + " .*hold: it looks blank, and at the last boot xfs " + uuid + " .*lay on a disk of its size at " + slot + " and is missing now.*hotmount accept " + name)
	m.untouched(name)
	if plan := m.run("hotmount plan"); !regexpLine(plan, `^`+name+` .*hold .*`+uuid) {
		t.Errorf("the plan does not hold %s:\n%s", name, plan)
	}
	m.run("hotmount accept " + name)
	if now := m.mounted(name); now == uuid {
		t.Errorf("the new filesystem has the old UUID")
	}
}

// TestAFilesystemVanishes: a disk without a serial that turns to zeros while it is
// attached is held, naming what lay on it, and freed by no word for something else.
func TestAFilesystemVanishes(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := made(t, 320<<20)
	name, _ := m.attach(w, worker.Disk{File: image})
	uuid := m.mounted(name)
	m.wait("the filesystem to be remembered", "grep -q "+uuid+" /var/lib/hotmount/filesystems.json")
	m.run("umount /mnt/disks/" + uuid)
	m.says("/dev/" + name + " .*hold: somebody unmounted it")
	for _, size := range []int64{0, 320 << 20} {
		if err := os.Truncate(image, size); err != nil {
			t.Fatal(err)
		}
	}
	zeros := digest(t, image)
	m.run("hotmount accept " + name)
	m.says("/dev/" + name + " .*refuse: it was read as blank, and udev knows something on it; udevadm trigger -s block -y " + name)
	m.run("udevadm trigger -s block -y " + name)
	m.says("/dev/" + name + " .*hold: it looks blank, and since it was attached xfs " + uuid + " .*lay on it.*hotmount accept " + name)
	if digest(t, image) != zeros {
		t.Error("it was written to")
	}
	m.run("hotmount accept " + name)
	if now := m.mounted(name); now == uuid {
		t.Error("the new filesystem has the old UUID")
	}
}

// TestBrake: what comes after as many formats as format_limit allows is held,
// also by a new daemon, until it is accepted. Of two that are proven at the same
// time one is.
func TestBrake(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("printf 'format_limit: 1\\nformat_period: 24h\\n' >/etc/hotmount/config.yaml; systemctl stop hotmount")
	for i := range 3 {
		m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: fmt.Sprint("B", i)})
	}
	// All at once: two proofs run at a time, and the third comes late.
	m.run("systemctl start hotmount")
	both := "systemctl show -p StatusText --value hotmount | grep -q '^1 mounted, 2 held, 0 refused, 0 failing'"
	m.wait("a mount and two holds", both)
	m.says("hold: it came when as many disks had been formatted as format_limit allows .1 within 24h0m0s.; hotmount accept")
	held := strings.Fields(m.run("hotmount plan | awk '$5 == \"hold\" {print $1}'"))
	if len(held) != 2 {
		t.Fatalf("the plan holds %q", held)
	}
	m.run("echo 'format_limit: 64' >/etc/hotmount/config.yaml; systemctl restart hotmount")
	m.wait("the holds to last", both)
	for _, name := range held {
		m.untouched(name)
		m.run("hotmount accept " + name)
		m.mounted(name)
	}
	if n := len(m.history()); n != 3 {
		t.Errorf("the history has %d records, want 3", n)
	}
	t.Log(m.run("journalctl -b -o cat --no-pager -u 'hotmount-format@*' | grep 'too many' || true"))
}

// TestStateDirectoryThatCanNotBeWritten: full, read-only or lost, nothing is
// formatted until `hotmount state init`, and what carries a filesystem is
// mounted all the same.
func TestStateDirectoryThatCanNotBeWritten(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("systemctl stop hotmount; mkdir /root/state; cp -a /var/lib/hotmount/. /root/state; mount -t tmpfs -o size=256k,mode=0700 tmpfs /var/lib/hotmount; cp -a /root/state/. /var/lib/hotmount")
	for i, tt := range []struct{ what, break_, mend, says string }{
		{"full", "dd if=/dev/zero of=/var/lib/hotmount/fill bs=4k 2>/dev/null || true", "rm /var/lib/hotmount/fill", "no space left"},
		{"read-only", "mount -o remount,ro /var/lib/hotmount", "mount -o remount,rw /var/lib/hotmount", "read-only file system"},
	} {
		m.run("systemctl stop hotmount; " + tt.break_ + "; systemctl start hotmount")
		full := blank(t, 320<<20)
		whole, id := m.attach(w, worker.Disk{File: full})
		m.run("systemctl stop hotmount; mkfs.xfs -q -f /dev/" + whole)
		m.detach(w, id)
		m.run("systemctl start hotmount")
		whole, _ = m.attach(w, worker.Disk{File: full})
		m.mounted(whole)
		name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: fmt.Sprint("W", i)})
		m.says("/dev/" + name + " .*hold: nothing is formatted: the state directory could not be written .*hotmount state init.*" + tt.says)
		m.untouched(name)
		if out, err := m.Run(ctx(t), "hotmount state init"); err == nil {
			t.Errorf("%s: state init succeeds: %s", tt.what, out)
		}
		m.run(tt.mend + "; systemctl restart hotmount; sleep 3")
		m.wait("the hold to last", "systemctl show -p StatusText --value hotmount | grep -q ' 1 held'")
		m.untouched(name)
		m.run("hotmount state init")
		m.mounted(name)
	}

	m.run("systemctl stop hotmount; umount /var/lib/hotmount; rm -rf /var/lib/hotmount/*; systemctl start hotmount")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "LOST"})
	m.says("/dev/" + name + " .*hold: nothing is formatted: the state directory is not initialised .*hotmount state init")
	m.untouched(name)
	m.run("hotmount state init")
	m.says("/dev/" + name + " .*hold: .*attached before hotmount was installed; hotmount accept " + name)
	m.run("hotmount accept " + name)
	m.mounted(name)
}

// TestSwitchesStopFormatting: the configuration, the hold file and the kernel
// command line, each alone.
func TestSwitchesStopFormatting(t *testing.T) {
	m, w := start(t, worker.Options{})
	for _, tt := range []struct{ on, off, says string }{
		{"echo 'format: false' >/etc/hotmount/config.yaml; systemctl reload hotmount", "rm /etc/hotmount/config.yaml", "format: false in the configuration"},
		{"touch /etc/hotmount/hold", "rm /etc/hotmount/hold", "/etc/hotmount/hold exists"},
	} {
		// Switched while the disk is proven blank: that is read afresh before mkfs.
		name, id := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
		throttle(t, w, id+"/virtio-backend", 20<<20, 0)
		m.wait("the proof", "systemctl is-active hotmount-format@$(cat /sys/block/"+name+"/diskseq) | grep activating")
		m.run(tt.on)
		throttle(t, w, id+"/virtio-backend", 0, 0)
		m.says("/dev/" + name + " .*hold: nothing is formatted: " + tt.says)
		if out, err := m.Run(ctx(t), "hotmount accept "+name); err == nil {
			t.Errorf("accept goes before the switch: %s", out)
		}
		m.untouched(name)
		m.run(tt.off + "; systemctl reload hotmount")
		m.mounted(name)
	}

	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	w.SetKernelArgs("hotmount.format=no")
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("both mounts", "[ $(findmnt -rno TARGET | grep -c ^/mnt/disks/) = 2 ]")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "K"})
	m.says("/dev/" + name + " .*hold: nothing is formatted: hotmount.format=no is on the kernel command line")
	m.untouched(name)
	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	w.SetKernelArgs()
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("three mounts", "[ $(findmnt -rno TARGET | grep -c ^/mnt/disks/) = 3 ]")
}
