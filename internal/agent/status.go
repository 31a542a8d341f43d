package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"hotmount/internal/disk"
)

// Each line of status is work for PID 1, which has enough to do when disks come: while there is work it gets one each
// statusEvery, none in the first statusAfter but after a reload, and the last one at once.
const (
	statusEvery = time.Second
	statusAfter = 500 * time.Millisecond
)

// status is what the service manager was told.
type status struct {
	line string
	at   time.Time
	// due is when the next line is, zero if there is none.
	due time.Time
}

// tell returns the reporter the state of the whole, and READY when it is time.
func (a *Agent) tell() {
	line, work := a.statusLine()
	now, s := time.Now(), &a.status
	switch {
	case line == s.line:
		s.due = time.Time{}
	case work && s.due.IsZero():
		if s.due = now.Add(statusAfter); s.due.Before(s.at.Add(statusEvery)) {
			s.due = s.at.Add(statusEvery)
		}
	case !work || !now.Before(s.due):
		*s = status{line: line, at: now}
		a.report.Status(line)
	}
	if !a.ready && (!a.startOpen() || time.Since(a.started) >= a.settings.ReadyTimeout) {
		a.ready = true
		a.report.Ready()
	}
}

// startOpen reports whether a disk that was there at start holds READY back.
func (a *Agent) startOpen() bool {
	for _, st := range a.disks {
		if st.initial {
			return true
		}
	}
	return false
}

// statusLine returns the state of the whole in one line, and whether there is work under way.
func (a *Agent) statusLine() (line string, work bool) {
	var mounted, given, held, refused, failing, left int
	var outstanding, proving []string
	for name, st := range a.disks {
		busy := st.phase.busy()
		switch d := st.decision; {
		case st.tries.stuck != nil, d.Amiss():
			failing++
		case busy && (d.Action == disk.Prove || d.Action == disk.Format):
			proving = append(proving, name)
		case busy || d.Action == disk.Wait:
			outstanding = append(outstanding, name)
		case d.Mounted():
			mounted++
		case d.GivenOut():
			given++
		case d.Action == disk.Hold:
			held++
		case d.Action == disk.Refuse:
			refused++
		}
	}
	for _, dep := range a.leaving {
		if dep.answer == nil && dep.facts.Standing.Link != dep.path {
			left++
		}
	}
	line = fmt.Sprintf("%d mounted, %d held, %d refused, %d failing", mounted, held, refused, failing)
	if given > 0 {
		line += fmt.Sprintf(", %d given out", given)
	}
	if left > 0 {
		line += fmt.Sprintf(", %d gone but still mounted", left)
	}
	if len(outstanding) > 0 {
		slices.Sort(outstanding)
		line += "; working on " + strings.Join(outstanding, ", ")
	}
	if len(proving) > 0 {
		slices.Sort(proving)
		line += "; proving blank, and formatting if so: " + strings.Join(proving, ", ")
	}
	return line, len(outstanding)+len(proving) > 0
}

// around is the look at what is amiss beside single disks.
type around struct {
	wanted, running bool
	reported        []string
}

// startNotices looks around once the disks of the start are dealt with: then none is missing that is only late.
func (a *Agent) startNotices(ctx context.Context) {
	if !a.around.wanted || !a.ready || a.around.running {
		return
	}
	a.around.wanted, a.around.running = false, true
	settings := a.settings
	a.work.Go(func() {
		notices, err := a.host.Notices(settings)
		a.give(ctx, func() { a.noticed(notices, err) })
	})
}

// noticed reports what was not amiss at the last look around.
func (a *Agent) noticed(notices []string, err error) {
	a.around.running = false
	if err != nil {
		a.report.Problem(err)
		return
	}
	for _, n := range notices {
		if !slices.Contains(a.around.reported, n) {
			a.report.Notice(n)
		}
	}
	a.around.reported = notices
}
