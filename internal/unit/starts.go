package unit

import (
	"cmp"
	"context"
	"fmt"
	"log/syslog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// The type `starts` combines the mounts of several disks into one request (a batch). While mounts are under way, new
// requests wait, and go to PID 1 together when the mounts are over or waitMost has passed. If many disks arrive at
// once, a separate mount(8) for each disk would be the largest load on PID 1 and the processors. The slower the mounts
// are, the larger a batch becomes. The zero value is ready for use.
type starts struct {
	mu      sync.Mutex
	waiting []*start
	// The field `turn` is a channel with room for one request: the request whose mounts are under way. The field is not a
	// mutex, because StartMount waits for several channels in one select statement.
	turn chan struct{}
	// lastBatch is the time of the latest start of a service that mounts disks.
	lastBatch time.Time
	// maxWait replaces waitMost in tests.
	maxWait time.Duration
}

// start is one requested mount.
type start struct {
	unit MountUnit
	over func()
	// The channel `answered` is closed when hotmount has requested the mount through a service, or when the mount must
	// be requested alone. In the second case, the field byItself is set before the channel is closed.
	answered chan struct{}
	byItself bool
}

// waitMost is the maximum time for which new mounts wait for the mounts that are under way. A mount under way may have
// to recover the filesystem's log, or to wait for a disk that does not answer.
const waitMost = 500 * time.Millisecond

// The method `add` appends a mount to the queue and returns the channel s.turn.
func (s *starts) add(one *start) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, one)
	if s.turn == nil {
		s.turn = make(chan struct{}, 1)
	}
	return s.turn
}

// The method `take` empties the queue and returns all mounts that waited in it.
func (s *starts) take() []*start {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.waiting
	s.waiting = nil
	return all
}

// withdraw removes a mount from the queue, and reports whether the mount was in the queue.
func (s *starts) withdraw(one *start) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.waiting {
		if s.waiting[i] == one {
			s.waiting = append(s.waiting[:i:i], s.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// StartMount starts a transient mount unit for a filesystem, and returns when PID 1 has received the request. The mount
// table, and not StartMount, shows when the filesystem is mounted. MountEnded reports whether the mount's job has
// ended, and returns an error if the mount has failed.
//
// When the caller no longer waits for the mount, it must call the returned function, even after an error. Later
// requests wait for this call.
func (m *Manager) StartMount(ctx context.Context, u MountUnit) (over func(), err error) {
	if err := u.check(); err != nil {
		return func() {}, fmt.Errorf("cannot mount %s: %w", u.ID, err)
	}
	s := &start{unit: u, over: func() {}, answered: make(chan struct{})}
	turn := m.starts.add(s)
	select {
	case turn <- struct{}{}:
		all := m.starts.take()
		endTurn(all, cmp.Or(m.starts.maxWait, waitMost), func() { <-turn })
		m.ask(ctx, all)
	case <-s.answered:
	case <-ctx.Done():
		if m.starts.withdraw(s) {
			return s.over, fmt.Errorf("cannot wait for %s: %w", Name(u.Path), context.Cause(ctx))
		}
	}
	if <-s.answered; s.byItself {
		return s.over, m.startAlone(ctx, u)
	}
	return s.over, nil
}

// endTurn calls the function `turn` when all mount jobs have ended, or when the time limit has passed.
func endTurn(all []*start, most time.Duration, turn func()) {
	if len(all) == 0 { // another request already has the mount in its batch
		turn()
		return
	}
	turnOnce := sync.OnceFunc(turn)
	late := time.AfterFunc(most, turnOnce)
	left := new(atomic.Int64)
	left.Store(int64(len(all)))
	for _, s := range all {
		s.over = sync.OnceFunc(func() {
			if left.Add(-1) == 0 {
				late.Stop()
				turnOnce()
			}
		})
	}
}

// heldBack is how long PID 1 may delay the jobs of mount units after several mounts. PID 1 reads the mount table at
// most five times a second (mount_enumerate in systemd's src/core/mount.c). PID 1 runs no job of a mount unit until it
// has read the mount table.
const heldBack = 1500 * time.Millisecond

// mayBeHeldBack reports whether PID 1 may delay the jobs of mount units now.
func (s *starts) mayBeHeldBack() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.lastBatch) <= heldBack
}

// The method `service` records the present time as the last start of a service that mounts disks.
func (s *starts) service() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastBatch = time.Now()
}

// The method `ask` requests the mounts from PID 1. For several mounts, the method requests one service that makes all
// mounts. While PID 1 may delay the jobs of mount units, the method requests even a single mount through a service. PID
// 1 does not delay the jobs of services.
//
// If the request for the service fails, each mount must be requested alone. PID 1 refuses the whole batch if one of the
// mount units is already loaded or masked.
func (m *Manager) ask(ctx context.Context, all []*start) {
	byItself := len(all) == 1 && !m.starts.mayBeHeldBack()
	if len(all) > 0 && !byItself {
		if byItself = m.startTogether(ctx, all) != nil; !byItself {
			m.starts.service()
		}
	}
	for _, s := range all {
		s.byItself = byItself
		close(s.answered)
	}
}

// togetherUnit is the beginning of the name of a service that mounts several disks. The name of such a service does not
// begin with "hotmount-", because the sandbox of the services with that prefix would apply to mount(8).
const togetherUnit = "hotmounts-"

// condition is a condition of a unit (Conditions in org.freedesktop.systemd1(5)).
type condition struct {
	Type            string
	Trigger, Negate bool
	Parameter       string
}

// startTogether asks PID 1 to start a service that runs one mount(8) for all mounts. Without this service, 20 disks
// took 348 ms instead of 215 ms (ADR 0011). PID 1 starts the mount units after this service. As soon as PID 1 sees a
// mount in the mount table, the job of the mount unit is done. If the service did not make a mount, PID 1 itself makes
// the mount.
func (m *Manager) startTogether(ctx context.Context, all []*start) error {
	var table strings.Builder
	var names []string
	var mounts []sd.PropertyCollection
	var conditions []condition
	var timeout time.Duration
	p := func(name string, value any) sd.Property {
		return sd.Property{Name: name, Value: dbus.MakeVariant(value)}
	}
	for _, s := range all {
		properties, err := s.unit.properties()
		if err != nil {
			return err
		}
		// PID 1 would log "Condition check resulted in … being skipped" for the job of a mount that the service has
		// made. This message would be misleading, so LogLevelMax= drops the message (job_emit_done_message in systemd's
		// src/core/job.c). The dropped message has the level info, and the output of mount(8) has the level notice.
		properties = append(properties, p("LogLevelMax", int32(syslog.LOG_NOTICE)), p("SyslogLevel", int32(syslog.LOG_NOTICE)))
		names = append(names, Name(s.unit.Path))
		mounts = append(mounts, sd.PropertyCollection{Name: Name(s.unit.Path), Properties: properties})
		table.WriteString(s.unit.line())
		conditions = append(conditions, condition{Type: "ConditionPathIsSymbolicLink", Negate: true, Parameter: s.unit.Path})
		timeout = max(timeout, s.unit.Timeout)
	}
	return m.startTransient(ctx, fmt.Sprintf("%s%d.service", togetherUnit, all[0].unit.ID.Seq), []sd.Property{
		p("Description", fmt.Sprintf("Mount several disks at once (%d)", len(all))),
		p("Type", "oneshot"),
		// With --fork, each mount has its own process. A mount therefore does not wait for another disk, or for the
		// recovery of another filesystem's log. mount(8) has PID 1's mount namespace, capabilities and user, as in a
		// mount unit.
		sd.PropExecStart([]string{"/usr/bin/mount", "--all", "--fork", "--fstab", "/proc/self/fd/0"}, false),
		// mount(8) follows links, so the service checks for links first. For a mount unit, PID 1 itself checks for
		// links.
		p("Conditions", conditions),
		p("StandardInput", "data"),
		p("StandardInputData", []byte(table.String())),
		p("Environment", environment),
		p("TimeoutStartUSec", uint64(timeout/time.Microsecond)),
		p("CollectMode", "inactive-or-failed"),
		p("DefaultDependencies", false),
		p("Conflicts", []string{"shutdown.target"}),
		p("Before", append([]string{"shutdown.target"}, names...)),
		p("Wants", names),
	}, mounts)
}

// CheckHeldBack returns an error if the unit of a mount point may belong to a batch of mounts that has not ended. PID 1
// does not start the mount units of a batch while one disk of the batch does not answer.
func (m *Manager) CheckHeldBack(path string) error {
	at := filepath.Join(cmp.Or(m.transient, transientUnits), togetherUnit)
	if found, err := filepath.Glob(at + "*.service"); err != nil || len(found) == 0 || !m.hasMountUnit(path) {
		return nil
	}
	return fmt.Errorf("perhaps systemd has not started %s, because an earlier service that mounts several disks has not ended; see systemctl status '%s*'", Name(path), togetherUnit)
}
