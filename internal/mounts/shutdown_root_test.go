//go:build root

package mounts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// TestShutDown checks that the filesystem of a removed device fails for every process, in every mount namespace.
// TestShutDown also checks that ShutDown does not touch a filesystem whose device exists, or a filesystem of another
// device. The test uses a loop device, and a root directory in which sysfs lacks this loop device.
func TestShutDown(t *testing.T) {
	for _, fstype := range []string{disk.XFS, disk.Ext4} {
		t.Run(fstype, func(t *testing.T) {
			root := t.TempDir()
			image, at := filepath.Join(root, "image"), filepath.Join(root, "host", "disk")
			if err := os.MkdirAll(at, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, c := range []string{"truncate -s 320M " + image, "mkfs." + fstype + " -q " + image, "mount -o loop " + image + " " + at} {
				if out, err := exec.Command("sh", "-c", c).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v: %s", c, err, out)
				}
			}
			t.Cleanup(func() {
				if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
					t.Errorf("umount: %v: %s", err, out)
				}
			})
			var st unix.Stat_t
			if err := unix.Stat(at, &st); err != nil {
				t.Fatal(err)
			}
			dev := disk.Dev{Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}
			write := func() error { return os.WriteFile(filepath.Join(at, "file"), []byte("data"), 0o644) }
			line := func(dev disk.Dev, path string) string {
				return fmt.Sprintf("90 24 %s / %s rw - %s /dev/loop0 rw\n", dev, path, fstype)
			}
			process(t, root, "1", map[string]string{"mountinfo": "24 1 254:1 / / rw - ext4 /dev/vda1 rw\n"}, map[string]string{"ns/mnt": "mnt:[1]"})
			if err := ShutDown(root, dev); err != nil {
				t.Errorf("not mounted anywhere: %v", err)
			}
			// The mount point's path in the container is a link.
			process(t, root, "77", map[string]string{"mountinfo": line(dev, "/away")}, map[string]string{"ns/mnt": "mnt:[2]", "root": filepath.Join(root, "host")})
			if err := os.Symlink(at, filepath.Join(root, "host", "away")); err != nil {
				t.Fatal(err)
			}
			if err := ShutDown(root, dev); err == nil {
				t.Error("followed a link")
			}
			other := disk.Dev{Major: dev.Major, Minor: dev.Minor + 1}
			process(t, root, "77", map[string]string{"mountinfo": line(other, "/disk")}, nil)
			// Another mount covers the mount of the removed device, at its path or above.
			if err := ShutDown(root, other); err == nil || !strings.Contains(err.Error(), "by /disk: expected the device "+other.String()) {
				t.Errorf("another device's filesystem: %v", err)
			}
			process(t, root, "77", map[string]string{"mountinfo": line(other, "/disk/below")}, nil)
			if err := ShutDown(root, other); err == nil || !strings.Contains(err.Error(), "by /disk/below: ") {
				t.Errorf("below another device's filesystem: %v", err)
			}
			// The process whose mount table lists the filesystem has ended, and its mount namespace may be gone.
			process(t, root, "78", map[string]string{"mountinfo": line(other, "/gone")}, map[string]string{"ns/mnt": "mnt:[3]", "root": filepath.Join(root, "nowhere")})
			process(t, root, "77", map[string]string{"mountinfo": line(dev, "/disk")}, nil)
			if err := ShutDown(root, other); err != nil {
				t.Errorf("mounted only in an ended process's namespace: %v", err)
			}
			if err := write(); err != nil {
				t.Fatal(err)
			}
			process(t, root, "77", map[string]string{"mountinfo": line(dev, "/disk")}, nil)
			process(t, root, "", map[string]string{"../sys/dev/block/" + dev.String(): ""}, nil)
			if err := ShutDown(root, dev); err == nil || !strings.Contains(err.Error(), "the disk is attached") {
				t.Errorf("an existing device: %v", err)
			}
			if err := write(); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(root, "sys/dev/block", dev.String())); err != nil {
				t.Fatal(err)
			}
			for range 2 { // in the second pass, the filesystem is already shut down
				if err := ShutDown(root, dev); err != nil {
					t.Error(err)
				}
				if err := write(); !errors.Is(err, unix.EIO) && !errors.Is(err, unix.EROFS) {
					t.Errorf("write error: %v", err)
				}
			}
		})
	}
}
