package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// dropIn is the systemd drop-in for the daemon during the turns of all methods. dropIn disables the watchdog, because a
// frozen daemon cannot answer the watchdog. dropIn also sets the settle time to 0, because the settle time is only a
// wait before a format.
const (
	dropIn     = "/etc/systemd/system/hotmount.service.d/bench.conf"
	dropInText = "[Service]\nWatchdogSec=0\nEnvironment=HOTMOUNT_SETTLE=0s\n"
)

// The constant `settled` is how long the daemon is idle before a measurement.
const settled = 90 * time.Second

// The method `idle` measures the installed daemon with many disks and no events.
func (in *insideBench) idle(ctx context.Context) error {
	files, err := in.disks(ctx, in.Disks)
	if err != nil {
		return err
	}
	loops, err := in.loops(in.Disks)
	if err != nil {
		return err
	}
	t := Turn{Figure: in.Figure, Way: hotmount, Disks: in.Disks, Values: map[string]float64{}}
	err = in.allMounted(ctx, loops, files)
	if err == nil {
		err = pause(ctx, settled)
	}
	if err == nil {
		err = in.idleTurn(ctx, &t)
	}
	if err == nil {
		fmt.Fprintln(in.out, t.line())
		err = in.turns.Encode(t)
	}
	return in.asMeasured(ctx, loops, err)
}

func (in *insideBench) idleTurn(ctx context.Context, t *Turn) error {
	var err error
	if t.Idle, err = in.waitQuiet(ctx); err != nil {
		return err
	}
	m, err := newMeter()
	if err != nil {
		return err
	}
	before, err := in.switches(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, time.Duration(in.Idle)*time.Second); err != nil {
		return err
	}
	after, err := in.switches(ctx)
	if err != nil {
		return err
	}
	if err := m.read(t, 0); err != nil {
		return err
	}
	t.Values["wake-ups"], t.Values["CPU"], t.Values["seconds"] = after-before, t.CPU["hotmount"], float64(in.Idle)
	return in.resident(ctx, t.Values)
}

// The method `switches` returns the number of context switches of the daemon's threads, voluntary and involuntary.
func (in *insideBench) switches(ctx context.Context) (n float64, err error) {
	p, err := in.daemon(ctx)
	if err != nil {
		return 0, err
	}
	threads, err := procfs.AllThreads(p.PID)
	if err != nil {
		return 0, err
	}
	for _, t := range threads {
		status, err := t.NewStatus()
		if err != nil {
			return 0, err
		}
		n += float64(status.TotalCtxtSwitches())
	}
	return n, nil
}

// asMeasured restores the daemon's configuration for turns, and detaches the disks.
func (in *insideBench) asMeasured(ctx context.Context, loops []*loop, err error) error {
	text := "mkdir -p $(dirname " + dropIn + "); printf %s " + quote(dropInText) + " >" + dropIn + "; systemctl daemon-reload; systemctl restart hotmount"
	return errors.Join(err, in.clear(ctx, loops), in.script(ctx, text))
}
