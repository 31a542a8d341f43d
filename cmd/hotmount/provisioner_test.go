package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestProvisioner checks that `provisioner check` accepts the output of `provisioner values`. If the values do not fit
// a class, `provisioner check` must name the class and exit with code 3.
func TestProvisioner(t *testing.T) {
	values, code, err := call(t, "provisioner", "values")
	if code != 0 || err != nil {
		t.Fatalf("code %d, %v, %q", code, err, values)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	for _, test := range []struct {
		content string
		code    int
		want    string
	}{
		{values, 0, file + " fits the configuration\n"},
		{strings.Replace(values, "/mnt/disks", "/mnt/fast", 1), 3, "class default: its disks do not become volumes, because the provisioner has no class with hostDir /mnt/disks"},
		{"x: y", 1, ""},
	} {
		if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, code, err := call(t, "provisioner", "check", file); code != test.code || !strings.HasPrefix(out, test.want) {
			t.Errorf("%q: code %d, %v, %q", test.content, code, err, out)
		}
	}
	if out, code, err := call(t, "provisioner", "check", file+".not"); code != 1 || err == nil {
		t.Errorf("no file: code %d, %v, %q", code, err, out)
	}
}

// nfsValues contains those values of the chart nfs-server-provisioner that the example uses. The fields come from
// values.yaml, templates/statefulset.yaml and templates/storageclass.yaml of charts/nfs-server-provisioner in
// kubernetes-sigs/nfs-ganesha-server-and-external-provisioner, d7b4433d.
type nfsValues struct {
	Persistence struct {
		Enabled       bool   `yaml:"enabled"`
		ExistingClaim string `yaml:"existingClaim"`
		StorageClass  string `yaml:"storageClass"`
		AccessMode    string `yaml:"accessMode"`
		Size          string `yaml:"size"`
	} `yaml:"persistence"`
	// ExtraArgs contains the command-line flags of the NFS provisioner (docs/deployment.md, "Arguments").
	ExtraArgs struct {
		DeviceBasedFSIDs *bool `yaml:"device-based-fsids"`
		GracePeriod      int   `yaml:"grace-period"`
		XFSQuota         bool  `yaml:"enable-xfs-quota"`
	} `yaml:"extraArgs"`
	StorageClass struct {
		Create               bool              `yaml:"create"`
		ProvisionerName      string            `yaml:"provisionerName"`
		DefaultClass         bool              `yaml:"defaultClass"`
		Name                 string            `yaml:"name"`
		AllowVolumeExpansion bool              `yaml:"allowVolumeExpansion"`
		Parameters           map[string]string `yaml:"parameters"`
		MountOptions         []string          `yaml:"mountOptions"`
		ReclaimPolicy        string            `yaml:"reclaimPolicy"`
		Annotations          map[string]string `yaml:"annotations"`
	} `yaml:"storageClass"`
}

// TestNFSProvisionerValues checks that the chart accepts the example's values. The chart must claim its volume from a
// StorageClass of the example fast-slow.yaml. The example nfs.yaml, for an NFS server on the node itself, must offer
// no volumes.
func TestNFSProvisionerValues(t *testing.T) {
	const examples = "../../packaging/examples/"
	text, err := os.ReadFile(examples + "kubernetes/nfs-server-provisioner.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	var v nfsValues
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	if fsids := v.ExtraArgs.DeviceBasedFSIDs; !v.Persistence.Enabled || v.Persistence.ExistingClaim != "" || v.Persistence.Size == "" || fsids == nil || *fsids {
		t.Errorf("%+v", v)
	}
	if v.StorageClass.Name == v.Persistence.StorageClass || v.StorageClass.Name == "" {
		t.Errorf("the offered and the claimed class are both called %q", v.StorageClass.Name)
	}
	classes := func(example string) (names []string) {
		t.Helper()
		out, code, err := call(t, "provisioner", "values", "--config", examples+example)
		if code != 0 || err != nil {
			t.Fatalf("code %d, %v, %s", code, err, out)
		}
		var values struct {
			Classes []struct {
				Name string `yaml:"name"`
				Mode string `yaml:"volumeMode"`
			} `yaml:"classes"`
		}
		if err := yaml.Unmarshal([]byte(out), &values); err != nil {
			t.Fatal(err)
		}
		for _, c := range values.Classes {
			if c.Mode == "Filesystem" {
				names = append(names, c.Name)
			}
		}
		return names
	}
	if got := classes("fast-slow.yaml"); !slices.Contains(got, v.Persistence.StorageClass) {
		t.Errorf("the example claims from %q, hotmount's values have %q", v.Persistence.StorageClass, got)
	}
	if got := classes("nfs.yaml"); got != nil {
		t.Errorf("the disk of the node's own server is offered as %q", got)
	}
}
