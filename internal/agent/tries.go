package agent

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"time"

	"hotmount/internal/disk"
)

// Limits of the retries. A failed action is retried after retryFirst, then after twice as long and so on. Each wait is
// shortened by up to a quarter at random, so that many disks do not come back at once. After that many retries in a row
// only a change of the disk or an accept starts another. A fault of the node (disk.NodeError) is retried for ever, at
// the longest interval.
const (
	retryFirst = time.Second
	retries    = 8
	// heldMost limits the failures that are counted, and so the wait to 16 seconds, while only time can help.
	heldMost = 5
)

// tries are the failures on a disk, and when to try again.
type tries struct {
	// failures counts the failures in a row, verdicts those among them that time alone does not resolve.
	failures, verdicts int
	// unmountable reports that a mount failed.
	unmountable bool
	// stuck are the facts at the last failure. Before until, nothing is tried again unless the facts change. A zero
	// until is for ever.
	stuck *disk.Facts
	until time.Time
	// retry is when to look again, zero for never.
	retry time.Time
	// wrote reports that the failed action may have written to the disk since the last look. The next look counts these
	// writes, which are no change of the disk.
	wrote bool
	// failing reports that a failure was reported, and its end was not. told is the last reported failure.
	failing bool
	told    string
}

// backoff returns the wait after that many failures in a row, at most retries.
func backoff(failures int) time.Duration {
	wait := retryFirst << (failures - 1)
	return wait - rand.N(wait/4)
}

// blocked reports whether an action would only fail again: not enough time has passed, and the disk has not changed.
func (t *tries) blocked(f *disk.Facts, now time.Time) bool {
	if t.stuck == nil || t.stuck.Writes != f.Writes || t.stuck.Size != f.Size {
		return false
	}
	return t.until.IsZero() || now.Before(t.until)
}

// fail records a failure and returns the wait until the next try, negative for none. most is not 0 if only time helps:
// the action is then retried for ever.
func (t *tries) fail(f *disk.Facts, now time.Time, most int) time.Duration {
	if most == 0 {
		t.verdicts++
	}
	t.failures = min(t.failures+1, cmp.Or(most, retries))
	facts := *f
	t.stuck, t.until, t.retry = &facts, time.Time{}, time.Time{}
	wait := backoff(t.failures)
	if t.verdicts > retries && most == 0 {
		return -1
	}
	t.until = now.Add(wait)
	t.retry = t.until
	return wait
}

// forget drops the failures, as after a success or an accept.
func (t *tries) forget() {
	t.failures, t.verdicts, t.stuck, t.unmountable = 0, 0, nil, false
}

// failed plans the next try of a failed action.
func (a *Agent) failed(name string, err error) {
	st := a.disks[name]
	st.phase = backingOff
	if !st.seen {
		st.facts.Name = name
	}
	// No event shows that a fault of the node is resolved, or that the users of a held filesystem have let go.
	most := 0
	if of := (*disk.NodeError)(nil); errors.As(err, &of) {
		most = retries
	} else if errors.Is(err, disk.ErrHeld) {
		most = heldMost
	}
	t := &st.tries
	wait := t.fail(&st.facts, time.Now(), most)
	// An action retried for ever is not reported for ever.
	if most > 0 && t.failing && t.told == err.Error() && t.failures >= most {
		return
	}
	t.failing, t.told = true, err.Error()
	a.report.Failed(&st.facts, st.decision, a.path(st), err, wait)
}
