package uevent

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestNodes checks that Run finds each new entry with a wanted name, even among many other events. Run returns when the
// context ends.
func TestNodes(t *testing.T) {
	dir := t.TempDir()
	null := filepath.Join(dir, "null")
	create := func(names ...string) {
		t.Helper()
		for _, name := range names {
			path := filepath.Join(dir, name)
			for _, err := range []error{os.WriteFile(null, []byte("x"), 0o600), os.Mkdir(path, 0o700), os.Rename(path, path+"."), os.Remove(path + ".")} {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	create("null.")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	nodes, err := WatchNodes(dir, func(name string) bool { return name != "loop0" })
	if err != nil {
		t.Fatal(err)
	}
	// The watch reports a removal, but no rename. The test renames each entry before it removes the entry, so that
	// nodes.made keeps the original name.
	made := func(name string) uint64 {
		nodes.mu.Lock()
		defer nodes.mu.Unlock()
		return nodes.made[name]
	}
	go func() { done <- nodes.Run(ctx) }()
	want := []string{"vdb", strings.Repeat("x", 250), "vdb1", "end"}
	create("loop0")
	create(want...)
	for limit := time.Now().Add(10 * time.Second); made("end") == 0; {
		if time.Now().After(limit) {
			t.Fatal("the last node was not found")
		}
	}
	if !slices.IsSortedFunc(want, func(a, b string) int { return cmp.Compare(made(a), made(b)) }) || made(want[0]) == 0 {
		t.Errorf("known: %v", nodes.made)
	}
	if made("loop0") != 0 {
		t.Error("an unwanted node was found")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := WatchNodes(null, nil); err == nil {
		t.Error("watched a file")
	}
}

// TestCameAfter checks that CameAfter finds the order of events even if Run has not read the events yet. If the order
// is not known, CameAfter must return false.
func TestCameAfter(t *testing.T) {
	dir := t.TempDir()
	do := func(names ...string) {
		t.Helper()
		for _, name := range names {
			path, gone := strings.CutPrefix(name, "-")
			var err error
			if path = filepath.Join(dir, path); gone {
				err = os.Remove(path)
			} else {
				err = os.Mkdir(path, 0o700)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	do("vda", "vdb")
	nodes, err := WatchNodes(dir, func(name string) bool { return strings.HasPrefix(name, "vd") })
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		do    []string
		after string // the nodes that came after the removal of vdb
	}{
		{nil, ""},
		{[]string{"vdc"}, ""},
		{[]string{"-vdb"}, ""},
		{[]string{"vdd", "loop1", "-loop1"}, "vdd"},
		{[]string{"-vdd"}, ""},
		{[]string{"vdd", "vde"}, "vdd vde"},
		{[]string{"vdb"}, ""},
		{[]string{"-vdb", "vdf"}, "vdf"},
	} {
		do(step.do...)
		var after []string
		for _, name := range []string{"vda", "vdb", "vdc", "vdd", "vde", "vdf", "loop1"} {
			if nodes.CameAfter(name, "vdb") {
				after = append(after, name)
			}
		}
		if got := strings.Join(after, " "); got != step.after {
			t.Errorf("after %q: %q, not %q", step.do, got, step.after)
		}
	}
	if nodes.CameAfter("vdf", "vdx") {
		t.Error("a node came after an unknown one")
	}
	if (*Nodes)(nil).CameAfter("vdf", "vdb") {
		t.Error("the order is known without a watch")
	}
	// If the queue of events is full, the kernel drops events, and CameAfter must return false.
	most, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Fatal(err)
	}
	queued, err := strconv.Atoi(strings.TrimSpace(string(most)))
	if err != nil {
		t.Fatal(err)
	}
	for range queued/2 + 1 {
		do("loop1", "-loop1")
	}
	do("vdb") // the kernel reports nothing about vdb, because the queue of events is full
	if nodes.CameAfter("vdf", "vdb") {
		t.Error("events were lost, and the order is known")
	}
	if do("vdg"); nodes.CameAfter("vdg", "vdb") {
		t.Error("a node came after one that still exists")
	}
	// After the end of Run, CameAfter must return false for new nodes, because their events are no longer read.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := nodes.Run(ctx); err != nil {
		t.Error(err)
	}
	if do("-vdb", "vdh"); nodes.CameAfter("vdh", "vdb") {
		t.Error("the order is known after the end of the watch")
	}
}
