package main

import "strings"

// The constants are the keys in Turn.Values for the parts of the time from the kernel's event to the mount.
const (
	splitUdev  = "split: udev"
	splitOwn   = "split: hotmount"
	splitPID1  = "split: PID 1"
	splitMount = "split: mount(8)"
)

// splitTurn splits the time of a turn with one disk. If the method calls mount(2) itself, the whole time after udev's
// event belongs to the mount.
func splitTurn(t *Turn, events []traceEvent) {
	if t.Fault != "" || len(t.Mounted) != 1 {
		return
	}
	added, probed, mounted := first(t.Added), lastTime(t.Probed), lastTime(t.Mounted)
	requested, started := probed, probed
	if t.Way != mountCall {
		var ok bool
		if requested, started, ok = phases(events, added, mounted); !ok {
			t.Fault = "the trace does not have its mount(8)"
			return
		}
		// A udev rule asks PID 1 for the mount before udev sends its event. The time until udev's event counts as
		// udev's time.
		requested = max(probed, requested)
		started = max(requested, started)
	}
	t.Values = map[string]float64{
		splitUdev: probed - added, splitOwn: requested - probed, splitPID1: started - requested, splitMount: mounted - started,
	}
}

// The function `phases` returns the time when PID 1 received the request for a mount, and the time when mount(8) began.
// Only wake-ups, forks and program starts between the kernel's event and the appearance of the mount count.
func phases(events []traceEvent, after, mounted float64) (requested, started float64, ok bool) {
	within := func(from, to float64, matches func(traceEvent) bool) (found traceEvent) {
		for _, e := range events {
			if e.at >= from && e.at < to && matches(e) {
				found = e
			}
		}
		return found
	}
	mount := within(after, mounted, func(e traceEvent) bool {
		return e.name == "sched_process_exec" && strings.HasSuffix(e.field("filename"), "/mount")
	})
	fork := within(after, mount.at, func(e traceEvent) bool {
		return e.name == "sched_process_fork" && e.field("child_pid") == mount.pid
	})
	asking := map[string]bool{}
	for _, e := range events {
		if e.name == "sched_switch" {
			asking[e.field("next_pid")] = true
		}
	}
	// The process that asks for the mount causes the last wake-up of PID 1 before PID 1 forks.
	ask := within(after, fork.at, func(e traceEvent) bool {
		return e.name == "sched_waking" && asking[e.pid] && e.field("pid") == fork.pid
	})
	return ask.at, mount.at, ask.at > 0
}
