package provisioner

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
)

func settings() *disk.Settings {
	return &disk.Settings{Classes: []disk.Class{
		{Name: "ssd", Directory: "/var/lib/disks/ssd", Provision: true, Create: "xfs", Accept: []string{"xfs", "ext4"}, StorageClass: "local-ssd"},
		{Name: "hdd", Directory: "/var/lib/disks/hdd", Provision: true, Create: "none", Accept: []string{"ext4"}},
	}}
}

// The constant `fitting` is a values file that fits the settings of these tests.
const fitting = `useNodeNameOnly: true
classes:
  - name: local-ssd
    hostDir: /var/lib/disks/ssd
    volumeMode: Filesystem
    namePattern: "????????-????-????-????-????????????"
  - name: hdd
    hostDir: /var/lib/disks/hdd
    mountDir: /elsewhere
    fsType: ext4
    namePattern: "????????-????-????-????-????????????"
    storageClass: true
`

func TestValues(t *testing.T) {
	got, err := Values(settings())
	if err != nil {
		t.Fatal(err)
	}
	const want = `classes:
  - name: local-ssd
    hostDir: /var/lib/disks/ssd
    mountDir: /var/lib/disks/ssd
    volumeMode: Filesystem
    fsType: xfs
    namePattern: ????????-????-????-????-????????????
    storageClass:
      reclaimPolicy: Delete
  - name: hdd
    hostDir: /var/lib/disks/hdd
    mountDir: /var/lib/disks/hdd
    volumeMode: Filesystem
    fsType: ext4
    namePattern: ????????-????-????-????-????????????
    storageClass:
      reclaimPolicy: Delete
`
	if diff := cmp.Diff(head+want, string(got)); diff != "" {
		t.Error(diff)
	}
	found, err := Check(settings(), got)
	if err != nil || found != nil {
		t.Errorf("the values do not fit the configuration they are made from: %q, %v", found, err)
	}
}

// TestBlock checks that a class in block mode has its own name pattern, and a cleaner that leaves no data behind.
func TestBlock(t *testing.T) {
	s := &disk.Settings{Classes: []disk.Class{{Name: "raw", Directory: "/var/lib/disks/block", Mode: disk.ModeBlock, Provision: true, Create: "xfs", Accept: []string{"xfs"}}}}
	got, err := Values(s)
	if err != nil {
		t.Fatal(err)
	}
	const want = `classes:
  - name: raw
    hostDir: /var/lib/disks/block
    mountDir: /var/lib/disks/block
    volumeMode: Block
    namePattern: '[a-z]*-*'
    blockCleanerCommand: [/scripts/dd_zero.sh, "1"]
    storageClass:
      reclaimPolicy: Delete
`
	if diff := cmp.Diff(head+want, string(got)); diff != "" {
		t.Error(diff)
	}
	for _, test := range []struct{ old, new, want string }{
		{"", "", ""},
		{"Block", "Filesystem", "class raw: volumeMode: found Filesystem, expected Block"},
		{"dd_zero.sh", "quick_reset.sh", "class raw: blockCleanerCommand: found quick_reset.sh"},
		{`    blockCleanerCommand: [/scripts/dd_zero.sh, "1"]` + "\n", "", "class raw: blockCleanerCommand: found quick_reset.sh"},
		{"dd_zero.sh", "shred.sh", ""},
		{"'[a-z]*-*'", MountPattern, "class raw: namePattern: found " + MountPattern + ", which does not match a name such as virtio-DATA-1"},
		{"useNodeNameOnly", "mountDevVolume: false\nuseNodeNameOnly", "mountDevVolume: found false"},
	} {
		found, err := Check(s, []byte(strings.Replace(string(got), test.old, test.new, 1)))
		if err != nil || test.want == "" && found != nil || test.want != "" && (len(found) != 1 || !strings.HasPrefix(found[0], test.want)) {
			t.Errorf("%s: found %q, %v, want %q", test.new, found, err, test.want)
		}
	}
	for _, serial := range []string{"DATA-1", "a b/c", "..", "%"} {
		f := &disk.Facts{Serial: serial, Transport: "nvme"}
		if ok, err := path.Match(LinkPattern, f.LinkName()); !ok || err != nil {
			t.Errorf("%s does not match %s: %v", f.LinkName(), LinkPattern, err)
		}
	}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name     string
		old, new string
		want     []string // the beginning of each line
	}{
		{"all fits", "", "", nil},
		{"a slash at the end", "hostDir: /var/lib/disks/ssd", "hostDir: /var/lib/disks/ssd/", nil},
		{"another StorageClass", "name: local-ssd", "name: fast", []string{"class fast: name: found fast, expected local-ssd, the storage_class of class ssd"}},
		{"a name that nobody has said", "name: hdd", "name: slow", nil},
		{"no useNodeNameOnly", "useNodeNameOnly: true\n", "", []string{"useNodeNameOnly: found false"}},
		{"the owner", "useNodeNameOnly: true\n", "useNodeNameOnly: true\nsetPVOwnerRef: true\n", []string{"setPVOwnerRef: found true"}},
		{"the cleanup controller", "useNodeNameOnly: true\n", "useNodeNameOnly: true\nnodeCleanupController: {enabled: true}\n", []string{"nodeCleanupController.enabled: found true"}},
		{"an old chart", "useNodeNameOnly: true\n", "useNodeNameOnly: true\ncommon: {useNodeNameOnly: true}\n", []string{"the key common is from charts before 2.0"}},
		{"another directory", "hostDir: /var/lib/disks/ssd", "hostDir: /mnt/disks", []string{"class ssd: its disks do not become volumes, because the provisioner has no class with hostDir /var/lib/disks/ssd"}},
		{"the directory above", "hostDir: /var/lib/disks/ssd", "hostDir: /var/lib/disks", []string{
			"class ssd: its disks do not become volumes, because the provisioner has no class with hostDir /var/lib/disks/ssd",
			"class local-ssd: hostDir: found /var/lib/disks, and /var/lib/disks/ssd is the directory of hotmount's class ssd",
			"class local-ssd: hostDir: found /var/lib/disks, and /var/lib/disks/hdd is the directory of hotmount's class hdd",
		}},
		{"below one of ours", "hostDir: /var/lib/disks/hdd", "hostDir: /var/lib/disks/ssd/x", []string{
			"class hdd: its disks do not become volumes, because the provisioner has no class with hostDir /var/lib/disks/hdd",
			"class hdd: hostDir: found /var/lib/disks/ssd/x, and /var/lib/disks/ssd is the directory of hotmount's class ssd",
		}},
		{"two for one directory", "hostDir: /var/lib/disks/hdd", "hostDir: /var/lib/disks/ssd", []string{
			"class ssd: its directory /var/lib/disks/ssd is in two of the provisioner's classes",
			"class hdd: name: found hdd, expected local-ssd",
			"class hdd: its disks do not become volumes, because the provisioner has no class with hostDir /var/lib/disks/hdd",
		}},
		{"one name twice", "name: hdd", "name: local-ssd", []string{"class local-ssd: two classes have this name"}},
		{"nested within the pod", "mountDir: /elsewhere", "mountDir: /var/lib/disks/ssd/hdd", []string{"class hdd: mountDir: found /var/lib/disks/ssd/hdd, and class local-ssd has /var/lib/disks/ssd"}},
		{"block", "volumeMode: Filesystem", "volumeMode: Block", []string{"class local-ssd: volumeMode: found Block, expected Filesystem"}},
		{"a pattern for other names", `????????-????-????-????-????????????"
  -`, `vd*"
  -`, []string{"class local-ssd: namePattern: found vd*, which does not match"}},
		{"a bad pattern", `????????-????-????-????-????????????"
  -`, `["
  -`, []string{"class local-ssd: namePattern: found [, which does not match"}},
		{"every name", `"????????-????-????-????-????????????"
  -`, `
  -`, []string{"class local-ssd: namePattern: found *, expected ????????-????-????-????-????????????"}},
		{"another type", "fsType: ext4", "fsType: xfs", []string{"class hdd: fsType: found xfs, expected ext4"}},
		{"mount options", "storageClass: true", "storageClass: {mountOptions: [noatime]}", []string{"class hdd: storageClass.mountOptions: found [noatime], expected none"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if !strings.Contains(fitting, test.old) {
				t.Fatalf("%q is not there to be replaced", test.old)
			}
			found, err := Check(settings(), []byte(strings.Replace(fitting, test.old, test.new, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(found, test.want, strings.HasPrefix) {
				t.Errorf("found:\n%s\nwant:\n%s", strings.Join(found, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// asConfigMap is the ConfigMap that helm makes from the values file in the constant `fitting`.
const asConfigMap = `apiVersion: v1
kind: ConfigMap
metadata: {name: local-provisioner-config}
data:
  useNodeNameOnly: "true"
  storageClassMap: |
    local-ssd:
      hostDir: /var/lib/disks/ssd
      mountDir: /var/lib/disks/ssd
      blockCleanerCommand:
        - "/scripts/shred.sh"
        - "2"
      volumeMode: Filesystem
      fsType: xfs
      namePattern: "????????-????-????-????-????????????"
    hdd:
      hostDir: /var/lib/disks/hdd
      mountDir: /elsewhere
      namePattern: "????????-????-????-????-????????????"
`

func TestCheckConfigMap(t *testing.T) {
	indented := "  - " + strings.ReplaceAll(strings.TrimSpace(asConfigMap), "\n", "\n    ") + "\n"
	for name, file := range map[string]string{
		"alone":     asConfigMap,
		"manifests": "apiVersion: v1\nkind: ServiceAccount\n---\n# Source: x\n---\n" + asConfigMap + "---\nkind: DaemonSet\nspec: {template: [1]}\n",
		"a list":    "apiVersion: v1\nkind: List\nitems:\n" + indented,
	} {
		t.Run(name, func(t *testing.T) {
			if found, err := Check(settings(), []byte(file)); err != nil || found != nil {
				t.Errorf("found %q, %v", found, err)
			}
			wrong := strings.Replace(file, `useNodeNameOnly: "true"`, `useNodeNameOnly: "false"`, 1)
			wrong = strings.Replace(wrong, "hostDir: /var/lib/disks/hdd", "hostDir: /mnt/disks", 1)
			found, err := Check(settings(), []byte(wrong))
			if err != nil || len(found) != 2 || !strings.HasPrefix(found[0], "useNodeNameOnly") || !strings.HasPrefix(found[1], "class hdd: its disks do not become volumes") {
				t.Errorf("found %q, %v", found, err)
			}
		})
	}
}

func TestCheckNonsense(t *testing.T) {
	for _, file := range []string{
		"", "{", "a: b", "kind: ConfigMap\ndata: {x: y}", "classes: 5", "- 1", "kind: ConfigMap\ndata:\n  storageClassMap: '- 1'",
		"kind: ConfigMap\ndata:\n  storageClassMap: 'a: 5'", "kind: ConfigMap\ndata:\n  storageClassMap: 'a: {}'\n  useNodeNameOnly: '[]'",
	} {
		if found, err := Check(settings(), []byte(file)); err == nil {
			t.Errorf("%q was taken for something: %q", file, found)
		}
	}
}

// TestCheckHostile checks that control characters from the file are escaped, so that they have no effect on the
// terminal.
func TestCheckHostile(t *testing.T) {
	found, err := Check(settings(), []byte("classes: [{name: \"\\e[2J\", hostDir: \"/var/lib/disks/ssd\\e\", volumeMode: \"\\r\", namePattern: \"\\e\", fsType: \"\\e\"}]"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(strings.Join(found, ""), "\x1b\r") {
		t.Errorf("found %q", found)
	}
}

// TestNotForTheProvisioner checks that a tenant cannot get the disks of a class with provision: false.
func TestNotForTheProvisioner(t *testing.T) {
	s := settings()
	s.Classes = append(s.Classes, disk.Class{Name: "nfs", Directory: "/srv/disks", Create: "xfs", Accept: []string{"xfs"}})
	got, err := Values(s)
	if err != nil || strings.Contains(string(got), "/srv/disks") {
		t.Errorf("%s, %v", got, err)
	}
	if found, err := Check(s, got); err != nil || found != nil {
		t.Errorf("%q, %v", found, err)
	}
	s.Classes[2].Provision = true
	with, err := Values(s)
	if err != nil {
		t.Fatal(err)
	}
	s.Classes[2].Provision = false
	if found, err := Check(s, with); err != nil || len(found) != 1 || !strings.Contains(found[0], "class nfs: hostDir: found /srv/disks") {
		t.Errorf("%q, %v", found, err)
	}
}
