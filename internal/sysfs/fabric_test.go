package sysfs

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestFabric checks that onFabric returns true for a sysfs path that shows a storage fabric, and false for a local
// disk. The sysfs paths in the test have the same form as the kernel's paths.
func TestFabric(t *testing.T) {
	const (
		pci      = "sys/devices/pci0000:00/0000:00:02.0/0000:02:00.0/"
		software = "sys/devices/platform/host3/session1/target3:0:0/3:0:0:1/block/sdb"
		second   = "sys/devices/platform/host3/session1/target3:0:0/3:0:0:2/block/sdc"
		srp      = pci + "host6/target6:0:0/6:0:0:1/block/sdb"
		sas      = pci + "host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0/block/sdb"
		subsys   = "sys/devices/virtual/nvme-subsystem/nvme-subsys0/"
		volume   = "sys/devices/virtual/block/dm-0/"
	)
	// The function `lies` returns the sysfs tree of a disk. The parameter `at` is the directory of the disk. The
	// parameter `bus` is the subsystem of the disk's device, such as "scsi". For a disk without a device, the parameter
	// `bus` is empty.
	lies := func(name, at, bus string) tree {
		made := tree{"sys/block/" + name: "-> ../../" + at, at + "/size": "1\n"}
		if bus != "" {
			made[at+"/device/subsystem"] = "-> ../x/" + bus
		}
		return made
	}
	for name, c := range map[string]struct {
		disk, at, transport string
		tree                tree
		want                bool
	}{
		"virtio":                   {"vdb", strings.TrimSuffix(vdb, "/"), "virtio", virtio, false},
		"virtio-scsi":              {"sda", strings.TrimSuffix(sda, "/"), "scsi", scsi, false},
		"SAS":                      {"sdb", sas, "scsi", lies("sdb", sas, "scsi"), false},
		"a SCSI disk of no host":   {"sdb", "sys/devices/x/block/sdb", "scsi", lies("sdb", "sys/devices/x/block/sdb", "scsi"), false},
		"iSCSI":                    {"sdb", software, "scsi", lies("sdb", software, "scsi"), true},
		"iSCSI of an adapter":      {"sdb", pci + "host4/session2/target4:0:0/4:0:0:1/block/sdb", "scsi", nil, true},
		"Fibre Channel":            {"sdb", pci + "host5/rport-5:0-0/target5:0:0/5:0:0:0/block/sdb", "scsi", nil, true},
		"SRP":                      {"sdb", srp, "scsi", lies("sdb", srp, "scsi").with(tree{pci + "host6/scsi_host/host6/proc_name": "ib_srp\n"}), true},
		"another driver":           {"sdb", srp, "scsi", lies("sdb", srp, "scsi").with(tree{pci + "host6/scsi_host/host6/proc_name": "megaraid_sas\n"}), false},
		"NVMe":                     {"nvme0n1", pci + "nvme/nvme0/nvme0n1", "nvme", tree{pci + "nvme/nvme0/nvme0n1/device": "-> ../../nvme0", pci + "nvme/nvme0/transport": "pcie\n"}, false},
		"NVMe over TCP":            {"nvme0n1", "sys/devices/virtual/nvme-fabrics/ctl/nvme0/nvme0n1", "nvme", tree{"sys/devices/virtual/nvme-fabrics/ctl/nvme0/nvme0n1/device": "-> ../../nvme0", "sys/devices/virtual/nvme-fabrics/ctl/nvme0/transport": "tcp\n"}, true},
		"NVMe, two paths":          {"nvme0n1", subsys + "nvme0n1", "nvme", tree{subsys + "nvme0n1/device": "-> ../../nvme-subsys0", subsys + "nvme0/transport": "pcie\n", subsys + "nvme1": "-> nvme0"}, false},
		"NVMe, one path over RDMA": {"nvme0n1", subsys + "nvme0n1", "nvme", tree{subsys + "nvme0n1/device": "-> ../../nvme-subsys0", subsys + "nvme0/transport": "pcie\n", subsys + "nvme1/transport": "rdma\n"}, true},
		"NVMe, no path":            {"nvme0n1", subsys + "nvme0n1", "nvme", tree{subsys + "nvme0n1/device": "-> ../../nvme-subsys0"}, true},
		"a volume on local disks":  {"dm-0", volume, "dm", lies("sdb", sas, "scsi").with(lies("dm-0", volume, "")).with(tree{volume + "slaves/sdb": "-> ../../../../../../" + sas, sas + "/holders/dm-0": ""}), false},
		"a volume on two disks":    {"dm-0", volume, "dm", lies("sdb", sas, "scsi").with(lies("sdc", second, "scsi")).with(lies("dm-0", volume, "")).with(tree{volume + "slaves/sdb": "-> ../../../../../../" + sas, volume + "slaves/sdc": "-> ../../../../../../" + second, sas + "/holders/dm-0": "", second + "/holders/dm-0": ""}), true},
		"a volume on nothing":      {"dm-0", volume, "dm", lies("dm-0", volume, ""), false},
		"a loop device":            {"loop0", "sys/devices/virtual/block/loop0", "loop", nil, false},
		"nbd":                      {"nbd0", "sys/devices/virtual/block/nbd0", "", nil, true},
		"rbd":                      {"rbd0", "sys/devices/rbd/0/block/rbd0", "", nil, true},
		"another on PCI":           {"mmcblk0", pci + "mmc0/block/mmcblk0", "", nil, false},
	} {
		f := c.tree.make(t)
		if got := f.onFabric(c.disk, filepath.Join(f.Root, c.at), c.transport); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestFabricBySlot checks that Disk also recognises a fabric by ID_PATH from udev, because the sysfs path does not show
// every fabric.
func TestFabricBySlot(t *testing.T) {
	for path, want := range map[string]bool{
		"pci-0000:05:00.0": false, "acpi-x": false, "pci-0000:00:06.0-scsi-0:0:1:0": false, "platform-fc000000.sata": false,
		"ip-192.0.2.1:3260-iscsi-iqn.2001-04.com.example:x-lun-0": true, "pci-0000:05:00.0-ip-192.0.2.1:3260-iscsi-x-lun-0": true,
		"pci-0000:05:00.0-fc-0x5006016841e0a75f-lun-0": true, "fc-0x5006016841e0a75f-lun-0": true,
	} {
		const db = "run/udev/data/b254:16"
		facts, err := virtio.with(tree{db: strings.ReplaceAll(virtio[db], "E:ID_PATH=pci-0000:05:00.0", "E:ID_PATH="+path)}).make(t).Disk("vdb")
		if err != nil || facts.Slot != path || facts.Fabric != want {
			t.Errorf("%s: slot %q, fabric %v, %v", path, facts.Slot, facts.Fabric, err)
		}
	}
}
