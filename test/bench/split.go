package main

import (
	"strconv"
	"strings"
)

// The parts of the time from the kernel's event to mounted, as values of a turn.
const (
	splitUdev  = "split: udev"
	splitOwn   = "split: hotmount"
	splitPID1  = "split: PID 1"
	splitMount = "split: mount(8)"
)

// splitTurn splits the time of a turn with one disk. Of a way that calls mount(2) itself all after udev's event is the
// mount.
func splitTurn(t *Turn, events []traceEvent) {
	if t.Fault != "" || len(t.Mounted) != 1 {
		return
	}
	added, probed, mounted := first(t.Added), last(t.Probed), last(t.Mounted)
	asked, started := probed, probed
	if t.Way != mountCall {
		var ok bool
		if asked, started, ok = phases(events, added, mounted); !ok {
			t.Fault = "the trace does not have its mount(8)"
			return
		}
		// The rules ask PID 1 before udev's event: until then it is udev's time.
		asked = max(probed, asked)
		started = max(asked, started)
	}
	t.Values = map[string]float64{
		splitUdev: probed - added, splitOwn: asked - probed, splitPID1: started - asked, splitMount: mounted - started,
	}
}

// phases returns when PID 1 was asked for a mount that was there at a time, and when its mount(8) began, both after the
// given time.
func phases(events []traceEvent, after, mounted float64) (asked, started float64, ok bool) {
	var mount, fork, ask *traceEvent
	for i := range events {
		e := &events[i]
		if e.at < after || e.at > mounted {
			continue
		}
		switch {
		case e.name == "sched_process_exec" && strings.HasSuffix(e.field("filename"), "/mount"):
			mount = e
		}
	}
	if mount == nil {
		return 0, 0, false
	}
	for i := range events {
		e := &events[i]
		if e.at >= after && e.at < mount.at && e.name == "sched_process_fork" && e.field("child_pid") == strconv.Itoa(mount.pid) {
			fork = e
		}
	}
	// It is woken last by who asks before it forks.
	before := mount.at
	if fork != nil {
		before = fork.at
	}
	for i := range events {
		e := &events[i]
		if e.at >= after && e.at < before && e.name == "sched_waking" && (e.comm == "hotmount" || e.comm == "systemd-mount") {
			ask = e
		}
	}
	if ask == nil {
		return 0, 0, false
	}
	return ask.at, mount.at, true
}
