package agent

import (
	"errors"
	"math/rand/v2"
	"time"

	"hotmount/internal/disk"
)

// Limits of the retries. The agent retries a failed action after retryFirst. After each further failure, the wait
// doubles. Retries never end. Each wait is shortened by up to a quarter at random, so that many disks are not retried
// at the same moment.
const (
	retryFirst = time.Second
	retryMost  = time.Hour
	// The constant `longest` is the number of failures in a row after which the wait no longer grows. After that number
	// of failures, the wait is retryMost.
	longest = 13
	// No event shows that a fault of the node is resolved. No event shows that the last user has closed a filesystem
	// that is still mounted elsewhere (disk.ErrHeld). Retries after a fault of the node or after disk.ErrHeld may be
	// frequent, because they read no disk. The wait is at most 128 seconds after a fault of the node, and at most 16
	// seconds after disk.ErrHeld.
	nodeLongest = 8
	heldLongest = 5
	// remindEvery is the time after which a failure that has not changed is logged again.
	remindEvery = 24 * time.Hour
)

// backoff returns the wait before the next try. The parameter `failures` is the number of failures in a row.
func backoff(failures int) time.Duration {
	wait := min(retryFirst<<(failures-1), retryMost)
	return wait - rand.N(wait/4)
}

// The type `attempts` counts the consecutive failures of one action.
type attempts struct {
	// count is the number of failures in a row. The field `step` determines how long the agent waits, and stops growing
	// at a limit.
	count, step int
	// The field `reported` is the last failure that was reported. The field is empty if no failure was reported, or if
	// the end of the failure was reported. The field reportedAt is the time of the newest log entry about the reported
	// failure.
	reported   string
	reportedAt time.Time
}

// again(err, now, most) counts one more failure. The parameter `most` is the number of failures after which the wait
// stops growing.
func (a *attempts) again(err error, now time.Time, most int) disk.Tries {
	a.count, a.step = a.count+1, min(a.step+1, most)
	t := disk.Tries{Count: a.count, Wait: backoff(a.step)}
	t.Quiet = a.reported == err.Error() && now.Sub(a.reportedAt) < remindEvery
	if !t.Quiet {
		a.reported, a.reportedAt = err.Error(), now
	}
	return t
}

// The type `tries` contains the failures on a disk, and the time of the next try.
type tries struct {
	attempts
	// The field `unmountable` is true if a mount of the disk has failed.
	unmountable bool
	// failedFacts are the facts at the last failure, or nil if there was none. Until the time retryAfter, an action is
	// tried again only if the disk has changed since the failure (tries.blocked).
	failedFacts *disk.Facts
	retryAfter  time.Time
	// The field `retry` is the time at which the disk is to be looked at again, or zero if no retry is due.
	retry time.Time
	// The field mayHaveWritten is true if the failed action, or a process that has the disk open, may have written to
	// the disk since the last look. The next look adds these writes to failedFacts, because these writes do not count
	// as a change of the disk.
	mayHaveWritten bool
}

// The method `blocked` reports whether an action must not be retried yet. The action is blocked until retryAfter, unless
// the disk has changed since the failure.
func (t *tries) blocked(f *disk.Facts, now time.Time) bool {
	return t.failedFacts != nil && t.failedFacts.Writes == f.Writes && t.failedFacts.Size == f.Size && now.Before(t.retryAfter)
}

// The method `forget` clears the failures, for example after a success, an accept or a reload.
func (t *tries) forget() {
	t.count, t.step, t.failedFacts, t.unmountable = 0, 0, nil, false
}

// backOff reports the failure of an action or a look. The disk then waits for the next try.
func (a *Agent) backOff(name string, err error) {
	a.enter(a.disks[name], backingOff)
	a.failed(name, err)
}

// The method `failed` reports the failure of an action or a look, and sets the time of the next try.
func (a *Agent) failed(name string, err error) {
	st := a.disks[name]
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
	t.failedFacts, t.retryAfter = &facts, now.Add(again.Wait)
	t.retry = t.retryAfter
	a.report.Report(disk.Event{Kind: disk.EventFailed, Facts: &st.facts, Decision: st.decision, Path: a.path(st), Err: err, Tries: again})
}
