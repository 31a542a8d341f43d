// Package format makes filesystems on blank disks. It is the only writer to disks, through mkfs.xfs, mkfs.ext4 and
// debugfs. It runs in its own process, one for each disk. It does not choose the disk, but proves for itself that the
// disk is blank, and gives up at the first doubt.
//
// A session goes Open, Prove, Make, Close. From Open to Close a descriptor on the disk stays open. For that time the
// kernel gives the disk's name to no other disk, even if the disk was pulled.
//
// The proof is fenced by the disk sequence number, the size and the kernel's count of writes. All must be the same
// right before mkfs as before the first read, and no write may be in flight. Otherwise nothing is written.
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
	// ErrBusy reports that another process has claimed or locked the disk.
	ErrBusy = errors.New("somebody else uses it")
	// ErrWritten reports that another process wrote to the disk during the proof or the format.
	ErrWritten = errors.New("somebody writes to it")
	// ErrRefused reports that mkfs refuses the disk, or an option of the class, before it writes. It will refuse the
	// next time, too.
	ErrRefused = errors.New("mkfs refuses it")
	// ErrMade reports that a filesystem was made with the operator's token and cannot be used yet. The tools may still
	// find the old content beside it.
	ErrMade = errors.New("the filesystem is made")
	// ErrShared reports that the disk changed although this machine did not write to it.
	ErrShared = errors.New("another machine writes to it: a disk must be attached to one machine only")
)

// Retry reports whether another attempt may succeed. mkfs refuses the same again. Two machines share a disk until
// somebody separates them.
func Retry(err error) bool { return !errors.Is(err, ErrRefused) && !errors.Is(err, ErrShared) }

// Intents is the durable record of formats that began. Package store implements it.
type Intents interface {
	// Begin returns once the intent would survive a power cut.
	Begin(disk.Intent) error
	// Amend changes an intent that has begun.
	Amend(disk.Intent) error
	// End records the result, nil for a filesystem that was made, and removes the intent.
	End(uuid string, failure error) error
}

// Deps are the dependencies of a session. A session that only proves needs no Intents. Progress and ReadAgain may be
// nil.
type Deps struct {
	Runner run.Runner
	// Writes reads Facts.Writes of the disk anew, and before it how many writes and discards are in flight. In this
	// order, a write that ends between the two reads is counted.
	Writes func() (done, inFlight uint64, err error)
	// Bytes reads anew how many bytes were read from the disk and written to it.
	Bytes func() (read, written uint64, err error)
	// Settle is how long nobody may have written. Zero requires only that nobody writes while the disk is read.
	Settle time.Duration
	// SecondLook is how long after mkfs the filesystem is read once more and must be unchanged: another machine that
	// shares the disk may be formatting it, too.
	SecondLook time.Duration
	// Rate and Progress are those of probe.Source.
	Rate     uint64
	Progress func(context.Context, probe.Progress)
	// ReadAgain waits until the disk may be read in full once more, after mkfs, and returns the Progress for that. nil
	// means no wait.
	ReadAgain func(ctx context.Context) (func(context.Context, probe.Progress), error)
	Intents   Intents
	// Allowed returns an error if formatting is switched off. It is called right before the intent is recorded, and
	// before a further write completes a format (Finish).
	Allowed func() error
	// Log writes to the journal. It is called with the evidence before the first write to the disk.
	Log func(msg string, evidence ...string)
}

// lockTime is how long to wait for udev, which holds a shared lock while it probes (systemd.io/BLOCK_DEVICE_LOCKING).
// lockEvery is how often the lock is tried, because flock(2) cannot wait with a context. udev does the same.
const (
	lockTime  = 30 * time.Second
	lockEvery = 100 * time.Millisecond
)

// Session is the work on one disk. It is not safe for use by several goroutines.
type Session struct {
	disk disk.Facts
	deps Deps
	sys  system

	// keep stays open to the end and carries the lock. excl claims the disk until mkfs claims it, and is nil
	// afterwards.
	keep, excl *os.File

	// like is what mkfs.ext4 writes for the intent likeOf, nil until it is needed.
	like   *os.File
	likeOf *disk.Intent

	// proven is what Prove found. plan is how it read the disk.
	proven disk.Content
	plan   probe.Plan
	// samples is the digest of the samples when the token was verified. writes is the write count before the content
	// was read.
	samples [sha256.Size]byte
	writes  uint64
	// written is the bytes written before the proof, from Deps.Bytes. counted reports that the kernel counted the
	// proof's reads.
	written uint64
	counted bool
}

// Open opens the disk, claims it and takes the shared lock. It fails with ErrBusy if another process has claimed it. It
// fails unless device number, disk sequence number and size show that it is the disk of the facts.
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
	// Both were opened by name, so both must be verified.
	for _, f := range []*os.File{s.keep, s.excl} {
		if err := s.isSame(f); err != nil {
			return err
		}
	}
	return s.lock(ctx, unix.LOCK_SH)
}

// Close releases the disk.
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

// wait returns ctx's error if ctx ends first.
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
