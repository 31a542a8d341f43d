package disk

import (
	"cmp"
	"slices"
)

// Peer is another attached disk, as far as one that shares a serial or a UUID
// with it needs to know it.
type Peer struct {
	ID
	Slot string `json:"slot,omitempty"`
	// Type and UUID are of what is on it, empty if nobody knows; UUID is a filesystem's.
	Type string `json:"type,omitempty"`
	UUID string `json:"uuid,omitempty"`
	// Mounted is the first place where it is mounted.
	Mounted string `json:"mounted,omitempty"`
	// InUse is what is known to use it or anything on it, empty for nothing: a mount point,
	// what is built on it, or "swap".
	InUse string `json:"in_use,omitempty"`
	// Known reports that udev or the kernel knows anything on it.
	Known bool `json:"known,omitempty"`
	// Serial, WWN, OnRecord, InPlace and Resized as in Facts and Standing.
	Serial   string `json:"serial,omitempty"`
	WWN      string `json:"wwn,omitempty"`
	OnRecord bool   `json:"on_record,omitempty"`
	InPlace  bool   `json:"in_place,omitempty"`
	Resized  bool   `json:"resized,omitempty"`
}

// MayBe reports that neither serial nor WWN tells the two to be different disks.
func (p *Peer) MayBe(f *Facts) bool {
	return !OtherSerial(p.Serial, f.Serial) && (p.WWN == "" || f.WWN == "" || p.WWN == f.WWN)
}

// inUse is Peer.InUse.
func (f *Facts) inUse() string {
	switch {
	case f.System != "":
		return f.System
	case len(f.Mounts) > 0:
		return f.Mounts[0].Path
	case len(f.Holders) > 0:
		return f.Holders[0]
	case len(f.Loops) > 0:
		return f.Loops[0]
	case f.Swap:
		return "swap"
	}
	return ""
}

// FindPeers fills in the disks of all that share f's serial, WWN or UUID.
func (f *Facts) FindPeers(all []*Facts) {
	f.SameSerial, f.SameWWN, f.SameUUID, f.Moved = nil, nil, nil, nil
	mine, _ := f.known()
	own, former := mine.UUID, ""
	if f.Standing.FormerSlot != nil {
		former = f.Standing.FormerSlot.UUID
	}
	for _, o := range all {
		if o.Seq == f.Seq && o.Name == f.Name {
			continue
		}
		c, _ := o.known()
		fstype, uuid := c.Type, c.UUID
		if v := o.Standing.Volume; v != nil && uuid == "" && len(o.Mounts) > 0 {
			fstype, uuid = v.Type, v.UUID // which udev does not know, or not yet
		}
		alike := (f.Whole == "") == (o.Whole == "")
		serial := alike && SameSerial(f.Serial, o.Serial)
		world := alike && !serial && f.WWN != "" && f.WWN == o.WWN
		same := own != "" && uuid == own
		moved := former != "" && uuid == former
		if former != "" && !moved {
			_, lies := o.Lies(&c)
			moved = lies == former
		}
		if !serial && !world && !same && !moved {
			continue
		}
		p := Peer{ID: o.ID, Slot: o.Slot, Type: fstype, UUID: uuid, Serial: o.Serial, WWN: o.WWN, OnRecord: o.Standing.OnRecord, InPlace: o.Standing.InPlace, Resized: o.Standing.Resized, Known: o.Holds(), InUse: o.inUse()}
		if len(o.Mounts) > 0 {
			p.Mounted = o.Mounts[0].Path
		}
		if serial {
			f.SameSerial = append(f.SameSerial, p)
		}
		if world {
			f.SameWWN = append(f.SameWWN, p)
		}
		if same {
			f.SameUUID = append(f.SameUUID, p)
		}
		if moved {
			f.Moved = &p
		}
	}
	// The first is named to the operator, and stays the same.
	slices.SortFunc(f.SameSerial, func(a, b Peer) int { return cmp.Compare(a.Seq, b.Seq) })
}
