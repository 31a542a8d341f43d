//go:build vm && (long || full)

package system

import (
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestBrake: what comes after as many formats as format_limit allows is held,
// also by a new daemon, until it is accepted. Of two that are proven at the same
// time one is.
func TestBrake(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("printf 'format_limit: 1\\nformat_period: 24h\\n' >/etc/hotmount/config.yaml; systemctl stop hotmount")
	for range 3 {
		m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	}
	// All at once: two proofs run at a time, and the third comes late.
	m.run("systemctl start hotmount")
	both := "systemctl show -p StatusText --value hotmount | grep -q '^1 mounted, 2 held, 0 refused, 0 failing'"
	m.wait("a mount and two holds", both)
	m.says("hold: it came when as many disks had been formatted as format_limit allows: at most 1 within 24h0m0s.*hotmount accept")
	held := strings.Fields(m.run("hotmount plan | awk '/ hold / {print $1}'"))
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
	m, w := startNode(t, worker.Options{})
	m.run("systemctl stop hotmount; mkdir /root/state; cp -a /var/lib/hotmount/. /root/state; mount -t tmpfs -o size=256k,mode=0700 tmpfs /var/lib/hotmount; cp -a /root/state/. /var/lib/hotmount")
	for _, tt := range []struct{ what, break_, mend, says string }{
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
		name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
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
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.says("/dev/" + name + " .*hold: nothing is formatted: the state directory is not initialised .*hotmount state init")
	m.untouched(name)
	m.run("hotmount state init")
	m.says("/dev/" + name + " .*hold: .*attached before hotmount was installed: .*hotmount accept " + name)
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
	// Both are looked at once more when udev, which has the disk's lock, lets it go.
	for _, tt := range []struct{ on, off, says string }{
		{"touch /etc/hotmount/hold", "rm /etc/hotmount/hold", "/etc/hotmount/hold exists"},
		{"echo 'format: false' >/etc/hotmount/config.yaml; systemctl reload hotmount", "rm /etc/hotmount/config.yaml", "format: false in the configuration"},
	} {
		late, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
		m.run("systemd-run -q --unit=lock flock -s /dev/" + late + " sleep infinity")
		m.wait("the end of the proof", "journalctl -b -o cat -u hotmount-format@$(cat /sys/block/"+late+"/diskseq) | grep -q ' is blank$'")
		m.run(tt.on + "; systemctl stop lock")
		m.says("/dev/" + late + " .*nothing is formatted: " + tt.says)
		m.untouched(late)
		m.run(tt.off + "; systemctl reload hotmount")
		m.mounted(late)
	}

	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	w.SetKernelArgs("hotmount.format=no")
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("four mounts", "[ $(findmnt -rno TARGET | grep -c ^/mnt/disks/) = 4 ]")
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
	m.wait("five mounts", "[ $(findmnt -rno TARGET | grep -c ^/mnt/disks/) = 5 ]")
}
