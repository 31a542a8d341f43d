//go:build root

package grow

import (
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

// facts gives those of a loop device, as they are now.
func facts(t *testing.T, node string) *disk.Facts {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(node, &st); err != nil {
		t.Fatal(err)
	}
	f := &disk.Facts{ID: disk.ID{Name: filepath.Base(node), Dev: disk.Dev{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}}}
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

// TestMounted grows a real filesystem, whose files stay as they were. For an ext4
// the kernel wants CAP_SYS_RESOURCE, which containers lack: TestGrow in test/system
// has it.
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
			before, after, err := Mounted(t.Context(), run.Exec{}, f, path, fstype)
			if err != nil || before.Size != 512<<20 || after != before {
				t.Fatalf("a filesystem that fills its disk: %+v, %+v, %v", before, after, err)
			}
			tool(t, "truncate", "-s", "1G", image)
			tool(t, "losetup", "-c", node)
			f = facts(t, node)
			other := *f
			other.Seq++
			if _, _, err := Mounted(t.Context(), run.Exec{}, &other, path, fstype); !errors.Is(err, disk.ErrGone) {
				t.Errorf("another disk: %v", err)
			}
			if _, _, err := Mounted(t.Context(), run.Exec{}, f, filepath.Dir(path), fstype); err == nil {
				t.Error("a path where another filesystem is")
			}
			before, after, err = Mounted(t.Context(), run.Exec{}, f, path, fstype)
			if err != nil || before.Size != 512<<20 || after.Size != 1<<30 {
				t.Errorf("twice the disk: %+v, %+v, %v", before, after, err)
			}
			if got := tool(t, "sha256sum", path+"/f"); got != sum {
				t.Errorf("%s, was %s", got, sum)
			}
			tool(t, "truncate", "-s", "768M", image)
			tool(t, "losetup", "-c", node)
			if _, _, err := Mounted(t.Context(), run.Exec{}, facts(t, node), path, fstype); !errors.Is(err, ErrShrunk) {
				t.Errorf("a shrunk disk: %v", err)
			}
			tool(t, "truncate", "-s", "1G", image)
			tool(t, "losetup", "-c", node)
		})
	}
}
