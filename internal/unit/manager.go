// Package unit asks PID 1 for what hotmount can not and may not do itself: mount
// units, and the services that format and clean up. It is the only package that
// speaks D-Bus, and what can be asked for is built here alone. It also makes and
// removes the mount points.
package unit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/coreos/go-systemd/v22/unit"
	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// privateSocket is PID 1's own socket, for root alone. On the system bus any
// local user could send us the signal that a job is done.
const privateSocket = "/run/systemd/private"

// transientUnits is where PID 1 has the files of transient units as long as it has the
// units (systemd.unit(5), unit_remove_transient in systemd's src/core/unit.c).
const transientUnits = "/run/systemd/transient"

// patience is how long PID 1 may take to accept a connection, and dialEvery how often
// it is asked while it executes itself anew.
const (
	patience  = 10 * time.Second
	dialEvery = 100 * time.Millisecond
)

// errLost says that the connection to PID 1 broke while a job was under way:
// what became of the job is not known. systemctl daemon-reexec does that.
var errLost = errors.New("the connection to systemd was lost")

// ErrExists says that the unit is loaded already
// (org.freedesktop.systemd1.UnitExists).
var ErrExists = errors.New("the unit exists already")

// JobError says that a job did not end well.
type JobError struct {
	Unit string
	// Result is systemd's word, see JobRemoved in org.freedesktop.systemd1(5):
	// canceled, timeout, failed, dependency, skipped.
	Result string
}

func (e *JobError) Error() string {
	return fmt.Sprintf("systemd's job for %s ended %q; see journalctl -u '%s'", e.Unit, e.Result, e.Unit)
}

// Manager speaks with PID 1. The zero value is ready. It is connected only while
// a call or a service is under way: on its private socket PID 1 tells of every
// change of every unit, which on a busy node would wake the daemon all the time,
// and costs PID 1 more than the mounts themselves where many disks come at once.
type Manager struct {
	// socket, transient and soon are others than privateSocket, transientUnits and patience
	// in tests.
	socket, transient string
	soon              time.Duration

	mu    sync.Mutex
	conn  *conn
	users int
	// greeted is what Expect has made, nil while there is none.
	greeted *greeting

	starts starts
}

// greeting is a connection on which PID 1 knows us and nothing was said yet.
type greeting struct {
	wire *eager
	// end gives it up.
	end context.CancelFunc
}

type conn struct {
	bus  *dbus.Conn
	wire *eager
	// jobs is made of it for who has to hear of a job's end.
	mu   sync.Mutex
	jobs *sd.Conn
}

// listening gives the connection as go-systemd's, which hears of the ends of jobs.
func (c *conn) listening() (*sd.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.jobs != nil {
		return c.jobs, nil
	}
	// go-systemd asks for two connections, one for the signals. PID 1 sends every
	// signal to each, without being asked to (bus_foreach_bus in systemd's
	// src/core/dbus.c; so there is no Subscribe), so it gets the same one twice:
	// godbus never has an answer wait for a signal that nobody takes.
	c.wire.hears.Store(true)
	var err error
	c.jobs, err = sd.NewConnection(func() (*dbus.Conn, error) { return c.bus, nil })
	return c.jobs, err
}

// Names of org.freedesktop.systemd1(5).
const (
	systemd     = "org.freedesktop.systemd1"
	systemdPath = "/org/freedesktop/systemd1"
)

// acquire gives the connection, made anew if there is none that lives.
func (m *Manager) acquire(ctx context.Context) (*conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != nil && m.conn.bus.Connected() {
		m.users++
		return m.conn, nil
	}
	if m.conn != nil {
		m.conn.bus.Close()
		m.conn, m.users = nil, 0
	}
	c, err := dial(ctx, cmp.Or(m.socket, privateSocket))
	if err != nil {
		return nil, disk.OfNode(fmt.Errorf("cannot connect to systemd: %w", err))
	}
	m.conn, m.users = c, 1
	return c, nil
}

// expected is how long Expect keeps a connection: udev is done with a new disk long before,
// and PID 1 closes one that does not begin to speak after 90 seconds (BUS_AUTH_TIMEOUT in
// systemd's src/libsystemd/sd-bus/bus-socket.c).
const expected = 15 * time.Second

// Expect has a connection ready for the StartMount that may come: PID 1 is slow to take a
// new one just when it makes the units of a new disk's device. One is enough, and one that
// can not be made keeps nobody. It is for one caller at a time.
func (m *Manager) Expect(ctx context.Context) {
	m.mu.Lock()
	there := m.greeted != nil
	m.mu.Unlock()
	if there {
		return
	}
	wire, err := connect(ctx, cmp.Or(m.socket, privateSocket))
	if err != nil {
		return
	}
	life, end := context.WithTimeout(ctx, expected)
	g := &greeting{wire, end}
	m.mu.Lock()
	m.greeted = g
	m.mu.Unlock()
	context.AfterFunc(life, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.greeted == g {
			m.greeted = nil
			g.wire.Close()
		}
	})
}

// known gives the connection that Expect has made, nil if there is none. It is the caller's.
func (m *Manager) known(ctx context.Context) *conn {
	m.mu.Lock()
	g := m.greeted
	m.greeted = nil
	m.mu.Unlock()
	if g == nil {
		return nil
	}
	g.end()
	c, err := speak(ctx, g.wire)
	if err != nil {
		return nil
	}
	return c
}

// Ahead connects already for a StartMount that will come, for the same reason as Expect, unless
// that has done it. Who calls done lets go of it. If it fails the call tries again, and
// tells.
func (m *Manager) Ahead(ctx context.Context) (done func()) {
	m.mu.Lock()
	there := m.greeted != nil
	m.mu.Unlock()
	if there {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	connected := make(chan *conn, 1)
	go func() {
		c, _ := m.acquire(ctx)
		connected <- c
	}()
	return func() {
		cancel()
		if c := <-connected; c != nil {
			m.release(c)
		}
	}
}

func (m *Manager) release(c *conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != c {
		return // it was lost, and closed when the next one was made
	}
	if m.users--; m.users == 0 {
		c.bus.Close()
		m.conn = nil
	}
}

// dial connects; ctx bounds the dialing, not the connection's life.
func dial(ctx context.Context, socket string) (*conn, error) {
	// Not dbus.Dial, which waits without end for a PID 1 that hangs.
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		c, err := dialOnce(ctx, socket)
		if !executing(err) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(dialEvery):
		}
	}
}

// executing says that PID 1 executes itself anew (systemctl daemon-reexec, an upgrade of
// systemd): nobody listens on the socket, or who has accepted the connection is gone.
func executing(err error) bool {
	for _, e := range []error{unix.ECONNREFUSED, unix.ECONNRESET, unix.EPIPE, io.EOF} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func dialOnce(ctx context.Context, socket string) (*conn, error) {
	s, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	return speak(ctx, newEager(s))
}

// connect connects and has PID 1 know us.
func connect(ctx context.Context, socket string) (*eager, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	wire := newEager(s)
	if err := wire.greet(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return wire, nil
}

func speak(ctx context.Context, wire *eager) (*conn, error) {
	stop := context.AfterFunc(ctx, func() { wire.Close() })
	defer stop()
	bus, err := dbus.NewConn(wire)
	if err != nil {
		return nil, errors.Join(err, wire.Close())
	}
	// Without Hello: there is no bus on this socket, PID 1 is at its other end.
	if err := bus.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err != nil {
		return nil, errors.Join(context.Cause(ctx), err, bus.Close())
	}
	return &conn{bus: bus, wire: wire}, nil
}

// job starts a job and waits until it has ended. When ctx ends it returns, and
// the job goes on: it is PID 1's. One whose end was not heard of is started again: none
// does more than was asked for if it is.
func (m *Manager) job(ctx context.Context, unit string, start func(*sd.Conn, chan<- string) (int, error)) error {
	for {
		if err := m.jobOnce(ctx, unit, start); !errors.Is(err, errLost) {
			return err
		}
	}
}

func (m *Manager) jobOnce(ctx context.Context, unit string, start func(*sd.Conn, chan<- string) (int, error)) error {
	c, err := m.acquire(ctx)
	if err != nil {
		return err
	}
	defer m.release(c)
	jobs, err := c.listening()
	if err != nil {
		return disk.OfNode(err)
	}
	// With room for the result: go-systemd hands it out under a lock.
	result := make(chan string, 1)
	if _, err := start(jobs, result); err != nil {
		return refusal(unit, err)
	}
	select {
	case r := <-result:
		if r != "done" {
			return &JobError{Unit: unit, Result: r}
		}
		return nil
	case <-c.bus.Context().Done():
		return fmt.Errorf("cannot wait for %s: %w", unit, errLost)
	case <-ctx.Done():
		return fmt.Errorf("cannot wait for %s: %w", unit, context.Cause(ctx))
	}
}

// startAlone has PID 1 start one mount unit, and the mount point removed if it has said that it does
// not mount there. Without its answer it may do so yet.
func (m *Manager) startAlone(ctx context.Context, u MountUnit) error {
	properties, err := u.properties()
	if err != nil {
		return err
	}
	err = m.startTransient(ctx, Name(u.Path), properties, nil)
	var said dbus.Error
	if !errors.As(err, &said) || !m.leftover(u.Path) {
		return err
	}
	return errors.Join(err, m.StartCleanup(ctx, u.Path))
}

// startTransient has PID 1 make a transient unit and start it, and make others beside it. That it is
// there already is ErrExists.
func (m *Manager) startTransient(ctx context.Context, name string, properties []sd.Property, others []sd.PropertyCollection) error {
	var unanswered error
	if c := m.known(ctx); c != nil {
		soon, cancel := context.WithTimeout(ctx, cmp.Or(m.soon, patience))
		unanswered = c.startTransient(soon, name, properties, others)
		cancel()
		c.bus.Close()
		var said dbus.Error
		if unanswered == nil || errors.As(unanswered, &said) {
			return refusal(name, unanswered)
		}
	}
	c, err := m.acquire(ctx)
	if err != nil && unanswered != nil {
		// PID 1 may have read what nobody waits for any more.
		return fmt.Errorf("cannot tell whether systemd starts %s: perhaps %w: %w", name, ErrExists, err)
	}
	if err != nil {
		return err
	}
	defer m.release(c)
	return refusal(name, c.startTransient(ctx, name, properties, others))
}

// startTransient is not by go-systemd, which makes a call of its own first.
func (c *conn) startTransient(ctx context.Context, name string, properties []sd.Property, others []sd.PropertyCollection) error {
	var job dbus.ObjectPath
	return c.bus.Object(systemd, systemdPath).CallWithContext(ctx, systemd+".Manager.StartTransientUnit", 0,
		name, "fail", properties, others).Store(&job)
}

// MountEnded says whether the job of StartMount has ended. Where it has ended and
// nothing is mounted the error is a *JobError. As long as PID 1 has the file of the
// unit it has the unit, and is asked for its job only if it has to be sure: for who is
// connected it makes a message of each change of each unit.
func (m *Manager) MountEnded(ctx context.Context, path string, sure bool) (bool, error) {
	if err := checkPath(path); err != nil {
		return false, err
	}
	if m.has(path) && !sure {
		return false, nil
	}
	name := Name(path)
	c, err := m.acquire(ctx)
	if err != nil {
		return false, err
	}
	defer m.release(c)
	units, err := c.listening()
	if err != nil {
		return false, disk.OfNode(err)
	}
	get := func(property string) (any, error) {
		p, err := units.GetUnitPropertyContext(ctx, name, property)
		if err != nil {
			return nil, disk.OfNode(fmt.Errorf("cannot ask systemd for %s: %w", name, err))
		}
		return p.Value.Value(), nil
	}
	// The job before the state: a unit that waits for its device is inactive, with
	// a job. Its number is 0 if there is none (org.freedesktop.systemd1(5)).
	job, err := get("Job")
	if err != nil {
		return false, err
	}
	if id, ok := job.([]any); !ok || len(id) != 2 || id[0] != uint32(0) {
		return false, nil
	}
	state, err := get("ActiveState")
	if err != nil {
		return false, err
	}
	if state != "active" {
		// The unit that has failed is collected: what the result was, its journal
		// tells.
		return true, &JobError{Unit: name, Result: "failed"}
	}
	return true, nil
}

// has says whether PID 1 has the transient mount unit of that mount point.
func (m *Manager) has(path string) bool {
	_, err := os.Lstat(filepath.Join(cmp.Or(m.transient, transientUnits), Name(path)))
	return err == nil
}

// refusal tells why PID 1 took no job for the unit, nil if it did. That the disk is at fault
// the end of a job says.
func refusal(unit string, err error) error {
	var e dbus.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && e.Name == "org.freedesktop.systemd1.UnitExists":
		return fmt.Errorf("cannot start %s: %w", unit, ErrExists)
	}
	return disk.OfNode(fmt.Errorf("cannot ask systemd for %s: %w", unit, err))
}

// StopMount stops the mount unit of that mount point. That there is no such unit
// is no error.
func (m *Manager) StopMount(ctx context.Context, path string) error {
	if err := checkPath(path); err != nil {
		return err
	}
	return m.stop(ctx, Name(path))
}

func (m *Manager) stop(ctx context.Context, name string) error {
	err := m.job(ctx, name, func(c *sd.Conn, result chan<- string) (int, error) {
		return c.StopUnitContext(ctx, name, "replace", result)
	})
	if noSuchUnit(err) {
		return nil
	}
	return err
}

// noSuchUnit reports whether PID 1 has said that it has not loaded the unit.
func noSuchUnit(err error) bool {
	var e dbus.Error
	return errors.As(err, &e) && e.Name == "org.freedesktop.systemd1.NoSuchUnit"
}

// Plugged gives the time of CLOCK_MONOTONIC since which PID 1 has the disk of that
// kernel name plugged (ActiveEnterTimestampMonotonic of its device unit, in
// microseconds, org.freedesktop.systemd1(5)), zero if it has not.
func (m *Manager) Plugged(ctx context.Context, name string) (time.Duration, error) {
	device := unit.UnitNamePathEscape("/dev/"+name) + ".device"
	fail := func(err error) (time.Duration, error) {
		return 0, disk.OfNode(fmt.Errorf("cannot ask systemd for %s: %w", device, err))
	}
	c, err := m.acquire(ctx)
	if err != nil {
		return fail(err)
	}
	defer m.release(c)
	units, err := c.listening()
	if err != nil {
		return fail(err)
	}
	p, err := units.GetUnitPropertiesContext(ctx, device)
	if err != nil {
		return fail(err)
	}
	since, ok := p["ActiveEnterTimestampMonotonic"].(uint64)
	if !ok {
		return fail(errors.New("it has no ActiveEnterTimestampMonotonic"))
	}
	if p["ActiveState"] != "active" || since == 0 {
		return 0, nil
	}
	return time.Duration(since) * time.Microsecond, nil
}

// StartFormat runs hotmount-format@.service for the disk of that sequence number
// and waits until it has ended. One that runs already is waited for.
func (m *Manager) StartFormat(ctx context.Context, seq uint64) error {
	if seq == 0 {
		return errors.New("cannot format a disk without a disk sequence number")
	}
	return m.startService(ctx, fmt.Sprintf("hotmount-format@%d.service", seq))
}

// StartStage runs hotmount-stage@.service for the disk of that sequence number and
// waits until it has ended. One that runs already is waited for.
func (m *Manager) StartStage(ctx context.Context, seq uint64) error {
	if seq == 0 {
		return errors.New("cannot grow the filesystem of a disk without a disk sequence number")
	}
	return m.startService(ctx, fmt.Sprintf("hotmount-stage@%d.service", seq))
}

// StartGrow runs hotmount-grow@.service for the disk of that sequence number and
// waits until it has ended. One that runs already is waited for.
func (m *Manager) StartGrow(ctx context.Context, seq uint64) error {
	if seq == 0 {
		return errors.New("cannot grow the filesystem of a disk without a disk sequence number")
	}
	return m.startService(ctx, fmt.Sprintf("hotmount-grow@%d.service", seq))
}

// StartBlock runs hotmount-block@.service for the disk of that sequence number and
// waits until the link is made. One that runs already is started anew.
func (m *Manager) StartBlock(ctx context.Context, seq uint64) error {
	name, err := blockUnit(seq)
	if err != nil {
		return err
	}
	return m.job(ctx, name, func(c *sd.Conn, result chan<- string) (int, error) {
		return c.RestartUnitContext(ctx, name, "replace", result)
	})
}

// StopBlock ends hotmount-block@.service for the disk of that sequence number, and
// with it the link. That there is none is no error.
func (m *Manager) StopBlock(ctx context.Context, seq uint64) error {
	name, err := blockUnit(seq)
	if err != nil {
		return err
	}
	return m.stop(ctx, name)
}

func blockUnit(seq uint64) (string, error) {
	if seq == 0 {
		return "", errors.New("cannot give out a disk without a disk sequence number")
	}
	return fmt.Sprintf("hotmount-block@%d.service", seq), nil
}

// StartCleanup runs hotmount-cleanup@.service for that mount point and waits
// until it has ended.
func (m *Manager) StartCleanup(ctx context.Context, path string) error {
	if err := checkPath(path); err != nil {
		return err
	}
	return m.startService(ctx, cleanupUnit(path))
}

// AwaitCleanup returns when PID 1 removes nothing at that mount point, so that the next mount can use a
// directory again that is left there. PID 1 starts the cleanup when a mount ends. A cleanup that comes
// later would remove the directory before the next mount is there.
func (m *Manager) AwaitCleanup(ctx context.Context, path string) error {
	if err := checkPath(path); err != nil {
		return err
	}
	if !m.leftover(path) {
		return nil
	}
	c, err := m.acquire(ctx)
	if err != nil {
		return err
	}
	defer m.release(c)
	// PID 1 has the unit as long as it has a job for it, or the unit runs.
	var unit dbus.ObjectPath
	err = c.bus.Object(systemd, systemdPath).CallWithContext(ctx, systemd+".Manager.GetUnit", 0, cleanupUnit(path)).Store(&unit)
	if noSuchUnit(err) {
		return nil
	}
	return m.StartCleanup(ctx, path)
}

// leftover reports whether a mount point is there without a mount unit: as long as PID 1 has the
// unit the directory is that one's.
func (m *Manager) leftover(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist) && !m.has(path)
}

// StartUnmountGone runs hotmount-unmount@.service for that mount point and the
// device that is or was mounted there and is gone, and waits until it has ended.
func (m *Manager) StartUnmountGone(ctx context.Context, path string, dev disk.Dev) error {
	if err := checkPath(path); err != nil {
		return err
	}
	return m.startService(ctx, "hotmount-unmount@"+unit.UnitNamePathEscape(path)+":"+dev.String()+".service")
}

func (m *Manager) startService(ctx context.Context, name string) error {
	return m.job(ctx, name, func(c *sd.Conn, result chan<- string) (int, error) {
		return c.StartUnitContext(ctx, name, "replace", result)
	})
}
