package mounts

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"hotmount/internal/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The function `files` makes a directory with the given files. If the content of a file begins with "-> ", the file
// becomes a symbolic link to the path that follows.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range content {
		name = filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if target, link := strings.CutPrefix(text, "-> "); err == nil && link {
			err = os.Symlink(target, name)
		} else if err == nil {
			err = os.WriteFile(name, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// The constant `debian` is a part of the mount table of a Debian 12 worker. This part contains a mount that systemd made,
// a bind mount of a directory, and a path with white space.
const debian = `22 27 0:20 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
27 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,discard,errors=remount-ro
91 27 254:16 / /mnt/disks/7ab12e3a-d2c2-4b94-a3cf-9a3aa3a4b2d7 rw,nosuid,nodev,noatime shared:50 - xfs /dev/vdb rw,attr2,inode64
92 27 254:16 /sub/dir /srv/with\040space\011tab\012line\134 ro,relatime shared:50 master:2 - xfs /dev/vdb rw
93 27 0:45 / /mnt/x rw - fuse.sshfs user@host:/a\040b rw,user_id=0
94 27 0:46 / /mnt/y rw - tmpfs  rw
`

var table = []disk.MountPoint{
	{Dev: disk.Dev{Minor: 20}, Root: "/", Path: "/sys", Type: "sysfs", Source: "sysfs", Options: "rw,nosuid,nodev,noexec,relatime", SuperOptions: "rw"},
	{Dev: disk.Dev{Major: 254, Minor: 1}, Root: "/", Path: "/", Type: "ext4", Source: "/dev/vda1", Options: "rw,relatime", SuperOptions: "rw,discard,errors=remount-ro"},
	{Dev: disk.Dev{Major: 254, Minor: 16}, Root: "/", Path: "/mnt/disks/7ab12e3a-d2c2-4b94-a3cf-9a3aa3a4b2d7", Type: "xfs", Source: "/dev/vdb", Options: "rw,nosuid,nodev,noatime", SuperOptions: "rw,attr2,inode64"},
	{Dev: disk.Dev{Major: 254, Minor: 16}, Root: "/sub/dir", Path: "/srv/with space\ttab\nline\\", Type: "xfs", Source: "/dev/vdb", Options: "ro,relatime", SuperOptions: "rw"},
	{Dev: disk.Dev{Minor: 45}, Root: "/", Path: "/mnt/x", Type: "fuse.sshfs", Source: "user@host:/a b", Options: "rw", SuperOptions: "rw,user_id=0"},
	{Dev: disk.Dev{Minor: 46}, Root: "/", Path: "/mnt/y", Type: "tmpfs", Source: "", Options: "rw", SuperOptions: "rw"},
}

func TestTree(t *testing.T) {
	tree, err := Tree(files(t, map[string]string{"proc/1/mountinfo": debian}))
	if err != nil {
		t.Fatal(err)
	}
	var got []disk.MountPoint
	for _, m := range tree {
		got = append(got, m.MountPoint)
	}
	if diff := cmp.Diff(table, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if _, err := Tree(t.TempDir()); err == nil {
		t.Error("a missing table is not an error")
	}
}

func TestParseTree(t *testing.T) {
	got, err := ParseTree(strings.NewReader("22 27 0:20 / /sys rw shared:7 - sysfs sysfs rw\n" +
		"92 27 254:16 /sub//deleted /srv ro shared:50 master:2 propagate_from:3 - xfs /dev/vdb rw\n93 92 0:45 / /srv/x rw unbindable - tmpfs t rw\n"))
	if err != nil {
		t.Fatal(err)
	}
	type link struct{ id, parent, shared, master, from int }
	var links []link
	for _, m := range got {
		links = append(links, link{m.ID, m.Parent, m.Shared, m.Master, m.From})
	}
	want := []link{{22, 27, 7, 0, 0}, {92, 27, 50, 2, 3}, {93, 92, 0, 0, 0}}
	if !slices.Equal(links, want) {
		t.Errorf("got %v, want %v", links, want)
	}
	if got[1].Root != "/sub//deleted" {
		t.Errorf("root %q", got[1].Root)
	}
}

// TestLongLines checks that no field of a line makes the mount table unreadable, whatever the length of the field. A pod
// can rename directories so that the root directory or the mount point of a mount gets a long path.
func TestLongLines(t *testing.T) {
	for _, length := range []int{4 << 10, 32 << 10, maxLine - 200, maxLine, 60 << 10, 64 << 10, 64<<10 + 1, 1 << 20} {
		path := strings.Repeat("/"+strings.Repeat(`\134`, 250), length/1001+1)
		for name, line := range map[string]string{
			"options":     "95 27 254:16 / /merged rw shared:7 - overlay /dev/vdb rw,lowerdir=" + strings.Repeat("/l:", length/3),
			"spaces":      "95 27 254:16 / /merged rw shared:7 - overlay /dev/vdb rw" + strings.Repeat(" ", length),
			"root":        "95 27 254:16 " + path + " /merged rw shared:7 - overlay /dev/vdb rw",
			"mount point": "95 27 254:16 / " + path + " rw shared:7 - overlay /dev/vdb rw",
			"every field": "95 27 254:16 " + path + " " + path + " rw shared:7 - fuse." + path + " " + path + " rw," + path,
		} {
			for _, text := range []string{line + "\n" + debian, debian + line + "\n", debian + line} {
				got, err := ParseTree(strings.NewReader(text))
				if err != nil {
					t.Fatalf("%s: %d bytes: %.1000v", name, length, err)
				}
				i := slices.IndexFunc(got, func(m Mount) bool { return m.ID == 95 })
				if len(got) != len(table)+1 || i < 0 {
					t.Fatalf("%s: %d bytes: %d mounts, at %d", name, length, len(got), i)
				}
				m := got[i]
				if m.Parent != 27 || m.Shared != 7 || m.Dev != (disk.Dev{Major: 254, Minor: 16}) || m.Options != "rw" || !strings.HasPrefix(m.SuperOptions, "rw") {
					t.Errorf("%s: %d bytes: wrong fields", name, length)
				}
				if name != "every field" && (m.Type != "overlay" || m.Source != "/dev/vdb") {
					t.Errorf("%s: %d bytes: the type is %q, and the source is %q", name, length, m.Type, m.Source)
				}
				// A path that the kernel accepts in a system call must stay whole. A shortened path must stay too long
				// for the kernel.
				whole := strings.ReplaceAll(path, `\134`, `\`)
				if strings.HasPrefix(m.Path, "/\\") && m.Path != whole && len(m.Path) < 4096 {
					t.Errorf("%s: %d bytes: a mount point of %d bytes was cut to %d bytes", name, length, len(whole), len(m.Path))
				}
			}
		}
	}
}

func TestTableFails(t *testing.T) {
	for name, text := range map[string]string{
		"empty line":           "\n",
		"nonsense":             "nonsense\n",
		"device number":        "27 1 254 / / rw shared:1 - ext4 /dev/vda1 rw\n",
		"no number":            "27 1 x:1 / / rw shared:1 - ext4 /dev/vda1 rw\n",
		"too large a number":   "27 1 4294967295:1 / / rw shared:1 - ext4 /dev/vda1 rw\n",
		"no separator":         "27 1 254:1 / / rw shared:1 ext4 /dev/vda1 rw x y z\n",
		"cut":                  "27 1 254:1 / / rw\n",
		"a line without end":   "27 1 254:1 / /" + strings.Repeat("x", 1<<20),
		"one bad line of many": debian + "x\n",
	} {
		got, err := ParseTree(strings.NewReader(text))
		if err == nil {
			t.Errorf("%s: got no error, but %v", name, got)
		} else if len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%s: error with control characters, or too long: %q", name, err)
		}
	}
}

func FuzzTable(f *testing.F) {
	f.Add(debian)
	f.Add("27 1 254:1 / / rw - ext4 /dev/vda1 rw")
	f.Add("27 1 254:1 / /a\\04 rw - ext4 /dev/vda1 rw\r\n")
	f.Add("a b 1:1 - - - - - - - - -")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseTree(strings.NewReader(text))
		if err != nil {
			return
		}
		if want := strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1; text != "" && len(got) != want {
			t.Errorf("%d mounts of %d lines", len(got), want)
		}
		// The parsed mounts must not depend on the lines of the previous mount table.
		var known oneTable
		for range 2 {
			if _, err := known.parse(strings.NewReader(debian)); err != nil {
				t.Fatal(err)
			}
			if again, err := known.parse(strings.NewReader(text)); err != nil || !slices.Equal(got, again) {
				t.Errorf("after other lines: %v, error %v", again, err)
			}
		}
	})
}

func TestSwaps(t *testing.T) {
	const header = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
	for _, test := range []struct {
		name string
		file map[string]string
		want []string
		fail bool
	}{
		{"a kernel without swap", nil, nil, false},
		{"none", map[string]string{"proc/swaps": header}, nil, false},
		{"some", map[string]string{"proc/swaps": header +
			"/dev/vdc                                partition\t1048572\t\t0\t\t-2\n" +
			"/var/swap\\040file\\040\\134x\\040(deleted)   file\t1048572\t\t0\t\t-3\n"}, []string{"/dev/vdc", `/var/swap file \x (deleted)`}, false},
		{"another file", map[string]string{"proc/swaps": "/dev/vdc partition\n"}, nil, true},
		{"empty", map[string]string{"proc/swaps": ""}, nil, true},
		{"an empty line", map[string]string{"proc/swaps": header + "\n"}, nil, true},
	} {
		got, err := Swaps(files(t, test.file))
		if (err != nil) != test.fail {
			t.Errorf("%s: error %v", test.name, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func FuzzSwaps(f *testing.F) {
	f.Add("Filename\tType\n/dev/vdc partition 1 0 -2\n")
	f.Add("Filename\n\\040\\777\\04\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseSwaps(text)
		if err != nil && got != nil {
			t.Errorf("got %q and the error %v", got, err)
		}
	})
}

func TestUnescapeOctal(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "plain": "plain", `a\040b\134`: `a b\`, `\011\012`: "\t\n", `\04`: `\04`, `\08x`: `\08x`, `\`: `\`, `\377\400`: "\xff\\400", `\134040`: `\040`,
	} {
		if got := unescapeOctal(in); got != want {
			t.Errorf("unescapeOctal(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestAt checks that At returns the mount that a process sees at the path. Another mount may cover the mount point, or
// a parent directory of the mount point.
func TestAt(t *testing.T) {
	const base = "27 1 254:1 / / rw - ext4 /dev/vda1 rw\n40 27 254:16 / /mnt/disks/a rw - xfs /dev/vdb rw\n"
	for _, test := range []struct {
		name, more, path string
		want             int
	}{
		{"alone", "", "/mnt/disks/a", 40},
		{"below it", "", "/mnt/disks/a/b", 40},
		{"beside it", "", "/mnt/disks/ab", 27},
		{"a mount on it", "50 40 0:50 / /mnt/disks/a rw - nfs4 x:/ rw\n", "/mnt/disks/a", 50},
		{"two mounts on it", "50 40 0:50 / /mnt/disks/a rw - nfs4 x:/ rw\n51 50 0:51 / /mnt/disks/a rw - tmpfs x rw\n", "/mnt/disks/a", 51},
		{"a mount in it", "50 40 0:50 / /mnt/disks/a/b rw - nfs4 x:/ rw\n", "/mnt/disks/a", 40},
		{"a mount over the directory above it", "50 27 0:50 / /mnt/disks rw - nfs4 x:/ rw\n", "/mnt/disks/a", 50},
		{"a mount with another beginning", "50 27 0:50 / /mnt/dis rw - nfs4 x:/ rw\n", "/mnt/disks/a", 40},
		{"a new root", "50 27 0:50 / / rw - tmpfs x rw\n", "/mnt/disks/a", 50},
		{"mounted on what lies over the directory", "50 27 0:50 / /mnt/disks rw - tmpfs x rw\n51 50 254:16 / /mnt/disks/a rw - xfs /dev/vdb rw\n", "/mnt/disks/a", 51},
	} {
		tree, err := ParseTree(strings.NewReader(base + test.more))
		if err != nil {
			t.Fatal(err)
		}
		if m := At(tree, test.path); m == nil || m.ID != test.want {
			t.Errorf("%s: %+v, want %d", test.name, m, test.want)
		}
	}
	if m := At(nil, "/"); m != nil {
		t.Errorf("in no tree: %+v", m)
	}
}

// TestAtOfAny checks with random trees that At returns the same mount as a simple walk over the whole tree.
func TestAtOfAny(t *testing.T) {
	onWay := func(point, path string) bool {
		rest, below := strings.CutPrefix(path, strings.TrimSuffix(point, "/"))
		return point == path || below && strings.HasPrefix(rest, "/")
	}
	walk := func(tree []Mount, path string) (at *Mount) {
		for range tree {
			var next *Mount
			for i := range tree {
				m := &tree[i]
				first := m.Parent == m.ID || !slices.ContainsFunc(tree, func(o Mount) bool { return o.ID == m.Parent })
				if !onWay(m.Path, path) || at != nil && (m.Parent != at.ID || m == at) || at == nil && !first {
					continue
				}
				if next == nil || len(m.Path) <= len(next.Path) {
					next = m
				}
			}
			if next == nil {
				break
			}
			at = next
		}
		return at
	}
	random := rand.New(rand.NewPCG(1, 2))
	paths := []string{"/", "/a", "/a/b", "/a/b/c", "/ab", "/a//b", "//a", "/a/", "", "a", "a/b"}
	found := 0
	for range 20000 {
		tree := make([]Mount, random.IntN(7))
		for i := range tree {
			tree[i].ID, tree[i].Parent, tree[i].Path = 10+i, 9+random.IntN(8), paths[random.IntN(5)]
		}
		for _, path := range paths {
			got, want := At(tree, path), walk(tree, path)
			if got != want {
				t.Fatalf("%s: %+v, want %+v, in %+v", path, got, want, tree)
			}
			if got != nil {
				found++
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d were found", found)
	}
}
