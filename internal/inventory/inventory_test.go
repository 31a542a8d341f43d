package inventory

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
	"hotmount/internal/store"
)

const (
	boot     = "6b5c3a0e-7f1d-4c7a-9a56-0d6f2f1b7c11"
	uuid     = "5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	swapHead = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"

	table   = "proc/1/mountinfo"
	swaps   = "proc/swaps"
	cmdline = "proc/cmdline"
	fstab   = "etc/fstab"
)

// The type `tree` maps paths of files to the content of the files. The content "-> X" makes a symbolic link to X. A path
// with a slash at its end makes a directory.
type tree map[string]string

// with(changes) returns a copy of the tree with the changes. A path whose content is changed to "-" is removed.
func (t tree) with(changes tree) tree {
	all := maps.Clone(t)
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_, content string) bool { return content == "-" })
	return all
}

// make(tb) creates the files, and returns a host with the files as its root and with an initialised state directory.
func (t tree) make(tb testing.TB) Host {
	tb.Helper()
	dir := tb.TempDir()
	for path, content := range t {
		path, parent := filepath.Join(dir, "root", path), filepath.Dir(filepath.Join(dir, "root", path+"x"))
		err := os.MkdirAll(parent, 0o755)
		if target, link := strings.CutPrefix(content, "-> "); err == nil && link {
			err = os.Symlink(target, path)
		} else if err == nil && path != parent {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	h := Host{Root: filepath.Join(dir, "root"), Store: store.Store{State: filepath.Join(dir, "lib"), Runtime: filepath.Join(dir, "run")}}
	if err := errors.Join(os.Mkdir(h.Store.Runtime, 0o755), os.CopyFS(h.Store.State, os.DirFS(initialised))); err != nil {
		tb.Fatal(err)
	}
	return h
}

// The variable `initialised` is the path of a new state directory. Tests copy this directory instead of calling Init,
// because Init waits until all writes are on the disk.
var initialised string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "hotmount")
	if err == nil {
		initialised = filepath.Join(dir, "lib")
		err = os.Mkdir(filepath.Join(dir, "run"), 0o755)
	}
	if err == nil {
		_, err = store.Store{State: initialised, Runtime: filepath.Join(dir, "run")}.Init(nil)
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// The function `block` returns the files of sysfs and udev's database that describe one disk. The parameter `more` contains
// further udev properties of the disk.
func block(name string, minor, seq int, serial string, more ...string) tree {
	dir := "sys/devices/pci0000:00/0000:" + fmt.Sprintf("%02x", minor) + ":00.0/virtio/block/" + name + "/"
	entry := fmt.Sprintf("S:disk/by-diskseq/%d\nS:disk/by-id/virtio-%s\nI:3037919\nV:1\n", seq, serial)
	for _, m := range more {
		entry += "E:" + m + "\n"
	}
	return tree{
		"sys/block/" + name:              "-> ../" + strings.TrimSuffix(strings.TrimPrefix(dir, "sys/"), "/"),
		dir + "dev":                      fmt.Sprintf("254:%d\n", minor),
		dir + "diskseq":                  fmt.Sprintf("%d\n", seq),
		dir + "size":                     "10485760\n",
		dir + "ro":                       "0\n",
		dir + "removable":                "0\n",
		dir + "queue/rotational":         "1\n",
		dir + "queue/logical_block_size": "512\n",
		dir + "serial":                   serial,
		dir + "stat":                     "1 2 3 4 5 6 7 8 0 10 11 12 13 14 15 16 17\n",
		dir + "holders/":                 "",
		fmt.Sprintf("run/udev/data/b254:%d", minor): entry,
	}
}

const vda = "sys/devices/pci0000:00/0000:00:00.0/virtio/block/vda/"

// The tree node describes a worker with a data disk, and with a system disk that has three partitions. The system
// disk's second partition carries a plain and an encrypted logical volume of LVM.
var node = block("vda", 0, 1, "SYSTEM").with(block("vdb", 16, 12, "DATA", "ID_FS_USAGE=filesystem", "ID_FS_TYPE=xfs", "ID_FS_UUID="+uuid, "ID_FS_UUID_ENC="+uuid)).with(tree{
	vda + "vda1/partition":                            "1\n",
	vda + "vda1/dev":                                  "254:1\n",
	vda + "vda1/holders/":                             "",
	vda + "vda2/partition":                            "2\n",
	vda + "vda2/dev":                                  "254:2\n",
	vda + "vda2/holders/dm-0":                         "",
	vda + "vda15/partition":                           "15\n",
	vda + "vda15/dev":                                 "254:15\n",
	"sys/block/dm-0":                                  "-> ../devices/virtual/block/dm-0",
	"sys/devices/virtual/block/dm-0/dev":              "253:0\n",
	"sys/devices/virtual/block/dm-0/diskseq":          "2\n",
	"sys/devices/virtual/block/dm-0/holders/dm-1":     "",
	"sys/devices/virtual/block/dm-0/size":             "2048\n",
	"sys/devices/virtual/block/dm-0/hidden":           "1\n", // a scan leaves this device out
	"sys/block/dm-1":                                  "-> ../devices/virtual/block/dm-1",
	"sys/devices/virtual/block/dm-1/dev":              "253:1\n",
	"sys/devices/virtual/block/dm-1/hidden":           "1\n",
	"sys/devices/virtual/block/dm-1/dm-1p1/partition": "1\n",
	"sys/devices/virtual/block/dm-1/dm-1p1/dev":       "259:7\n",
	"dev/dm-0":                            "",
	"dev/dm-1":                            "",
	"dev/vdb":                             "",
	"dev/mapper/vg-root":                  "-> ../dm-0",
	"dev/disk/by-uuid/" + uuid:            "-> ../../vdb",
	table:                                 "27 1 0:2 / / rw - rootfs rootfs rw\n",
	swaps:                                 swapHead,
	cmdline:                               "BOOT_IMAGE=/vmlinuz root=UUID=x ro\n",
	fstab:                                 "# nothing\n",
	"proc/sys/kernel/random/boot_id":      boot + "\n",
	"etc/hotmount/config.yaml":            "",
	"usr/lib/systemd/system/tmp.mount":    "[Mount]\nWhat=tmpfs\n",
	"sys/devices/virtual/block/dm-0/stat": "1 2 3 4 5 6 7 8 9 10 11\n",
})

// The function `scan` returns a map from the names of all disks to their facts.
func scan(t *testing.T, h Host) map[string]disk.Facts {
	t.Helper()
	all, err := h.Scan()
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]disk.Facts{}
	for _, f := range all {
		by[f.Name] = f
	}
	if len(by) != len(all) {
		t.Errorf("%d disks, %d names", len(all), len(by))
	}
	return by
}

func TestSystem(t *testing.T) {
	type want map[string]string
	for _, test := range []struct {
		name  string
		lines string
		want  want
	}{
		{"nothing mounted", "", want{}},
		{"/ on a partition", "27 1 254:1 / / rw shared:1 - ext4 /dev/vda1 rw\n", want{"vda": "/"}},
		{"/boot", "27 1 254:1 / /boot rw - ext4 /dev/vda1 rw\n", want{"vda": "/boot"}},
		{"/boot/efi", "27 1 254:15 / /boot/efi rw - vfat /dev/vda15 rw\n", want{"vda": "/boot/efi"}},
		{"/usr", "27 1 254:1 / /usr rw - ext4 /dev/vda1 rw\n", want{"vda": "/usr"}},
		{"/var", "27 1 254:1 / /var rw - ext4 /dev/vda1 rw\n", want{"vda": "/var"}},
		{"/var on a whole disk", "27 1 254:16 / /var rw - xfs /dev/vdb rw\n", want{"vdb": "/var"}},
		{"a part of it at /var", "27 1 254:16 /sub /var rw - xfs /dev/vdb rw\n", want{"vdb": "/var"}},
		{"/ on a logical volume", "27 1 253:0 / / rw - ext4 /dev/mapper/vg-root rw\n", want{"vda": "/"}},
		{"/ on what is built on a logical volume", "27 1 253:1 / / rw - ext4 /dev/mapper/crypt rw\n", want{"vda": "/"}},
		{"/ on a partition of what is built on a disk", "27 1 259:7 / / rw - ext4 /dev/dm-1p1 rw\n", want{"vda": "/"}},
		{"two disks", "27 1 254:1 / / rw - ext4 /dev/vda1 rw\n28 27 254:16 / /var rw - xfs /dev/vdb rw\n", want{"vda": "/", "vdb": "/var"}},
		{"the device number counts, not the source", "27 1 254:16 / /usr rw - xfs /dev/root rw\n28 1 254:16 / /srv rw - xfs /dev/vda1 rw\n", want{"vdb": "/usr"}},

		{"btrfs, known by its source", "27 1 0:30 /@root / rw - btrfs /dev/vda1 rw\n", want{"vda": "/"}},
		{"btrfs on a logical volume, by udev's link", "27 1 0:30 /@root / rw - btrfs /dev/mapper/vg-root rw\n", want{"vda": "/"}},
		{"btrfs on a disk, by udev's link", "27 1 0:30 / /var rw - btrfs /dev/disk/by-uuid/" + uuid + " rw\n", want{"vdb": "/var"}},
		{"a source that is no device", "27 1 0:30 / / rw - overlay vda1 rw\n28 27 0:31 / /usr rw - nfs server:/dev/vda rw\n29 27 0:32 / /var rw - 9p /srv/vdb rw\n", want{}},

		{"other places", "27 1 254:1 / /home rw - ext4 /dev/vda1 rw\n28 1 254:2 / /var/lib rw - ext4 /dev/vda2 rw\n29 1 254:15 / /boot2 rw - vfat /dev/vda15 rw\n30 1 254:16 / /mnt/usr rw - xfs /dev/vdb rw\n", want{}},
		{"another driver's disk of that minor number", "27 1 8:16 / / rw - ext4 /dev/sdb rw\n28 1 8:1 / /usr rw - ext4 /dev/sda1 rw\n", want{}},
	} {
		by := scan(t, node.with(tree{table: test.lines}).make(t))
		got := want{}
		for name, f := range by {
			if f.System != "" {
				got[name] = f.System
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestMounts(t *testing.T) {
	by := scan(t, node.with(tree{table: `27 1 254:1 / / rw shared:1 - ext4 /dev/vda1 rw
40 27 254:16 / /mnt/disks/` + uuid + ` rw,noatime shared:50 - xfs /dev/vdb rw,attr2
41 27 0:40 / /tmp rw - tmpfs tmpfs rw
42 27 254:16 /sub/dir /srv/with\040space ro - xfs /dev/vdb rw,attr2
43 27 254:2 / /home rw - ext4 /dev/vda2 rw
`}).make(t))
	dev := disk.Dev{Major: 254, Minor: 16}
	want := []disk.MountPoint{
		{Dev: dev, Root: "/", Path: "/mnt/disks/" + uuid, Type: "xfs", Source: "/dev/vdb", Options: "rw,noatime", SuperOptions: "rw,attr2"},
		{Dev: dev, Root: "/sub/dir", Path: "/srv/with space", Type: "xfs", Source: "/dev/vdb", Options: "ro", SuperOptions: "rw,attr2"},
	}
	if diff := cmp.Diff(want, by["vdb"].Mounts); diff != "" {
		t.Errorf("vdb (-want +got):\n%s", diff)
	}
	// A mount of a partition is not a mount of the disk.
	if f := by["vda"]; len(f.Mounts) != 0 || f.System != "/" {
		t.Errorf("vda: mounts %v, system %q", f.Mounts, f.System)
	}
	// A btrfs mount has its own device number.
	f := scan(t, node.with(tree{table: "27 1 0:30 / /srv rw - btrfs /dev/vdb rw\n"}).make(t))["vdb"]
	if len(f.Mounts) != 1 || f.Mounts[0].Path != "/srv" {
		t.Errorf("btrfs: %v", f.Mounts)
	}
}

// TestFault checks that a look finds a filesystem that the kernel has made read-only, and an ext4 filesystem with
// errors.
func TestFault(t *testing.T) {
	for _, test := range []struct{ name, line, count, want string }{
		{"XFS", "rw - xfs /dev/vdb rw", "-", ""},
		{"read-only by the operator", "ro - xfs /dev/vdb ro", "-", ""},
		{"read-only by the kernel", "rw - ext4 /dev/vdb ro", "0\n", "the kernel has made the filesystem read-only"},
		{"ext4 in order", "rw - ext4 /dev/vdb rw,errors=remount-ro", "0\n", ""},
		{"ext4 of an old kernel", "rw - ext4 /dev/vdb rw", "-", ""},
		{"ext4 with errors", "rw - ext4 /dev/vdb rw,errors=remount-ro", "3\n", "the kernel has counted errors in the ext4 filesystem (errors_count 3), and may no longer write to the filesystem"},
	} {
		f := scan(t, node.with(tree{table: "40 27 254:16 / /mnt/disks/" + uuid + " " + test.line + "\n", "sys/fs/ext4/vdb/errors_count": test.count}).make(t))["vdb"]
		if f.Fault != test.want {
			t.Errorf("%s: %q, want %q", test.name, f.Fault, test.want)
		}
	}
}

// TestChanged checks that Changed finds a filesystem that has changed since the last look. Changed finds the change
// without a new look at the disk.
func TestChanged(t *testing.T) {
	at := "40 27 254:16 / /mnt/disks/" + uuid
	const count = "sys/fs/ext4/vdb/errors_count"
	whole := tree{table: at + " rw - ext4 /dev/vdb rw\n41 27 254:16 /sub /srv rw - ext4 /dev/vdb rw\n", count: "0\n"}
	for _, test := range []struct {
		name         string
		before, then tree
		changed      bool
	}{
		{"nothing", whole, tree{}, false},
		{"another disk's", whole, tree{table: whole[table] + "42 27 254:32 / /x rw - ext4 /dev/vdc ro\n"}, false},
		{"read-only", whole, tree{table: at + " rw - ext4 /dev/vdb ro\n41 27 254:16 /sub /srv rw - ext4 /dev/vdb ro\n"}, true},
		{"read-only, still", whole.with(tree{table: at + " rw - ext4 /dev/vdb ro\n"}), tree{}, false},
		{"read-only no more", whole.with(tree{table: at + " rw - ext4 /dev/vdb ro\n"}), whole, true},
		{"errors", whole, tree{count: "3\n"}, true},
		{"more errors", whole.with(tree{count: "3\n"}), tree{count: "4\n"}, true},
		{"unmounted", whole, tree{table: "27 1 254:1 / / rw - ext4 /dev/vda1 rw\n"}, true},
		{"unmounted in one place", whole, tree{table: at + " rw - ext4 /dev/vdb rw\n"}, true},
		{"covered", whole, tree{table: "40 27 254:16 / /mnt/disks/" + uuid + " rw - ext4 /dev/vdb rw\n50 40 0:44 / /mnt/disks/" + uuid + " rw - fuse.x x rw\n41 27 254:16 /sub /srv rw - ext4 /dev/vdb rw\n"}, true},
		{"its directory covered", whole, tree{table: "27 1 254:1 / / rw - ext4 /dev/vda1 rw\n" + whole[table] + "50 27 0:44 / /mnt/disks rw - nfs4 x:/ rw\n"}, true},
		{"in a directory that is a mount", whole.with(tree{table: "27 1 254:1 / / rw - ext4 /dev/vda1 rw\n39 27 254:2 / /mnt rw - ext4 /dev/vda2 rw\n40 39 254:16 / /mnt/disks/" + uuid + " rw - ext4 /dev/vdb rw\n"}), tree{count: "0\n"}, false},
		{"mounted twice in its place", whole.with(tree{table: "27 1 254:1 / / rw - ext4 /dev/vda1 rw\n" + at + " rw - ext4 /dev/vdb rw\n60 40 254:16 / /mnt/disks/" + uuid + " rw - ext4 /dev/vdb rw\n"}), tree{count: "0\n"}, false},
		{"another in its place", whole, tree{table: strings.ReplaceAll(whole[table], "254:16", "254:32")}, true},
	} {
		h := node.with(test.before).make(t)
		f := scan(t, h)["vdb"]
		for path, content := range test.then {
			if err := os.WriteFile(filepath.Join(h.Root, path), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		names, err := h.Changed([]disk.Facts{f})
		if err != nil || slices.Contains(names, "vdb") != test.changed {
			t.Errorf("%s: %v, %v", test.name, names, err)
		}
	}
}

// TestChangedOfATableThatWasRead checks that Changed uses the mount table that was read last. Even with an old mount
// table, Changed must find a new ext4 error.
func TestChangedOfATableThatWasRead(t *testing.T) {
	const count = "sys/fs/ext4/vdb/errors_count"
	h := node.with(tree{table: "40 27 254:16 / /mnt/disks/" + uuid + " rw - ext4 /dev/vdb rw\n", count: "0\n"}).make(t)
	h.Shared = new(Shared)
	f := scan(t, h)["vdb"]
	changed := func(want bool) {
		t.Helper()
		if names, err := h.Changed([]disk.Facts{f}); err != nil || slices.Contains(names, "vdb") != want {
			t.Errorf("%v, %v", names, err)
		}
	}
	write := func(path, content string) {
		if err := os.WriteFile(filepath.Join(h.Root, path), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(table, "27 1 254:1 / / rw - ext4 /dev/vda1 rw\n")
	changed(false)
	write(count, "1\n")
	changed(true)
	write(count, "0\n")
	if _, err := h.Mounts(); err != nil {
		t.Fatal(err)
	}
	changed(true)
}

// TestCovered checks that another mount over the disk's mount does not count as a mount of the disk. A FUSE mount must
// never count as a disk's mount, whatever source its user has chosen.
func TestCovered(t *testing.T) {
	at := "/mnt/disks/" + uuid
	f := scan(t, node.with(tree{table: "27 1 254:1 / / rw - ext4 /dev/vda1 rw\n40 27 254:16 / " + at + " rw - xfs /dev/vdb rw\n" +
		"41 40 0:50 / " + at + " rw - nfs4 server:/ rw\n42 27 0:51 / /srv rw - fuse.x /dev/vdb rw\n43 27 254:16 / /srv/b rw - xfs /dev/vdb rw\n"}).make(t))["vdb"]
	if len(f.Mounts) != 2 || !f.Mounts[0].Covered || f.Mounts[0].CoveredBy != at || f.Mounts[1].Covered {
		t.Errorf("%+v", f.Mounts)
	}
	// A mount on a directory above the disk's mount also covers the disk's mount. A second mount of the same filesystem
	// at the same path hides no files, so CoveredBy must be empty.
	for over, by := range map[string]string{"41 27 0:50 / /mnt rw - tmpfs none rw": "/mnt", "41 40 254:16 / " + at + " rw - xfs /dev/vdb rw": ""} {
		f := scan(t, node.with(tree{table: "27 1 254:1 / / rw - ext4 /dev/vda1 rw\n40 27 254:16 / " + at + " rw - xfs /dev/vdb rw\n" + over + "\n"}).make(t))["vdb"]
		if !f.Mounts[0].Covered || f.Mounts[0].CoveredBy != by {
			t.Errorf("%s: %+v", over, f.Mounts)
		}
	}
}

// TestMeasure checks that hotmount opens a filesystem only once for each mount, because open(2) may hang. If the path
// does not lead to the mount, or the disk has requests in flight, hotmount must not measure the filesystem.
func TestMeasure(t *testing.T) {
	const line = "40 27 254:16 / /mnt/disks/" + uuid + " rw - xfs /dev/vdb rw\n"
	const vdb = "sys/devices/pci0000:00/0000:10:00.0/virtio/block/vdb/"
	node := node.with(tree{vdb + "queue/iostats": "1\n"})
	busy := node.with(tree{vdb + "stat": "1 2 3 4 5 6 7 8 1 10 11 12 13 14 15 16 17\n"})
	fit := disk.Fit{Seq: 12, Size: 1 << 30, Geometry: disk.Geometry{Size: 2 << 30, Block: 4096}}
	fitOf := func(uuid string) *disk.Fit { other := fit; other.Geometry.UUID = uuid; return &other }
	for _, test := range []struct {
		name  string
		on    tree
		table string
		fit   *disk.Fit
		asked int
		want  uint64
	}{
		{"mounted", node, line, nil, 1, 1 << 30},
		{"not mounted", node, "", nil, 0, 0},
		{"mounted elsewhere", node, "40 27 254:16 / /srv/data rw - xfs /dev/vdb rw\n", nil, 0, 0},
		{"an ext4", node, strings.Replace(line, "xfs", "ext4", 1), nil, 0, 0},
		{"shut down", node, strings.Replace(line, "vdb rw", "vdb ro", 1), nil, 0, 0},
		{"covered", node, line + strings.Replace(strings.Replace(line, "40 27 254:16", "41 40 0:50", 1), "xfs", "nfs4", 1), nil, 0, 0},
		{"a request is under way", busy, line, nil, 0, 0},
		{"requests are not counted", node.with(tree{vdb + "queue/iostats": "0\n"}), line, nil, 0, 0},
		{"measured for another size of the disk", node, line, &fit, 1, 2 << 30},
		{"measured, and it is that", node, line, fitOf(uuid), 1, 2 << 30},
		{"measured, and it is that, and may not be asked now", busy, line, fitOf(uuid), 0, 2 << 30},
		{"measured, and may not be asked now, and another was made since", busy, line, fitOf(strings.Replace(uuid, "5", "6", 1)), 0, 0},
		{"measured, and another was made since", node, line, fitOf(strings.Replace(uuid, "5", "6", 1)), 1, 1 << 30},
	} {
		h := test.on.with(tree{table: test.table}).make(t)
		asked := 0
		h.Shared = new(Shared)
		h.Measure = func(path string, dev disk.Dev) (disk.Geometry, error) {
			asked++
			return disk.Geometry{Size: 1 << 30, Block: 4096, UUID: uuid}, nil
		}
		if test.fit != nil {
			if err := h.Store.SaveFit(*test.fit); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			f, err := h.Look("vdb")
			if err != nil {
				t.Fatal(err)
			}
			got := uint64(0)
			if f.Geometry != nil {
				got = f.Geometry.Size
			}
			if is := f.Geometry; test.asked > 0 && is.UUID != uuid || test.asked == 0 && is != nil && is.UUID != "" {
				t.Errorf("%s: %+v, measured %d times", test.name, is, test.asked)
			}
			if got != test.want || asked != test.asked {
				t.Errorf("%s: size %d after %d questions, want %d after %d", test.name, got, asked, test.want, test.asked)
			}
		}
	}
}

// TestMeasuresAnother checks that hotmount measures a filesystem once for each mount, even if the measured filesystem
// is not the expected one. After an unmount, hotmount must measure the filesystem of the next mount.
func TestMeasuresAnother(t *testing.T) {
	other := strings.Replace(uuid, "5", "6", 1)
	there := []disk.MountPoint{{Dev: disk.Dev{Major: 254, Minor: 16}, Root: "/", Path: "/mnt/disks/" + uuid, Type: "xfs"}}
	s, asked := new(Shared), 0
	for i, step := range []struct {
		mounts   []disk.MountPoint
		is, want string
		asked    int
	}{
		{there, other, other, 1},
		{there, uuid, other, 1},
		{nil, uuid, "", 1},
		{there, uuid, uuid, 2},
		{there, other, uuid, 2},
	} {
		g := s.geometry(&disk.Facts{ID: disk.ID{Seq: 7}, Mounts: step.mounts}, func(string, disk.Dev) (disk.Geometry, error) {
			asked++
			return disk.Geometry{Size: 1 << 30, UUID: step.is}, nil
		})
		got := ""
		if g != nil {
			got = g.UUID
		}
		if got != step.want || asked != step.asked {
			t.Errorf("step %d: %q after %d questions, want %q after %d", i, got, asked, step.want, step.asked)
		}
	}
}

func TestSwap(t *testing.T) {
	for _, test := range []struct {
		name, line string
		vda, vdb   bool
	}{
		{"none", "", false, false},
		{"a partition", "/dev/vda1 partition\t1048572\t0\t-2\n", true, false},
		{"a whole disk", "/dev/vdb partition\t1048572\t0\t-2\n", false, true},
		{"a whole disk, by a link", "/dev/disk/by-uuid/" + uuid + " partition\t1048572\t0\t-2\n", false, true},
		{"a logical volume", "/dev/dm-0 partition\t1048572\t0\t-2\n", true, false},
		{"a logical volume, by a link", "/dev/mapper/vg-root partition\t1048572\t0\t-2\n", true, false},
		{"on what is built on a logical volume", "/dev/dm-1 partition\t1048572\t0\t-2\n", true, false},
		{"one of two", "/dev/zram0 partition\t1\t0\t100\n/dev/vdb partition\t1\t0\t-2\n/swap file\t1\t0\t-3\n", false, true},
		{"a file", "/srv/vdb file\t1048572\t0\t-2\n", false, false},
		{"another disk", "/dev/vdbb partition\t1048572\t0\t-2\n/dev/vda16 partition\t1048572\t0\t-3\n", false, false},
	} {
		by := scan(t, node.with(tree{swaps: swapHead + test.line}).make(t))
		if by["vda"].Swap != test.vda || by["vdb"].Swap != test.vdb {
			t.Errorf("%s: vda %v, vdb %v", test.name, by["vda"].Swap, by["vdb"].Swap)
		}
	}
}

func TestClaim(t *testing.T) {
	for _, test := range []struct {
		name     string
		tree     tree
		vda, vdb string
	}{
		{"none", nil, "", ""},
		{"by UUID", tree{fstab: "# disks\nUUID=" + strings.ToUpper(uuid) + " /srv xfs defaults 0 0\n"}, "", "/etc/fstab:2"},
		{"by udev's link", tree{fstab: "/dev/disk/by-id/virtio-DATA /srv xfs defaults 0 0\n"}, "", "/etc/fstab:1"},
		{"a partition", tree{fstab: "/dev/vda1 / ext4 defaults 0 1\n"}, "/etc/fstab:1", ""},
		{"the first of several places", tree{fstab: "\n/dev/vdb /srv xfs\n/dev/vdb /srv2 xfs\n", "etc/systemd/system/srv.mount": "[Mount]\nWhat=/dev/vdb\n"}, "", "/etc/fstab:2"},
		{"a unit", tree{"etc/systemd/system/srv.mount": "[Mount]\nWhat=/dev/vdb\n"}, "", "/etc/systemd/system/srv.mount:2"},
		{"hotmount's own units are none", tree{"run/systemd/transient/srv.mount": "[Mount]\nWhat=/dev/vdb\n"}, "", ""},
	} {
		by := scan(t, node.with(test.tree).make(t))
		if by["vda"].Claim != test.vda || by["vdb"].Claim != test.vdb {
			t.Errorf("%s: vda %q, vdb %q", test.name, by["vda"].Claim, by["vdb"].Claim)
		}
	}
}

func TestUnseenClaim(t *testing.T) {
	odd := "etc/systemd/system/odd.mount"
	h := node.with(tree{fstab: "/dev/vda1 / ext4\n"}).make(t)
	if err := errors.Join(os.MkdirAll(filepath.Join(h.Root, filepath.Dir(odd)), 0o755), os.Symlink("/root/odd.mount", filepath.Join(h.Root, odd))); err != nil {
		t.Fatal(err)
	}
	by := scan(t, h)
	if vda, vdb := by["vda"], by["vdb"]; vda.Claim != "/etc/fstab:1" || vdb.Claim != "" || vdb.Unseen != "/"+odd {
		t.Errorf("vda %q, vdb %q, unseen %q", vda.Claim, vdb.Claim, vdb.Unseen)
	}
}

func TestFormattingOff(t *testing.T) {
	const hold = "etc/hotmount/hold"
	for _, test := range []struct {
		name string
		tree tree
		// The field `want` is a part of the reason why formatting is off, or empty if formatting is on.
		want string
	}{
		{"on", nil, ""},
		{"no directory for the hold file", tree{"etc/hotmount/config.yaml": "-"}, ""},
		{"hold file", tree{hold: ""}, "/etc/hotmount/hold exists"},
		{"hold file that says no", tree{hold: "no\n"}, "/etc/hotmount/hold exists"},
		{"hold directory", tree{hold + "/": ""}, "/etc/hotmount/hold exists"},
		{"hold link to nowhere", tree{hold: "-> nowhere"}, "/etc/hotmount/hold exists"},
		{"kernel command line", tree{cmdline: "ro hotmount.format=no quiet\n"}, "hotmount.format=no is on the kernel command line"},
		{"kernel command line that allows it", tree{cmdline: "ro hotmount.format=yes quiet\n"}, ""},
		{"kernel command line with another word", tree{cmdline: "ro xhotmount.format=no quiet\n"}, ""},
		{"a hold file that cannot be looked for", tree{"etc/hotmount": "", "etc/hotmount/config.yaml": "-"}, "not a directory"},
		{"a hold file behind a loop", tree{"etc/hotmount": "-> hotmount", "etc/hotmount/config.yaml": "-"}, "too many levels"},
	} {
		h := test.tree.host(t)
		for name, f := range scan(t, h) {
			if got := f.Standing.Formatting; (got != "") != (test.want != "") || !strings.Contains(got, test.want) {
				t.Errorf("%s: %s: %q, want %q", test.name, name, got, test.want)
			}
		}
		f, err := h.Look("vdb")
		if got := f.Standing.Formatting; err != nil || (got != "") != (test.want != "") {
			t.Errorf("%s: Look: %q, %v", test.name, got, err)
		}
	}
}

// The method `host` returns a host that has the files of the tree `node`, with the changes in t.
func (t tree) host(tb testing.TB) Host {
	tb.Helper()
	return node.with(t).make(tb)
}

// TestFormattingOffByTheStore checks that a lost state directory stops only formatting, whatever the other switches
// are.
func TestFormattingOffByTheStore(t *testing.T) {
	for _, changes := range []tree{nil, {"etc/hotmount/hold": ""}} {
		h := changes.host(t)
		if err := os.RemoveAll(h.Store.State); err != nil {
			t.Fatal(err)
		}
		by := scan(t, h)
		for _, name := range []string{"vda", "vdb"} {
			if by[name].Standing.Formatting == "" {
				t.Errorf("%v: %s can be formatted", changes, name)
			}
		}
		if by["vdb"].Udev.FSUUID != uuid {
			t.Errorf("%v: %+v", changes, by["vdb"].Udev)
		}
	}
}

func TestStanding(t *testing.T) {
	h := node.with(block("vdc", 32, 13, "NEW")).make(t)
	if err := os.RemoveAll(h.Store.State); err != nil {
		t.Fatal(err)
	}
	before := scan(t, h)
	vdb, vdc := before["vdb"], before["vdc"]
	if _, err := h.Store.Init([]disk.Identity{vdb.Identity(boot)}); err != nil {
		t.Fatal(err)
	}
	if err := h.Store.Accept(&vdc, boot, disk.Word{Reason: disk.ReasonPresent}); err != nil {
		t.Fatal(err)
	}
	verdict := disk.Verdict{Seq: 13, Size: vdc.Size, Writes: vdc.Writes, Content: disk.Content{Kind: disk.Blank, Proven: true}}
	if err := h.Store.SaveVerdict(verdict); err != nil {
		t.Fatal(err)
	}
	after := scan(t, h)
	if s := after["vdb"].Standing; s.Present == nil || s.Accepted != nil || s.Verdict != nil {
		t.Errorf("vdb: %+v", s)
	}
	if s := after["vdc"].Standing; s.Present != nil || s.Accepted == nil || s.Verdict == nil || cmp.Diff(verdict, *s.Verdict) != "" {
		t.Errorf("vdc: %+v", s)
	}
}

// TestScanWithoutWhoIsGone checks a scan during which a disk is detached. The scan must leave out that disk, and must
// return no error.
func TestScanWithoutWhoIsGone(t *testing.T) {
	h := node.with(block("vdc", 32, 13, "NEW")).make(t)
	names, err := h.Names()
	if diff := cmp.Diff([]string{"vda", "vdb", "vdc"}, names); err != nil || diff != "" {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	// sysfs still lists the name of the removed disk, but the link with this name leads nowhere.
	if err := os.RemoveAll(filepath.Join(h.Root, "sys/devices/pci0000:00/0000:20:00.0")); err != nil {
		t.Fatal(err)
	}
	by := scan(t, h)
	if _, found := by["vdc"]; found || len(by) != 2 {
		t.Errorf("got %v", by)
	}
	if _, err := h.Look("vdc"); !errors.Is(err, disk.ErrGone) || !strings.Contains(err.Error(), "vdc") {
		t.Errorf("Look: %v", err)
	}
	if _, err := h.Look("vdz"); !errors.Is(err, disk.ErrGone) {
		t.Errorf("Look at a disk that never existed: %v", err)
	}
}

func TestPeers(t *testing.T) {
	h := node.with(block("vdc", 32, 13, "DATA", "ID_FS_USAGE=filesystem", "ID_FS_TYPE=xfs", "ID_FS_UUID="+uuid)).
		with(block("vdd", 48, 14, "DATA")).with(block("vde", 64, 15, "")).with(block("vdf", 80, 16, "")).
		with(tree{table: "27 1 254:16 / /srv rw - xfs /dev/vdb rw\n"}).make(t)
	names := func(peers []disk.Peer) string {
		var all []string
		for _, p := range peers {
			all = append(all, p.Name)
		}
		return strings.Join(all, " ")
	}
	by := scan(t, h)
	for name, want := range map[string][2]string{
		"vda": {"", ""}, "vdb": {"vdc vdd", "vdc"}, "vdc": {"vdb vdd", "vdb"}, "vdd": {"vdb vdc", ""}, "vde": {"", ""}, "vdf": {"", ""},
	} {
		f := by[name]
		if got := [2]string{names(f.SameSerial), names(f.SameUUID)}; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if p := by["vdc"].SameUUID[0]; p.ID != by["vdb"].ID || p.Slot != "pci-0000:10:00.0" || p.UUID != uuid || p.Mounted != "/srv" {
		t.Errorf("the disk with the UUID of vdc is %+v", p)
	}
	// Look finds all facts except the disks with the same serial or UUID.
	f, err := h.Look("vdc")
	if err != nil || len(f.SameSerial)+len(f.SameUUID) != 0 {
		t.Errorf("Look: %v, %v, %v", f.SameSerial, f.SameUUID, err)
	}
	f.FindPeers(mapValues(by))
	if diff := cmp.Diff(by["vdc"].SameUUID, f.SameUUID); diff != "" {
		t.Errorf("Look and Scan differ (-scan +look):\n%s", diff)
	}
}

func mapValues(by map[string]disk.Facts) []*disk.Facts {
	var all []*disk.Facts
	for _, f := range by {
		all = append(all, &f)
	}
	return all
}

// TestUnreadable checks that a disk with unreadable facts does not count as gone, because hotmount unmounts a disk that
// is gone.
func TestUnreadable(t *testing.T) {
	const dir = "sys/devices/pci0000:00/0000:10:00.0/virtio/block/vdb/"
	for name, changes := range map[string]tree{
		"mount table":        {table: "-"},
		"mount table's form": {table: "nonsense\n"},
		"swap":               {swaps: "nonsense\n"},
		"claims":             {fstab: "-> fstab"},
		"command line":       {cmdline: "-"},
		"boot id":            {"proc/sys/kernel/random/boot_id": "-"},
		"boot id's form":     {"proc/sys/kernel/random/boot_id": "x\n"},
		"sequence number":    {dir + "diskseq": "x\n"},
		"size":               {dir + "size": "-"},
		"partition":          {vda + "vda1/dev": "x\n"},
	} {
		h := changes.host(t)
		if all, err := h.Scan(); err == nil || errors.Is(err, disk.ErrGone) {
			t.Errorf("%s: Scan: %d disks, %v", name, len(all), err)
		}
		look := "vdb"
		if name == "partition" {
			look = "vda"
		}
		if _, err := h.Look(look); err == nil || errors.Is(err, disk.ErrGone) {
			t.Errorf("%s: Look: %v", name, err)
		}
	}
	if _, err := (Host{Root: t.TempDir()}).Scan(); err == nil {
		t.Error("a missing /sys/block is not an error")
	}
	h := tree(nil).host(t)
	for _, name := range []string{"", ".", "..", "../block/vdb", "vdb/../vdb"} {
		if _, err := h.Look(name); err == nil || errors.Is(err, disk.ErrGone) {
			t.Errorf("Look at %q: %v", name, err)
		}
	}
}

func TestBoot(t *testing.T) {
	if got, err := tree(nil).host(t).Boot(); got != boot || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestLookAllocates limits the allocations of a look, because every event of a disk causes a look. A look made 517
// allocations when this test was written.
func TestLookAllocates(t *testing.T) {
	h := node.make(t)
	n := testing.AllocsPerRun(20, func() {
		if _, err := h.Look("vdb"); err != nil {
			t.Fatal(err)
		}
	})
	if n > 560 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLook(b *testing.B) {
	h := node.make(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Look("vdb"); err != nil {
			b.Fatal(err)
		}
	}
}

// TestExpect checks that the next look uses a new sighting of a filesystem even if hotmount cannot record the sighting.
// The next successful call of Remember must record the sighting.
func TestExpect(t *testing.T) {
	h := node.make(t)
	h.Shared = new(Shared)
	if _, err := h.Store.Init(nil); err != nil {
		t.Fatal(err)
	}
	before, err := h.Look("vdb")
	if err != nil {
		t.Fatal(err)
	}
	seen := disk.Sighting{Identity: before.Identity(""), UUID: "aaaaaaaa-0000-4000-8000-00000000000a", Mounted: time.Unix(1700000000, 0)}
	h.Expect(seen)
	state := h.Store.State
	h.Store.State = filepath.Join(state, "gone")
	if err := h.Remember(); err == nil {
		t.Error("Remember succeeds without a state directory")
	}
	h.Store.State = state
	for _, recorded := range []bool{false, true} {
		if recorded {
			if err := h.Remember(); err != nil {
				t.Fatal(err)
			}
		}
		if f, err := h.Look("vdb"); err != nil || !f.Standing.WasMounted.Equal(seen.Mounted) {
			t.Errorf("recorded %v: was mounted at %s, error %v", recorded, f.Standing.WasMounted, err)
		}
		all, err := h.Store.Sightings()
		if err != nil || (len(all) == 1) != recorded || (len(h.Shared.expected.Expected()) == 0) != recorded {
			t.Errorf("recorded %v: on record %+v, error %v; expected %+v", recorded, all, err, h.Shared.expected.Expected())
		}
	}
}

// TestSharedLooks checks that a look with shared state never returns facts that are older than the preceding call of
// Gather.
func TestSharedLooks(t *testing.T) {
	h := node.make(t)
	h.Shared = new(Shared)
	table := filepath.Join(h.Root, table)
	if f, err := h.Look("vdb"); err != nil || len(f.Mounts) != 0 {
		t.Errorf("a look before: %+v, %v", f.Mounts, err)
	}
	var looks sync.WaitGroup
	if err := os.WriteFile(table, []byte("27 1 0:2 / / rw - rootfs rootfs rw\n28 27 254:16 / /mnt/disks/x rw - xfs /dev/vdb rw\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		looks.Go(func() {
			if f, err := h.Look("vdb"); err != nil || len(f.Mounts) != 1 {
				t.Errorf("%+v, %v", f.Mounts, err)
			}
		})
	}
	looks.Wait()
	if err := os.WriteFile(table, []byte("27 1 0:2 / / rw - rootfs rootfs rw\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if f, err := h.Look("vdb"); err != nil || len(f.Mounts) != 0 {
		t.Errorf("a look after a change: %+v, %v", f.Mounts, err)
	}
}

// TestFormatOfAnAttachedDisk checks two loop devices that look alike. A format that began on one loop device belongs to
// the other loop device only if the first loop device is no longer attached.
func TestFormatOfAnAttachedDisk(t *testing.T) {
	h, names := many(t, 2)
	intent := disk.Intent{UUID: "eeeeeeee-0000-4000-8000-00000000000e", Identity: disk.Identity{Boot: boot, Seq: 1000, Size: 10485760 * 512}}
	if err := h.Store.Begin(intent); err != nil {
		t.Fatal(err)
	}
	check := func(name string, want bool) {
		t.Helper()
		f, err := h.Look(name)
		if err != nil || (f.Standing.Intent != nil) != want {
			t.Errorf("the format on %s: %+v, %v", name, f.Standing.Intent, err)
		}
	}
	check(names[0], true)
	check(names[1], true)
	link := filepath.Join(h.Root, "dev/disk/by-diskseq/1000")
	node := filepath.Join(h.Root, "dev/loop0")
	if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink("../../loop0", link), os.WriteFile(node, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	check(names[0], true)
	check(names[1], false)
	// udev has not removed the link of the first loop device yet, but the kernel name loop0 now belongs to a later
	// device. The first loop device must count as gone.
	seq := filepath.Join(h.Root, "sys/devices/virtual/block/loop0/diskseq")
	if err := os.WriteFile(seq, []byte("1007\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	check(names[1], true)
	if err := os.WriteFile(seq, []byte("1000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	check(names[1], false)
	intent.Identity.Boot = "an earlier boot"
	if err := h.Store.Begin(intent); err != nil {
		t.Fatal(err)
	}
	check(names[1], true)
}
