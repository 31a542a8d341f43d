package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/policy/identity"
)

// ErrBrake reports that too many disks were formatted in a short time.
var ErrBrake = errors.New("too many disks were formatted in a short time")

// historySize and evidenceSize are in bytes. If a new line would make the history larger than historySize, hotmount
// keeps only the newest records, up to half of historySize. A record contains at most evidenceSize of evidence, and at
// most evidenceSize of text about its failure. A full history contains more than 256 records, and 256 is the largest
// format_limit.
const (
	historySize  = 3 << 20
	evidenceSize = 2 << 10
)

// The type `entry` is one line of history.jsonl. An entry is the beginning of a format, the end of a format, or a notice.
// Noticed is the time at which hotmount noticed that earlier lines have times in the future.
type entry struct {
	Version int          `json:"version"`
	Begin   *disk.Record `json:"begin,omitempty"`
	End     *ending      `json:"end,omitempty"`
	Noticed time.Time    `json:"noticed,omitzero"`
}

// The type `ending` is the result of a format. An ending completes the last record with the same UUID.
type ending struct {
	UUID    string    `json:"uuid"`
	Ended   time.Time `json:"ended"`
	Failure string    `json:"failure,omitempty"`
}

// History returns the records of this node's formats, the oldest first.
func (s Store) History() ([]disk.Record, error) {
	data, err := readFile(s.historyFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the history: %w", err)
	}
	all, _, err := parseHistory(data)
	if err != nil {
		return nil, damaged(s.historyFile(), err, "begin a new file", "hotmount rescan")
	}
	return all, nil
}

// parseHistory returns the records. The result `whole` is the number of bytes in complete lines. An incomplete or
// unreadable last line is not a record. hotmount syncs the beginning of a format before the format writes to a disk.
// The format of an incomplete beginning therefore never wrote to a disk.
func parseHistory(data []byte) (all []disk.Record, whole int, err error) {
	for rest := data; len(rest) > 0; {
		n := bytes.IndexByte(rest, '\n') + 1
		if n == 0 {
			break
		}
		var e entry
		if err := json.Unmarshal(rest[:n], &e); err != nil {
			if n == len(rest) {
				break
			}
			return nil, 0, fmt.Errorf("the line at byte %d: %w", whole, err)
		}
		if e.Version != version {
			return nil, 0, fmt.Errorf("the line at byte %d has version %d, but this hotmount knows version %d", whole, e.Version, version)
		}
		if e.Begin != nil {
			all = append(all, *e.Begin)
		}
		if e.End != nil {
			e.End.close(all)
		}
		if !e.Noticed.IsZero() {
			futureAt(all, e.Noticed)
		}
		rest, whole = rest[n:], whole+n
	}
	return all, whole, nil
}

// futureFrom is the tolerance for recorded times in the future. A correct clock can show an earlier time than a record,
// because an adjustment may set the clock back a little. A recorded time that is more than futureFrom in the future
// shows that the clock was wrong.
const futureFrom = time.Minute

// futureAt sets Noticed in the records whose time is later than now by more than futureFrom. futureAt returns the
// number of changed records.
func futureAt(all []disk.Record, now time.Time) (count int) {
	for i := range all {
		if all[i].Time(now).After(now.Add(futureFrom)) {
			all[i].Noticed = now
			count++
		}
	}
	return count
}

// NoticeFuture adds a notice if the history has records with times in the future, and returns the number of these
// records. A later call counts the same records again only if the clock was set back in between. The clock was wrong
// when these records were written, or is wrong now. Without the notice, a record with a time in the future would count
// towards format_limit at least until that time.
func (s Store) NoticeFuture() (count int, err error) {
	all, err := s.History()
	now := time.Now().UTC().Round(0) // read the clock after the history, because another process may begin a format during the read
	if count = futureAt(all, now); err != nil || count == 0 {
		return 0, nil // Load reports the error of an unreadable history
	}
	return count, s.append(func([]disk.Record) (entry, error) { return entry{Noticed: now}, nil })
}

func (e *ending) close(all []disk.Record) {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].UUID == e.UUID {
			all[i].Ended, all[i].Failure = e.Ended, e.Failure
			return
		}
	}
}

// Format is the durable record of one format that is about to begin. Format implements format.Intents. Format is not
// safe for use by several goroutines at once.
type Format struct {
	Store Store
	// Record is the record of the format. Begin fills in the times of the record.
	Record disk.Record
	// Limit is the maximum number of disks that may be formatted within Period, or 0 for no limit.
	Limit  int
	Period time.Duration
	// Attached reports whether a disk with that sequence number is or may be attached. If Attached is nil, no disk
	// counts as attached.
	Attached func(seq uint64) bool

	// The field `open` is true while the record has a beginning but no end.
	open bool
}

// Begin records the beginning of the format in the history, and then records the intent. If Begin returns nil, the
// history and the intent survive a power cut. If the limit is reached, the error wraps ErrBrake. Begin takes a lock, so
// that several processes together cannot exceed the limit. Begin also returns an error if an unfinished format of the
// same disk has begun on another path.
func (f *Format) Begin(i disk.Intent) error {
	err := f.Store.begin(f)
	if err == nil {
		f.open = true
		err = f.Store.begins(i, f.Attached)
	}
	return err
}

// Amend replaces the recorded intent with the changed intent. If Amend returns nil, the changed intent survives a power
// cut.
func (f *Format) Amend(i disk.Intent) error { return f.Store.Begin(i) }

// End records the result of the format, and then removes the intent. After a crash between the two steps of End,
// hotmount examines the disk again.
func (f *Format) End(uuid string, failure error) error {
	f.open = false
	return f.Store.EndFormat(uuid, failure)
}

// Close records the failure of a format that has a beginning but no end. Close does not remove the intent of the
// format.
func (f *Format) Close(failure error) error {
	if !f.open {
		return nil
	}
	f.open = false
	return f.Store.close(f.Record.UUID, failure)
}

// EndFormat records the result of the last format with that UUID, and removes the format's intent. The parameter
// failure is nil if the filesystem was made.
func (s Store) EndFormat(uuid string, failure error) error {
	if err := s.close(uuid, failure); err != nil {
		return err
	}
	return s.End(uuid)
}

func (s Store) close(uuid string, failure error) error {
	e := ending{UUID: uuid, Ended: time.Now().UTC().Round(0)}
	if failure != nil {
		e.Failure = truncate(failure.Error(), evidenceSize)
	}
	return s.append(func([]disk.Record) (entry, error) { return entry{End: &e}, nil })
}

func (s Store) begin(f *Format) error {
	return s.append(func(all []disk.Record) (entry, error) {
		r := f.Record
		r.Begun, r.Ended, r.Failure = time.Now().UTC().Round(0), time.Time{}, ""
		r.Evidence = bounded(r.Evidence)
		recent := slices.DeleteFunc(slices.Clone(all), func(old disk.Record) bool { return r.Begun.Sub(old.Time(r.Begun)) >= f.Period })
		count := len(identity.Formatted(append(recent, r))) - 1
		if f.Limit > 0 && count >= f.Limit {
			return entry{}, fmt.Errorf("%w: %d within %s", ErrBrake, count, f.Period)
		}
		return entry{Begin: &r}, nil
	})
}

// The method `append` adds a line to the history and syncs the file. The function `next` makes the new line from the
// current records.
func (s Store) append(next func([]disk.Record) (entry, error)) error {
	err := s.locked(func() error { return s.appendLocked(next) })
	if errors.Is(err, ErrBrake) {
		return err
	}
	return wrap(err, "cannot record the format in the history")
}

// appendLocked replaces the whole file, so that a crash leaves no incomplete line.
func (s Store) appendLocked(next func([]disk.Record) (entry, error)) error {
	data, err := readFile(s.historyFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.failed(err)
	}
	all, whole, err := parseHistory(data)
	if err != nil {
		return err
	}
	e, err := next(all)
	if err != nil {
		return err
	}
	e.Version = version
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	kept := data[:whole]
	if whole+len(text) >= historySize {
		if kept, err = newest(all); err != nil {
			return err
		}
	}
	return s.failed(s.WithReserve(func() error { return replace(s.historyFile(), slices.Concat(kept, text, []byte("\n")), true) }))
}

// The function `newest` returns the newest records that fit into half of historySize, as lines of the history.
func newest(all []disk.Record) ([]byte, error) {
	var lines []byte
	for i := range slices.Backward(all) {
		line, err := json.Marshal(entry{Version: version, Begin: &all[i]})
		if err != nil {
			return nil, err
		}
		if len(lines)+len(line) > historySize/2 {
			break
		}
		lines = slices.Concat(line, []byte("\n"), lines)
	}
	return lines, nil
}

// The function `bounded` shortens the evidence to the first lines that fit into evidenceSize.
func bounded(evidence []string) []string {
	kept, size := []string{}, 0
	for i, line := range evidence {
		line = truncate(line, 512)
		if size += len(line); size > evidenceSize {
			return append(kept, fmt.Sprintf("… and %d more", len(evidence)-i))
		}
		kept = append(kept, line)
	}
	return kept
}

func truncate(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

func (s Store) historyFile() string { return filepath.Join(s.State, "history.jsonl") }
