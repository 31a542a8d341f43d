package disk

// Driver is software that attaches disks to the node, or that takes disks of the node for itself. Most drivers are CSI
// drivers.
type Driver struct {
	// Name is the name of the CSI driver, the name of its directory, or hotmount's own name for a driver, such as
	// "rook". The name can contain arbitrary bytes.
	Name string
	// Reach is the set of the kinds of disks that the driver attaches to the node or takes for itself.
	Reach Reach
}

// Reach is a set of kinds of disks.
type Reach uint8

// The kinds of disks.
const (
	// Fabric: disks behind a network, such as iSCSI, Fibre Channel, NVMe over fabrics and RBD.
	Fabric Reach = 1 << iota
	// Mapper: devices that the node builds on other disks, such as LVM, crypt, DRBD and ZFS volumes.
	Mapper
	// Local: disks that look as if they were in the machine itself. Disks that a hypervisor attaches look local to the
	// guest, wherever the hypervisor stores their data.
	Local

	// Whole: the driver takes whole disks of any kind.
	Whole = Local | Mapper
	// Anything: it is not known which kinds of disks the driver attaches or takes.
	Anything = Fabric | Mapper | Local
)

// Reach returns the kinds to which the disk may belong. A SCSI or NVMe disk whose path shows no fabric is local. A
// device without a known transport may be of any kind.
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
	case "dm", "md": // the kinds of the underlying disks count too: a driver encrypts its own volume, multipathd uses a fabric
		return Mapper | Local | fabric
	}
	return Anything
}
