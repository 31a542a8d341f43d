//go:build root

package worker

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// deb returns the path of the Debian package that the Makefile has built.
func deb(t *testing.T) string {
	t.Helper()
	path := os.Getenv("HOTMOUNT_DEB")
	if path == "" {
		t.Fatal("HOTMOUNT_DEB does not name a package: run make test-container")
	}
	return path
}

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

// The function `written` returns the kernel's counters of a disk's writes, discards and flushes (Documentation/block/stat
// in the kernel).
func written(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("/sys/block/" + name + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b))
	return strings.Join(append(f[4:7:7], f[11:]...), " ")
}

// The function `read` returns the kernel's counters of a disk's reads. If the host runs udevd, the function `read` returns
// "", because the host's udevd reads the disk at each event.
func read(t *testing.T, name string) string {
	t.Helper()
	if exists("/run/udev/control") {
		return ""
	}
	b, err := os.ReadFile("/sys/block/" + name + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(b))[:4], " ")
}

const untilMounted = "for i in $(seq 300); do findmnt -no TARGET /dev/%s && exit; sleep 0.1; done; hotmount status; exit 1"

// TestContainerDecoy attaches blank files to loop devices of the host. A container's class selects these files.
// hotmount in the container must format and mount the container's own disks. hotmount in the container must not change
// the host's disks, even if udev announces the host's disks again.
func TestContainerDecoy(t *testing.T) {
	dir, err := os.MkdirTemp("/run", "hotmount-decoy-") // hotmount's daemon can read /run, but has a private /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	// The disks differ in size, because hotmount may mistake a disk that has no serial for an older disk of the same
	// size.
	blank := func(path string, mib int64) string {
		if err := NewDisk(path, mib<<20); err != nil {
			t.Fatal(err)
		}
		return path
	}
	files := []string{blank(filepath.Join(dir, "early.img"), 400), blank(filepath.Join(dir, "late.img"), 420)}
	early, _ := hostDisk(t, files[0])
	quick := File{Path: "/etc/hotmount/config.d/quick.yaml", Data: []byte("settle: 0s\nformat_present: true\nready_timeout: 1s\n")}
	c := startContainer(t, ContainerOptions{Options: Options{Deb: deb(t), Files: []File{quick}}, BackingDirs: []string{dir}})
	late, _ := hostDisk(t, files[1])
	before, digests := []string{read(t, early) + written(t, early), read(t, late) + written(t, late)}, []string{digest(t, files[0]), digest(t, files[1])}

	_, own := attach(t, c, Disk{File: blank(filepath.Join(dir, "own.img"), 440)})
	_, second := attach(t, c, Disk{File: blank(filepath.Join(c.HostDisks(), "own.img"), 460)})
	announce := "for d in /sys/block/" + early + " /sys/block/" + late + "; do udevadm trigger --settle --action=add $d; done"
	runIn(t, c, announce)
	for _, name := range []string{own, second} {
		if got := runIn(t, c, fmt.Sprintf(untilMounted, name)); !strings.HasPrefix(got, "/mnt/disks/") {
			t.Errorf("%s is mounted at %q", name, got)
		}
	}
	runIn(t, c, announce+"; systemctl restart hotmount")
	_, third := attach(t, c, Disk{File: blank(filepath.Join(dir, "third.img"), 480)})
	runIn(t, c, fmt.Sprintf(untilMounted, third))
	for name := range strings.FieldsSeq(runIn(t, c, "find /dev -type b -printf '%f '")) {
		var number int
		if _, err := fmt.Sscanf(name, "loop%d", &number); err != nil || number < c.First() || number >= c.First()+c.Loops() {
			t.Errorf("the container has the device %s", name)
		}
	}
	for i, name := range []string{early, late} {
		// The journal must show that hotmount tried to prove the host's disk blank. Without that attempt, the test
		// proves nothing.
		runIn(t, c, "journalctl -q -u hotmount | grep -F '"+name+" ' | grep -F prove:")
		if got := read(t, name) + written(t, name); got != before[i] {
			t.Errorf("%s was read or written: %s, before %s", name, got, before[i])
		}
		if got := digest(t, files[i]); got != digests[i] {
			t.Errorf("%s has changed", files[i])
		}
		refused(t, c, "findmnt /dev/"+name, "exits 1")
	}
}
