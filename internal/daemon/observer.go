package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"hotmount/internal/agent"
	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/metrics"
	"hotmount/internal/mounts"
	"hotmount/internal/report"
	"hotmount/internal/uevent"
	"hotmount/internal/usage"
)

// observer passes the agent's reports to the journal, to the published status and to the metrics.
type observer struct {
	*report.Log
	board   *report.Board
	metrics *metrics.Metrics // written only if MetricsDirectory exists
	status  *sync.Mutex      // held while the status is published
	host    inventory.Host
	rescan  *time.Time // time of the last journal entry for lost events, used only by the goroutine that receives udev's events
}

// rescanEntryEvery is the least time between two journal entries for lost or unreadable events. A pod can cause
// unreadable events: an event is unreadable if the filesystem label on a block volume contains an equals sign.
const rescanEntryEvery = time.Minute

// Report reports an event. Report makes no journal entry for a refusal or a hold that an earlier daemon has logged in
// the same words, or for an unselected disk that was already logged (report.Board.Repeats).
func (o observer) Report(e disk.Event) {
	if !o.board.Repeats(e) {
		o.Log.Report(e)
	}
	switch e.Kind {
	case disk.EventDecided:
		o.metrics.Decided(e.Facts, e.Content, e.Decision)
	case disk.EventMounted:
		o.metrics.Mounted(e.Facts, e.Decision, time.Now())
	case disk.EventFailed:
		o.metrics.Failed(e.Decision)
	case disk.EventGone, disk.EventDisregarded:
		o.metrics.Gone(e.Facts)
	}
	o.board.Report(e)
}

// Notify passes a state to systemd. Notify publishes the status before it sends READY, because other programs may read
// the status after READY.
func (o observer) Notify(state string) {
	if state == agent.Ready {
		o.Problem(o.publishStatus())
	}
	o.Log.Notify(state)
	if state == agent.Alive {
		o.metrics.Alive(time.Now())
	}
}

// recordEvent records an event before the agent receives it.
func (o observer) recordEvent(h uevent.Hint) {
	switch {
	case h.Rescan:
		o.metrics.Lost()
		if now := time.Now(); now.Sub(*o.rescan) > rescanEntryEvery {
			*o.rescan = now
			o.Rescan(h.Cause)
		}
	case h.Action == "add" && h.Seq != 0 && !o.board.Knows(h.Name, h.Seq):
		o.metrics.Added(h.Seq, time.Now())
	}
}

// metricsFile is the name of the file for node_exporter. metricsPeriod is the time between two writes of the metrics
// while no disk changes, and equals the default scrape interval of Prometheus.
const (
	metricsFile   = "hotmount.prom"
	metricsPeriod = time.Minute
)

// publishAfter is how long the daemon waits for further changes of the status before it writes the status. When the
// daemon starts, each disk causes a change, and each write contains the lines of all disks.
const publishAfter = 100 * time.Millisecond

// publishEvery is the least time between two writes of the status, except before READY and when the daemon ends. A node
// with many disks has many changes, and each write takes long.
const publishEvery = 500 * time.Millisecond

// publish writes the status and the metrics after each change. The metrics are also written every metricsPeriod. No
// metrics are written if their directory does not exist when the daemon starts. In the sandbox of the daemon, a
// directory that is created after the start is read-only.
func (o observer) publish(ctx context.Context, directory string) error {
	var tick <-chan time.Time
	if info, err := os.Stat(directory); directory != "" && err == nil && info.IsDir() {
		t := time.NewTicker(metricsPeriod)
		defer t.Stop()
		tick = t.C
	} else if directory != "" && err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.Problem(err)
	}
	hung := usage.Hung{}
	reported := ""
	var published time.Time
	for {
		var errs []error
		select {
		case <-ctx.Done():
			return nil
		case <-o.board.Changed():
			select {
			case <-ctx.Done():
			case <-time.After(max(publishAfter, time.Until(published.Add(publishEvery)))):
			}
			// The next write contains all changes so far, so a pending signal for an earlier change is discarded.
			select {
			case <-o.board.Changed():
			default:
			}
			published = time.Now()
			errs = append(errs, o.publishStatus())
			if ctx.Err() != nil {
				return nil // the daemon ends, and measuring the filesystems would take too long
			}
		case <-tick:
		}
		if tick != nil {
			lines := o.board.Lines()
			mounted, err := o.filesystems(ctx, lines, hung)
			errs = append(errs, err, o.metrics.Write(filepath.Join(directory, metricsFile), lines, mounted))
		}
		// A problem that lasts is reported only once.
		text := ""
		if err := errors.Join(errs...); err != nil {
			if text = err.Error(); text != reported {
				o.Problem(err)
			}
		}
		reported = text
	}
}

// publishStatus writes the current line of each disk to the published status.
func (o observer) publishStatus() error {
	o.status.Lock()
	defer o.status.Unlock()
	return o.host.Store.Publish(o.board.Lines())
}

// The method `filesystems` measures the mounted filesystems. The parameter `hung` has the same meaning as in usage.Of.
func (o observer) filesystems(ctx context.Context, lines []disk.Line, hung usage.Hung) ([]metrics.Filesystem, error) {
	s, err := o.host.Store.Settings()
	if err != nil {
		return nil, err
	}
	at := map[string]metrics.Filesystem{}
	var paths []string
	for _, l := range lines {
		d := l.Decision
		if c := s.Class(d.Class); c != nil && d.Mounted() {
			path := c.MountPoint(d.UUID)
			at[path] = metrics.Filesystem{UUID: d.UUID, Class: c.Name, Device: "/dev/" + l.Disk}
			paths = append(paths, path)
		}
	}
	tree, err := o.host.Mounts()
	if err != nil {
		return nil, err
	}
	return measured(tree, paths, at, usage.Of(ctx, paths, hung)), nil
}

// The function `measured` fills in the sizes of the filesystems at the paths. The function skips a filesystem whose mount
// does not propagate into the mount namespace of this process. A path whose mount is missing in this namespace leads to
// another filesystem.
func measured(tree []mounts.Mount, paths []string, at map[string]metrics.Filesystem, sizes map[string]usage.Space) []metrics.Filesystem {
	var all []metrics.Filesystem
	for _, path := range paths {
		u, ok := sizes[path]
		if !ok || u.Size == 0 {
			continue
		}
		if there, err := mounts.OnTop(tree, path, u.Dev); err != nil || !there {
			continue
		}
		f := at[path]
		f.Size, f.Free, f.Available, f.Inodes, f.FreeInodes = u.Size, u.Free, u.Available, u.Inodes, u.FreeInodes
		all = append(all, f)
	}
	return all
}
