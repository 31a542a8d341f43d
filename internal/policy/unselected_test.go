package policy

import (
	"strings"
	"testing"

	"hotmount/internal/disk"
)

// TestUnselected checks that status shows a disk without a class only if hotmount could use the disk.
func TestUnselected(t *testing.T) {
	s := settings()
	s.Classes[0].Names = []string{"none"}
	for name, test := range map[string]struct {
		facts   func(*disk.Facts)
		content *disk.Content
		shown   bool
	}{
		"a blank disk":           {nil, proven(disk.Blank), true},
		"nothing known on it":    {nil, proven(disk.Unread), true},
		"half-made":              {nil, proven(disk.HalfMade), true},
		"a filesystem":           {nil, xfs(), true},
		"a SCSI disk":            {func(f *disk.Facts) { f.Name = "sda" }, xfs(), true},
		"an NVMe disk":           {func(f *disk.Facts) { f.Name = "nvme0n1" }, xfs(), true},
		"something else":         {nil, proven(disk.Other), false},
		"unknown":                {nil, proven(disk.Unknown), false},
		"a partition":            {part, xfs(), false},
		"a loop device":          {func(f *disk.Facts) { f.Name = "loop0" }, xfs(), false},
		"a CD-ROM":               {func(f *disk.Facts) { f.Name = "sr0" }, xfs(), false},
		"a device-mapper device": {func(f *disk.Facts) { f.Name = "dm-0" }, xfs(), false},
		"no size":                {func(f *disk.Facts) { f.Size = 0 }, xfs(), false},
		"removable":              {func(f *disk.Facts) { f.Removable = true }, xfs(), false},
		"mounted":                {func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt("/srv")} }, xfs(), false},
		"partitions":             {func(f *disk.Facts) { f.Partitions = []string{"vdb1"} }, proven(disk.Unread), false},
		"something built on it":  {func(f *disk.Facts) { f.Holders = []string{"dm-0"} }, xfs(), false},
		"below a loop device":    {looped, xfs(), false},
		"swap":                   {func(f *disk.Facts) { f.Swap = true }, xfs(), false},
		"claimed":                {func(f *disk.Facts) { f.Claim = "/etc/fstab:1" }, xfs(), false},
		"given out":              {func(f *disk.Facts) { f.Standing.Link = "/mnt/block/virtio-S1" }, xfs(), false},
		"udev has not finished":  {func(f *disk.Facts) { f.Udev.Initialized = false }, proven(disk.Unread), false},
		"udev says not ready":    {func(f *disk.Facts) { f.Udev.NotReady = true }, xfs(), false},
		"a leg of a multipath":   {func(f *disk.Facts) { f.Udev.Multipath = true }, xfs(), false},
		"a seed":                 {func(f *disk.Facts) { f.Udev.FSLabel = "cidata" }, xfs(), false},
		"it carries the system":  {func(f *disk.Facts) { f.System = "/" }, xfs(), false},
	} {
		f := blankDisk()
		if test.facts != nil {
			test.facts(f)
		}
		if d := Decide(f, test.content, s); d.Action != disk.Ignore || (d.Reason == disk.ReasonUnselected) != test.shown {
			t.Errorf("%s: %s, %s", name, d.Action, d.Reason)
		}
	}
}

// TestClassToAdd checks that the suggested class selects the disk. A serial from the disk must not act as a pattern or
// as configuration syntax in the class.
func TestClassToAdd(t *testing.T) {
	for _, test := range []struct{ serial, slot, want string }{
		{"DATA-1", "pci-0000:05:00.0", `{name: extra, serial: ["DATA-1"], directory: /mnt/extra}`},
		{"", "pci-0000:05:00.0", `by_path: ["pci-0000:05:00.0"]`},
		{"", "", "names: [vdb]"},
		{"S*", "", "names: [vdb]"},
		{"S\"]\x1b", "", "names: [vdb]"},
		{"re:.", "re:.", "names: [vdb]"},
	} {
		f := blankDisk()
		f.Serial, f.Slot = test.serial, test.slot
		if got := classToAdd(&wording{f: f}); !strings.Contains(got, test.want) {
			t.Errorf("%q, %q: %s", test.serial, test.slot, got)
		}
	}
}
