//go:build vm && (long || full)

package system

import (
	"testing"

	"hotmount/test/worker"
)

// TestSystemDiskElsewhere: where the system is on a SCSI disk, vda is like any
// other virtio disk.
func TestSystemDiskElsewhere(t *testing.T) {
	m, w := start(t, worker.Options{SystemBus: worker.BusSCSI})
	// Before hotmount starts the package has the driver loaded, also where there is no
	// such disk yet, and no initramfs that has it, as the worker's.
	m.run("modprobe -r virtio_blk; [ ! -e /sys/module/virtio_blk ]; systemctl restart systemd-modules-load; [ -e /sys/module/virtio_blk ]; systemctl show -p After --value hotmount | grep -qw systemd-modules-load.service")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	if name != "vda" {
		t.Fatalf("the disk is %s, not vda", name)
	}
	m.mounted("vda")
	if plan := m.run("hotmount plan"); !regexpLine(plan, `^sda .*ignore .*carries the system`) {
		t.Errorf("the plan does not ignore sda:\n%s", plan)
	}
}
