package mounts

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// Changed returns the devices whose mounts differ between two tables, each once, by device number. It also returns those
// of volumes, mounted at a path that ends in a UUID, that lie at or below a mount that differs: it covers them, or no
// longer does. The order of the mounts in a table does not matter. If a table has an ID twice, the result may include an
// unchanged device.
func Changed(before, now []Mount) []disk.Dev {
	all := now
	// Usually only one line has changed.
	for len(before) > 0 && len(now) > 0 && before[0] == now[0] {
		before, now = before[1:], now[1:]
	}
	for len(before) > 0 && len(now) > 0 && before[len(before)-1] == now[len(now)-1] {
		before, now = before[:len(before)-1], now[:len(now)-1]
	}
	var changed []*Mount
	was := make(map[int]*Mount, len(before))
	for i := range before {
		m := &before[i]
		// While the kernel writes a table, a mount that is already in it can end. A new mount further on can then have
		// its ID.
		if o := was[m.ID]; o != nil {
			changed = append(changed, o)
		}
		was[m.ID] = m
	}
	for i := range now {
		m := &now[i]
		if o := was[m.ID]; o == nil || *o != *m {
			changed = append(changed, m)
			continue
		}
		delete(was, m.ID)
	}
	for _, m := range was {
		changed = append(changed, m)
	}
	var devices []disk.Dev
	for _, m := range changed {
		devices = append(devices, m.Dev)
	}
	for i := range all {
		m := &all[i]
		if disk.ValidUUID(path.Base(m.Path)) && slices.ContainsFunc(changed, func(c *Mount) bool { return under(m.Path, c.Path) }) {
			devices = append(devices, m.Dev)
		}
	}
	// The order of a map differs each time.
	slices.SortFunc(devices, func(a, b disk.Dev) int {
		return cmp.Or(cmp.Compare(a.Major, b.Major), cmp.Compare(a.Minor, b.Minor))
	})
	return slices.Compact(devices)
}

// under reports whether the path is the other one or lies below it.
func under(path, other string) bool {
	rest, is := strings.CutPrefix(path, strings.TrimSuffix(other, "/"))
	return is && (rest == "" || rest[0] == '/')
}
