package agent

import (
	"cmp"
	"path"
	"slices"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

// recordLeft records that the disk of a filesystem has left, even if the filesystem was no longer mounted when this
// agent started. A disk that was already attached when the recorded disk left may be a copy, but cannot be the recorded
// disk itself.
func (a *Agent) recordLeft(st *state) {
	s := st.record.sighting
	if v := st.facts.Standing.Volume; s == nil && v != nil && !st.facts.Standing.WasMounted.IsZero() && v.Identity.Seq == st.facts.Seq {
		s = v
	}
	if s == nil {
		return
	}
	left := *s
	left.Left = true
	a.leftCount++
	a.expect(left, cmp.Or(st.facts.Whole, st.facts.Name))
	a.saves.begun = time.Time{}
}

// The method `expect` passes the sighting to the host, and requests that the sighting is recorded. A look uses the
// sighting even before it is recorded. Without the sighting, the copy of a disk that has just left could be mounted.
func (a *Agent) expect(s disk.Sighting, name string) {
	a.problem(a.host.Expect(s, name))
	a.saves.due = true
}

// The method `remember` records which disk contains a mounted filesystem. The method also records that a disk stays held
// or refused, even when the cause of the hold or refusal is gone.
func (a *Agent) remember(st *state, changed bool) {
	f, d := &st.facts, st.decision
	switch {
	case d.Mounted():
		st.record.alive = a.monotonic()
		id := f.Identity("")
		if changed || st.record.sighting == nil || st.record.sighting.Identity != id {
			st.record.sighting = &disk.Sighting{Identity: id, UUID: d.UUID, Type: d.Type, Class: d.Class, Directory: path.Dir(a.path(st)), Mounted: time.Now().UTC(), At: st.record.alive, Full: d.Type == "xfs" && f.Full(), Adopted: f.Adopted()}
			a.expect(*st.record.sighting, f.Name)
		}
	case policy.Use(f, d) != "":
		a.problem(a.host.RecordHold(f, disk.ReasonUsed, policy.Use(f, d)))
	case policy.Unrecorded(f, d.Reason) && !st.waits(), refusedWithoutTwin(f, d):
		a.problem(a.host.RecordHold(f, d.Reason, ""))
	case f.Standing.UsedLongAgo:
		a.problem(a.host.RecordHold(f, disk.ReasonUsed, f.Standing.Used.How))
	}
}

// delayRefusal delays a permanent refusal of a disk. The delay is needed if the disk that causes the refusal may be the
// refused disk itself, under its old name. When a disk is pulled and returns under another name, the agent may look at
// the new name before the old name. The delay ends when the agent has looked at the disk that causes the refusal.
func (a *Agent) delayRefusal(st *state) {
	for name, o := range a.disks {
		if o.waits() && attached(o.possiblySameDisks(), st.facts.Seq) {
			o.peers.seenRival = st.facts.Seq
			a.requestLook(name)
		}
	}
	if !st.waits() {
		return
	}
	for _, p := range st.possiblySameDisks() {
		// If the disk that causes the refusal is still attached, it cannot be the refused disk itself under its old
		// name. The agent does not wait for a look at an attached disk, because a mount of that disk may take long.
		if seq, err := a.host.Attached(p.Dev); err == nil && seq == p.Seq {
			st.peers.seenRival = p.Seq
			return
		}
		a.requestLook(p.Name)
	}
}

// The method `waits` reports whether the refusal of the disk must wait. The refusal waits if each disk that causes the
// refusal may be the refused disk itself (disk.Peer.MayBe). If a disk that causes the refusal was later found still
// attached (peers.seenRival), `waits` returns false.
func (st *state) waits() bool {
	samePeers := st.possiblySameDisks()
	return len(samePeers) > 0 && !attached(samePeers, st.peers.seenRival)
}

// possiblySameDisks returns the disks that cause the refusal of a disk, if each of them may be the refused disk itself.
func (st *state) possiblySameDisks() []disk.Peer {
	f := &st.facts
	peers, _ := policy.Peers(f, st.decision.Reason)
	if !policy.Unrecorded(f, st.decision.Reason) || slices.ContainsFunc(peers, func(p disk.Peer) bool { return !p.MayBe(f) }) {
		return nil
	}
	return peers
}

// reportRivals reports whether the decision is to be logged. The decision is logged if it has changed. An unchanged
// decision is logged again if the last log line may name a disk that is no longer a reason for the decision.
func (st *state) reportRivals(changed bool) bool {
	rivals := st.rivals()
	if !changed && !slices.ContainsFunc(st.peers.reported, func(seq uint64) bool { return !slices.Contains(rivals, seq) }) {
		return false
	}
	st.peers.reported = rivals
	return true
}

// rivals returns the sequence numbers of the other disks that are a reason for the decision.
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

// The method `note` requests a record of the disk's content if hotmount does not mount the content. With the record,
// hotmount notices at the next boot if the content is missing. Content that is about to be mounted is not recorded,
// unless an action on the disk has failed. Content that is being overwritten is not recorded. Content of the system's
// disk is also not recorded, because without that disk the node does not boot.
func (a *Agent) note(st *state, c *disk.Content) {
	f, d := &st.facts, st.decision
	i := f.Standing.Intent
	if !f.Udev.Initialized || i != nil && (!f.Standing.IntentBySlot || i.UUID == c.UUID) || f.System != "" || f.Slot == "" && f.Serial == "" && f.WorldWide() == "" {
		return
	}
	if d.Reason == disk.ReasonContent && !f.Holds() {
		return // nobody reads the disk again, so only the note holds the disk
	}
	want := disk.Sighting{Identity: f.Identity("")}
	v := f.Standing.Volume
	remembered := d.Mounted() || f.Standing.OnRecord && v != nil && !v.Left
	if !remembered && f.Standing.Given == nil && d.Reason != disk.ReasonPartitioned {
		want.Type, want.UUID = f.TypeAndID(c)
	}
	want.Left = want.Type == ""
	if !want.Left && active(d.Action) && st.tries.failedFacts == nil {
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
