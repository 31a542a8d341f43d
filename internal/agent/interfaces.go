package agent

import (
	"context"
	"time"

	"hotmount/internal/disk"
)

// Host is the node with its disks, and what is on record of them.
type Host interface {
	// Names returns the kernel names of all attached disks, and of their partitions if the settings ask for them.
	Names(s *disk.Settings) ([]string, error)
	// Gather reads what is common to all disks. It returns the function that gathers the facts of one disk from that,
	// without its peers. The function may be called concurrently. Its error wraps disk.ErrGone if Names does not have
	// the disk. Both may hang on dead storage.
	Gather(s *disk.Settings) (look func(name string) (disk.Facts, error))
	// MountedAt reports whether the device is mounted at the path, in PID 1's mount table. The error may say that
	// another mount covers it.
	MountedAt(path string, dev disk.Dev) (bool, error)
	// Attached returns the sequence number of the disk or partition with that device number, 0 if there is none.
	Attached(dev disk.Dev) (seq uint64, err error)
	// Stale returns disks that are gone but still mounted in a class's place: the known facts of each, with that mount.
	// With an error the list may be incomplete.
	Stale(s *disk.Settings) ([]disk.Facts, error)
	// Changed returns the names of those disks whose mounts, or kernel faults (Facts.Fault), have changed since the
	// last look. mounted are the disks that were mounted then. Changed costs much less than a look, and may hang like
	// one.
	Changed(mounted []disk.Facts) ([]string, error)
	// Notices returns, in words, problems that do not concern a single disk.
	Notices(s *disk.Settings) ([]string, error)

	// Accept records the operator's accept for this attachment of the disk. Without a reason it only allows another
	// try.
	Accept(f *disk.Facts, w disk.Word) error
	// Keep records that the disk stays held, refused or unmounted for that reason when the cause is gone, until Accept.
	// how is, for ReasonUsed, how somebody else uses the disk. An empty reason lets the disk be mounted again.
	Keep(f *disk.Facts, reason disk.Reason, how string) error
	// Forget drops the records of an attachment that has ended.
	Forget(seq uint64) error
	// Expect makes looks know from now on that a filesystem was found mounted on the named disk, or that the disk has
	// left. It fills in the boot, and which disks may have been attached together with one that left.
	Expect(seen disk.Sighting, name string) error
	// Remember records the noted content: what was found on disks and is not mounted from them, or that it is gone.
	// With expected it first records what looks expect, including what could not be recorded before.
	Remember(expected bool, noted []disk.Sighting) error
}

// Units runs in PID 1 what the daemon itself cannot do. What has begun goes on if ctx ends.
type Units interface {
	// Mount mounts the filesystem of that type and UUID for the class, and returns when the mount unit's job has ended.
	// The error wraps disk.ErrHeld if the kernel still has the filesystem mounted where nothing shows it. It wraps a
	// *disk.NodeError for a fault of the node.
	Mount(ctx context.Context, f *disk.Facts, class *disk.Class, uuid, fstype string) error
	// Unmount stops the mount unit of that mount point.
	Unmount(ctx context.Context, path string) error
	// Run runs a program for the disk and the mount point, unless there is nothing for it to do.
	Run(ctx context.Context, p disk.Program, id disk.ID, path string) error
	// Stop ends a program that Run has left running.
	Stop(ctx context.Context, p disk.Program, id disk.ID) error
	// Opener runs the program that finds out which process has the disk open. It returns nil if none does.
	Opener(ctx context.Context, id disk.ID) (*disk.Opener, error)
	// Plugged returns the time of CLOCK_MONOTONIC since which PID 1 has the disk's device unit plugged, 0 if it is not
	// plugged.
	Plugged(ctx context.Context, id disk.ID) (time.Duration, error)
}

// Reporter receives what happens.
type Reporter interface {
	// Report reports an event.
	Report(e disk.Event)
	// Notify tells the service manager one state (sd_notify(3)): Ready, Reloading, Alive, or the overall state in one
	// line after StatusIs.
	Notify(state string)
}

// The states of Reporter.Notify.
const (
	// Ready: the disks present at start are handled, or the reload is done.
	Ready = "READY=1"
	// Reloading: a reload has begun.
	Reloading = "RELOADING=1"
	// Alive: the loop runs.
	Alive    = "WATCHDOG=1"
	StatusIs = "STATUS="
)
