package agent

import (
	"cmp"
	"path"
	"slices"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

// leave has recorded that the disk of a filesystem left, also of one that was not mounted
// any more when this agent started. What was attached together with it is no other
// attachment of it.
func (a *Agent) leave(st *state) {
	s := st.record.sighting
	if v := st.facts.Standing.Volume; s == nil && v != nil && !st.facts.Standing.WasMounted.IsZero() && v.Identity.Seq == st.facts.Seq {
		s = v
	}
	if s == nil {
		return
	}
	left := *s
	left.Left = true
	var err error
	if left.Newest, err = a.host.Newest(cmp.Or(st.facts.Whole, st.facts.Name)); err != nil {
		a.report.Problem(err)
	}
	a.left++
	a.expect(left)
	a.saves.begun = time.Time{}
}

// expect has the sighting recorded. A look that begins before that is done goes by it, too: else a
// copy could be mounted in place of a disk that has just left.
func (a *Agent) expect(s disk.Sighting) {
	a.host.Expect(s)
	a.saves.due = true
}

// remember has recorded what has to last of the decision: on which disk a
// filesystem lies, and that a disk stays held when another one is gone or time has passed.
func (a *Agent) remember(st *state, changed bool) {
	f, d := &st.facts, st.decision
	switch {
	case d.Mounted():
		st.record.alive = a.host.Monotonic()
		id := f.Identity("")
		if changed || st.record.sighting == nil || st.record.sighting.Identity != id {
			st.record.sighting = &disk.Sighting{Identity: id, UUID: d.UUID, Type: d.Type, Class: d.Class, Directory: path.Dir(a.path(st)), Mounted: time.Now().UTC(), At: st.record.alive, Full: d.Type == "xfs" && f.Full()}
			a.expect(*st.record.sighting)
		}
	case policy.Unrecorded(f, d.Reason) && !st.waits(), doubted(f, d):
		if err := a.host.Keep(f, d.Reason); err != nil {
			a.report.Problem(err)
		}
	}
}

// meet has a disk that is refused for another that may be itself wait for a look at that one
// before it stays refused for good: when it is pulled and comes back under another name,
// the look that tells that it has left may still be to come.
func (a *Agent) meet(st *state) {
	for name, o := range a.disks {
		if o.waits() && attached(o.selves(), st.facts.Seq) {
			o.peers.met = st.facts.Seq
			a.wanted(name)
		}
	}
	if !st.waits() {
		return
	}
	for _, p := range st.selves() {
		// One that is attached is another, and may go before it can be looked at: a mount may
		// take long. One that cannot be looked at now is told by its look.
		if seq, err := a.host.Attached(p.Dev); err == nil && seq == p.Seq {
			st.peers.met = p.Seq
			return
		}
		a.wanted(p.Name)
	}
}

// waits reports whether all for which the disk is refused may be itself, as far as serials
// tell, and none of them was looked at since.
func (st *state) waits() bool {
	selves := st.selves()
	return len(selves) > 0 && !attached(selves, st.peers.met)
}

// selves are the disks for which the disk is refused if each of them may be itself.
func (st *state) selves() []disk.Peer {
	f := &st.facts
	peers, _ := policy.Peers(f, st.decision.Reason)
	if !policy.Unrecorded(f, st.decision.Reason) || slices.ContainsFunc(peers, func(p disk.Peer) bool { return disk.OtherSerial(p.Serial, f.Serial) }) {
		return nil
	}
	return peers
}

// reportRivals reports whether the decision is to be reported: it has changed, or the last report may have named a disk
// that is no longer among those of which the decision speaks.
func (st *state) reportRivals(changed bool) bool {
	rivals := st.rivals()
	if !changed && !slices.ContainsFunc(st.peers.reported, func(seq uint64) bool { return !slices.Contains(rivals, seq) }) {
		return false
	}
	st.peers.reported = rivals
	return true
}

// rivals returns the sequence numbers of the disks of which the decision may speak.
func (st *state) rivals() []uint64 {
	peers, _ := policy.Peers(&st.facts, st.decision.Reason)
	var all []uint64
	for i := range peers {
		all = append(all, peers[i].Seq)
	}
	return all
}

func attached(peers []disk.Peer, seq uint64) bool {
	return slices.ContainsFunc(peers, func(p disk.Peer) bool { return p.Seq == seq })
}

// note has recorded what lies on a disk that is not mounted from it by hotmount: at the
// next boot it may be missed. What is about to be mounted is not written down before, nor
// what is being overwritten. The disk of the system is not: without it there is no boot.
func (a *Agent) note(st *state, c *disk.Content) {
	f, d := &st.facts, st.decision
	i := f.Standing.Intent
	if !f.Udev.Initialized || i != nil && (!f.Standing.IntentBySlot || i.UUID == c.UUID) || f.System != "" || f.Slot == "" && f.Serial == "" {
		return
	}
	want := disk.Sighting{Identity: f.Identity("")}
	v := f.Standing.Volume
	remembered := d.Mounted() || f.Standing.OnRecord && v != nil && !v.Left
	if !remembered && f.Standing.Given == nil && d.Reason != disk.ReasonPartitioned {
		want.Type, want.UUID = f.Lies(c)
	}
	want.Left = want.Type == ""
	if !want.Left && active(d.Action) && st.tries.stuck == nil {
		return
	}
	have := disk.Sighting{Identity: want.Identity, Left: true}
	if n := f.Standing.Noted; n != nil {
		have.Identity, have.UUID, have.Type, have.Left = n.Identity, n.UUID, n.Type, false
		have.Identity.Boot = ""
	}
	switch {
	case want == have:
		st.record.noted = nil
	case st.record.noted == nil || *st.record.noted != want:
		st.record.noted = &want
		found := want
		found.Mounted = time.Now().UTC().Round(0)
		a.saves.found = append(a.saves.found, found)
	}
}
