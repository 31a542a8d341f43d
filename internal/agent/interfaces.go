package agent

import (
	"context"
	"time"

	"hotmount/internal/disk"
)

// Host is the node with its disks.
type Host interface {
	// Names returns the kernel names of all attached disks.
	Names() ([]string, error)
	// Gather reads what is common to all disks. It returns the function that gathers the facts of one disk from that,
	// without its peers. The function may be called concurrently. Its error wraps disk.ErrGone if the disk is no longer
	// attached. Both may hang on dead storage.
	Gather() (look func(name string) (disk.Facts, error))
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
	// Monotonic returns the time of CLOCK_MONOTONIC (clock_gettime(2)).
	Monotonic() time.Duration
	// Accept records the operator's accept for this attachment of the disk. Without a reason it only allows another
	// try.
	Accept(f *disk.Facts, w disk.Word) error
	// Keep records that the disk stays held or refused when the cause is gone. The cause is the format limit
	// (ReasonBrake), another disk with its UUID (ReasonTwin), or with the serial of a block volume (ReasonSerialTwice).
	Keep(f *disk.Facts, reason disk.Reason) error
	// KeepUse records how somebody else uses the disk. It is held from then on, until Accept.
	KeepUse(f *disk.Facts, how string) error
	// KeepUnmounted records that this attachment must not be mounted: ReasonReleased or ReasonUnmounted. An empty
	// reason removes the record.
	KeepUnmounted(f *disk.Facts, reason disk.Reason) error
	// Expect makes looks know from now on that a filesystem was found mounted, or that its disk has left. It fills in
	// the boot.
	Expect(seen disk.Sighting)
	// Remember records what is expected, including what could not be recorded before.
	Remember() error
	// Note records content that was found on disks and is not mounted from them, or that it is gone. It fills in the
	// boot.
	Note(found []disk.Sighting) error
	// Newest returns the highest sequence number among the attached disks that may have been attached together with the
	// named disk, which is gone.
	Newest(name string) (uint64, error)
	// Notices returns, in words, problems that do not concern a single disk.
	Notices(s *disk.Settings) ([]string, error)
	// Forget drops the records of an attachment that has ended.
	Forget(seq uint64) error
	// SaveSettings passes the settings to the processes that format.
	SaveSettings(s *disk.Settings) error
}

// Units runs in PID 1 what the daemon itself cannot do.
type Units interface {
	// Mount mounts the filesystem of that type and UUID for the class, and returns when the mount unit's job has ended.
	// The job continues if ctx ends. The error wraps disk.ErrHeld if the kernel still has the filesystem mounted where
	// nothing shows it. It wraps a *disk.NodeError for a fault of the node.
	Mount(ctx context.Context, f *disk.Facts, class *disk.Class, uuid, fstype string) error
	// Fill runs the unit that grows the disk's filesystem, not mounted yet, to the disk. The unit continues if ctx
	// ends.
	Fill(ctx context.Context, seq uint64) error
	// Opener runs the unit that finds out which process has the disk open (disk.Opener). It returns nil if none does.
	Opener(ctx context.Context, seq uint64) (*disk.Opener, error)
	// Format runs the unit that proves a disk blank and formats it if it is. The unit continues if ctx ends.
	Format(ctx context.Context, seq uint64) error
	// Grow runs the unit that grows the disk's mounted filesystem to the disk. The unit continues if ctx ends.
	Grow(ctx context.Context, seq uint64) error
	// GiveOut runs the unit that gives the disk out by a link for as long as the disk is there. It returns when the
	// link is made.
	GiveOut(ctx context.Context, seq uint64) error
	// TakeBack ends that unit and removes the link.
	TakeBack(ctx context.Context, seq uint64) error
	// Unmount stops the mount unit of that mount point.
	Unmount(ctx context.Context, path string) error
	// UnmountGone detaches the mount of a device that is gone from the tree, if it is in use and cannot be unmounted.
	// It names the users.
	UnmountGone(ctx context.Context, path string, dev disk.Dev) error
	// NameHolders names the users of a gone disk's filesystem outside the path, where it is no longer mounted.
	NameHolders(ctx context.Context, f *disk.Facts, path string) error
	// Plugged returns the time of CLOCK_MONOTONIC since which PID 1 has the disk's device unit plugged, 0 if it is not
	// plugged.
	Plugged(ctx context.Context, f *disk.Facts) (time.Duration, error)
	// RemoveMountPoint removes the directory of a mount that has ended, if it is still there.
	RemoveMountPoint(ctx context.Context, path string) error
}

// Reporter receives what happens, for the journal and the service manager.
type Reporter interface {
	// Decided reports a decision that differs from the disk's last one.
	Decided(f *disk.Facts, c *disk.Content, s *disk.Settings, d disk.Decision)
	// Mounted reports a mount that the mount table shows.
	Mounted(f *disk.Facts, d disk.Decision, path string)
	// Failed reports each failure to do something with the disk. again tells when it is tried again, and whether the
	// journal has it already.
	Failed(f *disk.Facts, d disk.Decision, path string, err error, again disk.Tries)
	// Recovered reports a disk that had a failure and needs nothing any more.
	Recovered(f *disk.Facts)
	// Gone reports a disk that was detached. path is where it was mounted.
	Gone(f *disk.Facts, path string)
	// Disregarded reports a partition that no class selects any more and that stays as it is, or the end of a disk that
	// no class selected.
	Disregarded(f *disk.Facts)
	// Bounced reports a mount that ended because PID 1 took the disk for unplugged or rebooted softly, and that is
	// made again.
	Bounced(f *disk.Facts, path string)
	// Notice reports a problem that does not concern a single disk, each one once.
	Notice(text string)
	// Problem reports an error that does not concern a single disk.
	Problem(err error)
	// Status reports the overall state in one line, Ready that the disks present at start are handled, Alive that the
	// loop runs.
	Status(line string)
	Ready()
	Reloading()
	Alive()
}
