package store

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// The function `kept` returns the number of reserve files that exist and have their full size.
func kept(t *testing.T, s Store) (n int) {
	t.Helper()
	for i := range reserveFiles {
		info, err := os.Lstat(s.reserveFile(i))
		if err == nil && info.Size() == reserveSize {
			n++
		} else if err == nil || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("file %d: %v, %v", i, info, err)
		}
	}
	return n
}

// TestReserve checks that hotmount frees the reserve only if the filesystem is full, and occupies the reserve again
// afterwards.
func TestReserve(t *testing.T) {
	s := made(t)
	full := fmt.Errorf("cannot make it: %w", unix.ENOSPC)
	for name, tt := range map[string]struct {
		reserve bool
		first   error
		calls   int
		want    error
	}{
		"nothing to do":        {true, nil, 1, nil},
		"another error":        {true, unix.EROFS, 1, unix.EROFS},
		"full":                 {true, full, 2, nil},
		"full, and no reserve": {false, full, 1, unix.ENOSPC},
		"full, all given away": {false, full, 1, unix.ENOSPC},
	} {
		if err := os.RemoveAll(s.reserveDir()); err != nil {
			t.Fatal(err)
		}
		if tt.reserve {
			s.Recover()
		} else if strings.Contains(name, "away") {
			if err := os.Mkdir(s.reserveDir(), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		before, calls := kept(t, s), 0
		if (before == reserveFiles) != tt.reserve {
			t.Fatalf("%s: %d files are kept", name, before)
		}
		err := s.WithReserve(func() error {
			if calls++; calls == 1 {
				return tt.first
			}
			if n := kept(t, s); n != 0 {
				t.Errorf("%s: %d files are kept meanwhile", name, n)
			}
			return nil
		})
		if calls != tt.calls || !errors.Is(err, tt.want) {
			t.Errorf("%s: %d calls, %v", name, calls, err)
		}
		if after := kept(t, s); after != before {
			t.Errorf("%s: %d files are kept, before %d", name, after, before)
		}
	}
}

// TestRecover checks that Recover completes a reserve file that a crash has truncated. TestFullRoot in internal/daemon
// checks that a small filesystem gets no reserve.
func TestRecover(t *testing.T) {
	s := made(t)
	s.Recover()
	if err := errors.Join(os.Truncate(s.reserveFile(3), 0), os.Remove(s.reserveFile(5))); err != nil {
		t.Fatal(err)
	}
	s.Recover()
	if n := kept(t, s); n != reserveFiles {
		t.Errorf("%d files are kept", n)
	}
	Store{State: t.TempDir() + "/none"}.Recover()
}

// TestRecoverWaits checks that Recover does not occupy the reserve again while another process still uses the freed
// space. During this time, hotmount must not format any disk.
func TestRecoverWaits(t *testing.T) {
	s := made(t)
	s.Recover()
	if err := replace(s.fullFile(), nil, false); err != nil {
		t.Fatal(err)
	}
	calls := 0
	err := s.WithReserve(func() error {
		if calls++; calls == 1 {
			return unix.ENOSPC
		}
		s.Recover() // another process calls this
		if n := kept(t, s); n != 0 {
			t.Errorf("%d files are taken meanwhile", n)
		}
		if got := standing(s, facts("vdb", 1, ""), "b").Formatting; got != disk.StateFull {
			t.Errorf("meanwhile: %q", got)
		}
		return nil
	})
	if n := kept(t, s); err != nil || calls != 2 || n != reserveFiles {
		t.Errorf("%d calls, %v, %d files are kept", calls, err, n)
	}
}

// TestRoomy checks that hasRoom requires four times the size of the reserve, in bytes and in inodes.
func TestRoomy(t *testing.T) {
	for want, all := range map[bool][]unix.Statfs_t{
		true:  {{Bsize: 4096, Bavail: 4096, Files: 512, Ffree: 256}, {Bsize: 4096, Bavail: 4096}},
		false: {{Bsize: 4096, Bavail: 4095, Files: 512, Ffree: 256}, {Bsize: 4096, Bavail: 4096, Files: 512, Ffree: 255}, {Bsize: 4096, Bavail: 4095}},
	} {
		for _, st := range all {
			if got := hasRoom(&st); got != want {
				t.Errorf("%+v: %v", st, got)
			}
		}
	}
}

// TestFullEnds checks that a full state directory stops formatting until Recover finds that the directory can be
// written again. A full state directory must not count as the loss of a record.
func TestFullEnds(t *testing.T) {
	s := made(t)
	if err := replace(s.fullFile(), nil, false); err != nil {
		t.Fatal(err)
	}
	if got := standing(s, facts("vdb", 1, ""), "b").Formatting; got != disk.StateFull {
		t.Errorf("full: %q", got)
	}
	s.Recover()
	if got := standing(s, facts("vdb", 1, ""), "b").Formatting; got != "" {
		t.Errorf("with room again: %q", got)
	}
}

// TestUnwritable checks that a filesystem counts as unwritable if it has no space, has no inodes, or is read-only.
func TestUnwritable(t *testing.T) {
	for want, all := range map[string][]unix.Statfs_t{
		"": {{Bsize: 1024, Bavail: 512, Files: 9, Ffree: 2}, {Bsize: 4096, Bavail: 128}},
		"the filesystem of the directory is full now": {{Bsize: 1024, Bavail: 511, Files: 9, Ffree: 2}, {Bsize: 4096, Bavail: 128, Files: 9, Ffree: 1}},
		"the directory is read-only now":              {{Bsize: 4096, Bavail: 128, Flags: unix.ST_RDONLY}},
	} {
		for _, st := range all {
			if got := unwritable(&st); got != want {
				t.Errorf("%+v: %q", st, got)
			}
		}
	}
}

// TestGapWords checks that the first failed write stays recorded with its time. The reported text must also state that
// the directory can be written now.
func TestGapWords(t *testing.T) {
	s := made(t)
	_ = s.failed(errors.New("no space left\non device"))
	_ = s.failed(errors.New("another"))
	got := standing(s, facts("vdb", 1, ""), "b").Formatting
	if !strings.HasPrefix(got, disk.StateGap+" at 2") || !strings.HasSuffix(got, " UTC (no space left on device), and a record may be missing; the directory can be written now") {
		t.Errorf("%q", got)
	}
}
