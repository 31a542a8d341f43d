package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"hotmount/internal/disk"
)

const (
	// maxFile is the maximum size of a configuration file in bytes.
	maxFile = 1 << 20
	// maxFiles is the maximum number of drop-ins.
	maxFiles = 64
	// dropIns is the name of the directory for drop-ins beside the configuration file. The *.yaml files in the
	// directory are read after the configuration file.
	dropIns = "config.d"
)

// read returns the configuration file, if it exists, and its drop-ins.
func (src *Source) read() ([]document, error) {
	file, at, explicit := src.path()
	if file == "" {
		return nil, &fault{at, `found "", expected the path of a file`}
	}
	trust := src.Trust
	if trust == nil {
		trust = rootAlone
	}
	// A user who may write to the directory can remove the configuration file, and thereby the exclusions in the file.
	// In a sticky directory such as /tmp, only the directory's owner can remove the files of other owners.
	info, err := os.Stat(filepath.Dir(file))
	if err == nil {
		if info.Mode()&fs.ModeSticky != 0 {
			info = sticky{info}
		}
		if err := trust(info); err != nil {
			return nil, fmt.Errorf("cannot use the configuration in %s: %w", disk.Visible(filepath.Dir(file)), err)
		}
	}
	var documents []document
	data, err := read(file, trust)
	switch {
	case !explicit && errors.Is(err, fs.ErrNotExist) && missing(file):
	case err != nil:
		return nil, unreadable(file, err)
	default:
		documents = append(documents, document{file, data})
	}
	more, err := readDropIns(filepath.Join(filepath.Dir(file), dropIns), trust)
	if err != nil {
		return nil, err
	}
	return append(documents, more...), nil
}

// The type `sticky` is a sticky directory. Mode omits the permission to write that users other than the owner have.
type sticky struct{ fs.FileInfo }

func (s sticky) Mode() fs.FileMode { return s.FileInfo.Mode() &^ 0o022 }

// readDropIns reads the drop-ins in the order of their names. An unreadable drop-in is an error, because the drop-in
// may exclude a disk.
func readDropIns(dir string, trust func(fs.FileInfo) error) ([]document, error) {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) && missing(dir) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err == nil {
		err = trust(info)
	}
	var entries []os.DirEntry
	if err == nil {
		entries, err = os.ReadDir(dir)
	}
	if err != nil {
		return nil, unreadable(dir, err)
	}
	var documents []document
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".yaml") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		name := filepath.Join(dir, e.Name())
		data, err := read(name, trust)
		if err == nil && len(documents) == maxFiles {
			err = fmt.Errorf("expected at most %d files in the directory", maxFiles)
		}
		if err != nil {
			return nil, unreadable(name, err)
		}
		documents = append(documents, document{name, data})
	}
	return documents, nil
}

// missing(name) reports whether the path does not exist. The result is false if any component of the path is a dangling
// symlink, because the symlink was meant to lead to a file.
func missing(name string) bool {
	for path := filepath.Clean(name); ; path = filepath.Dir(path) {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && path != filepath.Dir(path) {
			continue
		}
		_, err := os.Stat(path)
		return err == nil && path != name
	}
}

func read(path string, trust func(fs.FileInfo) error) ([]byte, error) {
	// With O_NONBLOCK, the open of a FIFO does not block the start of the daemon.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("expected a regular file, found mode %s", info.Mode())
	}
	if err := trust(info); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("larger than %s", disk.HumanSize(maxFile))
	}
	return data, err
}

func unreadable(name string, err error) error {
	return fmt.Errorf("cannot read the configuration file %s: %w", disk.Visible(name), withoutPath(err))
}

// withoutPath removes the path from the error. The path in the error may be long, and comes from outside hotmount.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// rootAlone returns an error if a user other than root owns the file or may write to it. If the file has an access
// control list, the group bits of the mode are the mask of the list (acl(5)). The check of the group bits is therefore
// also a check of the access control list.
func rootAlone(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	mode := "0644"
	if info.Mode().IsDir() {
		mode = "0755"
	}
	switch {
	case !ok:
		return errors.New("cannot find out who owns the file, expected root")
	case st.Uid != 0:
		return fmt.Errorf("the file belongs to user %d, expected root", st.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("the file's mode is %04o, expected a file that only root can write (%s)", info.Mode().Perm(), mode)
	}
	return nil
}
