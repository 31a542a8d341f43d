// Package format makes filesystems on blank disks, and is the only writer to
// disks, by way of mkfs.xfs, mkfs.ext4 and debugfs. It runs in a process of its own, one for each disk.
// It does not choose the disk: it is told, proves for itself that the disk is
// blank, and gives up at the first doubt.
//
// A session goes Open, Prove, Make, Close. From Open to Close a descriptor is
// open on the disk: as long as it is, the kernel gives the disk's name to no
// other one, also when it has been pulled. What is proven is fenced by the disk
// sequence number, the size and the kernel's count of writes: unless they are
// the same right before mkfs as before the first read, and no write is in flight,
// nothing is written.
package format

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/probe"
	"hotmount/internal/run"
)

var (
	// ErrBusy reports that somebody else has claimed or locked the disk.
	ErrBusy = errors.New("somebody else uses it")
	// ErrWritten reports that somebody wrote to the disk while it was looked at.
	ErrWritten = errors.New("somebody writes to it")
	// ErrRefused reports that mkfs does not want the disk, or an option of the class, when
	// it is asked first: it will not the next time either.
	ErrRefused = errors.New("mkfs refuses it")
	// ErrMade reports that a filesystem was made by the operator's word, and what keeps it from
	// being used: what was there before can still be found beside it, or that is not known.
	ErrMade = errors.New("the filesystem is made")
	// ErrShared reports that the disk has changed and this machine has not written
	// to it.
	ErrShared = errors.New("another machine writes to it: a disk must be attached to one machine only")
)

// Retry reports whether the same may go better later. What mkfs refuses it refuses
// again, and two machines that share a disk do until somebody parts them.
func Retry(err error) bool { return !errors.Is(err, ErrRefused) && !errors.Is(err, ErrShared) }

// Intents is the durable record of formats that began. Package store has it.
type Intents interface {
	// Begin returns once the intent would survive a power cut.
	Begin(disk.Intent) error
	// Amend has an intent that has begun say more.
	Amend(disk.Intent) error
	// End records what came of it, nil for a filesystem that was made, and
	// forgets the intent.
	End(uuid string, failure error) error
}

// Deps is what a session is given to work with. All of it must be set.
type Deps struct {
	Runner run.Runner
	// Writes reads Facts.Writes of the disk afresh, and before it how many writes and
	// discards are in flight: what is so at the first and done at the second is counted.
	Writes func() (done, inFlight uint64, err error)
	// Bytes reads afresh how many bytes have been read from the disk and written to it.
	Bytes func() (read, written uint64, err error)
	// Settle is for how long nobody may have written; zero asks only that
	// nobody does while the disk is read.
	Settle time.Duration
	// SecondLook is how long after mkfs.xfs the filesystem is read once more,
	// and has to be unchanged: another machine that shares the disk may be at
	// work on it, too.
	SecondLook time.Duration
	// Rate and Progress are probe.Source's.
	Rate     uint64
	Progress func(context.Context, probe.Progress)
	// ReadAgain waits until the disk may be read in full once more, after mkfs, and gives
	// the Progress of that; nil for whoever does not wait.
	ReadAgain func(ctx context.Context) (func(context.Context, probe.Progress), error)
	Intents   Intents
	// Allowed gives an error if formatting is switched off. It is called right before
	// the intent is recorded, and before a format is finished by another write (Finish).
	Allowed func() error
	// Log writes to the journal. It is called with the evidence before the
	// first write to the disk.
	Log func(msg string, evidence ...string)
}

// lockTime is how long udev, which holds a shared lock while it probes
// (systemd.io/BLOCK_DEVICE_LOCKING), is waited for, and lockEvery how often the
// lock is tried: flock(2) cannot be waited for with a context. udev does it
// the same way.
const (
	lockTime  = 30 * time.Second
	lockEvery = 100 * time.Millisecond
)

// Session is the work on one disk. It is not for use by several goroutines.
type Session struct {
	disk disk.Facts
	deps Deps
	sys  system

	// keep is open to the end and carries the lock; excl claims the disk while
	// it is looked at, and is nil once mkfs.xfs is to claim it.
	keep, excl *os.File

	// like is what mkfs.ext4 writes for the intent likeOf, nil until it is asked for.
	like   *os.File
	likeOf *disk.Intent

	// What Prove has found or Make has made, and how many writes there had been
	// before it was read.
	proven disk.Content
	plan   probe.Plan
	// samples is the digest of the samples when the token was found to hold.
	samples [sha256.Size]byte
	writes  uint64
	// written is what Deps.Bytes gave before the proof, counted says that it was less read then than after.
	written uint64
	counted bool
}

// Open opens the disk, claims it and takes the shared lock. It fails with
// ErrBusy if anybody else has claimed it, and unless it is the very disk that
// the facts are about, by device number, disk sequence number and size.
func Open(ctx context.Context, f disk.Facts, d Deps) (*Session, error) {
	return open(ctx, f, d, linux{})
}

func open(ctx context.Context, f disk.Facts, d Deps, sys system) (*Session, error) {
	s := &Session{disk: f, deps: d, sys: sys}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open %s: %w", f.ID, err), s.Close())
	}
	return s, nil
}

func (s *Session) open(ctx context.Context) (err error) {
	if s.keep, err = s.sys.open(s.disk.Node(), false); err != nil {
		return s.disk.Sandboxed("hotmount-format", err)
	}
	if s.excl, err = s.sys.open(s.disk.Node(), true); err != nil {
		if errors.Is(err, unix.EBUSY) {
			err = fmt.Errorf("%w: %w", ErrBusy, err)
		}
		return err
	}
	// Both were opened by a name: both must be the disk that is meant.
	for _, f := range []*os.File{s.keep, s.excl} {
		if err := s.isSame(f); err != nil {
			return err
		}
	}
	return s.lock(ctx, unix.LOCK_SH)
}

// Close returns the disk free.
func (s *Session) Close() error {
	err := s.release()
	if s.like != nil {
		err = errors.Join(err, s.like.Close())
		s.like = nil
	}
	if s.keep != nil {
		err = errors.Join(err, s.keep.Close())
		s.keep = nil
	}
	return err
}

// release ends the exclusive claim. The disk stays open.
func (s *Session) release() error {
	if s.excl == nil {
		return nil
	}
	err := s.excl.Close()
	s.excl = nil
	return err
}

func (s *Session) lock(ctx context.Context, how int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lockTime, fmt.Errorf("%w: locked for %s", ErrBusy, lockTime))
	defer cancel()
	for {
		err := unix.Flock(int(s.keep.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if err := wait(ctx, lockEvery); err != nil {
			return err
		}
	}
}

// wait ends early with ctx's error.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
