package agent

import (
	"context"
	"slices"
	"time"

	"hotmount/internal/disk"
)

// checkPeriod is the longest time between two checks of the mounted disks for faults. A fault causes no event. If no
// check has run yet, a check also starts once the loop has been idle for restAfter. Changes other than faults cause
// events, or are found by the periodic look at every disk (Settings.Rescan).
const checkPeriod = 10 * time.Minute

// restAfter is how long the loop must be idle before it starts the first check.
const restAfter = time.Minute

// The constant `patience` is how long Run waits for running work to end. Run waits at most twice, so SIGTERM stops the
// daemon within about a second.
const patience = 500 * time.Millisecond

// Run runs the loop until ctx ends. At its end, Run leaves all mounts as they are, and PID 1 finishes the jobs that it
// has begun.
func (a *Agent) Run(ctx context.Context) error {
	defer a.wait()
	a.started = time.Now()
	a.rescan(a.requestLook)
	for _, st := range a.disks {
		st.initial = true
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	a.rescans = time.NewTicker(a.settings.Rescan)
	defer a.rescans.Stop()
	beats, beat := a.beats(ctx)
	defer beats.Stop()
	rest := time.NewTimer(restAfter)
	defer rest.Stop()
	for changed := true; ; {
		// A tick, or a check that finds nothing, changes neither the status nor the work that is due.
		if changed {
			a.sendStatus()
			a.start(ctx)
			a.setTimer(timer)
		}
		changed = true
		select {
		case <-ctx.Done():
			a.saveRest(ctx)
			return nil
		case <-a.queue.notEmpty:
			a.takeHints()
		case result := <-a.results:
			result()
		case request := <-a.requests:
			request()
		case <-a.rescans.C:
			a.rescan(a.requestLook)
		case <-beats.C:
			beat()
			changed = false
			continue
		case result := <-a.checked:
			changed = result()
			continue
		case <-rest.C:
			if !a.check.done {
				a.startCheck(ctx)
			}
			continue
		case <-timer.C:
		}
		rest.Reset(restAfter)
	}
}

// The method `beats` returns a ticker, and the function that the loop calls at each tick. Each tick feeds the watchdog,
// if any. At least once per checkPeriod, a tick also starts a check of the mounted disks, because one wake-up costs
// less than two.
func (a *Agent) beats(ctx context.Context) (*time.Ticker, func()) {
	period := checkPeriod
	if a.watchdog > 0 {
		period = min(period, a.watchdog)
		a.report.Notify(Alive)
	}
	untilCheck := checkPeriod / period
	return time.NewTicker(period), func() {
		if a.watchdog > 0 {
			a.report.Notify(Alive)
		}
		if untilCheck--; untilCheck == 0 {
			untilCheck = checkPeriod / period
			a.startCheck(ctx)
		}
	}
}

// start starts the work that is due, within the limits of the lanes.
func (a *Agent) start(ctx context.Context) {
	now := time.Now()
	a.wantDue(now)
	a.startMounts(ctx, now)
	a.startPrograms(ctx, &a.lanes.proofs, disk.ProgramFormat, disk.Prove)
	a.startPrograms(ctx, &a.lanes.grows, disk.ProgramGrow, disk.Grow)
	a.startLooks(ctx, now) // startLooks comes after the functions above, which may request looks
	a.startQuestions(ctx)
	a.startSave(ctx, now)
	a.startNotices(ctx)
	a.startDepartures(ctx, now)
}

// wantDue requests a look at each disk whose retry, postponed event or delayed refusal is due.
func (a *Agent) wantDue(now time.Time) {
	for name, st := range a.disks {
		if !st.tries.retry.IsZero() && !st.tries.retry.After(now) {
			st.tries.retry = time.Time{}
			a.requestLook(name)
		}
		if !st.hints.due.IsZero() && !st.hints.due.After(now) {
			a.hinted(name)
		}
		if st.peers.tooEarly && !st.phase.busy() && st.tries.retry.IsZero() && a.allSeen(now) {
			a.requestLook(name)
		}
	}
}

// setTimer sets the timer to the next time at which work becomes due without an event.
func (a *Agent) setTimer(timer *time.Timer) {
	var next time.Time
	earlier := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, st := range a.disks {
		earlier(st.tries.retry)
		earlier(st.hints.due)
	}
	for _, dep := range a.leaving {
		earlier(dep.retry)
	}
	if !a.ready {
		earlier(a.started.Add(a.settings.ReadyTimeout))
	}
	earlier(a.nextSave())
	earlier(a.gatherDue)
	earlier(a.status.due)
	if next.IsZero() {
		timer.Stop()
	} else {
		timer.Reset(time.Until(next))
	}
}

// takeHints requests a look at each disk that had an event.
func (a *Agent) takeHints() {
	names, all := a.queue.take()
	if all {
		a.rescan(a.hinted)
	}
	for name := range names {
		a.hinted(name)
	}
}

// rescan requests a look at every attached disk, and at every known disk that is gone.
func (a *Agent) rescan(want func(name string)) {
	names, err := a.host.Names(a.settings)
	a.problem(err)
	for _, name := range names {
		want(name)
	}
	for name := range a.disks {
		if !slices.Contains(names, name) {
			want(name)
		}
	}
	a.startMissedDepartures()
	a.noticeSearch.wanted = true
}

// The method `hinted` requests a look at the disk, because an event has arrived. In a storm of events (udevadm trigger,
// a rule that opens disks for writing), one look answers many events. Up to hintsAtOnce events of a disk are answered
// without delay. After further events, the next look waits until enough time has passed since the previous look
// (hints.mayLook).
func (a *Agent) hinted(name string) {
	st := a.disks[name]
	if st == nil || st.hints.mayLook(time.Now()) {
		a.requestLook(name)
	}
}

// requestLook requests a look at the disk. If other work for the disk is running or queued, the look follows that work.
func (a *Agent) requestLook(name string) {
	st := a.disks[name]
	if st == nil {
		st = &state{}
		a.disks[name] = st
	}
	if st.phase.busy() {
		st.again = true
		return
	}
	a.lookNext(name)
}

// lookNext queues a look at the disk. No other work for the disk may be running or queued.
func (a *Agent) lookNext(name string) {
	st := a.disks[name]
	a.enter(st, looking)
	st.again, st.tries.retry = false, time.Time{}
	a.lanes.looks.add(name)
}

// check is the state of the checks of mounted disks. A check costs less than a look.
type check struct {
	done    bool // at least one check has been started
	running bool // a check of the disks in the field `mounted` is running
	mounted []disk.Facts
}

// startCheck starts a check of the mounted disks, and requests looks at the disks that have changed. If no disk has
// changed, the loop stays idle.
func (a *Agent) startCheck(ctx context.Context) {
	if a.check.running {
		return
	}
	mounted := a.check.mounted[:0]
	for _, st := range a.disks {
		if st.seen && !st.phase.busy() && st.decision.Mounted() {
			mounted = append(mounted, st.facts)
		}
	}
	a.check.mounted = mounted
	if len(mounted) == 0 {
		return
	}
	a.check.done, a.check.running = true, true
	at := a.monotonic()
	a.work.Go(func() {
		names, err := a.host.Changed(mounted)
		select {
		case a.checked <- func() bool { return a.checkEnded(names, at, err) }:
		case <-ctx.Done():
		}
	})
}

// checkEnded handles the result of a check. checkEnded reports whether a disk has changed.
func (a *Agent) checkEnded(changed []string, at time.Duration, err error) bool {
	a.check.running = false
	if err != nil {
		a.problem(err)
		return false
	}
	for i := range a.check.mounted {
		f := &a.check.mounted[i]
		switch st := a.disks[f.Name]; {
		case slices.Contains(changed, f.Name):
			a.requestLook(f.Name)
		case st != nil && st.facts.Seq == f.Seq && st.decision.Mounted():
			st.record.alive = max(st.record.alive, at)
		}
	}
	return len(changed) > 0
}

// The method `wait` waits until the running work has ended, but not longer than the constant `patience`. Most work ends
// when Run's context ends, but a look at dead storage hangs in the kernel until the process ends.
func (a *Agent) wait() {
	done := make(chan struct{})
	go func() {
		a.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
}
