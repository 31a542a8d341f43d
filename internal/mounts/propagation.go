package mounts

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"hotmount/internal/disk"
)

// Propagates calls the method Propagates of a new Reader.
func Propagates(root, dir string) error { return new(Reader).Propagates(root, dir) }

func propagates(hosts, owns []Mount, dir string) error {
	host, err := mountContaining(hosts, dir)
	if err != nil {
		return err
	}
	own, err := mountContaining(owns, dir)
	if err != nil {
		return err
	}
	switch {
	case host.ID == own.ID && host.Path == own.Path:
		// Mount IDs are unique in the whole system, so equal IDs show that this process is in PID 1's mount namespace.
		return nil
	case host.Shared == 0:
		at := disk.Visible(host.Path)
		return fmt.Errorf("cannot see what is mounted below %s: the host's mount %s is not shared (mount --make-shared %s)", dir, at, at)
	case own.Shared != host.Shared && own.Master != host.Shared:
		return fmt.Errorf("cannot see what is mounted below %s: this process sees the path through another mount than the host does", dir)
	case pathInMount(own, dir) != pathInMount(host, dir):
		// A bind mount of a subdirectory of a shared mount is a peer of that mount. A new mount appears on the same
		// directory in each peer, but the path of this directory can differ between the peers.
		return fmt.Errorf("cannot see what is mounted below %s: this process sees another directory at this path than the host", dir)
	}
	return nil
}

// mountContaining returns the mount that contains the directory, or an error if the table has no root mount.
func mountContaining(tree []Mount, dir string) (*Mount, error) {
	at := At(tree, dir)
	if at == nil {
		return nil, errors.New("cannot read the mount table: the table has no root")
	}
	return at, nil
}

// pathInMount converts the path of a directory at or below the mount point to a path from the root of the mount's
// filesystem.
func pathInMount(m *Mount, dir string) string {
	return path.Join("/", m.Root, strings.TrimPrefix(dir, m.Path))
}

// Receivers returns the peer groups to which a mount or an unmount in a group propagates (mount_namespaces(7)). The
// result contains the group itself, its slaves, the slaves of these slaves, and so on. For the group 0, which stands
// for no peer group, Receivers returns an empty map.
func Receivers(group int, tables [][]Mount) map[int]bool {
	slaves := map[int][]int{}
	for _, table := range tables {
		for i := range table {
			if m := &table[i]; m.Shared != 0 {
				slaves[m.Master] = append(slaves[m.Master], m.Shared)
				slaves[m.From] = append(slaves[m.From], m.Shared)
			}
		}
	}
	groups := map[int]bool{}
	for next := []int{group}; len(next) > 0; next = next[1:] {
		if g := next[0]; g != 0 && !groups[g] {
			groups[g] = true
			next = append(next, slaves[g]...)
		}
	}
	return groups
}

// Receives reports whether the mount is a member or a slave of one of the peer groups.
func (m *Mount) Receives(groups map[int]bool) bool {
	return groups[m.Shared] || groups[m.Master] || groups[m.From]
}
