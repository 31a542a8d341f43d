//go:build vm

package system

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// fieldRule is the udev rule of the field. A loop device gets its file by a change.
const fieldRule = `ACTION=="add|change", SUBSYSTEM=="block", KERNEL=="vd[b-z]|loop*", ENV{ID_FS_TYPE}=="xfs", RUN+="/usr/bin/systemd-mount --no-block --collect $devnode /mnt/disks/$env{ID_FS_UUID}"`

// example puts a configuration in place that the package ships, and has it hold.
func (m machine) example(name string) {
	m.t.Helper()
	text, err := os.ReadFile("../../packaging/examples/" + name)
	if err != nil {
		m.t.Fatal(err)
	}
	m.run(fmt.Sprintf("[ -e /usr/share/doc/hotmount/examples/%s ] || [ -e /usr/share/doc/hotmount/examples/%[1]s.gz ]; cat >/etc/hotmount/config.yaml <<'EOF'\n%sEOF\n", name, text))
}

// TestUdevRuleTakenOver: a node on which a udev rule mounted its disks is taken
// over in place. Its mounts are adopted: not mounted again, not disturbed while a
// writer is in them, gone with their directory when the disk goes, and mounted by
// hotmount from then on.
func TestUdevRuleTakenOver(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("systemctl stop hotmount; cat >/etc/udev/rules.d/99-disks.rules <<'X'\n" + fieldRule + "\nX\nudevadm control --reload")
	m.example("udev-rule.yaml")
	firstFile := made(t, gib)
	first, firstID := m.attach(w, worker.Disk{File: firstFile})
	second, _ := m.attach(w, worker.Disk{File: made(t, gib)})
	one, two := m.mounted(first), m.mounted(second)
	m.run(fmt.Sprintf(writer, one))
	table := func() string { return m.run("findmnt -rno ID,SOURCE,TARGET,OPTIONS | grep ' /mnt/disks/' | sort") }
	before := table()
	m.run("systemctl start hotmount")
	m.wait("both to be adopted", "systemctl show -p StatusText hotmount | grep -q '2 mounted, 0 held, 0 refused, 0 failing'")

	// Both at once, as between the installation and the end of the rule.
	third, thirdID := m.attach(w, worker.Disk{File: made(t, gib)})
	three := m.mounted(third)
	m.wait("three", "systemctl show -p StatusText hotmount | grep -q '3 mounted, 0 held, 0 refused, 0 failing'")
	if got := m.run("findmnt -rno TARGET | grep -c ^/mnt/disks/" + three); got != "1" {
		t.Errorf("the third is mounted %s times", got)
	}
	m.detach(w, thirdID)
	m.wait("the third to go", "! [ -e /mnt/disks/"+three+" ]")
	m.run("rm /etc/udev/rules.d/99-disks.rules; udevadm control --reload; systemctl restart hotmount")
	m.wait("both still", "systemctl show -p StatusText hotmount | grep -q '2 mounted, 0 held, 0 refused, 0 failing'")
	if after := table(); after != before {
		t.Errorf("the mounts were\n%s\nand are\n%s", before, after)
	}
	// While there were two, one of them came too late. A container's detach unmounts by hand before it takes the disk away.
	of := "/dev/" + third + " .*(the unit exists already; tried again|hold: somebody unmounted it)"
	if got := m.run("systemctl is-active writer; journalctl -b -o cat -u hotmount -p warning -q --no-pager | grep -vE '" + of + "' || true"); got != "active" {
		t.Errorf("got %s", got)
	}

	// Its life goes on as any other's.
	m.resize(w, firstID, 2*gib)
	m.takes(one, 19*gib/10)
	m.run("systemctl stop writer; sync")
	m.detach(w, firstID)
	m.wait("unit and directory to go", fmt.Sprintf(`[ ! -e /mnt/disks/%s ] && [ -z "$(systemctl list-units --all --no-legend %s)" ]`, one, quote(unitOf(one))))
	name, _ := m.attach(w, worker.Disk{File: firstFile})
	if got := m.mounted(name); got != one {
		t.Errorf("mounted by %s", got)
	}
	if got := m.run("systemctl cat " + quote(unitOf(one))); !strings.Contains(got, "by-diskseq") {
		t.Errorf("the unit is not hotmount's:\n%s", got)
	}
	if got := m.run("findmnt -no TARGET /dev/" + second); got != "/mnt/disks/"+two {
		t.Errorf("the second is mounted at %s", got)
	}
	// Nor will anybody mount it after the next reboot, once hotmount is gone.
	if said := m.run("dpkg -r hotmount 2>&1"); !strings.Contains(said, "missing after the next reboot:\n") || !strings.Contains(said, "\n  /mnt/disks/"+two+"\n") {
		t.Errorf("the removal says: %s", said)
	}
}
