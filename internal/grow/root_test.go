//go:build root

package grow

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/run"
)

func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// facts returns the present facts of a loop device.
func facts(t *testing.T, node string) *disk.Facts {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(node, &st); err != nil {
		t.Fatal(err)
	}
	f := &disk.Facts{ID: disk.ID{Name: filepath.Base(node), Dev: disk.Dev{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}}, Standing: disk.Standing{Made: true}}
	for name, to := range map[string]*uint64{"diskseq": &f.Seq, "size": &f.Size} {
		n, err := os.ReadFile("/sys/block/" + f.Name + "/" + name)
		if err == nil {
			*to, err = strconv.ParseUint(strings.TrimSpace(string(n)), 10, 64)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f.Size *= 512
	return f
}

// noRunner is a Runner that fails the test if a command runs.
type noRunner struct{ t *testing.T }

func (r noRunner) Run(_ context.Context, c run.Command) (run.Result, error) {
	r.t.Errorf("%s runs", c)
	return run.Result{}, errors.New("it must not run")
}

// TestUnmounted grows a real unmounted filesystem, and checks that the filesystem is not mounted afterwards.
func TestUnmounted(t *testing.T) {
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	tool(t, "truncate", "-s", "512M", image)
	tool(t, "mkfs.xfs", "-q", image)
	tool(t, "truncate", "-s", "1G", image)
	node := tool(t, "losetup", "-f", "--show", image)
	t.Cleanup(func() { tool(t, "losetup", "-d", node) })
	f := facts(t, node)
	options, uuid := []string{"noatime", "nodev"}, tool(t, "blkid", "-p", "-o", "value", "-s", "UUID", node)
	const elsewhere = "5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	if before, after, err := Unmounted(t.Context(), noRunner{t}, f, dir, "xfs", elsewhere, options); err == nil || before != after || after != (disk.Geometry{}) {
		t.Errorf("another XFS: %+v, %+v, %v", before, after, err)
	}
	other := *f
	other.Seq++
	if _, _, err := Unmounted(t.Context(), run.Exec{}, &other, dir, "xfs", uuid, options); !errors.Is(err, disk.ErrGone) {
		t.Errorf("another disk: %v", err)
	}
	if _, _, err := Unmounted(t.Context(), run.Exec{}, f, dir, "ext4", uuid, options); !errors.Is(err, ErrUnmountable) {
		t.Errorf("not an ext4: %v", err)
	}
	if g, err := Measure(node, "xfs"); err != nil || g.Size != 512<<20 || g.Usable(f.Size) != 1<<30 {
		t.Errorf("before: %+v, %v", g, err)
	}
	// Unmounted() must not mount a filesystem that fills its disk, is larger than its disk, or has no sound superblock.
	for size, want := range map[uint64]error{512 << 20: nil, 512<<20 + 63*4096: nil, 512<<20 - 1: ErrShrunk} {
		there := *f
		there.Size = size
		if before, after, err := Unmounted(t.Context(), noRunner{t}, &there, dir, "xfs", uuid, options); !errors.Is(err, want) || before.Size != 512<<20 || after != before {
			t.Errorf("a disk of %d bytes: %+v, %+v, %v", size, before, after, err)
		}
	}
	// The function `flip` inverts a bit of the superblock. A second call of flip() restores the bit.
	flip := func() {
		t.Helper()
		b := make([]byte, 1)
		d, err := os.OpenFile(node, os.O_RDWR, 0)
		if err == nil {
			_, err = d.ReadAt(b, 60)
			b[0] ^= 1
			_, writeErr := d.WriteAt(b, 60)
			err = errors.Join(err, writeErr, d.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	flip()
	if _, _, err := Unmounted(t.Context(), noRunner{t}, f, dir, "xfs", uuid, options); !errors.Is(err, ErrUnmountable) {
		t.Errorf("damaged: %v", err)
	}
	flip()
	// Unmounted() must measure an adopted filesystem, but must not grow the filesystem.
	foreign := *f
	foreign.Standing = disk.Standing{Volume: &disk.Sighting{Adopted: f.Size}}
	if before, after, err := Unmounted(t.Context(), run.Exec{}, &foreign, dir, "xfs", uuid, options); err != nil || before.Size != 512<<20 || after != before {
		t.Errorf("from elsewhere: %+v, %+v, %v", before, after, err)
	}
	before, after, err := Unmounted(t.Context(), run.Exec{}, f, dir, "xfs", uuid, options)
	if err != nil || before.Size != 512<<20 || after.Size != 1<<30 {
		t.Errorf("twice the disk: %+v, %+v, %v", before, after, err)
	}
	if g, err := Measure(node, "xfs"); err != nil || g != after {
		t.Errorf("superblock: %+v (%v), mounted filesystem: %+v", g, err, after)
	}
	if table, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(table), dir) {
		t.Errorf("the filesystem is still mounted (%v)", err)
	}
	tool(t, "xfs_repair", "-n", node)
}

// TestErrorsOnRecord checks that Mounted measures an ext4 filesystem with recorded errors, but does not grow it.
func TestErrorsOnRecord(t *testing.T) {
	image, path := filepath.Join(t.TempDir(), "image"), t.TempDir()
	tool(t, "truncate", "-s", "64M", image)
	tool(t, "mkfs.ext4", "-q", "-F", image)
	tool(t, "debugfs", "-w", "-R", "set_super_value state 3", image)
	tool(t, "truncate", "-s", "128M", image)
	node := tool(t, "losetup", "-f", "--show", image)
	t.Cleanup(func() { tool(t, "losetup", "-d", node) })
	tool(t, "mount", node, path)
	t.Cleanup(func() { tool(t, "umount", path) })
	uuid := tool(t, "blkid", "-p", "-o", "value", "-s", "UUID", node)
	before, after, err := Mounted(t.Context(), noRunner{t}, facts(t, node), path, "ext4", uuid)
	if !errors.Is(err, ErrRecorded) || before.Size != 64<<20 || after != before {
		t.Errorf("%+v, %+v, %v", before, after, err)
	}
}

// TestMounted grows a real mounted filesystem, whose files must not change. TestMounted does not grow ext4, because
// growing ext4 needs CAP_SYS_RESOURCE, which containers do not have. TestGrow in test/system covers ext4.
func TestMounted(t *testing.T) {
	for _, fstype := range []string{"xfs"} {
		t.Run(fstype, func(t *testing.T) {
			image, path := filepath.Join(t.TempDir(), "image"), t.TempDir()
			tool(t, "truncate", "-s", "512M", image)
			tool(t, "mkfs."+fstype, "-q", image)
			node := tool(t, "losetup", "-f", "--show", image)
			t.Cleanup(func() { tool(t, "losetup", "-d", node) })
			tool(t, "mount", node, path)
			t.Cleanup(func() { tool(t, "umount", path) })
			if err := os.WriteFile(path+"/f", []byte(strings.Repeat("kept", 1<<18)), 0o600); err != nil {
				t.Fatal(err)
			}
			sum := tool(t, "sha256sum", path+"/f")

			f := facts(t, node)
			uuid := tool(t, "blkid", "-p", "-o", "value", "-s", "UUID", node)
			if before, after, err := Mounted(t.Context(), noRunner{t}, f, path, fstype, "5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f"); err == nil || before != after || after != (disk.Geometry{}) {
				t.Errorf("another XFS: %+v, %+v, %v", before, after, err)
			}
			before, after, err := Mounted(t.Context(), run.Exec{}, f, path, fstype, uuid)
			if err != nil || before.Size != 512<<20 || after != before {
				t.Fatalf("a filesystem that fills its disk: %+v, %+v, %v", before, after, err)
			}
			tool(t, "truncate", "-s", "1G", image)
			tool(t, "losetup", "-c", node)
			f = facts(t, node)
			other := *f
			other.Seq++
			if _, _, err := Mounted(t.Context(), run.Exec{}, &other, path, fstype, uuid); !errors.Is(err, disk.ErrGone) {
				t.Errorf("another disk: %v", err)
			}
			if _, _, err := Mounted(t.Context(), run.Exec{}, f, filepath.Dir(path), fstype, uuid); err == nil {
				t.Error("a path where another filesystem is")
			}
			foreign := *f
			foreign.Standing = disk.Standing{}
			if before, after, err := Mounted(t.Context(), noRunner{t}, &foreign, path, fstype, uuid); err != nil || before.Size != 512<<20 || after != before {
				t.Errorf("from elsewhere: %+v, %+v, %v", before, after, err)
			}
			before, after, err = Mounted(t.Context(), run.Exec{}, f, path, fstype, uuid)
			if err != nil || before.Size != 512<<20 || after.Size != 1<<30 {
				t.Errorf("twice the disk: %+v, %+v, %v", before, after, err)
			}
			if got := tool(t, "sha256sum", path+"/f"); got != sum {
				t.Errorf("%s, was %s", got, sum)
			}
			tool(t, "truncate", "-s", "768M", image)
			tool(t, "losetup", "-c", node)
			if _, _, err := Mounted(t.Context(), run.Exec{}, facts(t, node), path, fstype, uuid); !errors.Is(err, ErrShrunk) {
				t.Errorf("a shrunk disk: %v", err)
			}
			tool(t, "truncate", "-s", "1G", image)
			tool(t, "losetup", "-c", node)
		})
	}
}
