package store

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// The reserve is space that hotmount occupies in advance on the filesystem of the state directory, usually the root
// filesystem. The reserve consists of small files, because a filesystem may also run out of inodes. A mount point needs
// two inodes and a block. XFS makes no inode if less than 200 KiB is free.
const (
	reserveFiles = 64
	reserveSize  = 64 << 10
)

// WithReserve calls do(). If do() fails because the filesystem is full, WithReserve frees the reserve and repeats the
// call. After the repeated call, WithReserve makes the freed files again, as far as the free space allows.
func (s Store) WithReserve(do func() error) error {
	err := do()
	if !errors.Is(err, unix.ENOSPC) {
		return err
	}
	dir, openErr := os.Open(s.reserveDir())
	if openErr != nil {
		return err // the reserve was never taken
	}
	defer dir.Close()
	// The lock keeps other hotmount processes from occupying the freed space.
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

// Recover checks whether a state directory that was full can be written again. If enough space is free (hasRoom),
// Recover also occupies the missing part of the reserve. Recover does nothing while another process uses the reserve.
// Otherwise Recover could treat the reserve that the other process has freed as free space. Recover ignores its own
// errors, because the next call of Recover tries again.
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
	if unix.Statfs(s.State, &st) != nil || !hasRoom(&st) {
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

// hasRoom reports whether the filesystem has at least four times as many free bytes and free inodes as the reserve
// needs. st.Files is 0 for a filesystem that does not count inodes.
func hasRoom(st *unix.Statfs_t) bool {
	return st.Bavail*uint64(st.Bsize) >= 4*reserveFiles*reserveSize && (st.Files == 0 || st.Ffree >= 4*reserveFiles)
}

// takeAll makes the files of the reserve, and stops at the first file that it cannot make.
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

// The function `unwritable` describes why nothing can be written to the filesystem now, or returns "" if no reason is
// visible. Space that the filesystem reserves for root does not count as free.
func unwritable(st *unix.Statfs_t) string {
	switch {
	case st.Flags&unix.ST_RDONLY != 0:
		return "the directory is read-only now"
	// st.Files is 0 for a filesystem that does not count inodes, such as Btrfs.
	case st.Bavail*uint64(st.Bsize) < 512<<10, st.Files != 0 && st.Ffree < 2:
		return "the filesystem of the directory is full now"
	}
	return ""
}

// fullFile returns the path of a file that exists if the last check found the filesystem full.
func (s Store) fullFile() string { return filepath.Join(s.Runtime, "state-full") }

func (s Store) reserveDir() string { return filepath.Join(s.State, "reserve") }

func (s Store) reserveFile(i int) string { return filepath.Join(s.reserveDir(), strconv.Itoa(i)) }
