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
		made  bool
		since time.Duration
		want  bool
	}{
		{"old enough", nil, day, true, -1, true},
		{"too young", nil, day - 1, true, -1, false},
		{"young, made elsewhere", nil, 0, false, -1, true},
		{"a week ago", nil, day, true, 7 * day, true},
		{"a week ago, as the timer's delay has it", nil, day, true, 7*day - 11*time.Hour, true},
		{"six days ago", nil, day, true, 6 * day, false},
		{"switched off", func(_ *disk.Facts, s *disk.Settings) { s.Trim = false }, day, true, -1, false},
		{"switched off in the class", func(_ *disk.Facts, s *disk.Settings) { s.Classes[0].Trim = false }, day, true, -1, false},
		{"a disk that takes nothing back", func(f *disk.Facts, _ *disk.Settings) { f.Discards = false }, day, true, -1, false},
		{"read-only", func(f *disk.Facts, _ *disk.Settings) { f.ReadOnly = true }, day, true, -1, false},
		{"not mounted", func(f *disk.Facts, _ *disk.Settings) { f.Mounts = nil }, day, true, -1, false},
		{"mounted elsewhere", func(f *disk.Facts, _ *disk.Settings) { f.Mounts[0].Path = "/srv" }, day, true, -1, false},
		{"no class", func(f *disk.Facts, _ *disk.Settings) { f.Name = "sda" }, day, true, -1, false},
		{"shrunk", func(f *disk.Facts, _ *disk.Settings) { f.Geometry = grown(6 << 30) }, day, true, -1, false},
		{"an unfinished format", func(f *disk.Facts, _ *disk.Settings) { f.Standing.Intent = &disk.Intent{} }, day, true, -1, false},
	} {
		f, s := blankDisk(), settings()
		f.Discards, s.Trim, s.Classes[0].Trim = true, true, true
		f.Mounts = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)}
		if tt.put != nil {
			tt.put(f, s)
		}
		ok, why := Trim(f, Decide(f, xfs(), s), s, disk.Running{Ran: tt.ran}, tt.made, int64(tt.since))
		if ok != tt.want || ok == (why != "") {
			t.Errorf("%s: %v, %q", tt.name, ok, why)
		}
	}
}
