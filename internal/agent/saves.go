package agent

import (
	"context"
	"time"

	"hotmount/internal/disk"
)

// saveAfter is how long sightings at start wait to be recorded together. Each record rewrites and syncs a file on the
// boot disk. If the daemon is killed before that, the next one sees the same again, unless a disk has left by then.
const saveAfter = time.Second

// saveEvery is the least time between two records of mounted filesystems, for the same reason. It delays the last
// records if disks come one after the other. The daemon itself uses its sightings at once (Host.Expect). A departure is
// recorded without delay, because nobody can see it again.
const saveEvery = 250 * time.Millisecond

// saves are the sightings to be recorded.
type saves struct {
	due     bool            // Host.Remember has not been called yet for some expected sighting
	found   []disk.Sighting // not passed to Host.Remember yet
	running chan struct{}   // closed when the running record is done, nil if there is none
	begun   time.Time       // when the last record of mounted filesystems began, zero if the next one must not wait
}

// firstSave returns the time before which nothing is recorded.
func (a *Agent) firstSave() time.Time {
	if a.ready {
		return time.Time{}
	}
	return a.started.Add(saveAfter)
}

// save records the sightings, unless the previous record is still running. Mounted filesystems are recorded with the
// others, and first: their record drops the one of what was in their place before.
func (a *Agent) save(ctx context.Context, mountedToo bool) {
	mounted := a.saves.due && (mountedToo || len(a.saves.found) > 0)
	if !mounted && len(a.saves.found) == 0 || a.saves.running != nil {
		return
	}
	found, made := a.saves.found, make(chan struct{})
	a.saves.found, a.saves.running = nil, made
	if mounted {
		a.saves.due, a.saves.begun = false, time.Now()
	}
	a.work.Go(func() {
		err := a.host.Remember(mounted, found)
		close(made)
		a.give(ctx, func() {
			a.saves.running = nil
			a.problem(err)
		})
	})
}

// saveRest records the remaining sightings at the end, unless the running record hangs.
func (a *Agent) saveRest(ctx context.Context) {
	if a.saves.running != nil && (a.saves.due || len(a.saves.found) > 0) {
		select {
		case <-a.saves.running:
			a.saves.running = nil
		case <-time.After(patience):
		}
	}
	a.save(ctx, true)
}

// startSave records the sightings if they are due.
func (a *Agent) startSave(ctx context.Context, now time.Time) {
	if !now.Before(a.firstSave()) {
		a.save(ctx, !now.Before(a.saves.begun.Add(saveEvery)))
	}
}

// nextSave returns when the next record is due, zero for never.
func (a *Agent) nextSave() time.Time {
	switch {
	case a.saves.running != nil:
		return time.Time{}
	case len(a.saves.found) > 0:
		return a.firstSave()
	case !a.saves.due:
		return time.Time{}
	}
	if next := a.saves.begun.Add(saveEvery); next.After(a.firstSave()) {
		return next
	}
	return a.firstSave()
}
