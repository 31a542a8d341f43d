//go:build vm && (long || full)

package system

import (
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
