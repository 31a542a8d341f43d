package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
	"hotmount/internal/policy"
	"hotmount/internal/report"
	"hotmount/internal/run"
)

func trimCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "trim",
		Short:  "Give the free space of filesystems back to the storage",
		Hidden: true, // for hotmount-trim.service
		Args:   args(cobra.NoArgs),
		RunE:   func(c *cobra.Command, _ []string) error { return trim(c.Context()) },
	}
}

const (
	fstrim = "/usr/sbin/fstrim"
	// trimTime is how long fstrim(8) may take for one filesystem.
	trimTime = 2 * time.Hour
)

// mount is a filesystem that hotmount has mounted.
type mount struct {
	facts    *disk.Facts
	decision disk.Decision
}

// trim counts for how long each filesystem is in use, and trims those that are to
// be trimmed.
func trim(ctx context.Context) error {
	h, log := host(), report.New()
	s, err := h.Store.Settings()
	if err != nil {
		return err
	}
	boot, err := h.Boot()
	if err != nil {
		return err
	}
	memory := h.Store.Load(boot, nil)
	if memory.Lost != nil {
		// For how long each has been in use is not known for certain.
		return fmt.Errorf("cannot trim: %w", memory.Lost)
	}
	disks, _, err := scan(ctx, s, map[string]int{})
	if err != nil {
		return err
	}
	all, uuids := map[string]mount{}, []string{}
	for i := range disks {
		f := &disks[i]
		c := f.Known()
		if d := policy.Decide(f, &c, s); d.Mounted() {
			all[d.UUID] = mount{f, d}
			uuids = append(uuids, d.UUID)
		}
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return fmt.Errorf("cannot read the clock: %w", err)
	}
	runs := map[string]disk.Running{}
	err = h.Store.Runs(uuids, func(r disk.Running) disk.Running {
		f := all[r.UUID].facts
		r = r.Seen(boot, f.Seq, f.Standing.WasMounted, time.Duration(ts.Nano()))
		runs[r.UUID] = r
		return r
	})
	if err != nil {
		return err
	}
	for _, uuid := range uuids {
		m, r := all[uuid], runs[uuid]
		since := int64(-1)
		if !r.Trimmed.IsZero() {
			since = int64(time.Since(r.Trimmed))
		}
		path := policy.Select(m.facts, s).MountPoint(uuid)
		ok, why := policy.Trim(m.facts, m.decision, s, r, since)
		if !ok {
			log.Event(report.KindTrimmed, journal.PriDebug, m.facts, m.decision, "", fmt.Sprintf("%s: not trimmed: %s", report.Name(m.facts), why))
			continue
		}
		said, trimErr := trimOne(ctx, m.facts, path)
		if trimErr != nil {
			err = errors.Join(err, trimErr)
			continue
		}
		log.Event(report.KindTrimmed, journal.PriInfo, m.facts, m.decision, path, fmt.Sprintf("%s: trimmed: %s", report.Name(m.facts), said))
		err = errors.Join(err, h.Store.Runs([]string{uuid}, func(r disk.Running) disk.Running { r.Trimmed = time.Now().UTC().Round(0); return r }))
	}
	return err
}

// trimOne trims the disk's filesystem, which stays mounted there meanwhile.
func trimOne(ctx context.Context, f *disk.Facts, path string) (said string, err error) {
	dir, err := mounts.OpenMount(path, f.Dev)
	if err != nil {
		return "", fmt.Errorf("cannot trim %s: %w", f.ID, err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	c := run.Command{Path: fstrim, Args: []string{"-v", path}, Timeout: trimTime}
	res, err := run.Exec{}.Run(ctx, c)
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("%s: exit code %d: %s", c, res.ExitCode, disk.Visible(strings.TrimSpace(string(res.Stderr))))
	}
	if err != nil {
		return "", fmt.Errorf("cannot trim %s: %w", f.ID, err)
	}
	return disk.Visible(strings.TrimSpace(string(res.Stdout))), nil
}
