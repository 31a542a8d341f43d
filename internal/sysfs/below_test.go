package sysfs

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnderlying uses the links that Linux 6.1 leaves when the disk below a logical volume is pulled.
func TestUnderlying(t *testing.T) {
	const (
		pci     = "sys/devices/pci0000:00/0000:00:10.0/virtio4/block/"
		virtual = "sys/devices/virtual/block/"
	)
	// on(name, below...) returns the sysfs tree of a device that is built on other devices. The parameters that follow
	// the name are the directories of the other devices.
	on := func(name string, below ...string) tree {
		made := tree{"sys/block/" + name: "-> ../../" + virtual + name, virtual + name + "/dm/name": name + "\n"}
		for _, dir := range below {
			made[virtual+name+"/slaves/"+filepath.Base(dir)] = "-> ../../../../../../" + dir
			made[dir+"/holders/"+name] = ""
			whole := strings.TrimSuffix(strings.TrimSuffix(dir, "/vdb1"), "/nvme0n1p2")
			made["sys/block/"+filepath.Base(whole)] = "-> ../../" + whole
		}
		return made
	}
	all := func(trees ...tree) tree {
		made := tree{}
		for _, t := range trees {
			maps.Copy(made, t)
		}
		return made
	}
	// without(t, dir) returns a copy of the tree t without the directory dir. The kernel removes the directory of a
	// detached disk.
	without := func(t tree, dir string) tree {
		t = maps.Clone(t)
		maps.DeleteFunc(t, func(path, _ string) bool { return strings.HasPrefix(path, dir+"/") })
		return t
	}
	level := func(level string) tree { return tree{virtual + "dm-0/md/level": level + "\n"} }
	disks := func(n int) tree { return tree{virtual + "dm-0/md/raid_disks": fmt.Sprintln(n)} }
	two := on("dm-0", pci+"vdb", pci+"vdc")
	three := on("dm-0", pci+"vdb", pci+"vdc", pci+"vdd")
	striped := all(on("dm-0", virtual+"dm-1", virtual+"dm-2"), on("dm-1", pci+"vdb"), on("dm-2", pci+"vdc"),
		tree{virtual + "dm-1/dm/name": "vg-lv_rimage_0\n", virtual + "dm-2/dm/name": "vg-lv_rimage_1\n"})
	crypt := all(on("dm-0", virtual+"dm-1"), on("dm-1", pci+"vdb/vdb1"))
	mirror := all(on("dm-0", virtual+"dm-1", virtual+"dm-2", virtual+"dm-3", virtual+"dm-4"), on("dm-1", pci+"vdb"), on("dm-2", pci+"vdb"), on("dm-3", pci+"vdc"), on("dm-4", pci+"vdc"),
		tree{virtual + "dm-1/dm/name": "vg-lv_rmeta_0\n", virtual + "dm-2/dm/name": "vg-lv_rimage_0\n", virtual + "dm-3/dm/name": "vg-lv_rmeta_1\n", virtual + "dm-4/dm/name": "vg-lv_rimage_1\n"})
	for name, c := range map[string]struct {
		tree tree
		want string
	}{
		"a disk":                             {tree{"sys/block/dm-0": "-> ../../" + virtual + "dm-0", virtual + "dm-0/size": "1\n"}, "[]"},
		"one disk":                           {on("dm-0", pci+"vdb"), "[{vdb  false}]"},
		"one disk, pulled":                   {without(on("dm-0", pci+"vdb"), pci+"vdb"), "[{vdb  true}]"},
		"one disk, another in its slot":      {all(without(on("dm-0", pci+"vdb"), pci+"vdb"), tree{pci + "vdb/holders/": ""}), "[{vdb  true}]"},
		"one disk, another with a volume":    {all(without(on("dm-0", pci+"vdb"), pci+"vdb"), tree{pci + "vdb/holders/dm-9": ""}), "[{vdb  true}]"},
		"an encrypted volume":                {crypt, "[{dm-1  false} {vdb  false}]"},
		"an encrypted volume, disk pulled":   {without(crypt, pci+"vdb"), "[{dm-1  false} {vdb  true}]"},
		"an NVMe partition":                  {on("dm-0", "sys/devices/x/nvme/nvme0/nvme0n1/nvme0n1p2"), "[{nvme0n1  false}]"},
		"an NVMe disk":                       {on("dm-0", "sys/devices/x/nvme/nvme0/nvme0n1"), "[{nvme0n1  false}]"},
		"two disks":                          {two, "[{vdb  false} {vdc  false}]"},
		"two disks, one pulled":              {without(two, pci+"vdc"), "[{vdb  false} {vdc  true}]"},
		"two paths, one pulled":              {all(without(two, pci+"vdc"), tree{virtual + "dm-0/dm/uuid": "mpath-x\n"}), "[{vdb  false}]"},
		"two paths, both pulled":             {all(without(without(two, pci+"vdc"), pci+"vdb"), tree{virtual + "dm-0/dm/uuid": "mpath-x\n"}), "[{vdb  true} {vdc  true}]"},
		"two paths, both removed":            {tree{"sys/block/dm-0": "-> ../../" + virtual + "dm-0", virtual + "dm-0/slaves/": "", virtual + "dm-0/dm/uuid": "mpath-x\n"}, "[{all paths  true}]"},
		"md, a mirror, one pulled":           {all(without(two, pci+"vdc"), level("raid1")), "[{vdb  false}]"},
		"md, striped, one pulled":            {all(without(two, pci+"vdc"), level("raid0")), "[{vdb  false} {vdc  true}]"},
		"md, linear, one pulled":             {all(without(two, pci+"vdc"), level("linear")), "[{vdb  false} {vdc  true}]"},
		"md, raid5, two of three pulled":     {all(without(without(three, pci+"vdc"), pci+"vdd"), level("raid5")), "[{vdb  false} {vdc  true} {vdd  true}]"},
		"md, raid5, one of three pulled":     {all(without(three, pci+"vdc"), level("raid5")), "[{vdb  false} {vdd  false}]"},
		"md, raid6, two of three pulled":     {all(without(without(three, pci+"vdc"), pci+"vdd"), level("raid6")), "[{vdb  false}]"},
		"md, raid10, one of two pulled":      {all(without(two, pci+"vdc"), level("raid10")), "[{vdb  false}]"},
		"md, raid10, two of three pulled":    {all(without(without(three, pci+"vdc"), pci+"vdd"), level("raid10")), "[{vdb  false} {vdc  true} {vdd  true}]"},
		"md, raid4, two of three pulled":     {all(without(without(three, pci+"vdc"), pci+"vdd"), level("raid4")), "[{vdb  false} {vdc  true} {vdd  true}]"},
		"md, raid5, one removed":             {all(three, level("raid5"), disks(4)), "[{vdb  false} {vdc  false} {vdd  false}]"},
		"md, raid5, one removed, one pulled": {all(without(three, pci+"vdd"), level("raid5"), disks(4)), "[{vdb  false} {vdc  false} {vdd  true}]"},
		"md, raid1, one removed, one pulled": {all(without(two, pci+"vdc"), level("raid1"), disks(3)), "[{vdb  false}]"},
		"md, raid6, one removed, one pulled": {all(without(three, pci+"vdd"), level("raid6"), disks(4)), "[{vdb  false} {vdc  false}]"},
		"LVM raid0, one pulled":              {without(striped, pci+"vdc"), "[{dm-1  false} {dm-2  false} {vdb  false} {vdc  true}]"},
		"a mirror of LVM":                    {mirror, "[{dm-1  false} {dm-2  false} {dm-3  false} {dm-4  false} {vdb  false} {vdc  false}]"},
		"a mirror of LVM, one pulled":        {without(mirror, pci+"vdc"), "[{dm-1  false} {dm-2  false} {dm-3  false} {dm-4  false} {vdb  false}]"},
		"a mirror of LVM, both pulled":       {without(without(mirror, pci+"vdc"), pci+"vdb"), "[{dm-1  false} {dm-2  false} {dm-3  false} {dm-4  false} {vdb  true} {vdc  true}]"},
	} {
		got, err := c.tree.make(t).Underlying("dm-0")
		if err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v (%v), want %s", name, got, err, c.want)
		}
	}
	if got, err := without(crypt, pci+"vdb").make(t).Below("dm-0"); err != nil || fmt.Sprint(got) != "[dm-1]" {
		t.Errorf("attached devices below: %v, %v", got, err)
	}
	if _, err := on("dm-0", virtual+"dm-0").make(t).Underlying("dm-0"); err == nil {
		t.Error("a device below itself is not an error")
	}
}
