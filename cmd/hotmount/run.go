package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"hotmount/internal/agent"
	"hotmount/internal/config"
	"hotmount/internal/control"
	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/metrics"
	"hotmount/internal/mounts"
	"hotmount/internal/report"
	"hotmount/internal/uevent"
	"hotmount/internal/unit"
)

func runCommand() *cobra.Command {
	var format, metricsTo string
	c := &cobra.Command{
		Use:   "run",
		Short: "The daemon: look after the node's disks",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := load(c)
			if err != nil {
				return err
			}
			log, err := report.NewAs(format)
			if err != nil {
				return usageError{err}
			}
			return runDaemon(c, s, log, metricsTo)
		},
	}
	c.Flags().StringVar(&format, "log-format", "auto", "text, json, or auto: the journal if standard error is connected to it, else text")
	complete(c, "log-format", report.Formats...)
	c.Flags().StringVar(&metricsTo, "metrics-directory", "/var/lib/prometheus/node-exporter", "the `directory` of node_exporter's textfile collector; without it there are no metrics")
	if err := c.MarkFlagDirname("metrics-directory"); err != nil {
		panic(err) // there is no such flag
	}
	config.AddFlags(c.Flags())
	return c
}

// runDaemon wires the rooms together and waits for all of them. The first that
// fails ends the others.
func runDaemon(c *cobra.Command, s *disk.Settings, log *report.Log, metricsTo string) error {
	ctx, cancel := context.WithCancelCause(c.Context())
	defer cancel(nil)
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return fmt.Errorf("cannot read the watchdog's period: %w", err)
	}
	reporter := report.Agent{Log: log}
	said, err := host().Store.Published()
	if err != nil {
		reporter.Problem(err) // since when is not known, that is all
	}
	seen := observer{reporter, report.NewBoard(said), metrics.New(version), new(sync.Mutex), host().Store}
	// The socket hears from here on, so that nothing is lost between the first
	// look at all disks and the first event.
	listener, err := uevent.Listen()
	if err != nil {
		return err
	}
	manager := new(unit.Manager)
	mounting := &arrivals{}
	h := host()
	h.Shared, h.Measure = new(inventory.Shared), mounts.XFSGeometry
	partitions, loops := new(atomic.Bool), new(atomic.Bool)
	h.Partitions = partitions.Load
	// There may be no room for a watch (fs.inotify.max_user_instances).
	nodes, err := uevent.WatchNodes("/dev", func(name string) bool { return mayBeDisk(name, loops.Load()) })
	if err != nil {
		reporter.Problem(fmt.Errorf("%w; a disk that is pulled and comes back in another slot at once may have to be accepted", err))
	}
	h.CameAfter = nodes.CameAfter
	a := agent.New(node{h, reporter, seen.metrics, partitions, loops}, units{manager, mounting, h}, seen, s, watchdog/2)

	var parts sync.WaitGroup
	part := func(run func(context.Context) error) {
		parts.Go(func() {
			if err := run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	part(func(ctx context.Context) error {
		return listener.Run(ctx, func(h uevent.Hint) {
			wanted := !h.Partition || partitions.Load()
			if wanted {
				seen.heard(h)
			}
			look(a, h, wanted)
		})
	})
	part(func(ctx context.Context) error {
		if nodes == nil {
			return nil
		}
		if err := nodes.Run(ctx); err != nil {
			reporter.Problem(err)
		}
		return nil
	})
	// What is mounted before the agent looks for the first time is no change. Without it each disk that
	// is mounted is looked at twice.
	before, err := h.Mounts()
	if err != nil {
		reporter.Problem(err)
	}
	part(func(ctx context.Context) error { return watchMounts(ctx, a, h, before, mounting, reporter) })
	part(func(ctx context.Context) error {
		return control.Serve(ctx, socket, func(ctx context.Context, r control.Request) (string, error) { return answer(ctx, a, r) })
	})
	part(func(ctx context.Context) error { return seen.publish(ctx, metricsTo) })
	part(func(ctx context.Context) error { return reloads(ctx, c, a, reporter) })
	part(func(ctx context.Context) error {
		err := a.Run(ctx)
		cancel(err)
		return err
	})
	parts.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// commanded is the agent as the command line needs it.
type commanded interface {
	Accept(ctx context.Context, name string, seq uint64) (string, error)
	Release(ctx context.Context, name string, seq uint64) error
	Retry(ctx context.Context) error
}

// answer has the agent do what the command line asks for.
func answer(ctx context.Context, a commanded, r control.Request) (string, error) {
	switch r.Do {
	case "accept":
		return a.Accept(ctx, r.Disk, r.Seq)
	case "release":
		return "", a.Release(ctx, r.Disk, r.Seq)
	case "look":
		return "", a.Retry(ctx)
	}
	return "", fmt.Errorf("cannot do %q: this daemon does not know it", r.Do)
}

// mayBeDisk reports whether the kernel gives names that begin so to disks that a class can
// have, and to their partitions. Loops reports whether one has loop devices, which come and go on many nodes.
func mayBeDisk(name string, loops bool) bool {
	if loops && strings.HasPrefix(name, "loop") {
		return true
	}
	for _, prefix := range []string{"vd", "sd", "xvd", "nvme", "dm-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// looker is the agent as who hears of events needs it.
type looker interface {
	Look(name string)
	LookAtAll()
}

// look has the agent look at what the hint is about, if that is wanted, and at the disk whose
// partitions come or go: of a table that is read anew the kernel tells by them alone
// (bdev_disk_changed in block/partitions/core.c).
func look(a looker, h uevent.Hint, wanted bool) {
	if h.Rescan {
		a.LookAtAll()
		return
	}
	if wanted {
		a.Look(h.Name)
	}
	if h.Partition && (h.Action == "add" || h.Action == "remove") {
		a.Look(h.Whole)
	}
}

// reloads replaces the settings on SIGHUP, all or nothing.
func reloads(ctx context.Context, c *cobra.Command, a *agent.Agent, r report.Agent) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, unix.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			s, err := load(c)
			if err == nil {
				err = a.Reload(ctx, s)
			}
			if err != nil {
				r.Problem(fmt.Errorf("cannot reload, the settings stay as they were: %w", err))
			}
		}
	}
}

// watchMounts has the agent look at the disks whose mounts have changed. A node
// that starts pods changes its mount table all the time; other mounts than those
// of disks wake nobody. Before is the table as it was before the agent's first look.
func watchMounts(ctx context.Context, a *agent.Agent, h inventory.Host, before []mounts.Mount, mounting *arrivals, r report.Agent) error {
	return mounts.Watch(ctx, func() {
		now, err := h.Mounts()
		if err != nil {
			r.Problem(err)
			a.LookAtAll()
			return
		}
		for _, dev := range mounts.Changed(before, now) {
			// The link's last part is the kernel name (Documentation/ABI,
			// /sys/dev). A device that is gone is dealt with by its uevent.
			if link, err := os.Readlink("/sys/dev/block/" + dev.String()); err == nil {
				a.Look(filepath.Base(link))
			}
		}
		// Last: who waits for a mount asks for a look as well, and the two are one if
		// the change is known by then.
		mounting.shown(now)
		before = now
	})
}
