package store

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

// Two may read at once; a third one waits until one of them is done, and says so.
func TestScanPlace(t *testing.T) {
	s := Store{Runtime: t.TempDir()}
	var free []func()
	for range scansAtOnce {
		f, err := s.ScanPlace(t.Context(), func() { t.Error("there is a place, and yet it waits") })
		if err != nil {
			t.Fatal(err)
		}
		free = append(free, f)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	if _, err := s.ScanPlace(ctx, func() { cancel(gone) }); !errors.Is(err, gone) {
		t.Errorf("got %v, want the end of the context", err)
	}
	var waited atomic.Bool
	done := make(chan error)
	go func() {
		third, err := s.ScanPlace(t.Context(), func() { waited.Store(true); free[1](); free[1]() })
		if err == nil {
			third()
		}
		done <- err
	}()
	if err := <-done; err != nil || !waited.Load() {
		t.Errorf("error %v, waited %v", err, waited.Load())
	}
	free[0]()
	if _, err := (Store{Runtime: "/nonexistent"}).ScanPlace(t.Context(), func() {}); err == nil {
		t.Error("a place in no directory")
	}
}
