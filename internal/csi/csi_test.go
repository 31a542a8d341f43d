package csi

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"hotmount/internal/disk"
)

// The function `node` returns a new root directory with a socket for each name. No process listens on the sockets. A name
// with a slash at the end becomes a directory.
func node(t *testing.T, names ...string) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, name := range names {
		path := filepath.Join(root, name)
		dir := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			dir = path
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if dir == path {
			continue
		}
		if err := syscall.Mknod(path, syscall.S_IFSOCK|0o600, 0); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const osds = "6e3b1a4c-0d6f-4c55-9e0f-5a6f0a2f3c11_b7a0c1de-5a5e-4d0e-8f61-6f5f1b8e2d90"

func TestDrivers(t *testing.T) {
	for name, tt := range map[string]struct {
		have []string
		want string
	}{
		"no kubelet":                         {nil, ""},
		"no driver":                          {[]string{"var/lib/kubelet/plugins/", "var/lib/kubelet/plugins_registry/"}, ""},
		"Cinder":                             {[]string{"var/lib/kubelet/plugins_registry/cinder.csi.openstack.org-reg.sock", "var/lib/kubelet/plugins/cinder.csi.openstack.org/csi.sock"}, "cinder.csi.openstack.org:4"},
		"Cinder, registered alone":           {[]string{"var/lib/kubelet/plugins_registry/cinder.csi.openstack.org-reg.sock"}, "cinder.csi.openstack.org:4"},
		"Cinder, not registered yet":         {[]string{"var/lib/kubelet/plugins/cinder.csi.openstack.org/csi.sock"}, "cinder.csi.openstack.org:4"},
		"Cinder, ended in order":             {[]string{"var/lib/kubelet/plugins/cinder.csi.openstack.org/"}, "cinder.csi.openstack.org:4"},
		"Hetzner":                            {[]string{"var/lib/kubelet/plugins/csi.hetzner.cloud/socket"}, "csi.hetzner.cloud:4"},
		"a driver that nobody knows":         {[]string{"var/lib/kubelet/plugins_registry/csi.example.com-reg.sock"}, "csi.example.com:7"},
		"one in a directory of another name": {[]string{"var/lib/kubelet/plugins/ours/csi.sock"}, "ours:7"},
		"Hetzner's name for the socket":      {[]string{"var/lib/kubelet/plugins/ours/socket"}, "ours:7"},
		"a directory for the socket":         {[]string{"var/lib/kubelet/plugins/ours/csi.sock/"}, ""},
		"Dell's name for the socket":         {[]string{"var/lib/kubelet/plugins/unity.emc.dell.com/csi_sock"}, "unity.emc.dell.com:1"},
		"an old directory":                   {[]string{"var/lib/kubelet/csi-plugins/diskplugin.csi.alibabacloud.com/csi.sock"}, "diskplugin.csi.alibabacloud.com:4"},
		"k0s":                                {[]string{"var/lib/k0s/kubelet/plugins_registry/csi.example.com-reg.sock"}, "csi.example.com:7"},
		"k3s":                                {[]string{"var/lib/rancher/k3s/agent/kubelet/plugins_registry/csi.example.com-reg.sock"}, "csi.example.com:7"},
		"RKE2":                               {[]string{"var/lib/rancher/rke2/agent/kubelet/plugins/csi.example.com/csi.sock"}, "csi.example.com:7"},
		"MicroK8s":                           {[]string{"var/snap/microk8s/common/var/lib/kubelet/plugins/csi.example.com/csi.sock"}, "csi.example.com:7"},
		"those that bring nothing": {[]string{
			"var/lib/kubelet/plugins_registry/csi.tigera.io-reg.sock", "var/lib/kubelet/plugins/csi.tigera.io/csi.sock", "var/lib/kubelet/plugins_registry/nfs.csi.k8s.io-reg.sock",
			"var/lib/kubelet/plugins/csi-nfsplugin/csi.sock", "var/lib/kubelet/plugins_registry/secrets-store.csi.k8s.io-reg.sock", "var/lib/kubelet/plugins/csi-secrets-store/csi.sock",
			"var/lib/kubelet/plugins_registry/rook-ceph.cephfs.csi.ceph.com-reg.sock",
		}, ""},
		"Longhorn and ceph-csi": {[]string{"var/lib/kubelet/plugins_registry/driver.longhorn.io-reg.sock", "var/lib/kubelet/plugins_registry/rook-ceph.rbd.csi.ceph.com-reg.sock"}, "driver.longhorn.io:3 rook-ceph.rbd.csi.ceph.com:1"},
		"DirectPV":              {[]string{"var/lib/kubelet/plugins_registry/directpv-min-io-reg.sock"}, "directpv-min-io:6"},
		"democratic-csi":        {[]string{"var/lib/kubelet/plugins_registry/org.democratic-csi.iscsi-reg.sock"}, "org.democratic-csi.iscsi:3"},
		"a DRA driver":          {[]string{"var/lib/kubelet/plugins_registry/gpu.example.com-reg.sock", "var/lib/kubelet/plugins/gpu.example.com/dra.sock"}, ""},
		"a DRA driver, updated": {[]string{"var/lib/kubelet/plugins_registry/gpu.example.com-ad4af911-5bcd-47c5-a554-f35cea869472-reg.sock", "var/lib/kubelet/plugins/gpu.example.com/dra-ad4af911-5bcd-47c5-a554-f35cea869472.sock"}, ""},
		"a CSI driver whose name begins as a DRA driver's": {[]string{"var/lib/kubelet/plugins_registry/gpu.example.com-disk-reg.sock", "var/lib/kubelet/plugins/gpu.example.com/dra.sock"}, "gpu.example.com-disk:7"},
		"both in one":                     {[]string{"var/lib/kubelet/plugins/both.example.com/dra.sock", "var/lib/kubelet/plugins/both.example.com/csi.sock"}, "both.example.com:7"},
		"a socket that kubelet ignores":   {[]string{"var/lib/kubelet/plugins_registry/.csi.example.com-reg.sock"}, ""},
		"a device plugin in the registry": {[]string{"var/lib/kubelet/plugins_registry/intel.com_sriov_netdevice.sock"}, ""},
		"a registrar of another kind":     {[]string{"var/lib/kubelet/plugins_registry/csi.example.com.sock"}, "csi.example.com:7"},
		"a directory in the registry":     {[]string{"var/lib/kubelet/plugins_registry/csi.example.com-reg.sock/"}, ""},
		"the sockets of a device plugin":  {[]string{"var/lib/kubelet/device-plugins/kubelet.sock", "var/lib/kubelet/plugins/gpu.example.com/health.sock"}, ""},
		"kubelet's own volumes":           {[]string{"var/lib/kubelet/plugins/kubernetes.io/csi.sock"}, ""},
		"Rook with an OSD":                {[]string{"var/lib/rook/rook-ceph/" + osds + "/"}, "rook:6"},
		"Rook without":                    {[]string{"var/lib/rook/rook-ceph/log/", "var/lib/rook/mon-a/data/"}, ""},
	} {
		var got []string
		for _, d := range Drivers(node(t, tt.have...)) {
			got = append(got, d.Name+":"+string('0'+rune(d.Reach)))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestDriversSeenEarlier checks that Drivers returns a driver that hotmount has seen earlier, even after the driver's
// files are gone. The driver's reach comes from the table of drivers.
func TestDriversSeenEarlier(t *testing.T) {
	root := node(t, "var/lib/kubelet/plugins/csi.example.com/", "var/lib/kubelet/plugins_registry/b.example.com-reg.sock")
	want := []disk.Driver{{Name: "b.example.com", Reach: disk.Anything}, {Name: "csi.example.com", Reach: disk.Anything}, {Name: "csi.hetzner.cloud", Reach: disk.Local}}
	if got := Drivers(root, "csi.hetzner.cloud", "csi.example.com", "b.example.com", "csi.tigera.io"); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

// TestDriversOfAnUnreadableDirectory checks that Drivers returns an unknown driver if a directory is unreadable. The
// unknown driver may attach or take any kind of disk.
func TestDriversOfAnUnreadableDirectory(t *testing.T) {
	root := node(t, "var/lib/kubelet/plugins_registry") // a socket, not a directory
	want := disk.Driver{Name: "unknown, because /var/lib/kubelet/plugins_registry cannot be read", Reach: disk.Anything}
	if got := Drivers(root); len(got) != 1 || got[0] != want {
		t.Errorf("%+v", got)
	}
	root = node(t, "var/lib/kubelet/plugins_registry/")
	for i := range maxEntries + 1 {
		if err := os.WriteFile(filepath.Join(root, "var/lib/kubelet/plugins_registry", strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := Drivers(root); len(got) != 1 || got[0] != want {
		t.Errorf("%+v", got)
	}
}

// TestDriversOfAnUnreadablePlugin checks that, if a plugin directory is unreadable, Drivers returns a driver with the
// directory's name.
func TestDriversOfAnUnreadablePlugin(t *testing.T) {
	root := node(t, "var/lib/kubelet/plugins/csi.example.com/", "var/lib/kubelet/plugins/csi.tigera.io/")
	for _, name := range []string{"csi.example.com", "csi.tigera.io"} {
		for i := range maxEntries + 1 {
			if err := os.WriteFile(filepath.Join(root, "var/lib/kubelet/plugins", name, strconv.Itoa(i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := Drivers(root); len(got) != 1 || got[0] != (disk.Driver{Name: "csi.example.com", Reach: disk.Anything}) {
		t.Errorf("%+v", got)
	}
}

// TestKnown checks the table of the known drivers. Each row must have a name that a driver or a directory can have.
func TestKnown(t *testing.T) {
	for name, reach := range known {
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" || reach&^disk.Anything != 0 {
			t.Errorf("%q: %d", name, reach)
		}
	}
}
