package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"hotmount/internal/disk"
)

// The least time between two lines of status while there is work, and how long that takes
// before it is told.
const (
	statusEvery = time.Second
	statusAfter = 500 * time.Millisecond
)

// noticed reports what was not amiss at the last look around.
func (a *Agent) noticed(notices []string, err error) {
	a.noticing = false
	if err != nil {
		a.report.Problem(err)
		return
	}
	for _, n := range notices {
		if !slices.Contains(a.notices, n) {
			a.report.Notice(n)
		}
	}
	a.notices = notices
}

// tell gives the reporter the state of the whole, and READY when it is time.
func (a *Agent) tell() {
	var mounted, given, held, refused, failing, left int
	var open bool
	var outstanding, proving []string
	for name, st := range a.disks {
		open = open || st.initial
		switch {
		case st.stuck != nil, st.decision.Amiss():
			failing++
		case st.busy && (st.decision.Action == disk.Prove || st.decision.Action == disk.Format):
			proving = append(proving, name)
		case st.busy || st.decision.Action == disk.Wait:
			outstanding = append(outstanding, name)
		case st.decision.Mounted():
			mounted++
		case st.decision.GivenOut():
			given++
		case st.decision.Action == disk.Hold:
			held++
		case st.decision.Action == disk.Refuse:
			refused++
		}
	}
	for _, dep := range a.leaving {
		if dep.answer == nil && dep.facts.Standing.Link != dep.path {
			left++
		}
	}
	text := fmt.Sprintf("%d mounted, %d held, %d refused, %d failing", mounted, held, refused, failing)
	if given > 0 {
		text += fmt.Sprintf(", %d given out", given)
	}
	if left > 0 {
		text += fmt.Sprintf(", %d gone but still mounted", left)
	}
	if len(outstanding) > 0 {
		slices.Sort(outstanding)
		text += "; working on " + strings.Join(outstanding, ", ")
	}
	if len(proving) > 0 {
		slices.Sort(proving)
		text += "; proving blank, and formatting if so: " + strings.Join(proving, ", ")
	}
	// Each line is work for PID 1, which has enough to do when disks come: while there is
	// work it gets one a second, none at first but after a reload, and the last one at once.
	now, work := time.Now(), len(outstanding)+len(proving) > 0
	switch {
	case text == a.lastLine:
		a.untold = time.Time{}
	case work && a.untold.IsZero():
		if a.untold = now.Add(statusAfter); a.untold.Before(a.told.Add(statusEvery)) {
			a.untold = a.told.Add(statusEvery)
		}
	case !work || !now.Before(a.untold):
		a.untold = time.Time{}
		a.lastLine, a.told = text, now
		a.report.Status(text)
	}
	if !a.ready && (!open || time.Since(a.started) >= a.settings.ReadyTimeout) {
		a.ready = true
		a.report.Ready()
	}
}
