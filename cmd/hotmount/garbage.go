package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// garbage says when Go collects it: a daemon that rests is to use no processor time. It is for one
// goroutine.
type garbage struct {
	left    bool
	percent int
	limit   int64
	// starting says that GOGC is startPercent, usual what it is once the daemon is ready.
	starting bool
	usual    int
	// freed says that what the start took more than is needed again was given back.
	freed bool
}

// startPercent is GOGC until the daemon is ready, for which somebody waits: with 24 disks nothing is
// collected then.
const startPercent = 400

// putOff has less collected until the daemon is ready.
func (g *garbage) putOff() { g.starting, g.usual = true, debug.SetGCPercent(startPercent) }

// ready has it collected as usual, or when it is left no more.
func (g *garbage) ready() {
	switch {
	case !g.starting:
	case g.left:
		g.percent = g.usual
	default:
		debug.SetGCPercent(g.usual)
	}
	g.starting = false
}

// leftMost in bytes is how much may come together until it is collected all the same.
const leftMost = 2 << 20

// leave collects it, and from then on only when there is more of it than leftMost.
func (g *garbage) leave() {
	if g.left {
		return
	}
	// Now nobody waits. Else it is in the midst of the next disk, on the processor that udev and
	// PID 1 want.
	if g.freed {
		runtime.GC()
	} else {
		debug.FreeOSMemory() // which collects as well
	}
	g.freed = true
	// What GOMEMLIMIT counts (SetMemoryLimit in runtime/debug).
	taken := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(taken)
	g.left = true
	g.limit = debug.SetMemoryLimit(int64(taken[0].Value.Uint64()-taken[1].Value.Uint64()) + leftMost)
	g.percent = debug.SetGCPercent(-1)
}

// collect has it collected as before.
func (g *garbage) collect() {
	if !g.left {
		return
	}
	g.left = false
	debug.SetGCPercent(g.percent)
	debug.SetMemoryLimit(g.limit)
}
