package mounts

import (
	"context"
	"errors"
	"io/fs"
	"testing"
)

func TestWatchBeginsAndStops(t *testing.T) {
	for _, paths := range [][]string{{tablePath, ownTablePath}, {ownTablePath}, {"/nowhere", ownTablePath}} {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		// watch must return even if the context ends before the first poll.
		if err := watch(ctx, func() { calls++; cancel() }, paths...); err != nil {
			t.Errorf("%q: %v", paths, err)
		}
		if calls != 1 {
			t.Errorf("%q: %d calls", paths, calls)
		}
		cancel()
	}
}

func TestWatchStopsWhileWaiting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan struct{}, 100)
	done := make(chan error)
	go func() { done <- Watch(ctx, func() { started <- struct{}{} }) }()
	<-started
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWatchAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Watch(ctx, func() { t.Error("called") }); err != nil {
		t.Error(err)
	}
}

func TestWatchNothing(t *testing.T) {
	if err := watch(t.Context(), func() { t.Error("called") }, "/nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}
