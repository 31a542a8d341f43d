package mounts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// These constants are lines of PID 1's mount table: a shared root, a private root, and a disk at /mnt/disks.
const (
	hostRoot    = "27 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
	privateRoot = "27 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw\n"
	hostDisks   = "60 27 254:16 / /mnt/disks rw,relatime shared:9 - xfs /dev/vdb rw\n"
)

func TestPropagates(t *testing.T) {
	const dir = "/mnt/disks"
	const another, notShared, elsewhere = "through another mount than the host", "is not shared", "another directory at this path than the host"
	for _, test := range []struct {
		name      string
		host, own string
		// The field `want` is a part of the expected error, or empty if Propagates must return nil.
		want string
	}{
		{"PID 1's namespace", hostRoot, hostRoot, ""},
		{"PID 1's namespace, nothing shared", privateRoot, privateRoot, ""},
		{"PID 1's namespace, a mount of its own", hostRoot + hostDisks, hostRoot + hostDisks, ""},

		{"a slave, as ProtectSystem= makes it", hostRoot, "127 99 254:1 / / ro,relatime master:1 - ext4 /dev/vda1 rw\n", ""},
		{"a slave that is shared further", hostRoot, "127 99 254:1 / / ro shared:300 master:1 - ext4 /dev/vda1 rw\n", ""},
		{"a slave, and ReadWritePaths= of the directory", hostRoot,
			"127 99 254:1 / / ro master:1 - ext4 /dev/vda1 rw\n128 127 254:1 /mnt/disks /mnt/disks rw master:1 - ext4 /dev/vda1 rw\n", ""},
		{"the same in a btrfs subvolume", "27 1 0:30 /@root / rw shared:1 - btrfs /dev/vda1 rw\n",
			"127 99 0:30 /@root / ro master:1 - btrfs /dev/vda1 rw\n128 127 0:30 /@root/mnt/disks /mnt/disks rw master:1 - btrfs /dev/vda1 rw\n", ""},
		{"a peer in another namespace", hostRoot, "127 99 254:1 / / rw shared:1 - ext4 /dev/vda1 rw\n", ""},
		{"a slave, a mount of its own", hostRoot + hostDisks,
			"127 99 254:1 / / ro master:1 - ext4 /dev/vda1 rw\n160 127 254:16 / /mnt/disks rw master:9 - xfs /dev/vdb rw\n", ""},

		{"the host's is private", privateRoot, "127 99 254:1 / / rw - ext4 /dev/vda1 rw\n", notShared},
		{"the host's is private, its parent is shared", hostRoot + "60 27 254:16 / /mnt/disks rw - xfs /dev/vdb rw\n",
			"127 99 254:1 / / rw master:1 - ext4 /dev/vda1 rw\n160 127 254:16 / /mnt/disks rw - xfs /dev/vdb rw\n", "mount --make-shared /mnt/disks"},
		{"the host's is a slave", "27 1 254:1 / / rw master:1 - ext4 /dev/vda1 rw\n", "127 99 254:1 / / rw master:1 - ext4 /dev/vda1 rw\n", notShared},
		{"our own is private", hostRoot, "127 99 254:1 / / rw - ext4 /dev/vda1 rw\n", another},
		{"our own is a slave of another", hostRoot, "127 99 254:1 / / rw master:2 - ext4 /dev/vda1 rw\n", another},
		{"our own is a slave of one that begins alike", hostRoot, "127 99 254:1 / / rw master:11 - ext4 /dev/vda1 rw\n", another},
		{"our own is a peer of another", hostRoot, "127 99 254:1 / / rw shared:2 - ext4 /dev/vda1 rw\n", another},
		{"our own only knows where it comes from", hostRoot, "127 99 254:1 / / rw master:2 propagate_from:1 - ext4 /dev/vda1 rw\n", another},

		{"only the host has mounted something there", hostRoot + hostDisks, "127 99 254:1 / / rw master:1 - ext4 /dev/vda1 rw\n", another},
		{"only this process has a tmpfs above it", hostRoot,
			"127 99 254:1 / / rw master:1 - ext4 /dev/vda1 rw\n140 127 0:50 / /mnt rw - tmpfs tmpfs rw\n", another},
		{"this process has another directory there", hostRoot,
			"127 99 254:1 / / ro master:1 - ext4 /dev/vda1 rw\n128 127 254:1 /srv /mnt/disks rw master:1 - ext4 /dev/vda1 rw\n", elsewhere},
		{"this process has another root", hostRoot, "127 99 254:1 /chroot / rw shared:1 - ext4 /dev/vda1 rw\n", elsewhere},

		{"a neighbour whose name begins alike does not carry it", hostRoot,
			"127 99 254:1 / / ro master:1 - ext4 /dev/vda1 rw\n140 127 0:50 / /mnt/disk rw - tmpfs tmpfs rw\n141 127 0:51 / /mnt/disks-old rw - tmpfs tmpfs rw\n", ""},
		{"nor does what is mounted below", hostRoot,
			"127 99 254:1 / / ro master:1 - ext4 /dev/vda1 rw\n140 127 254:16 / /mnt/disks/u rw - xfs /dev/vdb rw\n", ""},

		{"stacked on one path, the top is the host's", hostRoot + hostDisks,
			"127 99 254:1 / / ro master:1 - ext4 /dev/vda1 rw\n159 127 0:50 / /mnt/disks rw - tmpfs tmpfs rw\n160 159 254:16 / /mnt/disks rw master:9 - xfs /dev/vdb rw\n", ""},
		{"stacked on one path, the top is not", hostRoot + hostDisks,
			"127 99 254:1 / / ro master:1 - ext4 /dev/vda1 rw\n159 127 254:16 / /mnt/disks rw master:9 - xfs /dev/vdb rw\n160 159 0:50 / /mnt/disks rw - tmpfs tmpfs rw\n", another},
		{"hidden by a later mount above it", hostRoot + hostDisks,
			"127 99 254:1 / / ro master:1 - ext4 /dev/vda1 rw\n160 127 254:16 / /mnt/disks rw master:9 - xfs /dev/vdb rw\n161 127 0:50 / /mnt rw - tmpfs tmpfs rw\n", another},
		{"stacked at the host's root", "20 1 0:2 / / rw - rootfs rootfs rw\n" + hostRoot, "127 99 254:1 / / ro master:1 - ext4 /dev/vda1 rw\n", ""},

		{"an overlong line of another mount", hostRoot + "95 27 0:50 / /merged rw - overlay overlay rw,lowerdir=" + strings.Repeat("/l:", 1<<16) + "\n",
			"127 99 254:1 / / ro master:1 - ext4 /dev/vda1 rw\n", ""},
		{"an escaped name", hostRoot, "127 99 254:1 / / ro master:1 - ext4 /dev/vda1 rw\n140 127 0:50 / /mnt\\057disks rw - tmpfs tmpfs rw\n", another},
		{"a tag in a path is none", hostRoot, "127 99 254:1 / / rw - ext4 master:1 rw,master:1,shared:1\n", another},
		{"a tag that is no number is none", hostRoot, "127 99 254:1 / / rw master:x shared: - ext4 /dev/vda1 rw\n", another},
		{"no root", hostRoot, "140 127 0:50 / /srv rw - tmpfs tmpfs rw\n", "no root"},
		{"an empty table", "", hostRoot, "no root"},
	} {
		root := files(t, map[string]string{"proc/1/mountinfo": test.host, "proc/self/mountinfo": test.own})
		err := Propagates(root, dir)
		if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		}
	}
}

// TestPropagatesHolds checks that Propagates repeats a nil result for one second without reading the mount tables
// again, and does not repeat an error.
func TestPropagatesHolds(t *testing.T) {
	root := files(t, map[string]string{"proc/1/mountinfo": hostRoot, "proc/self/mountinfo": hostRoot})
	host := func(table string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, "proc/1/mountinfo"), []byte(table), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var r Reader
		check := func(when, dir string, want bool) {
			t.Helper()
			if err := r.Propagates(root, dir); (err == nil) != want {
				t.Errorf("%s: error %v", when, err)
			}
		}
		check("at first", "/mnt/disks", true)
		host(hostRoot + hostDisks)
		time.Sleep(propagationHolds - time.Nanosecond)
		check("for a second", "/mnt/disks", true)
		check("another directory", "/mnt/disks/fast", false)
		time.Sleep(time.Nanosecond)
		check("after a second", "/mnt/disks", false)
		host(hostRoot)
		check("mended", "/mnt/disks", true)
	})
}

// TestPropagatesUnreadable checks that Propagates returns an error if the mount table of PID 1 or of this process is
// unreadable.
func TestPropagatesUnreadable(t *testing.T) {
	for name, text := range map[string]string{
		"nonsense":           "nonsense\n",
		"cut":                "27 1 254:1 / / rw\n",
		"no separator":       "27 1 254:1 / / rw shared:1 ext4 /dev/\x1b[31mvda1 rw x y z\n",
		"an escape sequence": "27 1 254:\x1b[31m / / rw shared:1 - ext4 /dev/vda1 rw\n",
		"a path without end": "27 1 254:1 / /\x1b" + strings.Repeat("x", 1<<20) + " rw shared:1 - ext4 /dev/vda1 rw\n",
		"missing":            "-> nowhere",
	} {
		for _, tables := range [][2]string{{text, hostRoot}, {hostRoot, text}, {text, text}} {
			err := Propagates(files(t, map[string]string{"proc/1/mountinfo": tables[0], "proc/self/mountinfo": tables[1]}), "/mnt/disks")
			if err == nil {
				t.Errorf("%s: no error", name)
			} else if len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%s: error with control characters, or too long: %q", name, err)
			}
		}
	}
}

// TestPropagatesHostileMountPoint checks that the message contains the name of a mount point in escaped form, because
// any user may have chosen that name.
func TestPropagatesHostileMountPoint(t *testing.T) {
	host := hostRoot + "60 27 254:16 / /mnt/a\\012b\x1b[31m rw - xfs /dev/vdb rw\n"
	own := "127 99 254:1 / / ro master:1 - ext4 /dev/vda1 rw\n"
	err := Propagates(files(t, map[string]string{"proc/1/mountinfo": host, "proc/self/mountinfo": own}), "/mnt/a\nb\x1b[31m/disks")
	if err == nil || !strings.Contains(err.Error(), `the host's mount /mnt/a\nb\x1b[31m is not shared`) {
		t.Errorf("error %v", err)
	}
}

// TestPropagatesLive compares the tables of this process and of PID 1 on this machine, whatever they contain.
func TestPropagatesLive(t *testing.T) {
	if err := Propagates("", "/"); err != nil && !strings.Contains(err.Error(), "cannot see what is mounted below /: ") && !strings.Contains(err.Error(), "permission denied") {
		t.Error(err)
	}
}
