package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPostinstInAnImage runs postinst for another root directory (DPKG_ROOT), as a build of a machine image does. When
// the package is installed, postinst must create the file first-start, so that the daemon's first start records the
// attached disks. postinst must not call hotmount or udevadm, because the disks belong to the machine that builds the
// image. When the package is upgraded, postinst must not create the file first-start.
func TestPostinstInAnImage(t *testing.T) {
	for name, tt := range map[string]struct {
		args  []string
		mark  string // the name of a file that a removal of the package has left
		first bool
	}{
		"first":                 {[]string{"configure", ""}, "", true},
		"upgrade":               {[]string{"configure", "1.0"}, "", false},
		"after a removal":       {[]string{"configure", "1.0"}, "removed", true},
		"an aborted removal":    {[]string{"abort-remove"}, "removed", true},
		"an aborted upgrade":    {[]string{"abort-upgrade", "1.0"}, "", false},
		"a removal, in favour":  {[]string{"abort-remove", "in-favour", "x", "1.0"}, "", false},
		"a trigger, after that": {[]string{"triggered", "x"}, "removed", false},
	} {
		root, bin := t.TempDir(), t.TempDir()
		state := filepath.Join(root, "var/lib/hotmount")
		if err := os.MkdirAll(filepath.Dir(state), 0o755); err != nil {
			t.Fatal(err)
		}
		if tt.mark != "" {
			if err := os.Mkdir(state, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(state, tt.mark), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		called := filepath.Join(root, "called")
		for _, tool := range []string{"hotmount", "udevadm"} {
			if err := os.WriteFile(filepath.Join(bin, tool), []byte("#!/bin/sh\ntouch "+called+"\nexit 1\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		c := exec.Command("sh", append([]string{"../packaging/debian/postinst"}, tt.args...)...)
		c.Env = append(os.Environ(), "DPKG_ROOT="+root, "PATH="+bin+":"+os.Getenv("PATH"))
		if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		if _, err := os.Lstat(called); err == nil {
			t.Errorf("%s: a tool was called", name)
		}
		if _, err := os.Lstat(filepath.Join(state, "first-start")); (err == nil) != tt.first {
			t.Errorf("%s: the mark: %v", name, err)
		}
	}
}
