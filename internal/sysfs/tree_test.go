package sysfs

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The type `tree` maps the paths of a directory tree to the content of the files. The content "-> X" makes the path a
// symbolic link to X. A path that ends with a slash is a directory.
type tree map[string]string

// with(changes) returns a copy of the tree with the changes. A path whose content is changed to "-" is removed.
func (t tree) with(changes tree) tree {
	all := maps.Clone(t)
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_, content string) bool { return content == "-" })
	return all
}

func (t tree) make(tb testing.TB) FS {
	tb.Helper()
	root := tb.TempDir()
	for path, content := range t {
		t.put(tb, filepath.Join(root, path), content, strings.HasSuffix(path, "/"))
	}
	return FS{Root: root}
}

func (tree) put(tb testing.TB, path, content string, dir bool) {
	tb.Helper()
	parent := filepath.Dir(path)
	if dir {
		parent = path
	}
	err := os.MkdirAll(parent, 0o755)
	if target, link := strings.CutPrefix(content, "-> "); err == nil && link {
		err = os.Symlink(target, path)
	} else if err == nil && !dir {
		err = os.WriteFile(path, []byte(content), 0o644)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

const (
	vdb = "sys/devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/block/vdb/"
	sda = "sys/devices/pci0000:00/0000:00:02.1/0000:02:00.0/virtio1/host2/target2:0:0/2:0:0:1/block/sda/"
	dm0 = "sys/devices/virtual/block/dm-0/"
	dm1 = "sys/devices/virtual/block/dm-1/"
)

// The variable `virtio` is the sysfs tree of a virtio-blk disk on Debian 12 (Linux 6.1) in QEMU's q35, behind a PCIe root
// port. The virtio-blk disk has an entry in udev's database.
var virtio = tree{
	"sys/block/vdb":                  "-> ../devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/block/vdb",
	vdb + "dev":                      "254:16\n",
	vdb + "diskseq":                  "12\n",
	vdb + "size":                     "10485760\n",
	vdb + "ro":                       "0\n",
	vdb + "removable":                "0\n",
	vdb + "hidden":                   "0\n",
	vdb + "queue/rotational":         "1\n",
	vdb + "queue/logical_block_size": "512\n",
	vdb + "queue/iostats":            "1\n",
	vdb + "queue/discard_max_bytes":  "2199023255040\n",
	vdb + "serial":                   "a=b \x01c",
	vdb + "stat":                     "     103        2     5144       32        7        1       65        4        0       60       36        5        0     2048        1        3        1\n",
	vdb + "holders/":                 "",
	vdb + "device":                   "-> ../../../virtio4",
	"sys/devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/subsystem": "-> ../../../../../bus/virtio",
	"sys/devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/driver":    "-> ../../../../../bus/virtio/drivers/virtio_blk",
	"sys/devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/vendor":    "0x1af4\n",
	"run/udev/data/b254:16": `S:disk/by-path/pci-0000:05:00.0
S:disk/by-path/virtio-pci-0000:05:00.0
S:disk/by-diskseq/12
I:3037919
E:ID_PATH=pci-0000:05:00.0
E:ID_PATH_TAG=pci-0000_05_00_0
G:systemd
Q:systemd
V:1
`,
}

// The tree `scsi` is the tree `virtio` with one more disk, which is behind virtio-scsi. The virtio-scsi disk has a
// partition with LVM on it.
var scsi = virtio.with(tree{
	"sys/block/sda":                  "-> ../devices/pci0000:00/0000:00:02.1/0000:02:00.0/virtio1/host2/target2:0:0/2:0:0:1/block/sda",
	sda + "dev":                      "8:0\n",
	sda + "diskseq":                  "3\n",
	sda + "size":                     "2048\n",
	sda + "ro":                       "1\n",
	sda + "removable":                "1\n",
	sda + "queue/rotational":         "0\n",
	sda + "queue/logical_block_size": "4096\n",
	sda + "queue/iostats":            "0\n",
	sda + "queue/discard_max_bytes":  "0\n",
	sda + "stat":                     "1 2 3 4 5 6 7 8 9 10 11\n",
	sda + "holders/":                 "",
	sda + "trace/":                   "",
	sda + "sda2/partition":           "2\n",
	sda + "sda2/dev":                 "8:2\n",
	sda + "sda2/holders/":            "",
	sda + "sda1/partition":           "1\n",
	sda + "sda1/dev":                 "8:1\n",
	sda + "sda1/holders/dm-0":        "-> ../../../../../../../../../../../virtual/block/dm-0",
	sda + "device":                   "-> ../../../2:0:0:1",
	"sys/devices/pci0000:00/0000:00:02.1/0000:02:00.0/virtio1/host2/target2:0:0/2:0:0:1/subsystem": "-> ../../../../../../../../../bus/scsi",
	"sys/devices/pci0000:00/0000:00:02.1/0000:02:00.0/virtio1/host2/target2:0:0/2:0:0:1/model":     "QEMU HARDDISK   \n",
	"sys/devices/pci0000:00/0000:00:02.1/0000:02:00.0/virtio1/host2/target2:0:0/2:0:0:1/vendor":    "QEMU    \n",
	"sys/devices/pci0000:00/0000:00:02.1/0000:02:00.0/virtio1/host2/target2:0:0/2:0:0:1/wwid":      "naa.5000c500a1b2c3d4\n",
	"sys/block/dm-0":          "-> ../devices/virtual/block/dm-0",
	dm0 + "dev":               "253:0\n",
	dm0 + "holders/dm-1":      "-> ../../dm-1",
	dm0 + "holders/gone":      "-> ../../gone",
	"sys/block/dm-1":          "-> ../devices/virtual/block/dm-1",
	dm1 + "dev":               "253:1\n",
	dm1 + "holders/dm-0":      "-> ../../dm-0",
	dm1 + "dm-1p1/partition":  "1\n",
	dm1 + "dm-1p1/dev":        "259:7\n",
	dm1 + "dm-1p1/holders/md": "-> ../../../../md",
})
