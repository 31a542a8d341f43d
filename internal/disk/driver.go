package disk

// Driver is software on the node that brings disks or takes them for itself: mostly a CSI driver.
type Driver struct {
	// Name is the CSI driver's name, or that of its directory. Foreign bytes.
	Name string
	// Reach are the kinds of disks that it brings or takes.
	Reach Reach
}

// Reach is a set of kinds of disks.
type Reach uint8

// The kinds of disks.
const (
	// Fabric: disks behind a network, such as iSCSI, Fibre Channel, NVMe over fabrics and RBD.
	Fabric Reach = 1 << iota
	// Mapper: devices that the node builds on other disks: LVM, crypt, DRBD, ZFS volumes.
	Mapper
	// Local: disks that look as if they were the node's own. Disks of virtual machines do, wherever they are stored.
	Local

	// Whole: the driver takes whole disks of any kind.
	Whole = Local | Mapper
	// Anything: nothing is known about the driver.
	Anything = Fabric | Mapper | Local
)

// Reach returns the kinds to which the disk may belong. A SCSI or NVMe disk whose path shows no fabric is local. Devices
// without a known transport may be of any kind.
func (f *Facts) Reach() Reach {
	var fabric Reach
	if f.Fabric {
		fabric = Fabric
	}
	switch f.Transport {
	case "virtio", VirtioSCSI, "loop":
		return Local
	case "scsi", "nvme":
		return Local | fabric
	case "dm", "md": // of the disks below as well: a driver encrypts its own volume, and multipathd builds on a fabric
		return Mapper | Local | fabric
	}
	return Anything
}
