package store

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// The reserve is space on the filesystem of the state directory, mostly the root filesystem: small files, because a
// filesystem may also be out of inodes. A mount point needs two inodes and a block. XFS makes none with less than
// 200 KiB free.
const (
	reserveFiles = 64
	reserveSize  = 64 << 10
)

// WithReserve calls do. If the filesystem is full, it gives the reserve back, calls do again, and takes as much of the
// reserve as is still there.
func (s Store) WithReserve(do func() error) error {
	err := do()
	if !errors.Is(err, unix.ENOSPC) {
		return err
	}
	dir, openErr := os.Open(s.reserveDir())
	if openErr != nil {
		return err // it was never taken
	}
	defer dir.Close()
	// Nobody else may take the space meanwhile.
	if lockErr := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); lockErr != nil {
		return errors.Join(err, lockErr)
	}
	var given []string
	for i := range reserveFiles {
		if path := s.reserveFile(i); os.Remove(path) == nil {
			given = append(given, path)
		}
	}
	if len(given) > 0 {
		err = do()
	}
	takeAll(given)
	return err
}

// Recover checks once more a state directory that was full. It also takes what is missing of the reserve if there is
// plenty of room. It does neither while somebody uses what was given back, because that room would count as free.
// Either is tried again at the next call, so no error is reported.
func (s Store) Recover() {
	if makeSynced(s.reserveDir()) != nil {
		return
	}
	dir, err := os.Open(s.reserveDir())
	if err != nil {
		return
	}
	defer dir.Close()
	if syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return
	}
	if exists(s.fullFile()) {
		_ = s.Check()
	}
	var st unix.Statfs_t
	if unix.Statfs(s.State, &st) != nil || !roomy(&st) {
		return
	}
	var missing []string
	for i := range reserveFiles {
		if info, err := os.Lstat(s.reserveFile(i)); err != nil || info.Size() != reserveSize {
			missing = append(missing, s.reserveFile(i))
		}
	}
	takeAll(missing)
}

// roomy reports whether there is plenty of room for the reserve. Files is 0 where inodes are not counted.
func roomy(st *unix.Statfs_t) bool {
	return st.Bavail*uint64(st.Bsize) >= 4*reserveFiles*reserveSize && (st.Files == 0 || st.Ffree >= 4*reserveFiles)
}

// takeAll makes the files until one fails.
func takeAll(paths []string) {
	for _, path := range paths {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return
		}
		err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, reserveSize), f.Close())
		if err != nil {
			_ = os.Remove(path)
			return
		}
	}
}

// unwritable returns why nothing can be written to the filesystem now, empty if there is nothing to see. What is kept for
// root does not count as room.
func unwritable(st *unix.Statfs_t) string {
	switch {
	case st.Flags&unix.ST_RDONLY != 0:
		return "it is read-only now"
	// Files is 0 where inodes are not counted, as on Btrfs.
	case st.Bavail*uint64(st.Bsize) < 512<<10, st.Files != 0 && st.Ffree < 2:
		return "its filesystem is full now"
	}
	return ""
}

// fullFile exists while the last check has found no room.
func (s Store) fullFile() string { return filepath.Join(s.Runtime, "state-full") }

func (s Store) reserveDir() string { return filepath.Join(s.State, "reserve") }

func (s Store) reserveFile(i int) string { return filepath.Join(s.reserveDir(), strconv.Itoa(i)) }
