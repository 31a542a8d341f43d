//go:build root

package sysfs

import (
	"errors"
	"testing"

	"hotmount/internal/disk"
)

// TestLive checks that the facts of all disks of this machine can be read.
func TestLive(t *testing.T) {
	var fs FS
	names, err := fs.Names()
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Fatal("no disk")
	}
	for _, name := range names {
		f, err := fs.Disk(name)
		if errors.Is(err, disk.ErrGone) {
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		if f.Seq == 0 || f.LogicalSector < 512 {
			t.Errorf("%+v", f)
		}
		if c, err := fs.Counters(name); err != nil || c.Seq != f.Seq || c.Uncounted != f.Uncounted || c.Writes < f.Writes {
			t.Errorf("%s: %+v, %v; the facts say %+v", name, c, err, f)
		}
		devices, err := fs.Devices(&f)
		if err != nil || devices[f.Dev] != name {
			t.Errorf("devices on %s: %v, %v", name, devices, err)
		}
	}
	if _, err := fs.BootID(); err != nil {
		t.Error(err)
	}
	if _, err := fs.KernelFormatOff(); err != nil {
		t.Error(err)
	}
}
