package disk

import (
	"testing"
	"time"
)

// TestRecordTime checks that Record.Time returns Noticed only if Begun is in the future.
func TestRecordTime(t *testing.T) {
	now := time.Date(2026, 11, 28, 2, 0, 0, 0, time.UTC)
	past, future, noticed := now.Add(-time.Hour), now.AddDate(73, 0, 0), now.Add(-time.Minute)
	for name, tt := range map[string]struct {
		of   Record
		want time.Time
	}{
		"past":                           {Record{Begun: past}, past},
		"future":                         {Record{Begun: future}, future},
		"future, noticed":                {Record{Begun: future, Noticed: noticed}, noticed},
		"past, noticed by a wrong clock": {Record{Begun: past, Noticed: time.Unix(3, 0)}, past},
	} {
		if got := tt.of.Time(now); !got.Equal(tt.want) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
