package inventory

import (
	"slices"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// addLoops adds to f the loop devices that lie on the disk, which devices are those of: itself,
// its partitions and what is built on them. To a loop device it adds the others on its file.
func (h Host) addLoops(f, on *disk.Facts, c *common, devices map[disk.Dev]string) {
	own := slices.IndexFunc(c.loops, func(l mounts.Loop) bool { return l.Name == on.Name })
	for i := range c.loops {
		l := &c.loops[i]
		switch below := devices[l.Below] != ""; {
		case i == own:
			f.BackingDevice = l.Below != (disk.Dev{}) || !l.Known && !l.Regular(h.Root, c.paths)
		case below, own >= 0 && l.SameFile(&c.loops[own]):
			f.Loops, f.LoopsUnsure = slices.Insert(f.Loops, 0, l.Name), false
		case !l.Known && h.seemsBelow(l, on, c, devices):
			f.LoopsUnsure = f.LoopsUnsure || len(f.Loops) == 0
			f.Loops = append(f.Loops, l.Name)
		}
	}
}

// seemsBelow reports whether a loop device, of which the kernel tells nothing, may lie on the disk. It may if it
// is called like one of the devices, or if udev knows the same filesystem on both.
func (h Host) seemsBelow(l *mounts.Loop, f *disk.Facts, c *common, devices map[disk.Dev]string) bool {
	if l.Denied && h.Asks {
		return true
	}
	for _, name := range devices {
		if l.Called(name) {
			return true
		}
	}
	return f.Udev.FSUUID != "" && c.loopUUIDs()[l.Name] == f.Udev.FSUUID
}

// loopUUIDs is common.loopUUIDs. One that cannot be read may be gone, and is left out.
func (h Host) loopUUIDs(loops []mounts.Loop) map[string]string {
	all := map[string]string{}
	for i := range loops {
		if uuid, err := h.sysfs().FSUUID(loops[i].Name); err == nil {
			all[loops[i].Name] = uuid
		}
	}
	return all
}
