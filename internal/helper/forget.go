package helper

import (
	"errors"
	"slices"

	"hotmount/internal/disk"
	"hotmount/internal/inventory"
)

// Missing returns the recorded filesystems that are on no attached disk.
func Missing(h inventory.Host, s *disk.Settings) ([]disk.Sighting, error) {
	disks, err := h.For(s).Scan()
	if err != nil {
		return nil, err
	}
	return h.Missing(disks)
}

// Forget records that the missing filesystem with that UUID will not return.
func Forget(h inventory.Host, s *disk.Settings, uuid string) error {
	missing, err := Missing(h, s)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(missing, func(m disk.Sighting) bool { return m.UUID == uuid }) {
		return errors.New("no filesystem with this UUID is missing; see hotmount status")
	}
	return h.Store.GiveUp(uuid)
}
