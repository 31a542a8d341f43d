//go:build vm

package system

import (
	"os/exec"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestLoopDevices: a disk that is in use through a loop device, which claims nothing and is
// nobody's holder to the kernel, is neither mounted a second time nor formatted, also not by
// the operator's word, and not called safe to detach.
func TestLoopDevices(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("systemctl stop hotmount")
	image := blank(t, 320<<20)
	if out, err := exec.CommandContext(ctx(t), "mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	used, _ := m.attach(w, worker.Disk{File: image, Serial: "USED"})
	empty, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "EMPTY"})
	// By a node of another name that the daemon does not see, as in a container.
	m.run("udevadm settle; for d in " + used + " " + empty + "; do mknod /root/node-$d b $(sed 's/:/ /' /sys/block/$d/dev); done; losetup /dev/loop3 /root/node-" + used + "; mount /dev/loop3 /srv; echo kept >/srv/f; sync; losetup /dev/loop4 /root/node-" + empty + "; udevadm settle; systemctl start hotmount")
	m.says("/dev/" + used + " .*ignore: it seems to be in use through /dev/loop3")
	m.says("/dev/" + empty + " .* it is in use through /dev/loop4; tried again in")
	m.wait("both to be left alone", "hotmount plan | grep '^"+used+" .*ignore .*in use through /dev/loop3' && hotmount plan | grep '^"+empty+" .*ignore .*in use through /dev/loop4'")
	m.run("systemctl reload hotmount; udevadm trigger -s block; udevadm settle")
	if got := m.run("findmnt -rno SOURCE,TARGET -t ext4,xfs | grep -v ' /$'"); got != "/dev/loop3 /srv" {
		t.Errorf("mounted are %s", got)
	}
	m.untouched(empty)
	for _, name := range []string{used, empty} {
		if out, err := m.Run(ctx(t), "hotmount format "+name); err == nil || !strings.Contains(err.Error(), "in use through /dev/loop") {
			t.Errorf("a token is offered for %s: %s, %v", name, out, err)
		}
	}
	m.run("umount /srv; losetup -d /dev/loop3; losetup -d /dev/loop4; hotmount rescan")
	where := "/mnt/disks/" + m.mounted(used)
	if got := m.run("cat " + where + "/f"); got != "kept" {
		t.Errorf("its data is %q", got)
	}
	m.mounted(empty)

	// As kubelet has it, which the daemon sees.
	bound, _ := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "BOUND"})
	boundAt := "/mnt/disks/" + m.mounted(bound)
	m.run("umount " + boundAt + "; touch /run/volume; mount --bind /dev/" + bound + " /run/volume; losetup /dev/loop4 /run/volume; udevadm settle; hotmount accept " + bound)
	m.says("/dev/" + bound + " .*ignore: it is in use through /dev/loop4")
	m.run("losetup -d /dev/loop4; umount /run/volume; hotmount rescan")
	m.wait("the mount", "findmnt "+boundAt)

	m.run("losetup -r /dev/loop3 /dev/" + used)
	if out, err := m.Run(ctx(t), "hotmount release "+used); err == nil || !strings.Contains(err.Error(), "behind /dev/loop3") {
		t.Errorf("released below a loop device: %s, %v", out, err)
	}
	m.run("findmnt " + where + "; losetup -d /dev/loop3; hotmount release " + used + " | grep 'safe to detach'; losetup -r /dev/loop3 /dev/" + used)
	if out, err := m.Run(ctx(t), "hotmount release "+used); err == nil || !strings.Contains(err.Error(), "NOT safe to detach") || !strings.Contains(err.Error(), "behind /dev/loop3") {
		t.Errorf("safe below a loop device: %s, %v", out, err)
	}
}
