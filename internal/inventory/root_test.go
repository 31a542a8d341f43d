//go:build root

package inventory

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hotmount/internal/disk"
)

// TestChangedOfAnXFS checks that Changed finds a real XFS filesystem that is shut down, if the path of the mount leads
// to the filesystem.
func TestChangedOfAnXFS(t *testing.T) {
	tool := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v: %s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	image, path := filepath.Join(t.TempDir(), "image"), "/mnt/disks/"+uuid
	tool("mkfs.xfs", "-q", "-d", "name="+image+",file,size=320m")
	node := tool("losetup", "-f", "--show", image)
	t.Cleanup(func() { tool("losetup", "-d", node) })
	name := strings.TrimPrefix(node, "/dev/")
	dev, err := os.ReadFile("/sys/block/" + name + "/dev")
	if err != nil {
		t.Fatal(err)
	}
	h := tree{table: "27 1 254:1 / / rw - ext4 /dev/vda1 rw\n40 27 " + strings.TrimSpace(string(dev)) + " / " + path + " rw - xfs " + node + " rw\n", "mnt/disks/" + uuid + "/": ""}.make(t)
	tool("mount", "-t", "xfs", node, h.Root+path)
	t.Cleanup(func() { tool("umount", h.Root+path) })
	var d disk.Dev
	if d, err = disk.ParseDev(strings.TrimSpace(string(dev))); err != nil {
		t.Fatal(err)
	}
	f := disk.Facts{ID: disk.ID{Name: name, Dev: d}, Mounts: []disk.MountPoint{{Dev: d, Root: "/", Path: path, Type: "xfs"}}}
	if names, err := h.Changed([]disk.Facts{f}); err != nil || len(names) != 0 {
		t.Errorf("in order: %v, %v", names, err)
	}
	tool("xfs_io", "-x", "-c", "shutdown", h.Root+path)
	if names, err := h.Changed([]disk.Facts{f}); err != nil || len(names) != 1 {
		t.Errorf("shut down: %v, %v", names, err)
	}
	f.Fault = "the kernel has shut the filesystem down"
	if names, err := h.Changed([]disk.Facts{f}); err != nil || len(names) != 0 {
		t.Errorf("shut down, and known: %v, %v", names, err)
	}
}
