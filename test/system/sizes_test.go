//go:build vm && (long || full)

package system

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestShrunk: a disk smaller than its filesystem is an error in the journal; it is
// not mounted if it was not, and not written to.
func TestShrunk(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	image := blank(t, 2*gib)
	name, id := m.attach(w, worker.Disk{File: image})
	uuid := m.mounted(name)
	sum := m.run(fmt.Sprintf(fill, uuid))
	m.detach(w, id)
	m.wait("the end of the mount", "[ ! -e /mnt/disks/"+uuid+" ]")

	short := copyOf(t, image)
	if err := os.Truncate(short, gib); err != nil {
		t.Fatal(err)
	}
	before := digest(t, short)
	name, id = m.attach(w, worker.Disk{File: short})
	m.says("/dev/" + name + " .*refuse: the disk has shrunk: xfs " + uuid + " takes 2 GiB .*has only 1 GiB .*not mounted")
	if got := m.run("findmnt -no TARGET /dev/" + name + " || true; ls -A /mnt/disks"); got != "" {
		t.Errorf("it is there: %s", got)
	}
	m.detach(w, id)
	if digest(t, short) != before {
		t.Error("the shrunk disk was written to")
	}

	ext4 := blank(t, 2*gib)
	if out, err := exec.CommandContext(ctx(t), "mkfs.ext4", "-q", "-F", ext4).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	if err := os.Truncate(ext4, gib); err != nil {
		t.Fatal(err)
	}
	before = digest(t, ext4)
	name, id = m.attach(w, worker.Disk{File: ext4})
	m.says("/dev/" + name + " .*refuse: the disk has shrunk: ext4 .* takes 2 GiB .*has only 1 GiB .*not mounted")
	if got := m.run("findmnt -no TARGET /dev/" + name + " || true; ls -A /mnt/disks"); got != "" {
		t.Errorf("the ext4 is there: %s", got)
	}
	m.detach(w, id)
	if digest(t, ext4) != before {
		t.Error("the shrunk ext4 was written to")
	}

	name, id = m.attach(w, worker.Disk{File: image})
	if got := m.mounted(name); got != uuid {
		t.Errorf("mounted %s", got)
	}
	if got := m.run(fmt.Sprintf("cd /mnt/disks/%s && sha256sum data/f", uuid)); got != sum {
		t.Errorf("%q, was %q", got, sum)
	}
	m.resize(w, id, gib)
	m.says("/dev/" + name + " .*the disk has shrunk: xfs " + uuid + " takes 2 GiB .*has only 1 GiB .*still mounted")
	if got := m.run("journalctl -b -p err --no-pager -q -o cat -u hotmount"); !strings.Contains(got, "still mounted") {
		t.Errorf("the errors of the daemon are %q", got)
	}
	for _, who := range []string{"", "setpriv --reuid 65534 --regid 65534 --clear-groups "} {
		m.wait("the status to show it", "code=0; out=$("+who+"hotmount status) || code=$?; [ $code = 3 ] && grep '^"+name+" .* failed ' <<<\"$out\"")
	}
}

// TestGrowDuringMkfs: a disk that grows while mkfs.xfs runs on it is mounted, made
// once, and fills its disk.
func TestGrowDuringMkfs(t *testing.T) {
	m, w := obedientNode(t)
	victims := m.victims(w, 0, "sp20")
	v := victims[0]
	m.stopped(v)
	m.resize(w, v.id, gib)
	m.wait("the kernel to see the size", fmt.Sprintf("[ $(cat /sys/block/%s/size) = %d ]", v.name, gib/512))
	m.run("pkill -CONT -f 'mkfs.xfs .*/dev/" + v.name + "$'")
	t.Log(m.whole(v, 1))
	m.takes(m.mounted(v.name), gib-130*mib)
	m.says("/dev/" + v.name + " .*grown: xfs .* from 300 MiB .* to 1 GiB ")
}
