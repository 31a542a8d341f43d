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

// Board keeps the current line of each disk that concerns hotmount, for hotmount status and for the metrics. Make it
// with NewBoard. Its methods are safe for concurrent use.
type Board struct {
	mu    sync.Mutex
	lines map[string]disk.Line
	// former are the lines of an earlier daemon in this boot.
	former  map[string]disk.Line
	changed chan struct{}
	// unselected has the sequence number of the last disk of that name that was logged because no class selects it.
	unselected map[string]uint64
}

// NewBoard makes an empty board. The lines of the earlier daemon date decisions that are made again.
func NewBoard(former []disk.Line) *Board {
	b := &Board{lines: map[string]disk.Line{}, former: map[string]disk.Line{}, changed: make(chan struct{}, 1), unselected: map[string]uint64{}}
	for _, l := range former {
		b.former[l.Disk] = l
	}
	return b
}

// Changed has a value when the lines may have changed since the last one.
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

// Knows reports whether there is a line for this disk.
func (b *Board) Knows(name string, seq uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	l, ok := b.lines[name]
	return ok && l.Seq == seq
}

func (b *Board) change(f func()) {
	b.mu.Lock()
	f()
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// Decided records a decision that differs from the disk's last one.
func (b *Board) Decided(f *disk.Facts, c *disk.Content, s *disk.Settings, d disk.Decision) {
	b.change(func() {
		if d.Action == disk.Ignore && d.Reason != disk.ReasonUnselected {
			delete(b.lines, f.Name)
			return
		}
		b.put(line(f, c, s, d))
	})
}

func line(f *disk.Facts, c *disk.Content, s *disk.Settings, d disk.Decision) disk.Line {
	short := *c
	short.Evidence = nil
	l := disk.Line{Disk: f.Name, Seq: f.Seq, Kind: c.Kind, Type: c.Type, UUID: c.UUID, Decision: d}
	l.Why, l.Next = policy.Words(f, &short, s, d)
	return l
}

// Repeats reports whether the earlier daemon logged this refusal or hold in the same words. A restart is no reason to
// log it again. A disk that no class selects is logged once an attachment, even if others use it now and then.
func (b *Board) Repeats(f *disk.Facts, c *disk.Content, s *disk.Settings, d disk.Decision) bool {
	if d.Reason == disk.ReasonUnselected {
		return b.mentioned(f)
	}
	if d.Action != disk.Refuse && d.Action != disk.Hold {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l, former := line(f, c, s, d), b.former[f.Name]
	return former.Seq == l.Seq && former.Decision == l.Decision && former.Why == l.Why
}

// mentioned reports whether the disk was logged as one that no class selects, and records that it is now.
func (b *Board) mentioned(f *disk.Facts) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	former, last := b.former[f.Name], b.unselected[f.Name]
	b.unselected[f.Name] = f.Seq
	return last == f.Seq || former.Seq == f.Seq && former.Decision.Reason == disk.ReasonUnselected
}

// put records the line of a decision. An unchanged decision keeps its date.
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

// Mounted records a mount that the mount table shows.
func (b *Board) Mounted(f *disk.Facts, d disk.Decision, path string) {
	b.change(func() {
		b.put(disk.Line{Disk: f.Name, Seq: f.Seq, Kind: disk.Filesystem, Type: d.Type, UUID: d.UUID, Decision: d, Why: "it is mounted at " + path})
	})
}

// Failed records a failure and when it is tried again. A failure about what remains of a removed disk gets a line only
// if there is one.
func (b *Board) Failed(f *disk.Facts, d disk.Decision, err error, again disk.Tries) {
	b.change(func() {
		l, ok := b.lines[f.Name]
		if (!ok || l.Seq != f.Seq) && f.Seq != 0 {
			return
		}
		if !ok {
			l = disk.Line{Disk: f.Name, Kind: disk.Unread, Decision: d}
		}
		l.Failure, l.Remedy = disk.OneLine(err.Error()), "it is tried again; to have that done at once: "+tryAgain(f, d)
		l.OfNode, l.Tries, l.Retry = again.OfNode, again.Count, time.Now().UTC().Add(again.Wait).Round(time.Second)
		b.lines[f.Name] = l
	})
}

// tryAgain returns the command that tries again and lifts no hold.
func tryAgain(f *disk.Facts, d disk.Decision) string {
	if d.Reason == "" || d.Action == disk.Hold || d.Action == disk.Refuse {
		return "hotmount rescan"
	}
	return fmt.Sprintf("hotmount accept %s %s", f.Name, d.Reason)
}

// Recovered records that the last failure is over.
func (b *Board) Recovered(f *disk.Facts) {
	b.change(func() {
		if l, ok := b.lines[f.Name]; ok && l.Failure != "" {
			l.Failure, l.OfNode, l.Remedy, l.Tries, l.Retry = "", false, "", 0, time.Time{}
			b.lines[f.Name] = l
		}
	})
}

// Gone records that a disk was detached.
func (b *Board) Gone(f *disk.Facts) {
	b.change(func() { delete(b.lines, f.Name) })
}
