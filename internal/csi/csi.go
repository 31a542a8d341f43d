// Package csi finds the CSI drivers on the node by the names of files. Package csi does not communicate with drivers.
// Package csi also finds a driver that is not running, because at boot a driver's files exist before the driver starts.
// A driver that ends normally removes its sockets.
package csi

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"hotmount/internal/disk"
)

// DefaultRoot is the default of kubelet's --root-dir.
const DefaultRoot = "/var/lib/kubelet"

// Roots are the root directories of kubelets. K3s and RKE2 use kubelet's default, but some of their nodes are set up
// with another directory.
var Roots = []string{
	DefaultRoot,
	"/var/lib/k0s/kubelet",
	"/var/lib/rancher/k3s/agent/kubelet",
	"/var/lib/rancher/rke2/agent/kubelet",
	"/var/snap/microk8s/common/var/lib/kubelet",
}

// Drivers returns the node's storage drivers that attach or take disks, sorted by name. The parameter `root` is the
// node's root directory, or "" for the live system. If the directory of a plugin is unreadable, Drivers assumes a
// driver with the directory's name. If any other directory is unreadable, Drivers assumes an unknown driver. If the
// caller is not root, Drivers treats a directory without read permission as empty. The parameter `seen` contains the
// names of further drivers that Drivers treats as found, even if no file shows them.
func Drivers(root string, seen ...string) []disk.Driver {
	names := finder{root: root, found: map[string]bool{}}
	for _, kubelet := range Roots {
		names.kubelet(kubelet)
	}
	names.addRook()
	for _, name := range seen {
		names.found[name] = true
	}
	var all []disk.Driver
	for _, name := range slices.Sorted(maps.Keys(names.found)) {
		if reach := reachOf(name); reach != 0 {
			all = append(all, disk.Driver{Name: name, Reach: reach})
		}
	}
	return all
}

type finder struct {
	root  string
	found map[string]bool
}

// n.kubelet(dir) finds the drivers below dir, which is the root directory of a kubelet.
//
// A driver's registrar makes plugins_registry/NAME-reg.sock, and removes the socket when the registrar ends normally
// (buildSocketPath and removeRegSocket in kubernetes-csi/node-driver-registrar). The driver itself makes a socket in a
// directory that usually has the driver's name. The directory with the driver's socket is below plugins or, in old
// manifests, below csi-plugins.
func (n *finder) kubelet(dir string) {
	if _, err := os.Stat(filepath.Join("/", n.root, dir)); errors.Is(err, fs.ErrNotExist) {
		return
	}
	dra := map[string]bool{}
	for _, plugins := range []string{"plugins", "csi-plugins"} {
		for _, e := range n.entries(path.Join(dir, plugins), "") {
			if !e.IsDir() && e.Type() != fs.ModeSymlink || e.Name() == "kubernetes.io" { // kubernetes.io belongs to kubelet's own volumes
				continue
			}
			sockets := n.entries(path.Join(dir, plugins, e.Name()), e.Name())
			// A driver that ends normally removes its socket, but its directory survives a reboot. For a known driver
			// of disks that look local (disk.Local), the directory alone is therefore sufficient.
			switch {
			case slices.ContainsFunc(sockets, ofCSI), known[e.Name()]&disk.Local != 0:
				n.found[e.Name()] = true
			case slices.ContainsFunc(sockets, ofDRA):
				dra[e.Name()] = true
			}
		}
	}
	for _, e := range n.entries(path.Join(dir, "plugins_registry"), "") {
		name := strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".sock"), "-reg")
		if e.Type() == fs.ModeSocket && driverName().MatchString(name) && !driverOf(dra, name) {
			n.found[name] = true
		}
	}
}

// driverName matches the names that a CSI driver can have (GetPluginInfoResponse in the CSI specification). Device
// plugins for hardware other than disks register with kubelet too. Such a plugin has the name of a resource, such as
// example.com_sriov. driverName does not match these names, because they contain an underscore.
var driverName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`) })

// ofCSI reports whether the entry of a plugin's directory is the socket of a CSI driver. CSI drivers choose the names
// of their sockets: Hetzner uses "socket" and Dell uses "csi_sock".
func ofCSI(e fs.DirEntry) bool {
	name := e.Name()
	return e.Type() == fs.ModeSocket && (name == "csi.sock" || name == "csi_sock" || name == "socket")
}

// ofDRA reports whether the entry of a plugin's directory is the socket of a driver for dynamic resource allocation.
// The socket's name is "dra.sock" or "dra-UID.sock" (Start in k8s.io/dynamic-resource-allocation/kubeletplugin).
// Drivers for dynamic resource allocation register in the same way as CSI drivers.
func ofDRA(e fs.DirEntry) bool {
	return e.Type() == fs.ModeSocket && strings.HasPrefix(e.Name(), "dra") && strings.HasSuffix(e.Name(), ".sock")
}

// driverOf reports whether one of the drivers has registered under the given name. The registered name is the
// driver's name or, with rolling updates, the driver's name and the pod's UID.
func driverOf(drivers map[string]bool, name string) bool {
	for driver := range drivers {
		rest, ok := strings.CutPrefix(name, driver)
		if ok && (rest == "" || rest[0] == '-' && strings.Trim(rest, "-0123456789abcdef") == "") {
			return true
		}
	}
	return false
}

// rookDirectory is the default of dataDirHostPath in Rook's CephCluster.
const rookDirectory = "/var/lib/rook"

// osd matches the name of the directory that Rook makes for an OSD below rookDirectory/NAMESPACE. The directory's
// name consists of the UUIDs of the cluster and the OSD (getActivateOSDInitContainer in
// pkg/operator/ceph/cluster/osd).
var osd = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f-]{36}_[0-9a-f-]{36}$`) })

// addRook adds Rook if Rook uses a disk of this node for an OSD. Rook's CSI drivers do not take disks of the node.
func (n *finder) addRook() {
	for _, namespace := range n.entries(rookDirectory, "") {
		if namespace.IsDir() && slices.ContainsFunc(n.entries(path.Join(rookDirectory, namespace.Name()), ""), ofOSD) {
			n.found["rook"] = true
		}
	}
}

func ofOSD(e fs.DirEntry) bool { return osd().MatchString(e.Name()) }

// maxEntries is the maximum number of entries of a directory that package csi reads. Package csi treats a directory
// with more entries as unreadable.
const maxEntries = 1024

// The method `entries` returns the entries of a directory, or none if the directory does not exist. If the directory
// cannot be read, the method assumes that the node has the driver with the given name. If the parameter `driver` is
// empty, the method assumes a driver with an unknown name. For a caller other than root, the method treats a directory
// without read permission as empty.
func (n *finder) entries(dir, driver string) []fs.DirEntry {
	all, err := read(filepath.Join("/", n.root, dir))
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
	default:
		n.found[cmp.Or(driver, fmt.Sprintf("unknown, because %s cannot be read", dir))] = true
	}
	return all
}

func read(dir string) ([]fs.DirEntry, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	all, err := d.ReadDir(maxEntries + 1)
	switch {
	case errors.Is(err, io.EOF):
		err = nil
	case len(all) > maxEntries:
		err = fmt.Errorf("the directory has more than %d entries", maxEntries)
	}
	return all, err
}
