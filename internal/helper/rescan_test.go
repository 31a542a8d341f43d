package helper

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotmount/internal/nodetest"
	"hotmount/internal/run/runtest"
)

// TestAnnounce checks that Announce triggers an event only for a disk without a valid entry in udev's database. The
// entry may be missing, or may describe an earlier disk with the same device number.
func TestAnnounce(t *testing.T) {
	h := nodetest.New(t)
	r := runtest.New(t)
	if err := Announce(t.Context(), h, r); err != nil || len(r.Calls()) != 0 {
		t.Errorf("with nothing forgotten: %q, %v", r.Calls(), err)
	}
	for name, change := range map[string]func(string) error{
		"vdb": os.Remove,
		"vdc": func(path string) error {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, bytes.ReplaceAll(text, []byte("S:disk/by-diskseq/"), []byte("S:disk/by-diskseq/9")), 0o644)
		},
	} {
		f, err := h.Look(name)
		if err == nil {
			err = change(filepath.Join(h.Root, "run/udev/data/b"+f.Dev.String()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const line = "/usr/bin/udevadm trigger --action=add /sys/class/block/vdb /sys/class/block/vdc"
	r.On(line, runtest.Print("", 0))
	if err := Announce(t.Context(), h, r); err != nil || !slices.Equal(r.Calls(), []string{line}) {
		t.Errorf("%q, %v", r.Calls(), err)
	}
	r.On(line, runtest.Complain("read-only", 1))
	if err := Announce(t.Context(), h, r); err == nil || !strings.Contains(err.Error(), "exit code 1: read-only") {
		t.Errorf("error %v", err)
	}
}
