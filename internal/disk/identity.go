package disk

import (
	"strings"
	"time"
)

// NamespacePrefix returns the prefix that distinguishes the serial of an NVMe namespace: all namespaces of a controller
// share its serial. The first namespace has no prefix.
func NamespacePrefix(namespace string) string {
	if namespace == "" || namespace == "1" {
		return ""
	}
	return "n" + namespace + "-"
}

// ControllerSerial removes NamespacePrefix from the serial of an NVMe disk. Other serials stay as they are.
func (f *Facts) ControllerSerial(serial string) string {
	digits, rest, found := strings.Cut(strings.TrimPrefix(serial, "n"), "-")
	if f.Transport != "nvme" || !found || serial != NamespacePrefix(digits)+rest || strings.Trim(digits, "0123456789") != "" {
		return serial
	}
	return rest
}

// Identity distinguishes a disk from others across reboots, as far as possible. If not both of two disks have a serial
// the WWN decides. A disk without either is recognised only by its slot and size.
type Identity struct {
	// Boot is the kernel's boot id (/proc/sys/kernel/random/boot_id). Within one boot Seq alone decides.
	Boot   string `json:"boot"`
	Seq    uint64 `json:"seq"`
	Serial string `json:"serial,omitempty"`
	// WWN is Facts.WorldWide.
	WWN  string `json:"wwn,omitempty"`
	Slot string `json:"slot,omitempty"`
	Size uint64 `json:"size"`
}

// Identity returns the identity of the disk as attached in the boot with that id.
func (f *Facts) Identity(boot string) Identity {
	return Identity{Boot: boot, Seq: f.Seq, Serial: f.Serial, WWN: f.WorldWide(), Slot: f.Slot, Size: f.Size}
}

// Is reports whether both may be the same disk. Within one boot the sequence number decides. Across a reboot Like does.
func (i Identity) Is(other Identity) bool {
	if i.Boot == other.Boot {
		return i.Seq == other.Seq
	}
	return i.Like(other)
}

// OtherSerial reports whether the serials belong to two different disks. An empty serial can be any disk's. A serial
// cut by virtio matches the whole serial seen on another bus.
func OtherSerial(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return a != "" && a != b && (len(a) != serialLength || !strings.HasPrefix(b, a))
}

// SameSerial reports whether the serials may belong to one disk, on any bus.
func SameSerial(a, b string) bool { return a != "" && b != "" && !OtherSerial(a, b) }

// Same reports whether serial or WWN show both to be one disk, on any bus. If both have a serial the serial decides.
func (i Identity) Same(other Identity) bool {
	if i.Serial != "" && other.Serial != "" {
		return SameSerial(i.Serial, other.Serial)
	}
	return i.WWN != "" && i.WWN == other.WWN
}

// Other reports whether serial or WWN show two different disks. If both have a serial the serial decides.
func (i Identity) Other(other Identity) bool {
	if i.Serial != "" && other.Serial != "" {
		return OtherSerial(i.Serial, other.Serial)
	}
	return otherWWN(i.WWN, other.WWN)
}

// Hardware reports whether serial or WWN decide, and if so, whether for the same disk. Unlike in Same and Other, a cut
// serial is another one.
func (i Identity) Hardware(other Identity) (same, decides bool) {
	if i.Serial != "" && other.Serial != "" {
		return i.Serial == other.Serial, true
	}
	return i.Same(other), i.Same(other) || i.Other(other)
}

// Like reports whether both may be the same disk, perhaps attached again within the same boot. Serial or WWN decide,
// else the slot. The size must be the same.
func (i Identity) Like(other Identity) bool {
	if i.Size != other.Size {
		return false
	}
	if same, decides := i.Hardware(other); decides {
		return same
	}
	return i.Serial == other.Serial && i.Slot == other.Slot
}

// ResizedTo reports whether the other may be the same disk with another size, perhaps attached again. Serial or WWN
// decide, else the slot, and then the disk must have grown.
func (i Identity) ResizedTo(other Identity) bool {
	if i.Size == other.Size {
		return false
	}
	if same, decides := i.Hardware(other); decides {
		return same
	}
	return i.Serial == other.Serial && i.Slot != "" && i.Slot == other.Slot && i.Size < other.Size
}

// MayBe reports whether this may be the disk recorded as other in an earlier boot, whatever changed since. Another
// size, or a new serial, does not make it another disk. Serial or WWN decide, else the slot. Within one boot the
// sequence number decides.
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

// Given is the permanent record of a disk that was given out as a block volume. Its content belongs to the volume's
// user, whatever it looks like.
type Given struct {
	Serial string `json:"serial"`
	WWN    string `json:"wwn,omitempty"`
	// Size (in bytes), Link and Class are those of the last time. First is the first time. Class is empty once the
	// operator has accepted that another class has the disk.
	Size  uint64    `json:"size"`
	Link  string    `json:"link"`
	Class string    `json:"class"`
	First time.Time `json:"first"`
	// Slot, Seq and Boot are those of the last time, as in Facts and Identity. Twice reports that another disk with the
	// same serial has been attached since First. Then only the attachment tells them apart, because a slot is reused.
	// ThisBoot reports that Boot is the current one.
	Slot     string `json:"slot,omitempty"`
	Seq      uint64 `json:"seq,omitempty"`
	Boot     string `json:"boot,omitempty"`
	Twice    bool   `json:"twice,omitempty"`
	ThisBoot bool   `json:"this_boot,omitempty"`
}

// Is reports whether the record may be the disk's, even on a bus other than virtio, which cuts serials. The size does
// not count, because the disk may have grown.
func (g *Given) Is(f *Facts) bool {
	return SameSerial(f.Serial, g.Serial) || f.WWN != "" && f.WWN == g.WWN
}

// serialLength is the longest serial that virtio-blk passes on (VIRTIO_BLK_ID_BYTES in linux/virtio_blk.h). Two longer
// serials can look the same.
const serialLength = 20

// SerialCut reports whether the serial may be the beginning of a longer one.
func (f *Facts) SerialCut() bool { return f.Transport == "virtio" && len(f.Serial) >= serialLength }

// Same reports whether f is certainly the disk that was given out, and not another with the same serial. If the serial
// may be cut and content is known on the disk, that content may not be the volume's.
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
