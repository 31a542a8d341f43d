package store

import (
	"os"
	"testing"
	"time"

	"hotmount/internal/disk"
)

func TestRuns(t *testing.T) {
	s := Store{State: t.TempDir(), Runtime: t.TempDir()}
	var saw []time.Duration
	add := func(r disk.Running) disk.Running {
		saw = append(saw, r.Ran)
		r.Ran += time.Hour
		return r
	}
	for _, uuids := range [][]string{{"a", "b"}, {"b"}, {"a", "b"}} {
		if err := s.Runs(uuids, add); err != nil {
			t.Fatal(err)
		}
	}
	want := []time.Duration{0, 0, time.Hour, time.Hour, 2 * time.Hour}
	if len(saw) != len(want) {
		t.Fatalf("saw %v", saw)
	}
	for i := range want {
		if saw[i] != want[i] {
			t.Errorf("saw %v, want %v", saw, want)
		}
	}
	if err := os.WriteFile(s.runningFile(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	called := false
	if err := s.Runs([]string{"a"}, func(r disk.Running) disk.Running { called = true; return r }); err == nil || called {
		t.Errorf("a damaged record is taken for none: %v", err)
	}
}
