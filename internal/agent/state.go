package agent

import (
	"cmp"
	"math/rand/v2"
	"time"

	"hotmount/internal/disk"
)

// state is what the loop knows of one kernel name.
type state struct {
	facts    disk.Facts
	decision disk.Decision
	// seen says that facts and decision are filled.
	seen bool
	// busy says that the disk is in a line or that work on it is under way,
	// again that it is to be looked at once more when that has ended.
	busy, again bool
	// tried says that a mount was, and that nobody was told yet what came of it:
	// one whose job's end was not heard may be there all the same.
	tried bool
	// failing says that the reporter was told of a failure, and not of its end.
	failing bool
	// told is the failure that the reporter was told last.
	told string
	// remount says that the disk's mount ended without anybody's hand, and is
	// to be made again.
	remount bool
	// since is what Agent.left was when the last look began.
	since uint64
	// met is the sequence number of a disk that was looked at since this one was refused for it.
	met uint64
	// sighting is what was last handed to Host.Expect, nil for nothing.
	sighting *disk.Sighting
	// alive is when a look, or a check, last found the disk mounted in its place (Host.Monotonic).
	alive time.Duration
	// noted is what was last handed to Host.Note and is not on record yet, nil for nothing.
	noted *disk.Sighting
	// acted is the action that was carried out since the last look, which the
	// next one has to confirm.
	acted disk.Action
	// filled is the sequence number of the disk whose filesystem was to fill it before the
	// mount that comes next, 0 for none, and filling why that failed.
	filled  uint64
	filling error
	// initial says that the disk was there at start and holds READY back.
	initial bool
	// early says that the disk is refused for one that may be seen yet (Agent.early).
	early bool
	// spoken are the rivals when the decision was last told: it may have named one that has gone.
	spoken []uint64

	// failures counts those in a row; stuck are the facts at the last one, and
	// until then nothing is tried again unless the facts have changed. A zero
	// until with stuck set is for ever.
	// verdicts are the failures that time alone does not mend, unmountable says that one of them
	// was a mount's.
	failures, verdicts int
	unmountable        bool
	stuck              *disk.Facts
	until              time.Time
	// own says that what failed may have written to the disk since the last look: the
	// next one tells how much, which is no change.
	own bool
	// retry is when to look again, zero for not.
	retry time.Time

	// hints counts the looks because of events, the last one at hinted; due is
	// when the next one is, zero for no event since.
	hints       int
	hinted, due time.Time
}

// mayLook says whether an event is worth a look now; if not, there is one when it
// is due.
func (st *state) mayLook(now time.Time) bool {
	if now.Sub(st.hinted) > hintsForgotten {
		st.hints = 0
	}
	if next := st.hinted.Add(distance(st.hints)); now.Before(next) {
		st.due = next
		return false
	}
	st.hints++
	st.hinted, st.due = now, time.Time{}
	return true
}

// blocked says whether what failed before would only fail again now: too little
// time has passed, and nothing about the disk has changed.
func (st *state) blocked(now time.Time) bool {
	if st.stuck == nil || st.stuck.Writes != st.facts.Writes || st.stuck.Size != st.facts.Size {
		return false
	}
	return st.until.IsZero() || now.Before(st.until)
}

// fail notes a failure and gives the wait until the next try, negative for none.
// With most, which is not 0 for what only time mends, it is tried for ever.
func (st *state) fail(now time.Time, most int) time.Duration {
	if most == 0 {
		st.verdicts++
	}
	st.failures = min(st.failures+1, cmp.Or(most, retries))
	facts := st.facts
	st.stuck, st.until, st.retry = &facts, time.Time{}, time.Time{}
	wait := backoff(st.failures)
	if st.verdicts > retries && most == 0 {
		wait = -1
	} else {
		st.until = now.Add(wait)
		st.retry = st.until
	}
	return wait
}

// lost says whether the disk's filesystem was mounted in its place during this attachment
// and is not now, as f has it, and nobody knows why. It may still be mounted for pods.
func (st *state) lost(f *disk.Facts) bool {
	if f.Standing.Unmounted != "" || f.Standing.Remount || st.remount {
		return false
	}
	was, uuid := st.decision.Mounted(), st.decision.UUID
	if !st.seen {
		was = !f.Standing.WasMounted.IsZero()
		if f.Standing.Volume != nil {
			uuid = f.Standing.Volume.UUID
		}
	}
	return was && !f.MountedBy(uuid) && (uuid != "" || len(f.Mounts) == 0)
}

func (st *state) succeed() {
	st.failures, st.verdicts, st.stuck, st.unmountable = 0, 0, nil, false
}

// departure is a mount whose disk is gone.
type departure struct {
	facts    disk.Facts
	path     string
	busy     bool
	failures int
	retry    time.Time
	// named says that those who still use it were named when it was taken off the
	// tree, unnamed why those could not be who have it elsewhere.
	named   bool
	unnamed error
	// unmounted says that what is left to do is to remove the directory.
	unmounted bool
	// answer waits for the end of what an operator has asked for, which is not
	// tried again; nil if the disk is gone.
	answer chan error
}

// stopPatience is how long PID 1 may take to stop a mount unit that it has begun to stop:
// the longest that one is given (mountTimeout in cmd/hotmount).
const stopPatience = 15 * time.Minute

// Limits of the retries. What failed is tried again after retryFirst, then after
// twice as long and so on, each time shortened by up to a
// quarter at random so that many disks do not come back at once. After that
// many retries in a row it takes a change of the disk, or the operator's word, unless
// the fault is the node's (disk.NodeError): that is tried for ever, as far apart as the last
// retries.
const (
	retryFirst = time.Second
	retries    = 8
	// heldMost bounds the failures that are counted, and so the wait to
	// 16 seconds, while only time can help.
	heldMost = 5
)

// Limits of the looks because of events: hintsAtOnce in a row are answered at once.
// Then a look has hintFirst of distance from the one before, then twice as much
// and so on up to hintMost; hintsForgotten after the last one it begins anew.
const (
	hintsAtOnce    = 8
	hintFirst      = 100 * time.Millisecond
	hintMost       = 5 * time.Second
	hintsForgotten = 2 * hintMost
)

// distance gives that of the next look from the last one after so many.
func distance(hints int) time.Duration {
	if hints < hintsAtOnce {
		return 0
	}
	return min(hintFirst<<min(hints-hintsAtOnce, 10), hintMost)
}

// backoff gives the wait after that many failures in a row, at most retries.
func backoff(failures int) time.Duration {
	wait := retryFirst << (failures - 1)
	return wait - rand.N(wait/4)
}

// line holds the disks that wait for work of one kind, in order, of which a
// bounded number is done at once.
type line struct {
	names   []string
	running int
	bound   int
	// overdue is how much work does not count as running since it takes so long; with
	// it there is never more than most, where that is not 0.
	overdue, most int
}

func (l *line) add(name string) { l.names = append(l.names, name) }

// next takes the next name if there is one and room for it.
func (l *line) next() (string, bool) {
	if l.running >= l.bound || l.most > 0 && l.running+l.overdue >= l.most || len(l.names) == 0 {
		return "", false
	}
	name := l.names[0]
	l.names = l.names[1:]
	l.running++
	return name, true
}

// The lines: each kind of work has a bound of its own, so that disks that hang
// while they are formatted keep no other from being mounted.
const (
	looks = iota
	mountings
	proofs
	growths
	questions
)
