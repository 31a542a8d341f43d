// Package smallfile tells whether a file that was read has changed since.
package smallfile

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Stamp is what stat(2) said of a file or directory, for who keeps what was read of it.
type Stamp struct {
	path string
	// there is what says that it is the same file with the same content; zero for
	// one that is not there.
	there identity
	// Young says that it was changed just before: a further change may leave the
	// same time, which advances by ticks of the kernel (4 to 10 ms, in
	// Documentation/filesystems/multigrain-ts.rst of kernels that do better). It is so of
	// what can not be looked at, too.
	Young bool
}

type identity struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

// old is the age from which a file can not change without a change of its times.
const old = 2 * time.Second

// StampOf is to be taken before the file is read.
func StampOf(path string) Stamp {
	s := Stamp{path: path}
	var i unix.Stat_t
	if _, err := retry(func() (int, error) { return 0, unix.Stat(path, &i) }); err != nil {
		s.Young = !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR)
		return s
	}
	s.there = identityOf(&i)
	age := time.Since(time.Unix(i.Ctim.Unix()))
	s.Young = age < old
	return s
}

// StampOfOpen is the stamp of a file that the caller has written and has open, and that is at the path unless
// somebody has replaced or removed it. As long as it is open no other file gets its inode number, so that it
// need not be doubted because it is young, unless others write into it.
func StampOfOpen(path string, file *os.File) (Stamp, error) {
	var i unix.Stat_t
	if _, err := retry(func() (int, error) { return 0, unix.Fstat(int(file.Fd()), &i) }); err != nil {
		return Stamp{}, &fs.PathError{Op: "fstat", Path: path, Err: err}
	}
	return Stamp{path: path, there: identityOf(&i)}, nil
}

func identityOf(i *unix.Stat_t) identity {
	return identity{uint64(i.Dev), i.Ino, i.Size, i.Mtim, i.Ctim}
}

// Holds says whether the file has not changed since the stamp was taken.
func (s Stamp) Holds() bool {
	now := StampOf(s.path)
	unknown := now.Young && now.there == identity{}
	return !s.Young && !unknown && now.there == s.there
}

// retry calls again what a signal has interrupted; Go's own come at any time.
func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
