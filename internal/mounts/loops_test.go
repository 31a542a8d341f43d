package mounts

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLoops(t *testing.T) {
	root := files(t, map[string]string{
		"proc/1/mountinfo": debian,
		"sys/devices/virtual/block/loop0/loop/backing_file":  "/host/dev/vdb\n",
		"sys/devices/virtual/block/loop2/loop/backing_file":  "/mnt/y/an image \n",
		"sys/devices/virtual/block/loop5/loop/backing_file":  "/vdc (deleted)\n",
		"sys/devices/virtual/block/loop10/loop/backing_file": "/mnt/x/hangs\n",
		"sys/devices/virtual/block/loop1/size":               "0\n",
		"sys/devices/virtual/block/vdb/loop/backing_file":    "/no/loop/device\n",
		"mnt/y/an image ": "no device",
		"mnt/x/hangs":     "is not asked",
	})
	tree, err := Tree(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Loops(root, ByPath(tree))
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
	if none, err := Loops(files(t, nil), ByPath(tree)); err != nil || none != nil {
		t.Errorf("without a block device: %v, %v", none, err)
	}
	// For this loop device, the path of the backing file is unknown.
	if got, err = Loops(files(t, map[string]string{"sys/devices/virtual/block/loop0/loop/backing_file/x": ""}), ByPath(tree)); err != nil || len(got) != 1 || got[0].FromKernel {
		t.Errorf("%+v, %v", got, err)
	}
}
