//go:build vm && full

package system

import (
	"errors"
	"os"
	"testing"

	"hotmount/internal/probe"
	"hotmount/test/worker"
)

// TestDebian13DiskOnDebian12: a disk that was made on Debian 13 mounts on Debian
// 12 and can be repaired there; and all that Debian 13's mkfs.xfs writes is known
// as our own.
func TestDebian13DiskOnDebian12(t *testing.T) {
	m, w := start(t, worker.Options{Suite: "trixie"})
	image := blank(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image})
	uuid := m.mounted(name)
	t.Log(m.run("mkfs.xfs -V; xfs_info /dev/" + name))
	m.run("echo hello >/mnt/disks/" + uuid + "/file; sync")
	m.detach(w, id)

	m.run("systemctl stop hotmount")
	for _, options := range []string{"-c options=/usr/share/xfsprogs/mkfs/lts_6.1.conf", ""} {
		const own = "0a0b0c0d-1111-4222-8333-abcdefabcdef"
		image := blank(t, 320<<20)
		name, id := m.attach(w, worker.Disk{File: image})
		m.run("mkfs.xfs -q -K -m uuid=" + own + " " + options + " /dev/" + name + "; sync")
		m.detach(w, id)
		f, err := os.Open(image)
		if err != nil {
			t.Fatal(err)
		}
		found, err := probe.Scan(t.Context(), probe.Source{Reader: f, Size: 320 << 20, Own: probe.Own{UUID: own}}, probe.Full)
		if err = errors.Join(err, f.Close()); err != nil || found.Own == 0 || len(found.Bytes) > 0 {
			t.Errorf("%s: %+v, error %v", options, found, err)
		}
	}

	m, w = start(t, worker.Options{})
	name, _ = m.attach(w, worker.Disk{File: image})
	if got := m.mounted(name); got != uuid {
		t.Errorf("mounted as %s, made as %s", got, uuid)
	}
	if got := m.run("cat /mnt/disks/" + uuid + "/file"); got != "hello" {
		t.Errorf("the file holds %q", got)
	}
	m.run("systemctl stop hotmount; umount /mnt/disks/" + uuid)
	t.Log(m.run("xfs_repair -V && xfs_repair -n /dev/" + name + " 2>&1 && xfs_repair /dev/" + name + " 2>&1"))
}
