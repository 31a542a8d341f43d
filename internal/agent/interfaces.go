package agent

import (
	"context"
	"time"

	"hotmount/internal/disk"
)

// Host is the node's disks.
type Host interface {
	// Names are the kernel names of all attached disks.
	Names() ([]string, error)
	// Gather reads what is common to all disks, and returns the function that gathers the facts of one disk by it,
	// without its peers. That may be called by several at once. Its error wraps disk.ErrGone if the disk is not
	// attached any more. Both may hang on dead storage.
	Gather() (look func(name string) (disk.Facts, error))
	// MountedAt reports whether the device is mounted at the path, in PID 1's
	// mount table. The error may say that another one is mounted over it.
	MountedAt(path string, dev disk.Dev) (bool, error)
	// Attached gives the sequence number of the disk or partition that has that device
	// number, 0 if none has.
	Attached(dev disk.Dev) (seq uint64, err error)
	// Stale gives what is still mounted in a place that a class gives out although
	// its disk is gone: of each what is known of the disk, and that mount. With an
	// error there may be more.
	Stale(s *disk.Settings) ([]disk.Facts, error)
	// Changed gives the names of those disks, mounted when they were looked at last, of which the
	// mounts, or what the kernel has done to the filesystem (Facts.Fault), are others now. It asks
	// much less than a look does, and may hang as that may.
	Changed(mounted []disk.Facts) ([]string, error)
	// Monotonic is the time of CLOCK_MONOTONIC (clock_gettime(2)).
	Monotonic() time.Duration
	// Accept records the operator's word for this attachment of the disk; without a
	// reason it is for another try alone.
	Accept(f *disk.Facts, w disk.Word) error
	// Keep records that the disk stays held when what it was held for is over:
	// too many formats (ReasonBrake), another disk with its UUID (ReasonTwin), or with
	// the serial of a block volume (ReasonSerialTwice).
	Keep(f *disk.Facts, reason disk.Reason) error
	// KeepUnmounted records that the disk is not to be mounted during this
	// attachment: ReasonReleased or ReasonUnmounted; empty takes that back.
	KeepUnmounted(f *disk.Facts, reason disk.Reason) error
	// Expect has looks go by it from now on that a filesystem was found mounted, or that its
	// disk has left; it fills in the boot.
	Expect(seen disk.Sighting)
	// Remember records what is expected, also what could not be recorded before.
	Remember() error
	// Note records what was found on disks and is not mounted from them, or that it is
	// there no more; it fills in the boot.
	Note(found []disk.Sighting) error
	// Newest gives the highest disk sequence number of those attached that may have
	// been attached together with the disk of that kernel name, which is gone.
	Newest(name string) (uint64, error)
	// Notices gives, in words, what is amiss beside single disks.
	Notices(s *disk.Settings) ([]string, error)
	// Forget drops what was remembered of an attachment that has ended.
	Forget(seq uint64) error
	// SaveSettings hands the settings to the processes that format.
	SaveSettings(s *disk.Settings) error
}

// Units has PID 1 do what the daemon itself cannot.
type Units interface {
	// Mount mounts the disk's filesystem of that type and UUID for the class,
	// and returns when the mount unit's job has ended. What PID 1 has begun goes
	// on when ctx ends. The error wraps disk.ErrHeld if the filesystem is in use
	// as another mount of it that is nowhere to be seen, a *disk.NodeError if it failed for a
	// fault of the node's.
	Mount(ctx context.Context, f *disk.Facts, class *disk.Class, uuid, fstype string) error
	// Fill runs the unit that has the disk's filesystem, which is not mounted yet,
	// fill the disk. It goes on when ctx ends.
	Fill(ctx context.Context, seq uint64) error
	// Format runs the unit that proves a disk blank and formats it if it is. It
	// goes on when ctx ends.
	Format(ctx context.Context, seq uint64) error
	// Grow runs the unit that has the disk's mounted filesystem fill the disk. It
	// goes on when ctx ends.
	Grow(ctx context.Context, seq uint64) error
	// GiveOut runs the unit that gives the disk out by a link as long as the disk
	// is there, and returns when the link is made.
	GiveOut(ctx context.Context, seq uint64) error
	// TakeBack ends that unit, and the link.
	TakeBack(ctx context.Context, seq uint64) error
	// Unmount stops the mount unit of that mount point.
	Unmount(ctx context.Context, path string) error
	// UnmountGone takes the mount of a device that is gone, and that cannot be
	// unmounted since somebody uses it, off the tree, and names its users.
	UnmountGone(ctx context.Context, path string, dev disk.Dev) error
	// NameHolders names those who still have the filesystem of a disk that is gone
	// elsewhere than at the path, where it was mounted and is not any more.
	NameHolders(ctx context.Context, f *disk.Facts, path string) error
	// Plugged gives the time of CLOCK_MONOTONIC since which PID 1 has the disk's
	// device unit plugged, zero if it has not.
	Plugged(ctx context.Context, f *disk.Facts) (time.Duration, error)
	// RemoveMountPoint removes the directory of a mount that has ended, if it is
	// still there.
	RemoveMountPoint(ctx context.Context, path string) error
}

// Reporter is told what happens, for the journal and for the service manager.
type Reporter interface {
	// Decided is told of each decision that differs from the disk's last one.
	Decided(f *disk.Facts, c *disk.Content, s *disk.Settings, d disk.Decision)
	// Mounted is told of each mount that the mount table shows.
	Mounted(f *disk.Facts, d disk.Decision, path string)
	// Failed is told what could not be done, and when it is tried again; a
	// negative wait says that it is not.
	Failed(f *disk.Facts, d disk.Decision, path string, err error, wait time.Duration)
	// Recovered is told of a disk on which something failed before, and nothing
	// has to be done any more.
	Recovered(f *disk.Facts)
	// Gone is told of a disk that was detached; path is where it was mounted.
	Gone(f *disk.Facts, path string)
	// Disregarded is told of a partition that no class asks for any more, and that stays as
	// it is.
	Disregarded(f *disk.Facts)
	// Bounced is told of a mount that ended with a disk that PID 1 took for
	// unplugged, and that is made again.
	Bounced(f *disk.Facts, path string)
	// Notice is told what is amiss beside single disks, each thing once.
	Notice(text string)
	// Problem is told what went wrong beside a single disk.
	Problem(err error)
	// Status is told the state of the whole in one line, Ready that the disks
	// of the start are dealt with, Alive that the loop turns.
	Status(line string)
	Ready()
	Reloading()
	Alive()
}
