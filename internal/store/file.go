package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"hotmount/internal/disk"
)

// limit is the size in bytes of the largest file that package store reads. The largest history (historySize) is smaller
// than this limit.
const limit = 4 << 20

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAll(file)
}

func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && len(data) > limit {
		err = fmt.Errorf("the file is larger than %d bytes", limit)
	}
	return data, err
}

// isOther reports whether another version of hotmount wrote a file. The parameter `found` is the version in the file, and
// err is the error of readJSON. In a file of another version, a key may have another type, and readJSON then returns an
// error.
func isOther(found int, err error) bool { return found != version && (err == nil || found != 0) }

// The function `newer` returns the error for a file that another version of hotmount wrote. The error contains a command
// that helps.
func newer(path string, found int) error {
	return fmt.Errorf("cannot use %s: the file has version %d, but this hotmount knows version %d"+disk.Helps+"install the version that wrote the file; to see which versions were installed: zgrep -h 'installed hotmount:' /var/log/dpkg.log*", path, found, version)
}

// The function `damaged` returns the error for an unreadable file that hotmount can do without. The error contains a
// command that moves the file away, and the command to run afterwards (parameter `then`). The error also states the
// purpose of both commands (parameter `to`).
func damaged(path string, err error, to, then string) error {
	return fmt.Errorf("cannot read %s: %w"+disk.Helps+"to %s: mv %[1]s %[1]s.bad && %[4]s", path, err, to, then)
}

func readJSON(path string, into any) error {
	data, err := readFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func writeJSON(path string, v any, synced bool) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return replace(path, append(data, '\n'), synced)
}

// The type `list` is the content of a file that contains records about filesystems or about other content of disks. The
// newest record is at the end of the list.
type list[T any] struct {
	Version     int `json:"version"`
	Filesystems []T `json:"filesystems"`
}

// readList returns the records of a list, or none if the file does not exist. If the file has another format version,
// readList returns an error and all records that it can parse. hotmount still recognises volumes by these records.
func readList[T any](path string) ([]T, error) {
	var all list[T]
	err := readJSON(path, &all)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case isOther(all.Version, err):
		return all.Filesystems, newer(path, all.Version)
	case err != nil:
		return nil, damaged(path, err, "begin a new file", "hotmount rescan")
	}
	return all.Filesystems, nil
}

// saveList replaces the file of a list and syncs it. saveList keeps only the newest records.
func saveList[T any](s Store, path string, all []T) error {
	return s.save(path, list[T]{version, lastKept(all)})
}

// mostKept is the largest number of entries in a list that grows without an operator's action. The list of block
// volumes (givenOut) has no limit.
const mostKept = 1024

// lastKept returns the last mostKept entries of the list, or all entries of a shorter list.
func lastKept[T any](list []T) []T { return list[max(0, len(list)-mostKept):] }

// The function `replace` writes a new file and renames it to path. The file at path therefore always contains either the
// old or the new content. If synced is set, the content and the name of the new file are on the disk when the call
// returns.
func replace(path string, data []byte, synced bool) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err == nil && synced {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, removeIfThere(tmp.Name()))
	}
	if synced {
		return syncDir(filepath.Dir(path))
	}
	return nil
}

// makeSynced makes a directory in an existing directory. The new directory survives a power cut.
func makeSynced(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// The function `exists` reports whether the file exists. The result is also true for any error except fs.ErrNotExist.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// The function `wrap` puts the formatted text before the error. The result is nil if err is nil.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// The method `locked` takes the lock of the state directory, calls the function `f`, and frees the lock.
func (s Store) locked(f func() error) (err error) {
	lock, err := os.OpenFile(filepath.Join(s.State, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return s.failed(err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("cannot lock %s: %w", lock.Name(), err)
	}
	return f()
}
