package unit

import (
	"context"
	"fmt"
	"log/syslog"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// starts knows when a mount was asked for last. The zero value is ready.
type starts struct {
	mu   sync.Mutex
	last time.Time
}

// heldBack is how long after a mount PID 1 may hold jobs of mount units back. It reads the mount table
// five times a second at most, and starts no mount unit until that second is over (mount_enumerate in
// systemd's src/core/mount.c, subsystem_ratelimited in src/core/unit.c). The rest is for the mount itself.
const heldBack = 1500 * time.Millisecond

// soonAfterAnother reports whether another mount was asked for so shortly before that PID 1 may hold this
// one back.
func (s *starts) soonAfterAnother() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.last
	s.last = time.Now()
	return !before.IsZero() && s.last.Sub(before) < heldBack
}

// StartMount has a filesystem mounted by a transient mount unit. It returns when PID 1 has been asked. The
// mount table shows when it is mounted, MountEnded reports that it cannot be mounted.
func (m *Manager) StartMount(ctx context.Context, u MountUnit) error {
	if err := u.check(); err != nil {
		return fmt.Errorf("cannot mount %s: %w", u.ID, err)
	}
	// PID 1 refuses the service if it has the mount unit already, or that is masked. What it
	// answers for the mount unit alone is the error then.
	if m.starts.soonAfterAnother() && m.startByService(ctx, u) == nil {
		return nil
	}
	return m.startAlone(ctx, u)
}

// serviceUnit begins the name of a service that runs mount(8) for a mount unit.
const serviceUnit = "hotmount-mount-"

// condition is one of a unit (Conditions in org.freedesktop.systemd1(5)).
type condition struct {
	Type            string
	Trigger, Negate bool
	Parameter       string
}

// startByService has PID 1 start the mount unit after a service that runs mount(8) for it, since PID 1
// holds no service back. As soon as PID 1 sees the mount, the job of the mount unit is done. If it is not
// there when the service has ended, PID 1 mounts it by the mount unit.
func (m *Manager) startByService(ctx context.Context, u MountUnit) error {
	properties, err := u.properties()
	if err != nil {
		return err
	}
	p := func(name string, value any) sd.Property {
		return sd.Property{Name: name, Value: dbus.MakeVariant(value)}
	}
	// PID 1 would log "Condition check resulted in … being skipped" for a job that is done by the mount, which is
	// not what happened (job_emit_done_message in systemd's src/core/job.c; LOG_INFO). What mount(8) logs is a notice.
	properties = append(properties, p("LogLevelMax", int32(syslog.LOG_NOTICE)), p("SyslogLevel", int32(syslog.LOG_NOTICE)))
	name := Name(u.Path)
	return m.startTransient(ctx, fmt.Sprintf("%s%d.service", serviceUnit, u.ID.Seq), []sd.Property{
		p("Description", "Mount "+u.Description),
		p("Type", "oneshot"),
		// It has PID 1's mount namespace, capabilities and user, as the mount(8) of a mount unit has. In a
		// table the words of a path are words of nothing else, and what is mounted is not mounted again.
		sd.PropExecStart([]string{"/usr/bin/mount", "--all", "--fstab", "/proc/self/fd/0"}, false),
		// PID 1 looks before a mount unit's mount(8), which follows a link.
		p("Conditions", []condition{{Type: "ConditionPathIsSymbolicLink", Negate: true, Parameter: u.Path}}),
		p("StandardInput", "data"),
		p("StandardInputData", []byte(u.line())),
		p("Environment", environment),
		p("TimeoutStartUSec", uint64(u.Timeout/time.Microsecond)),
		p("CollectMode", "inactive-or-failed"),
		p("DefaultDependencies", false),
		p("Conflicts", []string{"shutdown.target"}),
		p("Before", []string{"shutdown.target", name}),
		p("Wants", []string{name}),
	}, []sd.PropertyCollection{{Name: name, Properties: properties}})
}
