package agent

import (
	"context"
	"time"

	"hotmount/internal/disk"
)

// saveAfter is how long the agent waits after its start before it first records sightings. The wait ends early if the
// agent is ready. The sightings that come during this wait are recorded together, because each write of the records
// rewrites and syncs a file on the boot disk. If the daemon is killed before it has recorded the sightings, the next
// daemon finds the same filesystems, except those whose disks have left.
const saveAfter = time.Second

// saveEvery is the least time between two writes of the records of mounted filesystems, because each write rewrites and
// syncs a file. If several disks come within saveEvery, the later writes wait. The daemon itself uses its sightings at
// once (Host.Expect). A departure is recorded without delay, because no later look can find the departure. Found
// content is also recorded without delay, and the waiting sightings are recorded with it.
const saveEvery = 250 * time.Millisecond

// The type `saves` describes the sightings that are still to be recorded.
type saves struct {
	due     bool            // true if Host.Expect has received sightings since the last record of mounted filesystems
	found   []disk.Sighting // content that has not been passed to Host.Remember yet
	running chan struct{}   // closed when the running write of the records has ended, nil if no write is running
	begun   time.Time       // when the last write of mounted filesystems began, or zero if the next write must not wait
}

// firstSave returns the time before which nothing is recorded. The returned time is zero once the agent is ready.
func (a *Agent) firstSave() time.Time {
	if a.ready {
		return time.Time{}
	}
	return a.started.Add(saveAfter)
}

// save starts to write the sightings to the records, unless an earlier write is still running. Host.Remember writes
// mounted filesystems first, because the record of a mounted filesystem removes the records of other content in the
// same slot.
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

// saveRest starts a write of the remaining sightings when the agent ends, unless an earlier write hangs.
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

// nextSave returns the time at which the next write is due. The returned time is zero if no write is due, or if a write
// is running.
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
