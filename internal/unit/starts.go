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

// starts has the mounts that are asked for while others are under way wait for these, and then
// asked for together: where many disks come at once, what costs PID 1 and the processors most is a
// mount(8) for each. How many go together so depends on how fast mounts are. The zero value is ready.
type starts struct {
	mu      sync.Mutex
	waiting []*start
	// turn has room for the one request whose mounts are under way. It is no mutex, so that one can wait for
	// it and for the answer to another's request at once.
	turn chan struct{}
	// together is when a service was asked for last.
	together time.Time
	// most is another than waitMost in tests.
	most time.Duration
}

// start is one mount that is asked for.
type start struct {
	unit MountUnit
	over func()
	// answered is closed when it was asked for with others, or is to be asked for alone.
	answered chan struct{}
	alone    bool
}

// waitMost is how long those that come wait for the mounts that are under way: one may take its time, to
// recover a log or on a disk that does not answer.
const waitMost = 500 * time.Millisecond

// add has a mount wait for its turn, and gives the turn.
func (s *starts) add(one *start) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, one)
	if s.turn == nil {
		s.turn = make(chan struct{}, 1)
	}
	return s.turn
}

// take returns all that wait.
func (s *starts) take() []*start {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.waiting
	s.waiting = nil
	return all
}

// withdraw reports whether one was still waiting, and does not any more.
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

// underWay reports whether a mount that is asked for now has to wait.
func (s *starts) underWay() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.turn) > 0
}

// StartMount has a filesystem mounted by a transient mount unit. It returns when
// PID 1 has been asked; that it is mounted the mount table tells, that it cannot be
// MountEnded. Whoever calls it calls over when he does not wait for the mount any more, also after an
// error: those that have come meanwhile have waited for that.
func (m *Manager) StartMount(ctx context.Context, u MountUnit) (over func(), err error) {
	if err := u.check(); err != nil {
		return func() {}, fmt.Errorf("cannot mount %s: %w", u.ID, err)
	}
	s := &start{unit: u, over: func() {}, answered: make(chan struct{})}
	turn := m.starts.add(s)
	select {
	case turn <- struct{}{}:
		all := m.starts.take()
		end(all, cmp.Or(m.starts.most, waitMost), func() { <-turn })
		m.ask(ctx, all)
	case <-s.answered:
	case <-ctx.Done():
		if m.starts.withdraw(s) {
			return s.over, fmt.Errorf("cannot wait for %s: %w", Name(u.Path), context.Cause(ctx))
		}
	}
	if <-s.answered; s.alone {
		return s.over, m.startAlone(ctx, u)
	}
	return s.over, nil
}

// end has the turn end when all of these mounts are over, or have taken too long.
func end(all []*start, most time.Duration, turn func()) {
	if len(all) == 0 { // another had this one among its own
		turn()
		return
	}
	once := sync.OnceFunc(turn)
	late := time.AfterFunc(most, once)
	left := new(atomic.Int64)
	left.Store(int64(len(all)))
	for _, s := range all {
		s.over = sync.OnceFunc(func() {
			if left.Add(-1) == 0 {
				late.Stop()
				once()
			}
		})
	}
}

// heldBack is how long PID 1 may hold back jobs of mount units after several mounts: it reads the mount table five
// times a second at most (mount_enumerate in systemd's src/core/mount.c), and no such job runs until it has.
const heldBack = 1500 * time.Millisecond

// mayBeHeldBack reports whether PID 1 may hold back jobs of mount units now.
func (s *starts) mayBeHeldBack() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.together) <= heldBack
}

// service notes that a service was asked for.
func (s *starts) service() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.together = time.Now()
}

// ask asks PID 1 for these mounts by one service, if they are several, or if one comes when PID 1 may hold back
// jobs of mount units: a service it does not hold back. Where that fails each is asked for alone: PID 1 refuses
// all if it has one of the units already, or that is masked.
func (m *Manager) ask(ctx context.Context, all []*start) {
	alone := len(all) == 1 && !m.starts.mayBeHeldBack()
	if len(all) > 0 && !alone {
		alone = m.startTogether(ctx, all) != nil
		m.starts.service()
	}
	for _, s := range all {
		s.alone = alone
		close(s.answered)
	}
}

// togetherUnit begins the name of a service that mounts several disks. It is not "hotmount-", by which systemd gives our
// services their sandbox: that of mount(8) would be another.
const togetherUnit = "hotmounts-"

// condition is one of a unit (Conditions in org.freedesktop.systemd1(5)).
type condition struct {
	Type            string
	Trigger, Negate bool
	Parameter       string
}

// startTogether has PID 1 start the mount units after a service that runs one mount(8) for all of them. As soon as
// PID 1 sees a mount, the job of its unit is done; one that is not there when the service has ended PID 1
// mounts by its unit.
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
		// Of a job that is done by this PID 1 would say "Condition check resulted in … being skipped", which is not
		// what happened (job_emit_done_message in systemd's src/core/job.c; LOG_INFO). What mount(8) says is a notice.
		properties = append(properties, p("LogLevelMax", int32(syslog.LOG_NOTICE)), p("SyslogLevel", int32(syslog.LOG_NOTICE)))
		names = append(names, Name(s.unit.Path))
		mounts = append(mounts, sd.PropertyCollection{Name: Name(s.unit.Path), Properties: properties})
		table.WriteString(s.unit.line())
		conditions = append(conditions, condition{Type: "ConditionPathIsSymbolicLink", Negate: true, Parameter: s.unit.Path})
		timeout = max(timeout, s.unit.Timeout)
	}
	return m.startTransient(ctx, fmt.Sprintf("%s%d.service", togetherUnit, all[0].unit.ID.Seq), []sd.Property{
		p("Description", fmt.Sprintf("Mount disks that come together (%d)", len(all))),
		p("Type", "oneshot"),
		// A process for each, so that none waits for another's log or disk. It has PID 1's mount
		// namespace, capabilities and user, as the mount(8) of a mount unit has.
		sd.PropExecStart([]string{"/usr/bin/mount", "--all", "--fork", "--fstab", "/proc/self/fd/0"}, false),
		// PID 1 looks before a mount unit's mount(8), which follows a link.
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

// Held returns an error if PID 1 may keep the unit of a mount point for those that it was asked for with: as long
// as a disk does not answer, on which one of them is to be mounted.
func (m *Manager) Held(path string) error {
	at := filepath.Join(cmp.Or(m.transient, transientUnits), togetherUnit)
	if found, err := filepath.Glob(at + "*.service"); err != nil || len(found) == 0 || !m.has(path) {
		return nil
	}
	return fmt.Errorf("systemd has %s from another start, as long as a disk that came with it is not mounted; see systemctl status '%s*'", Name(path), togetherUnit)
}
