package inventory

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hotmount/internal/csi"
	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// boundAt returns the paths at which the disk's device node is bind-mounted (disk.Facts.Bound). The parameter `bound` is
// the result of mounts.Bound.
func boundAt(f *disk.Facts, bound map[string][]string) []string {
	at := slices.Concat(bound[f.Name], bound[f.Whole])
	for _, part := range f.Partitions {
		at = append(at, bound[part]...)
	}
	return at
}

// addClaim records the first claim that names the disk or one of its partitions (disk.Facts.Claim). addClaim also records
// an earlier claim that may concern any disk (disk.Facts.Unseen).
func (h Host) addClaim(f *disk.Facts, claims []mounts.Claim) error {
	named, err := h.sysfs().UdevOfPartitions(f)
	if err != nil {
		return err
	}
	for _, claim := range claims {
		if claim.Matches(f) || slices.ContainsFunc(named, func(part disk.Facts) bool { return claim.Matches(&part) }) {
			f.Claim = claim.Where
			return nil
		}
		if claim.Spec == "" {
			f.Unseen = cmp.Or(f.Unseen, claim.Where)
		}
	}
	return nil
}

// The type `links` contains the entries of class directories that lead to disks. The provisioner may make a volume from
// each entry that leads to a disk. The key of the map links.at is a device number, and the value is the path of the
// entry that leads to the device. If a class directory is unreadable, links.unseen is its path.
type links struct {
	at     map[disk.Dev]string
	unseen string
}

// The method `links` reads the class directories. An entry leads to a device if the entry is a device node, or a symlink
// to a path below /dev. The method ignores hotmount's own links. The method follows no symlink to a path outside /dev,
// because such a symlink may lead to a dead filesystem.
func (h Host) links() links {
	l := links{at: map[disk.Dev]string{}}
	for _, dir := range h.Directories {
		entries, err := os.ReadDir(filepath.Join("/", h.Root, dir))
		// If the caller is not root, a directory that only root can read does not count as unseen.
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !(errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0) {
			l.unseen = dir
		}
		for _, e := range entries {
			where := path.Join(dir, e.Name())
			target := where
			switch {
			case e.Type() == fs.ModeSymlink:
				target, _ = os.Readlink(filepath.Join("/", h.Root, where))
				if !path.IsAbs(target) {
					target = path.Join(dir, target)
				}
				target = path.Clean(target)
				if !strings.HasPrefix(target, "/dev/") || strings.HasPrefix(target, disk.LinkDirectory+"/") {
					continue
				}
			case e.Type()&fs.ModeDevice == 0:
				continue
			}
			var st unix.Stat_t
			if unix.Stat(filepath.Join("/", h.Root, target), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK {
				l.at[disk.Dev{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}] = where
			}
		}
	}
	return l
}

// addLink records a foreign link to the disk as a claim (disk.Facts.Claim). A link to a recorded volume is not a claim,
// because the volume belongs to hotmount.
func (l links) addLink(f *disk.Facts) {
	if f.Standing.OnRecord {
		return
	}
	f.Claim = cmp.Or(f.Claim, l.at[f.Dev])
	f.Unseen = cmp.Or(f.Unseen, l.unseen)
}

// The variable `monitors` lists directories of libvirt and Kata, and the programs of virtual machine monitors. If one of
// these paths exists, a virtual machine monitor may open disks. The daemon cannot look for the processes of monitors,
// because ProtectProc= hides the processes of other users. kubeVirt is the pattern of KubeVirt's sockets below the root
// directory of a kubelet.
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
	kubeVirt = "/device-plugins/kubevirt-*.sock"
)

// hasMonitor reports whether the node has one of the virtual machine monitors, or KubeVirt.
func (h Host) hasMonitor() bool {
	for _, file := range monitors {
		if _, err := os.Lstat(h.Root + file); err == nil {
			return true
		}
	}
	return slices.ContainsFunc(csi.Roots, func(kubelet string) bool {
		// Glob returns an error only for a faulty pattern, and the pattern kubeVirt is correct.
		found, _ := filepath.Glob(h.Root + kubelet + kubeVirt)
		return len(found) > 0
	})
}

// isUnlisted returns the value of disk.Facts.Unlisted.
func (h Host) isUnlisted(f *disk.Facts) bool {
	return len(f.Mounts) == 0 && mounts.MountedAnywhere(h.Root, f.Name)
}
