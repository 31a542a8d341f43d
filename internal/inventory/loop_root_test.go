//go:build root

package inventory

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
	"hotmount/internal/store"
)

// losetup runs losetup(8), and returns the device name that it prints.
func losetup(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("losetup", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("losetup %v: %v: %s", args, err, out)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "/dev/")
}

// attachFile attaches the file to a loop device until the test ends or detach is called.
func attachFile(t *testing.T, file string) (name string, detach func()) {
	t.Helper()
	name = losetup(t, "--find", "--show", file)
	attached := true
	detach = func() {
		if attached {
			attached = false
			losetup(t, "--detach", "/dev/"+name)
		}
	}
	t.Cleanup(detach)
	return name, detach
}

// TestRealLoopDevices checks, with real loop devices, that a class selects a loop device only if the class names the
// backing file.
func TestRealLoopDevices(t *testing.T) {
	dir := t.TempDir()
	h := Host{Store: store.Store{State: dir, Runtime: dir}, Asks: true}
	s := &disk.Settings{Classes: []disk.Class{{Name: "ci", Mode: disk.ModeFilesystem, Selectors: disk.Selectors{Names: []string{"loop*"}, BackingFile: []string{dir + "/*.img"}}}}}
	image := func(name string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	look := func(name string) *disk.Facts {
		t.Helper()
		f, err := h.Look(name)
		if err != nil {
			t.Fatal(err)
		}
		return &f
	}

	a := image("a.img")
	name, detach := attachFile(t, a)
	f := look(name)
	if policy.Select(f, s) == nil || f.BackingFile != a || f.Transport != "loop" || f.Serial != "" || f.Slot != "" || f.Size != 1<<20 || f.Uncounted {
		t.Errorf("not selected: %+v", f)
	}
	other, _ := attachFile(t, image("b.raw"))
	if f := look(other); policy.Select(f, s) != nil || len(f.Loops) > 0 {
		t.Errorf("another file's is selected: %+v", f)
	}
	node := filepath.Join(dir, "node.img")
	if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(f.Dev.Major, f.Dev.Minor))); err != nil {
		t.Fatal(err)
	}
	over, release := attachFile(t, node)
	if f := look(over); policy.Select(f, s) != nil || !f.BackingDevice {
		t.Errorf("a loop device over a block device is selected: %+v", f)
	}
	release()

	if err := os.Link(a, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	twin, release := attachFile(t, filepath.Join(dir, "link"))
	if f := look(name); !slices.Contains(f.Loops, twin) {
		t.Errorf("the other loop device on the file is missing: %+v", f)
	}
	release()

	if err := os.Truncate(a, 2<<20); err != nil {
		t.Fatal(err)
	}
	losetup(t, "--set-capacity", "/dev/"+name)
	if now := look(name); now.Size != 2<<20 || now.Seq != f.Seq {
		t.Errorf("grown: %+v", now)
	}
	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	if f := look(name); policy.Select(f, s) != nil {
		t.Errorf("a loop device on a deleted file is selected: %+v", f)
	}
	detach()
	// The kernel detaches the file only after all processes, such as udev, have closed the loop device.
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); ; <-tick.C {
		_, err := h.Look(name)
		if errors.Is(err, disk.ErrGone) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("detached: %v", err)
		}
	}
}
