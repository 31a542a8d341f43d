//go:build root

package worker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func startContainer(t *testing.T, o ContainerOptions) *Container {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	o.Progress = os.Stderr
	c, err := StartContainer(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func runIn(t *testing.T, c *Container, script string) string {
	t.Helper()
	out, err := c.Run(t.Context(), script)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// xfsFile makes the file of a disk with an XFS.
func xfsFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk.raw")
	if err := NewDisk(path, 320<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.xfs", "-q", path).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.xfs: %v: %s", err, out)
	}
	return path
}

// TestContainer: systemd runs in it, udev names its disks, and no other disk can be used.
func TestContainer(t *testing.T) {
	begun := time.Now()
	c := startContainer(t, ContainerOptions{})
	t.Logf("booted in %s", time.Since(begun))
	if state := runIn(t, c, "systemctl is-system-running || systemctl --failed --no-legend"); state != "running" {
		t.Errorf("the container's systemd is %s", state)
	}
	// CAP_SYS_MODULE is 16, CAP_SYS_TIME 25 (capability.h).
	for _, who := range []string{"1", "self"} {
		bound, err := strconv.ParseUint(runIn(t, c, "sed -n 's/^CapBnd:[[:space:]]*//p' /proc/"+who+"/status"), 16, 64)
		if err != nil || bound&(1<<16|1<<25) != 0 {
			t.Errorf("process %s can set the clock or load a module: %x, %v", who, bound, err)
		}
	}
	a, err := c.Attach(t.Context(), Disk{File: xfsFile(t)})
	if err != nil {
		t.Fatal(err)
	}
	name, err := c.BlockDevice(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	runIn(t, c, fmt.Sprintf("for i in $(seq 100); do udevadm info -q property /dev/%s | grep -x ID_FS_TYPE=xfs && exit; sleep 0.1; done; exit 1", name))
	runIn(t, c, "mount /dev/"+name+" /mnt; touch /mnt/file; umount /mnt")
	if err := c.Detach(t.Context(), a.ID); err != nil {
		t.Error(err)
	}
	runIn(t, c, "for i in $(seq 100); do [ -e /sys/block/"+name+"/loop ] || exit 0; sleep 0.1; done; exit 1")

	// Loop device 0 is the host's.
	for _, script := range []string{"mknod /tmp/disk b 7 0", "mknod /tmp/disk b 8 0", "mknod /tmp/disk b 254 0", "mknod /tmp/memory c 1 1"} {
		if _, err := c.Run(t.Context(), script); err == nil || !strings.Contains(err.Error(), "Operation not permitted") {
			t.Errorf("%s in the container: %v", script, err)
		}
	}
}
