package mounts

import (
	"cmp"
	"slices"

	"hotmount/internal/disk"
)

// Changed returns the devices whose mounts differ between two tables, each once, by device number. The order of the
// mounts in a table does not matter. If a table has an ID twice, the result may include an unchanged device.
func Changed(before, now []Mount) []disk.Dev {
	// Usually only one line has changed.
	for len(before) > 0 && len(now) > 0 && before[0] == now[0] {
		before, now = before[1:], now[1:]
	}
	for len(before) > 0 && len(now) > 0 && before[len(before)-1] == now[len(now)-1] {
		before, now = before[:len(before)-1], now[:len(now)-1]
	}
	var devices []disk.Dev
	was := make(map[int]*Mount, len(before))
	for i := range before {
		m := &before[i]
		// While the kernel writes a table, a mount that is already in it can end. A new mount further on can then have
		// its ID.
		if o := was[m.ID]; o != nil {
			devices = append(devices, o.Dev)
		}
		was[m.ID] = m
	}
	for i := range now {
		m := &now[i]
		if o := was[m.ID]; o == nil || *o != *m {
			devices = append(devices, m.Dev)
			continue
		}
		delete(was, m.ID)
	}
	for _, m := range was {
		devices = append(devices, m.Dev)
	}
	// The order of a map differs each time.
	slices.SortFunc(devices, func(a, b disk.Dev) int {
		return cmp.Or(cmp.Compare(a.Major, b.Major), cmp.Compare(a.Minor, b.Minor))
	})
	return slices.Compact(devices)
}
