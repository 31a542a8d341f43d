// Package report reports hotmount's work to people and to the service manager. Package report writes to the journal,
// or to standard error, and notifies the service manager with sd_notify(3).
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/coreos/go-systemd/v22/journal"
	"github.com/coreos/go-systemd/v22/unit"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

// Kind is the MESSAGE_ID of a kind of event (systemd.journal-fields(7)). The value comes from `systemd-id128 new` and
// never changes.
type Kind string

// The kinds of events. The journal's catalog (packaging/catalog) explains each kind.
const (
	KindSeen      Kind = "1a5fdbd3a9e44bcf857513f51e889e21"
	KindDecided   Kind = "8d257cf62e324ae2818900eb75c8833f"
	KindHeld      Kind = "bd4ed046df54461e81253de17d379121"
	KindAmiss     Kind = "3fc8a617b3684aaa83d78586e3c76c08"
	KindRefused   Kind = "f6069dd09fe94626a9bcd1a791130da9"
	KindProven    Kind = "7f256a91fea2447dab04adb584de3e55"
	KindFormatted Kind = "3d02a53f47f844f790341d3bb1afb1ad"
	KindGrown     Kind = "dafa3840c4c24aac8829ab90ba6cf8fe"
	KindGivenOut  Kind = "714a872467334d608ea50a741a74156f"
	KindTrimmed   Kind = "6b61b43dd3b843da99bad8e53abe52dc"
	KindMounted   Kind = "a9f0438d20a54cb2b5788042a7b0bdad"
	KindFailed    Kind = "db5193068a5b444e89220b40468456ec"
	KindBounced   Kind = "a9d874880dcf4ca5b63448e9799abcce"
	KindGone      Kind = "ba183a4a7423409c92799d952cdf0ad5"
	KindRescan    Kind = "65c06bbaf47c4ee9979344507a34808d"
	KindNotice    Kind = "7774f65c32334b598892bb9e718beec8"
	KindProblem   Kind = "668e8644ecc84d45b43580c03a0d0612"
)

// Kinds maps each kind of event to a word for people and scripts.
func Kinds() map[Kind]string {
	return map[Kind]string{
		KindSeen: "seen", KindDecided: "decided", KindHeld: "held", KindAmiss: "amiss", KindRefused: "refused", KindProven: "proven", KindFormatted: "formatted",
		KindGrown: "grown", KindGivenOut: "given-out", KindTrimmed: "trimmed", KindMounted: "mounted", KindFailed: "failed", KindBounced: "bounced", KindGone: "gone",
		KindRescan: "rescan", KindNotice: "notice", KindProblem: "problem",
	}
}

// Log writes events to the journal by the journal's native protocol. Without a journal, Log writes text or JSON.
type Log struct {
	text io.Writer // nil if the log is the journal
	json bool      // one JSON object per line instead of text
	// The field `socket` is the socket that tests use in place of journalSocket. Outside of tests, the field is empty.
	socket string

	mu sync.Mutex
	// The field `journald` is the connection to journald, or nil before the first connection.
	journald *net.UnixConn
	// The field `stuck` reports whether journald failed to read the last entry in time. lostEntries is the number of lost
	// entries that the log has not reported yet.
	stuck       bool
	lostEntries int
}

// Formats are the formats that NewAs accepts.
var Formats = []string{"auto", "text", "json"}

// New returns a log for this process. If standard error is connected to the journal (JOURNAL_STREAM in
// systemd.exec(5)), the log writes to the journal. Otherwise, the log writes text to standard error.
func New() *Log {
	if native, err := journal.StderrIsJournalStream(); err == nil && native && journal.Enabled() {
		return &Log{}
	}
	return &Log{text: os.Stderr}
}

// NewAs returns a log of the given format. For the format "auto", NewAs returns the same log as the function New. The
// formats "text" and "json" write to standard error, even under the journal. NewAs returns an error if the format is
// not one of Formats.
func NewAs(format string) (*Log, error) {
	switch format {
	case "auto":
		return New(), nil
	case "text", "json":
		return &Log{text: os.Stderr, json: format == "json"}, nil
	}
	return nil, fmt.Errorf("cannot write the log in the format %q: use %s", disk.Visible(format), strings.Join(Formats, ", "))
}

// Event writes one event. The parameter `f` is the disk, or nil if the event concerns no disk. The parameter `path` is a
// mount point, and the event belongs to the mount unit of this mount point. If path is empty, the event belongs to no
// mount unit. The caller must escape foreign bytes in the message (disk.Visible).
func (l *Log) Event(kind Kind, p journal.Priority, f *disk.Facts, d disk.Decision, path, message string) {
	fields := map[string]string{"MESSAGE_ID": string(kind)}
	if f != nil {
		fields["HOTMOUNT_DEVICE"] = f.Node()
		fields["HOTMOUNT_DISKSEQ"] = strconv.FormatUint(f.DiskSeq(), 10)
		fields["HOTMOUNT_SERIAL"] = disk.Visible(f.Serial)
		fields["HOTMOUNT_DECISION"] = string(d.Action)
		fields["HOTMOUNT_REASON"] = string(d.Reason)
		fields["HOTMOUNT_CLASS"] = d.Class
		fields["HOTMOUNT_UUID"] = d.UUID
	}
	if path != "" {
		// With the field OBJECT_SYSTEMD_UNIT, `journalctl -u UNIT` shows the entry (systemd.journal-fields(7)).
		fields["OBJECT_SYSTEMD_UNIT"] = unit.UnitNamePathEscape(path) + ".mount"
	}
	for k, v := range fields {
		if v == "" {
			delete(fields, k)
		}
	}
	fields["MESSAGE"], fields["PRIORITY"] = message, strconv.Itoa(int(p))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lostEntries > 0 {
		if l.write(map[string]string{
			"MESSAGE_ID": string(KindProblem), "PRIORITY": strconv.Itoa(int(journal.PriErr)),
			"MESSAGE": fmt.Sprintf("the journal lacks %d entries of hotmount, because journald did not read these entries; to see the disks: hotmount status", l.lostEntries),
		}) == nil {
			l.lostEntries = 0
		}
	}
	if l.write(fields) != nil {
		l.lostEntries++
	}
}

// The method `write` sends one entry to the journal, or writes the entry as a line of text or JSON to l.text. If the
// journal fails, the line goes to standard error.
func (l *Log) write(fields map[string]string) error {
	if l.text == nil {
		if err := l.send(fields); err == nil {
			return nil
		}
	}
	line := fields["MESSAGE"]
	if l.json {
		fields["KIND"] = Kinds()[Kind(fields["MESSAGE_ID"])]
		fields["TIME"] = time.Now().UTC().Format(time.RFC3339Nano)
		object := map[string]string{}
		for k, v := range fields {
			object[strings.ToLower(strings.TrimPrefix(k, "HOTMOUNT_"))] = v
		}
		// The error is ignored, because a map of strings can always be encoded as JSON.
		text, _ := json.Marshal(object)
		line = string(disk.VisibleJSON(text))
	}
	if l.text == nil || l.text == io.Writer(os.Stderr) {
		return toStderr(line + "\n")
	}
	_, err := io.WriteString(l.text, line+"\n")
	return err
}

// Name returns the name of a disk as messages show it.
func Name(f *disk.Facts) string {
	s := f.Node()
	if f.MapperName != "" {
		s += fmt.Sprintf(" (%s, %s)", disk.Visible(f.MapperName), disk.HumanSize(f.Size))
	} else if f.Serial != "" {
		s += fmt.Sprintf(" (serial %s, %s)", disk.Visible(f.Serial), disk.HumanSize(f.Size))
	} else {
		s += fmt.Sprintf(" (no serial, %s)", disk.HumanSize(f.Size))
	}
	return s
}

// Report reports an event of the daemon's loop. Report does not log decisions with disk.ReasonNoClass, or failures that
// the journal already contains.
func (l *Log) Report(e disk.Event) {
	f, d, at := e.Facts, e.Decision, e.Path
	switch e.Kind {
	case disk.EventDecided:
		if d.Reason != disk.ReasonNoClass { // hotmount plan shows the disks that no class selects
			l.logDecision(e)
		}
	case disk.EventMounted:
		l.Event(KindMounted, journal.PriNotice, f, d, at, fmt.Sprintf("%s: mounted %s %s at %s", Name(f), d.Type, d.UUID, at))
	case disk.EventFailed:
		if e.Tries.Quiet {
			return
		}
		message := fmt.Sprintf("%s: %s; next try in %s", Name(f), disk.OneLine(e.Err.Error()), e.Tries.Wait.Round(100*time.Millisecond))
		if e.Tries.Count > 1 {
			message += fmt.Sprintf(" (failed %d times so far)", e.Tries.Count)
		}
		l.Event(KindFailed, journal.PriErr, f, d, at, message)
	case disk.EventGone:
		message := Name(f) + ": gone"
		switch {
		case at != "" && at == f.Standing.Link:
			message += "; the disk was given out at " + at
			at = "" // the path of a block volume's link belongs to no mount unit
		case at != "":
			message += "; the disk was mounted at " + at
		}
		l.Event(KindGone, journal.PriNotice, f, disk.Decision{UUID: uuidOf(at)}, at, message)
	case disk.EventBounced:
		l.Event(KindBounced, journal.PriNotice, f, disk.Decision{Action: disk.Mount, UUID: uuidOf(at)}, at, Name(f)+": systemd unmounted the disk for a soft reboot, or because systemd considered the disk unplugged; hotmount mounts the disk again")
	case disk.EventNotice:
		l.Event(KindNotice, journal.PriWarning, nil, d, "", e.Notice)
	case disk.EventProblem:
		l.Problem(e.Err)
	}
}

func (l *Log) logDecision(e disk.Event) {
	d := e.Decision
	why, next := policy.Words(e.Facts, e.Content, e.Settings, d)
	message := fmt.Sprintf("%s: %s: %s", Name(e.Facts), d.Action, why)
	if next != "" {
		message += "; " + next
	}
	kind := KindDecided
	switch {
	case d.RisksData():
		kind = KindAmiss
	case d.Action == disk.Refuse:
		kind = KindRefused
	case d.Action == disk.Hold:
		kind = KindHeld
	}
	where := ""
	if c := e.Settings.Class(d.Class); c != nil && d.UUID != "" && (d.Action == disk.Mount || d.Mounted()) {
		where = c.MountPoint(d.UUID)
	}
	l.Event(kind, journal.Priority(policy.Priority(d)), e.Facts, d, where, message)
}

// uuidOf returns the UUID that is the name of the mount point, or "" if the name is not a UUID.
func uuidOf(mountPoint string) string {
	if name := path.Base(mountPoint); disk.ValidUUID(name) {
		return name
	}
	return ""
}

// Rescan reports that hotmount looks at all disks, for the given cause, such as lost udev events.
func (l *Log) Rescan(cause string) {
	l.Event(KindRescan, journal.PriInfo, nil, disk.Decision{}, "", "looking at all disks: "+disk.OneLine(cause))
}

// Problem reports an error that concerns no single disk. Problem does nothing if err is nil.
func (l *Log) Problem(err error) {
	if err != nil {
		l.Event(KindProblem, journal.PriErr, nil, disk.Decision{}, "", disk.OneLine(err.Error()))
	}
}

// Notify passes one state to the service manager (sd_notify(3)).
func (l *Log) Notify(state string) {
	if _, err := daemon.SdNotify(false, disk.OneLine(state)); err != nil {
		l.Problem(fmt.Errorf("cannot notify the service manager: %w", err))
	}
}
