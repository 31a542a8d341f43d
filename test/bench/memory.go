package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/procfs"
)

const mib = 1 << 20

// blankOne is the size in bytes of each blank disk in the figure "memory". No other disk has this size. hotmount does
// not format a disk that may have existed before hotmount's installation. A loop device has no serial number, so only
// its size identifies it. Loop devices of other containers are also visible.
const blankOne = diskSize + 12*mib

// The method `memory` measures the daemon's memory with many disks. memory() also measures the total peak memory of
// hotmount's processes while they format blank disks.
func (in *insideBench) memory(ctx context.Context) error {
	for _, way := range in.Ways {
		if err := in.withPackage(way, func() error { return in.memoryTurn(ctx, way) }); err != nil {
			return fmt.Errorf("%s: %w", way, err)
		}
	}
	return nil
}

func (in *insideBench) memoryTurn(ctx context.Context, way string) error {
	files, err := in.disks(ctx, in.Disks)
	if err != nil {
		return err
	}
	loops, err := in.loops(in.Disks + in.Blanks)
	if err != nil {
		return err
	}
	for i := range in.Blanks {
		file, err := in.blank(fmt.Sprintf("blank%d.img", i), blankOne)
		if err != nil {
			return err
		}
		defer os.Remove(file)
		files = append(files, file)
	}
	t := Turn{Figure: in.Figure, Way: way, Disks: in.Disks, Idle: 1, Values: map[string]float64{}}
	err = in.allMounted(ctx, loops[:in.Disks], files[:in.Disks])
	if err == nil {
		err = pause(ctx, time.Minute)
	}
	if err == nil {
		err = in.resident(ctx, t.Values)
	}
	if err == nil {
		var most peak
		most, err = in.peaked(ctx, func() error {
			if err := attachAll(loops[in.Disks:], files[in.Disks:])(); err != nil {
				return err
			}
			return in.waitMounted(ctx, len(loops))
		})
		t.Values["peak, hotmount's processes"], t.Values["peak, with the tools"], t.Values["processes at the peak"] = most.own, most.all, most.processes
	}
	if err == nil {
		fmt.Fprintln(in.out, t.line())
		err = in.turns.Encode(t)
	}
	return in.asMeasured(ctx, loops, err)
}

// resident reads the daemon's resident memory, in MiB.
func (in *insideBench) resident(ctx context.Context, values map[string]float64) error {
	status, err := in.status(ctx)
	if err != nil {
		return err
	}
	values["resident"], values["anonymous"] = float64(status.VmRSS)/mib, float64(status.RssAnon)/mib
	return nil
}

func (in *insideBench) daemon(ctx context.Context) (procfs.Proc, error) {
	pid, err := in.numbers(ctx, "systemctl show -P MainPID hotmount")
	if err != nil {
		return procfs.Proc{}, err
	}
	if len(pid) != 1 || pid[0] == 0 {
		return procfs.Proc{}, fmt.Errorf("hotmount has no process: %v", pid)
	}
	return procfs.NewProc(int(pid[0]))
}

func (in *insideBench) status(ctx context.Context) (procfs.ProcStatus, error) {
	p, err := in.daemon(ctx)
	if err != nil {
		return procfs.ProcStatus{}, err
	}
	return p.NewStatus()
}

// The type `peak` is the highest memory use that was measured, in MiB. The field `own` is the memory of hotmount's
// processes. The field `all` is the memory of hotmount's processes and their tools. The field `processes` is the number
// of hotmount's processes.
type peak struct{ own, processes, all float64 }

// peakUntil samples the private memory (RssAnon in proc_pid_status(5)) of the processes in hotmount's units. peakUntil
// takes fifty samples a second until ctx ends.
func peakUntil(ctx context.Context) (most peak, err error) {
	for ctx.Err() == nil {
		p, err := memoryNow()
		if err != nil {
			return most, err
		}
		most.all = max(most.all, p.all)
		if p.own > most.own {
			most.own, most.processes = p.own, p.processes
		}
		_ = pause(ctx, 20*time.Millisecond) // the end of ctx is not an error
	}
	return most, nil
}

func memoryNow() (sum peak, err error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return sum, err
	}
	parents, tools := map[int]int{}, map[int]bool{}
	for _, p := range all {
		group, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cgroup")
		if err != nil || !bytes.Contains(group, []byte("/hotmount")) {
			continue // the process has ended, or is not in a unit of hotmount
		}
		if stat, err := p.Stat(); err == nil {
			parents[p.PID], tools[p.PID] = stat.PPID, stat.Comm != "hotmount"
		}
	}
	for _, p := range all {
		parent, ours := parents[p.PID]
		// Before a child process executes a tool, the child shares the memory of its parent (vfork(2)).
		if _, child := parents[parent]; !ours || child && !tools[p.PID] {
			continue
		}
		status, err := p.NewStatus()
		if err != nil {
			continue // the process has ended meanwhile
		}
		n := float64(status.RssAnon) / mib
		if sum.all += n; !tools[p.PID] {
			sum.own, sum.processes = sum.own+n, sum.processes+1
		}
	}
	return sum, nil
}

// The method `peaked` runs f, and returns the peak memory of hotmount's processes during f, in MiB.
func (in *insideBench) peaked(ctx context.Context, f func() error) (most peak, err error) {
	enough, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		var err error
		most, err = peakUntil(enough)
		done <- err
	}()
	err = f()
	cancel()
	return most, errors.Join(err, <-done)
}
