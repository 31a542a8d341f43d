package sysfs

import (
	"path/filepath"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// The method `fabric` returns the value of Facts.Fabric for the whole disk with that sysfs directory. The parameter `facts`
// must already contain the disk's transport and slot.
func (f FS) fabric(facts *disk.Facts, dir string) bool {
	// udev's path_id gives an iSCSI disk the name ip-ADDRESS-iscsi-…, and a Fibre Channel disk the name
	// pci-…-fc-PORT-lun-0.
	for _, part := range []string{"ip-", "fc-"} {
		if strings.HasPrefix(facts.Slot, part) || strings.Contains(facts.Slot, "-"+part) {
			return true
		}
	}
	return f.onFabric(facts.Name, dir, facts.Transport)
}

// onFabric reports whether sysfs shows that the disk is on a storage fabric, such as iSCSI or Fibre Channel.
func (f FS) onFabric(name, dir, transport string) bool {
	switch transport {
	case "virtio", disk.VirtioSCSI, "loop":
		return false // a guest cannot see the storage behind its hypervisor
	case "scsi":
		return onSCSIFabric(dir)
	case "nvme":
		return onNVMeFabric(dir)
	case "dm", "md":
		return f.aboveFabric(name)
	}
	// The sysfs path of a network block device, such as nbd, rbd or drbd, contains no bus.
	return strings.Contains(dir, "/virtual/") || strings.Contains(dir, "/rbd/")
}

// onSCSIFabric reports whether a SCSI disk is on a fabric. The path of the disk can contain an iSCSI session or a Fibre
// Channel remote port (iscsi_add_session in drivers/scsi/scsi_transport_iscsi.c, fc_remote_port_create in
// scsi_transport_fc.c). For a SCSI disk over SRP, only the name of the driver shows the fabric
// (drivers/infiniband/ulp/srp).
func onSCSIFabric(dir string) bool {
	if strings.Contains(dir, "/session") || strings.Contains(dir, "/rport-") {
		return true
	}
	host, _, found := strings.Cut(dir, "/target")
	if !found {
		return false
	}
	driver, err := readAttribute(filepath.Join(host, "scsi_host", filepath.Base(host), "proc_name"))
	return err == nil && driver == "ib_srp\n"
}

// onNVMeFabric reports whether any controller of an NVMe disk has a transport other than PCIe, or an unknown transport
// (drivers/nvme/host/sysfs.c). An NVMe disk with several paths belongs to an NVMe subsystem, which has a link to each
// controller.
func onNVMeFabric(dir string) bool {
	controllers := []string{filepath.Join(dir, "device/transport")}
	if _, err := readAttribute(controllers[0]); err != nil {
		controllers, _ = filepath.Glob(filepath.Join(dir, "device/nvme*/transport")) // filepath.Glob fails only for a faulty pattern
	}
	return len(controllers) == 0 || slices.ContainsFunc(controllers, func(file string) bool {
		transport, err := readAttribute(file)
		return err != nil || transport != "pcie\n"
	})
}

// aboveFabric reports whether any disk below a dm or md device is on a fabric, or cannot be examined.
func (f FS) aboveFabric(name string) bool {
	below, err := f.Below(name)
	return err != nil || slices.ContainsFunc(below, func(part string) bool {
		dir, err := resolveEntry(f.path("sys/block", part))
		if err != nil {
			return true
		}
		kind, err := transport(part, dir)
		// f.Below(name) returns the disks at every depth, including the disks under another dm or md device.
		return err != nil || kind != "dm" && kind != "md" && f.onFabric(part, dir, kind)
	})
}
