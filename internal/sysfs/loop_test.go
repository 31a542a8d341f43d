package sysfs

import (
	"errors"
	"testing"

	"hotmount/internal/disk"
)

const loop7 = "sys/devices/virtual/block/loop7/"

// The variable `looped` is the sysfs tree of a loop device with a backing file and a partition, as in Linux 6.18.
var looped = tree{
	"sys/block/loop7":                   "-> ../devices/virtual/block/loop7",
	"sys/class/block/loop7":             "-> ../../devices/virtual/block/loop7",
	"sys/class/block/loop7p1":           "-> ../../devices/virtual/block/loop7/loop7p1",
	loop7 + "dev":                       "7:7\n",
	loop7 + "diskseq":                   "9\n",
	loop7 + "size":                      "2097152\n",
	loop7 + "ro":                        "0\n",
	loop7 + "removable":                 "0\n",
	loop7 + "queue/rotational":          "0\n",
	loop7 + "queue/logical_block_size":  "512\n",
	loop7 + "queue/iostats":             "1\n",
	loop7 + "stat":                      "1 2 3 4 5 6 7 8 0 10 11 12 13 14 15 16 17\n",
	loop7 + "holders/":                  "",
	loop7 + "loop/backing_file":         "/srv/ci/a\nb.img\n",
	loop7 + "loop7p1/partition":         "1\n",
	loop7 + "loop7p1/dev":               "259:0\n",
	loop7 + "loop7p1/size":              "2048\n",
	loop7 + "loop7p1/ro":                "0\n",
	loop7 + "loop7p1/stat":              "1 2 3 4 5 6 7 8 9 10 11\n",
	loop7 + "loop7p1/holders/":          "",
	"run/udev/data/b7:7":                "S:disk/by-diskseq/9\nI:99\n",
	"run/udev/data/b259:0":              "S:disk/by-diskseq/9-part1\nI:99\n",
	"sys/block/loop8":                   "-> ../devices/virtual/block/loop8",
	"sys/devices/virtual/block/loop8/x": "",
}

// TestLoopDevice checks that Disk returns the path of the backing file for a loop device and for its partition. Disk
// must remove only the newline that the kernel adds to the path.
func TestLoopDevice(t *testing.T) {
	fs := wanting(looped.make(t))
	for _, name := range []string{"loop7", "loop7p1"} {
		f, err := fs.Disk(name)
		if err != nil {
			t.Fatal(err)
		}
		if f.Transport != "loop" || f.BackingFile != "/srv/ci/a\nb.img" || f.Serial != "" || f.Slot != "" || !f.Udev.Initialized || f.DiskSeq() != 9 {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestLoopDetached checks that a loop device without a file does not count as a disk. A loop device whose file is
// detached while Disk reads the facts must not count as a disk either.
func TestLoopDetached(t *testing.T) {
	for what, changes := range map[string]tree{
		"without a file":        {loop7 + "loop/backing_file": "-"},
		"its file is gone just": {loop7 + "loop/backing_file": "-", loop7 + "loop/": ""},
	} {
		fs := wanting(looped.with(changes).make(t))
		for _, name := range []string{"loop7", "loop7p1"} {
			if _, err := fs.Disk(name); !errors.Is(err, disk.ErrGone) {
				t.Errorf("%s: %s: %v", what, name, err)
			}
		}
	}
}
