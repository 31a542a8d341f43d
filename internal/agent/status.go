package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"hotmount/internal/disk"
)

// Each status line is work for PID 1, and PID 1 is busy when disks come. While the agent works, it sends at most one
// status line per statusEvery. When work begins, the agent waits for statusAfter before it sends a status line, except
// after a reload. When the work ends, the agent sends the new status line at once.
const (
	statusEvery = time.Second
	statusAfter = 500 * time.Millisecond
)

// status is the newest status line that was sent to the service manager.
type status struct {
	line string
	at   time.Time
	// The field `due` is the time at which the next status line is due, or zero if no line is due.
	due time.Time
}

// sendStatus sends the overall state to the reporter, and READY when the agent is ready.
func (a *Agent) sendStatus() {
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
		a.report.Notify(StatusIs + line)
	}
	if !a.ready && (!a.startOpen() || time.Since(a.started) >= a.settings.ReadyTimeout) {
		a.ready = true
		a.report.Notify(Ready)
	}
}

// startOpen reports whether a disk that was present at start delays READY.
func (a *Agent) startOpen() bool {
	for _, st := range a.disks {
		if st.initial {
			return true
		}
	}
	return false
}

// statusLine returns the overall state in one line, and whether work is running.
func (a *Agent) statusLine() (line string, work bool) {
	var mounted, given, held, refused, failing, left int
	var outstanding, proving []string
	for name, st := range a.disks {
		busy := st.phase.busy()
		switch d := st.decision; {
		case st.tries.failedFacts != nil, d.RisksData():
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
		if dep.answer == nil && !dep.leftover && dep.facts.Standing.Link != dep.path {
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
	if a.settings.Fault != "" {
		line += "; the configuration has a fault, and only disks on record are used"
	}
	if len(outstanding) > 0 {
		slices.Sort(outstanding)
		line += "; working on " + strings.Join(outstanding, ", ")
	}
	if len(proving) > 0 {
		slices.Sort(proving)
		line += "; proving that these disks are blank: " + strings.Join(proving, ", ")
	}
	return line, len(outstanding)+len(proving) > 0
}

// noticeSearch is the state of the search for problems that do not concern an attached disk.
type noticeSearch struct {
	wanted, running bool
	reported        []string
}

// startNotices starts the search for problems, but not before READY was sent. Before READY, a disk can seem to be
// missing because the agent has not handled it yet.
func (a *Agent) startNotices(ctx context.Context) {
	if !a.noticeSearch.wanted || !a.ready || a.noticeSearch.running {
		return
	}
	a.noticeSearch.wanted, a.noticeSearch.running = false, true
	settings := a.settings
	a.work.Go(func() {
		notices, err := a.host.Notices(settings)
		a.give(ctx, func() { a.reportNewNotices(notices, err) })
	})
}

// reportNewNotices reports those problems that the previous search did not find.
func (a *Agent) reportNewNotices(notices []string, err error) {
	a.noticeSearch.running = false
	if err != nil {
		a.problem(err)
		return
	}
	for _, n := range notices {
		if !slices.Contains(a.noticeSearch.reported, n) {
			a.report.Report(disk.Event{Kind: disk.EventNotice, Notice: n})
		}
	}
	a.noticeSearch.reported = notices
}
