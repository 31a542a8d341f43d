package disk

import (
	"slices"
	"strings"
)

// Underlying is a disk beneath a device-mapper or md device.
type Underlying struct {
	// Name is the kernel name of the disk.
	Name string `json:"name"`
	// Serial is the disk's serial, as in Facts, or empty if the serial is not known.
	Serial string `json:"serial,omitempty"`
	// Gone reports that the disk was detached. A device that is built on a detached disk cannot work. A disk that is
	// attached again is a new disk to the kernel, so Gone stays set until the device is set up again.
	Gone bool `json:"gone,omitempty"`
}

// Lost returns the first disk beneath the device that is gone, or nil if no such disk is gone.
func (f *Facts) Lost() *Underlying {
	for i := range f.Below {
		if f.Below[i].Gone {
			return &f.Below[i]
		}
	}
	return nil
}

// RecallBelow fills in the serials of the disks beneath the device that are gone. RecallBelow takes the serials from
// before, the earlier facts of the same attachment.
func (f *Facts) RecallBelow(before *Facts) {
	for i := range f.Below {
		u := &f.Below[i]
		at := slices.IndexFunc(before.Below, func(o Underlying) bool { return o.Name == u.Name })
		if u.Gone && at >= 0 && before.Seq == f.Seq {
			u.Serial = before.Below[at].Serial
		}
	}
}

// LogicalVolume returns the group and the name of a logical volume as LVM's tools take it ("vg0/disk1"). LogicalVolume
// returns "" for any other device. In the name of the mapper device, LVM joins group and volume with a hyphen, and
// doubles each hyphen within them.
func (f *Facts) LogicalVolume() string {
	const hyphen = "\x00"
	group, volume, found := strings.Cut(strings.ReplaceAll(f.MapperName, "--", hyphen), "-")
	name := strings.ReplaceAll(group+"/"+volume, hyphen, "-")
	if !strings.HasPrefix(f.Serial, "LVM-") || !found || strings.Contains(volume, "-") || strings.Trim(name, Alphanumeric+"/+_.-") != "" {
		return ""
	}
	return name
}
