package policy

import (
	"testing"
	"time"

	"hotmount/internal/disk"
)

func TestTrim(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name  string
		put   func(*disk.Facts, *disk.Settings)
		ran   time.Duration
		since time.Duration
		want  bool
	}{
		{"old enough", nil, day, -1, true},
		{"too young", nil, day - 1, -1, false},
		{"just mounted", nil, 0, -1, false},
		{"a week ago", nil, day, 7 * day, true},
		{"a week ago, as the timer's delay has it", nil, day, 7*day - 11*time.Hour, true},
		{"six days ago", nil, day, 6 * day, false},
		{"switched off", func(_ *disk.Facts, s *disk.Settings) { s.Trim = false }, day, -1, false},
		{"switched off in the class", func(_ *disk.Facts, s *disk.Settings) { s.Classes[0].Trim = false }, day, -1, false},
		{"a disk that takes nothing back", func(f *disk.Facts, _ *disk.Settings) { f.Discards = false }, day, -1, false},
		{"read-only", func(f *disk.Facts, _ *disk.Settings) { f.ReadOnly = true }, day, -1, false},
		{"not mounted", func(f *disk.Facts, _ *disk.Settings) { f.Mounts = nil }, day, -1, false},
		{"mounted elsewhere", func(f *disk.Facts, _ *disk.Settings) { f.Mounts[0].Path = "/srv" }, day, -1, false},
		{"no class", func(f *disk.Facts, _ *disk.Settings) { f.Name = "sda" }, day, -1, false},
		{"with a fault", func(f *disk.Facts, _ *disk.Settings) {
			f.Fault = "the kernel has counted errors in the ext4 filesystem"
		}, day, -1, false},
		{"with a fault, shrunk", func(f *disk.Facts, _ *disk.Settings) { f.Geometry, f.Fault = grown(6<<30), "shut down" }, day, -1, false},
		{"without a disk below it", func(f *disk.Facts, _ *disk.Settings) {
			f.Below = []disk.Underlying{{Name: "vdc", Gone: true}}
		}, day, -1, false},
		{"under another mount", func(f *disk.Facts, _ *disk.Settings) {
			f.Mounts[0].Covered, f.Mounts[0].CoveredBy = true, "/mnt"
		}, day, -1, false},
		{"shrunk", func(f *disk.Facts, _ *disk.Settings) { f.Geometry = grown(6 << 30) }, day, -1, false},
		{"the slot of an unfinished format", func(f *disk.Facts, _ *disk.Settings) {
			f.Standing.Intent, f.Standing.IntentBySlot, f.Standing.Volume = &disk.Intent{UUID: otherUUID}, true, &disk.Sighting{UUID: uuid}
			f.Udev.FSType, f.Udev.FSUsage, f.Udev.FSUUID = "xfs", "filesystem", uuid
		}, day, -1, true},
		{"an unfinished format", func(f *disk.Facts, _ *disk.Settings) { f.Standing.Intent = &disk.Intent{} }, day, -1, false},
	} {
		f, s := blankDisk(), settings()
		f.Discards, s.Trim, s.Classes[0].Trim = true, true, true
		f.Mounts = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)}
		if tt.put != nil {
			tt.put(f, s)
		}
		ok, why := Trim(f, Decide(f, xfs(), s), s, disk.Running{Ran: tt.ran}, int64(tt.since))
		if ok != tt.want || ok == (why != "") {
			t.Errorf("%s: %v, %q", tt.name, ok, why)
		}
	}
}
