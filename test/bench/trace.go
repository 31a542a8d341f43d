package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// trace is an instance of the kernel's tracer. The bench program on the host, not the program in the container, owns
// the tracer's instance.
type trace struct {
	tracefs *os.File // a detached mount, which the kernel removes when the file is closed
	dir     string
}

// The constant `instance` is the name of the tracer instance. The next run reuses an instance that a killed run has
// left.
const instance = "hotmount-bench"

// The map `traced` maps each traced event to its filter. The trace shows wake-ups of PID 1, forks of PID 1, and starts
// of processes. The trace lacks the names of some processes that ran before the trace began. The event sched_switch
// gives the names of the processes that ask PID 1 for a mount.
var traced = map[string]string{
	"sched/sched_waking":       `comm == "systemd"`,
	"sched/sched_process_fork": `parent_comm == "systemd"`,
	"sched/sched_process_exec": "",
	"sched/sched_switch":       `next_comm == "hotmount" || next_comm == "systemd-mount"`,
}

func newTrace() (*trace, error) {
	config, err := unix.Fsopen("tracefs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fsopen(2): %w", err)
	}
	defer unix.Close(config)
	if err := unix.FsconfigCreate(config); err != nil {
		return nil, fmt.Errorf("fsconfig(2): %w", err)
	}
	fd, err := unix.Fsmount(config, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("fsmount(2): %w", err)
	}
	t := &trace{tracefs: os.NewFile(uintptr(fd), "tracefs")}
	t.dir = fmt.Sprintf("/proc/self/fd/%d/instances/%s", fd, instance)
	if err := t.begin(); err != nil {
		return nil, errors.Join(err, t.remove())
	}
	return t, nil
}

func (t *trace) begin() error {
	if err := os.Mkdir(t.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	settings := [][2]string{{"tracing_on", "0"}, {"trace_clock", "mono"}, {"buffer_size_kb", "16384"}, {"trace", ""}}
	for event, filter := range traced {
		if filter != "" {
			settings = append(settings, [2]string{"events/" + event + "/filter", filter})
		}
		settings = append(settings, [2]string{"events/" + event + "/enable", "1"})
	}
	for _, s := range append(settings, [2]string{"tracing_on", "1"}) {
		if err := os.WriteFile(filepath.Join(t.dir, s[0]), []byte(s[1]), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// The method `end` ends the trace and returns its events.
func (t *trace) end() (events []traceEvent, err error) {
	defer func() { err = errors.Join(err, t.remove()) }()
	if err := os.WriteFile(filepath.Join(t.dir, "tracing_on"), []byte("0"), 0o600); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(t.dir, "trace"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseTrace(f)
}

func (t *trace) remove() error {
	err := os.Remove(t.dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, t.tracefs.Close())
}

// traceEvent is one line of a trace.
type traceEvent struct {
	at   float64 // CLOCK_MONOTONIC in milliseconds
	pid  string  // PID of the thread that ran
	name string
	text string // the text after the event's name
}

// traceLine matches a line in the format of the kernel's Documentation/trace/ftrace.rst.
var traceLine = regexp.MustCompile(`^\s*.+-(\d+)\s+\[\d+\]\s+\S+\s+([\d.]+): (\w+): (.*)$`)

func parseTrace(from io.Reader) ([]traceEvent, error) {
	var all []traceEvent
	s := bufio.NewScanner(from)
	for s.Scan() {
		m := traceLine.FindStringSubmatch(s.Text())
		if m == nil {
			continue // a comment, or an event of another kind
		}
		seconds, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return nil, fmt.Errorf("cannot read the trace's line %q: %w", s.Text(), err)
		}
		all = append(all, traceEvent{seconds * 1000, m[1], m[3], m[4]})
	}
	return all, s.Err()
}

// The method `field` returns the value of an event's field, such as child_pid of sched_process_fork.
func (e traceEvent) field(name string) string {
	_, rest, _ := strings.Cut(" "+e.text, " "+name+"=")
	value, _, _ := strings.Cut(rest, " ")
	return value
}
