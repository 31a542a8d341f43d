package agent

import (
	"errors"
	"math/rand/v2"
	"time"

	"hotmount/internal/disk"
)

// Limits of the retries. A failed step is tried again after retryFirst, then after twice as long and so on, for ever. Each
// wait is shortened by up to a quarter at random, so that many disks do not come back at once.
const (
	retryFirst = time.Second
	retryMost  = time.Hour
	// The wait grows up to that failure in a row: to retryMost.
	longest = 13
	// No event shows that a fault of the node is resolved, or that the users of a held filesystem have let go. These
	// cost no read of the disk, and are tried again after at most 128 and 16 seconds.
	nodeLongest = 8
	heldLongest = 5
	// remindEvery is how often the journal has a failure that stays the same.
	remindEvery = 24 * time.Hour
)

// backoff returns the wait after that many failures in a row.
func backoff(failures int) time.Duration {
	wait := min(retryFirst<<(failures-1), retryMost)
	return wait - rand.N(wait/4)
}

// attempts are the failures in a row of one thing.
type attempts struct {
	// count counts them. step is the one whose wait is due.
	count, step int
	// told is the failure that was reported and whose end was not, empty for none. toldAt is when it was last logged.
	told   string
	toldAt time.Time
}

// again counts a failure. The wait grows up to the failure most.
func (a *attempts) again(err error, now time.Time, most int) disk.Tries {
	a.count, a.step = a.count+1, min(a.step+1, most)
	t := disk.Tries{Count: a.count, Wait: backoff(a.step)}
	t.Quiet = a.told == err.Error() && now.Sub(a.toldAt) < remindEvery
	if !t.Quiet {
		a.told, a.toldAt = err.Error(), now
	}
	return t
}

// tries are the failures on a disk, and when to try again.
type tries struct {
	attempts
	// unmountable reports that a mount failed.
	unmountable bool
	// stuck are the facts at the last failure. Before until, nothing is tried again unless the facts change.
	stuck *disk.Facts
	until time.Time
	// retry is when to look again, zero for never.
	retry time.Time
	// wrote reports that the failed action may have written to the disk since the last look. The next look counts these
	// writes, which are no change of the disk.
	wrote bool
}

// blocked reports whether an action would only fail again: not enough time has passed, and the disk has not changed.
func (t *tries) blocked(f *disk.Facts, now time.Time) bool {
	return t.stuck != nil && t.stuck.Writes == f.Writes && t.stuck.Size == f.Size && now.Before(t.until)
}

// forget drops the failures, as after a success or an accept.
func (t *tries) forget() {
	t.count, t.step, t.stuck, t.unmountable = 0, 0, nil, false
}

// failed plans the next try of a failed action.
func (a *Agent) failed(name string, err error) {
	st := a.disks[name]
	st.phase = backingOff
	if !st.seen {
		st.facts.Name = name
	}
	node, held := errors.As(err, new(*disk.NodeError)), errors.Is(err, disk.ErrHeld)
	most := longest
	if node {
		most = nodeLongest
	} else if held {
		most = heldLongest
	}
	t, now, facts := &st.tries, time.Now(), st.facts
	again := t.again(err, now, most)
	again.OfNode = node || held
	t.stuck, t.until = &facts, now.Add(again.Wait)
	t.retry = t.until
	a.report.Report(disk.Event{Kind: disk.EventFailed, Facts: &st.facts, Decision: st.decision, Path: a.path(st), Err: err, Tries: again})
}
