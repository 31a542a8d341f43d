// Package provisioner makes and checks the configuration of sig-storage-local-static-provisioner. The package makes the
// Helm values that fit hotmount's configuration. The package also checks whether a values file or a ConfigMap fits
// hotmount's configuration.
package provisioner

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"hotmount/internal/disk"
)

// The patterns match the names in class directories. The provisioner interprets the patterns as Go's filepath.Match
// does. The provisioner ignores entries whose names do not match the patterns.
const (
	// MountPattern matches filesystem UUIDs.
	MountPattern = "????????-????-????-????-????????????"
	// LinkPattern matches the links to block volumes (disk.Facts.LinkName).
	LinkPattern = "[a-z]*-*"
)

// Examples of names that the patterns match.
const (
	sampleMount = "0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	sampleLink  = "virtio-DATA-1"
)

// blockCleaner makes the provisioner overwrite a released block volume once with zeros. With the provisioner's default,
// quick_reset.sh, the next user of the volume can read the data of the previous user.
var blockCleaner = []string{"/scripts/dd_zero.sh", "1"}

// The type `values` contains the keys of the chart's values file that concern hotmount
// (helm/provisioner/values.yaml of the provisioner's source, version 2.9). If the file is a ConfigMap, the values are
// derived from it (ProvisionerConfiguration in pkg/common/common.go).
type values struct {
	UseNodeNameOnly bool    `yaml:"useNodeNameOnly"`
	SetPVOwnerRef   bool    `yaml:"setPVOwnerRef"`
	MountDevVolume  *bool   `yaml:"mountDevVolume,omitempty"`
	Cleanup         cleanup `yaml:"nodeCleanupController"`
	Classes         []class `yaml:"classes"`

	// In charts before version 2, the key `common` contained some of the keys that are now at the top level.
	Common yaml.Node `yaml:"common,omitempty"`
}

type cleanup struct {
	Enabled bool `yaml:"enabled"`
}

type class struct {
	Name         string   `yaml:"name"`
	HostDir      string   `yaml:"hostDir"`
	MountDir     string   `yaml:"mountDir"`
	VolumeMode   string   `yaml:"volumeMode"`
	FSType       string   `yaml:"fsType,omitempty"`
	NamePattern  string   `yaml:"namePattern"`
	BlockCleaner []string `yaml:"blockCleanerCommand,omitempty,flow"`
	// StorageClass is a mapping or a bool. The bool determines whether the chart makes a StorageClass.
	StorageClass yaml.Node `yaml:"storageClass"`
}

func (c *class) storageClass() (s storageClass, err error) {
	if c.StorageClass.Kind == yaml.MappingNode {
		err = c.StorageClass.Decode(&s)
	}
	return s, err
}

type storageClass struct {
	ReclaimPolicy string   `yaml:"reclaimPolicy"`
	MountOptions  []string `yaml:"mountOptions"`
}

// expected(c) returns the class that the provisioner must have for hotmount's class c.
func expected(c *disk.Class) class {
	p := class{
		Name: cmp.Or(c.StorageClass, c.Name), HostDir: c.Directory, MountDir: c.Directory,
		VolumeMode: "Filesystem", NamePattern: MountPattern,
	}
	switch {
	case c.Mode == disk.ModeBlock:
		p.VolumeMode, p.NamePattern, p.BlockCleaner = "Block", LinkPattern, blockCleaner
	case c.Create != "none":
		p.FSType = c.Create
	default:
		p.FSType = c.Accept[0]
	}
	return p
}

const head = `# Values for the chart local-static-provisioner (sig-storage-local-static-provisioner
# 2.9), made by "hotmount provisioner values" from this node's configuration.

# The name of a volume is made from the node's name, not from the node's UID: a node that
# is registered again keeps its volumes.
useNodeNameOnly: true
setPVOwnerRef: false
# This controller deletes the volumes of nodes whose node object was deleted, although
# the disks stay.
nodeCleanupController:
  enabled: false
# With the reclaim policy Delete, the provisioner empties a volume and offers the volume
# again when its claim is deleted. With Retain, you empty the volume and offer it again.
# mountOptions stay empty, because the disk is already mounted.
`

// Values returns, as YAML, the Helm values that fit the settings.
func Values(s *disk.Settings) ([]byte, error) {
	var list struct {
		Classes []class `yaml:"classes"`
	}
	for i := range s.Classes {
		if !s.Classes[i].Provision {
			continue
		}
		c := expected(&s.Classes[i])
		policy := map[string]string{"reclaimPolicy": "Delete"}
		if err := c.StorageClass.Encode(policy); err != nil {
			return nil, fmt.Errorf("cannot make the helm values of class %s: %w", c.Name, err)
		}
		list.Classes = append(list.Classes, c)
	}
	b := bytes.NewBufferString(head)
	e := yaml.NewEncoder(b)
	e.SetIndent(2)
	if err := e.Encode(&list); err != nil {
		return nil, fmt.Errorf("cannot write the values of the Helm chart: %w", err)
	}
	return b.Bytes(), e.Close()
}

// Check returns a message for each point in which the provisioner's configuration does not fit the settings. The
// parameter `data` is a values file, a ConfigMap, or manifests that include a ConfigMap. For other data, Check returns
// an error.
func Check(s *disk.Settings, data []byte) ([]string, error) {
	v, err := parse(data)
	if err != nil {
		return nil, err
	}
	k := &checker{s: s, v: v}
	k.checkGlobalKeys()
	for i := range s.Classes {
		k.checkHotmountClass(&s.Classes[i])
	}
	for i := range v.Classes {
		k.checkProvisionerClass(i)
	}
	return k.found, nil
}

type checker struct {
	s     *disk.Settings
	v     *values
	found []string
}

// The method `require` adds a finding if its first parameter is false. The text of the finding is formatted as in
// fmt.Sprintf.
func (k *checker) require(fits bool, format string, args ...any) {
	if !fits {
		k.found = append(k.found, fmt.Sprintf(format, args...))
	}
}

func (k *checker) checkGlobalKeys() {
	k.require(k.v.Common.Kind == 0, "the key common is from charts before 2.0, and has no effect: move its contents to the top level")
	k.require(k.v.UseNodeNameOnly, "useNodeNameOnly: found false, expected true: otherwise a node that is registered again loses its volumes")
	k.require(!k.v.SetPVOwnerRef, "setPVOwnerRef: found true, expected false: with true, Kubernetes deletes the volumes together with the node object")
	k.require(!k.v.Cleanup.Enabled, "nodeCleanupController.enabled: found true, expected false: the controller deletes the volumes of nodes whose node object was deleted, although the disks stay")
}

// checkHotmountClass checks one of hotmount's classes.
func (k *checker) checkHotmountClass(c *disk.Class) {
	want := expected(c)
	n := 0
	for i := range k.v.Classes {
		got := &k.v.Classes[i]
		if path.Clean(got.HostDir) != want.HostDir {
			continue
		}
		k.require(c.Provision, "class %s: hostDir: found %s, expected a directory that does not belong to hotmount's class %s (provision: false): otherwise the provisioner makes volumes of the disks there, and can delete their data", disk.Visible(got.Name), want.HostDir, c.Name)
		if c.Provision {
			n++
			k.require(n != 2, "class %s: its directory %s is in two of the provisioner's classes: each disk would become two volumes", c.Name, want.HostDir)
			k.pair(c, got, &want)
		}
	}
	k.require(n > 0 || !c.Provision, "class %s: its disks do not become volumes, because the provisioner has no class with hostDir %s", c.Name, want.HostDir)
}

func (k *checker) pair(c *disk.Class, got, want *class) {
	name := "class " + disk.Visible(got.Name)
	k.require(c.StorageClass == "" || got.Name == c.StorageClass, "%s: name: found %s, expected %s, the storage_class of class %s", name, disk.Visible(got.Name), want.Name, c.Name)
	k.require(got.VolumeMode == want.VolumeMode, "%s: volumeMode: found %s, expected %s", name, disk.Visible(got.VolumeMode), want.VolumeMode)
	sample := sampleMount
	if c.Mode == disk.ModeBlock {
		sample = sampleLink
		k.require(len(got.BlockCleaner) > 0 && !strings.HasSuffix(got.BlockCleaner[0], "/quick_reset.sh"),
			"%s: blockCleanerCommand: found quick_reset.sh, which is the default, expected %s: with quick_reset.sh, the next user can read the data of the last user", name, strings.Join(want.BlockCleaner, " "))
		k.require(k.v.MountDevVolume == nil || *k.v.MountDevVolume, "mountDevVolume: found false, expected true: class %s has block volumes", c.Name)
	}
	match, _ := path.Match(got.NamePattern, sample)
	k.require(match, "%s: namePattern: found %s, which does not match a name such as %s, expected %s", name, disk.Visible(got.NamePattern), sample, want.NamePattern)
	k.require(!match || got.NamePattern == want.NamePattern,
		"%s: namePattern: found %s, expected %s: otherwise other entries of the class directory would become volumes, too", name, disk.Visible(got.NamePattern), want.NamePattern)
	k.require(c.Mode == disk.ModeBlock || got.FSType == "" || slices.Contains(c.Accept, got.FSType), "%s: fsType: found %s, expected %s", name, disk.Visible(got.FSType), want.FSType)
}

// checkProvisionerClass checks one class of the provisioner's file, even if hotmount does not use the directory of the
// class.
func (k *checker) checkProvisionerClass(i int) {
	c := &k.v.Classes[i]
	name := "class " + disk.Visible(c.Name)
	s, err := c.storageClass()
	k.require(err == nil, "%s: storageClass: %v", name, err)
	k.require(err != nil || len(s.MountOptions) == 0, "%s: storageClass.mountOptions: found %s, expected none: the disk is mounted already, with the options of hotmount's class", name, disk.Visible(fmt.Sprint(s.MountOptions)))
	for j := range k.s.Classes {
		ours := &k.s.Classes[j]
		host := path.Clean(c.HostDir)
		k.require(host == ours.Directory || !nested(host, ours.Directory),
			"%s: hostDir: found %s, and %s is the directory of hotmount's class %s: one class directory must not contain another", name, disk.Visible(c.HostDir), ours.Directory, ours.Name)
	}
	for j := range i {
		o := &k.v.Classes[j]
		k.require(c.Name != o.Name, "%s: two classes have this name", name)
		k.require(!nested(path.Clean(c.MountDir), path.Clean(o.MountDir)),
			"%s: mountDir: found %s, and class %s has %s: neither directory may contain the other: otherwise the provisioner makes the inner directory a volume, which is on the system disk", name, disk.Visible(c.MountDir), disk.Visible(o.Name), disk.Visible(o.MountDir))
	}
}

// nested reports whether the two directories are the same, or one directory contains the other.
func nested(a, b string) bool { return disk.IsBelow(a, b) || disk.IsBelow(b, a) }
