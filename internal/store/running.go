package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"hotmount/internal/disk"
)

// runnings is running.json.
type runnings struct {
	Version int `json:"version"`
	// Filesystems has the one seen last at the end.
	Filesystems []disk.Running `json:"filesystems"`
}

// Runs passes the records of those UUIDs to change, empty ones where there is none. It records the results, synced.
func (s Store) Runs(uuids []string, change func(disk.Running) disk.Running) error {
	err := s.locked(func() error {
		all, err := s.runs()
		if err != nil {
			return err
		}
		for _, uuid := range uuids {
			r := disk.Running{UUID: uuid}
			if i := slices.IndexFunc(all, func(o disk.Running) bool { return o.UUID == uuid }); i >= 0 {
				r = all[i]
				all = slices.Delete(all, i, i+1)
			}
			all = append(all, change(r))
		}
		all = all[max(0, len(all)-sightingsKept):]
		return s.save(s.runningFile(), runnings{Version: version, Filesystems: all})
	})
	if err != nil {
		return fmt.Errorf("cannot record how long filesystems are in use: %w", err)
	}
	return nil
}

func (s Store) runs() ([]disk.Running, error) {
	var all runnings
	err := readJSON(s.runningFile(), &all)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, damaged(s.runningFile(), err, rescan)
	case all.Version != version:
		return nil, newer(s.runningFile(), all.Version)
	}
	return all.Filesystems, nil
}

func (s Store) runningFile() string { return filepath.Join(s.State, "running.json") }
