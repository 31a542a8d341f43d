package helper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/format"
	"hotmount/internal/inventory"
	"hotmount/internal/policy"
	"hotmount/internal/probe"
	"hotmount/internal/run"
)

// secondLook is the time from mkfs to a second reading of the filesystem. The second reading finds the writes of
// another machine that shares the disk and formats the disk at the same time as hotmount. secondLook is far longer than
// the time from the other machine's last look at the disk to its first write.
const secondLook = 3 * time.Second

// readPatience and mkfsPatience limit how long the unit may run without a message to PID 1. While the unit reads the
// disk, the limit is the settle time plus readPatience. mkfsPatience is the limit during mkfs, which has its own time
// limit (format.MkfsTime).
const (
	readPatience = 5 * time.Minute
	mkfsPatience = format.MkfsTime + readPatience
)

// Prove reads the disk and returns its proven content.
func Prove(ctx context.Context, h inventory.Host, f *disk.Facts, s *disk.Settings) (c disk.Content, err error) {
	err = proven(ctx, h, f, s, func(_ *format.Session, content disk.Content) error {
		c = content
		return nil
	})
	return c, err
}

// proven waits for the right to read the disk, and then proves the content of the disk. The callback `use` gets the
// content while the disk is still open.
func proven(ctx context.Context, h inventory.Host, f *disk.Facts, s *disk.Settings, use func(*format.Session, disk.Content) error) (err error) {
	progress, free, err := scanPlace(ctx, h)
	if err != nil {
		return err
	}
	defer free()
	session, err := open(ctx, h, f, s, format.Deps{Progress: progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	c, err := session.Prove(ctx, policy.Select(f, s).Blank)
	if err != nil {
		return err
	}
	return use(session, c)
}

// scanPlace waits until a command at a terminal may read a disk in full. If no daemon has run since boot, no unit reads
// disks, so scanPlace does not wait.
func scanPlace(ctx context.Context, h inventory.Host) (progress func(context.Context, probe.Progress), free func(), err error) {
	place, err := h.Store.ScanPlace(ctx, func() { fmt.Fprintln(os.Stderr, "waiting until other disks have been read") })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, func() {}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	// When the context ends, place.Progress returns an error. The scan has the same context, so the scan also ends.
	return func(ctx context.Context, _ probe.Progress) { _ = place.Progress(ctx) }, place.Free, nil
}

// open opens the disk for a proof. The parameter `deps` contains the dependencies that differ between callers, and the
// function `open` sets the other dependencies.
func open(ctx context.Context, h inventory.Host, f *disk.Facts, s *disk.Settings, deps format.Deps) (*format.Session, error) {
	deps.Runner, deps.Settle, deps.SecondLook, deps.Rate = run.Exec{}, s.Settle, secondLook, s.ScanRate
	deps.Writes = func() (done, inFlight uint64, err error) { return writes(h, f) }
	deps.Bytes = func() (read, written uint64, err error) { return bytesTransferred(h, f) }
	deps.Allowed = func() error { return allowed(h, f.Name) }
	if deps.Log == nil {
		deps.Log = func(string, ...string) {}
	}
	return format.Open(ctx, *f, deps)
}

// writes() implements format.Deps.Writes. The function returns an error if the disk's name now belongs to another disk,
// or if the kernel no longer counts writes.
func writes(h inventory.Host, f *disk.Facts) (done, inFlight uint64, err error) {
	now, err := h.Counters(f.Name)
	return now.Writes, now.InFlightWrites, counted(f, now.Seq, now.Uncounted, err)
}

// bytesTransferred implements format.Deps.Bytes. bytesTransferred returns an error in the same cases as writes().
func bytesTransferred(h inventory.Host, f *disk.Facts) (read, written uint64, err error) {
	now, err := h.Counters(f.Name)
	return now.BytesRead, now.BytesWritten, counted(f, now.Seq, now.Uncounted, err)
}

// The function `counted` returns an error if the kernel's I/O counters could not be read, belong to another disk, or
// are switched off.
func counted(f *disk.Facts, seq uint64, uncounted bool, err error) error {
	switch {
	case err != nil:
		return err
	case seq != f.Seq:
		return disk.ErrGone
	case uncounted:
		return fmt.Errorf("the kernel does not count the writes to the disk; to make the kernel count them: echo 1 >/sys/block/%s/queue/iostats", f.Name)
	}
	return nil
}

// allowed() checks once more, right before the first write, whether formatting is switched off. Before the first write,
// hotmount may have waited half a minute for udev's lock. The function also checks for loop devices and bind mounts of
// the device node, because both can lead to a use of a disk that hotmount has opened exclusively.
func allowed(h inventory.Host, name string) error {
	s, err := h.Store.Settings()
	if err != nil {
		return err
	}
	now, err := asking(h, s).Look(name)
	if err != nil {
		return err
	}
	return forbidden(&now, s)
}

// settingsAndDisk returns the daemon's settings, and the disk with that sequence number.
func settingsAndDisk(h inventory.Host, seq uint64) (*disk.Settings, *disk.Facts, error) {
	s, err := h.Store.Settings()
	if err != nil {
		return nil, nil, err
	}
	f, err := h.For(s).BySeq(seq)
	return s, f, err
}

// asking() returns a copy of the Host for a program that writes to a disk. The copy opens loop devices to see on which
// disks they lie. The unit has the right to open loop devices only if the loop driver was loaded when the unit started.
func asking(h inventory.Host, s *disk.Settings) inventory.Host {
	h = h.For(s)
	h.Asks = true
	return h
}
