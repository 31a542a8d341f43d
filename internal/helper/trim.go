package helper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/mounts"
	"hotmount/internal/policy"
	"hotmount/internal/report"
	"hotmount/internal/run"
	"hotmount/internal/usage"
)

const (
	fstrim = "/usr/sbin/fstrim"
	// trimTime is the time limit for fstrim(8) on one filesystem.
	trimTime = 2 * time.Hour
)

// The type `mounted` describes a filesystem that hotmount has mounted, and how long the filesystem has been in use.
type mounted struct {
	facts    *disk.Facts
	decision disk.Decision
	running  disk.Running
}

// Trim records how long each filesystem has been in use. Trim runs fstrim(8) on each filesystem for which a trim is
// due, so that the storage can reclaim the free space.
func Trim(ctx context.Context, h inventory.Host) error {
	s, err := h.Store.Settings()
	if err != nil {
		return err
	}
	all, err := running(ctx, h, s)
	if err != nil {
		return err
	}
	log := report.New()
	for _, m := range all {
		err = errors.Join(err, trim(ctx, h, s, m, log))
	}
	return err
}

// running() returns the mounted filesystems, and records how long each filesystem has been in use.
func running(ctx context.Context, h inventory.Host, s *disk.Settings) ([]*mounted, error) {
	boot, err := h.Boot()
	if err != nil {
		return nil, err
	}
	if memory := h.Store.Load(boot, nil); memory.Lost != nil {
		// If records are lost, hotmount does not know for certain how long each filesystem has been in use.
		return nil, fmt.Errorf("cannot trim: %w", memory.Lost)
	}
	disks, _, err := usage.Scan(ctx, h.For(s), usage.Hung{})
	if err != nil {
		return nil, err
	}
	var all []*mounted
	var uuids []string
	for i := range disks {
		f := &disks[i]
		c := f.KnownContent()
		if d := policy.Decide(f, &c, s); d.Mounted() {
			all, uuids = append(all, &mounted{facts: f, decision: d}), append(uuids, d.UUID)
		}
	}
	now := h.Monotonic()
	err = h.Store.Runs(uuids, func(r disk.Running) disk.Running {
		m := all[slices.Index(uuids, r.UUID)]
		m.running = r.Seen(boot, m.facts.Seq, m.facts.Standing.WasMounted, now)
		return m.running
	})
	return all, err
}

// trim trims one filesystem if a trim is due.
func trim(ctx context.Context, h inventory.Host, s *disk.Settings, m *mounted, log *report.Log) error {
	f, d := m.facts, m.decision
	since := int64(-1)
	if !m.running.Trimmed.IsZero() {
		since = int64(time.Since(m.running.Trimmed))
	}
	if ok, why := policy.Trim(f, d, s, m.running, since); !ok {
		log.Event(report.KindTrimmed, journal.PriDebug, f, d, "", fmt.Sprintf("%s: not trimmed: %s", report.Name(f), why))
		return nil
	}
	path := policy.Select(f, s).MountPoint(d.UUID)
	said, err := trimOne(ctx, f, path)
	if err != nil {
		return err
	}
	log.Event(report.KindTrimmed, journal.PriInfo, f, d, path, fmt.Sprintf("%s: trimmed: %s", report.Name(f), said))
	return h.Store.Runs([]string{d.UUID}, func(r disk.Running) disk.Running { r.Trimmed = time.Now().UTC().Round(0); return r })
}

// trimOne trims the disk's filesystem. An open descriptor keeps the filesystem mounted at the given path during the
// trim.
func trimOne(ctx context.Context, f *disk.Facts, path string) (said string, err error) {
	dir, err := mounts.OpenMount(path, f.Dev)
	if err != nil {
		return "", fmt.Errorf("cannot trim %s: %w", f.ID, err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	c := run.Command{Path: fstrim, Args: []string{"-v", path}, Timeout: trimTime}
	res, err := run.Exec{}.Run(ctx, c)
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("%s: exit code %d: %s", c, res.ExitCode, disk.Output(res.Stderr))
	}
	if err != nil {
		return "", fmt.Errorf("cannot trim %s: %w", f.ID, err)
	}
	return disk.Output(res.Stdout), nil
}
