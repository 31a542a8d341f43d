//go:build vm

package system

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"hotmount/test/worker"
)

// TestDamaged: a damaged filesystem is not mounted, not repaired and not tried
// for ever; the journal has the kernel's words and the command to look with; when
// it is repaired it is mounted. A container does not hear the kernel.
func TestDamaged(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := made(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "SICK"})
	uuid := m.mounted(name)
	m.run("echo kept >/mnt/disks/" + uuid + "/f; sync")
	m.detach(w, id)
	m.run("systemctl stop hotmount")
	name, _ = m.attach(w, worker.Disk{File: image, Serial: "SICK"})
	// The header of the first inodes, sector 2, which a mount reads.
	m.run(fmt.Sprintf("dd if=/dev/%[1]s of=/root/agi bs=512 skip=2 count=1 status=none; head -c 512 /dev/urandom | dd of=/dev/%[1]s bs=512 seek=2 conv=notrunc,fsync status=none; dd if=/dev/%[1]s bs=512 skip=2 count=1 status=none | sha256sum >/root/sum; udevadm settle; systemctl start hotmount", name))
	m.says("/dev/" + name + " .*the kernel says: .*XFS .*; look at it with: xfs_repair -n /dev/" + name)
	m.wait("it to be counted", "systemctl show -p StatusText --value hotmount | grep -q '1 failing'")
	m.told(name + " is failed: .*the kernel says: .*XFS .*xfs_repair -n /dev/" + name)
	// A mount that fails may write to the log; a repair would mend the header.
	m.run("dd if=/dev/" + name + " bs=512 skip=2 count=1 iflag=direct status=none | sha256sum -c --quiet /root/sum")
	m.run(fmt.Sprintf("dd if=/root/agi of=/dev/%s bs=512 seek=2 conv=notrunc,fsync status=none", name))
	if got := m.mounted(name); got != uuid {
		t.Errorf("repaired and mounted as %s", got)
	}
	if got := m.run("cat /mnt/disks/" + uuid + "/f"); got != "kept" {
		t.Errorf("the data is %q", got)
	}
}

// told wants the status to have these words.
func (m machine) told(words string) {
	m.t.Helper()
	m.run("(hotmount status || [ $? = 3 ]) | tr -s ' \\n' ' ' | grep -E " + quote(words))
}

// TestGivenUp: what the kernel gives up is told, what has shrunk is not mounted, and what cannot be recorded is
// not done.
func TestGivenUp(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid := m.mounted(name)
	// Nothing tells of what the kernel gives up: it is found by the look now and then.
	m.run("echo 'rescan: 10s' >/etc/hotmount/config.yaml; systemctl reload hotmount")
	// Its root directory may be a pod's own.
	m.run("chown 1000:1000 /mnt/disks/" + uuid + "; chmod 0700 /mnt/disks/" + uuid + "; xfs_io -x -c shutdown /mnt/disks/" + uuid)
	m.says("/dev/" + name + " .*the kernel has shut it down")
	failed := func(name string) {
		t.Helper()
		for _, who := range []string{"", "setpriv --reuid 65534 --regid 65534 --clear-groups "} {
			m.wait("the status to show it", "code=0; out=$("+who+"hotmount status) || code=$?; [ $code = 3 ] && grep '^"+name+" .* failed ' <<<\"$out\"")
		}
	}
	failed(name)
	m.told(name + " is failed: .*the kernel has shut it down")

	ext4 := blank(t, 320<<20)
	if out, err := exec.CommandContext(ctx(t), "mkfs.ext4", "-q", "-F", "-e", "remount-ro", ext4).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	name, _ = m.attach(w, worker.Disk{File: ext4})
	uuid = m.mounted(name)
	m.run("echo 1 >/sys/fs/ext4/" + name + "/trigger_fs_error; ! touch /mnt/disks/" + uuid + "/f 2>/dev/null")
	// The mount table says "rw" all the same (Linux 6.1).
	m.run("touch /mnt/disks/" + uuid + "/f 2>&1 | grep 'Read-only file system'")
	m.says("/dev/" + name + " .*the kernel has counted errors in its ext4 .[0-9]+. and may write to it no more.*e2fsck -fn /dev/" + name)
	failed(name)
	m.told(name + " is failed: .*the kernel has counted errors.*e2fsck -fn /dev/" + name)

	short := made(t, 400<<20)
	if err := os.Truncate(short, 350<<20); err != nil {
		t.Fatal(err)
	}
	before := digest(t, short)
	name, id := m.attach(w, worker.Disk{File: short})
	m.says("/dev/" + name + " .*refuse: the disk has shrunk: xfs .*not mounted")
	m.detach(w, id)
	if digest(t, short) != before {
		t.Error("the shrunk disk was written to")
	}

	// What can not be recorded is not done.
	m.run("systemctl stop hotmount; cp -a /var/lib/hotmount /root/state; mount -t tmpfs -o mode=0700 tmpfs /var/lib/hotmount; cp -a /root/state/. /var/lib/hotmount; mount -o remount,ro /var/lib/hotmount; systemctl start hotmount")
	name, _ = m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.says("/dev/" + name + " .*hold: nothing is formatted: the state directory could not be written .*read-only file system")
	m.untouched(name)
}
