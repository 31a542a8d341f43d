package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"hotmount/internal/disk"
)

// SaveSettings passes the daemon's effective settings to the processes that format, so that its flags and environment
// apply there too.
func (s Store) SaveSettings(st *disk.Settings) error {
	if err := writeFile(filepath.Join(s.Runtime, "settings.json"), st, false); err != nil {
		return fmt.Errorf("cannot hand on the settings: %w", err)
	}
	return nil
}

// SaveDirectories records the class directories in the state directory, for the cleanup at a boot with a broken
// configuration. former are earlier directories that still need a cleanup.
func (s Store) SaveDirectories(st *disk.Settings, former ...string) error {
	var dirs []string
	for i := range st.Classes {
		dirs = append(dirs, st.Classes[i].Directory)
	}
	for _, dir := range former {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	if err := writeSynced(s.directoriesFile(), dirs); err != nil {
		return fmt.Errorf("cannot record the class directories: %w", s.failed(err))
	}
	return nil
}

// Settings returns the settings that the daemon runs with.
func (s Store) Settings() (*disk.Settings, error) {
	var st disk.Settings
	if err := readJSON(filepath.Join(s.Runtime, "settings.json"), &st); err != nil {
		return nil, fmt.Errorf("cannot read the daemon's settings: %w", err)
	}
	return &st, nil
}

// Directories returns the directories that the last daemon recorded with SaveDirectories.
func (s Store) Directories() ([]string, error) {
	var dirs []string
	err := readJSON(s.directoriesFile(), &dirs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the class directories of the last start: %w", err)
	}
	return dirs, nil
}

func (s Store) directoriesFile() string { return filepath.Join(s.State, "directories.json") }
