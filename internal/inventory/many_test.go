package inventory

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The function `many` returns a node with many loop devices, which count as disks. The filesystem of each loop device is
// mounted in a class directory.
func many(tb testing.TB, count int) (h Host, names []string) {
	tb.Helper()
	all, table := tree{}, "27 1 254:0 / / rw - ext4 /dev/vda rw\n28 27 0:20 / /srv rw - tmpfs tmpfs rw\n"
	for i := range count {
		name, fs := fmt.Sprintf("loop%d", i), fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", i)
		dir := "sys/devices/virtual/block/" + name + "/"
		all = all.with(tree{
			"sys/block/" + name:                   "-> ../devices/virtual/block/" + name,
			dir + "dev":                           fmt.Sprintf("7:%d\n", i),
			dir + "diskseq":                       fmt.Sprintf("%d\n", 1000+i),
			dir + "size":                          "10485760\n",
			dir + "ro":                            "0\n",
			dir + "removable":                     "0\n",
			dir + "queue/rotational":              "0\n",
			dir + "queue/logical_block_size":      "512\n",
			dir + "queue/iostats":                 "1\n",
			dir + "stat":                          "1 2 3 4 5 6 7 8 0 10 11 12 13 14 15 16 17\n",
			dir + "holders/":                      "",
			dir + "loop/backing_file":             fmt.Sprintf("/srv/%d.img\n", i),
			fmt.Sprintf("run/udev/data/b7:%d", i): fmt.Sprintf("S:disk/by-diskseq/%d\nI:99\nE:ID_FS_USAGE=filesystem\nE:ID_FS_TYPE=xfs\nE:ID_FS_UUID=%s\nE:ID_FS_UUID_ENC=%s\n", 1000+i, fs, fs),
		})
		table += fmt.Sprintf("%d 27 7:%d / /mnt/disks/%s rw - xfs /dev/%s rw\n", 100+i, i, fs, name)
		names = append(names, name)
	}
	all["proc/1/mountinfo"] = table
	return all.with(tree{"proc/swaps": swapHead, "proc/cmdline": "\n", "proc/sys/kernel/random/boot_id": boot + "\n"}).make(tb), names
}

// BenchmarkLookOfMany measures one look at a node with many disks. The benchmark measures only the CPU time of this
// process, so other work on the machine does not matter.
func BenchmarkLookOfMany(b *testing.B) {
	for _, count := range []int{20, 200} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			h, names := many(b, count)
			h.Shared = new(Shared)
			before := used(b)
			for i := 0; b.Loop(); i++ {
				if _, err := h.Look(names[i%count]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(used(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// The function `used` returns the CPU time that this process has used.
func used(tb testing.TB) time.Duration {
	tb.Helper()
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
