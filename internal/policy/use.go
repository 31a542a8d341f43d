package policy

import "hotmount/internal/disk"

// Use returns how somebody else uses the disk, if that has to be recorded, else an empty string. A volume of this node
// stays one, whatever others do with it meanwhile. The text contains foreign bytes.
func Use(f *disk.Facts, d disk.Decision) string {
	st := &f.Standing
	if d.Action != disk.Ignore || d.Class == "" || st.Used != nil || st.Volume != nil || st.Given != nil {
		return ""
	}
	for i := range f.Mounts {
		if f.Mounts[i].Path != twinMount {
			return "mounted at " + f.Mounts[i].Path
		}
	}
	switch {
	case len(f.Bound) > 0:
		return "bound as a device at " + f.Bound[0]
	case f.Claim != "":
		return "claimed by " + f.Claim
	}
	return ""
}

// Asks reports whether the decision must wait until it is known who has the disk open. That is so before the first use
// of a disk that is not on record, on a node where others open disks without claiming them.
func Asks(f *disk.Facts, c *disk.Content, d disk.Decision) bool {
	if !f.Neighbours || f.Standing.Given != nil {
		return false
	}
	switch d.Action {
	case disk.Mount:
		in := input{f: f, c: c}
		return !onRecord(in) || copied(in)
	case disk.Link, disk.Prove, disk.Format:
		return true
	}
	return false
}
