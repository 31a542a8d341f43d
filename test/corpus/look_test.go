//go:build root

package corpus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"hotmount/internal/disk"
	"hotmount/internal/probe"
	"hotmount/internal/run"
	"hotmount/test/worker"
)

func TestMain(m *testing.M) {
	if err := worker.Need(context.Background(), os.Stderr, Packages); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// look asks what is on the image, as the proof does.
func look(t *testing.T, path string, plan probe.Plan) disk.Content {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECT, 0)
	if errors.Is(err, syscall.EINVAL) { // a filesystem in memory
		f, err = os.Open(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	c, err := probe.Look(t.Context(), run.Exec{}, probe.Source{Reader: f, Node: path, Size: uint64(info.Size())}, plan)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestNothingIsBlank: no kind of image is taken for blank, each is taken for what
// it is, and none is changed by a byte.
func TestNothingIsBlank(t *testing.T) {
	kinds := Kinds()
	missed := make(chan string, len(kinds))
	t.Run("each", func(t *testing.T) {
		for _, k := range kinds {
			t.Run(k.Name, func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "disk")
				if err := k.Make(t.Context(), path); err != nil {
					t.Fatal(err)
				}
				before, err := Digest(path)
				if err != nil {
					t.Fatal(err)
				}
				for _, plan := range []probe.Plan{probe.Full, probe.Sampled} {
					c := look(t, path, plan)
					if c.Kind != k.Is || k.Type != "" && c.Type != k.Type {
						t.Errorf("%s: taken for %s %q, not %s %q: %q", plan, c.Kind, c.Type, k.Is, k.Type, c.Evidence)
					}
				}
				// What only the first 4 KiB tell apart from a blank disk.
				if c := look(t, path, probe.Unsigned); c.Kind == disk.Blank {
					missed <- k.Name
				}
				if after, err := Digest(path); err != nil || after != before {
					t.Errorf("it was changed (%v)", err)
				}
			})
		}
	})
	close(missed)
	var names []string
	for name := range missed {
		names = append(names, name)
	}
	slices.Sort(names)
	t.Logf("%d kinds; the plan unsigned takes %d of them for blank: %q", len(kinds), len(names), names)
	// A corpus that the weakest plan passes shows nothing.
	if len(names) < 40 {
		t.Errorf("the plan unsigned takes only %d kinds for blank", len(names))
	}
}
