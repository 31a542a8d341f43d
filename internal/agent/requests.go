package agent

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

func (a *Agent) retry() {
	for _, st := range a.disks {
		st.tries.forget()
	}
	a.rescan(a.requestLook)
}

func (a *Agent) reload(s *disk.Settings) {
	a.report.Notify(Reloading)
	a.settings = s
	a.rescans.Reset(s.Rescan)
	a.lanes.setLimits(s.Workers)
	a.retry()
	// The status line must show the new work before READY, because the caller of the reload may wait for READY.
	a.status.due = time.Now()
	a.sendStatus()
	if a.ready {
		a.report.Notify(Ready)
	}
}

// accept accepts the hold of the disk or allows another try, and returns the answer for the operator.
func (a *Agent) accept(name string, seq uint64, shown disk.Reason) (string, error) {
	st := a.disks[name]
	switch {
	case st == nil:
		return "", fmt.Errorf("cannot accept %s: no disk with this name is known; see hotmount plan", name)
	case !st.seen && st.tries.failedFacts == nil:
		return "", fmt.Errorf("cannot accept %s: hotmount has not looked at the disk yet; try again in a moment", name)
	case !st.seen && seq == 0:
		st.tries.count, st.tries.step = 0, 0
		a.requestLook(name)
		return name + ": hotmount looks at the disk again", nil
	case seq != 0 && st.facts.Seq != seq:
		return "", fmt.Errorf("cannot accept %s: another disk has this name now; see hotmount plan", name)
	case shown != "" && st.decision.Reason != shown:
		d, why := a.currentDecision(&st.facts)
		return "", fmt.Errorf("cannot accept %s: the reason is no longer %[3]s, but %[2]s (%[4]s: %[5]s)", name, d.Reason, shown, d.Action, why)
	}
	w := policy.Word(&st.facts, st.decision)
	// The answer names the disk and the reason, because either may have changed since the operator read the status.
	who := st.facts.ID.String()
	if w.Reason != "" {
		c := st.facts.KnownContent()
		why, _ := policy.Words(&st.facts, &c, a.settings, st.decision)
		who += " (" + why + ")"
	}
	if w.Reason == "" && st.tries.failedFacts == nil && st.decision.Reason != disk.ReasonFormatFailed && st.facts.Standing.Unmounted == "" {
		// The answer uses the present settings, because the last look may have used older settings.
		d, why := a.currentDecision(&st.facts)
		return "", fmt.Errorf("cannot accept %s: %s: %s", name, d.Action, why)
	}
	if err := a.host.Accept(&st.facts, w); err != nil {
		return "", err
	}
	st.tries.forget()
	// The next look must not treat a missing mount as an unmount by hand.
	st.remount = true
	a.requestLook(name)
	return who + a.accepted(st, w), nil
}

// The method `accepted` returns a text about the effect of an accept. The text is the end of a sentence about the disk.
func (a *Agent) accepted(st *state, w disk.Word) string {
	if w.Reason == "" {
		f := st.facts
		f.Standing.Unmounted, f.Standing.Verdict = "", nil
		if d, why := a.currentDecision(&f); d.Action == disk.Ignore || d.Action == disk.Refuse {
			return " is accepted, but hotmount still does not use the disk: " + why
		}
	}
	if d := st.decision; d.Type != "" || d.Reason == disk.ReasonReleased || d.Reason == disk.ReasonUnmounted {
		return " is accepted"
	}
	if class := policy.Select(&st.facts, a.settings); class != nil && class.Mode == disk.ModeBlock {
		return " is accepted: hotmount gives out the disk as a block volume if no other hold remains (hotmount status); the volume's user overwrites the disk"
	}
	return " is accepted: hotmount formats the disk if it is proven blank and no other hold remains (hotmount status)"
}

// currentDecision returns the decision on the facts f under the present settings, and the reason for the decision in
// words.
func (a *Agent) currentDecision(f *disk.Facts) (disk.Decision, string) {
	c := f.KnownContent()
	d := policy.Decide(f, &c, a.settings)
	why, _ := policy.Words(f, &c, a.settings, d)
	return d, why
}

// startDeparture starts to unmount the disk, or to remove its link, at the operator's request.
func (a *Agent) startDeparture(name string, seq uint64) (*departure, error) {
	st := a.disks[name]
	mountedAt := func(m disk.MountPoint) bool { return m.Path == a.path(st) }
	switch {
	case st == nil || !st.seen:
		return nil, errors.New("no disk with this name is known; see hotmount plan")
	case seq != 0 && st.facts.Seq != seq:
		return nil, errors.New("another disk has this name now; see hotmount plan")
	case !st.decision.Mounted() && !st.decision.GivenOut() && (st.decision.Action != disk.Ignore || a.path(st) == ""):
		return nil, fmt.Errorf("hotmount has neither mounted nor given out the disk (%s)", st.decision.Reason)
	// A reload has removed the disk's class or changed the class's directory. The next look finds the mount.
	case st.decision.Mounted() && !slices.ContainsFunc(st.facts.Mounts, mountedAt):
		return nil, errors.New("hotmount has not looked at the disk with the new settings yet; try again in a moment")
	case a.leaving[a.path(st)] != nil:
		return nil, errors.New("the disk is being unmounted")
	}
	// The record is written before the unmount, so that the next look does not treat the release as an unmount by hand.
	if err := a.host.RecordHold(&st.facts, disk.ReasonReleased, ""); err != nil {
		return nil, err
	}
	dep := &departure{facts: st.facts, path: a.path(st), answer: make(chan error, 1)}
	a.leaving[dep.path] = dep
	return dep, nil
}
