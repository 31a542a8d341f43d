// Package unit asks PID 1 for what hotmount cannot and may not do itself: mount
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
	"os"
	"path/filepath"
	"strconv"
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

// patience is how long PID 1 may take for a connection or a call: as long as PID 1 itself waits for who connects
// (BUS_AUTH_TIMEOUT in systemd's src/libsystemd/sd-bus/bus-socket.c). In a storm of events an emulated one has taken 30
// seconds. dialEvery is how often it is asked while it executes itself anew.
const (
	patience  = 90 * time.Second
	dialEvery = 100 * time.Millisecond
)

// errLost reports that the connection to PID 1 broke while a job was under way:
// what became of the job is not known. systemctl daemon-reexec does that.
var errLost = errors.New("the connection to systemd was lost")

// errSilent reports that PID 1 accepts connections, and answers nothing.
var errSilent = fmt.Errorf("no answer for %s", patience)

// ErrExists reports that the unit is loaded already
// (org.freedesktop.systemd1.UnitExists).
var ErrExists = errors.New("the unit exists already")

// JobError reports that a job did not end well.
type JobError struct {
	Unit string
	// Result is systemd's word, see JobRemoved in org.freedesktop.systemd1(5):
	// canceled, timeout, failed, dependency, skipped.
	Result string
}

func (e *JobError) Error() string {
	return fmt.Sprintf("systemd's job for %s ended %q; see journalctl -u '%s'", e.Unit, e.Result, e.Unit)
}

// Manager speaks with PID 1. The zero value is ready. Each request has a connection of its own, which ends with it:
// on its private socket PID 1 tells each connection of every change of every unit, which on a busy node would wake
// the daemon all the time.
type Manager struct {
	// socket and transient are others than privateSocket and transientUnits in tests.
	socket, transient string

	starts starts
}

// Names of org.freedesktop.systemd1(5).
const (
	systemd     = "org.freedesktop.systemd1"
	systemdPath = "/org/freedesktop/systemd1"
)

// with calls use with a connection that hears of the ends of jobs. The context of use ends with the connection.
func (m *Manager) with(ctx context.Context, use func(context.Context, *sd.Conn) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c, err := m.connect(ctx, end)
	if err != nil {
		return noConnection(cmp.Or(context.Cause(ctx), err))
	}
	defer c.Close()
	return use(ctx, c)
}

// connect connects by go-systemd, which asks for a connection for calls and one for signals. It gets the same one: in a
// storm of events each more costs PID 1 seconds. The connection ends with ctx. When it ends, or PID 1 does not
// answer, connect calls end with the reason.
func (m *Manager) connect(ctx context.Context, end context.CancelCauseFunc) (*sd.Conn, error) {
	late := time.AfterFunc(patience, func() { end(errSilent) })
	defer late.Stop()
	bus, err := m.dial(ctx)
	if err != nil {
		return nil, err
	}
	c, err := sd.NewConnection(func() (*dbus.Conn, error) { return bus, nil })
	if err != nil {
		return nil, errors.Join(err, bus.Close())
	}
	// systemd 252 sends the signals on this socket also without it (bus_foreach_bus in its src/core/dbus.c).
	if err := c.Subscribe(); err != nil {
		c.Close()
		return nil, err
	}
	context.AfterFunc(bus.Context(), func() { end(errLost) })
	return c, nil
}

func noConnection(err error) error {
	return disk.OfNode(fmt.Errorf("cannot connect to systemd: %w", err))
}

// dial connects. The connection ends with ctx.
func (m *Manager) dial(ctx context.Context) (*dbus.Conn, error) {
	for limit := time.Now().Add(patience); ; {
		c, err := m.dialOnce(ctx)
		if !executing(err) || time.Now().After(limit) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(dialEvery):
		}
	}
}

// executing reports whether PID 1 executes itself anew (systemctl daemon-reexec, an upgrade of
// systemd): nobody listens on the socket, or who has accepted the connection is gone.
func executing(err error) bool {
	for _, e := range []error{unix.ECONNREFUSED, unix.ECONNRESET, unix.EPIPE, io.EOF} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (m *Manager) dialOnce(ctx context.Context) (*dbus.Conn, error) {
	c, err := dbus.Dial("unix:path="+dbus.EscapeBusAddressValue(cmp.Or(m.socket, privateSocket)), dbus.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	late := time.AfterFunc(patience, func() { c.Close() })
	// Without Hello: there is no bus on this socket, PID 1 is at its other end.
	err = c.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if !late.Stop() {
		err = errSilent
	}
	if err != nil {
		return nil, errors.Join(context.Cause(ctx), err, c.Close())
	}
	return c, nil
}

// job starts a job and waits until it has ended. When ctx ends it returns, and
// the job goes on: it is PID 1's. One whose end was not heard of is started again: none
// does more than was asked for if it is.
func (m *Manager) job(ctx context.Context, unit string, start func(context.Context, *sd.Conn, chan<- string) (int, error)) error {
	for {
		if err := m.jobOnce(ctx, unit, start); !errors.Is(err, errLost) {
			return err
		}
	}
}

func (m *Manager) jobOnce(ctx context.Context, unit string, start func(context.Context, *sd.Conn, chan<- string) (int, error)) error {
	return m.with(ctx, func(connected context.Context, c *sd.Conn) error {
		// With room for the result: go-systemd hands it out under a lock.
		result := make(chan string, 1)
		if _, err := start(connected, c, result); err != nil && c.Connected() {
			return refusal(unit, err)
		}
		select {
		case r := <-result:
			if r != "done" {
				return &JobError{Unit: unit, Result: r}
			}
			return nil
		case <-connected.Done():
			return fmt.Errorf("cannot wait for %s: %w", unit, context.Cause(connected))
		}
	})
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
// there already is ErrExists. Nobody waits for the job, so it needs no connection for signals.
//
// PID 1 is asked once more if its answer is lost, as when it executes itself anew: it may have the job. Then it
// answers that the unit exists.
func (m *Manager) startTransient(ctx context.Context, name string, properties []sd.Property, others []sd.PropertyCollection) error {
	var job dbus.ObjectPath
	start := func() error { return m.call(ctx, "StartTransientUnit", &job, name, "fail", properties, others) }
	err := start()
	var answer dbus.Error
	if err != nil && !errors.As(err, &answer) && ctx.Err() == nil {
		err = start()
	}
	return refusal(name, err)
}

// call calls a method of PID 1's manager on a connection of its own and stores what it returns. It waits for
// patience at most.
func (m *Manager) call(ctx context.Context, method string, result any, args ...any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	c, err := m.dial(ctx)
	if err != nil {
		return noConnection(err)
	}
	defer c.Close()
	return c.Object(systemd, systemdPath).CallWithContext(ctx, systemd+".Manager."+method, 0, args...).Store(result)
}

// MountEnded reports whether the job of StartMount has ended. Where it has ended and
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
	ended := false
	err := m.with(ctx, func(ctx context.Context, c *sd.Conn) (err error) {
		ended, err = mountEnded(ctx, c, Name(path))
		return err
	})
	return ended, err
}

func mountEnded(ctx context.Context, c *sd.Conn, name string) (bool, error) {
	get := func(property string) (any, error) {
		p, err := c.GetUnitPropertyContext(ctx, name, property)
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

// has reports whether PID 1 has the transient mount unit of that mount point.
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
	err := m.job(ctx, name, func(ctx context.Context, c *sd.Conn, result chan<- string) (int, error) {
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

// Plugged returns the time of CLOCK_MONOTONIC since which PID 1 has the disk of that
// kernel name plugged (ActiveEnterTimestampMonotonic of its device unit, in
// microseconds, org.freedesktop.systemd1(5)), zero if it has not.
func (m *Manager) Plugged(ctx context.Context, name string) (time.Duration, error) {
	device := unit.UnitNamePathEscape("/dev/"+name) + ".device"
	var properties map[string]any
	err := m.with(ctx, func(ctx context.Context, c *sd.Conn) (err error) {
		properties, err = c.GetUnitPropertiesContext(ctx, device)
		return err
	})
	if err != nil {
		return 0, disk.OfNode(fmt.Errorf("cannot ask systemd for %s: %w", device, err))
	}
	since, ok := properties["ActiveEnterTimestampMonotonic"].(uint64)
	if !ok {
		return 0, disk.OfNode(fmt.Errorf("cannot ask systemd for %s: it has no ActiveEnterTimestampMonotonic", device))
	}
	if properties["ActiveState"] != "active" || since == 0 {
		return 0, nil
	}
	return time.Duration(since) * time.Microsecond, nil
}

// Format runs hotmount-format@.service for the disk of that sequence number
// and waits until it has ended. One that runs already is waited for.
func (m *Manager) Format(ctx context.Context, seq uint64) error {
	if seq == 0 {
		return errors.New("cannot format a disk without a disk sequence number")
	}
	return m.startService(ctx, fmt.Sprintf("hotmount-format@%d.service", seq))
}

// Fill runs hotmount-stage@.service for the disk of that sequence number and
// waits until it has ended. One that runs already is waited for.
func (m *Manager) Fill(ctx context.Context, seq uint64) error {
	if seq == 0 {
		return errors.New("cannot grow the filesystem of a disk without a disk sequence number")
	}
	return m.startService(ctx, fmt.Sprintf("hotmount-stage@%d.service", seq))
}

// Grow runs hotmount-grow@.service for the disk of that sequence number and
// waits until it has ended. One that runs already is waited for.
func (m *Manager) Grow(ctx context.Context, seq uint64) error {
	if seq == 0 {
		return errors.New("cannot grow the filesystem of a disk without a disk sequence number")
	}
	return m.startService(ctx, fmt.Sprintf("hotmount-grow@%d.service", seq))
}

// GiveOut runs hotmount-block@.service for the disk of that sequence number and
// waits until the link is made. One that runs already is started anew.
func (m *Manager) GiveOut(ctx context.Context, seq uint64) error {
	name, err := blockUnit(seq)
	if err != nil {
		return err
	}
	return m.job(ctx, name, func(ctx context.Context, c *sd.Conn, result chan<- string) (int, error) {
		return c.RestartUnitContext(ctx, name, "replace", result)
	})
}

// TakeBack ends hotmount-block@.service for the disk of that sequence number, and
// with it the link. That there is none is no error.
func (m *Manager) TakeBack(ctx context.Context, seq uint64) error {
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
	// PID 1 has the unit as long as it has a job for it, or the unit runs.
	var unit dbus.ObjectPath
	if noSuchUnit(m.call(ctx, "GetUnit", &unit, cleanupUnit(path))) {
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

// UnmountGone runs hotmount-unmount@.service for that mount point and the
// device that is or was mounted there and is gone, and waits until it has ended.
func (m *Manager) UnmountGone(ctx context.Context, path string, dev disk.Dev) error {
	if err := checkPath(path); err != nil {
		return err
	}
	return m.startService(ctx, "hotmount-unmount@"+unit.UnitNamePathEscape(path)+":"+dev.String()+".service")
}

func (m *Manager) startService(ctx context.Context, name string) error {
	return m.job(ctx, name, func(ctx context.Context, c *sd.Conn, result chan<- string) (int, error) {
		return c.StartUnitContext(ctx, name, "replace", result)
	})
}
