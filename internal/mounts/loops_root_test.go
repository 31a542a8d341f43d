//go:build root

package mounts

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// TestRealLoops checks that the device number identifies the device below a loop device, even if the path is unusual.
// For example, the path leads to a second device node of the same device, or to a bind mount of a device node, like the
// bind mounts that kubelet makes.
func TestRealLoops(t *testing.T) {
	dir := t.TempDir()
	image := filepath.Join(dir, "image")
	if err := os.WriteFile(image, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	over := func(file string) string {
		t.Helper()
		out, err := exec.Command("losetup", "--find", "--show", file).Output()
		if err != nil {
			t.Fatalf("losetup %s (this needs root): %v", file, err)
		}
		loop := strings.TrimSpace(string(out))
		t.Cleanup(func() {
			if err := exec.Command("losetup", "-d", loop).Run(); err != nil {
				t.Error(err)
			}
		})
		return loop
	}
	lower := over(image)
	var st unix.Stat_t
	if err := unix.Stat(lower, &st); err != nil {
		t.Fatal(err)
	}
	id := disk.ID{Name: filepath.Base(lower), Dev: disk.Dev{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}}
	node, bound := filepath.Join(dir, "node"), filepath.Join(dir, "bound")
	if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(st.Rdev)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bound, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(lower, bound, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(bound, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	want := map[string]string{}
	for _, path := range []string{lower, node, bound} {
		want[filepath.Base(over(path))] = path
	}
	// The path of this loop device's backing file exists only in another mount namespace.
	foreign := filepath.Join(dir, "foreign")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-ec", "mount -t devtmpfs none "+foreign+"; losetup --find --show "+foreign+"/"+id.Name).Output()
	if err != nil {
		t.Fatal(err)
	}
	loop := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if err := exec.Command("losetup", "-d", loop).Run(); err != nil {
			t.Error(err)
		}
	})
	want[filepath.Base(loop)] = "from elsewhere"
	tree, err := Tree("")
	if err != nil {
		t.Fatal(err)
	}
	loops, err := Loops("", ByPath(tree))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range loops {
		path, ours := want[l.Name]
		if l.FromKernel && ours != (l.Below == id.Dev) {
			t.Errorf("%+v, set up over %q", l, path)
		}
		if ours && l.FromKernel {
			delete(want, l.Name)
		}
		// The daemon lacks permission to open the loop device, so the daemon knows only the path of the backing file.
		byPath := Loop{File: l.File}
		byPath.follow("", ByPath(tree))
		switch seen := byPath.Below == id.Dev; {
		case path == lower || path == bound:
			ours = seen
		case path == "from elsewhere":
			ours = !seen && byPath.Called(id.Name)
		default:
			ours = !seen // hotmount does not recognise a device node in an unusual place
		}
		if !ours {
			t.Errorf("by its path: %+v, set up over %q", byPath, path)
		}
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
	served := Loop{Name: filepath.Base(loop), File: "/image"}
	if served.ask("", ByPath([]Mount{{MountPoint: disk.MountPoint{Path: "/", Type: "fuse.sshfs"}}})); served.FromKernel {
		t.Error("the kernel was asked about a file on a server")
	}
	if served.ask("", ByPath([]Mount{{MountPoint: disk.MountPoint{Path: "/", Type: "ext4"}}})); !served.FromKernel {
		t.Error("the kernel was not asked")
	}
	past := Loop{File: bound}
	if past.follow("", ByPath(append(slices.Clone(tree), Mount{MountPoint: disk.MountPoint{Path: dir, Type: "nfs4"}}))); past.Below != (disk.Dev{}) {
		t.Error("the path was followed past a server")
	}
	// The daemon has no permission to open a loop device. In this test, the mount option nodev makes the open fail.
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", filepath.Join(root, "dev"), "tmpfs", unix.MS_NODEV, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(filepath.Join(root, "dev"), unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mknod(filepath.Join(root, "dev", "loop0"), unix.S_IFBLK|0o600, int(st.Rdev)); err != nil {
		t.Fatal(err)
	}
	denied := Loop{Name: "loop0", File: "/image"}
	if denied.ask(root, Paths{}); !denied.Denied || denied.FromKernel {
		t.Errorf("%+v: want it denied", denied)
	}
	opened, err := os.Open(node)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	users, err := DeviceUsers("", id)
	if err != nil || !slices.ContainsFunc(users, func(u User) bool { return u.PID == os.Getpid() && u.How == "has the disk open" }) {
		t.Errorf("this process has it open, got %v, %v", users, err)
	}
}

// TestRegular checks that Regular returns true only for a regular file on a local filesystem. Regular must return false
// for a device node and for a link, because a loop device over a device node or a link may use a disk.
func TestRegular(t *testing.T) {
	dir := t.TempDir()
	file, node, link := filepath.Join(dir, "file"), filepath.Join(dir, "node"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0))); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for kind, local := range map[string]bool{"ext4": true, "nfs4": false} {
		tree := []Mount{{MountPoint: disk.MountPoint{Path: "/", Type: kind}}}
		for path, want := range map[string]bool{file: local, node: false, link: false, file + "x": false, "": false} {
			if got := (&Loop{File: path}).Regular("/", ByPath(tree)); got != want {
				t.Errorf("%q on %s: %v", path, kind, got)
			}
		}
	}
}
