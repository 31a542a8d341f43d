package smallfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, size := range []int{0, 1, first - 1, first, first + 1, 2 * first, 5000} {
		want := strings.Repeat("x", size)
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(path, 5000); err != nil || string(got) != want {
			t.Errorf("of %d bytes %d are read, error %v", size, len(got), err)
		}
		if got, err := Attribute(path); err != nil || got != want {
			t.Errorf("of an attribute of %d bytes %d are read, error %v", size, len(got), err)
		}
	}
	if got, err := Read(path, 4999); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "4999") {
		t.Errorf("of more than is allowed %d bytes are read, error %v", len(got), err)
	}
	var e *fs.PathError
	for _, path := range []string{path + "/x", filepath.Dir(path)} {
		if _, err := Read(path, 1); !errors.As(err, &e) || e.Path != path {
			t.Errorf("%s: error %v", path, err)
		}
	}
	if _, err := Attribute(path + "no"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of what is not there: %v", err)
	}
}

// A table of many records comes in pieces, of which none fills what was asked for.
func TestReadsToTheEnd(t *testing.T) {
	// Each read(2) gives one message.
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	for range 3 {
		if _, err := unix.Write(ends[1], []byte("record\n")); err != nil {
			t.Fatal(err)
		}
	}
	unix.Close(ends[1])
	if b, err := read(ends[0], "table", 100, false); err != nil || string(b) != "record\nrecord\nrecord\n" {
		t.Errorf("%q, error %v", b, err)
	}
}

func TestOpen(t *testing.T) {
	f, err := Open("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || !strings.HasPrefix(string(b), "Name:") {
		t.Errorf("%q, error %v", b, err)
	}
	if _, err := Open("/nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestReadDir(t *testing.T) {
	for _, dir := range []string{"/proc/self", "/etc", "/nowhere", "/proc/self/status"} {
		want, wantErr := os.ReadDir(dir)
		got, err := ReadDir(dir)
		same := slices.EqualFunc(got, want, func(a, b fs.DirEntry) bool { return a.Name() == b.Name() && a.IsDir() == b.IsDir() })
		if !same || (err == nil) != (wantErr == nil) || errors.Is(err, fs.ErrNotExist) != errors.Is(wantErr, fs.ErrNotExist) {
			t.Errorf("%s: %v, error %v, want %v, error %v", dir, got, err, want, wantErr)
		}
	}
}

// What can not be looked at is not what is not there.
func TestStampOfWhatCanNotBeLookedAt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	absent := StampOf(path)
	if absent.Young || !absent.Holds() {
		t.Errorf("of nothing: %+v", absent)
	}
	if err := os.Symlink("f", path); err != nil {
		t.Fatal(err)
	}
	loop := StampOf(path)
	if absent.Holds() || !loop.Young || loop.Holds() {
		t.Errorf("a link to itself is there now: the former stamp holds %v, the new one is %+v", absent.Holds(), loop)
	}
}
