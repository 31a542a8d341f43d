package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// SaveSettings records the daemon's effective settings for the processes that format. Through these settings, the
// daemon's flags and environment also apply to the processes that format.
func (s Store) SaveSettings(st *disk.Settings) error {
	return wrap(writeJSON(s.settingsFile(), st, false), "cannot save the daemon's settings for the units that format")
}

// SaveDirectories records the class directories in the state directory. The cleanup at a boot with a broken
// configuration needs this list of directories. The parameter `former` lists the directories of an earlier configuration
// that still need a cleanup.
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
	return wrap(s.save(s.directoriesFile(), directories{version, dirs}), "cannot record the class directories")
}

type directories struct {
	Version     int      `json:"version"`
	Directories []string `json:"directories"`
}

// keptHead and keptVersion together form the first line of the file with the last good settings. keptEnd is the last
// line of this file. A file without the line keptEnd is incomplete.
const (
	keptHead    = "# hotmount's last good settings, version "
	keptVersion = "1"
	keptEnd     = "# end\n"
)

// KeepSettings durably saves the text of a configuration file that the daemon loaded without a fault. A failure of
// KeepSettings does not stop formatting, because only a start with a faulty configuration needs the kept settings.
func (s Store) KeepSettings(text string) error {
	text = keptHead + keptVersion + "\n" + text + keptEnd
	if old, err := readFile(s.keptFile()); err == nil && string(old) == text {
		return nil
	}
	return wrap(replace(s.keptFile(), []byte(text), true), "cannot save the last good settings, which hotmount uses while the configuration has a fault")
}

// KeptSettings returns the path of the file in which KeepSettings saves the settings. KeptSettings returns
// fs.ErrNotExist if this file does not exist, and another error if the file is incomplete or of another version.
func (s Store) KeptSettings() (path string, err error) {
	data, err := readFile(s.keptFile())
	if err != nil {
		return "", err
	}
	head, _, _ := strings.Cut(string(data), "\n")
	version, ours := strings.CutPrefix(head, keptHead)
	switch {
	case ours && version != keptVersion:
		return "", fmt.Errorf("%s has version \"%s\", but this hotmount knows version %s", s.keptFile(), disk.Visible(version), keptVersion)
	case !ours || !strings.HasSuffix(string(data), "\n"+keptEnd):
		return "", fmt.Errorf("%s is incomplete", s.keptFile())
	}
	return s.keptFile(), nil
}

// Settings returns the settings with which the daemon runs.
func (s Store) Settings() (*disk.Settings, error) {
	var st disk.Settings
	if err := readJSON(s.settingsFile(), &st); err != nil {
		return nil, fmt.Errorf("cannot read the daemon's settings: %w", err)
	}
	return &st, nil
}

// Directories returns the class directories that the last daemon recorded with SaveDirectories. If the file has another
// format version, Directories returns an error and the directories that it can parse.
func (s Store) Directories() ([]string, error) {
	var recorded directories
	err := readJSON(s.directoriesFile(), &recorded)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case isOther(recorded.Version, err):
		return recorded.Directories, newer(s.directoriesFile(), recorded.Version)
	case err != nil:
		return nil, fmt.Errorf("cannot read the list of class directories from the last start of hotmount: %w", err)
	}
	return recorded.Directories, nil
}

func (s Store) settingsFile() string    { return filepath.Join(s.Runtime, "settings.json") }
func (s Store) keptFile() string        { return filepath.Join(s.State, "settings.yaml") }
func (s Store) directoriesFile() string { return filepath.Join(s.State, "directories.json") }
