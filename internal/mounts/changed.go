package mounts

import (
	"cmp"
	"path"
	"slices"

	"hotmount/internal/disk"
)

// Changed returns the devices whose mounts differ between two tables. The list contains each device once and is sorted
// by device number. Changed also returns the devices of volumes at or below a new or removed mount, because the mount
// may cover or uncover the volumes. A volume is a mount whose path ends in a UUID. The order of the mounts in a table
// does not matter.
func Changed(before, now []Mount) []disk.Dev {
	all := now
	// Changed first skips equal lines at the start and the end of both tables, because usually only one line differs.
	for len(before) > 0 && len(now) > 0 && before[0] == now[0] {
		before, now = before[1:], now[1:]
	}
	for len(before) > 0 && len(now) > 0 && before[len(before)-1] == now[len(now)-1] {
		before, now = before[:len(before)-1], now[:len(now)-1]
	}
	oldSet, newSet := map[Mount]bool{}, map[Mount]bool{}
	for _, m := range before {
		oldSet[m] = true
	}
	for _, m := range now {
		newSet[m] = true
	}
	// Each mount in the slice occurs in only one of the two tables.
	changed := slices.DeleteFunc(slices.Concat(before, now), func(m Mount) bool { return oldSet[m] && newSet[m] })
	var devices []disk.Dev
	for _, m := range changed {
		devices = append(devices, m.Dev)
		for i := range all {
			if disk.ValidUUID(path.Base(all[i].Path)) && disk.IsBelow(all[i].Path, m.Path) {
				devices = append(devices, all[i].Dev)
			}
		}
	}
	slices.SortFunc(devices, func(a, b disk.Dev) int {
		return cmp.Or(cmp.Compare(a.Major, b.Major), cmp.Compare(a.Minor, b.Minor))
	})
	return slices.Compact(devices)
}
