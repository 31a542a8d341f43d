//go:build root

package helper

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/nodetest"
	"hotmount/internal/run"
)

// TestKernelTakes checks that the error of kernelTakes names a mount option that the filesystem type does not support.
// kernelTakes must accept the options that are valid for every filesystem type (ofAnyMount).
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

// TestNoTokenForOptions checks that hotmount offers no token if the class's mount options are wrong, whatever error the
// daemon recorded for the mount. If the kernel does not support the filesystem type, hotmount must not offer a token.
func TestNoTokenForOptions(t *testing.T) {
	h := nodetest.New(t)
	for _, test := range []struct{ fstype, option, want string }{
		{disk.XFS, "noattime", "cannot format vdb: the mount fails because of the node or the class, so a format would not help: xfs does not take the mount option noattime: xfs: Unknown parameter 'noattime'; nothing is written; to check the options of class fast: hotmount config check && systemctl reload hotmount"},
		{"nosuchfs", "noatime", "cannot format vdb: the mount fails because of the node or the class, so a format would not help: this kernel cannot mount nosuchfs, because the module is missing or cannot be loaded; to see why: modprobe nosuchfs"},
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

// TestTryOptions checks that the options must work for the filesystem type that the class creates. If the class creates
// no filesystem, the options must work for at least one type that the class mounts.
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

// countingRunner counts the programs that it runs.
type countingRunner struct{ count int }

func (r *countingRunner) Run(ctx context.Context, c run.Command) (run.Result, error) {
	r.count++
	return run.Exec{}.Run(ctx, c)
}

// TestTryClasses checks that the mount options of each class that formats disks are tried once. If the kernel has
// refused the options, hotmount must format no disk of the class.
func TestTryClasses(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	h, usual := nodetest.New(t), []string{"noatime", "nodev", "nosuid"}
	class := func(name, create string, options ...string) disk.Class {
		return disk.Class{Name: name, Mode: disk.ModeFilesystem, Create: create, Options: options}
	}
	s := disk.Settings{Classes: []disk.Class{
		class("usual", disk.XFS, usual...), class("good", disk.XFS, "noatime", "logbsize=256k"), class("bad", disk.XFS, "logbsize=17k"),
		class("ext4", disk.Ext4, "prjquota"), class("none", "none", "logbsize=17k"), {Name: "block", Mode: disk.ModeBlock, Create: disk.XFS, Options: []string{"logbsize=18k"}},
	}}
	if err := h.Store.SaveSettings(&s); err != nil {
		t.Fatal(err)
	}
	var r countingRunner
	for i := range 2 {
		if err := TryClasses(t.Context(), h, &r, usual); err != nil {
			t.Fatal(err)
		}
		tried, err := h.Store.Tried()
		if err != nil || len(tried) != 3 {
			t.Errorf("run %d: %v, %v", i, tried, err)
		}
		for j, want := range []string{"", "", "cannot be mounted with [\"logbsize=17k\"]: wrong fs type, bad option", "cannot be mounted with [\"prjquota\"]: "} {
			err := canMount(h.Store, &s.Classes[j], disk.ID{Name: "vdb", Seq: 7})
			if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "; nothing is written; ")) {
				t.Errorf("run %d, class %s: %v", i, s.Classes[j].Name, err)
			}
		}
		if (r.count > 0) != (i == 0) {
			t.Errorf("run %d ran %d programs", i, r.count)
		}
		r.count = 0
	}
}

// afterUmount runs the programs, and then changes the result of umount(8).
type afterUmount func(at string) run.Result

func (f afterUmount) Run(ctx context.Context, c run.Command) (run.Result, error) {
	res, err := run.Exec{}.Run(ctx, c)
	if filepath.Base(c.Path) == "umount" && err == nil {
		res = f(c.Args[0])
	}
	return res, err
}

// TestTryClassesWithoutCleanup checks that hotmount records nothing about the mount options if the scratch filesystem
// cannot be unmounted or removed. Such an error says nothing about the options.
func TestTryClassesWithoutCleanup(t *testing.T) {
	for name, runner := range map[string]afterUmount{
		"not unmounted": func(string) run.Result { return run.Result{Stderr: []byte("target is busy"), ExitCode: 32} },
		"not removed": func(at string) run.Result {
			if err := unix.Mount("none", at, "tmpfs", 0, ""); err != nil {
				t.Error(err)
			}
			return run.Result{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ownNamespace(t)
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			defer func() {
				left, err := filepath.Glob(dir + "/*/mnt")
				if err != nil {
					t.Error(err)
				}
				for _, at := range left {
					for unix.Unmount(at, 0) == nil {
					}
				}
			}()
			h := nodetest.New(t)
			class := disk.Class{Name: "good", Mode: disk.ModeFilesystem, Create: disk.Ext4, Options: []string{"noatime", "commit=30"}}
			if err := h.Store.SaveSettings(&disk.Settings{Classes: []disk.Class{class}}); err != nil {
				t.Fatal(err)
			}
			if err := TryClasses(t.Context(), h, runner, nil); err != nil {
				t.Fatal(err)
			}
			if tried, err := h.Store.Tried(); err != nil || len(tried) != 0 {
				t.Errorf("recorded: %q, %v", tried, err)
			}
		})
	}
}
