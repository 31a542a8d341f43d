//go:build root

package helper

import (
	"strings"
	"testing"

	"hotmount/internal/disk"
	"hotmount/internal/nodetest"
	"hotmount/internal/run"
)

// TestKernelTakes checks that the kernel names an option that a filesystem type does not have. The kernel does not see
// the options that mount(8) handles.
func TestKernelTakes(t *testing.T) {
	for _, test := range []struct{ fstype, options, want string }{
		{disk.XFS, "noatime,nodev,nosuid,logbsize=256k,prjquota,inode64", ""},
		{disk.Ext4, "noatime,nodev,nosuid,errors=remount-ro,barrier,commit=30", ""},
		{disk.XFS, strings.Join(ofAnyMount[:28], ","), ""},
		{disk.XFS, "noatime,noattime", "xfs does not take the mount option noattime: xfs: Unknown parameter 'noattime'"},
		{disk.Ext4, "logbsize=256k", "ext4 does not take the mount option logbsize=256k: ext4: Unknown parameter 'logbsize'"},
		{disk.XFS, "logbufs=many", "xfs does not take the mount option logbufs=many: xfs: Bad value for 'logbufs'"},
		{"nosuchfs", "noatime", "this kernel cannot mount nosuchfs, because the module is missing or cannot be loaded; to see why: modprobe nosuchfs"},
	} {
		got := ""
		if err := kernelTakes(test.fstype, strings.Split(test.options, ",")); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s, %s: %q", test.fstype, test.options, got)
		}
	}
}

// TestNoTokenForOptions checks that hotmount offers no token because of wrong mount options of the class, whatever the
// journal reports. hotmount offers no token either if the kernel does not have the filesystem type.
func TestNoTokenForOptions(t *testing.T) {
	h := nodetest.New(t)
	for _, test := range []struct{ fstype, option, want string }{
		{disk.XFS, "noattime", "cannot format vdb: the content of the disk is not at fault, but the node or the class: xfs does not take the mount option noattime: xfs: Unknown parameter 'noattime'; nothing is written; to check the options of class fast: hotmount config check && systemctl reload hotmount"},
		{"nosuchfs", "noatime", "cannot format vdb: the content of the disk is not at fault, but the node or the class: this kernel cannot mount nosuchfs, because the module is missing or cannot be loaded; to see why: modprobe nosuchfs"},
		{disk.XFS, "noatime", ""},
	} {
		line := disk.Line{Disk: "vdb", Seq: 7, Decision: disk.Decision{Action: disk.Mount, Type: test.fstype}, Failure: "no way"}
		if err := h.Store.Publish([]disk.Line{line}); err != nil {
			t.Fatal(err)
		}
		f := &disk.Facts{ID: disk.ID{Name: "vdb", Seq: 7}}
		err := learnFailure(h, f, &disk.Class{Name: "fast", Options: []string{test.option}})
		if test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) || test.want == "" && err != nil {
			t.Errorf("%s, %s: %v", test.fstype, test.option, err)
		}
		if (f.Standing.MountFailure != "") != (test.want == "") {
			t.Errorf("%s, %s: %q", test.fstype, test.option, f.Standing.MountFailure)
		}
	}
}

// TestTryOptions checks that the type of new filesystems must accept the class's options. The other types that the
// class mounts need not accept the options.
func TestTryOptions(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	usual := []string{"noatime", "nodev", "nosuid"}
	for _, test := range []struct {
		create, options string
		warnings, fault string
	}{
		{disk.XFS, "noatime,nodev,nosuid", "", ""},
		{disk.XFS, "noatime,logbsize=256k", "a new ext4 filesystem cannot be mounted: ext4 does not take the mount option logbsize=256k", ""},
		{disk.Ext4, "noatime,logbsize=256k", "", "a new ext4 filesystem cannot be mounted: ext4 does not take"},
		{disk.Ext4, "prjquota", "", "a new ext4 filesystem cannot be mounted: wrong fs type, bad option"},
		{disk.XFS, "logbsize=17k", "", "a new xfs filesystem cannot be mounted: wrong fs type, bad option"},
		{"none", "noattime", "", "a new xfs filesystem cannot be mounted: xfs does not take the mount option noattime"},
		{"none", "logbsize=256k", "a new ext4 filesystem cannot be mounted: ext4 does not take", ""},
	} {
		s := &disk.Settings{Classes: []disk.Class{{Mode: disk.ModeFilesystem, Create: test.create, Accept: []string{disk.XFS, disk.Ext4}, Options: strings.Split(test.options, ",")}}}
		warnings, err := TryOptions(t.Context(), run.Exec{}, s, usual, func(key string) string { return "origin of " + key })
		has := strings.Join(warnings, "\n")
		if (has == "") != (test.warnings == "") || !strings.Contains(has, test.warnings) {
			t.Errorf("%s, %s: warnings %s", test.create, test.options, has)
		}
		if (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), "origin of classes[0].options: classes[0].options: found [") {
			t.Errorf("%s, %s: %v", test.create, test.options, err)
		}
		if err != nil && !strings.Contains(err.Error(), test.fault) {
			t.Errorf("%s, %s: %v", test.create, test.options, err)
		}
	}
}
