package uevent

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestNodes: each entry that comes into being is named, whatever else happens there, also
// where many are told at once, and the end of the context ends it.
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
	names := make(chan string, 1000)
	var gate sync.Mutex
	done := make(chan error)
	go func() {
		done <- Nodes(ctx, dir, func(name string) {
			gate.Lock()
			defer gate.Unlock()
			names <- name
		})
	}()
	for len(names) == 0 { // nobody tells when the watch has begun
		create("begun")
	}
	gate.Lock()
	want := []string{"vdb", strings.Repeat("x", 250), "vdb1", "vdb", "end"}
	create(want...)
	gate.Unlock()
	var got []string
	for name := ""; name != "end"; {
		select {
		case name = <-names:
		case <-time.After(10 * time.Second):
			t.Fatalf("named so far: %q", got)
		}
		if name != "begun" {
			got = append(got, name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("named: %q", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := Nodes(t.Context(), null, nil); err == nil {
		t.Error("a file can be watched")
	}
}
