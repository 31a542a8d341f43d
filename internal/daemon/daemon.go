// Package daemon connects the agent to the node: to uevents, mount table, PID 1, control socket, journal, published
// status and metrics.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
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
	// Load reads the settings again, on SIGHUP.
	Load func() (*disk.Settings, error)
	Log  *report.Log
	// Socket is the path of the control socket.
	Socket string
	// MetricsDirectory is where the metrics are written if it exists. Empty means no metrics.
	MetricsDirectory string
	Version          string
}

// parts is the state that the goroutines of the daemon share.
type parts struct {
	Daemon
	agent    *agent.Agent
	host     inventory.Host // with the state that looks share
	node     node
	seen     observer
	mounting *arrivals
	events   *uevent.Listener
	nodes    *uevent.Nodes // nil without a watch
	// partitions and loops report whether the settings ask for partitions, and have a class of loop devices.
	partitions, loops atomic.Bool
}

// Run runs the daemon until ctx ends or a part of it fails.
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
	part(p.hear)
	part(p.watchNodes)
	// Mounts from before the agent's first look are no change. Otherwise the agent would look twice at each mounted
	// disk.
	before, err := p.host.Mounts()
	d.Log.Problem(err)
	part(func(ctx context.Context) error { return p.watchMounts(ctx, before) })
	part(func(ctx context.Context) error {
		return control.Serve(ctx, d.Socket, func(ctx context.Context, r control.Request) (string, error) { return answer(ctx, p.agent, r) })
	})
	part(func(ctx context.Context) error { return p.seen.publish(ctx, d.MetricsDirectory) })
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

// connect makes the parts. It already listens to the kernel's events, so that none is lost between the first look at
// all disks and the first event.
func (d Daemon) connect() (*parts, error) {
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return nil, fmt.Errorf("cannot read the watchdog's period: %w", err)
	}
	p := &parts{Daemon: d, host: d.Host, mounting: &arrivals{}}
	said, err := d.Host.Store.Published()
	d.Log.Problem(err) // the only loss is since when a decision holds
	p.seen = observer{d.Log, report.NewBoard(said), metrics.New(d.Version), new(sync.Mutex), d.Host, new(time.Time)}
	if p.events, err = uevent.Listen(); err != nil {
		return nil, err
	}
	p.host.Shared, p.host.Measure = new(inventory.Shared), mounts.XFSGeometry
	p.host.Partitions = p.partitions.Load
	// The node may have no room for a watch (fs.inotify.max_user_instances).
	p.nodes, err = uevent.WatchNodes("/dev", func(name string) bool { return mayBeDisk(name, p.loops.Load()) })
	if err != nil {
		d.Log.Problem(fmt.Errorf("%w; a disk that is moved to another slot at once may need hotmount accept", err))
	}
	p.host.CameAfter = p.nodes.CameAfter
	p.node = node{p.host, d.Log, p.seen.metrics, &p.partitions, &p.loops}
	p.agent = agent.New(p.node, units{new(unit.Manager), p.mounting, p.host}, p.seen, d.Settings, watchdog/2, p.host.Monotonic)
	return p, p.node.saveSettings(d.Settings)
}

// hear makes the agent look at the disks in the kernel's events.
func (p *parts) hear(ctx context.Context) error {
	return p.events.Run(ctx, func(h uevent.Hint) {
		wanted := !h.Partition || p.partitions.Load()
		if wanted {
			p.seen.heard(h)
		}
		look(p.agent, h, wanted)
	})
}

// watchNodes continues without the watch if it fails.
func (p *parts) watchNodes(ctx context.Context) error {
	if p.nodes != nil {
		p.Log.Problem(p.nodes.Run(ctx))
	}
	return nil
}

// loadEvery is how often a faulty configuration is read again: a corrected one is used without being asked.
const loadEvery = 10 * time.Second

// reload replaces the settings on SIGHUP, all or nothing, and once a configuration that was faulty at start is correct.
func (p *parts) reload(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, unix.SIGHUP)
	defer signal.Stop(hup)
	again := time.NewTicker(loadEvery)
	defer again.Stop()
	if p.Settings.Fault == "" {
		again.Stop()
	}
	for {
		asked := false
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			asked = true
		case <-again.C:
		}
		s, err := p.Load()
		if err == nil {
			err = p.node.saveSettings(s)
		}
		if err == nil {
			err = p.agent.Reload(ctx, s)
		}
		switch {
		case err == nil:
			again.Stop()
		case asked:
			p.Log.Problem(fmt.Errorf("cannot reload, and the old settings stay in use: %w", err))
		}
	}
}

// commanded is the part of the agent that serves the command line.
type commanded interface {
	Accept(ctx context.Context, name string, seq uint64, shown disk.Reason) (string, error)
	Release(ctx context.Context, name string, seq uint64) error
	Retry(ctx context.Context) error
	LookAt(ctx context.Context, seq uint64) error
}

// answer passes a request of the command line to the agent.
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
