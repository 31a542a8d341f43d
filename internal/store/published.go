package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"hotmount/internal/disk"
)

func (s Store) publishedFile() string { return filepath.Join(s.Runtime, "status.json") }

// Publish writes the state of the disks to a file that any user may read. The new file replaces the old file. Do not
// call Publish concurrently.
func (s Store) Publish(lines []disk.Line) error {
	tmp := filepath.Join(s.Runtime, ".status.json.new") // only the daemon writes this file
	data, err := json.MarshalIndent(lines, "", "  ")
	if err == nil {
		err = os.WriteFile(tmp, append(data, '\n'), 0o600)
	}
	if err == nil {
		// Every user may read this file, whatever the daemon's umask is.
		err = os.Chmod(tmp, 0o644)
	}
	if err == nil {
		err = os.Rename(tmp, s.publishedFile())
	}
	return wrap(err, "cannot write the file from which users other than root read the status of the disks")
}

// Published returns the state of the disks that the daemon last published, or nothing if no daemon has run since boot.
func (s Store) Published() ([]disk.Line, error) {
	var lines []disk.Line
	if err := readJSON(s.publishedFile(), &lines); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the daemon's status of the disks: %w", err)
	}
	return lines, nil
}
