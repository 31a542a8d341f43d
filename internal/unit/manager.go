// Package unit asks PID 1 to start and stop mount units and hotmount's services. No other package uses D-Bus itself,
// but the packages doctor and helper run systemctl(1). The package also makes and removes the mount points.
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
	"strings"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/coreos/go-systemd/v22/unit"
	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// privateSocket is PID 1's own socket, which only root can use. On the system bus, any local user could send hotmount
// the signal that a job is done.
const privateSocket = "/run/systemd/private"

// transientUnits is where PID 1 keeps the files of transient units while the units are loaded (systemd.unit(5),
// unit_remove_transient in systemd's src/core/unit.c).
const transientUnits = "/run/systemd/transient"

// The constant `patience` is the time limit for connecting to PID 1, and for one D-Bus call. This limit equals PID 1's
// own limit for a connecting client (BUS_AUTH_TIMEOUT in systemd's src/libsystemd/sd-bus/bus-socket.c). PID 1 of an
// emulated machine has taken 30 seconds to answer while it processed many events. dialEvery is the time between
// attempts to connect while PID 1 re-executes itself.
const (
	patience  = 90 * time.Second
	dialEvery = 100 * time.Millisecond
)

// errLost reports that the connection to PID 1 broke during a job, so the result of the job is unknown. systemctl
// daemon-reexec breaks all connections to PID 1.
var errLost = errors.New("the connection to systemd was lost")

// errSilent reports that PID 1 accepts connections but does not answer.
var errSilent = fmt.Errorf("systemd has not answered for %s", patience)

// ErrExists reports that the unit is already loaded (org.freedesktop.systemd1.UnitExists).
var ErrExists = errors.New("the unit exists already")

// JobError reports that a job failed.
type JobError struct {
	Unit string
	// Result is the result in the signal JobRemoved (org.freedesktop.systemd1(5)): canceled, timeout, failed,
	// dependency or skipped. In an error of MountEnded, Result is always "failed".
	Result string
}

func (e *JobError) Error() string {
	return fmt.Sprintf("systemd's job for %s ended with %q; see journalctl -u '%s'", e.Unit, e.Result, e.Unit)
}

// Manager sends requests to PID 1. The zero value is ready for use. Each request opens its own connection and closes
// it. On its private socket, PID 1 reports every change of every unit to each connection. On a busy node, an open
// connection would wake the daemon all the time.
type Manager struct {
	// In tests, the fields `socket` and `transient` replace the constants privateSocket and transientUnits.
	socket, transient string

	starts starts
}

// The constants are names from org.freedesktop.systemd1(5).
const (
	systemd     = "org.freedesktop.systemd1"
	systemdPath = "/org/freedesktop/systemd1"
)

// withConnection opens a connection that receives the signals about jobs, and passes the connection to the callback.
// The end of the connection cancels the context of the callback.
func (m *Manager) withConnection(ctx context.Context, use func(context.Context, *sd.Conn) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c, err := m.connect(ctx, end)
	if err != nil {
		return noConnection(cmp.Or(context.Cause(ctx), err))
	}
	defer c.Close()
	return use(ctx, c)
}

// The method `connect` connects to PID 1 through go-systemd. go-systemd asks for one connection for calls and another for
// signals. connect() gives go-systemd one connection for both calls and signals. While PID 1 has many events to
// process, each new connection takes several seconds.
//
// The connection ends when the context ends. If the connection breaks, or PID 1 does not answer, connect cancels the
// context with the reason.
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
	// On its private socket, systemd 252 sends the signals even without Subscribe (bus_foreach_bus in systemd's
	// src/core/dbus.c).
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

// dial connects to PID 1. The connection ends when the context ends.
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

// The function `executing` reports whether the error means that PID 1 re-executes itself (systemctl daemon-reexec, or
// an upgrade of systemd). While PID 1 re-executes itself, either nothing listens on the socket, or PID 1 drops a
// connection that it had accepted.
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
	// dialOnce sends no Hello message, because PID 1 itself, and not a message bus, is at the other end of the private
	// socket.
	err = c.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if !late.Stop() {
		err = errSilent
	}
	if err != nil {
		return nil, errors.Join(context.Cause(ctx), err, c.Close())
	}
	return c, nil
}

// The method `job` starts a job of PID 1 and waits until that job has ended. If the context ends first, the wait
// ends, and PID 1 continues its job. If the connection breaks, the method starts the same job again. A second start is
// harmless for every job of hotmount.
func (m *Manager) job(ctx context.Context, unit string, start func(context.Context, *sd.Conn, chan<- string) (int, error)) error {
	for {
		if err := m.jobOnce(ctx, unit, start); !errors.Is(err, errLost) {
			return err
		}
	}
}

func (m *Manager) jobOnce(ctx context.Context, unit string, start func(context.Context, *sd.Conn, chan<- string) (int, error)) error {
	return m.withConnection(ctx, func(connected context.Context, c *sd.Conn) error {
		// go-systemd sends the job's result while it holds a lock. Because the channel has a buffer, go-systemd does
		// not block when it sends the result.
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

// startAlone asks PID 1 to start one mount unit. If PID 1 refuses, and the unit does not exist, startAlone removes the
// mount point. If PID 1 does not answer, startAlone keeps the mount point, because PID 1 may still mount the disk.
func (m *Manager) startAlone(ctx context.Context, u MountUnit) error {
	properties, err := u.properties()
	if err != nil {
		return err
	}
	err = m.startTransient(ctx, Name(u.Path), properties, nil)
	var answer dbus.Error
	if !errors.As(err, &answer) || !m.leftover(u.Path) {
		return err
	}
	return errors.Join(err, m.Run(ctx, disk.ProgramCleanup, u.ID, u.Path))
}

// startTransient asks PID 1 to make and start a transient unit, and to make the other units together with it.
// startTransient returns ErrExists if the unit exists. startTransient needs no connection for signals, because it does
// not wait for the job.
//
// If the answer is lost, for example because PID 1 re-executes itself, startTransient asks once more. If the unit from
// the first request exists, PID 1 refuses the second request, and startTransient returns ErrExists.
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

// The method `call` opens a new connection, and calls a D-Bus method of PID 1's Manager interface. The answer is stored
// in the parameter `result`. The time limit is the constant `patience`.
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

// MountEnded reports whether the job that StartMount requested has ended. If the job has ended and nothing is mounted,
// the error is a *JobError.
//
// PID 1 removes the file of a transient unit when it unloads the unit. While the file exists, MountEnded returns false
// without a question to PID 1, because each connection costs PID 1 time. If the parameter `sure` is true, MountEnded
// always asks PID 1.
func (m *Manager) MountEnded(ctx context.Context, path string, sure bool) (bool, error) {
	if err := checkPath(path); err != nil {
		return false, err
	}
	if m.hasMountUnit(path) && !sure {
		return false, nil
	}
	ended := false
	err := m.withConnection(ctx, func(ctx context.Context, c *sd.Conn) (err error) {
		ended, err = mountEnded(ctx, c, Name(path))
		return err
	})
	return ended, err
}

func mountEnded(ctx context.Context, c *sd.Conn, name string) (bool, error) {
	get := func(property string) (any, error) {
		p, err := c.GetUnitPropertyContext(ctx, name, property)
		if err != nil {
			return nil, disk.OfNode(fmt.Errorf("cannot read the properties of %s from systemd: %w", name, err))
		}
		return p.Value.Value(), nil
	}
	// MountEnded reads the job before the state, because a unit that waits for its device is inactive and has a job. A
	// unit without a job has the job number 0 (org.freedesktop.systemd1(5)).
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
		// PID 1 has removed the unit, or keeps the unit without its mount. The journal contains the unit's result.
		return true, &JobError{Unit: name, Result: "failed"}
	}
	return true, nil
}

// MissingAbove searches the mount units above the mount point, and returns the nearest unit that is loaded but not
// active. If there is no such unit, or the result of the mount's job is not "dependency", MissingAbove returns "". A
// mount unit requires the mount unit of each parent directory, if that unit comes from fstab or a unit file
// (systemd.mount(5), "Implicit Dependencies"). The returned unit has failed, or has waited in vain for its own device.
func (m *Manager) MissingAbove(ctx context.Context, path, result string) (name string, err error) {
	if err := checkPath(path); err != nil || result != "dependency" {
		return "", err
	}
	err = m.withConnection(ctx, func(ctx context.Context, c *sd.Conn) error {
		for dir := filepath.Dir(path); dir != "/" && name == ""; dir = filepath.Dir(dir) {
			p, err := c.GetUnitPropertiesContext(ctx, Name(dir))
			if err != nil {
				return disk.OfNode(fmt.Errorf("cannot read the properties of %s from systemd: %w", Name(dir), err))
			}
			if p["LoadState"] == "loaded" && p["ActiveState"] != "active" {
				name = Name(dir)
			}
		}
		return nil
	})
	return name, err
}

// hasMountUnit reports whether PID 1 has the transient mount unit of the mount point.
func (m *Manager) hasMountUnit(path string) bool {
	_, err := os.Lstat(filepath.Join(cmp.Or(m.transient, transientUnits), Name(path)))
	return err == nil
}

// The function `refusal` returns the reason why PID 1 did not accept a job for the unit, or nil if PID 1 accepted the
// job. The returned error never blames the disk, because only the result of a job can show a fault of the disk.
func refusal(unit string, err error) error {
	var e dbus.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && e.Name == "org.freedesktop.systemd1.UnitExists":
		return fmt.Errorf("cannot start %s: %w", unit, ErrExists)
	}
	return disk.OfNode(fmt.Errorf("cannot request a job for %s from systemd: %w", unit, err))
}

// StopMount stops the mount unit of the given mount point. A missing unit is not an error.
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

// noSuchUnit reports whether PID 1 answered that the unit is not loaded.
func noSuchUnit(err error) bool {
	var e dbus.Error
	return errors.As(err, &e) && e.Name == "org.freedesktop.systemd1.NoSuchUnit"
}

// Plugged returns the time of CLOCK_MONOTONIC at which the disk became plugged for PID 1. The time is
// ActiveEnterTimestampMonotonic of the disk's device unit, in microseconds (org.freedesktop.systemd1(5)). If the disk
// is not plugged, Plugged returns zero.
//
// A soft reboot ends all mounts, but keeps the device units with their times (manager_timestamp_shall_serialize in
// systemd's src/core/manager-serialize.c). Plugged therefore never returns a time before the start of the current
// userspace.
func (m *Manager) Plugged(ctx context.Context, id disk.ID) (time.Duration, error) {
	device := unit.UnitNamePathEscape(id.Node()) + ".device"
	var properties map[string]any
	var userspace string
	err := m.withConnection(ctx, func(ctx context.Context, c *sd.Conn) (err error) {
		if properties, err = c.GetUnitPropertiesContext(ctx, device); err == nil {
			userspace, err = c.GetManagerProperty("UserspaceTimestampMonotonic")
		}
		return err
	})
	if err != nil {
		return 0, disk.OfNode(fmt.Errorf("cannot read the properties of %s from systemd: %w", device, err))
	}
	since, ok := properties["ActiveEnterTimestampMonotonic"].(uint64)
	if !ok {
		return 0, disk.OfNode(fmt.Errorf("cannot find out when %s became active: the unit has no ActiveEnterTimestampMonotonic", device))
	}
	// go-systemd returns the variant as text: the type `t` (uint64), then the number.
	began, err := strconv.ParseUint(strings.TrimPrefix(userspace, "@t "), 10, 64)
	if err != nil {
		return 0, disk.OfNode(fmt.Errorf("cannot parse the time at which userspace began: %w", err))
	}
	if properties["ActiveState"] != "active" || since == 0 {
		return 0, nil
	}
	return time.Duration(max(since, began)) * time.Microsecond, nil
}

// Run starts the program's unit for the disk and the mount point, and waits until the program has ended. If the unit
// already runs, Run waits until its program ends. ProgramBlock does not end, so Run waits only until the unit of
// ProgramBlock has started. If that unit already runs, Run restarts the unit.
func (m *Manager) Run(ctx context.Context, p disk.Program, id disk.ID, path string) error {
	name, err := programUnit(p, id, path)
	if err != nil {
		return err
	}
	return m.job(ctx, name, func(ctx context.Context, c *sd.Conn, result chan<- string) (int, error) {
		if p == disk.ProgramBlock {
			return c.RestartUnitContext(ctx, name, "replace", result)
		}
		return c.StartUnitContext(ctx, name, "replace", result)
	})
}

// Stop stops the program's unit for the disk. A missing unit is not an error.
func (m *Manager) Stop(ctx context.Context, p disk.Program, id disk.ID) error {
	name, err := programUnit(p, id, "")
	if err != nil {
		return err
	}
	return m.stop(ctx, name)
}

// programUnit returns the name of the unit that runs the program for the disk and the mount point.
func programUnit(p disk.Program, id disk.ID, path string) (string, error) {
	switch p {
	case disk.ProgramCleanup:
		return cleanupUnit(path), checkPath(path)
	case disk.ProgramUnmount:
		return fmt.Sprintf("%s@%s:%s.service", p, unit.UnitNamePathEscape(path), id.Dev), checkPath(path)
	}
	if id.Seq == 0 {
		return "", fmt.Errorf("cannot run %s: the disk has no disk sequence number", p)
	}
	return fmt.Sprintf("%s@%d.service", p, id.Seq), nil
}

// AwaitCleanup waits until PID 1 has finished the removal of the mount point, so that the next mount can use the
// directory. PID 1 starts the cleanup when a mount ends. If the cleanup ran late, it would remove the directory that
// the next mount needs.
func (m *Manager) AwaitCleanup(ctx context.Context, path string) error {
	if err := checkPath(path); err != nil {
		return err
	}
	if !m.leftover(path) {
		return nil
	}
	// The cleanup unit stays loaded in PID 1 while the unit has a job or runs.
	var unit dbus.ObjectPath
	if noSuchUnit(m.call(ctx, "GetUnit", &unit, cleanupUnit(path))) {
		return nil
	}
	return m.Run(ctx, disk.ProgramCleanup, disk.ID{}, path)
}

// The method `leftover` reports whether a mount point exists without a mount unit. While PID 1 has a mount unit for the
// mount point, the directory belongs to that unit.
func (m *Manager) leftover(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist) && !m.hasMountUnit(path)
}
