package mounts

import (
	"path"
	"slices"
)

// Bound returns the places at which device nodes are bind-mounted. The keys of the returned map are the kernel names of
// the devices. kubelet and other programs give a disk to a container by a bind mount of the disk's device node. A
// device node lies in devtmpfs, or in the tmpfs of a container. Bound treats each bind-mounted file of a tmpfs as a
// device node, because the mount table does not show the kind of the file. Bound leaves out a bind mount of a device
// node over itself.
func Bound(tree []Mount) map[string][]string {
	bound := map[string][]string{}
	for i := range tree {
		m := &tree[i]
		if m.Root == "/" || m.Type != "devtmpfs" && m.Type != "tmpfs" {
			continue
		}
		// If the device node was removed, Root ends in "//deleted", and the key in the map is "deleted".
		if name := path.Base(m.Root); m.Path != "/dev/"+name {
			bound[name] = append(bound[name], m.Path)
		}
	}
	return bound
}

// ChangedNodes returns the sorted names of the devices whose nodes are bind-mounted at different places in the two
// tables.
func ChangedNodes(before, now []Mount) []string {
	oldPlaces, newPlaces := Bound(before), Bound(now)
	var names []string
	for name, places := range newPlaces {
		if !slices.Equal(places, oldPlaces[name]) {
			names = append(names, name)
		}
		delete(oldPlaces, name)
	}
	for name := range oldPlaces {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
