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

// otherDebian runs the tools of another Debian release. The field `tree` is the path of the release's root directory.
type otherDebian struct{ tree, loader, libraries string }

func (e otherDebian) Run(ctx context.Context, c run.Command) (run.Result, error) {
	c.Args = append([]string{"--library-path", e.libraries, e.tree + c.Path}, c.Args...)
	c.Path = e.loader
	return run.Exec{}.Run(ctx, c)
}

// The function `runners` returns a runner for the tools of this machine. In the full test, the function also returns a
// runner for the tools of Debian 13. These tools verify checksums, and therefore recognise less than older tools.
func runners(t *testing.T) map[string]run.Runner {
	all := map[string]run.Runner{"here": run.Exec{}}
	if !full {
		return all
	}
	tree := t.TempDir()
	unmount, err := worker.MountRoot(t.Context(), "trixie", tree, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unmount(); err != nil {
			t.Error(err)
		}
	})
	one := func(pattern string) string {
		found, err := filepath.Glob(filepath.Join(tree, pattern))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: found %q (%v)", pattern, found, err)
		}
		return found[0]
	}
	all["trixie"] = otherDebian{tree: tree, loader: one("usr/lib*/ld-linux*.so.*"), libraries: one("usr/lib/*-linux-gnu")}
	return all
}

// The function `look` examines the image in the same way in which hotmount proves a disk blank.
func look(t *testing.T, path string, plan probe.Plan, r run.Runner) disk.Content {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECT, 0)
	if errors.Is(err, syscall.EINVAL) { // a filesystem in memory does not support direct reads
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
	c, err := probe.Look(t.Context(), r, probe.Source{Reader: f, Node: path, Size: uint64(info.Size())}, plan)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The map `trixie` contains the kinds of images that Debian 13's tools recognise differently from other tools. The
// libblkid of Debian 13 requires more than a magic number, and generate.go writes only the magic number.
var trixie = map[string]disk.Kind{
	"zfs":                    disk.Unknown,
	"zfs, first MiB zero":    disk.Unknown,
	"zfs, only backups left": disk.Unknown,
	"BitLocker":              disk.Unknown,
	// blkid rejects the checksum and prints nothing. wipefs still recognises the filesystem as XFS.
	"xfs, one bit of the superblock flipped": disk.Other,
}

// TestNothingIsBlank checks that hotmount considers no kind of image blank with the plan Full or Sampled. hotmount must
// recognise each kind, and change no byte of the image.
func TestNothingIsBlank(t *testing.T) {
	kinds, tools := Kinds(), runners(t)
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
					for suite, r := range tools {
						is, name := k.Is, k.Type
						if other, differs := trixie[k.Name]; differs && suite == "trixie" {
							is, name = other, ""
						}
						if c := look(t, path, plan, r); c.Kind != is || name != "" && c.Type != name {
							t.Errorf("%s, %s: taken for %s %q, not %s %q: %q", suite, plan, c.Kind, c.Type, is, name, c.Evidence)
						}
					}
				}
				// The weakest plan (Unsigned) requires zeros only in the first 4 KiB. The test counts the kinds that
				// the weakest plan considers blank.
				if c := look(t, path, probe.Unsigned, tools["here"]); c.Kind == disk.Blank {
					missed <- k.Name
				}
				if after, err := Digest(path); err != nil || after != before {
					t.Errorf("its bytes have changed (%v)", err)
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
	// A corpus that even the weakest plan recognises would be too easy. The weakest plan must therefore consider at
	// least 40 kinds blank.
	if len(names) < 40 {
		t.Errorf("the plan unsigned takes only %d kinds for blank", len(names))
	}
}
