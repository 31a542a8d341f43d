package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

const (
	// busyBefore and busyMeanwhile are the limits for a turn that counts as a turn on an idle machine. Just before such
	// a turn, the busy share of the processor time (0 to 1) is at most busyBefore. During such a turn, processes
	// outside the container use at most the share busyMeanwhile of the processor time. Kernel threads count as
	// processes outside the container, even if a thread works for the container's disks.
	busyBefore    = 0.1
	busyMeanwhile = 0.2
	// The constant `gate` is the maximum time that one turn waits for an idle machine.
	gate = 10 * time.Second
	// The constant `sample` is the time between two readings of the processors' counters.
	sample = 500 * time.Millisecond
)

// monotonicMs returns CLOCK_MONOTONIC in milliseconds.
func monotonicMs() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // the kernel always has this clock
	}
	return float64(t.Nano()) / 1e6
}

// processors returns the busy time and the total time of all processors, in milliseconds.
func processors() (busy, all float64, err error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, 0, err
	}
	stat, err := proc.Stat()
	if err != nil {
		return 0, 0, err
	}
	c := stat.CPUTotal
	busy = 1000 * (c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal)
	return busy, busy + 1000*(c.Idle+c.Iowait), nil
}

func load() (float64, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	l, err := proc.LoadAvg()
	if err != nil {
		return 0, err
	}
	return l.Load1, nil
}

// waitQuiet waits until the machine is idle, and returns the idle share of the last sample. The wait ends early if it
// takes longer than the constant `gate`, or if no time is left in the field `patience`.
func (in *insideBench) waitQuiet(ctx context.Context) (idle float64, err error) {
	begun := time.Now()
	for {
		busy, all, err := processors()
		if err != nil {
			return 0, err
		}
		if err := pause(ctx, sample); err != nil {
			return 0, err
		}
		busyNow, allNow, err := processors()
		if err != nil {
			return 0, err
		}
		idle = 1 - (busyNow-busy)/max(1, allNow-all)
		if idle >= 1-busyBefore {
			return idle, nil
		}
		if in.patience -= sample; in.patience < 0 || time.Since(begun) > gate {
			return idle, nil
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

const cgroups = "/sys/fs/cgroup"

// The map `groups` contains the control groups whose CPU time is counted separately.
var groups = map[string]string{
	"PID 1":    "init.scope",
	"hotmount": "system.slice/hotmount.service",
	"udevd":    "system.slice/systemd-udevd.service",
	"journald": "system.slice/systemd-journald.service",
	"dbus":     "system.slice/dbus.service",
}

// cpuTimes returns the CPU time in milliseconds that each of the groups has used. The entry "all" is the sum of the
// container's top-level control groups, without the group in which this program runs.
func cpuTimes() (map[string]float64, error) {
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	_, path, _ := strings.Cut(string(self), "0::/")
	own, _, _ := strings.Cut(strings.TrimSpace(path), "/")
	entries, err := os.ReadDir(cgroups)
	if err != nil {
		return nil, err
	}
	ms := map[string]float64{}
	for _, e := range entries {
		if !e.IsDir() || e.Name() == own {
			continue
		}
		used, err := groupCPU(e.Name())
		if err != nil {
			return nil, err
		}
		ms["all"] += used
	}
	for name, group := range groups {
		if ms[name], err = groupCPU(group); err != nil {
			return nil, err
		}
	}
	return ms, nil
}

// groupCPU returns the CPU time in milliseconds that a control group has used. groupCPU returns 0 if the group does not
// exist.
func groupCPU(group string) (float64, error) {
	path := filepath.Join(cgroups, group, "cpu.stat")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var usec float64
	if _, err := fmt.Sscanf(string(text), "usage_usec %f", &usec); err != nil {
		return 0, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return usec / 1000, nil
}
