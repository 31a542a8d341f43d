//go:build root

package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func startContainer(t *testing.T, o ContainerOptions) *Container {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	o.Progress = t.Output()
	begun := time.Now()
	c, err := StartContainer(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s is there after %s", c.Disks(), time.Since(begun))
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

// The function `refused` checks that the script fails in the container, and that the error contains the given words.
func refused(t *testing.T, c *Container, script, words string) {
	t.Helper()
	if _, err := c.Run(t.Context(), script); err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("%s in the container: %v", script, err)
	}
}

// xfsFile makes a disk file with an XFS filesystem.
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

func attach(t *testing.T, c *Container, d Disk) (id, name string) {
	t.Helper()
	a, err := c.Attach(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if name, err = c.BlockDevice(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	return a.ID, name
}

const untilNamed = "for i in $(seq 100); do udevadm info -q property /dev/%s | grep -x ID_FS_TYPE=xfs && exit; sleep 0.1; done; exit 1"

// TestContainer checks that systemd runs in a container and that udev names the container's disks. TestContainer also
// resizes and detaches a disk, reboots the container, and saves the logs.
func TestContainer(t *testing.T) {
	c := startContainer(t, ContainerOptions{Options: Options{Setup: "echo set up >/root/setup", KernelArgs: []string{"hotmount.format=no"}}})
	if state := runIn(t, c, "systemctl is-system-running || systemctl --failed --no-legend"); state != "running" {
		t.Errorf("the container's systemd is %s", state)
	}
	if got := runIn(t, c, "cat /root/setup; grep -o hotmount.format=no /proc/cmdline"); got != "set up\nhotmount.format=no" {
		t.Errorf("the container has %q", got)
	}
	id, name := attach(t, c, Disk{File: xfsFile(t)})
	runIn(t, c, fmt.Sprintf(untilNamed, name))
	runIn(t, c, "mount /dev/"+name+" /mnt; touch /mnt/file")
	if err := c.Resize(t.Context(), id, 640<<20); err != nil {
		t.Error(err)
	}
	if got := runIn(t, c, "blockdev --getsize64 /dev/"+name); got != "671088640" {
		t.Errorf("the disk has %s bytes, resized", got)
	}

	before, err := c.BootID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after, err := c.BootID(t.Context()); err != nil || after == before {
		t.Errorf("the boot %s is followed by %s, %v", before, after, err)
	}
	if state, err := c.WaitBooted(t.Context()); err != nil || state != "running" {
		t.Errorf("after a reboot the container is %s, %v", state, err)
	}
	runIn(t, c, "cat /root/setup; "+fmt.Sprintf(untilNamed, name))

	if err := c.Detach(t.Context(), id); err != nil {
		t.Error(err)
	}
	runIn(t, c, "[ ! -e /dev/"+name+" ]; [ ! -e /sys/block/"+name+"/loop ]")
	if logs := t.TempDir(); c.SaveLogs(t.Context(), logs) != nil || !exists(filepath.Join(logs, "journal.txt")) {
		t.Error("no journal is saved")
	}
}

// TestContainerFiles copies files to the container and back. TestContainerFiles also checks that all processes of a
// script end when the script's context ends.
func TestContainerFiles(t *testing.T) {
	c := startContainer(t, ContainerOptions{})
	dir := t.TempDir()
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if err := os.WriteFile(filepath.Join(dir, "a"), want, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Put(t.Context(), filepath.Join(dir, "a"), "/root/new/b"), c.Get(t.Context(), "/root/new/b", filepath.Join(dir, "c"))); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "c")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes come back, %v", len(got), err)
	}
	if got := runIn(t, c, "stat -c %a /root/new/b; env | cut -d= -f1 | sort | tr '\\n' ' '"); got != "750\nHOME LC_ALL PATH PWD SHLVL TERM _" {
		t.Errorf("inside there is %q", got)
	}
	if _, err := c.Run(t.Context(), "echo out; echo err >&2; exit 7"); ExitCode(err) != 7 || !strings.Contains(err.Error(), "err") {
		t.Errorf("a script that fails: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := c.Run(ctx, "sleep 1000 & sleep 2000"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a script that lasts: %v", err)
	}
	runIn(t, c, "for i in $(seq 50); do pgrep -x sleep || exit 0; sleep 0.1; done; exit 1")
}

// TestContainerDisks attaches disks with supported and unsupported options, and tries to detach a disk that is in use.
func TestContainerDisks(t *testing.T) {
	c := startContainer(t, ContainerOptions{Loops: 2})
	for _, d := range []Disk{{Serial: "x"}, {Bus: BusSCSI}, {Format: "qcow2"}, {Shared: true}, {Blkdebug: map[string]any{}}, {Device: map[string]any{}}} {
		d.File = xfsFile(t)
		if _, err := c.Attach(t.Context(), d); err == nil || !strings.Contains(err.Error(), "virtual machine") {
			t.Errorf("%+v: %v", d, err)
		}
	}
	_, name := attach(t, c, Disk{ID: "ro", File: xfsFile(t), ReadOnly: true})
	if got := runIn(t, c, "blockdev --getro /dev/"+name); got != "1" {
		t.Errorf("the disk's flag read-only is %s", got)
	}
	id, name := attach(t, c, Disk{File: xfsFile(t), LogicalBlockSize: 4096})
	if got := runIn(t, c, "blockdev --getss /dev/"+name); got != "4096" {
		t.Errorf("the disk's sectors have %s bytes", got)
	}
	if _, err := c.Attach(t.Context(), Disk{File: xfsFile(t)}); err == nil || !strings.Contains(err.Error(), "no loop device is free") {
		t.Errorf("a third of two disks: %v", err)
	}
	runIn(t, c, "mount -t tmpfs x /mnt; exec 9</dev/"+name+"; sleep 300 </dev/"+name+" >/dev/null 2>&1 & disown")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := c.Detach(ctx, id); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("detach of a disk in use: %v", err)
	}
	if _, err := c.Attach(t.Context(), Disk{File: xfsFile(t)}); err == nil {
		t.Error("the loop device of a disk in use is taken again")
	}
	runIn(t, c, "pkill sleep; for i in $(seq 50); do [ -e /sys/block/"+name+"/loop ] || exit 0; sleep 0.1; done; exit 1")
	attach(t, c, Disk{File: xfsFile(t)})
}

// hostDisk attaches the file to a loop device of the host.
func hostDisk(t *testing.T, file string) (name string, number int) {
	t.Helper()
	number, err := addLoops(1, func(int) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeLoops(number, 1); err != nil {
			t.Error(err)
		}
	})
	device, err := openLoop(number, os.O_RDWR)
	if err == nil {
		err = configure(device, file, false, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ClearLoop(device); err != nil {
			t.Error(err)
		}
	})
	return fmt.Sprintf("loop%d", number), number
}

// node makes a device node in the container. A process of the host makes the node, because the device filter denies
// mknod(2) to the container.
func node(t *testing.T, c *Container, name string, number int) {
	t.Helper()
	path := fmt.Sprintf("/proc/%d/root/dev/%s", c.init.cmd.Process.Pid, name)
	if err := unix.Mknod(path, syscall.S_IFBLK|0o666, int(unix.Mkdev(loopMajor, uint32(number)))); err != nil {
		t.Fatal(err)
	}
}

// TestContainerHost checks that a container cannot reach devices and files of the host.
func TestContainerHost(t *testing.T) {
	c := startContainer(t, ContainerOptions{})
	foreign, number := hostDisk(t, xfsFile(t))
	const denied = "Operation not permitted"
	for _, script := range []string{fmt.Sprintf("mknod /tmp/disk b 7 %d", number), "mknod /tmp/disk b 7 0", "mknod /tmp/disk b 8 0", "mknod /tmp/disk b 254 0",
		"mknod /tmp/disk b 259 0", "mknod /tmp/memory c 1 1", "mknod /tmp/kmsg c 1 11", "mknod /tmp/console c 5 1", "mknod /tmp/mapper c 10 236",
		"mknod /tmp/loop-control c 10 237", "date -s 12:00", "dmesg"} {
		refused(t, c, script, denied)
	}
	node(t, c, foreign, number)
	for _, script := range []string{"dd if=/dev/" + foreign + " of=/dev/null count=1", "dd if=/dev/zero of=/dev/" + foreign + " count=1 conv=notrunc",
		"blkid -p /dev/" + foreign, "losetup -d /dev/" + foreign} {
		refused(t, c, script, denied)
	}
	refused(t, c, "mount -t xfs /dev/"+foreign+" /mnt", "mount")
	for _, script := range []string{"echo 1 >/proc/sys/vm/swappiness", "echo 1 >/sys/module/block/parameters/events_dfl_poll_msecs", "echo mem >/sys/power/state"} {
		refused(t, c, script, "Read-only file system")
	}
	if got := runIn(t, c, "grep CapBnd /proc/1/status /proc/self/status | cut -f2 | uniq | wc -l; ls -A /sys/fs/pstore; hostname"); got != "1\n"+c.o.Name {
		t.Errorf("inside there is %q", got)
	}
	host, err := os.Hostname()
	if err != nil || host == c.o.Name {
		t.Errorf("the host is %q, %v", host, err)
	}
}

// TestContainerUnits checks that a systemd unit in the container can have a device filter of its own (DevicePolicy=).
func TestContainerUnits(t *testing.T) {
	c := startContainer(t, ContainerOptions{})
	_, name := attach(t, c, Disk{File: xfsFile(t)})
	read := "dd if=/dev/" + name + " of=/dev/null count=1"
	runIn(t, c, "systemd-run -q --wait "+read)
	refused(t, c, "systemd-run -q --wait --pipe -p DevicePolicy=closed "+read, "Operation not permitted")
	if got := runIn(t, c, "journalctl -q | grep 'device control BPF' || true"); got != "" {
		t.Error(got)
	}
}

// TestContainerTwo checks that a container cannot use the disks of another running container.
func TestContainerTwo(t *testing.T) {
	a, b := startContainer(t, ContainerOptions{}), startContainer(t, ContainerOptions{})
	_, name := attach(t, a, Disk{File: xfsFile(t)})
	number := a.First()
	if b.First() <= number+31 && number <= b.First()+31 {
		t.Fatalf("both have loop devices from %d and %d", number, b.First())
	}
	runIn(t, a, "dd if=/dev/"+name+" of=/dev/null count=1")
	runIn(t, b, "[ ! -e /dev/"+name+" ]")
	refused(t, b, fmt.Sprintf("mknod /tmp/disk b 7 %d", number), "Operation not permitted")
	node(t, b, name, number)
	refused(t, b, "dd if=/dev/"+name+" of=/dev/null count=1", "Operation not permitted")
	if a.Disks() == b.Disks() || a.HostDisks() == b.HostDisks() {
		t.Errorf("both have their disks in %s, %s", a.Disks(), a.HostDisks())
	}
	if _, err := StartContainer(t.Context(), ContainerOptions{Name: a.o.Name}); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a third of the same name: %v", err)
	}
}
