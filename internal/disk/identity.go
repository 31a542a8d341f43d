package disk

import (
	"strings"
	"time"
)

// NamespacePrefix is put before the serial that an NVMe disk has in common with the other
// namespaces of its controller; the first has none.
func NamespacePrefix(namespace string) string {
	if namespace == "" || namespace == "1" {
		return ""
	}
	return "n" + namespace + "-"
}

// ControllerSerial takes NamespacePrefix from a serial of the disk, if it is of NVMe.
func (f *Facts) ControllerSerial(serial string) string {
	digits, rest, found := strings.Cut(strings.TrimPrefix(serial, "n"), "-")
	if f.Transport != "nvme" || !found || serial != NamespacePrefix(digits)+rest || strings.Trim(digits, "0123456789") != "" {
		return serial
	}
	return rest
}

// Identity is what tells a disk from others over reboots, as far as it can be
// told: a disk without a serial is known by its slot and its size only.
type Identity struct {
	// Boot is the kernel's boot id (/proc/sys/kernel/random/boot_id). Within
	// it Seq alone decides.
	Boot   string `json:"boot"`
	Seq    uint64 `json:"seq"`
	Serial string `json:"serial,omitempty"`
	Slot   string `json:"slot,omitempty"`
	Size   uint64 `json:"size"`
}

// Identity returns the identity of the disk as attached in the boot of that id.
func (f *Facts) Identity(boot string) Identity {
	return Identity{Boot: boot, Seq: f.Seq, Serial: f.Serial, Slot: f.Slot, Size: f.Size}
}

// Is reports whether both may be the same disk. Within one boot the sequence
// number decides. Over a reboot the serial does where there is one, and the
// slot where there is none; the size must be the same in both cases.
func (i Identity) Is(other Identity) bool {
	if i.Boot == other.Boot {
		return i.Seq == other.Seq
	}
	return i.Like(other)
}

// OtherSerial reports whether the serials are those of two disks. What has none can be
// any, and one that virtio has cut is the whole one on another bus.
func OtherSerial(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return a != "" && a != b && (len(a) != serialLength || !strings.HasPrefix(b, a))
}

// SameSerial reports whether the serials may be those of one disk, on whatever bus.
func SameSerial(a, b string) bool { return a != "" && b != "" && !OtherSerial(a, b) }

// Like reports whether both may be the same disk, attached again perhaps, also
// within one boot.
func (i Identity) Like(other Identity) bool {
	if i.Serial != other.Serial || i.Size != other.Size {
		return false
	}
	return i.Serial != "" || i.Slot == other.Slot
}

// ResizedTo reports whether the other may be the same disk of another size, attached again
// perhaps: by its serial, and without one by its slot if it has grown.
func (i Identity) ResizedTo(other Identity) bool {
	if i.Serial != other.Serial || i.Size == other.Size {
		return false
	}
	return i.Serial != "" || i.Slot != "" && i.Slot == other.Slot && i.Size < other.Size
}

// MayBe reports whether it may be the disk that was there as other in an earlier boot,
// however it was changed meanwhile: its size, or by a serial that it got, does not
// make it another disk. Where both have a serial that decides, else the slot does.
// Within one boot the sequence number decides.
func (i Identity) MayBe(other Identity) bool {
	switch {
	case i.Boot == other.Boot:
		return i.Seq == other.Seq
	case i.Serial != "" && other.Serial != "":
		return i.Serial == other.Serial
	case i.Slot == "":
		return i.Like(other)
	}
	return i.Slot == other.Slot
}

// Given is what is remembered for ever of a disk that was given out as a block
// volume: what is on it belongs to whoever had the volume, whatever it looks like.
type Given struct {
	Serial string `json:"serial"`
	WWN    string `json:"wwn,omitempty"`
	// Size in bytes, Link and Class as of the last time, First the first. Class is empty
	// once the operator has accepted that another class has the disk.
	Size  uint64    `json:"size"`
	Link  string    `json:"link"`
	Class string    `json:"class"`
	First time.Time `json:"first"`
	// Slot, Seq and Boot as of the last time, as in Facts and Identity. Twice says that
	// another disk with its serial was there since it was first given out: then nothing
	// tells them apart but the attachment itself, for a slot is used again. ThisBoot says
	// that Boot is this one.
	Slot     string `json:"slot,omitempty"`
	Seq      uint64 `json:"seq,omitempty"`
	Boot     string `json:"boot,omitempty"`
	Twice    bool   `json:"twice,omitempty"`
	ThisBoot bool   `json:"this_boot,omitempty"`
}

// Is reports whether the record may be of the disk, also on another bus, where virtio does
// not cut its serial. Its size does not count: it may have grown since.
func (g *Given) Is(f *Facts) bool {
	return SameSerial(f.Serial, g.Serial) || f.WWN != "" && f.WWN == g.WWN
}

// serialLength is the most that virtio-blk hands on of a serial (VIRTIO_BLK_ID_BYTES
// in linux/virtio_blk.h): two longer ones can be one.
const serialLength = 20

// SerialCut reports that the serial may be the beginning of a longer one.
func (f *Facts) SerialCut() bool { return f.Transport == "virtio" && len(f.Serial) >= serialLength }

// Same reports that f is the disk that was given out, and not just one that it cannot
// be told from by its serial alone. What is known on a disk whose serial may have been
// cut is perhaps not the volume's.
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
