package inventory

import (
	"os"
	"path/filepath"
	"slices"

	"hotmount/internal/disk"
)

// boundAt returns the paths at which the disk's device node is bind-mounted (disk.Facts.Bound). The map bound comes
// from mounts.Bound.
func boundAt(f *disk.Facts, bound map[string][]string) []string {
	at := slices.Concat(bound[f.Name], bound[f.Whole])
	for _, part := range f.Partitions {
		at = append(at, bound[part]...)
	}
	return at
}

// monitors are paths whose existence shows that a virtual machine monitor may open disks: directories of libvirt and
// Kata, and the programs of monitors. The daemon cannot look for the processes of monitors, because ProtectProc= hides
// the processes of other users. kubeVirt is the pattern of KubeVirt's sockets below kubelet's root directory.
var monitors = []string{
	"/etc/libvirt/qemu",
	"/run/libvirt",
	"/run/kata-containers",
	bin + "qemu-system-x86_64",
	bin + "qemu-system-aarch64",
	bin + "cloud-hypervisor",
	bin + "firecracker",
}

const (
	bin      = "/usr/bin/"
	kubeVirt = "/var/lib/kubelet/device-plugins/kubevirt-*.sock"
)

// hasMonitor reports whether the node has one of the virtual machine monitors, or KubeVirt.
func (h Host) hasMonitor() bool {
	for _, file := range monitors {
		if _, err := os.Lstat(h.Root + file); err == nil {
			return true
		}
	}
	// Glob returns an error only for a faulty pattern, and the pattern kubeVirt is correct.
	found, _ := filepath.Glob(h.Root + kubeVirt)
	return len(found) > 0
}
