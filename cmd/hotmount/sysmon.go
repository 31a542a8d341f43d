//go:build rest

package main

import (
	"time"
	_ "unsafe" // for go:linkname
)

// forcegcperiod, in nanoseconds, is the runtime's (runtime/proc.go): how often it collects garbage where GOGC
// is set, and at the same time twice how long its sysmon sleeps at most when nothing runs. So each idle Go
// program wakes twice a minute, for nothing, and in no other way can it be kept from that. That a Go without
// it does not link is seen when one is built; the file can go then.
//
//go:linkname forcegcperiod runtime.forcegcperiod
var forcegcperiod int64

// A daemon that rests wakes for the watchdog and its own checks alone. One that works allocates enough to be
// collected without this.
func init() { forcegcperiod = int64(24 * time.Hour) }
