package policy

import (
	"testing"

	"hotmount/internal/disk"
)

// TestFills checks that a filesystem that does not fill its disk grows before the mount. hotmount must try the growth
// only once for each size of the disk.
func TestFills(t *testing.T) {
	class := settings().Classes[0]
	class.Grow = true
	for name, c := range map[string]struct {
		change func(*disk.Facts, *disk.Class)
		want   bool
	}{
		"room for the least that XFS takes": {func(f *disk.Facts, _ *disk.Class) { f.Udev.FSSpan = f.Size - 64*4096 }, true},
		"less":                              {func(f *disk.Facts, _ *disk.Class) { f.Udev.FSSpan = f.Size - 64*4096 + 1 }, false},
		"no room":                           {func(f *disk.Facts, _ *disk.Class) { f.Udev.FSSpan = f.Size }, false},
		"shrunk":                            {func(f *disk.Facts, _ *disk.Class) { f.Udev.FSSpan = f.Size + 1<<30 }, false},
		"nobody knows it":                   {func(f *disk.Facts, _ *disk.Class) { f.Udev.FSSpan = 0 }, true},
		"nobody knows it, and it was tried": {func(f *disk.Facts, _ *disk.Class) {
			f.Udev.FSSpan, f.Standing.Fit = 0, &disk.Fit{Seq: f.Seq, Size: f.Size}
		}, false},
		"nobody knows it, and the class does not grow": {func(f *disk.Facts, c *disk.Class) { f.Udev.FSSpan, c.Grow = 0, false }, false},
		"larger than when it was mounted": {func(f *disk.Facts, _ *disk.Class) {
			f.Udev.FSSpan = 0
			f.Standing.Volume = &disk.Sighting{UUID: uuid, Identity: disk.Identity{Size: f.Size - 1<<30}}
		}, true},
		"as large as when it was mounted": {func(f *disk.Facts, _ *disk.Class) {
			f.Udev.FSSpan = 0
			f.Standing.Volume = &disk.Sighting{UUID: uuid, Identity: disk.Identity{Size: f.Size}}
		}, false},
		"as udev has it, not as it was": {func(f *disk.Facts, _ *disk.Class) {
			f.Udev.FSSpan = f.Size
			f.Standing.Volume = &disk.Sighting{UUID: uuid, Identity: disk.Identity{Size: f.Size - 1<<30}}
		}, false},
		"by a proof": {func(f *disk.Facts, _ *disk.Class) {
			f.Udev.FSSpan = f.Size
			f.Standing.Verdict = &disk.Verdict{Seq: f.Seq, Size: f.Size, Writes: f.Writes, Content: disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Span: 1 << 30, Proven: true}}
		}, true},
		"from elsewhere, never mounted here": {func(f *disk.Facts, _ *disk.Class) { f.Standing.Made = false }, true},
		"from elsewhere, as large as when it came": {func(f *disk.Facts, _ *disk.Class) {
			f.Standing.Made, f.Standing.Volume = false, &disk.Sighting{UUID: uuid, Adopted: f.Size}
		}, false},
		"from elsewhere, larger than when it came": {func(f *disk.Facts, _ *disk.Class) {
			f.Standing.Made, f.Standing.Volume = false, &disk.Sighting{UUID: uuid, Adopted: f.Size - 1}
		}, true},
		"the class does not grow": {func(f *disk.Facts, c *disk.Class) { c.Grow = false }, false},
		"tried":                   {func(f *disk.Facts, _ *disk.Class) { f.Standing.Fit = &disk.Fit{Seq: f.Seq, Size: f.Size} }, false},
		"tried at another size":   {func(f *disk.Facts, _ *disk.Class) { f.Standing.Fit = &disk.Fit{Seq: f.Seq, Size: f.Size - 1} }, true},
	} {
		f, class := blankDisk(), class
		f.Standing.Made = true
		f.Udev = disk.Udev{Initialized: true, FSUsage: "filesystem", FSType: "xfs", FSUUID: uuid, FSSpan: 1 << 30}
		c.change(f, &class)
		if got := ShouldGrow(f, &class); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
