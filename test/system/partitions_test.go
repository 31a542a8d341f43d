//go:build vm && full

package system

import (
	"fmt"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestPartitions: of a disk that another installer partitioned, as the example has it,
// the partitions that hold a filesystem are mounted, one without is refused and not
// written to, and the disk is nobody's trouble. Each is released for itself. They are
// mounted again after a reboot, and all goes with the disk. A filesystem that a guest
// has made on a partition of its raw volume is never mounted, before and after the reboot.
func TestPartitions(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("systemctl stop hotmount")
	m.example("partitions.yaml")
	file := blank(t, 2*gib)
	name, id := m.attach(w, worker.Disk{File: file, Serial: "PARTED"})
	m.run("printf 'label: gpt\n,600M\n,600M\n,600M\n' | sfdisk -q -w always /dev/" + name + "; udevadm settle; mkfs.xfs -q /dev/" + name + "1; mkfs.ext4 -q /dev/" + name + "2; udevadm settle; sync")
	m.detach(w, id)
	m.run("mkdir -p /var/lib/disks/block; cat >>/etc/hotmount/config.yaml <<'X'\n  - name: raw\n    serial: [RAW-1]\n    directory: /var/lib/disks/block\n    mode: block\nX\nhotmount config check && systemctl start hotmount")
	guest, guestID := m.attach(w, worker.Disk{File: blank(t, gib), Serial: "RAW-1"})
	isRaw := func() {
		t.Helper()
		m.wait("the link", "[ $(readlink -f /var/lib/disks/block/virtio-RAW-1) = /dev/"+guest+" ]")
		m.wait("the partition to be left alone", "hotmount plan | grep -E '^"+guest+"1 .*ignore .*class raw comes first and has its disk "+guest+"' && ! findmnt /dev/"+guest+"1")
	}
	m.wait("the link", "[ -e /var/lib/disks/block/virtio-RAW-1 ]")
	m.run("printf 'label: gpt\n,600M\n' | sfdisk -q -w always /dev/" + guest + "; udevadm settle; mkfs.xfs -q /dev/" + guest + "1; udevadm settle; sync")
	isRaw()
	for _, want := range []string{"Class partitions is not asked: it was given out as a block volume", "Class raw has its disk " + guest + ".\n  yes  serial: RAW-1: found RAW-1\n"} {
		if got := m.run("hotmount explain " + guest + "1"); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	name, id = m.attach(w, worker.Disk{File: file, Serial: "PARTED"})
	one, two := m.mounted(name+"1"), m.mounted(name+"2")
	m.run("echo 1 >/mnt/disks/" + one + "/number; echo 2 >/mnt/disks/" + two + "/number")
	m.run("grep -x What=/dev/disk/by-diskseq/$(cat /sys/block/" + name + "/diskseq)-part1 '/run/systemd/transient/" + unitOf(one) + "'")
	// Without a class for them they stay mounted, as they would by a daemon that starts then.
	m.run("cp /etc/hotmount/config.yaml /root/config.yaml; : >/etc/hotmount/config.yaml; systemctl reload hotmount")
	m.wait("the partitions to be left alone", "! hotmount status | grep '^"+name+"[12] '")
	m.run("cp /root/config.yaml /etc/hotmount/config.yaml; systemctl reload hotmount; hotmount rescan")
	if got := m.run("cat /mnt/disks/" + one + "/number /mnt/disks/" + two + "/number; ! journalctl -b -o cat -u hotmount | grep '" + name + "[12].* gone'"); got != "1\n2" {
		t.Errorf("after a configuration without partitions: %s", got)
	}
	plan := m.run("hotmount plan")
	for _, want := range []string{
		"^" + name + " .*ignore +a class selects its partitions instead: " + name + "1, " + name + "2, " + name + "3",
		"^" + name + "1 .*PARTED-part1 +keep", "^" + name + "2 .*keep",
		"^" + name + "3 .*refuse +it is a partition without a finished filesystem",
		"^vda .*ignore +it carries the system",
	} {
		if !regexpLine(plan, want) {
			t.Errorf("no %q in\n%s", want, plan)
		}
	}
	if got := m.run("hotmount format " + name + "3 2>&1 || true"); !strings.Contains(got, "partitions are never formatted") {
		t.Errorf("a partition can be formatted: %s", got)
	}
	if got := m.run("cat /sys/block/" + name + "/" + name + "3/stat | awk '{print $5+$12}'"); got != "0" {
		t.Errorf("%s writes to the third partition", got)
	}

	m.run("hotmount release " + name + "1")
	if got := m.run("findmnt -n /dev/" + name + "1 || true; cat /mnt/disks/" + two + "/number"); got != "2" {
		t.Errorf("after the release: %s", got)
	}
	m.run("hotmount accept " + name + "1")
	m.mounted(name + "1")

	err := w.Reboot(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	if guest, err = w.BlockDevice(ctx(t), guestID); err != nil {
		t.Fatal(err)
	}
	isRaw()
	if again := m.mounted(name+"1") + m.mounted(name+"2") + m.run("cat /mnt/disks/"+one+"/number /mnt/disks/"+two+"/number"); again != one+two+"1\n2" {
		t.Errorf("after the reboot: %s", again)
	}
	m.detach(w, id)
	m.wait("the mounts to go", "! [ -e /mnt/disks/"+one+" ] && ! [ -e /mnt/disks/"+two+" ]")
	if got := m.run("journalctl -b -o cat -u hotmount -p err -q --no-pager"); got != "" {
		t.Errorf("the journal has errors: %s", got)
	}

	// Pulled while somebody has a file of the one open, and the other by a mount of his own.
	name, id = m.attach(w, worker.Disk{File: file, Serial: "PARTED"})
	m.mounted(name + "1")
	m.mounted(name + "2")
	m.run(fmt.Sprintf("systemd-run -q --unit=one sh -c 'exec 3</mnt/disks/%s/number; exec sleep 1001'; systemd-run -q --unit=two unshare --mount --propagation private sh -c 'mount --bind /mnt/disks/%s /srv; umount /mnt/disks/*; exec sleep 1002'", one, two))
	m.wait("both", "pgrep -f '^sleep 1001' && pgrep -f '^sleep 1002'")
	m.run("systemctl stop hotmount")
	if err := w.DetachSurprise(ctx(t), id); err != nil {
		t.Fatal(err)
	}
	for uuid, holder := range map[string]string{one: "(sleep): has a file open", two: "(sleep): mounted at /srv in its mount namespace"} {
		m.wait("mount and directory to go, and the holder's name", fmt.Sprintf("! findmnt /mnt/disks/%[1]s && [ ! -e /mnt/disks/%[1]s ] && journalctl -b -o cat --no-pager -u %[2]s | grep -F %[3]s", uuid, quote(unitOf(uuid)), quote(holder)))
	}
}
