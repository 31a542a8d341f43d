package mounts

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// aged reads the claims of files that were last changed an hour ago. The time of
// the last change of an inode can not be set, so the stamps are told.
func aged(t *testing.T, root string) *ClaimCache {
	t.Helper()
	before := time.Now().Add(-time.Hour)
	if err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, before, before))
	}); err != nil {
		t.Fatal(err)
	}
	c := new(ClaimCache)
	if _, err := c.Claims(root); err != nil {
		t.Fatal(err)
	}
	for i := range c.stamps {
		c.stamps[i].Young = false
	}
	return c
}

// What is kept is what would be read: after each kind of change it is read anew.
func TestClaimCache(t *testing.T) {
	const unitFile = "[Mount]\nWhat=/dev/vdb\n"
	root := files(t, map[string]string{
		"etc/fstab":                           "/dev/vda1 / ext4\n",
		"etc/systemd/system/a.mount":          unitFile,
		"usr/lib/systemd/system/b.swap":       "[Swap]\nWhat=/dev/vdc\n",
		"etc/systemd/system/c.mount.d/d.conf": "[Mount]\nWhat=/dev/vdd\n",
	})
	at := func(name string) string { return filepath.Join(root, name) }
	write := func(name, text string) error { return os.WriteFile(at(name), []byte(text), 0o644) }
	c := new(ClaimCache)
	if _, err := c.Claims(root); err != nil {
		t.Fatal(err)
	}
	if c.stamps.hold() {
		t.Error("files that are made this moment are taken for settled")
	}
	for name, change := range map[string]func() error{
		"nothing":                   func() error { return nil },
		"a line more":               func() error { return write("etc/fstab", "/dev/vda1 / ext4\n/dev/vde /x xfs\n") },
		"other bytes, same length":  func() error { return write("etc/systemd/system/a.mount", "[Mount]\nWhat=/dev/vdf\n") },
		"a new unit":                func() error { return write("usr/lib/systemd/system/n.mount", unitFile) },
		"a unit less":               func() error { return os.Remove(at("usr/lib/systemd/system/b.swap")) },
		"a file that was not there": func() error { return write("etc/crypttab", "x /dev/vdg\n") },
		"a new drop-in":             func() error { return write("etc/systemd/system/c.mount.d/e.conf", "[Mount]\nWhat=/dev/vdh\n") },
		"a file put in place": func() error {
			if err := write("etc/new", "/dev/vda2 / ext4\n"); err != nil {
				return err
			}
			return os.Rename(at("etc/new"), at("etc/fstab"))
		},
		"a new directory": func() error {
			if err := os.MkdirAll(at("run/systemd/system"), 0o755); err != nil {
				return err
			}
			return write("run/systemd/system/r.mount", unitFile)
		},
	} {
		c := aged(t, root)
		if err := change(); err != nil {
			t.Fatal(err)
		}
		got, err := c.Claims(root)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Claims(root)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-read +kept):\n%s", name, diff)
		}
	}
	// And it is kept: the claims of before are given although none is there.
	c = aged(t, root)
	c.claims = nil
	if got, err := c.Claims(root); err != nil || got != nil {
		t.Errorf("read again though nothing has changed: %v, %v", got, err)
	}
}
