//go:build vm && (long || full)

package system

import (
	"fmt"
	"os/exec"
	"testing"

	"hotmount/test/worker"
)

// TestPulledFromAPod: the kubelet has a volume bound in the host's own mount namespace for
// each pod. That the disk is gone, and has returned, is no reason to touch what is the
// kubelet's: at the volume's path nothing stays meanwhile, the pod is named, and as soon as
// the filesystem can be mounted again it is, by itself. An XFS can when nobody has the old
// one any more, an ext4 at once.
func TestPulledFromAPod(t *testing.T) {
	m, w := start(t, worker.Options{})
	for fstype, mkfs := range map[string][]string{"xfs": {"mkfs.xfs", "-q"}, "ext4": {"mkfs.ext4", "-q", "-F"}} {
		image := blank(t, 320<<20)
		if out, err := exec.CommandContext(ctx(t), mkfs[0], append(mkfs[1:], image)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", mkfs, err, out)
		}
		name, id := m.attach(w, worker.Disk{File: image, Serial: "POD"})
		uuid := m.mounted(name)
		where := "/mnt/disks/" + uuid
		pod := "/var/lib/kubelet/pods/0e3b1b0a-1111-2222-3333-" + uuid[24:] + "/volumes/kubernetes.io~local-volume/pv"
		m.run(fmt.Sprintf("echo kept >%[1]s/f; sync; mkdir -p %[2]s; mount --bind %[1]s %[2]s", where, pod))
		m.run("systemd-run -q --unit=container sh -c 'exec 3<" + pod + "/f; exec sleep 1004'")
		m.wait("the container", "[ -e /proc/$(pgrep -f '^sleep 1004')/fd/3 ]")
		if err := w.DetachSurprise(ctx(t), id); err != nil {
			t.Fatal(err)
		}
		m.wait("mount and directory to go", fmt.Sprintf("! findmnt %[1]s && [ ! -e %[1]s ]", where))
		m.says(where + " was .*: its disk .* is gone, and it was still used by")
		if got := m.run("journalctl -b --no-pager -o cat -u " + quote(unitOf(uuid))); !regexpLine(got, "pod 0e3b1b0a-1111-2222-3333-"+uuid[24:]) {
			t.Errorf("%s: the unit's journal does not name the pod:\n%s", fstype, got)
		}
		if got := m.run("findmnt -no FSTYPE " + pod); got != fstype {
			t.Errorf("the kubelet's own mount is %q", got)
		}
		name, id = m.attach(w, worker.Disk{File: image, Serial: "POD"})
		if fstype == "xfs" {
			m.says("/dev/" + name + " .*used by: .*tried again in")
			m.run("systemctl stop container")
			if got := m.run("findmnt -n " + where + " || echo none"); got != "none" {
				t.Errorf("while the pod has its mount: %s", got)
			}
			m.run("umount " + pod)
		}
		if got := m.mounted(name); got != uuid {
			t.Errorf("%s: it came back as %s, it was %s", fstype, got, uuid)
		}
		if got := m.run("cat " + where + "/f; findmnt -no FSTYPE " + where); got != "kept\n"+fstype {
			t.Errorf("%s: after the return: %s", fstype, got)
		}
		if fstype == "ext4" {
			m.run("systemctl stop container; umount " + pod)
		}
		m.detach(w, id)
		m.wait("mount and directory to go again", fmt.Sprintf("! findmnt %[1]s && [ ! -e %[1]s ]", where))
	}
}
