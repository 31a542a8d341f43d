package daemon

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
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

// node is the host as the agent needs it.
type node struct {
	inventory.Host
	report  report.Agent
	metrics *metrics.Metrics
	// partitions and loops come from the settings.
	partitions, loops *atomic.Bool
}

// Names returns the names of all disks for a look at every disk. That look also finds changes without an event.
func (n node) Names() ([]string, error) {
	n.metrics.Rescanned(time.Now())
	if count, err := n.Store.NoticeFuture(); err != nil {
		n.report.Problem(err)
	} else if count > 0 {
		n.report.Notice(fmt.Sprintf("the history has %s with a time in the future: a clock was wrong; for format_limit that time is now (hotmount history)", disk.Count(count, "format")))
	}
	n.Store.Recover()
	n.DoubtMounts()
	return n.Host.Names()
}

// inBoot calls do with the id of the current boot.
func (n node) inBoot(do func(boot string) error) error {
	boot, err := n.Boot()
	if err != nil {
		return err
	}
	return do(boot)
}

func (n node) Accept(f *disk.Facts, w disk.Word) error {
	return n.inBoot(func(boot string) error { return n.Store.Accept(f, boot, w) })
}

func (n node) Keep(f *disk.Facts, reason disk.Reason) error {
	return n.inBoot(func(boot string) error { return n.Store.Keep(f, boot, reason) })
}

func (n node) KeepUse(f *disk.Facts, how string) error {
	return n.inBoot(func(boot string) error { return n.Store.KeepUse(f, boot, how) })
}

func (n node) Note(found []disk.Sighting) error {
	return n.inBoot(func(boot string) error {
		for i := range found {
			found[i].Identity.Boot = boot
		}
		return n.Store.Note(found)
	})
}

func (n node) KeepUnmounted(f *disk.Facts, reason disk.Reason) error {
	return n.Store.KeepUnmounted(f, reason)
}

func (n node) Forget(seq uint64) error { return n.Store.Forget(seq) }

// SaveSettings saves the settings. It returns an error if it cannot save what the formatting units need. An unwritable
// state directory prevents no mount.
func (n node) SaveSettings(s *disk.Settings) error {
	if err := n.Store.SaveSettings(s); err != nil {
		return err
	}
	if err := n.saveDirectories(s); err != nil {
		n.report.Problem(err)
	}
	n.metrics.Faulty(s.Fault != "")
	n.partitions.Store(s.Partitions())
	n.loops.Store(s.LoopDevices())
	return nil
}

// saveDirectories also keeps the directory of a former class while something of hotmount's is in it. The directory
// needs a cleanup when that disk goes, and after a power failure.
func (n node) saveDirectories(s *disk.Settings) error {
	former, err := n.Store.Directories()
	table, tableErr := n.Mounts()
	former = slices.DeleteFunc(former, func(dir string) bool {
		mounted := tableErr != nil || slices.ContainsFunc(table, func(m mounts.Mount) bool { return inventory.IsPlace(&m) && path.Dir(m.Path) == dir })
		return !mounted && !hasLeftovers(dir)
	})
	return errors.Join(err, tableErr, n.Store.SaveDirectories(s, former...))
}

// hasLeftovers reports whether helper.CleanupAll may find something in the directory. It returns true if it cannot
// look, and false for a path that is no directory any more.
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
