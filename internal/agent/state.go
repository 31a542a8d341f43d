package agent

import (
	"time"

	"hotmount/internal/disk"
)

// phase is what the loop does with a disk. The package comment has the table of transitions.
type phase int

const (
	// idle: nothing is to be done until an event.
	idle phase = iota
	// looking: a look at the disk is waiting or running.
	looking
	// waiting: the disk waits in a lane for its turn.
	waiting
	// acting: the decision is being carried out.
	acting
	// backingOff: something failed, and is tried again later, or at once when the disk has changed.
	backingOff
)

// busy reports whether work is queued or running. The disk can be looked at when that ends.
func (p phase) busy() bool { return p == looking || p == waiting || p == acting }

// state is what the loop knows of one kernel name.
type state struct {
	phase phase
	// again requests one more look when the disk is no longer busy.
	again bool
	// seen reports that facts and decision come from a look.
	seen     bool
	facts    disk.Facts
	decision disk.Decision
	// initial reports that the disk was present at start and delays READY.
	initial bool
	// remount reports that the disk's mount ended, but not by hand, and is to be made again.
	remount bool
	// asked is the decision before which no process was seen to have the disk open, since its last action.
	asked disk.Decision
	// unreported reports that the decision is new, and is reported once it is known who has the disk open.
	unreported bool
	// filled is the sequence number of the disk whose filesystem was to grow before the next mount, 0 for none. filling
	// is why that failed.
	filled  uint64
	filling error

	act    act
	tries  tries
	hints  hints
	peers  peers
	record records
}

// act is what the next look has to confirm.
type act struct {
	// done is the action that was carried out since the last look.
	done disk.Action
	// mounting reports that a mount was attempted and is not reported yet. The mount may exist even if its end was not
	// observed.
	mounting bool
}

// peers is what the loop knows of a disk's relation to others.
type peers struct {
	// since is the value of Agent.left when the last look began.
	since uint64
	// met is the sequence number of a disk that was looked at after this one was refused because of it.
	met uint64
	// early reports that the disk is refused because of one that may still be seen (Agent.early).
	early bool
	// reported are the rivals at the last report of the decision.
	reported []uint64
}

// records are what was recorded of a disk, or will be.
type records struct {
	// sighting is what was last passed to Host.Expect, nil for nothing.
	sighting *disk.Sighting
	// alive is when a look or a check last found the disk mounted in its place (Agent.monotonic).
	alive time.Duration
	// noted is what was last passed to Host.Remember and is not on record yet, nil for nothing.
	noted *disk.Sighting
}

// lostMount reports whether the disk's filesystem was mounted in its place during this attachment and, by f, no longer
// is, for an unknown reason. It may still be mounted for pods.
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

// hints limits the looks caused by events. hintsAtOnce in a row are answered at once. After that a look keeps a
// distance from the previous one: first hintFirst, then doubled each time up to hintMost. hintsForgotten after the last
// look it starts again.
type hints struct {
	count int
	last  time.Time
	// due is when the next look is due, zero if there was no event since the last one.
	due time.Time
}

const (
	hintsAtOnce    = 8
	hintFirst      = 100 * time.Millisecond
	hintMost       = 5 * time.Second
	hintsForgotten = 2 * hintMost
)

// mayLook reports whether an event may cause a look now. If not, the look follows at due.
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

// distance returns the least time from the last look to the next.
func (h *hints) distance() time.Duration {
	if h.count < hintsAtOnce {
		return 0
	}
	return min(hintFirst<<min(h.count-hintsAtOnce, 10), hintMost)
}
