package sysfs

import (
	"path/filepath"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// fabric returns Facts.Fabric for the whole disk in that directory. The facts have its transport and slot already.
func (f FS) fabric(facts *disk.Facts, dir string) bool {
	// udev's path_id names iSCSI and Fibre Channel so: ip-ADDRESS-iscsi-…, pci-…-fc-PORT-lun-0.
	for _, part := range []string{"ip-", "fc-"} {
		if strings.HasPrefix(facts.Slot, part) || strings.Contains(facts.Slot, "-"+part) {
			return true
		}
	}
	return f.onFabric(facts.Name, dir, facts.Transport)
}

// onFabric is fabric by sysfs alone.
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
	// nbd, rbd, drbd and others show no bus.
	return strings.Contains(dir, "/virtual/") || strings.Contains(dir, "/rbd/")
}

// onSCSIFabric reports whether the path of a SCSI disk has a session of iSCSI or a remote port of Fibre Channel
// (iscsi_add_session in drivers/scsi/scsi_transport_iscsi.c, fc_remote_port_create in scsi_transport_fc.c). SRP shows
// only in the name of its driver (drivers/infiniband/ulp/srp).
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

// onNVMeFabric reports whether any controller of an NVMe disk is not on PCIe, or none shows its transport
// (drivers/nvme/host/sysfs.c). With several paths the disk belongs to a subsystem, which has a link to each controller.
func onNVMeFabric(dir string) bool {
	controllers := []string{filepath.Join(dir, "device/transport")}
	if _, err := readAttribute(controllers[0]); err != nil {
		controllers, _ = filepath.Glob(filepath.Join(dir, "device/nvme*/transport")) // the pattern is sound
	}
	return len(controllers) == 0 || slices.ContainsFunc(controllers, func(file string) bool {
		transport, err := readAttribute(file)
		return err != nil || transport != "pcie\n"
	})
}

// aboveFabric reports whether a disk below the device is on a fabric, or cannot be looked at.
func (f FS) aboveFabric(name string) bool {
	below, err := f.Below(name)
	return err != nil || slices.ContainsFunc(below, func(part string) bool {
		dir, err := follow(f.path("sys/block", part))
		if err != nil {
			return true
		}
		kind, err := transport(part, dir)
		// What lies deeper is among those below, too.
		return err != nil || kind != "dm" && kind != "md" && f.onFabric(part, dir, kind)
	})
}
