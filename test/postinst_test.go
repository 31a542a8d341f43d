package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPostinstInAnImage checks postinst in another root directory, as in a build of an image. postinst marks the next
// start of hotmount as its first start. postinst does not look at the builder's disks and does not fail. After an
// upgrade postinst marks nothing.
func TestPostinstInAnImage(t *testing.T) {
	for name, tt := range map[string]struct {
		args  []string
		mark  string // file that a removal has left
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
