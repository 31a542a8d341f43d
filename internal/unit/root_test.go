//go:build root

package unit

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// ownNamespace gives the test's thread its own mount namespace, which ends with the test.
func ownNamespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // never unlocked, because the thread must end with the goroutine
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
}

func mount(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}

// classDir makes a class directory. When the test ends, classDir clears the immutable flag of all remaining entries.
func classDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disks")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, name := range []string{uuid, draftName(uuid)} {
			setFlag(t, filepath.Join(dir, name), false)
			if d, err := openDirectory(filepath.Join(dir, name)); err == nil {
				if info, err := os.Lstat(filepath.Join(dir, name, marker)); err == nil && info.Mode().IsRegular() && unmark(d) != nil {
					t.Error("the marker stays")
				}
				d.Close()
			}
		}
	})
	return dir
}

func flagOf(t *testing.T, dir string) (set, known bool) {
	t.Helper()
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	flags, err := unix.IoctlGetUint32(int(d.Fd()), unix.FS_IOC_GETFLAGS)
	if errors.Is(err, unix.ENOTTY) {
		return false, false
	}
	if err != nil {
		t.Fatal(err)
	}
	return flags&immutable != 0, true
}

func setFlag(t *testing.T, path string, on bool) {
	t.Helper()
	d, err := openDirectory(path)
	if err != nil {
		return // the entry is gone, or is not a directory
	}
	defer d.Close()
	if err := setImmutable(d, on); err != nil {
		t.Error(err)
	}
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func TestMakeAndRemove(t *testing.T) {
	dir := classDir(t)
	point := filepath.Join(dir, uuid)
	for range 2 { // the second call finds an existing mount point
		if err := MakeMountPoint(dir, uuid); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Lstat(point)
	if err != nil || !info.IsDir() || info.Mode().Perm()&^0o755 != 0 {
		t.Errorf("made %v, %v", info, err)
	}
	set, known := flagOf(t, point)
	if set != known {
		t.Errorf("immutable: %v, the filesystem can: %v", set, known)
	}
	if err := os.WriteFile(filepath.Join(point, "f"), nil, 0o600); known && !errors.Is(err, unix.EPERM) {
		t.Errorf("writing into the mount point: %v", err)
	} else if !known && os.Remove(filepath.Join(point, "f")) != nil {
		t.Fatal("cannot clean up")
	}
	// Like this test, the provisioner empties the directory of a released volume with os.RemoveAll.
	if err := os.RemoveAll(filepath.Join(point, marker)); known && !errors.Is(err, unix.EPERM) {
		t.Errorf("the mount point was emptied: %v", err)
	} else if !known && MakeMountPoint(dir, uuid) != nil {
		t.Fatal("cannot go on")
	}
	// While hotmount makes or removes the directory, the directory is not immutable. Even without this flag, the marker
	// must stay.
	setFlag(t, point, false)
	if err := os.RemoveAll(filepath.Join(point, marker)); known && !errors.Is(err, unix.EPERM) {
		t.Errorf("the marker was removed: %v", err)
	}
	setFlag(t, point, true)
	names, err := Leftovers(dir)
	if err != nil || !slices.Equal(names, []string{uuid}) {
		t.Errorf("leftovers %q, %v", names, err)
	}
	for range 2 { // the second call finds no mount point
		if err := RemoveMountPoint(dir, uuid); err != nil {
			t.Error(err)
		}
		if exists(t, point) {
			t.Error("the mount point is still there")
		}
	}
}

// TestImmutableWhereItCan checks that the tests run on a filesystem that supports the immutable flag, because the other
// tests would prove nothing without the flag.
func TestImmutableWhereItCan(t *testing.T) {
	if _, known := flagOf(t, t.TempDir()); !known {
		t.Fatalf("the filesystem of %s has no immutable flag: set TMPDIR to a directory on ext4, XFS or btrfs", os.TempDir())
	}
}

// TestWithoutFlag checks that hotmount works on a filesystem without the immutable flag (ramfs).
func TestWithoutFlag(t *testing.T) {
	ownNamespace(t)
	dir := classDir(t)
	if err := unix.Mount("ramfs", dir, "ramfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	if err := MakeMountPoint(dir, uuid); err != nil {
		t.Fatal(err)
	}
	if _, known := flagOf(t, filepath.Join(dir, uuid)); known {
		t.Error("ramfs has the flag: this test needs another filesystem")
	}
	if err := RemoveMountPoint(dir, uuid); err != nil {
		t.Error(err)
	}
}

// TestLiveMount checks that hotmount does not remove a directory on which a filesystem is mounted. hotmount must also
// refuse to make a mount point of this directory.
func TestLiveMount(t *testing.T) {
	ownNamespace(t)
	dir := classDir(t)
	point := filepath.Join(dir, uuid)
	if err := MakeMountPoint(dir, uuid); err != nil {
		t.Fatal(err)
	}
	mount(t, point)
	if err := MakeMountPoint(dir, uuid); err == nil {
		t.Error("made a mount point where something is mounted")
	}
	if err := RemoveMountPoint(dir, uuid); err != nil {
		t.Error(err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(point, &st); err != nil || st.Type != unix.TMPFS_MAGIC {
		t.Errorf("the mount is gone: type %#x, %v", st.Type, err)
	}
}

// TestMountedInBetween checks that RemoveMountPoint leaves a mount point unchanged if a filesystem is mounted on it
// during the removal. The test mounts the filesystem on the same directory through a second path (a bind mount). The
// mount point's own path therefore does not show the mounted filesystem.
func TestMountedInBetween(t *testing.T) {
	ownNamespace(t)
	dir, other := classDir(t), t.TempDir()
	point := filepath.Join(dir, uuid)
	if err := MakeMountPoint(dir, uuid); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(dir, other, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(other, unix.MNT_DETACH)
	if err := unix.Mount("tmpfs", filepath.Join(other, uuid), "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	if err := RemoveMountPoint(dir, uuid); err != nil {
		t.Error(err)
	}
	if set, known := flagOf(t, point); set != known || !exists(t, filepath.Join(point, marker)) {
		t.Errorf("immutable: %v, the filesystem can: %v", set, known)
	}
}

// TestBindMount makes the checks of TestLiveMount with a bind mount from the same filesystem as the class directory.
func TestBindMount(t *testing.T) {
	ownNamespace(t)
	dir := classDir(t)
	point := filepath.Join(dir, uuid)
	if err := MakeMountPoint(dir, uuid); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(t.TempDir(), point, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(point, unix.MNT_DETACH)
	if err := MakeMountPoint(dir, uuid); err == nil {
		t.Error("made a mount point where something is mounted")
	}
	if err := RemoveMountPoint(dir, uuid); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(point, "f"), nil, 0o600); err != nil {
		t.Errorf("the mount is gone: %v", err)
	}
}

// remedy moves a file away with the commands that the error message contains.
func remedy(t *testing.T, err error, file string) {
	t.Helper()
	_, what, _ := strings.Cut(err.Error(), "check the contents of the directory, then: ")
	first, then, told := strings.Cut(what, "; move the contents away; ")
	if !told {
		t.Fatal(err)
	}
	// The shell runs without -e, because chattr fails if the directory has no marker. The commands after chattr must
	// run even if chattr fails.
	if out, err := exec.Command("sh", "-xc", first+"; mv "+file+" "+t.TempDir()+" || exit; "+then).CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s", file, err, out)
	}
}

// TestNotEmpty checks that hotmount keeps another program's files, even in a directory that hotmount was making or
// removing. The commands in the error message must remove the cause of the error.
func TestNotEmpty(t *testing.T) {
	for _, name := range []string{uuid, draftName(uuid)} {
		dir := classDir(t)
		point := filepath.Join(dir, name)
		file := filepath.Join(point, "f")
		if err := os.Mkdir(point, 0o755); err != nil {
			t.Fatal(err)
		}
		d, err := openDirectory(point)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(file, []byte("data"), 0o600), mark(d), d.Close()); err != nil {
			t.Fatal(err)
		}
		setFlag(t, point, true)
		err = MakeMountPoint(dir, uuid)
		if !errors.Is(err, ErrNotEmpty) {
			t.Fatalf("%s: made: %v", name, err)
		}
		if err := RemoveMountPoint(dir, uuid); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("%s: removed: %v", name, err)
		}
		if data, err := os.ReadFile(file); err != nil || string(data) != "data" {
			t.Errorf("%s: the file holds %q, %v", name, data, err)
		}
		if set, known := flagOf(t, point); set != known {
			t.Errorf("%s: immutable: %v, the filesystem can: %v", name, set, known)
		}
		remedy(t, err, file)
		if err := MakeMountPoint(dir, uuid); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDraftInTheWay checks that a mount point stays unchanged if hotmount cannot remove it.
func TestDraftInTheWay(t *testing.T) {
	dir := classDir(t)
	if err := MakeMountPoint(dir, uuid); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, draftName(uuid), "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := RemoveMountPoint(dir, uuid); !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), filepath.Join(dir, draftName(uuid))+":") {
		t.Errorf("removed: %v", err)
	}
	point := filepath.Join(dir, uuid)
	if set, known := flagOf(t, point); set != known || !exists(t, filepath.Join(point, marker)) {
		t.Errorf("immutable: %v, the filesystem can: %v", set, known)
	}
}

// TestInterrupted checks a mount point that a crash or an older version left incomplete. hotmount must be able to
// complete or remove an incomplete mount point. A mount point without the marker must never have its final name.
func TestInterrupted(t *testing.T) {
	for _, step := range []string{"mkdir", "mark", "renamed", "old", "old, immutable"} {
		for _, remove := range []bool{false, true} {
			dir := classDir(t)
			name := draftName(uuid)
			if step == "renamed" || strings.HasPrefix(step, "old") {
				name = uuid
			}
			point := filepath.Join(dir, name)
			if err := os.Mkdir(point, 0o755); err != nil {
				t.Fatal(err)
			}
			if step == "mark" || step == "renamed" {
				d, err := openDirectory(point)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(mark(d), d.Close()); err != nil {
					t.Fatal(err)
				}
			}
			setFlag(t, point, step == "old, immutable")
			if remove {
				if err := RemoveMountPoint(dir, uuid); err != nil {
					t.Errorf("%s: %v", step, err)
				}
				if names, err := Leftovers(dir); err != nil || len(names) != 0 {
					t.Errorf("%s: left over: %q, %v", step, names, err)
				}
				continue
			}
			if err := MakeMountPoint(dir, uuid); err != nil {
				t.Errorf("%s: %v", step, err)
			}
			if names, err := Leftovers(dir); err != nil || !slices.Equal(names, []string{uuid}) || !exists(t, filepath.Join(dir, uuid, marker)) {
				t.Errorf("%s: found %q, %v", step, names, err)
			}
		}
	}
}

// TestMarkerThatIsNone checks that hotmount keeps another program's file that has the name of the marker. The commands
// in the error message must remove the cause of the error.
func TestMarkerThatIsNone(t *testing.T) {
	for _, content := range []string{"-> /etc/passwd", "data", "/"} {
		dir := classDir(t)
		point := filepath.Join(dir, uuid)
		err := os.Mkdir(point, 0o755)
		file := filepath.Join(point, marker)
		switch target, link := strings.CutPrefix(content, "-> "); {
		case err != nil:
		case link:
			err = os.Symlink(target, file)
		case content == "/":
			err = os.Mkdir(file, 0o755)
		default:
			// Another program has written to hotmount's marker, and the marker is immutable again.
			if err = os.WriteFile(file, []byte(content), 0o600); err == nil {
				d, openErr := openDirectory(point)
				err = errors.Join(openErr, mark(d), d.Close())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		setFlag(t, file, true)
		setFlag(t, point, true)
		made := MakeMountPoint(dir, uuid)
		if !errors.Is(made, ErrNotEmpty) {
			t.Fatalf("%s: made: %v", content, made)
		}
		if err := RemoveMountPoint(dir, uuid); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("%s: removed: %v", content, err)
		}
		if !exists(t, file) {
			t.Errorf("%s: the file is gone", content)
		}
		remedy(t, made, file)
		if err := MakeMountPoint(dir, uuid); err != nil {
			t.Errorf("%s: %v", content, err)
		}
	}
}

// TestLedElsewhere checks that hotmount follows no symbolic link, and accepts only a directory as a mount point.
func TestLedElsewhere(t *testing.T) {
	outside := t.TempDir()
	victim := filepath.Join(outside, uuid)
	if err := os.Mkdir(victim, 0o755); err != nil {
		t.Fatal(err)
	}
	check := func(what, dir, name string) {
		t.Helper()
		if err := MakeMountPoint(dir, name); err == nil {
			t.Errorf("%s: made", what)
		}
		if err := RemoveMountPoint(dir, name); err == nil {
			t.Errorf("%s: removed", what)
		}
		if !exists(t, victim) {
			t.Fatalf("%s: the directory elsewhere is gone", what)
		}
		if set, _ := flagOf(t, victim); set {
			t.Errorf("%s: the directory elsewhere is immutable", what)
		}
	}
	link := func(target, name string) string {
		t.Helper()
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
		return name
	}
	dir := classDir(t)
	link(victim, filepath.Join(dir, uuid))
	check("the mount point is a symlink", dir, uuid)
	check("the class directory is a symlink", link(outside, filepath.Join(t.TempDir(), "disks")), uuid)
	above := link(filepath.Dir(outside), filepath.Join(t.TempDir(), "above"))
	check("a symlink above", filepath.Join(above, filepath.Base(outside)), uuid)

	file := filepath.Join(classDir(t), uuid)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check("a file", filepath.Dir(file), uuid)
	fifo := filepath.Join(classDir(t), uuid)
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	check("a FIFO", filepath.Dir(fifo), uuid)
	for _, name := range []string{"", ".", "..", "x", "../" + filepath.Base(outside) + "/" + uuid, uuid + "/", "/" + uuid} {
		check("the name "+name, classDir(t), name)
	}
}

func TestNoClassDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	if err := MakeMountPoint(dir, uuid); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("made: %v", err)
	}
	if err := RemoveMountPoint(dir, uuid); err != nil {
		t.Errorf("removed: %v", err)
	}
	if names, err := Leftovers(dir); err != nil || names != nil {
		t.Errorf("leftovers %q, %v", names, err)
	}
}
