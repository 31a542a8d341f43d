//go:build vm

// Package system checks the installed package on a real Debian system. Almost every test starts on a worker of its own,
// on which the .deb was just installed.
//
// Many workers are containers ([startNode]). The other tests run in a virtual machine ([start]). These tests need
// hot-plug, a serial number, a real boot, a kernel of their own, a power cut or QEMU. With HOTMOUNT_TEST_WORKER=vm,
// startNode also returns virtual machines.
//
// Some tests need a kernel of their own for these reasons:
//   - The growth of ext4 needs CAP_SYS_RESOURCE, which root may lack on a build machine.
//   - A container has no kernel log and no clock of its own.
//   - In a container, `hotmount doctor` has additional findings, about the container and its loop devices.
//   - The file with a container's class remains after the package is purged.
//   - The host's udev might assemble an array or a volume group from a container's disks.
package system

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hotmount/test/worker"
)

// deb returns the path of the package under test. nextDeb returns the path of the package for an upgrade. The Makefile
// sets HOTMOUNT_DEB and HOTMOUNT_DEB_NEXT.
func deb(t *testing.T) string     { t.Helper(); return fileOf(t, "HOTMOUNT_DEB") }
func nextDeb(t *testing.T) string { t.Helper(); return fileOf(t, "HOTMOUNT_DEB_NEXT") }

func fileOf(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s does not name a package: run make test-vm", variable)
	}
	return path
}

// machine is a worker with helper methods for the tests. If a helper method fails, the test fails, and mostly ends.
type machine struct {
	worker.Machine
	t *testing.T
}

// ctx returns a context that ends after ten minutes, but at the latest two minutes before the deadline of `go test`. At
// the deadline, `go test` panics. Then no logs are kept, and no cleanup runs.
func ctx(t *testing.T) context.Context {
	end := time.Now().Add(10 * time.Minute)
	if last, ok := t.Deadline(); ok && last.Add(-2*time.Minute).Before(end) {
		end = last.Add(-2 * time.Minute)
	}
	c, cancel := context.WithDeadline(context.Background(), end)
	t.Cleanup(cancel)
	return c
}

// logs returns a directory for the logs of a worker. If the test fails, the directory is kept and its path is printed.
func logs(t *testing.T) string {
	dir, err := worker.LogDir(t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs: %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// The function `quick` returns a drop-in that makes the settle time short. Tests of the default settings remove the
// drop-in.
func quick() worker.File {
	return worker.File{Path: "/etc/systemd/system/hotmount.service.d/quick.conf", Data: []byte("[Service]\nEnvironment=HOTMOUNT_SETTLE=1s\n"), Mode: 0o644}
}

// parallel runs the test in parallel with other tests, because a test mostly waits for its worker. `go test` runs at
// most as many tests at once as there are real processors. A test may call parallel several times, because some tests
// start several workers.
func parallel(t *testing.T) {
	if _, again := inParallel.LoadOrStore(t, true); !again {
		t.Parallel()
	}
}

var inParallel sync.Map

// The function `exclusive` makes later calls of parallel(t) do nothing, so that no other test runs at the same time.
func exclusive(t *testing.T) { inParallel.Store(t, true) }

// startNode returns a container on which the package was just installed. With HOTMOUNT_TEST_WORKER=vm startNode returns
// a virtual machine.
func startNode(t *testing.T, o worker.Options) (machine, worker.Node) {
	t.Helper()
	switch kind := os.Getenv("HOTMOUNT_TEST_WORKER"); kind {
	case "vm":
		return start(t, o)
	case "", "container":
	default:
		t.Fatalf("HOTMOUNT_TEST_WORKER=%s: it is container or vm", kind)
	}
	parallel(t)
	o.Deb, o.Files = deb(t), append(o.Files, quick())
	o.Progress, o.Dir = os.Stderr, logs(t)
	c, err := worker.StartContainer(ctx(t), worker.ContainerOptions{Options: o, BackingDirs: []string{diskDir(t)}})
	if err != nil {
		t.Fatal(err)
	}
	m := machine{c, t}
	m.endWith(o.Dir)
	diskDirs.Store(t, c.HostDisks())
	return m, c
}

// start returns a virtual machine on which the package was just installed. A drop-in makes the settle time short.
func start(t *testing.T, o worker.Options) (machine, *worker.Worker) {
	t.Helper()
	parallel(t)
	o.Deb, o.Files = deb(t), append(o.Files, quick())
	return startAs(t, o)
}

// startAs returns a virtual machine with the given options. startAs does not add the package or a drop-in.
func startAs(t *testing.T, o worker.Options) (machine, *worker.Worker) {
	t.Helper()
	o.Progress, o.Dir = os.Stderr, logs(t)
	w, err := worker.Start(ctx(t), o)
	if err != nil {
		t.Fatal(err)
	}
	m := machine{w, t}
	m.endWith(o.Dir)
	return m, w
}

// endWith stops the worker when the test ends. If the test has failed, endWith first saves the worker's logs in dir.
func (m machine) endWith(dir string) {
	m.t.Cleanup(func() {
		if m.t.Failed() {
			c, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := m.SaveLogs(c, dir); err != nil {
				m.t.Logf("not all logs could be kept: %v", err)
			}
		}
		if err := m.Stop(); err != nil {
			m.t.Errorf("cannot stop the worker: %v", err)
		}
	})
}

// The method `run` runs a script that must succeed, and returns the script's output.
func (m machine) run(script string) string {
	m.t.Helper()
	out, err := m.Run(ctx(m.t), script)
	if err != nil {
		m.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// The method `wait` repeats the script until the script succeeds. If the script has not succeeded after about a minute,
// the test fails.
func (m machine) wait(what, script string) {
	m.t.Helper()
	m.waitMinutes(1, what, script)
}

// waitMinutes works like the method `wait`, but waits for up to the given number of minutes.
func (m machine) waitMinutes(minutes int, what, script string) {
	m.t.Helper()
	_, err := m.Run(ctx(m.t), fmt.Sprintf("for i in $(seq 1 %[2]d); do if (%[1]s) >/dev/null 2>&1; then exit 0; fi; sleep 0.2; done; (%[1]s)", script, 300*minutes))
	if err != nil {
		m.t.Fatalf("waited in vain for %s: %v\nthe daemon says:\n%s", what, err, m.run("journalctl -b -u hotmount -u 'hotmount-format@*' --no-pager | tail -n 40"))
	}
}

// The method `mounted` waits until the device is mounted at /mnt/disks/UUID, and returns the UUID.
func (m machine) mounted(dev string) string {
	m.t.Helper()
	m.wait(dev+" mounted", "findmnt -n /dev/"+dev)
	path := m.run("findmnt -no TARGET /dev/" + dev)
	uuid, found := strings.CutPrefix(path, "/mnt/disks/")
	if !found || !uuidPattern.MatchString(uuid) {
		m.t.Fatalf("/dev/%s is mounted at %q", dev, path)
	}
	return uuid
}

var uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// waitForLog waits until this boot's journal contains a line that matches the pattern.
func (m machine) waitForLog(pattern string) {
	m.t.Helper()
	m.wait("the journal to say "+pattern, fmt.Sprintf("journalctl -b --no-pager -o cat | grep -E -- %s", quote(pattern)))
}

// The method returns the newest match of the pattern in hotmount's lines of this boot's journal. The test then runs the
// returned match as a command.
func (m machine) printed(pattern string) string {
	m.t.Helper()
	return m.run("journalctl -b --no-pager -o cat _COMM=hotmount | grep -oE -- " + quote(pattern) + " | tail -n 1 | grep .")
}

// The method `make` makes a filesystem on a disk, as an operator does. udev may still be reading the disk and miss the
// write, so the method triggers udev events until udev's database contains the filesystem.
func (m machine) make(name, mkfs string) {
	m.t.Helper()
	m.run("udevadm settle; " + mkfs + " /dev/" + name)
	m.wait("udev to know what is on "+name, "udevadm trigger -s block -y "+name+"; udevadm settle; udevadm info -q property /dev/"+name+" | grep ^ID_FS_UUID=")
}

// trigger is a script that makes udev process the worker's disks once more.
const trigger = "for d in /dev/[sv]d[a-z] /dev/loop*[0-9]; do [ ! -b $d ] || udevadm trigger $d; done; udevadm settle"

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// unitOf returns the name of the mount unit of the volume with the UUID.
func unitOf(uuid string) string {
	return `mnt-disks-` + strings.ReplaceAll(uuid, "-", `\x2d`) + ".mount"
}

// diskDir returns the test's directory for the files of its disks. The directory is in memory. A container sees the
// directory at the same path. Once a container has started, diskDir returns the container's own directory. A
// container's class selects the container's loop devices by the directory of their files.
func diskDir(t *testing.T) string {
	t.Helper()
	dir, found := diskDirs.Load(t)
	if !found {
		dir = visibleDir(t)
		diskDirs.Store(t, dir)
	}
	return dir.(string)
}

var diskDirs sync.Map

// visibleDir makes a directory in /run, because the daemon has its own /tmp and does not see the host's /tmp. A tmpfs
// is mounted on the directory. Without the tmpfs, a container's systemd would wait for the host's disk that contains
// the directory.
func visibleDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/run", "hotmount-disks-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(unix.Unmount(dir, unix.MNT_DETACH), os.Remove(dir)); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	return dir
}

// diskFile makes an empty file for a disk, and returns the open file.
func diskFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp(diskDir(t), "*.raw")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The function `blank` makes the file of a blank disk with the given size in bytes, and returns the file's path.
func blank(t *testing.T, size int64) string {
	t.Helper()
	f := diskFile(t)
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// The function `made` makes the file of a disk with an empty XFS filesystem. Tests that are not about formatting call
// made(t, size), because a blank disk takes many times as long to be mounted.
func made(t *testing.T, size int64) string {
	t.Helper()
	path := blank(t, size)
	if out, err := exec.CommandContext(ctx(t), "mkfs.xfs", "-q", path).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.xfs: %v: %s", err, out)
	}
	return path
}

// copyOf makes a copy of a disk's file, and returns the path of the copy.
func copyOf(t *testing.T, image string) string {
	t.Helper()
	from, err := os.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to := diskFile(t)
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return to.Name()
}

const gib = 1 << 30

// The method `attach` attaches a disk. The method returns the disk's kernel name, and the id that the worker uses for
// the disk.
func (m machine) attach(w worker.Node, d worker.Disk) (name, id string) {
	m.t.Helper()
	a, err := w.Attach(ctx(m.t), d)
	if err != nil {
		m.t.Fatal(err)
	}
	if name, err = w.BlockDevice(ctx(m.t), a.ID); err != nil {
		m.t.Fatal(err)
	}
	return name, a.ID
}

// detach detaches a disk. In a container, the method first unmounts the disk, because the kernel does not detach a
// mounted loop device.
func (m machine) detach(w worker.Node, id string) {
	m.t.Helper()
	if c, is := w.(*worker.Container); is {
		name, err := c.BlockDevice(ctx(m.t), id)
		if err != nil {
			m.t.Fatal(err)
		}
		m.run("if findmnt -n /dev/" + name + " >/dev/null; then umount --all-targets /dev/" + name + "; fi")
	}
	if err := w.Detach(ctx(m.t), id); err != nil {
		m.t.Fatal(err)
	}
}

// digest returns the SHA-256 digest of a disk's file on the host.
func digest(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// randomSource returns the source of a test's random choices. randomSource prints the seed. With the printed seed in
// HOTMOUNT_TEST_SEED, a test makes the same choices again.
func randomSource(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("HOTMOUNT_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("HOTMOUNT_TEST_SEED: %v", err)
		}
	}
	if full {
		t.Logf("seed: HOTMOUNT_TEST_FULL=1 HOTMOUNT_TEST_SEED=%d", seed)
	} else {
		t.Logf("seed: HOTMOUNT_TEST_SEED=%d", seed)
	}
	return rand.New(rand.NewPCG(seed, 0))
}

// kernelReadOnly checks that the daemon cannot write to files below /proc and /sys. The exposure that
// `systemd-analyze security` prints does not depend on ReadOnlyPaths= and BindReadOnlyPaths=, which protect /proc and
// /sys (systemd/hotmount.service).
func (m machine) kernelReadOnly() {
	m.t.Helper()
	// If several mounts are at one path, the path's last line in the mount table is the topmost mount. The check skips
	// memory.pressure, because systemd makes this file writable for the daemon.
	const modes = `awk '$5 ~ "^/(proc|sys)(/|$)" && $5 !~ "hotmount.service/memory.pressure$" {sub(/,.*/, "", $6); top[$5] = $6} END {for (p in top) print p, top[p]}' /proc/$(systemctl show -P MainPID hotmount)/mountinfo`
	got := m.run(modes)
	if writable := m.run(modes + " | grep -v ' ro$' || true"); writable != "" || !strings.Contains("\n"+got, "\n/proc ro") || !strings.Contains("\n"+got, "\n/sys ro") {
		m.t.Errorf("the daemon's view of the kernel's files:\n%s", got)
	}
}
