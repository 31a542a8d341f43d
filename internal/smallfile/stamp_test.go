package smallfile

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func stat(t *testing.T, path string) (st unix.Stat_t) {
	t.Helper()
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// A file of the same length and with the same time of its content is another one if its
// inode has changed: who writes can set that time, but not the other.
func TestStampOfAFileMadeToLookOld(t *testing.T) {
	path, before := filepath.Join(t.TempDir(), "f"), time.Unix(1e9, 0)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, before, before); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	first := stat(t, path)
	s := StampOf(path)
	s.Young = false // as it is later
	if !s.Holds() {
		t.Error("nothing has changed")
	}
	now := first
	for now.Ctim == first.Ctim { // until the kernel's next tick
		write("b")
		now = stat(t, path)
	}
	if now.Mtim != first.Mtim || now.Size != first.Size || now.Ino != first.Ino {
		t.Fatalf("%+v, before %+v", now, first)
	}
	if s.Holds() {
		t.Error("a change is not seen")
	}
}

// TestStampOfOpen: the file that is open is known though it is young, and no other that is at its path.
func TestStampOfOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write := func(path string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("a"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		change func() error
		holds  bool
	}{
		"it":       {func() error { return nil }, true},
		"replaced": {func() error { write(path + "2"); return os.Rename(path+"2", path) }, false},
		"removed":  {func() error { return os.Remove(path) }, false},
	} {
		write(path)
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := tt.change(); err != nil {
			t.Fatal(err)
		}
		if s, err := StampOfOpen(path, f); err != nil || s.Holds() != tt.holds {
			t.Errorf("%s: %+v, error %v", name, s, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := StampOfOpen(path, f); err == nil {
			t.Errorf("%s: a file that is closed has a stamp", name)
		}
	}
}

// A file is young for two seconds after its last change, and while the clock is before
// that.
func TestYoung(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	i := stat(t, path)
	changed := time.Unix(i.Ctim.Unix())
	synctest.Test(t, func(t *testing.T) { // begins in the year 2000
		for _, test := range []struct {
			age   time.Duration
			young bool
		}{{-time.Second, true}, {0, true}, {2*time.Second - 1, true}, {2 * time.Second, false}} {
			time.Sleep(time.Until(changed.Add(test.age)))
			if s := StampOf(path); s.Young != test.young || s.Holds() == test.young {
				t.Errorf("after %s: %+v", test.age, s)
			}
		}
	})
}
