//go:build vm

package system

import (
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestDiskBelowAVolumeIsPulled pulls the disk below a mounted logical volume, twice. Once the disk is back, the test
// follows the advice of the status. At the first pull, the volume stays mounted while the disk is away. At the second
// pull, the volume is written to and released, and the daemon is restarted. Another logical volume of the same volume
// group is always in use.
func TestDiskBelowAVolumeIsPulled(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("mkdir -p /var/lib/prometheus/node-exporter; printf 'classes:\\n  - {name: lvm, names: [\"dm-*\"], mapper_names: [\"my--vg-disk*\"], blank: unsigned, directory: /mnt/disks}\\n' >/etc/hotmount/config.yaml; hotmount config check && systemctl restart hotmount")
	disk := worker.Disk{File: blank(t, 3*gib), Serial: "PV-1"}
	name, id := m.attach(w, disk)
	m.run("udevadm settle; pvcreate -q /dev/" + name + "; vgcreate -q my-vg /dev/" + name + "; lvcreate -q -y -n disk1 -L 1G my-vg; udevadm settle; udevadm trigger -c change /dev/my-vg/disk1")
	m.waits(3, "the volume", "findmnt /dev/my-vg/disk1")
	path := m.run("findmnt -no TARGET /dev/my-vg/disk1")
	m.run("lvcreate -q -y -n other -L 500M my-vg; mkfs.ext4 -q /dev/my-vg/other; mount /dev/my-vg/other /srv")
	m.run("echo precious >" + path + "/data; sync")
	if got := m.run("hotmount status | sed -n '/^dm-0/p'; hotmount doctor >/dev/null 2>&1 || [ $? = 3 ]"); !strings.Contains(got, "my--vg-di…") || !strings.Contains(got, " mounted ") {
		t.Errorf("status does not name the volume: %s", got)
	}

	m.detach(w, id)
	const gone = "dm-0 (my--vg-disk1) is failed: the disk below this one (vdb, serial PV-1) is gone: reads and writes fail until this one is set up again"
	m.wait("the volume to be failed", "hotmount status --output wide | tr -s ' \\n' ' ' | grep -F "+quote(gone))
	m.says("/dev/dm-0 .my--vg-disk1, 1 GiB.: keep: the disk below this one .vdb, serial PV-1. is gone: ")
	if got := m.run("hotmount doctor || [ $? = 3 ]"); !strings.Contains(got, "PROBLEM: /dev/dm-0 (my--vg-disk1, 1 GiB) has failed: the disk below this one (vdb") || !strings.Contains(got, "lvchange -an my-vg/disk1; lvchange -ay my-vg/disk1") {
		t.Errorf("the doctor: %s", got)
	}
	m.waits(2, "the metric", `grep -F 'hotmount_disks{class="lvm",reason="disk-below-gone",state="failed"} 1' /var/lib/prometheus/node-exporter/hotmount.prom`)
	name, id = m.attach(w, disk)
	m.follow("once the disk below is attached again and no pod uses this one: ", "hotmount release dm-0; lvchange -an my-vg/disk1; lvchange -ay my-vg/disk1")
	m.wait("the volume to be mounted again", "[ \"$(cat "+path+"/data)\" = precious ] && findmnt "+path)

	m.detach(w, id)
	m.wait("the volume to be failed again", "hotmount status --output wide | tr -s ' \\n' ' ' | grep -F 'the disk below this one ("+name+", serial PV-1) is gone'")
	m.run("if dd if=/dev/zero of=" + path + "/more bs=1M count=8 conv=fsync; then exit 1; fi; hotmount release dm-0; systemctl restart hotmount")
	m.attach(w, disk)
	m.follow("once the disk below is attached again: ", "lvchange -an my-vg/disk1; lvchange -ay my-vg/disk1")
	m.wait("the volume to be mounted again", "[ \"$(cat "+path+"/data)\" = precious ] && findmnt "+path)
	if got := m.run("hotmount status | sed -n '/^dm-0/p'"); !strings.Contains(got, " mounted ") {
		t.Errorf("at the end: %s", got)
	}
	m.run("findmnt /srv")
}

// follow checks that the status advises the given commands for exactly one disk, and runs the commands.
func (m machine) follow(when, commands string) {
	m.t.Helper()
	const advice = `hotmount status --output json | sed -n 's/^ *"next": "\(once the disk below .*\)",\?$/\1/p'`
	if got := m.run(advice); got != when+commands {
		m.t.Fatalf("status advises %q", got)
	}
	m.run("sh -exc \"$(" + advice + " | sed 's/^[^:]*: //')\"")
}
