//go:build root

package mounts

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWatchMounts makes mounts in the host's mount namespace, because hotmount watches the table of PID 1. The test
// makes mounts only in its own directory.
func TestWatchMounts(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed := make(chan struct{}, 1)
	done := make(chan error)
	go func() {
		done <- Watch(ctx, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	}()
	mounted := func() bool {
		table, err := Tree("")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range table {
			if m.Path == dir && m.Type == "tmpfs" {
				return true
			}
		}
		return false
	}
	next := func() {
		t.Helper()
		select {
		case <-changed:
		case <-time.After(10 * time.Second):
			t.Fatal("no wake-up after a change")
		}
	}
	// Other processes may mount or unmount something during the test.
	until := func(want bool) {
		t.Helper()
		for next(); mounted() != want; next() {
		}
	}
	next()
	if err := unix.Mount("hotmount-test", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatalf("cannot mount (this needs root): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && err != unix.EINVAL {
			t.Error(err)
		}
	})
	until(true)
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	until(false)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestTreeIsAsItIs checks that Tree shows a mount, a remount and an unmount immediately. Tree must read the mount table
// only after a change.
func TestTreeIsAsItIs(t *testing.T) {
	dir := t.TempDir()
	var r Reader
	options := func() string {
		tree, err := r.Tree("")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range slices.Backward(tree) {
			if m.Path == dir {
				return strings.Split(m.Options, ",")[0]
			}
		}
		return ""
	}
	t.Cleanup(func() {
		// After a successful test, nothing is mounted any more, and unmount returns EINVAL.
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && err != unix.EINVAL {
			t.Error(err)
		}
	})
	for i, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { return nil }, ""},
		{func() error { return nil }, ""}, // from this call on, the table stays open
		{func() error { return unix.Mount("hotmount-test", dir, "tmpfs", 0, "size=64k") }, "rw"},
		{func() error { return unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "") }, "ro"},
		{func() error { return unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND, "") }, "rw"},
		{func() error { return unix.Unmount(dir, 0) }, ""},
	} {
		if err := step.do(); err != nil {
			t.Fatal(i, err)
		}
		if got := options(); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}
