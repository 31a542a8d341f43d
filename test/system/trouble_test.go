//go:build vm

package system

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestClassDirectory: nothing can be written where nothing is mounted; what is in
// the way is told and never deleted nor mounted over, an empty leftover goes.
func TestClassDirectory(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := made(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "STRAY"})
	uuid := m.mounted(name)
	where := "/mnt/disks/" + uuid
	if got := m.run("mkdir /root/below; mount --bind / /root/below; touch /root/below" + where + "/f 2>&1 || true; umount /root/below"); !strings.Contains(got, "not permitted") {
		t.Errorf("under the mount can be written: %q", got)
	}
	m.detach(w, id)
	m.wait("the directory to go", "[ ! -e "+where+" ]")

	// As hotmount leaves a mount point, but for the file.
	m.run("mkdir " + where + "; echo precious >" + where + "/f; touch " + where + "/not-mounted; chattr +i " + where + "/not-mounted " + where + "; mkfifo /mnt/disks/pipe; ln -s /etc /mnt/disks/link; mkdir /mnt/disks/11111111-2222-4333-8444-555555555555 /mnt/disks/nested; mount -t tmpfs none /mnt/disks/nested; systemctl reload hotmount")
	m.says(where + " holds files although nothing is mounted there .the first: f.")
	m.says("/mnt/disks/pipe is a FIFO")
	m.says("/mnt/disks/link is a symlink")
	m.says("/mnt/disks/nested .*mount")
	m.run("umount /mnt/disks/nested; rmdir /mnt/disks/nested")
	name, _ = m.attach(w, worker.Disk{File: image, Serial: "STRAY"})
	m.says("/dev/" + name + " .*cannot make the mount point " + where + ".*not empty")
	// Leftovers go at boot also where the daemon can not start, and before kubelet starts.
	m.run(kubelet + "; echo 'nonsense: true' >/etc/hotmount/config.yaml; ls -d /mnt/disks/11111111-2222-4333-8444-555555555555; sync")
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the daemon to give up", "systemctl is-failed hotmount || systemctl show -p NRestarts --value hotmount | grep -v '^0$'")
	m.wait("kubelet", "systemctl is-active kubelet")
	if got := m.run("cat /root/kubelet-saw"); got != uuid+"\nlink\npipe" && got != "link\npipe\n"+uuid {
		t.Errorf("at a boot with a broken configuration kubelet saw %s", got)
	}
	m.run("rm /etc/hotmount/config.yaml; systemctl reset-failed hotmount; systemctl restart hotmount")
	m.says(where + " holds files although nothing is mounted there")
	if got := m.run("cat " + where + "/f; findmnt -n " + where + " || true; ls /mnt/disks"); got != "precious\n"+uuid+"\nlink\npipe" && got != "precious\nlink\npipe\n"+uuid {
		t.Errorf("after a reboot: %s", got)
	}
	name = m.run("lsblk -dno NAME,SERIAL | awk '$2 == \"STRAY\" {print $1}'")
	// The daemon tries again by itself, with a growing delay: not while this is done.
	remedy := m.run("journalctl -b -u hotmount -o cat --no-pager | sed -n 's|^" + where + " holds files .* first), then: ||p' | tail -n 1")
	m.run("systemctl freeze hotmount")
	m.wait("what it has asked of systemd", "[ -z \"$(systemctl list-jobs --no-legend)\" ]")
	m.run("chattr -i " + where + "; rm " + where + "/f; sh -exc '" + remedy + "'; [ ! -e " + where + " ]; systemctl thaw hotmount; systemctl reload hotmount")
	m.mounted(name)
}

// TestDamaged: a damaged filesystem is not mounted, not repaired and not tried
// for ever; the journal has the kernel's words and the command to look with; when
// it is repaired it is mounted. One that the kernel gives up later is told.
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
	told := func(words string) {
		t.Helper()
		m.run("(hotmount status || [ $? = 3 ]) | tr -s ' \\n' ' ' | grep -E " + quote(words))
	}
	told(name + " is failed: .*the kernel says: .*XFS .*xfs_repair -n /dev/" + name)
	// A mount that fails may write to the log; a repair would mend the header.
	m.run("dd if=/dev/" + name + " bs=512 skip=2 count=1 iflag=direct status=none | sha256sum -c --quiet /root/sum")
	m.run(fmt.Sprintf("dd if=/root/agi of=/dev/%s bs=512 seek=2 conv=notrunc,fsync status=none", name))
	if got := m.mounted(name); got != uuid {
		t.Errorf("repaired and mounted as %s", got)
	}
	if got := m.run("cat /mnt/disks/" + uuid + "/f"); got != "kept" {
		t.Errorf("the data is %q", got)
	}

	// Nothing tells of what the kernel gives up: it is found by the look now and then.
	m.run("echo 'rescan: 10s' >/etc/hotmount/config.yaml; systemctl reload hotmount")
	// Its root directory may be a pod's own.
	m.run("chown 1000:1000 /mnt/disks/" + uuid + "; chmod 0700 /mnt/disks/" + uuid + "; xfs_io -x -c shutdown /mnt/disks/" + uuid)
	m.says("/dev/" + name + " .*the kernel has shut it down")
	failed := func(name string) {
		t.Helper()
		for _, who := range []string{"", "setpriv --reuid 65534 --regid 65534 --clear-groups "} {
			if out := m.run(who + "hotmount status && echo 0 || echo $?"); !strings.HasSuffix(out, "\n3") || !regexpLine(out, "^"+name+" .* failed ") {
				t.Errorf("%q: %s", who, out)
			}
		}
	}
	failed(name)
	told(name + " is failed: .*the kernel has shut it down")

	ext4 := blank(t, 320<<20)
	if out, err := exec.CommandContext(ctx(t), "mkfs.ext4", "-q", "-F", "-e", "remount-ro", ext4).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	name, _ = m.attach(w, worker.Disk{File: ext4, Serial: "SICKER"})
	uuid = m.mounted(name)
	m.run("echo 1 >/sys/fs/ext4/" + name + "/trigger_fs_error; ! touch /mnt/disks/" + uuid + "/f 2>/dev/null")
	m.says("/dev/" + name + " .*the kernel has counted errors in its ext4 .[0-9]+. and may write to it no more.*e2fsck -fn /dev/" + name)
	failed(name)
	told(name + " is failed: .*the kernel has counted errors.*e2fsck -fn /dev/" + name)

	short := made(t, 400<<20)
	if err := os.Truncate(short, 350<<20); err != nil {
		t.Fatal(err)
	}
	before := digest(t, short)
	name, id = m.attach(w, worker.Disk{File: short, Serial: "SHORT"})
	m.says("/dev/" + name + " .*refuse: the disk has shrunk: xfs .*not mounted")
	m.detach(w, id)
	if digest(t, short) != before {
		t.Error("the shrunk disk was written to")
	}

	// What can not be recorded is not done.
	m.run("systemctl stop hotmount; cp -a /var/lib/hotmount /root/state; mount -t tmpfs -o mode=0700 tmpfs /var/lib/hotmount; cp -a /root/state/. /var/lib/hotmount; mount -o remount,ro /var/lib/hotmount; systemctl start hotmount")
	name, _ = m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "UNRECORDED"})
	m.says("/dev/" + name + " .*hold: nothing is formatted: the state directory could not be written .*read-only file system")
	m.untouched(name)
}

// TestWait: a service that needs a disk at boot waits for it.
func TestWait(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := made(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image})
	uuid := m.mounted(name)
	m.run("hotmount wait " + uuid)
	m.detach(w, id)
	m.wait("the mount to go", "! findmnt /mnt/disks/"+uuid)
	if _, err := m.Run(ctx(t), "hotmount wait --timeout 1s "+uuid); err == nil || !strings.Contains(err.Error(), "cannot wait until "+uuid+" is mounted") {
		t.Errorf("waiting for a disk that is not there: %v", err)
	}
	m.run(fmt.Sprintf("systemd-run -q --no-block --unit=needs -p Requires=hotmount-wait@%[1]s.service -p After=hotmount-wait@%[1]s.service touch /mnt/disks/%[1]s/started", uuid))
	m.wait("the wait", "systemctl show -p ActiveState --value hotmount-wait@"+uuid+" | grep -q activating")
	m.attach(w, worker.Disk{File: image})
	m.wait("the service", "[ -e /mnt/disks/"+uuid+"/started ]")
	m.run(fmt.Sprintf(`cat >/etc/systemd/system/needs.service <<'X'
[Unit]
Requires=hotmount-wait@%[1]s.service
After=hotmount-wait@%[1]s.service
[Service]
Type=oneshot
ExecStart=/bin/cp /proc/sys/kernel/random/boot_id /mnt/disks/%[1]s/booted
[Install]
WantedBy=multi-user.target
X
systemctl -q enable needs`, uuid))
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the service after the reboot", "cmp /proc/sys/kernel/random/boot_id /mnt/disks/"+uuid+"/booted")
}
