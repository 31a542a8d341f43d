package disk

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Underlying is a disk beneath a device-mapper or md device.
type Underlying struct {
	// Name is the kernel name of the disk, or "all paths" for a multipath device that has lost every path.
	Name string `json:"name"`
	// Serial is the disk's serial, as in Facts, or empty if the serial is not known.
	Serial string `json:"serial,omitempty"`
	// Gone reports that the disk was detached, and that the device cannot work without the disk. A disk that is
	// attached again is a new disk to the kernel, so Gone stays set until the device is set up again.
	Gone bool `json:"gone,omitempty"`
}

// Lost returns the first detached disk in Below, or nil if Below contains no detached disk.
func (f *Facts) Lost() *Underlying {
	for i := range f.Below {
		if f.Below[i].Gone {
			return &f.Below[i]
		}
	}
	return nil
}

// RecallBelow fills in the serials of the detached disks beneath the device. RecallBelow takes the serials from earlier
// facts of the device, if these facts are from the same attachment.
func (f *Facts) RecallBelow(before *Facts) {
	for i := range f.Below {
		u := &f.Below[i]
		at := slices.IndexFunc(before.Below, func(o Underlying) bool { return o.Name == u.Name })
		if u.Gone && at >= 0 && before.Seq == f.Seq {
			u.Serial = before.Below[at].Serial
		}
	}
}

// Reopen returns the shell commands that close the device and set it up again after its underlying disk was attached
// again. Reopen returns "" if the device is not an LVM or LUKS device, or if its name is not safe in a shell. Reopen
// also returns "" if another device-mapper device or an md array is below the device.
func (f *Facts) Reopen() string {
	stacked := slices.ContainsFunc(f.Below, func(u Underlying) bool { return strings.HasPrefix(u.Name, "md") || strings.HasPrefix(u.Name, "dm-") })
	if stacked || strings.Trim(f.MapperName, Alphanumeric+"_+.-") != "" || strings.HasPrefix(f.MapperName, "-") {
		return ""
	}
	kind, rest, _ := strings.Cut(f.Serial, "-")
	switch kind {
	case "LVM":
		if volume := f.logicalVolume(); volume != "" {
			// The commands name one volume, because other volumes of the group may be in use.
			return fmt.Sprintf("lvchange -an %s; lvchange -ay %[1]s", volume)
		}
	case "CRYPT":
		// The dm/uuid of a LUKS device consists of "CRYPT-LUKS1-" or "CRYPT-LUKS2-", the UUID without hyphens, a hyphen
		// and the name.
		version, rest, _ := strings.Cut(rest, "-")
		id, _, _ := strings.Cut(rest, "-")
		if uuid, err := hex.DecodeString(id); err == nil && len(uuid) == 16 && strings.HasPrefix(version, "LUKS") {
			return fmt.Sprintf("cryptsetup close %s; cryptsetup open UUID=%x-%x-%x-%x-%x %[1]s", f.MapperName, uuid[:4], uuid[4:6], uuid[6:8], uuid[8:10], uuid[10:])
		}
	}
	return ""
}

// Multipath reports whether f is a multipath device.
func (f *Facts) Multipath() bool { return strings.HasPrefix(f.Serial, "mpath-") }

// logicalVolume returns the group and the name of a logical volume as LVM's tools accept them ("vg0/disk1"). In the
// name of the mapper device, LVM joins group and volume with a hyphen, and doubles each hyphen within their names.
func (f *Facts) logicalVolume() string {
	const hyphen = "\x00"
	group, volume, found := strings.Cut(strings.ReplaceAll(f.MapperName, "--", hyphen), "-")
	if !found || strings.Contains(volume, "-") {
		return ""
	}
	return strings.ReplaceAll(group+"/"+volume, hyphen, "-")
}
