package inventory

import (
	"slices"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// addLoops adds the loop devices on a disk (base) to the facts of the disk or its partition (f). addLoops adds only the
// loop devices that lie on one of the given devices. If the disk is itself a loop device, addLoops also adds the other
// loop devices with the same backing file.
func (h Host) addLoops(f, base *disk.Facts, c *common, devices map[disk.Dev]string) {
	own := slices.IndexFunc(c.loops, func(l mounts.Loop) bool { return l.Name == base.Name })
	for i := range c.loops {
		l := &c.loops[i]
		switch below := devices[l.Below] != ""; {
		case i == own:
			f.BackingDevice = l.Below != (disk.Dev{}) || !l.FromKernel && !l.Regular(h.Root, c.paths)
		case below, own >= 0 && l.SameFile(&c.loops[own]):
			f.Loops, f.LoopsUnsure = slices.Insert(f.Loops, 0, l.Name), false
		case !l.FromKernel && h.seemsBelow(l, base, c, devices):
			f.LoopsUnsure = f.LoopsUnsure || len(f.Loops) == 0
			f.Loops = append(f.Loops, l.Name)
		}
	}
}

// seemsBelow reports whether a loop device may lie on the disk. addLoops calls seemsBelow if the kernel does not report
// the device below the loop device. seemsBelow compares the path of the backing file with the names of the devices.
// seemsBelow also compares the filesystem UUIDs that udev found on the loop device and on the disk.
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

// loopUUIDs returns a map from the kernel name of each loop device to the filesystem UUID that udev found there.
// loopUUIDs leaves out unreadable loop devices, because they may be gone.
func (h Host) loopUUIDs(loops []mounts.Loop) map[string]string {
	all := map[string]string{}
	for i := range loops {
		if uuid, err := h.sysfs().FSUUID(loops[i].Name); err == nil {
			all[loops[i].Name] = uuid
		}
	}
	return all
}
