package policy

import (
	"cmp"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// Use returns how somebody else uses the disk, or "" if no use has to be recorded. A volume of this node stays a
// volume, whatever other software does with it. For a disk without a class, Use returns a use only if the disk may
// later belong to a class. The returned text may contain unescaped bytes that other software chose.
func Use(f *disk.Facts, d disk.Decision) string {
	st, c := &f.Standing, f.KnownContent()
	volume := st.Volume != nil && !copied(input{f: f, c: &c})
	if d.Action != disk.Ignore || st.Used != nil || volume || st.Given != nil || d.Class == "" && (f.System != "" || !usual(f)) {
		return ""
	}
	return cmp.Or(user(f), below(f, &c))
}

// The function `below` returns a text that names the devices that somebody else has built on the disk, or "" if there
// are none. Partitions are ignored, and so is a loop device if its backing file may be on another disk. The result is
// also "" for a disk with LVM, LUKS or md content. hotmount refuses such a disk even after the device that was built on
// the disk is gone. For a path of a multipath device, the result is "" because multipathd takes disks by itself.
func below(f *disk.Facts, c *disk.Content) string {
	if c.Kind == disk.Other {
		return ""
	}
	above := slices.Clone(f.Holders)
	if !f.LoopsUnsure {
		above = append(above, f.Loops...)
	}
	above = slices.DeleteFunc(above, func(name string) bool {
		return name == f.Whole || slices.Contains(f.Partitions, name)
	})
	if len(above) == 0 {
		return ""
	}
	return "below " + strings.Join(above, ", ")
}

// UseAccepted reports whether the operator has accepted that somebody else uses the disk.
func UseAccepted(f *disk.Facts, s *disk.Settings) bool {
	c := f.KnownContent()
	return inputOf(f, &c, s).isAccepted(disk.ReasonUsed)
}

// volumeInUse reports whether the disk is on record as a volume, and somebody else uses the disk. Call volumeInUse only
// for a disk that is not mounted in the directory of its class.
func volumeInUse(in input) bool {
	f := in.f
	return f.Standing.OnRecord && (mountedElsewhere(f) != "" && !onlyPodMountsLeft(f, in.c) ||
		len(f.Bound)+len(f.Holders)+len(f.Loops) > 0 || f.Claim != "")
}

// mountedElsewhere returns the first place at which somebody else has mounted the disk, or "". mountedElsewhere ignores
// a mount at twinMount, because the operator makes this mount to follow twinRemedy.
func mountedElsewhere(f *disk.Facts) string {
	for i := range f.Mounts {
		if f.Mounts[i].Path != twinMount {
			return f.Mounts[i].Path
		}
	}
	return ""
}

// user(f) returns how somebody else uses the disk, or "". The returned text may contain unescaped bytes that other
// software chose.
func user(f *disk.Facts) string {
	switch at := mountedElsewhere(f); {
	case at != "":
		return "mounted at " + at
	case len(f.Bound) > 0:
		return "bind-mounted as a device at " + f.Bound[0]
	case f.Claim != "":
		return "claimed by " + f.Claim
	}
	return ""
}

// Asks reports whether the decision must wait until hotmount knows who has the disk open. Asks reports true only if
// Facts.Neighbours or Facts.Unlisted is true. Facts.Neighbours means that software on the node may open a disk without
// claiming it. Facts.Unlisted means that the disk may be mounted in another mount namespace. The decision waits before
// hotmount first uses a disk that is not on record, and before hotmount advises the operator to overwrite the disk.
func Asks(f *disk.Facts, c *disk.Content, d disk.Decision) bool {
	if !f.Neighbours && !f.Unlisted || f.Standing.Given != nil && d.Action == disk.Link {
		return false
	}
	in := input{f: f, c: c}
	volume := onRecord(in) && !copied(in)
	switch d.Action {
	case disk.Mount:
		return !volume
	case disk.Refuse, disk.Hold:
		return !volume && (ruleOf(d.Reason).lift&byToken != 0 || d.Reason == disk.ReasonPartition || d.Reason == disk.ReasonNoCreate)
	case disk.Link, disk.Prove, disk.Format:
		return true
	}
	return false
}
