package inventory

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
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

// claims returns the claims of the system's configuration (mounts.Claims), and a claim for each symlink in a class
// directory, except hotmount's own links. The provisioner makes a volume of a symlink that leads to a disk. claims
// ignores an unreadable class directory, because hotmount cannot use that directory either.
func (h Host) claims() ([]mounts.Claim, error) {
	all, err := mounts.Claims(h.Root)
	for _, dir := range h.Directories {
		entries, _ := os.ReadDir(filepath.Join("/", h.Root, dir))
		for _, e := range entries {
			if e.Type() != fs.ModeSymlink || h.given(dir, e.Name()) {
				continue
			}
			if target, err := os.Readlink(filepath.Join("/", h.Root, dir, e.Name())); err == nil {
				if !path.IsAbs(target) {
					target = path.Join(dir, target)
				}
				all = append(all, mounts.Claim{Where: path.Join(dir, e.Name()), Spec: target})
			}
		}
	}
	return all, err
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
