//go:build root

package helper

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSyncFilesystem checks that the cached data of the filesystem is on its disk after the sync. The test uses a file
// behind a loop device as the disk.
func TestSyncFilesystem(t *testing.T) {
	ownNamespace(t)
	dir := t.TempDir()
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{"truncate -s 16M " + image, "mkfs.ext4 -q " + image, "mount -o loop " + image + " " + at} {
		if out, err := exec.Command("sh", "-c", c).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", c, err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	var data []byte
	written := func() bool {
		b, err := os.ReadFile(image)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(b, data[:1024])
	}
	// The kernel may write the file to the disk before the sync, for example because another program calls sync(2). A
	// file that is already on the disk proves nothing about the sync, so the test then writes another file.
	for n := range 20 {
		data = bytes.Repeat(fmt.Appendf(nil, "what a pod has written, %d;", n), 1000)
		if err := os.WriteFile(filepath.Join(at, "file"), data, 0o644); err != nil {
			t.Fatal(err)
		}
		if !written() {
			break
		}
		if n == 19 {
			t.Fatal("the kernel has written each file by itself: this test shows nothing")
		}
	}
	if err := SyncFilesystem(at); err != nil {
		t.Fatal(err)
	}
	if !written() {
		t.Error("it is not written")
	}
	if err := SyncFilesystem(filepath.Join(dir, "none")); err == nil {
		t.Error("what is not there is written")
	}
}
