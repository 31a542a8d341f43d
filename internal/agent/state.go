package agent

import (
	"time"

	"hotmount/internal/disk"
)

// phase is what the loop does with a disk. The package comment has the table of transitions.
type phase int

const (
	// idle: nothing is to be done until the next event.
	idle phase = iota
	// looking: a look at the disk is running or waits to run.
	looking
	// waiting: the disk waits in a lane for its turn.
	waiting
	// acting: the decision is being carried out, or a question about the disk is being asked.
	acting
	// backingOff: an action or a look has failed. The action is retried later, or at once when the disk has changed.
	backingOff
)

// The method `busy` reports whether a disk in this phase has queued or running work. The agent can look at the disk
// when the queued or running work ends.
func (p phase) busy() bool { return p == looking || p == waiting || p == acting }

// The method `enter` changes the phase of a disk.
func (a *Agent) enter(st *state, p phase) {
	if a.phaseChanged != nil {
		a.phaseChanged(st.phase, p)
	}
	st.phase = p
}

// state is what the loop knows of the disk with one kernel name.
type state struct {
	phase phase
	// again: the disk needs another look when the queued or running work ends.
	again bool
	// seen: the agent has made a decision from the facts of a look. Before the first look, the fields `facts` and
	// `decision` are zero. If the mount had ended before the first look, the decision is made later, when PID 1 has
	// answered.
	seen     bool
	facts    disk.Facts
	decision disk.Decision
	// The field `looked` is the time at which the newest successful look at the disk ended.
	looked time.Time
	// initial is true if the disk was present at start and still delays READY.
	initial bool
	// The field `remount` is true if the disk is to be mounted again. The loop sets `remount` if PID 1 ended the disk's
	// mount, or if an unmount by hand could not be recorded. The loop also sets `remount` when the operator accepts the
	// disk.
	remount bool
	// decisionWithOpeners is a decision for which the agent need not ask again who has the disk open. While the disk's
	// decision stays the same, the agent does not ask again. The end of an action clears decisionWithOpeners.
	decisionWithOpeners disk.Decision
	// unreported is true if the decision is new, and is to be reported once the agent knows who has the disk open.
	unreported bool
	// A filesystem may grow before its next mount. growSeq is the sequence number of the disk for which this growth has
	// ended, or 0. growErr is the error of that growth, or nil.
	growSeq uint64
	growErr error

	act    unconfirmedAction
	tries  tries
	hints  hints
	peers  peers
	record records
}

// unconfirmedAction is the action that the next look has to confirm.
type unconfirmedAction struct {
	// The field `done` is the action that was carried out since the last look, or empty if there was no action.
	done disk.Action
	// The field `mounting` is true if a mount was attempted and is not reported yet. The mount may exist even if the
	// agent did not see its job end.
	mounting bool
}

// peers is what the loop knows of a disk's relation to other disks.
type peers struct {
	// The field `since` is the value of Agent.leftCount at the time when the last look at the disk began.
	since uint64
	// seenRival is the sequence number of a disk that caused the refusal of this disk and was then found attached, or
	// 0.
	seenRival uint64
	// The field tooEarly is true while the refusal of the disk must wait for disks that may still appear
	// (Agent.tooEarlyToRefuse).
	tooEarly bool
	// reported: the sequence numbers of the disks that caused the decision when the agent last reported the decision.
	reported []uint64
}

// The type `records` contains what was recorded about a disk, or will be recorded.
type records struct {
	// The field `sighting` is the sighting that was last passed to Host.Expect, or nil if none was passed.
	sighting *disk.Sighting
	// The field `alive` is the last time (Agent.monotonic) at which a look or a check found the disk mounted at its mount
	// point.
	alive time.Duration
	// The field `noted` is the newest sighting for Host.Remember that is not on record yet, or nil.
	noted *disk.Sighting
}

// lostMount reports whether the mount of the disk at its mount point has ended during this attachment, for an unknown
// reason. The parameter `f` has the newest facts. lostMount ignores the mounts of the filesystem in pods.
func (st *state) lostMount(f *disk.Facts) bool {
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

// The type `hints` limits the looks that events cause at one disk. Up to hintsAtOnce events in a row cause looks
// without delay. Between two later looks, a minimum time must pass. The minimum time begins at hintFirst and doubles
// with each look, up to hintMost. Once hintsForgotten has passed without a look, the count starts again.
type hints struct {
	count int
	last  time.Time
	// The field `due` is the time at which the next look is due, or zero if there was no event since the last look.
	due time.Time
}

const (
	hintsAtOnce    = 8
	hintFirst      = 100 * time.Millisecond
	hintMost       = 5 * time.Second
	hintsForgotten = 2 * hintMost
)

// mayLook reports whether an event may cause a look now. If mayLook returns false, the look follows at h.due.
func (h *hints) mayLook(now time.Time) bool {
	if now.Sub(h.last) > hintsForgotten {
		h.count = 0
	}
	if next := h.last.Add(h.distance()); now.Before(next) {
		h.due = next
		return false
	}
	h.count++
	h.last, h.due = now, time.Time{}
	return true
}

// distance returns the least time between the last look and the next look.
func (h *hints) distance() time.Duration {
	if h.count < hintsAtOnce {
		return 0
	}
	return min(hintFirst<<min(h.count-hintsAtOnce, 10), hintMost)
}
