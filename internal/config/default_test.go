package config

import (
	"testing"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

// TestDefaultClass checks that the built-in class selects virtio-blk disks of any vendor. Of the SCSI disks, the class
// selects only QEMU's disks on virtio-scsi.
func TestDefaultClass(t *testing.T) {
	s := Default()
	for _, test := range []struct {
		name, transport, vendor string
		want                    bool
	}{
		{"vdb", "virtio", "0x1af4", true}, {"vdaa", "virtio", "0x554d4551", true}, {"vdb", "virtio", "0x0000", true},
		{"sda", disk.VirtioSCSI, "QEMU", true}, {"sdab", disk.VirtioSCSI, "QEMU", true},
		{"sda", disk.VirtioSCSI, "Google", false}, {"sda", disk.VirtioSCSI, "HC", false}, {"sda", disk.VirtioSCSI, "DO", false}, {"sda", disk.VirtioSCSI, "", false},
		{"sda", "scsi", "QEMU", false}, {"nvme0n1", "nvme", "QEMU", false}, {"sda1", disk.VirtioSCSI, "QEMU", false}, {"sr0", disk.VirtioSCSI, "QEMU", false},
	} {
		f := disk.Facts{ID: disk.ID{Name: test.name}, Transport: test.transport, Vendor: test.vendor}
		if test.name == "sda1" {
			f.Whole = "sda"
		}
		if got := policy.Select(&f, &s) != nil; got != test.want {
			t.Errorf("%+v: selected %v", test, got)
		}
		// The default class must hold a disk that a CSI driver may have attached, because clouds attach volumes through
		// virtio-scsi.
		f.Drivers = []disk.Driver{{Name: "csi.hetzner.cloud", Reach: disk.Local}}
		if test.want && len(policy.Drivers(&f, &s)) == 0 {
			t.Errorf("%+v: not held for a volume driver", test)
		}
	}
}
