package disk

import (
	"strings"
	"time"
)

// NamespacePrefix returns the prefix that distinguishes the serials of NVMe namespaces. All namespaces of a controller
// report the controller's serial. The serial of the first namespace has no prefix.
func NamespacePrefix(namespace string) string {
	if namespace == "" || namespace == "1" {
		return ""
	}
	return "n" + namespace + "-"
}

// ControllerSerial returns the serial of an NVMe disk without NamespacePrefix. ControllerSerial returns any other
// serial unchanged.
func (f *Facts) ControllerSerial(serial string) string {
	digits, rest, found := strings.Cut(strings.TrimPrefix(serial, "n"), "-")
	if f.Transport != "nvme" || !found || serial != NamespacePrefix(digits)+rest || strings.Trim(digits, "0123456789") != "" {
		return serial
	}
	return rest
}

// Identity distinguishes a disk from others across reboots, as far as possible. Two identities with serials are of the
// same disk if the serials match. If one of the identities has no serial, the WWNs must match. hotmount recognises a
// disk without serial and WWN by its slot, mostly together with its size.
type Identity struct {
	// Boot is the kernel's boot id (/proc/sys/kernel/random/boot_id). Within one boot, Seq is sufficient to identify
	// the disk.
	Boot   string `json:"boot"`
	Seq    uint64 `json:"seq"`
	Serial string `json:"serial,omitempty"`
	// WWN is the value of Facts.WorldWide.
	WWN  string `json:"wwn,omitempty"`
	Slot string `json:"slot,omitempty"`
	Size uint64 `json:"size"`
}

// Identity returns the identity of the disk in this attachment. boot is the boot id of the present boot.
func (f *Facts) Identity(boot string) Identity {
	return Identity{Boot: boot, Seq: f.Seq, Serial: f.Serial, WWN: f.WorldWide(), Slot: f.Slot, Size: f.Size}
}

// Is(other) reports whether the two identities may belong to the same disk. Within one boot, only the sequence numbers
// are compared. If the boots differ, the method returns the result of Like.
func (i Identity) Is(other Identity) bool {
	if i.Boot == other.Boot {
		return i.Seq == other.Seq
	}
	return i.Like(other)
}

// OtherSerial reports whether the serials belong to two different disks. An empty serial can belong to any disk. A
// serial that virtio has truncated matches the complete serial that another bus shows.
func OtherSerial(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return a != "" && a != b && (len(a) != serialLength || !strings.HasPrefix(b, a))
}

// SameSerial reports whether the serials may belong to one disk, even if they were read on different buses.
func SameSerial(a, b string) bool { return a != "" && b != "" && !OtherSerial(a, b) }

// Same reports whether serial or WWN show that the two identities are of one disk, on any bus. If both disks have a
// serial, Same compares only the serials.
func (i Identity) Same(other Identity) bool {
	if i.Serial != "" && other.Serial != "" {
		return SameSerial(i.Serial, other.Serial)
	}
	return i.WWN != "" && i.WWN == other.WWN
}

// Other reports whether serial or WWN show that the two identities are of different disks. If both disks have a serial,
// Other compares only the serials.
func (i Identity) Other(other Identity) bool {
	if i.Serial != "" && other.Serial != "" {
		return OtherSerial(i.Serial, other.Serial)
	}
	return otherWWN(i.WWN, other.WWN)
}

// Hardware compares the serials, or the WWNs if a serial is missing. The first result is true if these values show that
// the two identities are of one disk. The second result is false if these values leave open whether the identities are
// of one disk or of two disks. Unlike Same and Other, Hardware treats a truncated serial as different from the complete
// serial.
func (i Identity) Hardware(other Identity) (same, decides bool) {
	if i.Serial != "" && other.Serial != "" {
		return i.Serial == other.Serial, true
	}
	return i.Same(other), i.Same(other) || i.Other(other)
}

// Like reports whether the two identities may be of one disk, even if the disk was detached and attached again in the
// same boot. The sizes must be equal, and the serials or WWNs must match. If serials and WWNs do not decide this
// (Hardware), the slots must be equal, and neither identity may have a serial.
func (i Identity) Like(other Identity) bool {
	if i.Size != other.Size {
		return false
	}
	if same, decides := i.Hardware(other); decides {
		return same
	}
	return i.Serial == other.Serial && i.Slot == other.Slot
}

// ResizedTo reports whether the two identities may be of one disk whose size has changed. The disk may have been
// detached and attached again. If serials or WWNs decide whether both identities are of one disk (see Hardware), the
// result is this decision. Otherwise, both identities must have the same slot and no serial, and the other identity
// must have the larger size.
func (i Identity) ResizedTo(other Identity) bool {
	if i.Size == other.Size {
		return false
	}
	if same, decides := i.Hardware(other); decides {
		return same
	}
	return i.Serial == other.Serial && i.Slot != "" && i.Slot == other.Slot && i.Size < other.Size
}

// MayBe reports whether i may be the disk of an earlier record (other), even if facts of the disk have changed. A disk
// with another size or with a new serial may still be the same disk. The serials or WWNs must match. If serials and
// WWNs do not decide this (Hardware), the slots must be equal. If i has no slot, Like decides. Within one boot, MayBe
// compares only the sequence numbers.
func (i Identity) MayBe(other Identity) bool {
	if i.Boot == other.Boot {
		return i.Seq == other.Seq
	}
	if same, decides := i.Hardware(other); decides {
		return same
	}
	if i.Slot == "" {
		return i.Like(other)
	}
	return i.Slot == other.Slot
}

// Given is the record that a disk was given out as a block volume. The record stays until a format with the operator's
// token, or until a reset of all records. The content of the disk belongs to the user of the volume, even if the
// content looks like a filesystem.
type Given struct {
	Serial string `json:"serial"`
	WWN    string `json:"wwn,omitempty"`
	// Size (in bytes), Link and Class are the values from the last time that the disk was given out. First is when the
	// disk was first given out. Class is empty after the operator has accepted that another class uses the disk.
	Size  uint64    `json:"size"`
	Link  string    `json:"link"`
	Class string    `json:"class"`
	First time.Time `json:"first"`
	// Slot, Seq and Boot are the values from the last time that the disk was given out, as in Facts and Identity. Twice
	// reports that another disk with the same serial has been attached since First. If Twice is set, only boot and
	// sequence number distinguish the two disks, because another disk can get the same slot later. ThisBoot reports
	// that Boot is the current boot.
	Slot     string `json:"slot,omitempty"`
	Seq      uint64 `json:"seq,omitempty"`
	Boot     string `json:"boot,omitempty"`
	Twice    bool   `json:"twice,omitempty"`
	ThisBoot bool   `json:"this_boot,omitempty"`
}

// Is reports whether the record may be a record of this disk. A bus other than virtio may show a longer serial for the
// same disk, because virtio truncates serials. Is does not compare the size, because the disk may have grown.
func (g *Given) Is(f *Facts) bool {
	return SameSerial(f.Serial, g.Serial) || f.WWN != "" && f.WWN == g.WWN
}

// serialLength is the length in bytes of the longest serial that virtio-blk passes on (VIRTIO_BLK_ID_BYTES in
// linux/virtio_blk.h). Two serials that are longer than serialLength can look the same after virtio has truncated them.
const serialLength = 20

// SerialCut reports whether virtio may have truncated the serial.
func (f *Facts) SerialCut() bool { return f.Transport == "virtio" && len(f.Serial) >= serialLength }

// Same reports whether f is certainly the disk that was given out, and not another disk with the same serial. If the
// serial may be truncated, Same also returns false if the size differs, or if the disk has known content. Such a disk
// may be another disk with the same truncated serial.
func (g *Given) Same(f *Facts) bool {
	switch {
	case f.Serial != g.Serial || f.WWN != g.WWN && f.WWN != "" && g.WWN != "":
		return false
	case g.Twice && !(g.ThisBoot && g.Seq == f.Seq):
		return false
	case f.SerialCut() && (f.Size != g.Size || f.Holds()):
		return false
	}
	return f.Size >= g.Size
}
