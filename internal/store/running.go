package store

import (
	"path/filepath"
	"slices"

	"hotmount/internal/disk"
)

// Runs calls change(record) for each UUID, and durably saves the results. The function `change` gets the running-time
// record of the UUID, or an empty record if there is none.
func (s Store) Runs(uuids []string, change func(disk.Running) disk.Running) error {
	err := s.locked(func() error {
		all, err := readList[disk.Running](s.runningFile())
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
		return saveList(s, s.runningFile(), all)
	})
	return wrap(err, "cannot record how long filesystems are in use")
}

func (s Store) runningFile() string { return filepath.Join(s.State, "running.json") }
