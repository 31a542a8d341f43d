package agent

import (
	"errors"
	"fmt"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

func (a *Agent) retry() {
	for _, st := range a.disks {
		st.tries.forget()
	}
	a.rescan(a.wanted)
}

func (a *Agent) reload(s *disk.Settings) error {
	a.report.Reloading()
	err := a.host.SaveSettings(s)
	if err == nil {
		a.settings = s
		a.rescans.Reset(s.Rescan)
		a.lanes.setLimits(s.Workers)
		a.retry()
		// Whoever asked for it may wait for its end: READY does not come before the line that shows that there is work.
		a.status.due = time.Now()
		a.tell()
	}
	if a.ready {
		a.report.Ready()
	}
	return err
}

// accept takes the operator's word for a disk, and returns the answer.
func (a *Agent) accept(name string, seq uint64) (string, error) {
	st := a.disks[name]
	switch {
	case st == nil:
		return "", fmt.Errorf("cannot accept %s: no disk of that name is known; see hotmount plan", name)
	case !st.seen && seq == 0:
		st.tries.failures = 0
		a.wanted(name)
		return name + " is looked at once more", nil
	case seq != 0 && st.facts.Seq != seq:
		return "", fmt.Errorf("cannot accept %s: another disk has that name now; see hotmount plan", name)
	}
	w := policy.Word(&st.facts, st.decision)
	// What the word was taken for is named: since the operator has read what to accept, another disk may have come to
	// the name, or another reason.
	who := st.facts.ID.String()
	if w.Reason != "" {
		c := st.facts.Known()
		why, _ := policy.Words(&st.facts, &c, a.settings, st.decision)
		who += " (" + why + ")"
	}
	if w.Reason == "" && st.tries.stuck == nil && st.decision.Reason != disk.ReasonFormatFailed && st.facts.Standing.Unmounted == "" {
		// What holds with the settings as they are now, before the disk is looked at again.
		d, why := a.decided(&st.facts)
		return "", fmt.Errorf("cannot accept %s: %s: %s", name, d.Action, why)
	}
	if err := a.host.Accept(&st.facts, w); err != nil {
		return "", err
	}
	st.tries.forget()
	// Nobody unmounts it by hand before it is mounted again.
	st.remount = true
	a.wanted(name)
	return who + a.accepted(st, w), nil
}

// accepted returns what comes of the word, as the end of a sentence about the disk.
func (a *Agent) accepted(st *state, w disk.Word) string {
	if w.Reason == "" {
		f := st.facts
		f.Standing.Unmounted, f.Standing.Verdict = "", nil
		if d, why := a.decided(&f); d.Action == disk.Ignore || d.Action == disk.Refuse {
			return " is accepted, and left alone all the same: " + why
		}
	}
	if d := st.decision; d.Type != "" || d.Reason == disk.ReasonReleased || d.Reason == disk.ReasonUnmounted {
		return " is accepted"
	}
	if class := policy.Select(&st.facts, a.settings); class != nil && class.Mode == disk.ModeBlock {
		return " is accepted: it is given out as a block volume, and whoever has that overwrites what is on it, unless it is held for something else as well (hotmount status)"
	}
	return " is accepted: it is formatted if it is proven blank, unless it is held for something else as well (hotmount status)"
}

// decided returns the decision on the facts as they are, and why.
func (a *Agent) decided(f *disk.Facts) (disk.Decision, string) {
	c := f.Known()
	d := policy.Decide(f, &c, a.settings)
	why, _ := policy.Words(f, &c, a.settings, d)
	return d, why
}

// depart has the disk unmounted at the operator's word.
func (a *Agent) depart(name string, seq uint64) (*departure, error) {
	st := a.disks[name]
	switch {
	case st == nil || !st.seen:
		return nil, errors.New("no disk of that name is known; see hotmount plan")
	case seq != 0 && st.facts.Seq != seq:
		return nil, errors.New("another disk has that name now; see hotmount plan")
	case !st.decision.Mounted() && !st.decision.GivenOut() && (st.decision.Action != disk.Ignore || a.path(st) == ""):
		return nil, fmt.Errorf("it is not mounted or given out by hotmount (%s)", st.decision.Reason)
	case a.leaving[a.path(st)] != nil:
		return nil, errors.New("it is being unmounted")
	}
	// Before it is unmounted: nobody may take that for the hand of another.
	if err := a.host.KeepUnmounted(&st.facts, disk.ReasonReleased); err != nil {
		return nil, err
	}
	dep := &departure{facts: st.facts, path: a.path(st), answer: make(chan error, 1)}
	a.leaving[dep.path] = dep
	return dep, nil
}
