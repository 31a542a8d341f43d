package unit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"
)

// The type pid1 simulates systemd on a socket of its own. pid1 logs each call as text, answers the call, and signals
// the end of the job to subscribers. The real PID 1 of systemd 252 signals the end of a job to all connections, but
// other versions may signal only to subscribers.
type pid1 struct {
	socket string
	// The field `refuse` is the D-Bus error with which each call fails, or empty if the calls succeed. If refuseOnly is
	// set, a call fails only if its first argument contains refuseOnly.
	refuse, refuseOnly string
	// The field `lose` is the number of answers that pid1 does not send. In place of each such answer, pid1 closes the
	// connection.
	lose int
	// The field `result` is the result of each job, or empty if no signal reports the end of a job.
	result string
	// The field `unit` contains the properties that pid1 reports for every unit.
	unit map[string]any

	mu  sync.Mutex
	log []string
	// The keys of the map `conns` are the open connections. A value reports whether the connection has subscribed
	// to signals.
	conns  map[net.Conn]bool
	all    int // number of connections so far
	serial uint32
	jobs   int
	called chan struct{}
	done   sync.WaitGroup
}

func startPID1(t *testing.T) *pid1 {
	t.Helper()
	p := &pid1{socket: filepath.Join(t.TempDir(), "private"), result: "done", conns: map[net.Conn]bool{}, called: make(chan struct{}, 1000)}
	l, err := net.Listen("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	p.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.done.Go(func() {
				if err := p.serve(c); err != nil && !closed(err) {
					t.Errorf("the fake of PID 1: %v", err)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.drop()
		p.done.Wait()
	})
	return p
}

// The function `closed` reports whether the error means that the client has closed the connection.
func closed(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.As(err, &op)
}

// drop closes all connections, as PID 1 does when PID 1 re-executes itself.
func (p *pid1) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
		delete(p.conns, c)
	}
}

// noConnections waits until all connections have ended.
func (p *pid1) noConnections(t *testing.T) {
	t.Helper()
	open := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.conns)
	}
	for ctx := background(t); open() > 0; {
		if ctx.Err() != nil {
			t.Fatalf("%d connections stay open", open())
		}
	}
}

func (p *pid1) calls() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.log, "\n")
}

func (p *pid1) serve(c net.Conn) error {
	defer c.Close()
	r := bufio.NewReader(c)
	if _, err := r.ReadByte(); err != nil {
		return err
	}
	for begun := false; !begun; {
		line, err := r.ReadString('\n')
		if err != nil {
			return err
		}
		answer := ""
		switch words := strings.Fields(line); {
		case words[0] == "BEGIN":
			begun = true
		case words[0] == "AUTH" && len(words) == 1:
			answer = "REJECTED EXTERNAL\r\n"
		case words[0] == "NEGOTIATE_UNIX_FD":
			answer = "AGREE_UNIX_FD\r\n"
		case words[0] == "AUTH" && words[1] == "EXTERNAL", words[0] == "DATA":
			answer = "OK 0123456789abcdef0123456789abcdef\r\n"
		default:
			return fmt.Errorf("the client says %q", line)
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.conns[c] = false
	p.all++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
	}()
	for {
		m, err := dbus.DecodeMessage(r)
		if err != nil {
			return err
		}
		if err := p.answer(c, m); err != nil {
			return err
		}
	}
}

func (p *pid1) answer(c net.Conn, m *dbus.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	member := m.Headers[dbus.FieldMember].Value().(string)
	refuse := p.refuse
	if (member == "Get" || member == "GetAll") && refuse == "" {
		p.log = append(p.log, strings.TrimSpace(fmt.Sprintln(append([]any{member, path.Base(string(m.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)))}, m.Body...)...)))
		all := map[string]dbus.Variant{}
		for name, v := range p.unit {
			all[name] = dbus.MakeVariant(v)
		}
		if member == "GetAll" {
			return p.send(c, m, dbus.TypeMethodReply, "", all)
		}
		return p.send(c, m, dbus.TypeMethodReply, "", all[m.Body[1].(string)])
	}
	if iface := m.Headers[dbus.FieldInterface].Value(); iface != "org.freedesktop.systemd1.Manager" {
		// AddMatch fails, because the private socket has no message bus.
		return p.send(c, m, dbus.TypeError, "org.freedesktop.DBus.Error.UnknownObject")
	}
	if member == "Subscribe" {
		p.conns[c] = true
		return p.send(c, m, dbus.TypeMethodReply, "")
	}
	text := member
	for _, arg := range m.Body {
		text += " " + show(arg)
	}
	p.log = append(p.log, text)
	defer func() { p.called <- struct{}{} }()
	if p.lose > 0 {
		p.lose--
		return c.Close()
	}
	if refuse != "" && strings.Contains(fmt.Sprint(m.Body[0]), p.refuseOnly) {
		return p.send(c, m, dbus.TypeError, refuse, "said no")
	}
	p.jobs++
	job := dbus.ObjectPath(fmt.Sprintf("/org/freedesktop/systemd1/job/%d", p.jobs))
	if err := p.send(c, m, dbus.TypeMethodReply, "", job); err != nil {
		return err
	}
	if p.result == "" {
		return nil
	}
	for other, subscribed := range p.conns {
		if !subscribed {
			continue
		}
		if err := p.send(other, nil, dbus.TypeSignal, "JobRemoved", uint32(p.jobs), job, m.Body[0], p.result); err != nil && !closed(err) {
			return err
		}
	}
	return nil
}

// The function `show` formats an argument of a call as busctl(1) does, but with each structure on its own line, and with
// bytes as text.
func show(v any) string {
	switch v := v.(type) {
	case [][]any:
		s := "["
		for _, e := range v {
			var words []string
			for _, part := range e {
				words = append(words, show(part))
			}
			s += "\n  " + strings.ReplaceAll(strings.Join(words, " "), "\n", "\n  ")
		}
		if len(v) > 0 {
			s += "\n"
		}
		return s + "]"
	case dbus.Variant:
		if b, ok := v.Value().([]byte); ok {
			return strconv.Quote(string(b))
		}
		return v.String()
	default:
		return fmt.Sprint(v)
	}
}

func (p *pid1) send(c net.Conn, to *dbus.Message, kind dbus.Type, name string, body ...any) error {
	h := map[dbus.HeaderField]dbus.Variant{}
	switch kind {
	case dbus.TypeError:
		h[dbus.FieldErrorName] = dbus.MakeVariant(name)
	case dbus.TypeSignal:
		h[dbus.FieldPath] = dbus.MakeVariant(dbus.ObjectPath("/org/freedesktop/systemd1"))
		h[dbus.FieldInterface] = dbus.MakeVariant("org.freedesktop.systemd1.Manager")
		h[dbus.FieldMember] = dbus.MakeVariant(name)
	}
	if to != nil {
		h[dbus.FieldReplySerial] = dbus.MakeVariant(to.Serial())
	}
	if len(body) > 0 {
		h[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
	}
	m := dbus.Message{Type: kind, Headers: h, Body: body}
	var b bytes.Buffer
	if err := m.EncodeTo(&b, binary.LittleEndian); err != nil {
		return err
	}
	// dbus.Message has no method to set the serial number, which is the third word of the message.
	p.serial++
	binary.LittleEndian.PutUint32(b.Bytes()[8:], p.serial)
	_, err := c.Write(b.Bytes())
	return err
}

// manager returns a Manager that connects to the simulated PID 1.
func (p *pid1) manager() *Manager { return &Manager{socket: p.socket} }

func background(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
