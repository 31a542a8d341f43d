package mounts

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const partitions = `major minor  #blocks  name

 254        0    3145728 vda
 254       16    5242880 vdb
   7        0    5242880 loop0
 259        0    1048576 loop0p1
   7       10        100 loop10
   7        2        100 loop2
   7        5          1 loop5
`

func TestLoops(t *testing.T) {
	root := files(t, map[string]string{
		"proc/1/mountinfo":                   debian,
		"proc/partitions":                    partitions,
		"sys/block/loop0/loop/backing_file":  "/host/dev/vdb\n",
		"sys/block/loop2/loop/backing_file":  "/mnt/y/an image \n",
		"sys/block/loop5/loop/backing_file":  "/vdc (deleted)\n",
		"sys/block/loop10/loop/backing_file": "/mnt/x/hangs\n",
		"sys/block/vdb/loop/backing_file":    "/no/loop/device\n",
		"mnt/y/an image ":                    "no device",
		"mnt/x/hangs":                        "is not asked",
	})
	tree, err := Tree(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Loops(root, tree)
	if err != nil {
		t.Fatal(err)
	}
	want := []Loop{{Name: "loop0", File: "/host/dev/vdb"}, {Name: "loop10", File: "/mnt/x/hangs"}, {Name: "loop2", File: "/mnt/y/an image "}, {Name: "loop5", File: "/vdc (deleted)"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for i, name := range []string{"vdb", "", "", "vdc"} {
		for _, n := range []string{"vdb", "vdc", "hangs", "an image "} {
			if got[i].Called(n) != (n == name) {
				t.Errorf("%s is called %s: %v", got[i].File, n, n != name)
			}
		}
	}
	if none, err := Loops(files(t, nil), tree); err != nil || none != nil {
		t.Errorf("without a block device: %v, %v", none, err)
	}
	// A path that can not be told.
	if got, err = Loops(files(t, map[string]string{"proc/partitions": partitions, "sys/block/loop0/loop/backing_file/x": ""}), tree); err != nil || len(got) != 1 || got[0].Known {
		t.Errorf("%+v, %v", got, err)
	}
}
