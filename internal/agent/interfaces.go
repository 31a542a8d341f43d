package agent

import (
	"context"
	"time"

	"hotmount/internal/disk"
)

// Host is the node with its disks, and the records about the disks.
type Host interface {
	// Names returns the kernel names of all attached disks. If a class selects partitions, Names also returns the names
	// of the disks' partitions.
	Names(s *disk.Settings) ([]string, error)
	// Gather reads the data that the looks at all disks share, such as the mount table. Gather returns the function
	// look. The function `look` returns the facts of one disk, except the facts about related disks (peers). Several
	// goroutines may call the function `look` at the same time. The error of the function `look` wraps disk.ErrGone if
	// Names does not list the disk. Gather and the function `look` may hang on dead storage.
	Gather(s *disk.Settings) (look func(name string) (disk.Facts, error))
	// MountedAt reports whether the device is mounted at the path, according to PID 1's mount table. If a mount of
	// another device covers the device's mount, MountedAt returns true and an error.
	MountedAt(path string, dev disk.Dev) (bool, error)
	// Attached returns the sequence number of the disk or partition with that device number. Attached returns 0 if no
	// disk or partition has the number.
	Attached(dev disk.Dev) (seq uint64, err error)
	// Stale returns the mounts whose disks are gone. Stale searches the directories of present and former classes. Each
	// entry contains the facts on record about one gone disk, and one of the disk's remaining mounts. If err is not
	// nil, the list may be incomplete.
	Stale(s *disk.Settings) ([]disk.Facts, error)
	// Changed returns the names of those disks that have changed since the last look. Such a disk has lost a mount, a
	// mount of the disk is newly covered or uncovered, or its kernel fault (Facts.Fault) differs. The parameter
	// `mounted` contains the facts of the disks that were mounted at the last look. A call of Changed costs much less
	// than a look. Like a look, a call of Changed may hang.
	Changed(mounted []disk.Facts) ([]string, error)
	// Notices returns messages about problems that do not concern an attached disk, such as a missing filesystem.
	Notices(s *disk.Settings) ([]string, error)

	// Accept records that the operator has accepted the hold w for this attachment of the disk. If w's reason is empty,
	// the record only lets the agent retry a failed action, or mount an unmounted disk again.
	Accept(f *disk.Facts, w disk.Word) error
	// RecordHold records that the disk stays held, refused or unmounted for that reason, even when the cause is gone.
	// For ReasonUsed, the parameter `how` describes the use of the disk by somebody else. If the reason is empty,
	// RecordHold allows the disk to be mounted again.
	RecordHold(f *disk.Facts, reason disk.Reason, how string) error
	// Forget removes the records of an attachment that has ended.
	Forget(seq uint64) error
	// Expect makes the sighting known to each later look, even before the sighting is recorded. A sighting states that
	// a filesystem of the named disk was found mounted, or that the disk has left. Expect fills in the boot ID of the
	// sighting. For a disk that has left, Expect also fills in the field Newest. Newest shows which disks may have been
	// attached at the same time as the disk that left.
	Expect(seen disk.Sighting, name string) error
	// Remember records the sightings in the parameter `noted`. Each sighting shows content that hotmount does not mount,
	// or shows that earlier content is gone. If the parameter `expected` is true, Remember first records those sightings
	// from Expect that are not on record yet.
	Remember(expected bool, noted []disk.Sighting) error
}

// Units makes PID 1 do what the daemon itself cannot do. The end of ctx does not stop work that PID 1 has begun.
type Units interface {
	// Mount mounts the filesystem with that type and UUID for the class. Mount returns when the mount exists, or when
	// the job of the mount unit has ended. The error wraps disk.ErrHeld if the kernel still has the filesystem mounted
	// in a place that the host cannot see. The error wraps a *disk.NodeError for a fault of the node or of the
	// configuration.
	Mount(ctx context.Context, f *disk.Facts, class *disk.Class, uuid, fstype string) error
	// Unmount stops the mount unit of that mount point.
	Unmount(ctx context.Context, path string) error
	// Run runs a program for the disk and the mount point. Run does not start the program if there is nothing to do.
	Run(ctx context.Context, p disk.Program, id disk.ID, path string) error
	// Stop ends a program that Run started and that is still running.
	Stop(ctx context.Context, p disk.Program, id disk.ID) error
	// Opener runs the program that finds out which process has the disk open. Opener returns nil if the program finds
	// no use of the disk.
	Opener(ctx context.Context, id disk.ID) (*disk.Opener, error)
	// Plugged returns the time of CLOCK_MONOTONIC at which the disk's device unit became plugged. Plugged returns 0 if
	// the device unit is not plugged.
	Plugged(ctx context.Context, id disk.ID) (time.Duration, error)
}

// Reporter receives the events and the state of the daemon.
type Reporter interface {
	// Report reports an event.
	Report(e disk.Event)
	// Notify sends one state to the service manager (sd_notify(3)). The state is Ready, Reloading, Alive, or StatusIs
	// plus one line of text. The line contains the numbers of mounted, held, refused and failing disks.
	Notify(state string)
}

// The states of Reporter.Notify.
const (
	// Ready: the disks that were present at start are handled, ReadyTimeout has passed, or the reload is done.
	Ready = "READY=1"
	// Reloading: a reload has begun.
	Reloading = "RELOADING=1"
	// Alive: the loop is running.
	Alive    = "WATCHDOG=1"
	StatusIs = "STATUS="
)
