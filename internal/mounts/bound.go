package mounts

import (
	"path"
	"slices"
)

// Bound returns the places at which device nodes are bound, by the kernel names of the devices. So kubelet and others
// hand a disk on to a container. A node lies in devtmpfs, or in a tmpfs if a container has its own. Any file of a tmpfs
// counts, because the table does not show its kind. A node that is bound over itself is in no further place.
func Bound(tree []Mount) map[string][]string {
	bound := map[string][]string{}
	for i := range tree {
		m := &tree[i]
		if m.Root == "/" || m.Type != "devtmpfs" && m.Type != "tmpfs" {
			continue
		}
		// The root of a removed node ends in "//deleted".
		if name := path.Base(m.Root); m.Path != "/dev/"+name {
			bound[name] = append(bound[name], m.Path)
		}
	}
	return bound
}

// ChangedNodes returns the names of the devices whose nodes are bound at other places in one table than in the other,
// in order.
func ChangedNodes(before, now []Mount) []string {
	was, is := Bound(before), Bound(now)
	var names []string
	for name, places := range is {
		if !slices.Equal(places, was[name]) {
			names = append(names, name)
		}
		delete(was, name)
	}
	for name := range was {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
