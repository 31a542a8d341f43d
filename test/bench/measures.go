package main

// measure is what is made of each turn of a figure.
type measure struct {
	figure, title, unit string
	of                  func(Turn) (float64, bool)
}

// to returns the time from the kernel's first event to the last mount.
func toMounted(t Turn) (float64, bool) {
	return last(t.Mounted) - first(t.Added), len(t.Mounted) > 0 && t.Way != parts
}

func toUdev(t Turn) (float64, bool) {
	return last(t.Probed) - first(t.Added), len(t.Probed) > 0
}

func udevToMounted(t Turn) (float64, bool) {
	return last(t.Mounted) - last(t.Probed), len(t.Mounted) > 0
}

// cpu returns the CPU of a group for each disk.
func cpu(group string) func(Turn) (float64, bool) {
	return func(t Turn) (float64, bool) {
		ms, ok := t.CPU[group]
		return ms / float64(t.Disks), ok
	}
}

// value returns another result of a turn.
func value(name string) func(Turn) (float64, bool) {
	return func(t Turn) (float64, bool) {
		v, ok := t.Values[name]
		return v, ok
	}
}

// measures are the rows of the table.
var measures = []measure{
	{"one", "one disk: kernel's event to mounted", "ms", toMounted},
	{"one", "one disk: kernel's event to udev's", "ms", toUdev},
	{"one", "one disk: udev's event to mounted", "ms", udevToMounted},
	{"one", "one disk: CPU, container", "ms", cpu("all")},
	{"one", "one disk: CPU, PID 1", "ms", cpu("PID 1")},
	{"one", "one disk: CPU, hotmount", "ms", cpu("hotmount")},
	{"one", "one disk: CPU, udevd", "ms", cpu("udevd")},
	{"twenty", "20 at once: first event to last mount", "ms", toMounted},
	{"twenty", "20 at once: CPU a disk, container", "ms", cpu("all")},
	{"twenty", "20 at once: CPU a disk, PID 1", "ms", cpu("PID 1")},
	{"twenty", "20 at once: CPU a disk, hotmount", "ms", cpu("hotmount")},
	{"twenty", "20 at once: CPU a disk, udevd", "ms", cpu("udevd")},
	{"hundreds", "200 at once: first event to last mount", "ms", toMounted},
	{"hundreds", "200 at once: CPU a disk, container", "ms", cpu("all")},
	{"hundreds", "200 at once: CPU a disk, PID 1", "ms", cpu("PID 1")},
	{"hundreds", "200 at once: CPU a disk, hotmount", "ms", cpu("hotmount")},
	{"hundreds", "200 at once: CPU a disk, udevd", "ms", cpu("udevd")},
	{"blank", "blank 5 GiB from memory, without the second look's 3 s", "ms", value("whole")},
	{"blank", "blank 5 GiB from memory, with it", "ms", value("with the second look")},
	{"throttled", "blank 5 GiB at 500 MB/s, without the second look's 3 s", "ms", value("whole")},
	{"throttled", "blank 5 GiB at 500 MB/s, with it", "ms", value("with the second look")},
	{"ready", "24 disks mounted: start to READY", "ms", value("start to READY, mounted")},
	{"ready", "24 disks to mount, leftovers: start to last mount", "ms", value("start to last mount")},
	{"ready", "24 disks to mount, leftovers: start to READY", "ms", value("start to READY, mounting")},
	{"ready", "24 disks to mount, leftovers: hotmount-tidy's start to READY", "ms", value("boot to READY")},
	{"ready", "24 disks to mount, leftovers: hotmount-tidy's start to last mount", "ms", value("boot to last mount")},
	{"ready", "24 disks that are there: first event to last mount", "ms", triggeredToMounted},
	{"memory", "24 disks mounted, idle for a minute: resident", "MiB", value("resident")},
	{"memory", "24 disks mounted, idle for a minute: anonymous", "MiB", value("anonymous")},
	{"memory", "8 blank disks formatted: anonymous, peak of hotmount's processes", "MiB", value("peak, hotmount's processes")},
	{"memory", "8 blank disks formatted: anonymous, peak with the tools", "MiB", value("peak, with the tools")},
	{"split", "one disk, traced: udev", "ms", value(splitUdev)},
	{"split", "one disk, traced: hotmount, or the way's own program", "ms", value(splitOwn)},
	{"split", "one disk, traced: PID 1", "ms", value(splitPID1)},
	{"split", "one disk, traced: mount(8)", "ms", value(splitMount)},
	{"idle", "idle with 24 disks: CPU", "ms", value("CPU")},
	{"idle", "idle with 24 disks: wake-ups", "", value("wake-ups")},
	{"idle", "idle with 24 disks: resident", "MiB", value("resident")},
}

// triggeredToMounted leaves out the daemon's starts, which have no event.
func triggeredToMounted(t Turn) (float64, bool) {
	ms, ok := toMounted(t)
	return ms, ok && len(t.Added) == t.Disks
}

// bound is what the issue says of a figure, made of samples of ways.
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

// against is the ratio of hotmount to another way.
func against(figure, title, way string, of func(Turn) (float64, bool), most, goal float64) bound {
	return bound{title, "", ratio, []sampled{{figure, hotmount, of}, {figure, way, of}}, most, goal}
}

// bounds are those of issue 38.
var bounds = []bound{
	against("one", "one disk, of the rule", rule, toMounted, 0.43, 0.35),
	against("one", "one disk, of the rule tuned", tuned, toMounted, 0.87, 0.72),
	against("one", "one disk, of mount(2) on udev's event", mountCall, toMounted, 1.9, 1.5),
	against("twenty", "20 at once, of the rule", rule, toMounted, 0.32, 0),
	against("twenty", "20 at once, of the rule tuned", tuned, toMounted, 0.53, 0),
	{"20 at once, slowest burst, of the median burst", "", slowest, []sampled{{"twenty", hotmount, toMounted}}, 1.3, 0},
	against("hundreds", "200 at once, of the rule tuned", tuned, toMounted, 0.6, 0),
	{"200 at once, CPU a disk, of CPU a disk with 20", "", ratio, []sampled{{"hundreds", hotmount, cpu("all")}, {"twenty", hotmount, cpu("all")}}, 1.3, 0},
	{"one disk, CPU beyond hot-plug, of the rule", "", beyond, []sampled{{"one", hotmount, cpu("all")}, {"one", rule, cpu("all")}, {"one", hotPlug, cpu("all")}}, 0.33, 0.2},
	against("throttled", "blank disk at 500 MB/s without the 3 s, of dd + mkfs.xfs -K + systemd-mount", parts, value("whole"), 1.1, 0),
	against("blank", "blank disk from memory without the 3 s, of the same", parts, value("whole"), 1.7, 1.3),
	{"idle with 24 disks, CPU", "ms", medianOf, []sampled{{"idle", hotmount, value("CPU")}}, 60, 0},
	{"idle with 24 disks, wake-ups", "", medianOf, []sampled{{"idle", hotmount, value("wake-ups")}}, 60, 0},
	{"idle with 24 disks, resident memory", "MiB", medianOf, []sampled{{"idle", hotmount, value("resident")}}, 20, 0},
	{"READY with 24 mounted disks, of the rule's mounting them", "", ratio, []sampled{{"ready", hotmount + ", restarted", value("start to READY, mounted")}, {"ready", rule, toMounted}}, 0.1, 0},
	{"start to last mount, 24 disks and leftovers, of the rule's mounting", "", ratio, []sampled{{"ready", hotmount + ", started", value("start to last mount")}, {"ready", rule, toMounted}}, 0.35, 0},
}
