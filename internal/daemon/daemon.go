// Package daemon connects the agent to uevents, the mount table, PID 1, the control socket, the journal, the published
// status and the metrics.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"hotmount/internal/agent"
	"hotmount/internal/control"
	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/metrics"
	"hotmount/internal/mounts"
	"hotmount/internal/report"
	"hotmount/internal/uevent"
	"hotmount/internal/unit"
)

// Daemon holds the parameters of the daemon.
type Daemon struct {
	Host     inventory.Host
	Settings *disk.Settings
	// Load reads the settings again after SIGHUP, and every loadEvery while a configuration that was faulty at start is
	// not corrected.
	Load func() (*disk.Settings, error)
	Log  *report.Log
	// Socket is the path of the control socket.
	Socket string
	// MetricsDirectory is the directory for the metrics. No metrics are written if MetricsDirectory is empty or does
	// not exist.
	MetricsDirectory string
	Version          string
}

// parts is the state that the goroutines of the daemon share.
type parts struct {
	Daemon
	agent    *agent.Agent
	host     inventory.Host // host.Shared is common to all looks
	node     node
	observer observer
	mounting *arrivals
	events   *uevent.Listener
	nodes    *uevent.Nodes // nil if /dev is not watched
	// The field `partitions` is true if a class selects partitions. The field `loops` is true if a class selects loop
	// devices.
	partitions, loops atomic.Bool
}

// Run runs the daemon until ctx ends or a part of the daemon fails.
func (d Daemon) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.Log.Problem(d.Host.RecordArrival())
	p, err := d.connect()
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	part := func(run func(context.Context) error) {
		all.Go(func() {
			if err := run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	part(p.watchEvents)
	part(p.watchNodes)
	// Mounts that existed before the agent's first look do not count as changes, so that the agent does not look twice
	// at mounted disks.
	before, err := p.host.Mounts()
	d.Log.Problem(err)
	part(func(ctx context.Context) error { return p.watchMounts(ctx, before) })
	part(func(ctx context.Context) error {
		return control.Serve(ctx, d.Socket, func(ctx context.Context, r control.Request) (string, error) { return answer(ctx, p.agent, r) })
	})
	part(func(ctx context.Context) error { return p.observer.publish(ctx, d.MetricsDirectory) })
	part(p.reload)
	part(func(ctx context.Context) error {
		err := p.agent.Run(ctx)
		cancel(err)
		return err
	})
	all.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// The method `connect` makes the parts of the daemon. The method also begins to listen to udev's events, so that no
// event is lost during the agent's first look at all disks.
func (d Daemon) connect() (*parts, error) {
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return nil, fmt.Errorf("cannot read the watchdog timeout (WATCHDOG_USEC): %w", err)
	}
	p := &parts{Daemon: d, host: d.Host, mounting: &arrivals{}}
	published, err := d.Host.Store.Published()
	d.Log.Problem(err) // without the published lines, only the times of the decisions are lost
	p.observer = observer{d.Log, report.NewBoard(published), metrics.New(d.Version), new(sync.Mutex), d.Host, new(time.Time)}
	if p.events, err = uevent.Listen(); err != nil {
		return nil, err
	}
	p.host.Shared, p.host.Measure = new(inventory.Shared), mounts.XFSGeometry
	p.host.Partitions = p.partitions.Load
	// The watch may fail because the user has no free inotify instance (fs.inotify.max_user_instances).
	p.nodes, err = uevent.WatchNodes("/dev", func(name string) bool { return mayBeDisk(name, p.loops.Load()) })
	if err != nil {
		d.Log.Problem(fmt.Errorf("%w; if you detach a disk and immediately attach the disk at another slot, hotmount may hold the disk; to let hotmount use the disk: hotmount accept DISK", err))
	}
	p.host.CameAfter = p.nodes.CameAfter
	p.node = node{p.host, d.Log, p.observer.metrics, &p.partitions, &p.loops, new(atomic.Value)}
	p.agent = agent.New(p.node, units{new(unit.Manager), p.mounting, p.host}, p.observer, d.Settings, watchdog/2, p.host.Monotonic)
	return p, p.node.saveSettings(d.Settings)
}

// watchEvents makes the agent look at each disk about which udev sends an event.
func (p *parts) watchEvents(ctx context.Context) error {
	return p.events.Run(ctx, func(h uevent.Hint) {
		wanted := !h.Partition || p.partitions.Load()
		if wanted {
			p.observer.recordEvent(h)
		}
		requestLooks(p.agent, h, wanted)
	})
}

// watchNodes watches /dev. If the watch fails, the daemon continues without it.
func (p *parts) watchNodes(ctx context.Context) error {
	if p.nodes != nil {
		p.Log.Problem(p.nodes.Run(ctx))
	}
	return nil
}

// loadEvery is how often a configuration that was faulty at start is read again. Once the configuration is corrected,
// the daemon uses it without a SIGHUP.
const loadEvery = 10 * time.Second

// reload loads the settings when a SIGHUP or reloadOn requires it, until ctx ends.
func (p *parts) reload(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, unix.SIGHUP)
	defer signal.Stop(hup)
	p.reloadOn(ctx, hup, func(s *disk.Settings) error {
		if err := p.node.saveSettings(s); err != nil {
			return err
		}
		return p.agent.Reload(ctx, s)
	})
	return nil
}

// reloadOn replaces all settings on a signal, or keeps all settings if the new configuration is faulty. If the
// configuration was faulty at start, reloadOn also replaces the settings once the configuration is correct. Until then,
// reloadOn replaces the field Fault of the settings when the fault changes. reloadOn passes new settings to the function
// `use`.
func (d Daemon) reloadOn(ctx context.Context, hup <-chan os.Signal, use func(*disk.Settings) error) {
	again := time.NewTicker(loadEvery)
	defer again.Stop()
	now := d.Settings
	if now.Fault == "" {
		again.Stop()
	}
	for {
		onSignal := false
		select {
		case <-ctx.Done():
			return
		case <-hup:
			onSignal = true
		case <-again.C:
		}
		s, err := d.Load()
		changed := err != nil && now.Fault != "" && FaultText(err) != now.Fault
		if changed {
			other := *now
			other.Fault, now = FaultText(err), &other
			err = errors.Join(err, use(now))
		} else if err == nil {
			err = use(s)
		}
		switch {
		case err == nil:
			now = s
			again.Stop()
		case onSignal || changed:
			d.Log.Problem(fmt.Errorf("cannot reload, and the old settings stay in use: %w", err))
		}
	}
}

// FaultText returns the text of disk.Settings.Fault for an error of the configuration, which has a line for each fault.
func FaultText(fault error) string {
	first, rest, more := strings.Cut(fault.Error(), "\n")
	if more {
		first += fmt.Sprintf(" (and %d more)", 1+strings.Count(rest, "\n"))
	}
	return first
}

// The interface `commanded` is the part of the agent that carries out requests from the command line.
type commanded interface {
	Accept(ctx context.Context, name string, seq uint64, shown disk.Reason) (string, error)
	Release(ctx context.Context, name string, seq uint64) error
	Retry(ctx context.Context) error
	LookAt(ctx context.Context, seq uint64) error
}

// The function `answer` passes a request of the command line to the agent and returns the agent's answer.
func answer(ctx context.Context, a commanded, r control.Request) (string, error) {
	switch r.Do {
	case "accept":
		return a.Accept(ctx, r.Disk, r.Seq, disk.Reason(r.Reason))
	case "release":
		return "", a.Release(ctx, r.Disk, r.Seq)
	case "look":
		return "", a.Retry(ctx)
	case "hint":
		return "", a.LookAt(ctx, r.Seq)
	}
	return "", fmt.Errorf("cannot do %q: this daemon does not know the request", r.Do)
}
