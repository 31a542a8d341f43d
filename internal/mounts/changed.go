package mounts

import (
	"cmp"
	"slices"

	"hotmount/internal/disk"
)

// Changed gives the devices whose mounts differ between two tables, each once,
// by device number. The order of the mounts in a table is no difference.
func Changed(before, now []disk.MountPoint) []disk.Dev {
	count := map[disk.MountPoint]int{}
	for _, m := range before {
		count[m]--
	}
	for _, m := range now {
		count[m]++
	}
	var devices []disk.Dev
	for m, n := range count {
		if n != 0 {
			devices = append(devices, m.Dev)
		}
	}
	// The order of a map is another one each time.
	slices.SortFunc(devices, func(a, b disk.Dev) int {
		return cmp.Or(cmp.Compare(a.Major, b.Major), cmp.Compare(a.Minor, b.Minor))
	})
	return slices.Compact(devices)
}
