package agent

import (
	"context"
	"errors"
	"time"

	"hotmount/internal/disk"
)

// saveAfter is how long what is seen at start waits to be recorded with that of the other disks: each
// record is a file that is written anew and synced, on the disk of which the node boots. What a daemon
// that is killed before that has seen, the next one sees again, unless it has left by then.
const saveAfter = time.Second

// saveEvery is the least time between two records of what is mounted, for the same reason: where disks come
// one after the other the last ones wait so long. The daemon itself goes by what it has seen (Host.Expect).
// That a disk has left does not wait: nobody can see it again.
const saveEvery = 250 * time.Millisecond

// saves is what is to be recorded of the filesystems that were seen.
type saves struct {
	due     bool            // something is expected that Host.Remember was not called for
	found   []disk.Sighting // not handed to Host.Note yet
	running chan struct{}   // closed when the record that is under way is made, nil if there is none
	begun   time.Time       // when the last record of what is mounted was begun, zero if the next one may not wait
}

// firstSave is before when nothing is recorded.
func (a *Agent) firstSave() time.Time {
	if a.ready {
		return time.Time{}
	}
	return a.started.Add(saveAfter)
}

// save has recorded what was seen of filesystems, once what was before is. What is mounted goes with what
// is not, and first: the record of it drops that of what was in its place before.
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
		var err error
		if mounted {
			err = a.host.Remember()
		}
		if len(found) > 0 {
			err = errors.Join(err, a.host.Note(found))
		}
		close(made)
		a.give(ctx, func() {
			a.saves.running = nil
			if err != nil {
				a.report.Problem(err)
			}
		})
	})
}

// saveRest has recorded at the end what was not, unless the record that is under way hangs.
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

// startSave has recorded what was seen, if it is time.
func (a *Agent) startSave(ctx context.Context, now time.Time) {
	if !now.Before(a.firstSave()) {
		a.save(ctx, !now.Before(a.saves.begun.Add(saveEvery)))
	}
}

// nextSave returns when the next record is due, zero for not.
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
