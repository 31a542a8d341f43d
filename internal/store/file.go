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

// limit is the largest file that is read, in bytes. hotmount writes far smaller ones.
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
		err = fmt.Errorf("it is larger than %d bytes", limit)
	}
	return data, err
}

// newer returns the error for a file of another version. It has what helps, and so has damaged.
func newer(path string, found int) error {
	return fmt.Errorf("cannot use %s: it has version %d, this hotmount knows %d"+disk.Helps+"install the version that wrote the file; to see which versions were installed: zgrep -h 'installed hotmount:' /var/log/dpkg.log*", path, found, version)
}

// rescan follows when a file that is begun anew was moved away.
const rescan = "hotmount rescan; the file is begun anew then"

// damaged returns the error for a file that cannot be read and can be begun anew. then is the next command.
func damaged(path string, err error, then string) error {
	return fmt.Errorf("cannot read %s: %w"+disk.Helps+"mv %[1]s %[1]s.bad && %[3]s", path, err, then)
}

func readJSON(path string, into any) error {
	data, err := readFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func writeSynced(path string, v any) error { return writeFile(path, v, true) }

func writeFile(path string, v any, synced bool) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return replace(path, append(data, '\n'), synced)
}

// replace replaces the file as a whole. If synced, the new content and its name are on the disk when it returns.
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

// makeSynced makes a directory, which survives a power cut, in an existing one.
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

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// locked runs f while no other process runs locked.
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
