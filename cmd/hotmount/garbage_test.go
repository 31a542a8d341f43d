package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

var sink []byte

// What is left is bounded, and what was set before is set again.
func TestGarbage(t *testing.T) {
	before := debug.SetGCPercent(50)
	defer debug.SetGCPercent(before)
	limit := debug.SetMemoryLimit(-1)
	var g garbage
	runtime.GC()
	collected := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumGC
	}
	start := collected()
	g.leave()
	g.leave()
	if n := collected() - start; n != 1 {
		t.Errorf("it was collected %d times when it was left", n)
	}
	start = collected()
	for range 16 {
		sink = make([]byte, 32<<10)
	}
	if n := collected() - start; n != 0 {
		t.Errorf("half a MiB was collected %d times", n)
	}
	for range 1024 {
		sink = make([]byte, 32<<10)
	}
	if collected() == start {
		t.Error("32 MiB were not collected")
	}
	g.collect()
	g.collect()
	if got := debug.SetGCPercent(50); got != 50 {
		t.Errorf("GOGC is %d", got)
	}
	if got := debug.SetMemoryLimit(-1); got != limit {
		t.Errorf("GOMEMLIMIT is %d, was %d", got, limit)
	}
}

// Until the daemon is ready less is collected, also if it has rested before.
func TestGarbageOfTheStart(t *testing.T) {
	before := debug.SetGCPercent(50)
	defer debug.SetGCPercent(before)
	var g garbage
	g.ready()
	g.putOff()
	g.leave()
	g.collect()
	if got := debug.SetGCPercent(startPercent); got != startPercent {
		t.Errorf("GOGC is %d at start", got)
	}
	for range 2 { // also after a reload
		g.ready()
		if got := debug.SetGCPercent(50); got != 50 {
			t.Errorf("GOGC is %d", got)
		}
	}
	g.putOff()
	g.leave()
	g.ready() // as one that waits for a disk that hangs
	g.collect()
	if got := debug.SetGCPercent(50); got != 50 {
		t.Errorf("GOGC is %d when it was ready while it rested", got)
	}
}
