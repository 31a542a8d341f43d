//go:build vm

package system

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestAdoptKnown checks that a class with adopt: known holds a filesystem made elsewhere, and that nothing is written
// to the disk. An accepted filesystem is mounted, and is mounted again whenever its disk comes back. A filesystem that
// this node made needs no accept.
func TestAdoptKnown(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("printf '%s\n' classes: '- name: default' '  directory: /mnt/disks' '  adopt: known' >/etc/hotmount/config.d/50-known.yaml; systemctl reload hotmount")
	image := made(t, 320<<20)
	before := digest(t, image)
	name, id := m.attach(w, worker.Disk{File: image})
	m.says("/dev/" + name + " .*hold: the disk holds xfs .*, which this node neither made nor mounted before, and class default mounts only known filesystems .adopt: known.; .*if the filesystem belongs here: hotmount accept " + name)
	if got := m.run("hotmount status || [ $? = 3 ]"); !strings.Contains(got, "previous data") {
		t.Errorf("the status shows no kind of the hold:\n%s", got)
	}
	m.detach(w, id)
	if digest(t, image) != before {
		t.Error("the held disk was written to")
	}
	name, id = m.attach(w, worker.Disk{File: image})
	m.wait("the hold", "hotmount plan | grep '^"+name+" .*hold'")
	m.run("hotmount accept " + name)
	uuid := m.mounted(name)
	m.detach(w, id)
	m.wait("the end of the mount", "[ ! -e /mnt/disks/"+uuid+" ]")
	name, _ = m.attach(w, worker.Disk{File: image})
	if got := m.mounted(name); got != uuid {
		t.Errorf("mounted by %s", got)
	}

	own := blank(t, 320<<20)
	name, id = m.attach(w, worker.Disk{File: own})
	uuid = m.mounted(name)
	m.detach(w, id)
	m.wait("the end of the mount", "[ ! -e /mnt/disks/"+uuid+" ]")
	// Without filesystems.json, hotmount knows its own filesystem by the record of the format.
	m.run("systemctl stop hotmount; rm /var/lib/hotmount/filesystems.json; systemctl start hotmount")
	name, _ = m.attach(w, worker.Disk{File: own})
	if got := m.mounted(name); got != uuid {
		t.Errorf("mounted by %s", got)
	}
}

// TestAdoptedKeepsItsSize checks that a filesystem made elsewhere, smaller than its disk, does not grow when the disk
// is attached or hotmount is restarted. A filesystem made elsewhere grows when its disk becomes larger.
func TestAdoptedKeepsItsSize(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	image := made(t, 512<<20)
	if err := os.Truncate(image, gib); err != nil {
		t.Fatal(err)
	}
	smaller := func(when, uuid string) {
		t.Helper()
		m.wait("quiet", "systemctl show -p StatusText --value hotmount | grep -q '^1 mounted, 0 held, 0 refused, 0 failing'")
		m.run("systemctl start hotmount-grow@$(cat /sys/block/$(basename $(findmnt -no SOURCE /mnt/disks/" + uuid + "))/diskseq)")
		if size := numbers(t, m.run("stat -f -c '%b * %S' /mnt/disks/"+uuid+" | xargs expr"))[0]; size >= 512<<20 {
			t.Errorf("%s: it has grown to %.0f bytes", when, size)
		}
	}
	name, id := m.attach(w, worker.Disk{File: image})
	uuid := m.mounted(name)
	smaller("at first", uuid)
	m.run("hotmount rescan; systemctl restart hotmount")
	smaller("after a restart", uuid)
	m.detach(w, id)
	m.wait("the end of the mount", "[ ! -e /mnt/disks/"+uuid+" ]")
	name, id = m.attach(w, worker.Disk{File: image})
	m.mounted(name)
	smaller("attached again", uuid)
	m.resize(w, id, gib+gib/2)
	m.takes(uuid, gib+gib/2-130*mib)
	m.says("/dev/" + name + " .*grown: xfs " + uuid + " from 512 MiB ")
}

// TestExt4Defaults checks that hotmount overrides the ext4 superblock's settings for errors and barriers, unless the
// class's options set them.
func TestExt4Defaults(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	image := blank(t, 320<<20)
	for _, c := range [][]string{{"mkfs.ext4", "-q", "-F", image}, {"tune2fs", "-e", "panic", "-o", "nobarrier", image}} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", c, err, out)
		}
	}
	name, _ := m.attach(w, worker.Disk{File: image})
	has := func(when string, want ...string) {
		t.Helper()
		got := strings.Fields(m.run("cat /proc/fs/ext4/" + name + "/options"))
		for _, option := range want {
			if !slices.Contains(got, option) {
				t.Errorf("%s: no %s in %q", when, option, got)
			}
		}
	}
	uuid := m.mounted(name)
	has("mounted by hotmount", "errors=remount-ro", "barrier")
	m.run("systemctl stop hotmount; umount /mnt/disks/" + uuid + "; mkdir /root/x; mount -o noatime /dev/" + name + " /root/x")
	has("mounted by hand", "errors=panic", "nobarrier")
	m.run(`umount /root/x
printf '%s\n' classes: '- name: default' '  directory: /mnt/disks' '  options: [noatime, errors=continue, nobarrier]' >/etc/hotmount/config.d/50-options.yaml
systemctl start hotmount`)
	m.wait("the accept", "hotmount accept "+name)
	m.mounted(name)
	has("as the class says", "errors=continue", "nobarrier")
}
