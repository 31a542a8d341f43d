package helper

import (
	"os"
	"path/filepath"
	"testing"

	"hotmount/internal/disk"
)

func TestSandbox(t *testing.T) {
	var s disk.Settings
	for _, dir := range []string{"/mnt/disks", "/srv/a", "/mnt/disks/fast/a", "/srv/a", "/mnt/disks2"} {
		s.Classes = append(s.Classes, disk.Class{Directory: dir})
	}
	const want = "# Written by hotmount config apply-sandbox.\n[Unit]\nAfter=srv-a.mount srv.mount mnt-disks-fast-a.mount mnt-disks-fast.mount mnt-disks2.mount mnt.mount\n" +
		"[Service]\nReadWritePaths=-/srv/a\nReadWritePaths=-/mnt/disks2\n"
	if got := sandbox(&s); got != want {
		t.Errorf("%q", got)
	}
	s.Classes = s.Classes[:1]
	if got := sandbox(&s); got != "" {
		t.Errorf("nothing is needed: %q", got)
	}
}

func TestApplySandbox(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d", "50-classes.conf")
	apply := func() bool {
		t.Helper()
		changed, err := ApplySandbox(&disk.Settings{Classes: []disk.Class{{Directory: ShippedDirectory}}}, path)
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	if apply() {
		t.Error("nothing is needed, and something changed")
	}
	if err := replace(path, "[Service]\n"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Error(info, err)
	}
	if !apply() {
		t.Error("what is not needed any more is left")
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}
