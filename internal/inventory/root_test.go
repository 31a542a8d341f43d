//go:build root

package inventory

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// TestChangedOfAnXFS shuts down a real XFS filesystem and checks that Changed then returns the disk. The path of the
// mount leads to the filesystem.
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

// TestLinksInAClassDirectory checks that a foreign link in a class directory counts as a claim on the disk to which the
// link leads. The provisioner may make a volume of that disk. hotmount's own links must not count as claims. A link to
// a recorded volume must not count as a claim, either.
func TestLinksInAClassDirectory(t *testing.T) {
	s := &disk.Settings{Classes: []disk.Class{{Directory: "/mnt/missing"}, {Directory: "/mnt/disks"}}}
	const own = "/mnt/disks/own"
	claim := func(t *testing.T, h Host, s *disk.Settings) string { return scan(t, h.For(s))["vdb"].Claim }
	for target, want := range map[string]string{
		"/dev/vdb":                     own,
		"../../dev/vdb":                own,
		"/dev/disk/by-id/x":            own,
		"":                             own, // a device node
		"/dev/vdb1":                    "",
		"/dev/vd*":                     "",
		"/dev/vdz":                     "",
		"/srv/vdb":                     "",
		disk.LinkDirectory + "/own":    "",
		"/dev/../srv/vdb":              "",
		disk.LinkDirectory + "/../vdb": own,
	} {
		t.Run(target, func(t *testing.T) {
			h := node.with(tree{"mnt/disks/": "", "srv/": "", "dev/disk/by-id/": "", "dev/hotmount/": ""}).make(t)
			for _, path := range []string{"/dev/vdb", "/srv/vdb", disk.LinkDirectory + "/own"} {
				if err := errors.Join(os.RemoveAll(h.Root+path), unix.Mknod(h.Root+path, unix.S_IFBLK|0o600, int(unix.Mkdev(254, 16)))); err != nil {
					t.Fatal(err)
				}
			}
			err := os.Symlink("../../vdb", h.Root+"/dev/disk/by-id/x")
			if target == "" {
				err = unix.Mknod(h.Root+own, unix.S_IFBLK|0o600, int(unix.Mkdev(254, 16)))
			} else if err == nil {
				err = os.Symlink(target, h.Root+own)
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := claim(t, h, s); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := claim(t, h, &disk.Settings{}); got != "" {
				t.Errorf("of no class: got %q", got)
			}
		})
	}
	f := disk.Facts{ID: disk.ID{Dev: disk.Dev{Major: 254, Minor: 16}}}
	f.Standing.OnRecord = true
	if (links{at: map[disk.Dev]string{f.Dev: own}}).addLink(&f); f.Claim != "" {
		t.Errorf("a volume on record: %q", f.Claim)
	}
	h := node.with(tree{"mnt/disks": "-> disks"}).make(t)
	if got := scan(t, h.For(s))["vdb"].Unseen; got != "/mnt/disks" {
		t.Errorf("unreadable: %q", got)
	}
}
