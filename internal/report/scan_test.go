package report

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
)

// TestScanProgress checks the reports of a scan of 64 GiB at 100 MiB/s. The first message comes after five seconds, and
// each further message comes thirty seconds after the previous one. The status changes at most once a second.
func TestScanProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var journal strings.Builder
		s := NewScan(&Log{text: &journal}, &disk.Facts{ID: disk.ID{Name: "vdb"}, Size: 64 << 30})
		var states []string
		s.notify = func(state string) { states = append(states, state) }
		const size = 64 << 30
		for read := uint64(0); read < 70*100<<20; read += 10 << 20 {
			s.Progress(read, size, read, 5*time.Minute)
			time.Sleep(100 * time.Millisecond)
		}
		want := []string{
			"/dev/vdb (no serial, 64 GiB): proving that the disk is blank: 0 % of 64 GiB, 100 MiB/s, 10m50s to go",
			"/dev/vdb (no serial, 64 GiB): proving that the disk is blank: 5 % of 64 GiB, 100 MiB/s, 10m20s to go",
			"/dev/vdb (no serial, 64 GiB): proving that the disk is blank: 9 % of 64 GiB, 100 MiB/s, 9m50s to go",
		}
		if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(journal.String()), "\n")); diff != "" {
			t.Error(diff)
		}
		if len(states) != 70 || states[10] != "STATUS=vdb: proving that the disk is blank: 1 % of 64 GiB, 100 MiB/s, 10m45s to go\nEXTEND_TIMEOUT_USEC=300000000" {
			t.Errorf("got %d states, for example %q", len(states), states[10])
		}
		// The second scan, right before the format, must cause no message, because the scan ends within five seconds.
		journal.Reset()
		s.Progress(0, size, 0, time.Minute)
		time.Sleep(4 * time.Second)
		s.Progress(size, size, 32<<20, time.Minute)
		if journal.Len() != 0 {
			t.Errorf("%q", journal.String())
		}
	})
}
