package disk

import (
	"slices"
	"strings"
)

// MountOptions returns the options with which the class mounts a filesystem of that type.
//
// An ext4 superblock can contain its own default mount options (tune2fs(8), "-e" and "-o"). With these defaults, the
// kernel may panic after an error, or may write without barriers. The options that MountOptions returns override the
// superblock's defaults. The options of the class come first, then errors= and barrier unless the class sets them.
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
