package inventory

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
)

// TestBoundAsADevice checks that a bind mount of the device node of a disk, or of its partition, counts as a use of the
// disk.
func TestBoundAsADevice(t *testing.T) {
	const root = "27 1 0:2 / / rw - rootfs rootfs rw\n"
	for name, test := range map[string]struct {
		lines string
		want  map[string][]string
	}{
		"nothing":           {"", map[string][]string{}},
		"a whole disk":      {"60 27 0:5 /vdb /srv/pod rw - devtmpfs udev rw\n", map[string][]string{"vdb": {"/srv/pod"}}},
		"a partition":       {"60 27 0:5 /vda2 /srv/pod rw - devtmpfs udev rw\n", map[string][]string{"vda": {"/srv/pod"}}},
		"a removed node":    {"60 27 0:5 /vdb//deleted /srv/pod rw - devtmpfs udev rw\n", map[string][]string{}},
		"a container's own": {"60 27 0:40 /dev/vdb /srv/pod rw - tmpfs none rw\n", map[string][]string{"vdb": {"/srv/pod"}}},
	} {
		got := map[string][]string{}
		for device, f := range scan(t, node.with(tree{table: root + test.lines}).make(t)) {
			if len(f.Bound) > 0 {
				got[device] = f.Bound
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestMonitors checks which files and directories show that other programs on the node may open disks. One file or
// directory of a virtual machine monitor, or one storage driver that attaches disks, is enough to show this. The setting
// csi_ignore must change nothing, because an ignored driver may still have a disk open.
func TestMonitors(t *testing.T) {
	h := node.make(t)
	if h.hasMonitor() || scan(t, h)["vdb"].Neighbours {
		t.Error("found monitors without any file")
	}
	for path, want := range map[string]bool{
		"var/lib/kubelet/device-plugins/kubevirt-kvm.sock":     true,
		"var/lib/k0s/kubelet/device-plugins/kubevirt-kvm.sock": true,
		"var/lib/kubelet/device-plugins/kubelet.sock":          false,
		"etc/libvirt/qemu/":           true,
		"etc/libvirt/libvirt.conf":    false,
		"run/libvirt/":                true,
		"run/kata-containers/":        true,
		"usr/bin/qemu-system-x86_64":  true,
		"usr/bin/qemu-system-aarch64": true,
		"usr/bin/qemu-img":            false,
		"usr/bin/cloud-hypervisor":    true,
		"usr/bin/firecracker":         true,
	} {
		h := node.with(tree{path: ""}).make(t)
		if h.hasMonitor() != want || scan(t, h)["vdb"].Neighbours != want {
			t.Errorf("%s: want %v", path, want)
		}
	}
	for driver, want := range map[string]bool{"cinder.csi.openstack.org": true, "csi.tigera.io": false} {
		h := node.with(tree{"var/lib/kubelet/plugins_registry/": ""}).make(t)
		if err := syscall.Mknod(filepath.Join(h.Root, "var/lib/kubelet/plugins_registry", driver+"-reg.sock"), syscall.S_IFSOCK|0o600, 0); err != nil {
			t.Fatal(err)
		}
		if scan(t, h.For(&disk.Settings{CSIIgnore: []string{driver}}))["vdb"].Neighbours != want {
			t.Errorf("%s: want %v", driver, want)
		}
	}
}

// TestUnlisted checks that a look notices a filesystem that is mounted in the kernel but is missing from PID 1's mount
// table.
func TestUnlisted(t *testing.T) {
	const mounted = "60 27 254:16 / /srv rw - xfs /dev/vdb rw\n"
	for name, test := range map[string]struct {
		files tree
		want  bool
	}{
		"not mounted":               {tree{}, false},
		"xfs in another namespace":  {tree{"sys/fs/xfs/vdb/": ""}, true},
		"ext4 in another namespace": {tree{"sys/fs/ext4/vdb/": ""}, true},
		"another disk":              {tree{"sys/fs/xfs/vdc/": ""}, false},
		"in the host's mount table": {tree{"sys/fs/xfs/vdb/": "", table: mounted}, false},
	} {
		if got := scan(t, node.with(test.files).make(t))["vdb"].Unlisted; got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
