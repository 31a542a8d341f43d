package unit

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	// turn has room for the one request whose mounts are under way. It is no mutex, so that one can wait
	// for it and for others, and a test until all wait (testing/synctest).
	turn chan struct{}
	// most is another than waitMost in tests.
	most time.Duration
}

// start is one mount that is asked for.
type start struct {
	unit MountUnit
	over func()
	// answered is closed when PID 1 has answered, by err.
	answered chan struct{}
	err      error
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

// take gives all that wait.
func (s *starts) take() []*start {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.waiting
	s.waiting = nil
	return all
}

// withdraw says whether one was still waiting, and does not any more.
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

// underWay says whether a mount that is asked for now has to wait.
func (s *starts) underWay() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.turn) > 0
}

// StartMount has a filesystem mounted by a transient mount unit. It returns when
// PID 1 has been asked; that it is mounted the mount table tells, that it can not be
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
	<-s.answered
	return s.over, s.err
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

// ask asks PID 1 for these mounts: for several together, unless that fails. One of which there is a unit
// already is asked for alone, for only then PID 1 says so.
func (m *Manager) ask(ctx context.Context, all []*start) {
	var alone, together []*start
	for _, s := range all {
		if len(all) == 1 || m.hasAny(s.unit.Path) {
			alone = append(alone, s)
		} else {
			together = append(together, s)
		}
	}
	if len(together) == 1 || len(together) > 1 && m.startTogether(ctx, together) != nil {
		alone, together = append(alone, together...), nil
	}
	for _, s := range together {
		close(s.answered)
	}
	for _, s := range alone {
		s.err = m.startAlone(ctx, s.unit)
		close(s.answered)
	}
}

// togetherUnit begins the name of a service that mounts several disks.
const togetherUnit = "hotmount-mounts-"

// condition is one of a unit (Conditions in org.freedesktop.systemd1(5)).
type condition struct {
	Type            string
	Trigger, Negate bool
	Parameter       string
}

// startTogether has PID 1 make the mount units, and start one mount(8) for all of them. As soon as PID 1 sees
// a mount its unit is active. If one fails PID 1 is to start the units: of those that are active nothing
// comes of that, and the others have their failure, by a mount(8) of their own, in their own journal.
func (m *Manager) startTogether(ctx context.Context, all []*start) error {
	var table strings.Builder
	var names []string
	var mounts []sd.PropertyCollection
	var conditions []condition
	var timeout time.Duration
	for _, s := range all {
		properties, err := s.unit.properties()
		if err != nil {
			return err
		}
		names = append(names, Name(s.unit.Path))
		mounts = append(mounts, sd.PropertyCollection{Name: Name(s.unit.Path), Properties: properties})
		table.WriteString(s.unit.line())
		conditions = append(conditions, condition{Type: "ConditionPathIsSymbolicLink", Negate: true, Parameter: s.unit.Path})
		timeout = max(timeout, s.unit.Timeout)
	}
	p := func(name string, value any) sd.Property {
		return sd.Property{Name: name, Value: dbus.MakeVariant(value)}
	}
	return m.startTransient(ctx, fmt.Sprintf("%s%d.service", togetherUnit, all[0].unit.ID.Seq), []sd.Property{
		p("Description", fmt.Sprintf("Mount %d disks that came together", len(all))),
		p("Type", "oneshot"),
		// A process for each, so that none waits for another's log or disk. It has PID 1's mount
		// namespace, capabilities and user, as the mount(8) of a mount unit has.
		sd.PropExecStart([]string{"/usr/bin/mount", "--all", "--fork", "--fstab", "/proc/self/fd/0"}, false),
		// As PID 1 looks itself before a mount unit's mount(8), which follows a link.
		p("Conditions", conditions),
		p("StandardInput", "data"),
		p("StandardInputData", []byte(table.String())),
		p("Environment", environment),
		p("TimeoutStartUSec", uint64(timeout/time.Microsecond)),
		p("CollectMode", "inactive-or-failed"),
		p("DefaultDependencies", false),
		p("Conflicts", []string{"shutdown.target"}),
		p("Before", []string{"shutdown.target"}),
		// By this PID 1 has the mount units, which nobody else names yet, as long as it has the service. The
		// jobs replace no others: not those of a shutdown.
		p("OnFailure", names),
		p("OnFailureJobMode", "fail"),
	}, mounts)
}

// together says whether a service that mounts several disks is under way, or PID 1 has not looked after
// it yet.
func (m *Manager) together() bool {
	found, err := filepath.Glob(filepath.Join(cmp.Or(m.transient, transientUnits), togetherUnit+"*.service"))
	return err == nil && len(found) > 0
}

// unitDirectories are those in which PID 1 looks for unit files but that of transient units ("System Unit
// Search Path" in systemd.unit(5)).
var unitDirectories = []string{
	"/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/generator.early", "/etc/systemd/system", "/etc/systemd/system.attached",
	"/run/systemd/system", "/run/systemd/system.attached", "/run/systemd/generator", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/run/systemd/generator.late",
}

// hasAny says whether there is a unit file, or a mask, for the mount point.
func (m *Manager) hasAny(path string) bool {
	return m.has(path) || slices.ContainsFunc(unitDirectories, func(d string) bool {
		_, err := os.Lstat(filepath.Join(d, Name(path)))
		return err == nil
	})
}
