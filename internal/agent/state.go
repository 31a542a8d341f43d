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
	// looking: the disk waits for a look, or one is under way.
	looking
	// waiting: the disk waits in a lane for its turn.
	waiting
	// acting: what was decided is under way.
	acting
	// backingOff: something failed, and is tried again later or when the disk has changed.
	backingOff
)

// busy reports whether something is queued or under way, after whose end the disk can be looked at.
func (p phase) busy() bool { return p == looking || p == waiting || p == acting }

// state is what the loop knows of one kernel name.
type state struct {
	phase phase
	// again reports that the disk is to be looked at once more when it is no longer busy.
	again bool
	// seen reports that facts and decision are those of a look.
	seen     bool
	facts    disk.Facts
	decision disk.Decision
	// initial reports that the disk was there at start and holds READY back.
	initial bool
	// remount reports that the disk's mount ended without anybody's hand, and is to be made again.
	remount bool
	// filled is the sequence number of the disk whose filesystem was to fill it before the mount that comes next, 0
	// for none. filling is why that failed.
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
	// mounting reports that a mount was tried and its end not reported. One whose end was not heard may be there all the same.
	mounting bool
}

// peers is what the loop knows of a disk's relation to others.
type peers struct {
	// since is what Agent.left was when the last look began.
	since uint64
	// met is the sequence number of a disk that was looked at since this one was refused for it.
	met uint64
	// early reports that the disk is refused for one that may be seen yet (Agent.early).
	early bool
	// reported are the rivals when the decision was last reported: it may have named one that has gone.
	reported []uint64
}

// records are what was written down of a disk, or is to be.
type records struct {
	// sighting is what was last handed to Host.Expect, nil for nothing.
	sighting *disk.Sighting
	// alive is when a look, or a check, last found the disk mounted in its place (Host.Monotonic).
	alive time.Duration
	// noted is what was last handed to Host.Note and is not on record yet, nil for nothing.
	noted *disk.Sighting
}

// lostMount reports whether the disk's filesystem was mounted in its place during this attachment and is not now, as f
// has it, and nobody knows why. It may still be mounted for pods.
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

// hints limits the looks because of events: hintsAtOnce in a row are answered at once. Then a look keeps a distance
// of hintFirst from the one before, then twice as much and so on up to hintMost. hintsForgotten after the last one it
// begins anew.
type hints struct {
	count int
	last  time.Time
	// due is when the next look is, zero for no event since the last one.
	due time.Time
}

const (
	hintsAtOnce    = 8
	hintFirst      = 100 * time.Millisecond
	hintMost       = 5 * time.Second
	hintsForgotten = 2 * hintMost
)

// mayLook reports whether an event is worth a look now. If not, there is one when it is due.
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

// distance returns that of the next look from the last one.
func (h *hints) distance() time.Duration {
	if h.count < hintsAtOnce {
		return 0
	}
	return min(hintFirst<<min(h.count-hintsAtOnce, 10), hintMost)
}
