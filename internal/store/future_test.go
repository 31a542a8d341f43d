package store

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"hotmount/internal/disk"
)

// TestFutureIsNoticedOnce checks records from a clock that wrongly showed the year 2099. The records of 2099 must count
// towards format_limit only for the usual period, and the recorded times must not change.
func TestFutureIsNoticedOnce(t *testing.T) {
	s := made(t)
	write := func(year string, uuids ...int) {
		t.Helper()
		var lines strings.Builder
		for _, i := range uuids {
			lines.WriteString(`{"version":1,"begin":{"name":"vdb","identity":{},"uuid":"` + numbered(i) + `","by":"daemon","evidence":[],"begun":"` + year + `-01-02T03:04:05Z"}}` + "\n")
		}
		if err := os.WriteFile(s.historyFile(), []byte(lines.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	notice := func(want int) {
		t.Helper()
		if got, err := s.NoticeFuture(); got != want || err != nil {
			t.Errorf("noticed %d, %v; want %d", got, err, want)
		}
	}
	notice(0) // there is no history
	write("2001", 1)
	notice(0)

	// A format that was restarted has two records with the same UUID.
	write("2099", 1, 1)
	if _, err := begin(s, 7, 1); !errors.Is(err, ErrBrake) {
		t.Errorf("before it is noticed: %v", err)
	}
	notice(2)
	before, _ := os.ReadFile(s.historyFile())
	notice(0)
	if after, err := os.ReadFile(s.historyFile()); err != nil || string(after) != string(before) {
		t.Errorf("noticed again: %v\n%s", err, after)
	}
	for _, r := range history(t, s) {
		if r.Begun.Year() != 2099 || time.Since(r.Noticed) > time.Minute {
			t.Errorf("the record is %+v", r)
		}
	}
	// format_limit must use the time of the notice as the beginning of the format, instead of the recorded time.
	m := s.Load("boot1", new(Expectations))
	if len(m.Formats) != 1 || m.Formats[0] < 0 || m.Formats[0] > time.Minute {
		t.Errorf("formats %v", m.Formats)
	}
	if _, err := begin(s, 7, 1); !errors.Is(err, ErrBrake) {
		t.Errorf("within the period: %v", err)
	}
	line := `{"version":1,"noticed":"` + time.Now().Add(-2*time.Hour).UTC().Format(time.RFC3339) + `"}` + "\n"
	write("2099", 1, 1)
	old, _ := os.ReadFile(s.historyFile())
	if err := os.WriteFile(s.historyFile(), append(old, line...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := begin(s, 7, 1); err != nil {
		t.Errorf("after the period: %v", err)
	}

	// When hotmount shortens a long history, the records must keep the time of the notice. A time in a record counts as
	// wrong only if it is more than futureFrom in the future.
	all := history(t, s)
	kept, err := newest(all)
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := parseHistory(kept)
	if err != nil || len(again) != 3 || !again[0].Noticed.Equal(all[0].Noticed) || again[0].Noticed.IsZero() {
		t.Errorf("rewritten: %+v, %v", again, err)
	}
	now := time.Now()
	near := []disk.Record{{Begun: now.Add(futureFrom)}, {Begun: now.Add(futureFrom + time.Second)}}
	if futureAt(near, now) != 1 || !near[0].Noticed.IsZero() {
		t.Errorf("nearly now: %+v", near)
	}
}

// TestFutureOfAnUnreadableHistory checks that an unreadable history is not changed.
func TestFutureOfAnUnreadableHistory(t *testing.T) {
	s := made(t)
	if err := os.WriteFile(s.historyFile(), []byte("x\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := s.NoticeFuture(); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if data, err := os.ReadFile(s.historyFile()); err != nil || string(data) != "x\n\n" {
		t.Errorf("%q, %v", data, err)
	}
}
