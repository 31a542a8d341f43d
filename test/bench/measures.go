package main

import "slices"

// The type `measure` is a value that can be computed from each turn of a figure.
type measure struct {
	figure, group, title, unit string
	of                         func(Turn) (float64, bool)
}

// toMounted returns the time from the kernel's first event to the last mount.
func toMounted(t Turn) (float64, bool) {
	return lastTime(t.Mounted) - first(t.Added), len(t.Mounted) > 0 && t.Way != parts
}

func toUdev(t Turn) (float64, bool) {
	return lastTime(t.Probed) - first(t.Added), len(t.Probed) > 0
}

func udevToMounted(t Turn) (float64, bool) {
	return lastTime(t.Mounted) - lastTime(t.Probed), len(t.Mounted) > 0
}

// cpu returns a function that computes the CPU time per disk of a control group.
func cpu(group string) func(Turn) (float64, bool) {
	return func(t Turn) (float64, bool) {
		ms, ok := t.CPU[group]
		return ms / float64(t.Disks), ok
	}
}

// value returns a function that reads a result by name from Turn.Values.
func value(name string) func(Turn) (float64, bool) {
	return func(t Turn) (float64, bool) {
		v, ok := t.Values[name]
		return v, ok
	}
}

// The variable `measures` lists the columns of the tables.
var measures = slices.Concat(
	[]measure{
		{"one", "one disk", "to mounted", "ms", toMounted},
		{"one", "one disk", "of that to udev's event", "ms", toUdev},
		{"one", "one disk", "from there on", "ms", udevToMounted},
	}, cpus("one", "one disk"),
	[]measure{{"twenty", "20 at once", "to the last mount", "ms", toMounted}}, cpus("twenty", "20 at once"),
	[]measure{{"hundreds", "200 at once", "to the last mount", "ms", toMounted}}, cpus("hundreds", "200 at once"),
	[]measure{
		{"split", "one disk, traced", "udev", "ms", value(splitUdev)},
		{"split", "one disk, traced", "hotmount, or the method's own program", "ms", value(splitOwn)},
		{"split", "one disk, traced", "PID 1", "ms", value(splitPID1)},
		{"split", "one disk, traced", "mount(8)", "ms", value(splitMount)},
		{"blank", "blank 5 GiB from memory", "without the second look's 3 s", "ms", value("whole")},
		{"blank", "blank 5 GiB from memory", "with it", "ms", value("with the second look")},
		{"throttled", "blank 5 GiB at 500 MB/s", "without the second look's 3 s", "ms", value("whole")},
		{"throttled", "blank 5 GiB at 500 MB/s", "with it", "ms", value("with the second look")},
		{"ready", "24 disks, leftovers", "start to READY", "ms", value("start to READY")},
		{"ready", "24 disks, leftovers", "start to the last mount", "ms", value("start to last mount")},
		{"ready", "24 disks, leftovers", "event to the last mount", "ms", triggeredToMounted},
		{"boot", "boot with 24 disks", "PID 1's start to READY", "ms", value("boot to READY")},
		{"boot", "boot with 24 disks", "PID 1's start to the last mount", "ms", value("boot to last mount")},
		{"memory", "memory, 24 disks", "resident", "MiB", value("resident")},
		{"memory", "memory, 24 disks", "anonymous", "MiB", value("anonymous")},
		{"memory", "memory, 24 disks", "anonymous, peak of hotmount's processes while 8 disks are formatted", "MiB", value("peak, hotmount's processes")},
		{"memory", "memory, 24 disks", "with the tools", "MiB", value("peak, with the tools")},
		{"idle", "idle, 24 disks", "CPU", "ms", value("CPU")},
		{"idle", "idle, 24 disks", "wake-ups", "", value("wake-ups")},
		{"idle", "idle, 24 disks", "resident", "MiB", value("resident")},
		{"idle", "idle, 24 disks", "seconds", "", value("seconds")},
	})

// cpus returns the measures of the CPU time per disk.
func cpus(figure, group string) []measure {
	return []measure{
		{figure, group, "CPU a disk: container", "ms", cpu("all")},
		{figure, group, "PID 1", "ms", cpu("PID 1")},
		{figure, group, "hotmount", "ms", cpu("hotmount")},
		{figure, group, "udevd", "ms", cpu("udevd")},
	}
}

// triggeredToMounted is like toMounted, but ignores turns that lack the kernel's event for a disk. A turn that starts
// the daemon has no kernel events.
func triggeredToMounted(t Turn) (float64, bool) {
	ms, ok := toMounted(t)
	return ms, ok && len(t.Added) == t.Disks
}

// bound is an upper bound on a number. make() computes the number from the samples.
type bound struct {
	title, unit string
	make        func(samples ...[]float64) float64
	samples     []sampled
	most, goal  float64
}

type sampled struct {
	figure, way string
	of          func(Turn) (float64, bool)
}

// ratioBound returns a bound on a ratio: the value of hotmount, divided by the value of another method.
func ratioBound(figure, title, way string, of func(Turn) (float64, bool), most, goal float64) bound {
	return bound{title, "", ratio, []sampled{{figure, hotmount, of}, {figure, way, of}}, most, goal}
}

// The variable `bounds` lists the bounds of issue 38.
var bounds = []bound{
	ratioBound("one", "one disk, of the rule", rule, toMounted, 0.43, 0.35),
	ratioBound("one", "one disk, of the rule tuned", tuned, toMounted, 0.87, 0.72),
	ratioBound("one", "one disk, of mount(2) on udev's event", mountCall, toMounted, 1.9, 1.5),
	ratioBound("twenty", "20 at once, of the rule", rule, toMounted, 0.32, 0),
	ratioBound("twenty", "20 at once, of the rule tuned", tuned, toMounted, 0.53, 0),
	{"20 at once, slowest burst, of the median burst", "", slowest, []sampled{{"twenty", hotmount, toMounted}}, 1.3, 0},
	ratioBound("hundreds", "200 at once, of the rule tuned", tuned, toMounted, 0.6, 0),
	{"200 at once, CPU a disk, of CPU a disk with 20", "", ratio, []sampled{{"hundreds", hotmount, cpu("all")}, {"twenty", hotmount, cpu("all")}}, 1.3, 0},
	{"one disk, CPU beyond hot-plug, of the rule", "", ratioOfDifferences, []sampled{{"one", hotmount, cpu("all")}, {"one", rule, cpu("all")}, {"one", hotPlug, cpu("all")}}, 0.33, 0.2},
	ratioBound("throttled", "blank disk at 500 MB/s without the 3 s, of dd + mkfs.xfs -K + systemd-mount", parts, value("whole"), 1.1, 0),
	ratioBound("blank", "blank disk from memory without the 3 s, of the same", parts, value("whole"), 1.7, 1.3),
	{"idle with 24 disks, CPU", "ms", medianOf, []sampled{{"idle", hotmount, value("CPU")}}, 60, 0},
	{"idle with 24 disks, wake-ups", "", medianOf, []sampled{{"idle", hotmount, value("wake-ups")}}, 60, 0},
	{"idle with 24 disks, resident memory", "MiB", medianOf, []sampled{{"idle", hotmount, value("resident")}}, 20, 0},
	{"READY with 24 mounted disks, of the rule's mounting them", "", ratio, []sampled{{"ready", hotmount + ", restarted", value("start to READY")}, {"ready", rule, toMounted}}, 0.1, 0},
	{"start to last mount, 24 disks and leftovers, of the rule's mounting", "", ratio, []sampled{{"ready", hotmount + ", started", value("start to last mount")}, {"ready", rule, toMounted}}, 0.35, 0},
}
