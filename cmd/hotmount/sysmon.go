//go:build rest

package main

import (
	"time"
	_ "unsafe" // for go:linkname
)

// forcegcperiod, in nanoseconds, is the runtime's (runtime/proc.go): how often it collects garbage where GOGC
// is set, and twice how long its sysmon sleeps at most when nothing runs. So each idle Go program wakes each
// minute, for nothing, and in no other way can it be kept from that.
//
//go:linkname forcegcperiod runtime.forcegcperiod
var forcegcperiod int64

// usualPeriod is what the runtime has in it. A runtime that does not has another name for it: then all links
// all the same, and does nothing (TestForcegcperiod).
var usualPeriod = time.Duration(forcegcperiod)

// What a daemon wakes for when it rests is its own. One that works allocates enough to be collected.
func init() { forcegcperiod = int64(24 * time.Hour) }
