package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

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
	seen := observer{reporter, report.NewBoard(said), metrics.New(version)}
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
	partitions := new(atomic.Bool)
	h.Partitions = partitions.Load
	a := agent.New(node{h, reporter, seen.metrics, partitions}, units{manager, mounting, h.Store}, seen, s, watchdog/2)

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
			if h.Partition && !partitions.Load() {
				return
			}
			seen.heard(h)
			look(a, h)
		})
	})
	part(func(ctx context.Context) error { return watchMounts(ctx, a, mounting, reporter) })
	part(func(ctx context.Context) error {
		return control.Serve(ctx, socket, func(ctx context.Context, r control.Request) (string, error) {
			switch r.Do {
			case "accept":
				return a.Accept(ctx, r.Disk, r.Seq)
			case "release":
				return "", a.Release(ctx, r.Disk, r.Seq)
			case "look":
				a.LookAtAll()
				return "", nil
			}
			return "", fmt.Errorf("cannot do %q: this daemon does not know it", r.Do)
		})
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

// looker is the agent as who hears of events needs it.
type looker interface {
	Look(name string)
	LookAtAll()
}

// look has the agent look at what the hint is about.
func look(a looker, h uevent.Hint) {
	if h.Rescan {
		a.LookAtAll()
		return
	}
	a.Look(h.Name)
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
// of disks wake nobody.
func watchMounts(ctx context.Context, a *agent.Agent, mounting *arrivals, r report.Agent) error {
	var before []disk.MountPoint
	return mounts.Watch(ctx, func() {
		now, err := mounts.Table("")
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

// node is the host as the agent needs it.
type node struct {
	inventory.Host
	report  report.Agent
	metrics *metrics.Metrics
	// partitions is what the settings say of them.
	partitions *atomic.Bool
}

// Names are listed for a look at every disk.
func (n node) Names() ([]string, error) {
	n.metrics.Rescanned(time.Now())
	return n.Host.Names()
}

func (n node) MountedAt(path string, dev disk.Dev) (bool, error) {
	tree, err := mounts.Tree(n.Root)
	if err != nil {
		return false, err
	}
	return mounts.OnTop(tree, path, dev)
}

func (n node) Monotonic() time.Duration {
	var now unix.Timespec
	// It fails for no clock that there is (clock_gettime(2)).
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return time.Duration(now.Nano())
}

func (n node) Accept(f *disk.Facts, reason disk.Reason) error {
	boot, err := n.Boot()
	if err != nil {
		return err
	}
	return n.Store.Accept(f, boot, reason)
}

func (n node) KeepUnmounted(f *disk.Facts, reason disk.Reason) error {
	return n.Store.KeepUnmounted(f, reason)
}

func (n node) Forget(seq uint64) error { return n.Store.Forget(seq) }

// SaveSettings fails for what the formatting units need. A state directory that
// can not be written keeps no filesystem from being mounted.
func (n node) SaveSettings(s *disk.Settings) error {
	if err := n.Store.SaveSettings(s); err != nil {
		return err
	}
	if err := n.Store.SaveDirectories(s); err != nil {
		n.report.Problem(err)
	}
	n.partitions.Store(s.Partitions())
	return nil
}

func (n node) Keep(f *disk.Facts, reason disk.Reason) error {
	boot, err := n.Boot()
	if err != nil {
		return err
	}
	return n.Store.Keep(f, boot, reason)
}

func (n node) Remember(seen []disk.Sighting) error {
	boot, err := n.Boot()
	if err != nil {
		return err
	}
	for i := range seen {
		seen[i].Identity.Boot = boot
	}
	return n.Store.Remember(seen)
}

func (u units) Format(ctx context.Context, seq uint64) error { return u.manager.StartFormat(ctx, seq) }

func (u units) Fill(ctx context.Context, seq uint64) error { return u.manager.StartStage(ctx, seq) }

func (u units) Grow(ctx context.Context, seq uint64) error { return u.manager.StartGrow(ctx, seq) }

func (u units) GiveOut(ctx context.Context, seq uint64) error { return u.manager.StartBlock(ctx, seq) }

func (u units) TakeBack(ctx context.Context, seq uint64) error { return u.manager.StopBlock(ctx, seq) }

func (u units) Unmount(ctx context.Context, path string) error {
	return u.manager.StopMount(ctx, path)
}

func (u units) UnmountGone(ctx context.Context, path string, dev disk.Dev) error {
	return u.manager.StartUnmountGone(ctx, path, dev)
}

// NameHolders costs nothing where nobody has it: an XFS or ext4 is in /sys/fs/TYPE as
// long as it is mounted anywhere (xfs_mountfs in fs/xfs/xfs_mount.c,
// ext4_register_sysfs in fs/ext4/sysfs.c).
func (u units) NameHolders(ctx context.Context, f *disk.Facts, path string) error {
	for _, fstype := range []string{disk.XFS, disk.Ext4} {
		if _, err := os.Lstat(filepath.Join("/sys/fs", fstype, f.Name)); err == nil {
			return u.manager.StartUnmountGone(ctx, path, f.Dev)
		}
	}
	return nil
}

func (u units) Plugged(ctx context.Context, f *disk.Facts) (time.Duration, error) {
	return u.manager.Plugged(ctx, f.Name)
}

func (u units) RemoveMountPoint(ctx context.Context, path string) error {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return u.manager.StartCleanup(ctx, path)
}
