package store

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestScanPlace checks that two readers may read their disks at the same time. A third reader must wait until one of
// the first two readers has finished, and must report that it waits.
func TestScanPlace(t *testing.T) {
	s := Store{Runtime: t.TempDir()}
	var places []*Place
	for range 2 {
		f, err := s.ScanPlace(t.Context(), func() { t.Error("there is a place, and yet it waits") })
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, f)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	later := s.LaterPlace(func() { cancel(gone) })
	if ctx.Err() != nil {
		t.Error("it waits before it reads")
	}
	if err := later.Progress(ctx); !errors.Is(err, gone) {
		t.Errorf("got %v, want the end of the context", err)
	}
	later.Free()
	ctx, cancel = context.WithCancelCause(t.Context())
	if _, err := s.ScanPlace(ctx, func() { cancel(gone) }); !errors.Is(err, gone) {
		t.Errorf("got %v, want the end of the context", err)
	}
	var waited atomic.Bool
	done := make(chan error)
	go func() {
		third, err := s.ScanPlace(t.Context(), func() { waited.Store(true); places[1].Free(); places[1].Free() })
		if err == nil {
			third.Free()
		}
		done <- err
	}()
	if err := <-done; err != nil || !waited.Load() {
		t.Errorf("error %v, waited %v", err, waited.Load())
	}
	// A reader that reads its disk again must wait like all other readers.
	fourth, err := s.ScanPlace(t.Context(), func() {})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	places[1].waiting = func() { cancel(gone) }
	if err := places[1].Reacquire(ctx); !errors.Is(err, gone) {
		t.Errorf("got %v, want the end of the context", err)
	}
	fourth.Free()
	if err := places[1].Reacquire(t.Context()); err != nil {
		t.Error(err)
	}
	places[1].Free()
	places[0].Free()
	if _, err := (Store{Runtime: "/nonexistent"}).ScanPlace(t.Context(), func() {}); err == nil {
		t.Error("a place in no directory")
	}
}

// TestScanPlaceOfAStalledDisk checks that a reader whose reads hang keeps its place for only half a minute. When the
// reads continue, the reader must wait for another place.
func TestScanPlaceOfAStalledDisk(t *testing.T) {
	s := Store{Runtime: t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		take := func() *Place {
			t.Helper()
			p, err := s.ScanPlace(t.Context(), func() {})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		begun := time.Now()
		dead, alive := take(), take()
		for range 2 {
			time.Sleep(stallTimeout * 2 / 3)
			if err := alive.Progress(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		third := take()
		if waited := time.Since(begun); waited > stallTimeout*3/2 {
			t.Errorf("it got a place after %s", waited)
		}
		back := make(chan error)
		go func() { back <- dead.Progress(t.Context()) }()
		time.Sleep(time.Second)
		synctest.Wait()
		select {
		case err := <-back:
			t.Errorf("three read at once (%v)", err)
		default:
		}
		third.Free()
		if err := <-back; err != nil {
			t.Error(err)
		}
		dead.Free()
		alive.Free()
		if err := dead.Progress(t.Context()); err != nil || dead.file != nil {
			t.Errorf("one that was given back is taken again: %v", err)
		}
	})
}

// TestALongWaitForAPlace checks that the wait for a place does not count as a stalled read. A reader keeps its place
// even after a wait of more than stallTimeout.
func TestALongWaitForAPlace(t *testing.T) {
	s := Store{Runtime: t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		var places []*Place
		for range scansAtOnce {
			p, err := s.ScanPlace(t.Context(), func() {})
			if err != nil {
				t.Fatal(err)
			}
			places = append(places, p)
		}
		later, done := s.LaterPlace(func() {}), make(chan error)
		go func() { done <- later.Progress(t.Context()) }()
		for range 3 {
			time.Sleep(stallTimeout * 2 / 3)
			for _, p := range places {
				if err := p.Progress(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		places[0].Free()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		later.mu.Lock()
		if later.file == nil {
			t.Error("it is lost")
		}
		later.mu.Unlock()
		later.Free()
		places[1].Free()
	})
}
