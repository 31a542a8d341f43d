package agent

import (
	"context"
	"slices"
	"time"

	"hotmount/internal/disk"
)

// checkPeriod is how often mounted disks are asked for faults, beside once when the loop first begins to rest: no event
// tells of them. Events tell the rest, and what they might not a look at every disk (Settings.Rescan).
const checkPeriod = 10 * time.Minute

// restAfter is how long nothing is done until the loop rests.
const restAfter = time.Minute

// patience is how long Run waits for work to end: SIGTERM stops the daemon within a second.
const patience = 500 * time.Millisecond

// Run turns the loop until ctx ends. It touches no mount when it ends: what PID 1 has begun is left to it.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.host.SaveSettings(a.settings); err != nil {
		return err
	}
	defer a.wait()

	a.started = time.Now()
	a.rescan(a.wanted)
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
		// What the loop wakes for when it rests changes nothing of this, as a rule.
		if changed {
			a.tell()
			a.start(ctx)
			a.setTimer(timer)
		}
		changed = true
		select {
		case <-ctx.Done():
			a.saveRest(ctx)
			return nil
		case <-a.queue.poke:
			a.takeHints()
		case result := <-a.results:
			result()
		case request := <-a.requests:
			request()
		case <-a.rescans.C:
			a.rescan(a.wanted)
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

// beats returns a ticker, and what to do at each tick: the watchdog is fed and mounted disks are checked in one turn,
// since most of what either costs is to wake.
func (a *Agent) beats(ctx context.Context) (*time.Ticker, func()) {
	period := checkPeriod
	if a.watchdog > 0 {
		period = min(period, a.watchdog)
		a.report.Alive()
	}
	untilCheck := checkPeriod / period
	return time.NewTicker(period), func() {
		if a.watchdog > 0 {
			a.report.Alive()
		}
		if untilCheck--; untilCheck == 0 {
			untilCheck = checkPeriod / period
			a.startCheck(ctx)
		}
	}
}

// start begins what is due, within the limits of the lanes.
func (a *Agent) start(ctx context.Context) {
	now := time.Now()
	a.wantDue(now)
	a.startMounts(ctx, now)
	a.startProofs(ctx)
	a.startGrows(ctx)
	a.startLooks(ctx, now) // after the others, which may want a look
	a.startQuestions(ctx)
	a.startSave(ctx, now)
	a.startNotices(ctx)
	a.startDepartures(ctx, now)
}

// wantDue has the disks looked at whose retry is due, or the look for an event that was put off.
func (a *Agent) wantDue(now time.Time) {
	for name, st := range a.disks {
		if !st.tries.retry.IsZero() && !st.tries.retry.After(now) {
			st.tries.retry = time.Time{}
			a.wanted(name)
		}
		if !st.hints.due.IsZero() && !st.hints.due.After(now) {
			a.hinted(name)
		}
		if st.peers.early && !st.phase.busy() && st.tries.retry.IsZero() && a.allSeen(now) {
			a.wanted(name)
		}
	}
}

// setTimer sets the timer to when the loop has something to do without an event.
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

// takeHints has the disks looked at of which there was an event.
func (a *Agent) takeHints() {
	names, all := a.queue.take()
	if all {
		a.rescan(a.hinted)
	}
	for name := range names {
		a.hinted(name)
	}
}

// rescan wants a look at every disk that is attached, and at every one that was.
func (a *Agent) rescan(want func(name string)) {
	names, err := a.host.Names()
	if err != nil {
		a.report.Problem(err)
	}
	for _, name := range names {
		want(name)
	}
	for name := range a.disks {
		if !slices.Contains(names, name) {
			want(name)
		}
	}
	a.missed()
	a.around.wanted = true
}

// hinted has the disk looked at because of an event. In a storm of events (udevadm trigger, a rule that opens disks
// for writing) one look answers many: the first few are answered at once, then the looks keep their distance.
func (a *Agent) hinted(name string) {
	st := a.disks[name]
	if st == nil || st.hints.mayLook(time.Now()) {
		a.wanted(name)
	}
}

// wanted has the disk looked at, after what is under way on it.
func (a *Agent) wanted(name string) {
	st := a.disks[name]
	if st == nil {
		st = &state{}
		a.disks[name] = st
	}
	if st.phase.busy() {
		st.again = true
		return
	}
	st.phase, st.again, st.tries.retry = looking, false, time.Time{}
	a.lanes.looks.add(name)
}

// check is the cheap check of the disks that are mounted.
type check struct {
	done    bool // once at least
	running bool // with what is in mounted
	mounted []disk.Facts
}

// startCheck has those disks looked at that are mounted and on which something shows. Where nothing does the loop
// rests on.
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
	at := a.host.Monotonic()
	a.work.Go(func() {
		names, err := a.host.Changed(mounted)
		select {
		case a.checked <- func() bool { return a.checkEnded(names, at, err) }:
		case <-ctx.Done():
		}
	})
}

// checkEnded reports whether there is something to do.
func (a *Agent) checkEnded(changed []string, at time.Duration, err error) bool {
	a.check.running = false
	if err != nil {
		a.report.Problem(err)
		return false
	}
	for i := range a.check.mounted {
		f := &a.check.mounted[i]
		switch st := a.disks[f.Name]; {
		case slices.Contains(changed, f.Name):
			a.wanted(f.Name)
		case st != nil && st.facts.Seq == f.Seq && st.decision.Mounted():
			st.record.alive = max(st.record.alive, at)
		}
	}
	return len(changed) > 0
}

// wait waits for the work that is under way, which ends with the context of Run. Only a look at dead storage cannot be
// ended: it hangs in the kernel, and ends with the process.
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
