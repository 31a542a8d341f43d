package helper

import (
	"errors"
	"fmt"
	"strings"

	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/unit"
)

// RemoveMountPoint removes the mount point with the given name from the directory if the mount point is empty.
// RemoveMountPoint returns an error in a mount namespace that does not see the host's mounts.
func RemoveMountPoint(h inventory.Host, dir, name string) error {
	if err := h.Propagates(dir); err != nil {
		return err
	}
	// unit.RemoveMountPoint renames the directory before the removal, and XFS needs free space to rename a directory.
	return h.Store.WithReserve(func() error { return unit.RemoveMountPoint(dir, name) })
}

// CleanupAll removes the empty mount points and dead links in the class directories. CleanupAll uses the directories of
// the configuration and the directories that the last daemon used, so that it works with a broken configuration, too.
func CleanupAll(h inventory.Host, load func() (*disk.Settings, error)) error {
	dirs, err := h.Store.Directories()
	s, configErr := load()
	if configErr == nil {
		for i := range s.Classes {
			dirs = append(dirs, s.Classes[i].Directory)
		}
	}
	err = errors.Join(err, configErr)
	for _, dir := range dirs {
		names, listErr := unit.Leftovers(dir)
		if listErr != nil {
			err = errors.Join(err, fmt.Errorf("cannot clean up %s: %w", dir, listErr))
			continue
		}
		for _, name := range names {
			// An entry of a class directory may be a link to a disk that was given out, perhaps in an earlier boot.
			err = errors.Join(err, unit.RemoveDeadLink(dir, name))
			// While hotmount makes or removes a mount point, the name of the mount point begins with a ".".
			name = strings.TrimPrefix(name, ".")
			if !disk.ValidUUID(name) {
				continue
			}
			err = errors.Join(err, RemoveMountPoint(h, dir, name))
		}
	}
	return err
}
