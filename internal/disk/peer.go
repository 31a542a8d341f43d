package disk

import (
	"cmp"
	"slices"
)

// Peer is an attached disk with the same serial, WWN or UUID as the disk whose Facts contain the Peer, or the disk in
// Facts.Moved. A Peer contains only the facts that the policy needs.
type Peer struct {
	ID
	Slot string `json:"slot,omitempty"`
	// Type and UUID are the type and the UUID of the peer's content, empty if unknown. UUID is also empty if the
	// content is not a filesystem.
	Type string `json:"type,omitempty"`
	UUID string `json:"uuid,omitempty"`
	// Mounted is the first place at which the peer is mounted, empty if it is not mounted.
	Mounted string `json:"mounted,omitempty"`
	// InUse shows the use of the peer: a mount point, a bind mount of its device node, a device built on the peer, or
	// "swap". InUse is empty if the peer and the devices on the peer are unused.
	InUse string `json:"in_use,omitempty"`
	// HasContent reports that udev or the kernel has found content on the peer.
	HasContent bool `json:"known,omitempty"`
	// Multipath reports that the peer is the multipath device for the disk's WWN. hotmount then treats the disk as a
	// path of the multipath device, even if the multipath device does not use this path at present.
	Multipath bool `json:"multipath,omitempty"`
	// Serial, WWN, OnRecord, InSameSlot and Resized are copied from the fields with these names in the peer's Facts and
	// Standing.
	Serial     string `json:"serial,omitempty"`
	WWN        string `json:"wwn,omitempty"`
	OnRecord   bool   `json:"on_record,omitempty"`
	InSameSlot bool   `json:"in_place,omitempty"`
	Resized    bool   `json:"resized,omitempty"`
}

// MayBe reports whether p may be the same disk as f. MayBe returns false only if the serials or the WWNs show two
// different disks.
func (p *Peer) MayBe(f *Facts) bool {
	return !OtherSerial(p.Serial, f.Serial) && !otherWWN(p.WWN, f.WWN)
}

// Same reports whether serial or WWN show that p and f are two paths to one disk.
func (p *Peer) Same(f *Facts) bool {
	return SameSerial(p.Serial, f.Serial) || f.WWN != "" && f.WWN == p.WWN && !OtherSerial(p.Serial, f.Serial)
}

// inUse returns the value of Peer.InUse for the disk f.
func (f *Facts) inUse() string {
	switch {
	case f.System != "":
		return f.System
	case len(f.Mounts) > 0:
		return f.Mounts[0].Path
	case len(f.Bound) > 0:
		return f.Bound[0]
	case len(f.Holders) > 0:
		return f.Holders[0]
	case len(f.Loops) > 0:
		return f.Loops[0]
	case f.Swap:
		return "swap"
	}
	return ""
}

// contentID returns the second result of TypeAndID.
func (f *Facts) contentID(c *Content) string {
	_, id := f.TypeAndID(c)
	return id
}

// FindPeers finds the peers of f among all attached disks. FindPeers sets SameSerial, SameWWN, SameUUID and Moved.
func (f *Facts) FindPeers(all []*Facts) {
	f.SameSerial, f.SameWWN, f.SameUUID, f.Moved = nil, nil, nil, nil
	mine, _ := f.knownContent()
	own, former := mine.UUID, ""
	if f.Standing.FormerSlot != nil {
		former = f.Standing.FormerSlot.UUID
	}
	for _, o := range all {
		if o.Seq == f.Seq && o.Name == f.Name {
			continue
		}
		c, _ := o.knownContent()
		fstype, uuid := c.Type, c.UUID
		if v := o.Standing.Volume; v != nil && uuid == "" && len(o.Mounts) > 0 {
			fstype, uuid = v.Type, v.UUID // udev does not know the filesystem, or does not know it yet
		}
		alike := (f.Whole == "") == (o.Whole == "")
		serial := alike && SameSerial(f.Serial, o.Serial)
		multipath := f.pathOf(o)
		world := multipath || f.sameWWN(o)
		same := own != "" && uuid == own
		moved := former != "" && (uuid == former || o.contentID(&c) == former)
		if !serial && !world && !same && !moved {
			continue
		}
		p := Peer{ID: o.ID, Slot: o.Slot, Type: fstype, UUID: uuid, Serial: o.Serial, WWN: o.WWN, OnRecord: o.Standing.OnRecord, InSameSlot: o.Standing.InSameSlot, Resized: o.Standing.Resized, HasContent: o.Holds(), Multipath: multipath, InUse: o.inUse()}
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
		if moved && (f.Moved == nil || p.Seq < f.Moved.Seq) {
			f.Moved = &p
		}
	}
	// The order of the peers is stable, because messages name the first peer.
	for _, same := range [...][]Peer{f.SameSerial, f.SameWWN, f.SameUUID} {
		slices.SortFunc(same, func(a, b Peer) int { return cmp.Compare(a.Seq, b.Seq) })
	}
}
