// Package metrics writes what the daemon does and has for Prometheus, as a file
// that node_exporter's textfile collector reads: the daemon opens no socket.
package metrics

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hotmount/internal/disk"
)

// Filesystem is what a mounted filesystem says of itself (statfs(2)).
type Filesystem struct {
	UUID   string
	Class  string
	Device string
	// Size, Free and Available in bytes; Free is root's.
	Size, Free, Available uint64
	Inodes, FreeInodes    uint64
}

// Metrics counts from the start of the process. Make it with New. Methods may be
// called by several goroutines.
type Metrics struct {
	registry *prometheus.Registry

	refusals, formats, mounts, failures *prometheus.CounterVec
	overruns                            prometheus.Counter
	arrival                             *prometheus.HistogramVec
	rescan, watchdog                    prometheus.Gauge
	disks                               *prometheus.GaugeVec
	size, free, available               *prometheus.GaugeVec
	inodes, freeInodes                  *prometheus.GaugeVec

	mu sync.Mutex
	// added are the disks whose event has come and that are not mounted yet, by disk
	// sequence number.
	added map[uint64]added
}

// added is when the event of a disk has come, and whether it was formatted since.
type added struct {
	at   time.Time
	made bool
}

// arrivalsKept bounds the disks whose event is remembered: loop devices that come
// and go are none of hotmount's business, and nobody says that they are gone.
const arrivalsKept = 1024

// New makes the metrics of a daemon of that version.
func New(version string) *Metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "hotmount", Name: name, Help: help}, labels)
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "hotmount", Name: name, Help: help}, labels)
	}
	m := &Metrics{
		registry:   prometheus.NewPedanticRegistry(),
		refusals:   counters("refusals_total", "Decisions to refuse a disk or to hold it for the operator's word.", "class", "reason"),
		formats:    counters("formats_total", "Filesystems made.", "class"),
		mounts:     counters("mounts_total", "Filesystems mounted.", "class"),
		failures:   counters("failures_total", "Actions on disks that failed, each try.", "action"),
		overruns:   prometheus.NewCounter(prometheus.CounterOpts{Namespace: "hotmount", Name: "lost_events_total", Help: "Times that events were lost or unreadable (overruns), and every disk was looked at for it."}),
		rescan:     prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "hotmount", Name: "last_rescan_timestamp_seconds", Help: "When every disk was last looked at."}),
		watchdog:   prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "hotmount", Name: "watchdog_timestamp_seconds", Help: "When the daemon's loop last fed the service manager's watchdog."}),
		disks:      gauges("disks", "Attached disks that are hotmount's business.", "class", "state", "reason"),
		size:       gauges("filesystem_size_bytes", "Size of a mounted filesystem.", "device", "uuid", "class"),
		free:       gauges("filesystem_free_bytes", "Free space of a mounted filesystem.", "device", "uuid", "class"),
		available:  gauges("filesystem_available_bytes", "Free space of a mounted filesystem for others than root.", "device", "uuid", "class"),
		inodes:     gauges("filesystem_inodes", "Inodes of a mounted filesystem.", "device", "uuid", "class"),
		freeInodes: gauges("filesystem_free_inodes", "Free inodes of a mounted filesystem.", "device", "uuid", "class"),
		arrival: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "hotmount", Name: "attach_to_mounted_seconds", Help: "Time from the event of a new disk until it was mounted.",
			// From the bare mount of a disk with a filesystem to the proof of one
			// of 64 GiB on slow storage.
			Buckets: []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200},
		}, []string{"formatted"}),
		added: map[uint64]added{},
	}
	build := gauges("build_info", "Always 1; the version is the label.", "version")
	build.WithLabelValues(version).Set(1)
	m.registry.MustRegister(build, m.refusals, m.formats, m.mounts, m.failures, m.overruns, m.rescan, m.watchdog, m.disks,
		m.size, m.free, m.available, m.inodes, m.freeInodes, m.arrival)
	return m
}

// labels makes the values fit for labels: the library panics at what is no UTF-8.
func labels(values ...string) []string {
	for i, v := range values {
		values[i] = disk.Visible(v)
	}
	return values
}

// Added takes the event of a new disk.
func (m *Metrics) Added(seq uint64, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.added) >= arrivalsKept {
		clear(m.added)
	}
	if _, ok := m.added[seq]; !ok {
		m.added[seq] = added{at: at}
	}
}

func (m *Metrics) taken(seq uint64) (added, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.added[seq]
	delete(m.added, seq)
	return a, ok
}

// Decided takes a decision that differs from the disk's last one.
func (m *Metrics) Decided(f *disk.Facts, c *disk.Content, d disk.Decision) {
	switch d.Action {
	case disk.Refuse, disk.Hold:
		m.refusals.WithLabelValues(labels(d.Class, string(d.Reason))...).Inc()
		m.taken(f.Seq) // what comes of it is not hotmount's time
	case disk.Ignore, disk.Keep:
		m.taken(f.Seq)
	case disk.Mount:
		if c.Made {
			m.formats.WithLabelValues(labels(d.Class)...).Inc()
			m.mu.Lock()
			defer m.mu.Unlock()
			if a, ok := m.added[f.Seq]; ok {
				m.added[f.Seq] = added{a.at, true}
			}
		}
	}
}

// Mounted takes a mount that the mount table shows.
func (m *Metrics) Mounted(f *disk.Facts, d disk.Decision, at time.Time) {
	m.mounts.WithLabelValues(labels(d.Class)...).Inc()
	if a, ok := m.taken(f.Seq); ok {
		m.arrival.WithLabelValues(fmt.Sprint(a.made)).Observe(at.Sub(a.at).Seconds())
	}
}

// Failed takes an action that failed.
func (m *Metrics) Failed(d disk.Decision) {
	action := string(d.Action)
	if action == "" {
		action = "look"
	}
	m.failures.WithLabelValues(labels(action)...).Inc()
}

// Gone takes a disk that was detached.
func (m *Metrics) Gone(f *disk.Facts) { m.taken(f.Seq) }

// Lost takes events that were lost.
func (m *Metrics) Lost() { m.overruns.Inc() }

// Rescanned takes a look at every disk.
func (m *Metrics) Rescanned(at time.Time) { m.rescan.Set(seconds(at)) }

// Alive takes a turn of the loop that feeds the watchdog.
func (m *Metrics) Alive(at time.Time) { m.watchdog.Set(seconds(at)) }

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// Write replaces the file at the path as a whole. Those who have the old one open
// keep it, and nobody sees half of one.
func (m *Metrics) Write(path string, lines []disk.Line, filesystems []Filesystem) error {
	m.disks.Reset()
	for _, l := range lines {
		state, reason := l.Decision.State(), string(l.Decision.Reason)
		if l.Failure != "" {
			state = "failed"
		}
		m.disks.WithLabelValues(labels(l.Decision.Class, state, reason)...).Inc()
	}
	for _, v := range []*prometheus.GaugeVec{m.size, m.free, m.available, m.inodes, m.freeInodes} {
		v.Reset()
	}
	for _, f := range filesystems {
		for v, n := range map[*prometheus.GaugeVec]uint64{m.size: f.Size, m.free: f.Free, m.available: f.Available, m.inodes: f.Inodes, m.freeInodes: f.FreeInodes} {
			v.WithLabelValues(labels(f.Device, f.UUID, f.Class)...).Set(float64(n))
		}
	}
	if err := prometheus.WriteToTextfile(path, m.registry); err != nil {
		return fmt.Errorf("cannot write the metrics: %w", err)
	}
	return nil
}
