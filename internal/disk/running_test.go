package disk

import (
	"testing"
	"time"
)

// TestRunningSeen checks that Running.Seen adds only the time between two scans that found the same mount.
func TestRunningSeen(t *testing.T) {
	mounted := time.Unix(1000, 0)
	before := Running{Ran: time.Hour, Boot: "a", Seq: 3, Mounted: mounted, At: time.Minute}
	for _, tt := range []struct {
		name    string
		boot    string
		seq     uint64
		mounted time.Time
		at      time.Duration
		want    time.Duration
	}{
		{"the same mount", "a", 3, mounted, 2 * time.Minute, time.Hour + time.Minute},
		{"after a reboot", "b", 3, mounted, 2 * time.Minute, time.Hour},
		{"attached again", "a", 4, mounted, 2 * time.Minute, time.Hour},
		{"mounted again", "a", 3, mounted.Add(1), 2 * time.Minute, time.Hour},
		{"nobody knows since when", "a", 3, time.Time{}, 2 * time.Minute, time.Hour},
		{"a clock that went back", "a", 3, mounted, time.Second, time.Hour},
	} {
		got := before.Seen(tt.boot, tt.seq, tt.mounted, tt.at)
		if got.Ran != tt.want || got.Boot != tt.boot || got.Seq != tt.seq || got.At != tt.at || !got.Mounted.Equal(tt.mounted) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	unknown := Running{Boot: "a", Seq: 3}
	if got := unknown.Seen("a", 3, time.Time{}, time.Hour); got.Ran != 0 {
		t.Errorf("a mount of no known time counts: %+v", got)
	}
}
