package store

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// triedFile returns the path of a file in the runtime directory. The file does not survive a reboot, because the kernel
// of the next boot may accept other mount options.
func (s Store) triedFile() string { return filepath.Join(s.Runtime, "options.json") }

// SaveTried records, for each filesystem type and its mount options, whether a new filesystem can be mounted. The map
// `tried` contains the reason why the mount is not possible, or "" if the mount is possible.
func (s Store) SaveTried(tried map[string]string) error {
	return wrap(writeJSON(s.triedFile(), tried, false), "cannot record which mount options were tried")
}

// Tried returns what SaveTried has recorded since boot.
func (s Store) Tried() (map[string]string, error) {
	tried := map[string]string{}
	if err := readJSON(s.triedFile(), &tried); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, wrap(err, "cannot read which mount options were tried")
	}
	return tried, nil
}
