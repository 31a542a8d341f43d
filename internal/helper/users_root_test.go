//go:build root

package helper

import (
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"hotmount/internal/nodetest"
)

// TestOpeners checks that a process that has a partition open counts as a user of the whole disk. A process that has
// the whole disk open counts as a user of each partition.
func TestOpeners(t *testing.T) {
	h := nodetest.New(t)
	const vdb = "sys/devices/pci0000:00/0000:10:00.0/block/vdb/"
	nodetest.Write(t, h.Root, map[string]string{
		"sys/class/block/vdb":   "-> ../../" + vdb[len("sys/"):],
		"sys/class/block/vdb1":  "-> ../../" + vdb[len("sys/"):] + "vdb1",
		vdb + "vdb1/partition":  "1\n",
		vdb + "vdb1/dev":        "254:17\n",
		vdb + "vdb1/size":       "2048\n",
		vdb + "vdb1/ro":         "0\n",
		vdb + "vdb1/stat":       "1 2 3 4 5 6 7 8 9 10 11\n",
		"run/udev/data/b254:17": "S:disk/by-diskseq/1016-part1\nI:1\n",
	})
	for pid, minor := range map[string]uint32{"7": 17, "8": 16, "9": 32} {
		fd := filepath.Join("proc", pid, "fd/")
		nodetest.Write(t, h.Root, map[string]string{fd + "/": "", "proc/" + pid + "/comm": "qemu-system-x86\n", "proc/" + pid + "/fdinfo/3": "flags:\t02\n"})
		if err := unix.Mknod(filepath.Join(h.Root, fd, "3"), unix.S_IFBLK|0o600, int(unix.Mkdev(254, minor))); err != nil {
			t.Fatal(err)
		}
	}
	h.Partitions = func() bool { return true }
	for _, name := range []string{"vdb", "vdb1"} {
		f, err := h.Look(name)
		if err != nil {
			t.Fatal(err)
		}
		users, err := openers(h, &f)
		var pids []int
		for _, u := range users {
			if pids = append(pids, u.PID); !u.Writes || !u.Machine {
				t.Errorf("%s: %+v", name, u)
			}
		}
		if slices.Sort(pids); err != nil || !slices.Equal(pids, []int{7, 8}) {
			t.Errorf("%s is used by %v, %v", name, pids, err)
		}
	}
}
