//go:build vm && (long || full)

package system

import (
	"fmt"
	"testing"
	"time"

	"hotmount/test/worker"
)

// TestSlowProof: a proof that takes long says how far it is, outlives the daemon,
// is waited for by the next one, keeps no other disk waiting, and ends with its
// disk.
func TestSlowProof(t *testing.T) {
	m, w := start(t, worker.Options{})
	// It asks for more time than this as long as it gets on.
	m.run("mkdir /etc/systemd/system/hotmount-format@.service.d; printf '[Service]\\nTimeoutStartSec=20s\\n' >/etc/systemd/system/hotmount-format@.service.d/short.conf; systemctl daemon-reload; systemctl stop hotmount")
	slow, slowID := m.attach(w, worker.Disk{File: blank(t, 2<<30), Serial: "SLOW"})
	throttle(t, w, slowID+"/virtio-backend", 10<<20, 0)
	m.run("systemctl start --no-block hotmount")
	seq := m.run("cat /sys/block/" + slow + "/diskseq")
	unit := "hotmount-format@" + seq
	m.wait("the unit's status", "systemctl status "+unit+" | grep -E 'Status: .*"+slow+": proving that it is blank: [0-9]+ % of 2 GiB, .*/s'")
	m.says("/dev/" + slow + " .*proving that it is blank: [0-9]+ % of 2 GiB")
	m.wait("the daemon's status", "systemctl status hotmount | grep -E 'Status: .*proving blank, and formatting if so: "+slow+"'")
	t.Log(m.run("systemctl status " + unit + " | grep Status; systemctl status hotmount | grep Status; journalctl -o cat --no-pager -b | grep 'proving that'"))
	invocation := m.run("systemctl show -P InvocationID " + unit)
	// Who asks by hand waits for a place like everybody else.
	m.run("systemd-run --quiet --unit=place flock /run/hotmount/scan.1 sleep infinity; timeout 10 hotmount plan 2>&1 | grep -x 'waiting until other disks have been read'; systemctl stop place")

	m.run("systemctl kill -s KILL hotmount")
	m.wait("the next daemon", "systemctl is-active hotmount && systemctl status hotmount | grep -E 'Status: .*proving blank.*"+slow+"'")
	other, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "QUICK"})
	m.mounted(other)
	if got := m.run("systemctl show -P InvocationID -P ActiveState " + unit); got != invocation+"\nactivating" && got != "activating\n"+invocation {
		t.Errorf("the unit was %s and is %s", invocation, got)
	}
	m.wait("a second word of it, after 35 seconds", "test $(journalctl -b -o cat --no-pager | grep -c '^/dev/"+slow+" .*proving that it is blank: ') -ge 2")
	throttle(t, w, slowID+"/virtio-backend", 0, 0)
	m.mounted(slow)
	if out, err := m.Run(ctx(t), "journalctl -b --no-pager -o cat -u "+unit+" | grep -i 'timed out'"); err == nil {
		t.Errorf("it was not given more time: %s", out)
	}
	if got := m.run("journalctl -b --no-pager -o cat -u " + unit + " | grep -c 'formatted: xfs'"); got != "1" {
		t.Errorf("formatted %s times", got)
	}

	// The rate may be limited; two are read at once, and have 16 MiB together.
	m.run("echo 'scan_rate: 10MiB' >/etc/hotmount/config.yaml; systemctl reload hotmount")
	m.attach(w, worker.Disk{File: blank(t, 2<<30), Serial: "BESIDE"})
	gone, goneID := m.attach(w, worker.Disk{File: blank(t, 2<<30), Serial: "GONE"})
	unit = "hotmount-format@" + m.run("cat /sys/block/"+gone+"/diskseq")
	m.wait("two proofs", "[ $(systemctl list-units --no-legend 'hotmount-format@*' | grep -c activating) = 2 ]")
	var own, read int
	for range 5 {
		var ms, bytes int
		if _, err := fmt.Sscan(m.run(`now() { read -r up _ </proc/uptime; read -r _ _ sectors _ </sys/block/`+gone+`/stat; }
			now; a=$up; b=$sectors; sleep 3; now
			awk "BEGIN {print ($up - $a) * 1000, ($sectors - $b) * 512}"
			cat $(pgrep -f '^/usr/bin/hotmount format-disk' | sed 's,.*,/proc/&/status,') | awk '/^RssAnon:/ {kib += $2; n++} END {if (n != 2) exit 1; print kib}'`), &ms, &bytes, &own); err != nil {
			t.Fatal(err)
		}
		read = max(read, bytes*1000/ms)
		if own > 16<<10 {
			t.Errorf("two scans have %d KiB of their own", own)
		}
	}
	t.Logf("two scans at once have %d KiB of their own, and one reads at most %d bytes a second", own, read)
	if read == 0 || read > 12<<20 {
		t.Errorf("it is read at %d bytes a second, and may be at 10 MiB", read)
	}
	begun := time.Now()
	m.detach(w, goneID)
	m.wait("the end of the unit", "! systemctl is-active "+unit+" | grep -E 'activating|deactivating'")
	took := time.Since(begun)
	t.Logf("from the detaching to the end of the unit: %s", took)
	if took > 30*time.Second { // emulated; the proof would take minutes
		t.Errorf("the unit went on for %s after its disk was gone", took)
	}
	t.Log(m.run("journalctl -b --no-pager -o cat -u " + unit + " | tail -n 4"))

	// What a disk is proven for holds until it is written to, or it is proven again.
	changed, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "CHANGED"})
	m.says("/dev/" + changed + " .*proving that it is blank")
	m.run("printf 'scan_rate: 10MiB\nclasses:\n  - name: default\n    directory: /mnt/disks\n    names: [\"vd[a-z]\"]\n    blank: sampled\n' >/etc/hotmount/config.yaml; systemctl reload hotmount")
	m.says("/dev/" + changed + " .*has to be proven again")
	m.mounted(changed)
}

// TestHangingReads: disks on storage that answers no read any more, as many as
// are read at once, keep no other disk waiting for long.
func TestHangingReads(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("printf 'classes:\\n  - name: default\\n    directory: /mnt/disks\\n    names: [\"vd[a-z]\", \"sd[a-z]\"]\\n' >/etc/hotmount/config.yaml; systemctl stop hotmount")
	var ids []string
	for i := range 2 {
		name, id := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: fmt.Sprint("DEAD", i), Bus: worker.BusSCSI})
		m.wait("udev", "[ -e /dev/"+name+" ] && udevadm settle")
		throttle(t, w, id, 1, 0)
		ids = append(ids, id)
	}
	m.run("systemctl start hotmount")
	m.wait("both to be read", "[ $(systemctl list-units --no-legend 'hotmount-format@*' | grep -c activating) = 2 ]")
	name, _ := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: "ALIVE"})
	m.mounted(name)
	if got := m.run("systemctl list-units --no-legend 'hotmount-format@*' | grep -c activating"); got != "2" {
		t.Errorf("%s of 2 hang", got)
	}
	for _, id := range ids {
		m.detach(w, id)
	}
	m.wait("the units to end", "[ -z \"$(systemctl list-units --no-legend 'hotmount-format@*')\" ]")
}
