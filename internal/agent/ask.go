package agent

import (
	"context"
	"fmt"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

// The method `asks` reports whether the agent must find out who has the disk open before it carries out the decision.
func (a *Agent) asks(st *state) bool {
	c := st.facts.KnownContent()
	return st.decisionWithOpeners != st.decision && policy.Asks(&st.facts, &c, st.decision)
}

// asksFirst reports whether the action in lane l must wait until the agent knows who has the disk open. If the action
// must wait, asksFirst starts the program that finds out who has the disk open. After the program's answer, the agent
// looks at the disk and makes the decision again.
func (a *Agent) asksFirst(ctx context.Context, name string, l *lane) bool {
	st := a.disks[name]
	if !a.asks(st) {
		return false
	}
	id := st.facts.ID
	a.enter(st, acting)
	a.startWork(ctx, l, func() func() {
		by, err := a.units.Opener(ctx, id)
		return func() { a.answered(name, id.Seq, by, err) }
	})
	return true
}

// The method `answered` evaluates the answer to the question of who has the disk open. If the use lasts
// (disk.Opener.Lasts), the disk is held. For any other use, the agent retries the action later, until the use has
// ended. The agent does not hold an accepted disk again, but waits until the use has ended. For a disk that is already
// refused or held, the agent retries no action.
func (a *Agent) answered(name string, seq uint64, by *disk.Opener, err error) {
	st := a.disks[name]
	f, left := &st.facts, !active(st.decision.Action)
	if f.Seq == seq && (left || err == nil && by == nil) {
		st.decisionWithOpeners = st.decision
	}
	switch {
	case f.Seq != seq, err == nil && by == nil:
	case err == nil && by.Lasts() && f.Standing.Used == nil && !policy.UseAccepted(f, a.settings):
		err = a.host.RecordHold(f, disk.ReasonUsed, by.String())
	case err == nil && !left:
		err = fmt.Errorf("cannot use the disk: it is %s; nothing on it was changed%s", disk.Visible(by.String()), by.Hint(f.Node()))
	}
	switch {
	case err != nil && left:
		a.problem(err)
	case err != nil:
		a.failed(name, disk.OfNode(err))
		st.tries.mayHaveWritten = true // writes of other processes are not a reason to ask again at once
	}
	a.lookNext(name)
}
