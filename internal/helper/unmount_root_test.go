//go:build root

package helper

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/nodetest"
	"hotmount/internal/report"
)

const goneUUID = "aaaaaaaa-0000-4000-8000-000000000001"

// ownNamespace gives the test's thread its own mount namespace, which ends with the test.
func ownNamespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
}

// ownMachine returns a simulated machine whose PID 1 has the mounts of the test's thread. The simulated machine has no
// process other than PID 1.
func ownMachine(t *testing.T) inventory.Host {
	t.Helper()
	h := nodetest.New(t)
	if err := os.Remove(filepath.Join(h.Root, "proc/1/mountinfo")); err != nil {
		t.Fatal(err)
	}
	nodetest.Write(t, h.Root, map[string]string{"proc/1/mountinfo": "-> /proc/thread-self/mountinfo", "proc/1/ns/mnt": "-> mnt:[1]", "sys/dev/block/": "", "sys/block/vdb/diskseq": "12\n"})
	return h
}

// mountDisk mounts a tmpfs that stands for the filesystem of a disk.
func mountDisk(t *testing.T, where string) disk.Dev {
	t.Helper()
	if err := unix.Mount("tmpfs", where, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(where, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Error(err)
		}
	})
	var st unix.Stat_t
	if err := unix.Stat(where, &st); err != nil {
		t.Fatal(err)
	}
	return disk.Dev{Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}
}

func mountPoint(t *testing.T) string {
	t.Helper()
	where := filepath.Join(t.TempDir(), goneUUID)
	if err := os.Mkdir(where, 0o755); err != nil {
		t.Fatal(err)
	}
	return where
}

// TestUnmountGone checks that the leftover mount of a detached disk is unmounted, lazily if it is in use. The mount of
// an attached disk stays.
func TestUnmountGone(t *testing.T) {
	for name, tt := range map[string]struct{ living, busy bool }{
		"a living disk": {living: true}, "a dead disk": {}, "a dead disk in use": {busy: true},
	} {
		t.Run(name, func(t *testing.T) {
			ownNamespace(t)
			h, where := ownMachine(t), mountPoint(t)
			dev := mountDisk(t, where)
			if tt.living {
				nodetest.Write(t, h.Root, map[string]string{"sys/dev/block/" + dev.String(): "-> ../../block/vdb"})
			}
			if tt.busy {
				f, err := os.Create(filepath.Join(where, "f"))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
			}
			err := unmountGone(report.New(), h, where, dev, unix.Unmount)
			if (err != nil) != tt.living || tt.living && !strings.Contains(err.Error(), "the disk "+dev.String()+" of the filesystem is attached") {
				t.Error(err)
			}
			if there, err := h.MountedAt(where, dev); err != nil || there != tt.living {
				t.Errorf("still mounted: %v, %v", there, err)
			}
		})
	}
}

// TestUnmountGoneLeavesTheDiskThatHasReturned checks that the mount of a returned disk stays. The disk may return, even
// with its former device number, while hotmount looks for the users of the leftover mount. The disk may also return
// between the two tries to unmount.
func TestUnmountGoneLeavesTheDiskThatHasReturned(t *testing.T) {
	for name, tt := range map[string]struct{ between, sameNumber bool }{
		"before the first try":                    {},
		"before the lazy one":                     {between: true},
		"with its number":                         {sameNumber: true},
		"with its number and before the lazy one": {between: true, sameNumber: true},
	} {
		t.Run(name, func(t *testing.T) {
			ownNamespace(t)
			h, where := ownMachine(t), mountPoint(t)
			dead := mountDisk(t, where)
			// The open file keeps the kernel from giving the device number of the first tmpfs to another tmpfs.
			held, err := os.Create(filepath.Join(where, "f"))
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			living := dead
			comesBack := func() {
				if tt.sameNumber {
					nodetest.Write(t, h.Root, map[string]string{"sys/dev/block/" + dead.String(): "-> ../../block/vdb"})
					return
				}
				if err := unix.Unmount(where, unix.MNT_DETACH); err != nil {
					t.Fatal(err)
				}
				living = mountDisk(t, where)
			}
			if !tt.between {
				comesBack()
			}
			tries := 0
			what, err := unmount(h, where, dead, func(where string, flags int) error {
				tries++
				err := unix.Unmount(where, flags)
				if tt.between && errors.Is(err, unix.EBUSY) {
					comesBack()
				}
				return err
			})
			if err != nil || what != nothingLeft || tt.between != (tries == 1) {
				t.Errorf("after %d tries it %s, %v", tries, what, err)
			}
			if there, err := h.MountedAt(where, living); err != nil || !there {
				t.Errorf("the living disk is mounted: %v, %v", there, err)
			}
		})
	}
}

// TestUnmountGoneSaysNothingOfWhatHasReturned checks that no users are recorded if the disk has returned, or if another
// disk has its device number.
func TestUnmountGoneSaysNothingOfWhatHasReturned(t *testing.T) {
	for name, returns := range map[string]bool{"gone": false, "returned": true} {
		t.Run(name, func(t *testing.T) {
			ownNamespace(t)
			h, where := ownMachine(t), mountPoint(t)
			dev := mountDisk(t, where)
			err := unmountGone(report.New(), h, where, dev, func(where string, flags int) error {
				if returns {
					nodetest.Write(t, h.Root, map[string]string{"sys/dev/block/" + dev.String(): "-> ../../block/vdb"})
				}
				return unix.Unmount(where, flags)
			})
			if words := h.Store.Holders(goneUUID); err != nil || (words == "") != returns {
				t.Errorf("holders %q, %v", words, err)
			}
		})
	}
}

// TestUnmountGoneByPID1 checks that the function `unmount` succeeds if PID 1 has unmounted the path first. If the path is
// still mounted, the function must return the error of umount2(2).
func TestUnmountGoneByPID1(t *testing.T) {
	for name, first := range map[string]bool{"PID 1 is first": true, "nobody else does it": false} {
		t.Run(name, func(t *testing.T) {
			ownNamespace(t)
			h, where := ownMachine(t), mountPoint(t)
			what, err := unmount(h, where, mountDisk(t, where), func(where string, flags int) error {
				if !first {
					return unix.EPERM
				}
				if err := unix.Unmount(where, 0); err != nil {
					t.Fatal(err)
				}
				return unix.Unmount(where, flags)
			})
			if first && (err != nil || what != nothingLeft) || !first && !errors.Is(err, unix.EPERM) {
				t.Errorf("it %s, %v", what, err)
			}
		})
	}
}
