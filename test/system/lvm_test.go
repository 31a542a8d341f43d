//go:build vm && full

package system

import (
	"os"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestLogicalVolumes: ten logical volumes of 5 GB, selected by name, become
// filesystems, and others on the same disk, of other names, do not. They are mounted
// again after a reboot, the node's own configuration file being the example's.
func TestLogicalVolumes(t *testing.T) {
	m, w := start(t, worker.Options{})
	example, err := os.ReadFile("../../packaging/examples/lvm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m.run("cat >/etc/hotmount/config.yaml <<'X'\n" + string(example) + "X\nhotmount config check && systemctl reload hotmount")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 60*gib), Serial: "VG"})
	m.run("udevadm settle; pvcreate -q /dev/" + name + " && vgcreate -q vg0 /dev/" + name + " && lvcreate -q -y -n other -L 1G vg0")
	// Old blocks, as a volume has them that was in use before.
	m.run("lvcreate -q -y -n disk1 -L 5G vg0 && echo old | dd of=/dev/vg0/disk1 bs=1M seek=100 conv=fsync status=none")
	m.run("for i in 2 3 4 5 6 7 8 9 10; do lvcreate -q -y -n disk$i -L 5G vg0; done")
	// The event that ends LVM's hiding of a new volume is lost now and then; what
	// hotmount says that helps has to help.
	m.run("udevadm settle; journalctl -b -o cat --no-pager -u hotmount | sed -n 's/.*: wait: .*if it stays so: //p' | sort -u | sh -ex")
	const ten = "[ $(findmnt -rno TARGET,SOURCE -t xfs | grep -c '^/mnt/disks/') = 10 ]"
	m.waits(3, "ten filesystems", ten)
	m.run("for i in 1 2 3 4 5 6 7 8 9 10; do p=$(findmnt -no TARGET /dev/vg0/disk$i) && echo $i >$p/number; done")
	other := m.run("basename $(readlink -f /dev/vg0/other)")
	if got := m.run("hotmount plan | grep -E '^" + other + " '; findmnt -n /dev/vg0/other || true; blkid -p /dev/vg0/other || true"); !strings.Contains(got, "no class selects it") || strings.Contains(got, "xfs") {
		t.Errorf("the other volume: %s", got)
	}
	if got := m.run("hotmount explain " + other); !strings.Contains(got, "NO   mapper_names: vg0-disk*: found vg0-other") || !strings.Contains(got, "yes  names: dm-*: found "+other) {
		t.Error(got)
	}
	// In the course of lvextend systemd may take a volume for unplugged: nobody's hand, and
	// mounted at its place when it has grown.
	first := m.run("findmnt -no TARGET /dev/vg0/disk1")
	m.run("lvextend -q -y -L +1G vg0/disk1 && udevadm settle")
	m.waits(3, "the first to be grown", "findmnt "+first+" && [ $(stat -f -c '%b * %S' "+first+" | xargs expr) -ge 6200000000 ] && [ $(cat "+first+"/number) = 1 ]")
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.waits(3, "ten filesystems after the reboot", ten)
	if got := m.run("for i in 1 2 3 4 5 6 7 8 9 10; do cat $(findmnt -no TARGET /dev/vg0/disk$i)/number; done | tr '\\n' ' '"); got != "1 2 3 4 5 6 7 8 9 10" {
		t.Errorf("after the reboot: %s", got)
	}
	// The mounts stay when the package goes, also when udev looks at the volumes anew without
	// its rule. Volumes that were there before the package are mounted when it comes.
	m.run("dpkg -r hotmount && udevadm control --reload && udevadm trigger --action=change --subsystem-match=block && udevadm settle")
	m.run(ten + " && ! ls /dev/disk/by-diskseq/$(cat /sys/class/block/$(basename $(readlink -f /dev/vg0/disk1))/diskseq) && umount /mnt/disks/*-*")
	if err := w.Put(ctx(t), nextDeb(t), "/root/next.deb"); err != nil {
		t.Fatal(err)
	}
	// Somebody's hand has unmounted them, which is respected; accepted, they would still wait for udev.
	m.run("dpkg -i /root/next.deb >/dev/null 2>&1")
	m.waits(3, "all to be held", "[ $(hotmount plan | grep -c 'hold .*somebody unmounted it') = 10 ]")
	m.run("for i in 1 2 3 4 5 6 7 8 9 10; do hotmount accept $(basename $(readlink -f /dev/vg0/disk$i)); done")
	m.waits(3, "ten filesystems after the installation", ten)
}
