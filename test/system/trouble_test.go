//go:build vm

package system

import (
	"fmt"
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
	// Leftovers go at boot also where the daemon can not start.
	m.run("echo 'nonsense: true' >/etc/hotmount/config.yaml; sync")
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the daemon to give up", "systemctl is-failed hotmount || systemctl show -p NRestarts --value hotmount | grep -v '^0$'")
	if got := m.run("ls /mnt/disks"); got != uuid+"\nlink\npipe" && got != "link\npipe\n"+uuid {
		t.Errorf("after a boot with a broken configuration: %s", got)
	}
	m.run("rm /etc/hotmount/config.yaml; systemctl reset-failed hotmount; systemctl restart hotmount")
	m.says(where + " holds files although nothing is mounted there")
	if got := m.run("cat " + where + "/f; findmnt -n " + where + " || true; ls /mnt/disks"); got != "precious\n"+uuid+"\nlink\npipe" && got != "precious\nlink\npipe\n"+uuid {
		t.Errorf("after a reboot: %s", got)
	}
	name = m.run("lsblk -dno NAME,SERIAL | awk '$2 == \"STRAY\" {print $1}'")
	m.run("chattr -i " + where + "; rm " + where + "/f")
	m.run("journalctl -b -u hotmount -o cat --no-pager | sed -n 's|^" + where + " holds files .* first), then: ||p' | tail -n 1 | sh -x; [ ! -e " + where + " ]; systemctl reload hotmount")
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
	// A mount that fails may write to the log; a repair would mend the header.
	m.run("dd if=/dev/" + name + " bs=512 skip=2 count=1 iflag=direct status=none | sha256sum -c --quiet /root/sum")
	m.run(fmt.Sprintf("dd if=/root/agi of=/dev/%s bs=512 seek=2 conv=notrunc,fsync status=none", name))
	if got := m.mounted(name); got != uuid {
		t.Errorf("repaired and mounted as %s", got)
	}
	if got := m.run("cat /mnt/disks/" + uuid + "/f"); got != "kept" {
		t.Errorf("the data is %q", got)
	}

	// Its root directory may be a pod's own.
	m.run("chown 1000:1000 /mnt/disks/" + uuid + "; chmod 0700 /mnt/disks/" + uuid + "; xfs_io -x -c shutdown /mnt/disks/" + uuid + "; udevadm trigger -s block")
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

	ext4 := blank(t, 320<<20)
	if out, err := exec.CommandContext(ctx(t), "mkfs.ext4", "-q", "-F", "-e", "remount-ro", ext4).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	name, _ = m.attach(w, worker.Disk{File: ext4, Serial: "SICKER"})
	uuid = m.mounted(name)
	m.run("echo 1 >/sys/fs/ext4/" + name + "/trigger_fs_error; ! touch /mnt/disks/" + uuid + "/f 2>/dev/null; udevadm trigger -s block")
	m.says("/dev/" + name + " .*the kernel has counted errors in its ext4 .[0-9]+. and may write to it no more.*e2fsck -fn /dev/" + name)
	failed(name)
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
}

// TestReinstalled: a new system mounts the disks of the old one at the same paths
// and formats none; those of a machine that went down with a busy pod need no
// recovery. What is not there any more is listed as missing.
func TestReinstalled(t *testing.T) {
	one, two := made(t, 320<<20), made(t, 320<<20)
	m, w := start(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: one, Serial: "ONE"})
	first := m.mounted(name)
	name, gone := m.attach(w, worker.Disk{File: two, Serial: "TWO"})
	second := m.mounted(name)
	m.run("echo one >/mnt/disks/" + first + "/f; echo two >/mnt/disks/" + second + "/f")
	m.run("systemd-run -q --unit=pod sh -c 'exec unshare --mount --propagation private sh -c \"exec 3>/mnt/disks/" + first + "/open; while :; do date >&3; sleep 0.1; done\"'")
	m.wait("the pod", "[ -s /mnt/disks/"+first+"/open ]")
	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	serial, err := w.Serial()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(serial) {
		if strings.Contains(line, "Failed unmounting /mnt") || strings.Contains(line, "timed out") {
			t.Errorf("the shutdown: %s", line)
		}
	}
	if err := w.Detach(ctx(t), gone); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the mount", "findmnt /mnt/disks/"+first)
	m.says("missing: xfs " + second + ".*serial TWO.*hotmount forget " + second)
	if got := m.run("hotmount status | grep -A 9 '^missing: xfs " + second + "'; hotmount status -o json | grep '\"serial\": \"TWO\"'; hotmount forget " + second + "; hotmount status | grep missing: || true"); !strings.Contains(got, "hotmount forget "+second) || !strings.HasSuffix(got, "listed as missing no more") {
		t.Errorf("what is missing in the status, and forgotten: %s", got)
	}
	if got := m.run("journalctl -b -k -o cat --no-pager | grep -c 'Starting recovery' || true"); got != "0" {
		t.Errorf("%s filesystems needed recovery", got)
	}
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}

	m, w = start(t, worker.Options{})
	m.attach(w, worker.Disk{File: one, Serial: "ONE"})
	m.attach(w, worker.Disk{File: two, Serial: "TWO"})
	m.wait("both mounts", "findmnt /mnt/disks/"+first+" && findmnt /mnt/disks/"+second)
	if got := m.run("cat /mnt/disks/" + first + "/f /mnt/disks/" + second + "/f; hotmount history | grep -c xfs || true"); got != "one\ntwo\n0" {
		t.Errorf("on the new system: %s", got)
	}
}
