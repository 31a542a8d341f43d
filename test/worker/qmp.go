package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Event is an event from QEMU.
type Event struct {
	Name string          `json:"event"`
	Data json.RawMessage `json:"data"`
}

// QMPError is the error with which QEMU answers a command.
type QMPError struct {
	Command string
	Class   string
	Desc    string
}

func (e *QMPError) Error() string {
	return fmt.Sprintf("QEMU refuses %s: %s (%s)", e.Command, e.Desc, e.Class)
}

// qmp is the only client of the monitor of a QEMU process.
type qmp struct {
	conn *net.UnixConn
	log  io.Writer // has one line for each message; is only written while mu is held
	done chan struct{}

	mu      sync.Mutex
	nextID  int
	pending map[int]chan qmpMessage
	waiters []*eventWaiter
	err     error // why the reading goroutine ended; valid once the channel `done` is closed
}

// qmpMessage is any message that QEMU's monitor sends.
type qmpMessage struct {
	Greeting json.RawMessage `json:"QMP"`
	ID       *int            `json:"id"`
	Return   json.RawMessage `json:"return"`
	Error    *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
	Event
}

// eventWaiter waits for the first event for which match() returns true.
type eventWaiter struct {
	match func(Event) bool
	got   chan Event // buffered, so that the reading goroutine never waits
}

// newQMP starts a monitor client on the connection conn, which the client closes. The client logs all messages in both
// directions.
func newQMP(ctx context.Context, conn *net.UnixConn, log io.Writer) (*qmp, error) {
	q := &qmp{conn: conn, log: log, done: make(chan struct{}), pending: map[int]chan qmpMessage{}}
	greeting := make(chan struct{})
	go q.read(greeting) // the goroutine ends when the connection ends; close() waits for the goroutine
	select {
	case <-greeting:
	case <-q.done:
		return nil, fmt.Errorf("cannot greet QEMU: %w", q.err)
	case <-ctx.Done():
		q.close()
		return nil, fmt.Errorf("cannot greet QEMU: %w", ctx.Err())
	}
	if _, err := q.execute(ctx, "qmp_capabilities", nil); err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

// The method `close` ends the connection to the monitor and waits for the end of the reading goroutine.
func (q *qmp) close() {
	_ = q.conn.Close()
	<-q.done
}

func (q *qmp) read(greeting chan<- struct{}) {
	defer close(q.done)
	dec := json.NewDecoder(q.conn)
	for {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		var m qmpMessage
		if err == nil {
			err = json.Unmarshal(raw, &m)
		}
		q.mu.Lock()
		if err != nil {
			q.err = fmt.Errorf("the monitor is closed: %w", err)
			q.waiters, q.pending = nil, nil
			q.mu.Unlock()
			return
		}
		q.logLine("<-", raw)
		q.dispatch(m, greeting)
		q.mu.Unlock()
	}
}

// The method `dispatch` passes one message to its receiver. The caller holds q.mu.
func (q *qmp) dispatch(m qmpMessage, greeting chan<- struct{}) {
	switch {
	case m.Greeting != nil:
		close(greeting)
	case m.Event.Name != "":
		q.waiters = slices.DeleteFunc(q.waiters, func(w *eventWaiter) bool {
			if !w.match(m.Event) {
				return false
			}
			w.got <- m.Event
			return true
		})
	case m.ID != nil:
		if c, ok := q.pending[*m.ID]; ok {
			delete(q.pending, *m.ID)
			c <- m
		}
	}
}

func (q *qmp) logLine(direction string, raw []byte) {
	fmt.Fprintf(q.log, "%s %s %s\n", time.Now().Format("15:04:05.000"), direction, raw)
}

// execute runs one QMP command and passes the given open files to QEMU.
func (q *qmp) execute(ctx context.Context, name string, args any, files ...*os.File) (json.RawMessage, error) {
	answer := make(chan qmpMessage, 1)
	q.mu.Lock()
	if q.pending == nil {
		q.mu.Unlock()
		return nil, fmt.Errorf("cannot execute %s: %w", name, q.err)
	}
	q.nextID++
	id := q.nextID
	msg := map[string]any{"execute": name, "id": id}
	if args != nil {
		msg["arguments"] = args
	}
	raw, err := json.Marshal(msg)
	if err != nil {
		q.mu.Unlock()
		return nil, fmt.Errorf("cannot execute %s: %w", name, err)
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = syscall.UnixRights(fds...)
	}
	q.pending[id] = answer
	q.logLine("->", raw)
	_, _, err = q.conn.WriteMsgUnix(append(raw, '\n'), rights, nil)
	q.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("cannot execute %s: %w", name, err)
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return nil, &QMPError{Command: name, Class: m.Error.Class, Desc: m.Error.Desc}
		}
		return m.Return, nil
	case <-q.done:
		return nil, fmt.Errorf("cannot execute %s: %w", name, q.err)
	case <-ctx.Done():
		return nil, fmt.Errorf("cannot execute %s: %w", name, ctx.Err())
	}
}

// The method `expect` returns a waiter for the next event for which match() returns true. The caller must first call
// expect(), and then send the command that causes the event.
func (q *qmp) expect(match func(Event) bool) *eventWaiter {
	w := &eventWaiter{match: match, got: make(chan Event, 1)}
	q.mu.Lock()
	q.waiters = append(q.waiters, w)
	q.mu.Unlock()
	return w
}

// The method `forget` removes a waiter that is no longer needed.
func (q *qmp) forget(w *eventWaiter) {
	q.mu.Lock()
	q.waiters = slices.DeleteFunc(q.waiters, func(x *eventWaiter) bool { return x == w })
	q.mu.Unlock()
}

var errMonitorClosed = errors.New("QEMU's monitor closed")

// await waits for the event that the waiter w expects. If await returns an error, the caller must call forget(w).
func (q *qmp) await(ctx context.Context, w *eventWaiter) (Event, error) {
	select {
	case e := <-w.got:
		return e, nil
	case <-q.done:
		select {
		case e := <-w.got: // the event came just before the connection ended
			return e, nil
		default:
			return Event{}, errMonitorClosed
		}
	case <-ctx.Done():
		return Event{}, ctx.Err()
	}
}
