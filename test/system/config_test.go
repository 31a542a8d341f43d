//go:build vm && (long || full)

package system

import (
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestDropIns: drop-ins are merged in the order of their names, checked, shown with
// the place of each value, and taken by a reload in full or not at all; what the
// configuration means for a disk is explained, also when the disk has gone.
func TestDropIns(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run(`mkdir -p /etc/hotmount/config.d; cd /etc/hotmount
		printf 'classes:\n- name: main\n  directory: /mnt/disks\n  serial: ["DATA-*"]\n' >config.yaml
		printf 'classes:\n- name: main\n  options: [nodev, noexec]\n  mkfs_options: ["-i size=1024"]\n  root_owner: "1000:2000"\n  root_mode: "2770"\n' >config.d/10-a.yaml
		printf 'exclude:\n- serial: ["re:DATA-OLD.*"]\n' >config.d/20-b.yaml
		hotmount config check; systemctl reload hotmount`)
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "DATA-1"})
	uuid := m.mounted(name)
	if got := m.run("findmnt -no OPTIONS /dev/" + name); !strings.Contains(got, "noexec") {
		t.Errorf("mounted with %s", got)
	}
	show := m.run("hotmount config show")
	for _, line := range []string{`  - name: "main" .*# /etc/hotmount/config.d/10-a.yaml:2`, `    serial: \["DATA-\*"\] .*# /etc/hotmount/config.yaml:4`,
		`    options: .*"noexec".*# /etc/hotmount/config.d/10-a.yaml:3`, `    grow: true .*# default`} {
		if !regexpLine(show, "^"+line+"$") {
			t.Errorf("no line %s in\n%s", line, show)
		}
	}

	// What has a fault is not taken, not in part either.
	m.run(`printf 'format: false\nclasses:\n- name: main\n  sreial: [X]\n' >/etc/hotmount/config.d/30-c.yaml; systemctl reload hotmount`)
	const fault = `/etc/hotmount/config.d/30-c.yaml:4: classes\[0\].sreial: unknown key, did you mean "serial"\?`
	m.says("cannot reload, the settings stay as they were: " + fault)
	if got := m.run("hotmount config check || echo $?"); !regexpLine(got, "^"+fault+"$") || !strings.HasSuffix(got, "\n3") {
		t.Errorf("hotmount config check: %s", got)
	}
	fresh, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "DATA-2"})
	own := m.mounted(fresh) // format: false does not hold
	if got := m.run("stat -c '%a %u:%g' /mnt/disks/" + own + "; xfs_info /mnt/disks/" + own + " | grep -o isize=1024"); got != "2770 1000:2000\nisize=1024" {
		t.Errorf("the filesystem that was made has %s", got)
	}
	if got := m.run("findmnt -no TARGET /dev/" + name); got != "/mnt/disks/"+uuid {
		t.Errorf("mounted at %s", got)
	}
	m.run("rm /etc/hotmount/config.d/30-c.yaml")

	old, id := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "DATA-OLD-1"})
	m.wait("udev", "udevadm settle; [ -e /dev/disk/by-id/virtio-DATA-OLD-1 ]")
	told := m.run("hotmount explain " + old)
	for _, line := range []string{`exclude\[0\] holds for it: no class has it\.`, `  yes  serial: re:DATA-OLD\.\*: found DATA-OLD-1`, `  yes  serial: DATA-\*: found DATA-OLD-1`, `Decision: ignore: .*`} {
		if !regexpLine(told, "^"+line+"$") {
			t.Errorf("no line %s in\n%s", line, told)
		}
	}
	m.run("hotmount explain --facts " + old + " >/root/dump")
	m.detach(w, id)
	m.wait(old+" to go", "[ ! -e /sys/block/"+old+" ]")
	if later := m.run("rm -r /etc/hotmount/config.*; hotmount explain --from /root/dump"); later != told {
		t.Errorf("without the disk and its configuration:\n%s\nand with them:\n%s", later, told)
	}
}
