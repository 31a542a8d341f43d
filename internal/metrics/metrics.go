// Package metrics writes the daemon's metrics for Prometheus to a file. The textfile collector of node_exporter reads
// the file, so the daemon needs no socket for metrics.
package metrics

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"hotmount/internal/disk"
)

// Filesystem is the usage of a mounted filesystem (statfs(2)).
type Filesystem struct {
	UUID   string
	Class  string
	Device string
	// Size, Free and Available are in bytes. Free includes the space that is reserved for root.
	Size, Free, Available uint64
	Inodes, FreeInodes    uint64
}

// Metrics are the metrics of the daemon. The counters begin at 0 when the process starts. Use the function New to
// create Metrics. The methods of Metrics are safe for concurrent use.
type Metrics struct {
	mu sync.Mutex
	// The slice `all` contains the metrics in the order of the output.
	all []*family

	refusals, formats, mounts, failures *family
	overruns, rescan, watchdog, faulty  *family
	disks                               *family
	size, free, available               *family
	inodes, freeInodes                  *family
	arrival                             *family
	allocations                         *family

	// The map `added` contains the events of new disks. The key is the disk sequence number. An event stays in the map
	// until hotmount mounts the disk, decides not to mount it, or finds it detached.
	added map[uint64]added
}

// The type `added` describes the event of a new disk: the time of the event, and whether the disk was formatted after the
// event.
type added struct {
	at   time.Time
	made bool
}

// arrivalsKept is the largest number of events in the map `added`. Without this limit, some events would stay in the
// map forever. The agent reports nothing about a disk that is already gone at the agent's first look. For example, the
// agent treats a loop device without a file as gone.
const arrivalsKept = 1024

// New returns the metrics of a daemon of the given version.
func New(version string) *Metrics {
	m := &Metrics{added: map[uint64]added{}}
	add := func(kind, name, help string, labels ...string) *family {
		f := &family{name: "hotmount_" + name, kind: kind, help: help, labels: labels, series: map[string]*series{}}
		m.all = append(m.all, f)
		return f
	}
	add(gauge, "build_info", "Always 1. The label has the version.", "version").seriesWith(version).sum = 1
	m.refusals = add(counter, "refusals_total", "Decisions to refuse a disk, or to hold a disk until an accept.", "class", "reason")
	m.formats = add(counter, "formats_total", "Filesystems made.", "class")
	m.mounts = add(counter, "mounts_total", "Filesystems mounted.", "class")
	m.failures = add(counter, "failures_total", "Failed actions on disks. Each failed try counts.", "action")
	m.overruns = add(counter, "lost_events_total", "Number of times that events were lost or unreadable. Each time, hotmount looked at every disk.")
	m.rescan = add(gauge, "last_rescan_timestamp_seconds", "Time when hotmount last looked at every disk.")
	m.watchdog = add(gauge, "watchdog_timestamp_seconds", "Time when the daemon last sent WATCHDOG=1 to systemd.")
	m.faulty = add(gauge, "configuration_fault", "1 while the configuration has a fault and the daemon runs on its last good settings, else 0.")
	for _, f := range []*family{m.overruns, m.rescan, m.watchdog, m.faulty} {
		f.seriesWith() // the metric is written even while its value is 0
	}
	m.disks = add(gauge, "disks", "Attached disks that hotmount uses or could use.", "class", "reason", "state")
	m.size = add(gauge, "filesystem_size_bytes", "Size of a mounted filesystem.", "class", "device", "uuid")
	m.free = add(gauge, "filesystem_free_bytes", "Free space of a mounted filesystem.", "class", "device", "uuid")
	m.available = add(gauge, "filesystem_available_bytes", "Free space of a mounted filesystem for users other than root.", "class", "device", "uuid")
	m.inodes = add(gauge, "filesystem_inodes", "Inodes of a mounted filesystem.", "class", "device", "uuid")
	m.freeInodes = add(gauge, "filesystem_free_inodes", "Free inodes of a mounted filesystem.", "class", "device", "uuid")
	m.arrival = add(histogram, "attach_to_mounted_seconds", "Time from the event of a new disk until the mount of the disk.", "formatted")
	// The bounds are in seconds. The lowest bounds of the histogram are for the mount of a disk that already has a
	// filesystem. The highest bounds are for a proof that reads 64 GiB from slow storage.
	m.arrival.bounds = []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200}
	m.allocations = add(counter, "heap_allocations_total", "Objects that the daemon has allocated.")
	return m
}

// Added remembers the time at which the event of a new disk arrived.
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

// Decided updates the metrics for a decision that the agent reports (disk.EventDecided).
func (m *Metrics) Decided(f *disk.Facts, c *disk.Content, d disk.Decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch d.Action {
	case disk.Refuse, disk.Hold:
		m.refusals.seriesWith(d.Class, string(d.Reason)).sum++
		delete(m.added, f.Seq) // from now on, the time until the mount depends on the operator
	case disk.Ignore, disk.Keep:
		delete(m.added, f.Seq)
	case disk.Mount:
		if c.Made {
			m.formats.seriesWith(d.Class).sum++
			if a, ok := m.added[f.Seq]; ok {
				m.added[f.Seq] = added{a.at, true}
			}
		}
	}
}

// Mounted adds a mount to the metrics. The caller has found the mount in the mount table.
func (m *Metrics) Mounted(f *disk.Facts, d disk.Decision, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mounts.seriesWith(d.Class).sum++
	if a, ok := m.added[f.Seq]; ok {
		m.arrival.observe(at.Sub(a.at).Seconds(), strconv.FormatBool(a.made))
		delete(m.added, f.Seq)
	}
}

// Failed adds 1 to the counter of failed actions on disks. If the decision has no action, the value of the label
// "action" is "look".
func (m *Metrics) Failed(d disk.Decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures.seriesWith(cmp.Or(string(d.Action), "look")).sum++
}

// Gone removes the event of a disk that was detached.
func (m *Metrics) Gone(f *disk.Facts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.added, f.Seq)
}

// Lost adds 1 to the counter of overruns. In an overrun, some events were lost or unreadable.
func (m *Metrics) Lost() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.overruns.seriesWith().sum++
}

// Rescanned records the time at which hotmount last examined every disk.
func (m *Metrics) Rescanned(at time.Time) { m.set(m.rescan, at) }

// Faulty sets the metric configuration_fault to 1 if the configuration has a fault, and to 0 otherwise.
func (m *Metrics) Faulty(fault bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faulty.seriesWith().sum = 0
	if fault {
		m.faulty.seriesWith().sum = 1
	}
}

// Alive records the time at which the daemon last sent WATCHDOG=1 to systemd.
func (m *Metrics) Alive(at time.Time) { m.set(m.watchdog, at) }

func (m *Metrics) set(f *family, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f.seriesWith().sum = seconds(at)
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// Write replaces the file at the path atomically. A reader that has the old file open still reads the old file. No
// reader sees a partial file.
func (m *Metrics) Write(path string, lines []disk.Line, filesystems []Filesystem) error {
	if err := replace(path, m.text(lines, filesystems)); err != nil {
		return fmt.Errorf("cannot write the metrics: %w", err)
	}
	return nil
}

func (m *Metrics) text(lines []disk.Line, filesystems []Filesystem) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range []*family{m.disks, m.size, m.free, m.available, m.inodes, m.freeInodes} {
		clear(f.series)
	}
	for _, l := range lines {
		state := l.Decision.State()
		if l.Failure != "" {
			state = "failed"
		}
		m.disks.seriesWith(l.Decision.Class, string(l.Decision.Reason), state).sum++
	}
	for _, fs := range filesystems {
		for f, n := range map[*family]uint64{m.size: fs.Size, m.free: fs.Free, m.available: fs.Available, m.inodes: fs.Inodes, m.freeInodes: fs.FreeInodes} {
			f.seriesWith(fs.Class, fs.Device, fs.UUID).sum = float64(n)
		}
	}
	// The method `text` uses ReadMemStats, because runtime/metrics leaves out the most recent allocations of each
	// processor. The number of these recent allocations can exceed the number of objects that hotmount allocates for a
	// disk.
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	m.allocations.seriesWith().sum = float64(memory.Mallocs)
	var b bytes.Buffer
	for _, f := range m.all {
		f.write(&b)
	}
	return b.Bytes()
}

func replace(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".hotmount-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	// node_exporter does not run as root, so the file must be readable for all users.
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
