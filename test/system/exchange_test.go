//go:build vm && (long || full)

package system

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestExchange: on each bus whose driver gives names in a way of its own, a link to a
// block volume never leads to the disk that comes in its disk's place while udev is late.
// That of virtio is in TestBlockVolumes.
func TestExchange(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run(`mkdir -p /var/lib/disks/block && cat >/etc/hotmount/config.yaml <<'X'
settle: 1s
classes:
  - name: raw
    transport: [scsi, nvme]
    directory: /var/lib/disks/block
    mode: block
X
systemctl reload hotmount`)
	for bus, prefix := range map[worker.Bus]string{worker.BusSCSI: "scsi", worker.BusNVMe: "nvme"} {
		serial := func(n int) string { return fmt.Sprintf("RAW-%s-%d", prefix, n) }
		link := func(n int) string { return "/var/lib/disks/block/" + prefix + "-" + serial(n) }
		leads := func(n int, name string) {
			t.Helper()
			m.wait("the link to "+serial(n), fmt.Sprintf("[ $(readlink -f %s) = /dev/%s ]", link(n), name))
		}
		name, id := m.attach(w, worker.Disk{Bus: bus, File: blank(t, 320<<20), Serial: serial(1)})
		leads(1, name)
		second, _ := m.exchanged(w, name, id, link(1), worker.Disk{Bus: bus, File: blank(t, 320<<20), Serial: serial(2)})
		t.Logf("%s was %s, %s is %s", serial(1), name, serial(2), second)
		leads(2, second)
	}
}

// TestExchangedBeforeItsMount: a disk whose mount has waited at start is pulled, and another
// one has its kernel name, while udev hears of neither. PID 1 finds that one by the link of
// the first: it does not stay in the other's place, nor on record there.
func TestExchangedBeforeItsMount(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("systemctl stop hotmount; echo 'ready_timeout: 30s' >/etc/hotmount/config.yaml")
	name, id := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid := m.run("udevadm settle; blkid -o value -s UUID /dev/" + name)
	seq := m.run("cat /sys/block/" + name + "/diskseq")
	// For one that udev does not know the mount of another that is new here waits.
	m.run("udevadm control --stop-exec-queue")
	late, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	m.run("systemctl start --no-block hotmount")
	m.says(name + ".*it holds xfs " + uuid)
	m.detach(w, id)
	m.wait("the kernel to let it go", "! [ -e /sys/block/"+name+"/diskseq ] || [ $(cat /sys/block/"+name+"/diskseq) != "+seq+" ]")
	next, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	if got := m.run("readlink /dev/disk/by-diskseq/" + seq); next != name || got != "../../"+name {
		t.Fatalf("%s is %s now, the first disk's link leads to %s", name, next, got)
	}
	m.says("which has its name now, was mounted in its place, and is unmounted again")
	m.wait("the mount point to go", "[ -z \"$(ls -A /mnt/disks)\" ]")
	if got := m.run("findmnt -rno TARGET /dev/" + name + " || true; if [ -e /var/lib/hotmount/filesystems.json ]; then cat /var/lib/hotmount/filesystems.json; fi"); strings.Contains(got, "/mnt/disks/") || strings.Contains(got, uuid) {
		t.Errorf("left of it: %s", got)
	}
	m.run("udevadm control --start-exec-queue")
	for _, name := range []string{next, late} {
		if got := m.mounted(name); got == uuid {
			t.Errorf("%s is mounted as %s", name, got)
		}
	}
	for _, name := range []string{next, late} { // the record is where the first one's was looked for
		m.wait("the record of "+name, "grep -q $(blkid -o value -s UUID /dev/"+name+") /var/lib/hotmount/filesystems.json")
	}
	if got := m.run("ls -A /mnt/disks | wc -l; hotmount status"); !strings.HasPrefix(got, "2\n") || strings.Contains(got, uuid) {
		t.Errorf("%s", got)
	}
}

// TestRewrittenBeforeItsMount: what is on a disk changes, by way of its storage, between udev's look and the
// mount: who would use the path of the first filesystem is told that another is there.
func TestRewrittenBeforeItsMount(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("systemctl stop hotmount")
	image := made(t, 320<<20)
	name, _ := m.attach(w, worker.Disk{File: image})
	uuid := m.run("udevadm settle; blkid -o value -s UUID /dev/" + name)
	if out, err := exec.CommandContext(ctx(t), "mkfs.xfs", "-q", "-f", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.xfs: %v: %s", err, out)
	}
	m.run("blockdev --flushbufs /dev/" + name)
	now := m.run("blkid -p -o value -s UUID /dev/" + name)
	if now == uuid || now == "" {
		t.Fatalf("the disk holds %q", now)
	}
	m.run("systemctl start hotmount")
	m.says("it holds " + now + ", and is mounted at /mnt/disks/" + uuid)
	trigger := "udevadm trigger --action=change /dev/" + name
	for _, who := range []string{"", "setpriv --reuid=65534 --clear-groups "} {
		got := m.run(who + "hotmount status 2>&1 || [ $? = 3 ]")
		if got = strings.Join(strings.Fields(got), " "); !strings.Contains(got, trigger+"; stop the pods that use it, then umount /mnt/disks/"+uuid) {
			t.Errorf("%shotmount status does not say what to do: %s", who, got)
		}
	}
	m.run(trigger + "; udevadm settle; umount /mnt/disks/" + uuid)
	if got := m.mounted(name); got != now {
		t.Errorf("it is mounted as %s, and holds %s", got, now)
	}
}
