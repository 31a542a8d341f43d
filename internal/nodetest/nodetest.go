// Package nodetest makes a node for tests: a tree of files like /sys, /proc and /run/udev of a machine with disks.
package nodetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotmount/internal/inventory"
	"hotmount/internal/store"
)

// BootID is the id of the node's current boot.
const BootID = "6b5c3a0e-7f1d-4c7a-9a56-0d6f2f1b7c11"

// MachineID is the node's machine-id.
const MachineID = "0f3b5c6d7e8f4a1b9c2d3e4f5a6b7c8d"

// Write makes files below a directory. The content "-> X" makes a symbolic link to X. A path that ends in a slash makes
// a directory.
func Write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name+"x")), 0o755)
		if target, link := strings.CutPrefix(content, "-> "); err == nil && link {
			err = os.Symlink(target, path)
		} else if err == nil && !strings.HasSuffix(name, "/") {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Attach adds a virtio disk, with an entry in udev's database. The parameter `number` is the disk's minor number. The
// disk sequence number is the minor number plus 1000.
func Attach(t *testing.T, root, name string, number int, serial string, udev ...string) {
	t.Helper()
	dir := "sys/devices/pci0000:00/0000:" + fmt.Sprintf("%02x", number) + ":00.0/block/" + name + "/"
	Write(t, root, map[string]string{
		"sys/block/" + name:              "-> ../../" + dir,
		dir + "dev":                      fmt.Sprintf("254:%d\n", number),
		dir + "diskseq":                  fmt.Sprintf("%d\n", 1000+number),
		dir + "size":                     "10485760\n",
		dir + "ro":                       "0\n",
		dir + "removable":                "0\n",
		dir + "queue/rotational":         "1\n",
		dir + "queue/logical_block_size": "512\n",
		dir + "queue/iostats":            "1\n",
		dir + "serial":                   serial,
		dir + "device/subsystem":         "-> ../../../bus/virtio",
		dir + "device/driver":            "-> ../../../bus/virtio/drivers/virtio_blk",
		dir + "device/vendor":            "0x1af4\n",
		dir + "stat":                     "1 2 3 4 5 6 7 8 9 10 11\n",
		fmt.Sprintf("run/udev/data/b254:%d", number): fmt.Sprintf("S:disk/by-diskseq/%d\nI:1\n", 1000+number) + strings.Join(udev, "\n") + "\n",
	})
}

// New returns a node without a daemon, below a temporary directory. The node has a system disk vda, a filesystem on
// vdb, and a refused disk vdc.
func New(t *testing.T) inventory.Host {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	h := inventory.Host{Root: root, Store: store.Store{State: filepath.Join(dir, "lib"), Runtime: filepath.Join(dir, "run"), MachineID: filepath.Join(root, "etc/machine-id")}}
	Write(t, dir, map[string]string{"run/": ""})
	Write(t, h.Root, map[string]string{
		"proc/1/mountinfo":               "27 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n",
		"proc/swaps":                     "Filename Type\n",
		"proc/cmdline":                   "ro\n",
		"proc/sys/kernel/random/boot_id": BootID + "\n",
		"etc/machine-id":                 MachineID + "\n",
	})
	const uuid = "0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	Attach(t, h.Root, "vda", 0, "")
	Attach(t, h.Root, "vdb", 16, "DATA-1", "E:ID_FS_USAGE=filesystem", "E:ID_FS_TYPE=xfs", "E:ID_FS_UUID_ENC="+uuid)
	Attach(t, h.Root, "vdc", 32, "\x1b[2J\n\tx", "E:ID_FS_USAGE=raid", "E:ID_FS_TYPE=LVM2_member\x1b[31m")
	return h
}
