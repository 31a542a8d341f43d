package disk

import (
	"slices"
	"strings"
)

// MountOptions returns the options with which the class mounts a filesystem of that type.
//
// The superblock of an ext4 has defaults of its own: it can have the kernel panic at an error, or write without
// barriers (tune2fs(8), "-e" and "-o"). Options of the mount override them. The options of the class come first.
func (c *Class) MountOptions(fstype string) []string {
	options := slices.Clone(c.Options)
	if fstype != Ext4 {
		return options
	}
	says := func(names ...string) bool {
		return slices.ContainsFunc(c.Options, func(o string) bool {
			name, _, _ := strings.Cut(o, "=")
			return slices.Contains(names, name)
		})
	}
	if !says("errors") {
		options = append(options, "errors=remount-ro")
	}
	if !says("barrier", "nobarrier") {
		options = append(options, "barrier")
	}
	return options
}
