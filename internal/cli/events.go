package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/report"
)

// EventMatches returns journalctl's arguments for hotmount's events. If the caller gives disks, UUIDs, classes or
// reasons, only events about the given subjects match. The parameter `classes` contains the names of all classes. Only
// events that root wrote match, because any user may write to the journal.
func EventMatches(which, classes []string) []string {
	matches := []string{"_UID=0"}
	for _, kind := range slices.Sorted(maps.Keys(report.Kinds())) {
		matches = append(matches, "MESSAGE_ID="+string(kind))
	}
	for _, w := range which {
		switch {
		case disk.ValidUUID(strings.ToLower(w)):
			matches = append(matches, "HOTMOUNT_UUID="+strings.ToLower(w))
		case slices.Contains(classes, w):
			matches = append(matches, "HOTMOUNT_CLASS="+w)
		case IsReason(w):
			matches = append(matches, "HOTMOUNT_REASON="+w)
		default: // the name of a disk, which may be gone
			matches = append(matches, "HOTMOUNT_DEVICE=/dev/"+DiskName(w))
		}
	}
	return matches
}

// Event is one entry of the journal, for people and programs.
type Event struct {
	Time time.Time `json:"time"`
	// Kind is the word for the kind of event, as in report.Kinds.
	Kind     string `json:"kind"`
	Priority int    `json:"priority"`
	Device   string `json:"device,omitempty"`
	Seq      uint64 `json:"diskseq,omitempty"`
	Serial   string `json:"serial,omitempty"`
	UUID     string `json:"uuid,omitempty"`
	Class    string `json:"class,omitempty"`
	Decision string `json:"decision,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Unit     string `json:"unit,omitempty"`
	Message  string `json:"message"`
}

// FollowEvents reads the journal through journalctl(1), so that hotmount needs no code for the journal's files, their
// rotation and their permissions.
func FollowEvents(ctx context.Context, matches []string, lines int, follow bool, show func(Event) error) error {
	args := []string{"--quiet", "--no-pager", "--all", "--output=json", "--lines=" + strconv.Itoa(lines)}
	if follow {
		args = append(args, "--follow")
	}
	c := exec.CommandContext(ctx, "/usr/bin/journalctl", append(args, matches...)...)
	c.Env = []string{"LC_ALL=C.UTF-8"}
	// The kernel ends journalctl when the process of this command ends, even if the process is killed.
	c.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGTERM}
	return showEvents(ctx, c, show)
}

// showEvents runs journalctl, and calls the function `show` for each entry.
func showEvents(ctx context.Context, c *exec.Cmd, show func(Event) error) error {
	var words bytes.Buffer
	c.Stderr = &words
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return fmt.Errorf("cannot read the journal: %w", err)
	}
	var showErr error
	for in := json.NewDecoder(out); ; {
		var fields report.Entry
		if err = in.Decode(&fields); err != nil {
			break
		}
		if showErr = show(eventOf(fields)); showErr != nil {
			break
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	} else {
		// With --follow, journalctl does not end by itself.
		_ = c.Process.Kill()
	}
	ended := c.Wait()
	switch {
	case showErr != nil:
		return showErr
	case ctx.Err() != nil:
		return nil // the reader of the output has closed the pipe
	case ended != nil || err != nil:
		return fmt.Errorf("cannot read the journal (only root and members of adm or systemd-journal may): %w: %s", cmp.Or(err, ended), disk.Visible(strings.TrimSpace(words.String())))
	}
	return nil
}

func eventOf(e report.Entry) Event {
	text := e.Text
	micros, _ := strconv.ParseInt(text("__REALTIME_TIMESTAMP"), 10, 64)
	priority, _ := strconv.Atoi(text("PRIORITY"))
	seq, _ := strconv.ParseUint(text("HOTMOUNT_DISKSEQ"), 10, 64)
	return Event{
		Time: time.UnixMicro(micros), Kind: report.Kinds()[report.Kind(text("MESSAGE_ID"))], Priority: priority,
		Device: text("HOTMOUNT_DEVICE"), Seq: seq, Serial: text("HOTMOUNT_SERIAL"), UUID: text("HOTMOUNT_UUID"), Class: text("HOTMOUNT_CLASS"),
		Decision: text("HOTMOUNT_DECISION"), Reason: text("HOTMOUNT_REASON"), Unit: text("OBJECT_SYSTEMD_UNIT"), Message: text("MESSAGE"),
	}
}

// The constants are priorities (syslog(3)): PrintEvent prints errors in red and warnings in yellow.
const (
	priorityError   = 3
	priorityWarning = 4
)

// PrintEvent returns a function that prints an event in a form for people.
func PrintEvent(w io.Writer, colour bool) func(Event) error {
	return func(e Event) error {
		var lines []string
		for line := range strings.SplitSeq(e.Message, "\n") {
			lines = append(lines, disk.Visible(line))
		}
		text := fmt.Sprintf("%s  %-9s  %s", e.Time.Format(time.DateTime), e.Kind, strings.Join(lines, "\n"))
		if colour && e.Priority <= priorityError {
			text = "\x1b[31m" + text + "\x1b[0m"
		} else if colour && e.Priority <= priorityWarning {
			text = "\x1b[33m" + text + "\x1b[0m"
		}
		_, err := fmt.Fprintln(w, text)
		return err
	}
}

// EncodeEvent returns a function that prints an event in a form for programs.
func EncodeEvent(w io.Writer) func(Event) error {
	return func(e Event) error {
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", disk.VisibleJSON(text))
		return err
	}
}
