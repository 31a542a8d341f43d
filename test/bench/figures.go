package main

import (
	"slices"
)

// The type `figure` is one of the measurements that a run makes, such as the measurement with twenty disks.
type figure struct {
	name  string
	disks int
	// The field `blanks` is the number of additional blank disks.
	blanks int
	// The field `turns` is the maximum number of turns of each method.
	turns int
	ways  []string
	// If the field `apart` is true, a run measures the figure only if the user names the figure.
	apart bool
	// The field `traced` reports whether the kernel traces the turns. The bench program on the host, outside the
	// container, records the trace.
	traced bool
	// The field `outside` reports whether the bench program on the host measures the turns, instead of the bench
	// program in the container. For each such turn, the container boots.
	outside bool
}

// The variable `figures` lists all figures of a run in the order of their measurement.
var figures = []figure{
	{name: "one", disks: 1, turns: 30, ways: []string{hotmount, rule, tuned, mountCall, hotPlug, shellLoop, systemdMount, neighbour}},
	{name: "twenty", disks: 20, turns: 30, ways: []string{hotmount, rule, tuned, mountCall, hotPlug, shellLoop, systemdMount}},
	{name: "blank", disks: 1, turns: 30, ways: []string{hotmount, parts}},
	{name: "throttled", disks: 1, turns: 5, ways: []string{hotmount, parts}},
	{name: "ready", disks: 24, turns: 30, ways: []string{hotmount, rule, tuned}},
	{name: "boot", disks: 24, turns: 6, ways: []string{hotmount, rule, tuned}, outside: true},
	{name: "memory", disks: 24, blanks: 8, turns: 1, ways: []string{hotmount}},
	{name: "hundreds", disks: 200, turns: 5, ways: []string{hotmount, tuned, mountCall, hotPlug, rule, shellLoop, systemdMount}},
	{name: "split", disks: 1, turns: 3, ways: []string{hotmount, rule, tuned, mountCall, shellLoop, systemdMount, neighbour}, traced: true},
	{name: "idle", disks: 24, turns: 1, ways: []string{hotmount}, apart: true},
}

// The map `seldom` contains a number n for some methods of a figure. A method with a number n takes a turn only in
// every nth round, and no bound is computed from the turns of this method.
var seldom = map[string]map[string]int{
	"one":      {shellLoop: 3, systemdMount: 3, neighbour: 3},
	"twenty":   {hotPlug: 6, shellLoop: 6, systemdMount: 6},
	"ready":    {tuned: 3},
	"hundreds": {rule: 5, shellLoop: 5, systemdMount: 5},
}

// withBase inserts the method hotmountBase (the package for the comparison) after the method `hotmount`.
func withBase(ways []string) []string {
	i := slices.Index(ways, hotmount)
	return slices.Insert(slices.Clone(ways), i+1, hotmountBase)
}

// Turn is one measurement of one method. The keys of Added, Probed and Mounted are device names. All times in a Turn
// are CLOCK_MONOTONIC in milliseconds.
type Turn struct {
	Figure string `json:"figure"`
	Way    string `json:"way"`
	Disks  int    `json:"disks"`
	// Load is the load average of the last minute. Idle is the share of the processor time (0 to 1) that was idle in
	// the half second before the turn.
	Load float64 `json:"load"`
	Idle float64 `json:"idle"`
	// Others is the share of the processor time (0 to 1) that processes outside the container used during the turn.
	Others  float64            `json:"others"`
	Added   map[string]float64 `json:"added,omitempty"`   // when the kernel sent its event
	Probed  map[string]float64 `json:"probed,omitempty"`  // time of udev's event
	Mounted map[string]float64 `json:"mounted,omitempty"` // when the mount appeared in the mount table
	// CPU is the CPU time in milliseconds of each control group, counted until one second after the last mount. The
	// group "all" is the whole container. Of the bench program's CPU time, only the time for its work as a mount method
	// counts.
	CPU map[string]float64 `json:"cpu,omitempty"`
	// Values maps the name of each other result of the turn to its value.
	Values map[string]float64 `json:"values,omitempty"`
	// Fault is the reason why the turn does not count, or "".
	Fault string `json:"fault,omitempty"`
}

// isQuiet reports whether the machine was almost idle, apart from the turn.
func (t Turn) isQuiet() bool { return t.Idle >= 1-busyBefore && t.Others <= busyMeanwhile }

func first(times map[string]float64) float64 {
	least := 0.0
	for _, at := range times {
		if least == 0 || at < least {
			least = at
		}
	}
	return least
}

func lastTime(times map[string]float64) float64 {
	most := 0.0
	for _, at := range times {
		most = max(most, at)
	}
	return most
}
