//go:build vm

package system

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestVirsh is the user's own path: a real libvirt, virsh attach-disk and
// detach-disk, blockresize, and the journal of the mount unit (issue 2, shown 1 and 6).
func TestVirsh(t *testing.T) {
	parallel(t)
	o := worker.Options{Deb: deb(t), Progress: os.Stderr, Dir: logs(t)}
	l, err := worker.StartLibvirt(ctx(t), o)
	if err != nil {
		t.Fatal(err)
	}
	m := machine{l, t}
	m.endWith(o.Dir)
	virsh := func(args ...string) {
		t.Helper()
		if _, err := l.Virsh(ctx(t), args...); err != nil {
			t.Fatal(err)
		}
	}
	diskDirs.Store(t, t.TempDir()) // libvirtd has a /run of its own
	image := blank(t, 2*gib)
	virsh("attach-disk", l.Domain(), image, "vdc", "--persistent", "--serial", "VIRSH-1", "--subdriver", "raw")
	m.wait("the disk", "[ -e /dev/vdb ]")
	uuid := m.mounted("vdb")
	// The proof reads all of it, once (Documentation/block/stat.rst).
	if got := m.run("awk '{print ($3 >= 4194304 && $3 < 6291456)}' /sys/block/vdb/stat"); got != "1" {
		t.Errorf("of the disk of 4194304 sectors this was read: %s", m.run("cat /sys/block/vdb/stat"))
	}
	if got := m.run("findmnt -no FSTYPE /mnt/disks/" + uuid); got != "xfs" {
		t.Errorf("made a %s", got)
	}
	if got := m.run("blkid -p -o value -s UUID /dev/vdb"); got != uuid {
		t.Errorf("the path is %s, the filesystem %s", uuid, got)
	}
	story := m.run("journalctl -b --no-pager -o short -u " + quote(unitOf(uuid)))
	t.Logf("journalctl -u '%s'\n%s", unitOf(uuid), story)
	for _, want := range []string{"hotmount", "/dev/vdb", "VIRSH-1", "2 GiB", uuid, "blank", "all zero", "formatted", "mounted", "systemd[1]: Mounted"} {
		if !strings.Contains(strings.ToLower(story), strings.ToLower(want)) {
			t.Errorf("the unit's journal does not say %q", want)
		}
	}
	m.run(fmt.Sprintf("echo kept >/mnt/disks/%s/f; sync", uuid))
	virsh("blockresize", l.Domain(), "vdc", "3G")
	m.says("/dev/vdb .*grown: xfs " + uuid + " from 2 GiB .* to 3 GiB .*online; .*PersistentVolume")
	// What release says of a disk whose name on the host is another, taken at its word.
	out := m.run("hotmount release vdb")
	find := regexp.MustCompile(`(?m)^on the host it need not be called vdb; .*: virsh dumpxml NODE --xpath "(.*)"$`).FindStringSubmatch(out)
	if find == nil {
		t.Fatalf("release says %q", out)
	}
	target, err := l.Virsh(ctx(t), "dumpxml", l.Domain(), "--xpath", find[1])
	if err != nil || strings.TrimSpace(target) != `dev="vdc"` {
		t.Errorf("%s gives %q, %v", find[1], target, err)
	}
	virsh("detach-disk", l.Domain(), "vdc", "--persistent")
	m.wait("unit and directory to go", fmt.Sprintf(`[ ! -e /mnt/disks/%s ] && [ -z "$(systemctl list-units --all --no-legend %s)" ]`, uuid, quote(unitOf(uuid))))
	const control = "XFS (none): log I/O error, as a control"
	if got := m.run("echo '" + control + "' >/dev/kmsg; journalctl --sync; " + kernelErrors); got != control {
		t.Errorf("the kernel says: %s", got)
	}
	virsh("attach-disk", l.Domain(), image, "vdd", "--persistent", "--subdriver", "raw")
	m.wait("the mount", "findmnt /mnt/disks/"+uuid)
	if got := m.run(fmt.Sprintf("cat /mnt/disks/%s/f", uuid)); got != "kept" {
		t.Errorf("the data is %q", got)
	}
}
