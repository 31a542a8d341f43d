//go:build vm && (long || full)

package system

import (
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestDevicesInReach: a process in the daemon's control group can open no disk,
// and one in the formatting unit's only the disk that the unit is for.
func TestDevicesInReach(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("printf '[Service]\\nEnvironment=HOTMOUNT_SETTLE=20s\\n' >/etc/systemd/system/hotmount.service.d/quick.conf; systemctl daemon-reload; systemctl restart hotmount")
	one, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "ONE"})
	m.wait("the proof to run", "systemctl list-units 'hotmount-format@*' --no-legend | grep -q activating")
	// open moves itself into the unit's control group, where reach opens disks.
	m.run(`cat >/usr/local/bin/reach <<'X'
for disk in vda ` + one + `; do
	for how in '<' '>>'; do if eval ": $how/dev/$disk" 2>/dev/null; then echo "$disk $how"; fi; done
done
echo that is all
X
echo 'echo $$ >/sys/fs/cgroup$(systemctl show -p ControlGroup --value "$1")/cgroup.procs && . /usr/local/bin/reach' >/root/open`)
	const none = "that is all"
	if got := m.run("bash /root/open hotmount.service"); got != none {
		t.Errorf("in the daemon's control group can be opened:\n%s", got)
	}
	want := one + " <\n" + one + " >>\n" + none
	if got := m.run("bash /root/open $(systemctl list-units 'hotmount-format@*' --plain --no-legend | cut -d' ' -f1)"); got != want {
		t.Errorf("in the formatting unit's control group can be opened:\n%s", got)
	}
	// One bit each (capability.h): CAP_LINUX_IMMUTABLE is 9, CAP_SYS_ADMIN 21.
	for unit, most := range map[string]string{"hotmount": "0000000000000200", "hotmount-format@*": "0000000000200000"} {
		if got := m.run("sed -n 's/^CapBnd:[[:space:]]*//p' /proc/$(systemctl show -p MainPID --value '" + unit + "')/status"); got != most {
			t.Errorf("%s may have the capabilities %s", unit, got)
		}
	}
	// Those that come and go, with reach in place of the program.
	seq := m.run("cat /sys/block/" + one + "/diskseq")
	for unit, want := range map[string]string{"grow@": want, "stage@": want, "block@": one + " <\n" + none, "wait@": none, "cleanup@": none, "unmount@": none, "gone@": none, "udev": none, "trim": none, "tidy": none} {
		m.run("d=/run/systemd/system/hotmount-" + unit + ".service.d; mkdir $d; printf '[Service]\\nExecStart=\\nExecStart=/bin/bash /usr/local/bin/reach\\nStandardOutput=append:/run/reach\\n' >$d/reach.conf; systemctl daemon-reload")
		if got := m.run("rm -f /run/reach; systemctl restart hotmount-" + strings.Replace(unit, "@", "@"+seq, 1) + ".service || true; cat /run/reach"); got != want {
			t.Errorf("hotmount-%s.service can open:\n%s", unit, got)
		}
	}
}
