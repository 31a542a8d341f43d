package report

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

// Board contains the current line of each disk that concerns hotmount, for hotmount status and for the metrics. Make a
// board with NewBoard. The methods of a Board are safe for concurrent use.
type Board struct {
	mu    sync.Mutex
	lines map[string]disk.Line
	// The map `former` contains the lines that an earlier daemon published in this boot. The key is the name of the
	// disk.
	former  map[string]disk.Line
	changed chan struct{}
	// The map `unselected` contains the disks that were logged because no class selects them. The key is the name of a
	// disk, and the value is its disk sequence number.
	unselected map[string]uint64
}

// NewBoard returns an empty board. The parameter `former` contains the lines that an earlier daemon published in this
// boot. A decision that an earlier daemon already made keeps the date of the former line.
func NewBoard(former []disk.Line) *Board {
	b := &Board{lines: map[string]disk.Line{}, former: map[string]disk.Line{}, changed: make(chan struct{}, 1), unselected: map[string]uint64{}}
	for _, l := range former {
		b.former[l.Disk] = l
	}
	return b
}

// Changed returns a channel. The channel contains a value if the lines may have changed since the last value was read.
func (b *Board) Changed() <-chan struct{} { return b.changed }

// Lines returns a copy of all lines, in the order of the disks' names.
func (b *Board) Lines() []disk.Line {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]disk.Line, 0, len(b.lines))
	for _, name := range slices.Sorted(maps.Keys(b.lines)) {
		all = append(all, b.lines[name])
	}
	return all
}

// Knows reports whether the board has a line for this disk.
func (b *Board) Knows(name string, seq uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	l, ok := b.lines[name]
	return ok && l.Seq == seq
}

// Report updates the board for an event that concerns a disk.
func (b *Board) Report(e disk.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, d := e.Facts, e.Decision
	switch e.Kind {
	case disk.EventDecided:
		if d.Action == disk.Ignore && d.Reason != disk.ReasonUnselected {
			delete(b.lines, f.Name)
		} else {
			b.put(line(e))
		}
	case disk.EventMounted:
		b.put(disk.Line{Disk: f.Name, Seq: f.Seq, Kind: disk.Filesystem, Type: d.Type, UUID: d.UUID, Decision: d, Why: "the disk is mounted at " + e.Path})
	case disk.EventFailed:
		b.failed(e)
	case disk.EventRecovered:
		if l, ok := b.lines[f.Name]; ok && l.Failure != "" {
			l.Failure, l.OfNode, l.Remedy, l.Tries, l.Retry = "", false, "", 0, time.Time{}
			b.lines[f.Name] = l
		}
	case disk.EventGone, disk.EventDisregarded:
		delete(b.lines, f.Name)
	default:
		return
	}
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

func line(e disk.Event) disk.Line {
	short := *e.Content
	short.Evidence = nil
	l := disk.Line{Disk: e.Facts.Name, Seq: e.Facts.Seq, Kind: short.Kind, Type: short.Type, UUID: short.UUID, Decision: e.Decision}
	l.Why, l.Next = policy.Words(e.Facts, &short, e.Settings, e.Decision)
	return l
}

// Repeats reports whether an earlier daemon already logged this refusal or hold in the same words. A restart of the
// daemon is not a reason to log a decision again. A disk that no class selects is logged once in each attachment, even
// if other software uses it from time to time.
func (b *Board) Repeats(e disk.Event) bool {
	d := e.Decision
	switch {
	case e.Kind != disk.EventDecided:
		return false
	case d.Reason == disk.ReasonUnselected:
		return b.wasMentioned(e.Facts)
	case d.Action != disk.Refuse && d.Action != disk.Hold:
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l, former := line(e), b.former[e.Facts.Name]
	return former.Seq == l.Seq && former.Decision == l.Decision && former.Why == l.Why
}

// wasMentioned reports whether the disk was already logged as a disk that no class selects. wasMentioned also records
// that the disk is logged now.
func (b *Board) wasMentioned(f *disk.Facts) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	former, last := b.former[f.Name], b.unselected[f.Name]
	b.unselected[f.Name] = f.Seq
	return last == f.Seq || former.Seq == f.Seq && former.Decision.Reason == disk.ReasonUnselected
}

// The method `put` stores the line of a decision on the board, and keeps the date of an unchanged decision.
func (b *Board) put(l disk.Line) {
	l.Since = time.Now().UTC()
	for _, before := range []disk.Line{b.former[l.Disk], b.lines[l.Disk]} {
		if before.Seq == l.Seq && before.Decision == l.Decision && !before.Since.IsZero() {
			l.Since = before.Since
		}
	}
	delete(b.former, l.Disk)
	b.lines[l.Disk] = l
}

// The method `failed` adds a failure, and the time of the next try, to the line of the disk. If the attachment has no
// line on the board, the failure is ignored: for example, a failed cleanup after a disk was removed. A failure without
// a sequence number is never ignored, because the first look at a disk may fail.
func (b *Board) failed(e disk.Event) {
	f, again := e.Facts, e.Tries
	l, ok := b.lines[f.Name]
	if (!ok || l.Seq != f.Seq) && f.Seq != 0 {
		return
	}
	if !ok {
		l = disk.Line{Disk: f.Name, Kind: disk.Unread, Decision: e.Decision}
	}
	l.Failure, l.Remedy = disk.OneLine(e.Err.Error()), "hotmount tries again; to try at once: "+tryAgain(f, e.Decision)
	l.OfNode, l.Tries, l.Retry = again.OfNode, again.Count, time.Now().UTC().Add(again.Wait).Round(time.Second)
	b.lines[f.Name] = l
}

// tryAgain returns a command that makes hotmount try again at once, but does not lift a hold.
func tryAgain(f *disk.Facts, d disk.Decision) string {
	if d.Reason == "" || d.Action == disk.Hold || d.Action == disk.Refuse {
		return "hotmount rescan"
	}
	return fmt.Sprintf("hotmount accept %s %s", f.Name, d.Reason)
}
