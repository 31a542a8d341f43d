package inventory

import (
	"path/filepath"
	"slices"

	"hotmount/internal/disk"
)

// boundAt returns where the disk's node is bound (disk.Facts.Bound). bound is of mounts.Bound.
func boundAt(f *disk.Facts, bound map[string][]string) []string {
	at := slices.Concat(bound[f.Name], bound[f.Whole])
	for _, part := range f.Partitions {
		at = append(at, bound[part]...)
	}
	return at
}

// neighbours are files that exist where a CSI driver attaches disks, or where a virtual machine monitor may open them:
// the sockets of drivers and of KubeVirt below kubelet's root directory, libvirt's and Kata's directories, and the
// monitors themselves. The daemon does not see processes of others (ProtectProc=).
var neighbours = []string{
	"/var/lib/kubelet/plugins_registry/*.sock",
	"/var/lib/kubelet/plugins/*/csi.sock",
	"/var/lib/kubelet/plugins/csi.hetzner.cloud/socket",
	"/var/lib/kubelet/device-plugins/kubevirt-*.sock",
	"/etc/libvirt/qemu",
	"/run/libvirt",
	"/run/kata-containers",
	"/usr/bin/qemu-system-x86_64",
	"/usr/bin/qemu-system-aarch64",
	"/usr/bin/cloud-hypervisor",
	"/usr/bin/firecracker",
}

// neighbourhood reports whether one of the neighbours exists.
func (h Host) neighbourhood() bool {
	for _, pattern := range neighbours {
		// The error is for a faulty pattern, and none is (TestNeighbourhood).
		if found, _ := filepath.Glob(filepath.Join("/", h.Root, pattern)); len(found) > 0 {
			return true
		}
	}
	return false
}
