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

// secondLook is how long after mkfs a filesystem is read once more. It is far
// more than lies between the last look of another machine that shares the disk
// and the first write of its mkfs.
const secondLook = 3 * time.Second

// How long the unit may be without a sign of life, beside the time to settle:
// while the disk is read, and while mkfs runs, which has a time limit of its
// own (format.MkfsTime).
const (
	readPatience = 5 * time.Minute
	mkfsPatience = format.MkfsTime + readPatience
)

// Prove finds out what is on the disk, and closes it again.
func Prove(ctx context.Context, h inventory.Host, f *disk.Facts, s *disk.Settings) (c disk.Content, err error) {
	err = proven(ctx, h, f, s, func(_ *format.Session, content disk.Content) error {
		c = content
		return nil
	})
	return c, err
}

// proven reads the disk when it is the caller's turn, and hands over what is on it before the
// disk is closed again.
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

// scanPlace waits until somebody at a terminal may read a disk in full. Where no
// daemon has run since the boot there are no places, and nobody else reads.
func scanPlace(ctx context.Context, h inventory.Host) (progress func(context.Context, probe.Progress), free func(), err error) {
	place, err := h.Store.ScanPlace(ctx, func() { fmt.Fprintln(os.Stderr, "waiting until other disks have been read") })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, func() {}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	// Without a place it is the context that has ended, and the scan with it.
	return func(ctx context.Context, _ probe.Progress) { _ = place.Progress(ctx) }, place.Free, nil
}

// open opens the disk for a proof. Deps has what is done with it; the rest is filled in here.
func open(ctx context.Context, h inventory.Host, f *disk.Facts, s *disk.Settings, deps format.Deps) (*format.Session, error) {
	deps.Runner, deps.Settle, deps.SecondLook, deps.Rate = run.Exec{}, s.Settle, secondLook, s.ScanRate
	deps.Writes = func() (done, inFlight uint64, err error) { return writes(h, f) }
	deps.Bytes = func() (read, written uint64, err error) { return transferred(h, f) }
	deps.Allowed = func() error { return allowed(h, f.Name) }
	if deps.Log == nil {
		deps.Log = func(string, ...string) {}
	}
	return format.Open(ctx, *f, deps)
}

// writes is format.Deps.Writes. It fails for another disk, and if the kernel has ceased to count.
func writes(h inventory.Host, f *disk.Facts) (done, inFlight uint64, err error) {
	now, err := h.Counters(f.Name)
	if err == nil {
		err = checkCounted(f, now.Seq, now.Uncounted)
	}
	return now.Writes, now.InFlightWrites, err
}

// transferred is format.Deps.Bytes. It fails as writes does.
func transferred(h inventory.Host, f *disk.Facts) (read, written uint64, err error) {
	now, err := h.Counters(f.Name)
	if err == nil {
		err = checkCounted(f, now.Seq, now.Uncounted)
	}
	return now.BytesRead, now.BytesWritten, err
}

// checkCounted returns an error where counters prove nothing: another disk's, or if the kernel has ceased to count.
func checkCounted(f *disk.Facts, seq uint64, uncounted bool) error {
	switch {
	case seq != f.Seq:
		return disk.ErrGone
	case uncounted:
		return fmt.Errorf("the kernel does not count the writes to it: echo 1 >/sys/block/%s/queue/iostats", f.Name)
	}
	return nil
}

// allowed looks once more at the switches that stop all formatting, right before the disk is
// written to. Waiting for udev's lock may have taken half a minute. Others that want the disk
// meet the claim on it, but a loop device does not.
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

// asking returns the host as a writer has to see it: it asks the loop devices what they lie on. The
// unit may read them only if their driver was loaded when the unit started.
func asking(h inventory.Host, s *disk.Settings) inventory.Host {
	h = h.For(s)
	h.Asks = true
	return h
}
