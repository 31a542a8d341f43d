package inventory

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// The function `parted` returns the node with an additional data disk that has two partitions. Each partition of the
// additional disk has a filesystem.
func parted() tree {
	const vdc = "sys/devices/pci0000:00/0000:20:00.0/virtio/block/vdc/"
	all := node.with(block("vdc", 32, 13, "PARTED")).with(tree{"sys/class/block/vdc": "-> ../../devices/pci0000:00/0000:20:00.0/virtio/block/vdc"})
	for name, minor := range map[string]string{"vdc1": "33", "vdc2": "34"} {
		number := name[3:]
		all = all.with(tree{
			"sys/class/block/" + name:       "-> ../../devices/pci0000:00/0000:20:00.0/virtio/block/vdc/" + name,
			vdc + name + "/partition":       number + "\n",
			vdc + name + "/dev":             "254:" + minor + "\n",
			vdc + name + "/size":            "2048\n",
			vdc + name + "/ro":              "0\n",
			vdc + name + "/stat":            "1 2 3 4 5 6 7 8 9 10 11\n",
			"run/udev/data/b254:" + minor:   "S:disk/by-diskseq/13-part" + number + "\nS:disk/by-partuuid/ab12-0" + number + "\nI:1\nE:ID_FS_USAGE=filesystem\nE:ID_FS_TYPE=xfs\nE:ID_FS_UUID=" + uuid[:35] + number + "\n",
			"dev/" + name:                   "",
			"sys/block/vdc/" + name + "/x/": "",
		})
	}
	for name, at := range map[string]string{"vda1": vda, "vda2": vda, "vda15": vda} {
		all = all.with(tree{"sys/class/block/" + name: "-> ../../" + strings.TrimPrefix(at, "sys/") + name, at + name + "/size": "1\n", at + name + "/ro": "0\n", at + name + "/stat": "1 2 3 4 5 6 7 8 9 10 11\n"})
	}
	return all.with(tree{"sys/block/vdc/vdc1/x/": "-", "sys/block/vdc/vdc2/x/": "-"})
}

// The function `mapped` returns the sysfs tree of a device-mapper device that is built on another device.
func mapped(number int, slave, below string) tree {
	name := fmt.Sprintf("dm-%d", number)
	dir := "sys/devices/virtual/block/" + name + "/"
	target := "../../" + below
	if name, part, ok := strings.Cut(below, "/"); ok {
		target = "../../../../pci0000:00/0000:20:00.0/virtio/block/" + name + "/" + part
	}
	all := tree{"sys/block/" + name: "-> ../devices/virtual/block/" + name, dir + slave: "-> " + target, strings.TrimPrefix(filepath.Join("/", dir, "slaves", target, "holders", name), "/"): ""}
	for path, content := range block(name, 100+number, 100+number, "") {
		if _, file, ok := strings.Cut(path, "/block/"+name+"/"); ok && !strings.HasPrefix(path, "run/") {
			all[dir+file] = content
		}
	}
	all[dir+"dm/name"] = "vg-" + name + "\n"
	return all
}

// TestPartitions checks that a partition has its own facts and some facts of its whole disk.
func TestPartitions(t *testing.T) {
	for name, tc := range map[string]struct {
		changes                       tree
		system, claim, holders, loops string
		mounts                        int
	}{
		"free":                      {},
		"mounted":                   {changes: tree{table: "27 1 254:33 / /srv rw - xfs /dev/vdc1 rw\n"}, mounts: 1},
		"the other is mounted":      {changes: tree{table: "27 1 254:34 / /srv rw - xfs /dev/vdc2 rw\n"}},
		"the other is the system's": {changes: tree{table: "27 1 254:34 / /var rw - xfs /dev/vdc2 rw\n"}, system: "/var"},
		"the whole disk is mounted": {changes: tree{table: "27 1 254:32 / /srv rw - xfs /dev/vdc rw\n"}, holders: "vdc"},
		"claimed":                   {changes: tree{fstab: "/dev/vdc1 /srv xfs defaults 0 0\n"}, claim: "/etc/fstab:1"},
		"the other is claimed":      {changes: tree{fstab: "/dev/vdc2 /srv xfs defaults 0 0\n"}, claim: "/etc/fstab:1"},
		"the other's filesystem is": {changes: tree{fstab: "UUID=" + uuid[:35] + "2 /srv xfs defaults 0 0\n"}, claim: "/etc/fstab:1"},
		"the other's UUID is":       {changes: tree{fstab: "PARTUUID=AB12-02 /srv xfs defaults 0 0\n"}, claim: "/etc/fstab:1"},
		"the other's link is":       {changes: tree{fstab: "/dev/disk/by-uuid/" + uuid[:35] + "2 /srv xfs defaults 0 0\n"}, claim: "/etc/fstab:1"},
		"the other's number is":     {changes: tree{fstab: "/dev/block/254:34 /srv xfs defaults 0 0\n"}, claim: "/etc/fstab:1"},
		"the whole disk is claimed": {changes: tree{fstab: "/dev/vdc /srv xfs defaults 0 0\n"}, claim: "/etc/fstab:1"},
		"below a loop device":       {changes: loop("loop0", "/x/dev/vdc1"), loops: "loop0"},
		"the other is, too":         {changes: loop("loop0", "/x/dev/vdc2")},
		"the whole disk is, too":    {changes: loop("loop1", "/x/dev/vdc"), loops: "loop1"},
		"another disk is claimed":   {changes: tree{fstab: "/dev/vdb1 /srv xfs defaults 0 0\n"}},
	} {
		h := parted().with(tc.changes).make(t)
		h.Partitions = func() bool { return true }
		by := scan(t, h)
		f := by["vdc1"]
		if f.Whole != "vdc" || f.System != tc.system || f.Claim != tc.claim || strings.Join(f.Holders, " ") != tc.holders || strings.Join(f.Loops, " ") != tc.loops || len(f.Mounts) != tc.mounts || f.Udev.FSUUID != uuid[:35]+"1" {
			t.Errorf("%s: %+v", name, f)
		}
		if by["vdc"].Claim != tc.claim {
			t.Errorf("%s: the whole disk is claimed by %q", name, by["vdc"].Claim)
		}
		if len(f.SameSerial) != 0 || len(by["vdc"].SameSerial) != 0 {
			t.Errorf("%s: a disk and its partitions count as disks with the same serial", name)
		}
	}
	// A partition of a block volume, or a logical volume on a block volume, must count as part of the block volume.
	h := parted().with(mapped(2, "slaves/vdc1", "vdc/vdc1")).with(mapped(3, "slaves/dm-2", "dm-2")).with(tree{"mnt/raw/virtio-PARTED": "-> /dev/hotmount/virtio-PARTED", "dev/hotmount/virtio-PARTED": "-> /dev/disk/by-diskseq/13"}).make(t)
	h.Partitions = func() bool { return true }
	vdc := scan(t, h)["vdc"]
	if err := h.Store.GiveOut(&vdc, "boot", "raw", "/mnt/raw/virtio-PARTED"); err != nil {
		t.Fatal(err)
	}
	if st := scan(t, h)["vdc1"].Standing; st.Given == nil || st.Link != "/mnt/raw/virtio-PARTED" {
		t.Errorf("a partition of a block volume: %+v", st)
	}
	if by := scan(t, h); by["dm-3"].Standing.Given == nil || by["dm-3"].Standing.Link != "/mnt/raw/virtio-PARTED" || by["dm-0"].Standing.Given != nil || by["vdb"].Standing.Given != nil {
		t.Errorf("a logical volume on a block volume: %+v", by["dm-3"].Standing)
	} else if got := fmt.Sprint(by["dm-3"].Below); got != "[{dm-2  false} {vdc PARTED false}]" {
		t.Errorf("below a logical volume: %s", got)
	}
	if err := os.Remove(filepath.Join(h.Root, "mnt/raw/virtio-PARTED")); err != nil {
		t.Fatal(err)
	}
	if st := scan(t, h)["vdc1"].Standing; st.Given == nil || st.Link != "" {
		t.Errorf("a partition of a former block volume: %+v", st)
	}
	// Somebody has used the whole disk, and made partitions afterwards.
	h = parted().make(t)
	h.Partitions = func() bool { return true }
	vdc = scan(t, h)["vdc"]
	if err := h.Store.KeepUse(&vdc, "boot", "mounted at /srv"); err != nil {
		t.Fatal(err)
	}
	if by := scan(t, h); by["vdc1"].Standing.Used == nil || by["vdc1"].Standing.Used.How != "mounted at /srv" || by["vdb"].Standing.Used != nil {
		t.Errorf("a partition of a disk that somebody has used: %+v", by["vdc1"].Standing)
	}
	h = parted().with(tree{table: "27 1 254:33 / /srv rw - xfs /dev/vdc1 rw\n"}).make(t)
	if f := scan(t, h)["vdc"]; strings.Join(f.Holders, " ") != "vdc1" {
		t.Errorf("the disk of a mounted partition: %+v", f)
	}
	h = parted().with(tree{fstab: "UUID=" + uuid[:35] + "2 /srv xfs defaults 0 0\n"}).make(t)
	if f := scan(t, h)["vdc"]; f.Claim != "/etc/fstab:1" {
		t.Errorf("the disk of a claimed partition: %+v", f)
	}
	h = parted().make(t)
	if by := scan(t, h); by["vdc1"].Whole != "" || len(by) != 3 {
		t.Errorf("no class has partitions: %v", by)
	}
}

// The function `loop` returns the sysfs tree of a loop device. The parameter `path` is the path of the backing file at the
// time when the loop device was set up.
func loop(name, path string) tree {
	dir := "sys/devices/virtual/block/" + name + "/"
	return tree{"sys/block/" + name: "-> ../devices/virtual/block/" + name, dir + "hidden": "1\n", dir + "loop/backing_file": path + "\n"}
}

// TestLoops checks that a look finds the loop devices on a disk. If the kernel does not report the device below a loop
// device, the backing file's path or the filesystem's UUID must identify the disk. The path of a backing file may name
// the disk, a partition, or a device on the disk.
func TestLoops(t *testing.T) {
	one := func(f disk.Facts, on *disk.Facts, h Host, l mounts.Loop) string {
		h.addLoops(&f, on, &common{loops: []mounts.Loop{l}, loopUUIDs: func() map[string]string { return nil }}, map[disk.Dev]string{on.Dev: on.Name})
		if f.BackingDevice {
			return "lies on a device"
		}
		return fmt.Sprint(f.Loops, f.LoopsUnsure)
	}
	vdb := disk.Facts{ID: disk.ID{Name: "vdb", Dev: disk.Dev{Major: 254, Minor: 16}}}
	h := node.make(t)
	asks := h
	asks.Asks = true
	for name, tc := range map[string]struct {
		f    disk.Facts
		h    Host
		loop mounts.Loop
		want string
	}{
		"by its number":               {vdb, h, mounts.Loop{Name: "loop1", Below: vdb.Dev, FromKernel: true}, "[loop1] false"},
		"by its path":                 {vdb, h, mounts.Loop{Name: "loop1", Below: vdb.Dev}, "[loop1] false"},
		"by its name":                 {vdb, h, mounts.Loop{Name: "loop1", File: "/vdb"}, "[loop1] true"},
		"elsewhere, of that name":     {vdb, h, mounts.Loop{Name: "loop1", File: "/vdb", FromKernel: true}, "[] false"},
		"may not be asked":            {vdb, asks, mounts.Loop{Name: "loop1", File: "/x", Denied: true}, "[loop1] true"},
		"may not be asked, and known": {vdb, asks, mounts.Loop{Name: "loop1", Denied: true, Below: vdb.Dev}, "[loop1] false"},
		"asked":                       {vdb, asks, mounts.Loop{Name: "loop1", File: "/x"}, "[] false"},
		"may not be asked, to others": {vdb, h, mounts.Loop{Name: "loop1", File: "/x", Denied: true}, "[] false"},
		"itself":                      {vdb, h, mounts.Loop{Name: "vdb", File: "/vdb", FromKernel: true}, "[] false"},
		"itself, on what is unknown":  {vdb, h, mounts.Loop{Name: "vdb", File: "/vdb"}, "lies on a device"},
		"itself, on a device":         {vdb, h, mounts.Loop{Name: "vdb", File: "/srv/ci/a", Below: disk.Dev{Major: 8}}, "lies on a device"},
		"one is known":                {disk.Facts{Loops: []string{"loop2"}, LoopsUnsure: true}, h, mounts.Loop{Name: "loop1", Below: vdb.Dev}, "[loop1 loop2] false"},
		"the other is known":          {disk.Facts{Loops: []string{"loop2"}}, h, mounts.Loop{Name: "loop1", File: "/vdb"}, "[loop2 loop1] false"},
	} {
		if got := one(tc.f, &vdb, tc.h, tc.loop); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	for path, want := range map[string]string{
		"/host/dev/vdb": "vdb", "/vda15": "vda", "/x/dev/dm-1p1": "vda", "/dev/vdb (deleted)": "vdb", "/images/vdb": "", "/dev/vdx": "", "/": "",
	} {
		for name, f := range scan(t, node.with(loop("loop7", path)).make(t)) {
			if got := strings.Join(f.Loops, " "); got != map[bool]string{true: "loop7"}[name == want] {
				t.Errorf("on %s: %s is below %q", path, name, got)
			}
		}
	}
	for id, want := range map[string]string{uuid: "loop7", strings.Repeat("0", 36): ""} {
		device := block("loop7", 7, 99, "", "ID_FS_USAGE=filesystem", "ID_FS_TYPE=xfs", "ID_FS_UUID="+id, "ID_FS_UUID_ENC="+id)
		device["sys/devices/virtual/block/loop7/loop/backing_file"] = "/\n"
		device["sys/block/loop7"] = "-> ../devices/pci0000:00/0000:07:00.0/virtio/block/loop7"
		device["sys/devices/pci0000:00/0000:07:00.0/virtio/block/loop7/loop/backing_file"] = "/\n"
		if got := strings.Join(scan(t, node.with(device).make(t))["vdb"].Loops, " "); got != want {
			t.Errorf("with the filesystem %s on a loop device: below %q", id, got)
		}
	}
}

// TestLoopsOnOneFile checks that a look finds a second loop device with the same backing file, so that hotmount does
// not use both devices.
func TestLoopsOnOneFile(t *testing.T) {
	own := mounts.Loop{Name: "loop1", File: "/srv/ci/a.img"}
	known := mounts.Loop{Name: "loop1", File: "/srv/ci/a.img", FromKernel: true, Device: 8, Inode: 12}
	for name, tc := range map[string]struct {
		own, other mounts.Loop
		want       string
	}{
		"one path":                  {own, mounts.Loop{Name: "loop2", File: "/srv/ci/a.img"}, "[loop2] false"},
		"another path":              {own, mounts.Loop{Name: "loop2", File: "/srv/ci/b.img"}, "[] false"},
		"no path":                   {mounts.Loop{Name: "loop1"}, mounts.Loop{Name: "loop2"}, "[] false"},
		"one inode":                 {known, mounts.Loop{Name: "loop2", File: "/x", FromKernel: true, Device: 8, Inode: 12}, "[loop2] false"},
		"another inode":             {known, mounts.Loop{Name: "loop2", File: "/srv/ci/a.img", FromKernel: true, Device: 8, Inode: 13}, "[] false"},
		"that inode on another":     {known, mounts.Loop{Name: "loop2", File: "/srv/ci/a.img", FromKernel: true, Device: 9, Inode: 12}, "[] false"},
		"the other may not be read": {known, mounts.Loop{Name: "loop2", File: "/srv/ci/a.img"}, "[loop2] false"},
	} {
		on := disk.Facts{ID: disk.ID{Name: "loop1", Dev: disk.Dev{Major: 7, Minor: 1}}}
		node.make(t).addLoops(&on, &on, &common{loops: []mounts.Loop{tc.own, tc.other}}, map[disk.Dev]string{on.Dev: on.Name})
		if got := fmt.Sprint(on.Loops, on.LoopsUnsure); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
