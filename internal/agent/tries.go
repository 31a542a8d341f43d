package agent

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"time"

	"hotmount/internal/disk"
)

// Limits of the retries. What failed is tried again after retryFirst, then after twice as long and so on, each time
// shortened by up to a quarter at random so that many disks do not come back at once. After that many retries in a
// row it takes a change of the disk, or the operator's word, unless the fault is the node's (disk.NodeError): that is
// tried for ever, as far apart as the last retries.
const (
	retryFirst = time.Second
	retries    = 8
	// heldMost bounds the failures that are counted, and so the wait to 16 seconds, while only time can help.
	heldMost = 5
)

// tries is what failed on a disk, and when it is tried again.
type tries struct {
	// failures counts those in a row, verdicts those of them that time alone does not mend.
	failures, verdicts int
	// unmountable reports that a mount failed.
	unmountable bool
	// stuck are the facts at the last failure. Until then nothing is tried again unless the facts have changed. A zero
	// until is for ever.
	stuck *disk.Facts
	until time.Time
	// retry is when to look again, zero for not.
	retry time.Time
	// wrote reports that what failed may have written to the disk since the last look. The next look tells how much,
	// which is no change of the disk.
	wrote bool
	// failing reports that the reporter was told of a failure, and not of its end. told is the last one that it was told.
	failing bool
	told    string
}

// backoff returns the wait after that many failures in a row, at most retries.
func backoff(failures int) time.Duration {
	wait := retryFirst << (failures - 1)
	return wait - rand.N(wait/4)
}

// blocked reports whether what failed before would only fail again now: too little time has passed, and nothing about
// the disk has changed.
func (t *tries) blocked(f *disk.Facts, now time.Time) bool {
	if t.stuck == nil || t.stuck.Writes != f.Writes || t.stuck.Size != f.Size {
		return false
	}
	return t.until.IsZero() || now.Before(t.until)
}

// fail notes a failure and returns the wait until the next try, negative for none. With most, which is not 0 for what
// only time mends, it is tried for ever.
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

// forget drops the failures, as after a success or the operator's word.
func (t *tries) forget() {
	t.failures, t.verdicts, t.stuck, t.unmountable = 0, 0, nil, false
}

// failed plans the next try of what could not be done.
func (a *Agent) failed(name string, err error) {
	st := a.disks[name]
	st.phase = backingOff
	if !st.seen {
		st.facts.Name = name
	}
	// Nothing tells when a fault of the node is mended, nor when those have let go who have a filesystem that is held.
	most := 0
	if of := (*disk.NodeError)(nil); errors.As(err, &of) {
		most = retries
	} else if errors.Is(err, disk.ErrHeld) {
		most = heldMost
	}
	t := &st.tries
	wait := t.fail(&st.facts, time.Now(), most)
	// What is tried for ever is not reported for ever.
	if most > 0 && t.failing && t.told == err.Error() && t.failures >= most {
		return
	}
	t.failing, t.told = true, err.Error()
	a.report.Failed(&st.facts, st.decision, a.path(st), err, wait)
}
