package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// tail is the time after the last mount during which the CPU time is still counted.
	tail = time.Second
	// The constant `rest` is the time between the last unmount and the next turn. After many mounts and unmounts PID 1
	// reads its mount table only once a second (the rate limit in mount_setup_proc_self_mountinfo in systemd's
	// src/core/mount.c).
	rest = 2 * time.Second
)

// The method `rounds` measures the mount methods in turns, round by round.
func (in *insideBench) rounds(ctx context.Context) error {
	files, err := in.disks(ctx, in.Disks)
	if err != nil {
		return err
	}
	if err := in.clear(ctx, nil); err != nil {
		return err
	}
	// The result of the first turn is not used, because hotmount sees the disks for the first time.
	if _, err := in.takeTurn(ctx, hotmount, files); err != nil {
		return err
	}
	for r := range in.Turns {
		for _, way := range order(in.Ways, seldom[in.Figure], r) {
			if in.Packages[way] != "" && way != in.installed {
				if err := in.withPackage(way, func() error { _, err := in.takeTurn(ctx, way, files); return err }); err != nil {
					return err
				}
			}
			t, err := in.takeTurn(ctx, way, files)
			if err != nil {
				return fmt.Errorf("%s: %w", way, err)
			}
			if err := in.turns.Encode(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// The function `order` returns the mount methods that are measured in a round. Each round begins with the next method in
// the list, so that no method always comes first. If the parameter "seldom" maps a method to a number n, the method is
// measured only in every nth round.
func order(ways []string, seldom map[string]int, round int) []string {
	var all []string
	for i := range ways {
		way := ways[(i+round)%len(ways)]
		if round%max(1, seldom[way]) == 0 {
			all = append(all, way)
		}
	}
	return all
}

// The method `prepare` switches the mount method on, waits for an idle machine, and returns the machine's idle
// share.
func (in *insideBench) prepare(ctx context.Context, way string) (idle float64, err error) {
	begun := time.Now()
	if script := setUp(way, in.Dir); script != "" {
		if err := in.script(ctx, script); err != nil {
			return 0, err
		}
	}
	if err := in.script(ctx, rulesRead); err != nil {
		return 0, err
	}
	if err := in.endWorkers(ctx); err != nil {
		return 0, err
	}
	if err := pause(ctx, rest-sample-time.Since(begun)); err != nil {
		return 0, err
	}
	return in.waitQuiet(ctx)
}

// takeTurn attaches the files as disks, watches until the mount method has mounted the disks, and then cleans up.
func (in *insideBench) takeTurn(ctx context.Context, way string, files []string) (Turn, error) {
	loops, err := in.loops(len(files))
	if err != nil {
		return Turn{}, err
	}
	begin := attachAll(loops, files)
	if way == neighbour {
		attach := begin
		begin = func() error { return errors.Join(attach(), letGo(loops)) }
	}
	t, err := in.observe(ctx, way, awaited{events: true, mounts: way != hotPlug}, loops, begin)
	return t, errors.Join(err, in.clear(ctx, loops))
}

func attachAll(loops []*loop, files []string) func() error {
	return func() error {
		for i, l := range loops {
			if err := l.attach(files[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// The method `observe` prepares the mount method, calls begin(), and watches until the awaited events and mounts
// have appeared.
func (in *insideBench) observe(ctx context.Context, way string, want awaited, loops []*loop, begin func() error) (Turn, error) {
	t := Turn{
		Figure: in.Figure, Way: way, Disks: len(loops), Values: map[string]float64{},
		Added: map[string]float64{}, Probed: map[string]float64{}, Mounted: map[string]float64{},
	}
	var err error
	if t.Idle, err = in.prepare(ctx, way); err != nil {
		return t, err
	}
	w, err := watch(want, loops, &t)
	if err != nil {
		return t, err
	}
	m, err := newMeter()
	if err != nil {
		return t, errors.Join(err, w.close())
	}
	own := startOwn(way, len(loops))
	if own != nil {
		w.probed = own.disks
	}
	begun := make(chan error, 1)
	go func() { begun <- begin() }()
	whole, err := w.waitForAll(20*time.Second + time.Duration(len(loops))*time.Second/4)
	err = errors.Join(err, <-begun, pause(ctx, tail))
	ms, e := own.end()
	if err = errors.Join(err, e, m.read(&t, ms), w.close()); err != nil {
		return t, err
	}
	if !whole {
		t.Fault = fmt.Sprintf("%d of %d disks were mounted in time", len(t.Mounted), len(loops))
	}
	fmt.Fprintln(in.out, t.line())
	return t, nil
}

// The method `line` returns the turn as a line of text for the user.
func (t Turn) line() string {
	s := fmt.Sprintf("%s, %s:", t.Figure, t.Way)
	if len(t.Mounted) > 0 && len(t.Added) > 0 {
		s += fmt.Sprintf(" %.1f ms to udev's event, %.1f to mounted,", lastTime(t.Probed)-first(t.Added), lastTime(t.Mounted)-first(t.Added))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Values)) {
		s += fmt.Sprintf(" %s %.1f,", name, t.Values[name])
	}
	s += fmt.Sprintf(" CPU %.1f ms (PID 1 %.1f, hotmount %.1f); load %.2f, idle %.2f before, others %.2f", t.CPU["all"], t.CPU["PID 1"], t.CPU["hotmount"], t.Load, t.Idle, t.Others)
	if !t.isQuiet() {
		s += ": BUSY"
	}
	if t.Fault != "" {
		s += ": " + t.Fault
	}
	return s
}

// meter counts the CPU time since the call of newMeter.
type meter struct {
	groups    map[string]float64
	busy, all float64
	self      float64
}

func newMeter() (m meter, err error) {
	if m.groups, err = cpuTimes(); err != nil {
		return m, err
	}
	m.self = usage(unix.RUSAGE_SELF)
	m.busy, m.all, err = processors()
	return m, err
}

// The function `read` stores in t.CPU the CPU time that was used since the call of newMeter. The parameter `own` is the CPU
// time that this program has used as a mount method.
func (m meter) read(t *Turn, own float64) error {
	after, err := newMeter()
	if err != nil {
		return err
	}
	t.CPU = map[string]float64{}
	for name, ms := range after.groups {
		t.CPU[name] = ms - m.groups[name]
		if t.CPU[name] < 0 { // the control group was made after newMeter
			t.CPU[name] = ms
		}
	}
	others := (after.busy - m.busy) - t.CPU["all"] - (after.self - m.self)
	t.CPU["all"] += own
	t.Others = max(0, others) / max(1, after.all-m.all)
	t.Load, err = load()
	return err
}
