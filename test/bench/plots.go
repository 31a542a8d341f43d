package main

import (
	"fmt"
	"maps"
	"slices"
)

// plotOne returns the plot for one disk. The length of a bar is the median time of the turns in the figure "one". The
// traced turns of the figure "split" take longer. They therefore give only the shares of the bar's parts, and not the
// length of the bar. If a method has no traced turns, its bar has two parts: the time to udev's event, and the rest.
func (r *Result) plotOne() string {
	names := []string{"udev", "hotmount or other program", "PID 1", "mount(8) or mount(2)"}
	var bars []bar
	for _, way := range r.methodsOf("one") {
		udev, _, _ := r.values("one", way, toUdev)
		mounted, _, _ := r.values("one", way, toMounted)
		if len(udev) == 0 || len(mounted) == 0 {
			continue
		}
		whole := median(mounted)
		parts := r.shares(way)
		if parts == nil {
			parts = []float64{median(udev) / whole, 0, 0, 0, 1 - median(udev)/whole}
			names = append(names[:4], "not traced")
		}
		for i := range parts {
			parts[i] *= whole
		}
		bars = append(bars, bar{way, parts})
	}
	return stacked("One disk: time from the kernel's event to the mount (median; divided by the shares in traced turns)", "ms", names, bars)
}

// The method `shares` returns the share of each part in the time of a method's traced turns. If the mount method has no
// traced turns, the result is nil.
func (r *Result) shares(way string) []float64 {
	var parts []float64
	for _, name := range []string{splitUdev, splitOwn, splitPID1, splitMount} {
		values, _, _ := r.values("split", way, value(name))
		if len(values) == 0 {
			return nil
		}
		parts = append(parts, median(values))
	}
	whole := total(parts)
	for i := range parts {
		parts[i] /= whole
	}
	return parts
}

// plottedWays are the methods in the plot for bursts. A method's index is the index of its colour, so that a method has
// one colour in all panels. plottedWays omits the slow shell loop. On a time axis that is long enough for the shell
// loop, the lines of the other methods would lie on top of each other.
var plottedWays = []string{hotmount, rule, tuned, mountCall, systemdMount, hotmountBase}

// plotMany returns the plot for bursts: the number of mounted disks over time, in each method's median burst.
func (r *Result) plotMany() string {
	figures := []struct{ name, title string }{
		{"twenty", "20 disks at once: the median burst of each method"},
		{"hundreds", "200 disks at once: the median burst of each method"},
	}
	var panels string
	down := 0.0
	for _, f := range figures {
		var all []series
		for i, way := range plottedWays {
			if t, ok := r.medianTurn(f.name, way); ok {
				all = append(all, series{way, colours[i], mountedAfter(t)})
			}
		}
		if len(all) > 0 {
			panels += panel(f.title, all, down)
			down += 380
		}
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="860" height="%g">`+"\n%s</svg>\n", max(1, down), panels)
}

// mountedAfter returns the times of a turn's mounts, counted from the kernel's first event.
func mountedAfter(t Turn) []float64 {
	var times []float64
	for at := range maps.Values(t.Mounted) {
		times = append(times, at-first(t.Added))
	}
	slices.Sort(times)
	return times
}

// medianTurn returns the turn whose time is closest to the median time.
func (r *Result) medianTurn(figure, way string) (nearest Turn, ok bool) {
	values, quiet, _ := r.values(figure, way, toMounted)
	if len(values) == 0 {
		return Turn{}, false
	}
	distance := func(t Turn) float64 {
		ms, _ := toMounted(t)
		return max(ms-median(values), median(values)-ms)
	}
	for _, t := range r.Turns {
		if t.Figure != figure || t.Way != way || t.Fault != "" || len(t.Mounted) == 0 || quiet > 0 && !t.isQuiet() {
			continue
		}
		if !ok || distance(t) < distance(nearest) {
			nearest, ok = t, true
		}
	}
	return nearest, ok
}
