// Package smallfile reads files that are small, many of them for each look at a disk:
// attributes of sysfs, tables of procfs, what hotmount keeps itself. It does without
// os.Open, which asks for the descriptor's flags, sets them and tries to have Go's
// poller watch it: five system calls more for each file.
package smallfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxAttribute is the most in bytes that a sysfs attribute can hold: one page
// (Documentation/filesystems/sysfs.rst), 64 KiB on some arm64 kernels.
const maxAttribute = 64 << 10

// first is how much is asked for first, in bytes.
const first = 512

// Read gives the whole file. One of more than limit bytes is an error; one that can
// not be opened or read is an *fs.PathError.
func Read(path string, limit int) ([]byte, error) {
	fd, err := open(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return read(fd, path, limit, false)
}

// Attribute gives the whole of a sysfs attribute. It is not read to its end: the kernel
// hands out in one read(2) all that fits (seq_read_iter in fs/seq_file.c, of the one
// record that an attribute is). Errors are as those of Read.
func Attribute(path string) (string, error) {
	fd, err := open(path)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	b, err := read(fd, path, maxAttribute, true)
	return string(b), err
}

// Open opens a file for reading that no poller has to watch.
func Open(path string) (*os.File, error) {
	fd, err := open(path)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// ReadDir gives what is in the directory, as os.ReadDir does.
func ReadDir(path string) ([]fs.DirEntry, error) {
	dir, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

func open(path string) (int, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// read reads to the end of the file, or until less comes than was asked for.
func read(fd int, path string, limit int, short bool) ([]byte, error) {
	b := make([]byte, 0, first)
	for {
		n, err := retry(func() (int, error) { return unix.Read(fd, b[len(b):cap(b)]) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		b = b[:len(b)+n]
		switch {
		case len(b) > limit:
			return nil, fmt.Errorf("cannot read %s: more than %d bytes", path, limit)
		case n == 0, short && len(b) < cap(b):
			return b, nil
		case len(b) == cap(b):
			b = slices.Grow(b, len(b))
		}
	}
}

// retry calls again what a signal has interrupted; Go's own come at any time.
func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
