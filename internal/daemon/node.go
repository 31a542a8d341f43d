package daemon

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/metrics"
	"hotmount/internal/mounts"
	"hotmount/internal/report"
	"hotmount/internal/unit"
)

// The type `node` adds to the host the methods that the agent needs.
type node struct {
	inventory.Host
	report  *report.Log
	metrics *metrics.Metrics
	// The fields `partitions` and `loops` point to the fields with the same names in the type `parts`. saveSettings
	// sets the values of those fields from the settings.
	partitions, loops *atomic.Bool
	// driversFault is the text of the last error of rememberDrivers.
	driversFault *atomic.Value
}

// Names returns the names of all disks for a look at every disk. A look at every disk also finds changes that caused no
// event.
func (n node) Names(s *disk.Settings) ([]string, error) {
	n.metrics.Rescanned(time.Now())
	if count, err := n.Store.NoticeFuture(); err != nil {
		n.report.Problem(err)
	} else if count > 0 {
		n.report.Report(disk.Event{Kind: disk.EventNotice, Notice: fmt.Sprintf("the history has %s with a time in the future, because a clock was wrong; for format_limit, hotmount counts each such format as if it took place now; to see the history: hotmount history", disk.Count(count, "format"))})
	}
	n.Store.Recover()
	n.DoubtMounts()
	return n.For(s).Names()
}

func (n node) Gather(s *disk.Settings) (look func(name string) (disk.Facts, error)) {
	gathered := n.For(s).Gather()
	var driversOnce sync.Once // after one call of Gather, every look finds the same drivers
	return func(name string) (disk.Facts, error) {
		f, err := gathered(name)
		if err == nil {
			driversOnce.Do(func() { n.rememberDrivers(f.Drivers) })
		}
		return f, err
	}
}

// rememberDrivers records the storage drivers, because a driver removes its socket when it ends normally.
// rememberDrivers does not record a driver with an unknown name, for which csi.Drivers returns a phrase with spaces.
// rememberDrivers reports an error only if the error differs from the previous error.
func (n node) rememberDrivers(found []disk.Driver) {
	var names []string
	for _, d := range found {
		if !strings.ContainsFunc(d.Name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			names = append(names, d.Name)
		}
	}
	text := ""
	err := n.Store.RememberDrivers(names)
	if err != nil {
		text = err.Error()
	}
	if n.driversFault.Swap(text) != text {
		n.report.Problem(err)
	}
}

func (n node) Accept(f *disk.Facts, w disk.Word) error {
	boot, err := n.Boot()
	if err != nil {
		return err
	}
	return n.Store.Accept(f, boot, w)
}

func (n node) RecordHold(f *disk.Facts, reason disk.Reason, how string) error {
	boot, err := n.Boot()
	switch {
	case reason == "", reason == disk.ReasonReleased, reason == disk.ReasonUnmounted:
		return n.Store.KeepUnmounted(f, reason)
	case err != nil:
		return err
	case reason == disk.ReasonUsed:
		return n.Store.KeepUse(f, boot, how)
	}
	return n.Store.RecordHold(f, boot, reason)
}

func (n node) Forget(seq uint64) error { return n.Store.Forget(seq) }

func (n node) Expect(seen disk.Sighting, name string) (err error) {
	if seen.Left {
		seen.Newest, err = n.Newest(name)
	}
	n.Host.Expect(seen)
	return err
}

func (n node) Remember(expected bool, noted []disk.Sighting) (err error) {
	if expected {
		err = n.Host.Remember()
	}
	if len(noted) == 0 {
		return err
	}
	boot, bootErr := n.Boot()
	if bootErr != nil {
		return errors.Join(err, bootErr)
	}
	for i := range noted {
		noted[i].Identity.Boot = boot
	}
	return errors.Join(err, n.Store.Note(noted))
}

// saveSettings records the settings for the processes that format disks, and returns an error if the settings cannot be
// recorded. saveSettings also records the class directories in the state directory. If the state directory cannot be
// written, saveSettings only reports the problem, so that disks are still mounted.
func (n node) saveSettings(s *disk.Settings) error {
	if err := n.Store.SaveSettings(s); err != nil {
		return err
	}
	n.report.Problem(n.saveDirectories(s))
	n.metrics.Faulty(s.Fault != "")
	n.partitions.Store(s.Partitions())
	n.loops.Store(s.LoopDevices())
	return nil
}

// saveDirectories records the directories of the classes. saveDirectories keeps the directory of a former class on
// record while a mount, mount point or link of hotmount is in the directory. The directory of a former class needs a
// cleanup when a disk of that class is detached, and after a power failure.
func (n node) saveDirectories(s *disk.Settings) error {
	former, err := n.Store.Directories()
	table, tableErr := n.Mounts()
	former = slices.DeleteFunc(former, func(dir string) bool {
		mounted := tableErr != nil || slices.ContainsFunc(table, func(m mounts.Mount) bool { return inventory.IsPlace(&m.MountPoint) && path.Dir(m.Path) == dir })
		return !mounted && !hasLeftovers(dir)
	})
	return errors.Join(err, tableErr, n.Store.SaveDirectories(s, former...))
}

// hasLeftovers reports whether helper.CleanupAll may find something in the directory. hasLeftovers returns true if the
// directory cannot be read, and false if the path is no longer a directory.
func hasLeftovers(dir string) bool {
	names, err := unit.Leftovers(dir)
	if err != nil {
		return !errors.Is(err, unix.ENOTDIR)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		to, _ := os.Readlink(filepath.Join(dir, name))
		return disk.ValidUUID(strings.TrimPrefix(name, ".")) || to == disk.LinkDirectory+"/"+name
	})
}
