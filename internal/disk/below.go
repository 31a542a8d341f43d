package disk

import (
	"slices"
	"strings"
)

// Underlying is a disk beneath a device-mapper or md device.
type Underlying struct {
	// Name is the disk's kernel name.
	Name string `json:"name"`
	// Serial is the disk's, as in Facts. It is empty if nothing knows it.
	Serial string `json:"serial,omitempty"`
	// Gone reports that the disk was detached, and that the device cannot work without it. A disk that is attached again
	// is another one to the kernel, so this lasts until the device is set up again.
	Gone bool `json:"gone,omitempty"`
}

// Lost returns the first disk beneath the device that is gone, nil if there is none.
func (f *Facts) Lost() *Underlying {
	for i := range f.Below {
		if f.Below[i].Gone {
			return &f.Below[i]
		}
	}
	return nil
}

// RecallBelow fills in the serials of disks that are gone from earlier facts of the same attachment.
func (f *Facts) RecallBelow(before *Facts) {
	for i := range f.Below {
		u := &f.Below[i]
		at := slices.IndexFunc(before.Below, func(o Underlying) bool { return o.Name == u.Name })
		if u.Gone && at >= 0 && before.Seq == f.Seq {
			u.Serial = before.Below[at].Serial
		}
	}
}

// LogicalVolume returns the group and the name of a logical volume as LVM's tools take it ("vg0/disk1"), empty for any
// other device. LVM joins both with a hyphen, and doubles the hyphens in them.
func (f *Facts) LogicalVolume() string {
	const hyphen = "\x00"
	group, volume, found := strings.Cut(strings.ReplaceAll(f.MapperName, "--", hyphen), "-")
	name := strings.ReplaceAll(group+"/"+volume, hyphen, "-")
	if !strings.HasPrefix(f.Serial, "LVM-") || !found || strings.Contains(volume, "-") || strings.Trim(name, Alphanumeric+"/+_.-") != "" {
		return ""
	}
	return name
}
