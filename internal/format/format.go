// Package format makes filesystems on blank or half-made disks, and with the operator's token on other disks. Package
// format writes to disks through mkfs.xfs, mkfs.ext4 and debugfs. Apart from fstrim(8), only the packages `format` and
// `grow` run programs that write to disks. The caller chooses the disk, and runs one process for each disk. Package
// format itself proves what is on the disk, and ends the format with an error at the first doubt.
//
// The steps of a session are Open, Prove, Make and Close. A session keeps the disk open, so the kernel does not give
// the name of a pulled disk to another disk.
//
// The proof is valid only while the disk sequence number, the size and the kernel's count of writes stay the same.
// Nothing is written if the disk sequence number, the size or the count of writes has changed, or if a write is in
// flight.
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
	ErrBusy = errors.New("the disk is in use")
	// ErrWritten reports that another process wrote to the disk during the proof or the format.
	ErrWritten = errors.New("somebody writes to the disk")
	// ErrRefused reports that mkfs refuses the disk, or an option of the class, before mkfs writes anything. ErrRefused
	// also reports that mkfs.ext4 cannot be tried on a file, because no file can be as large as the disk. ErrRefused is
	// permanent: mkfs refuses the same disk with the same options again.
	ErrRefused = errors.New("mkfs refuses the disk")
	// ErrMade reports that a filesystem was made with the operator's token, but cannot be used yet. For example, tools
	// may still find old content on the disk besides the new filesystem.
	ErrMade = errors.New("the filesystem is made")
	// ErrShared reports that the disk changed although this machine did not write to it.
	ErrShared = errors.New("another machine writes to the disk: a disk must be attached to one machine only")
)

// Retry reports whether another attempt may succeed after the error err. If mkfs has refused a disk, mkfs will refuse
// the disk again. A disk that two machines share stays shared until somebody detaches it from one machine.
func Retry(err error) bool { return !errors.Is(err, ErrRefused) && !errors.Is(err, ErrShared) }

// Intents is the durable record of the formats that have begun. Package store implements Intents.
type Intents interface {
	// Begin records the intent, and returns when a power cut can no longer destroy the record.
	Begin(disk.Intent) error
	// Amend changes a recorded intent.
	Amend(disk.Intent) error
	// End removes the intent and records the result. The argument `failure` is the reason why the format failed, or nil
	// if the filesystem was made.
	End(uuid string, failure error) error
}

// Deps are the dependencies of a session. Intents may be nil if nobody calls the session's method Make. Progress and
// ReadAgain may be nil.
type Deps struct {
	Runner run.Runner
	// Writes returns the kernel's current count of writes (Facts.Writes). Writes first reads the number of writes and
	// discards in flight, and then the number of completed ones. A write that ends between these two reads is therefore
	// counted.
	Writes func() (done, inFlight uint64, err error)
	// Bytes returns the kernel's counts of the bytes read from the disk and of the bytes written to the disk.
	Bytes func() (read, written uint64, err error)
	// Settle is the time before mkfs in which no process may write to the disk. Even if Settle is zero, no process may
	// write while Prove reads the disk.
	Settle time.Duration
	// SecondLook is the time between the first and the second reading of the new filesystem. The second reading shows
	// whether another machine has formatted the disk at the same time as hotmount.
	SecondLook time.Duration
	// Rate and Progress have the same meaning as in probe.Source.
	Rate     uint64
	Progress func(context.Context, probe.Progress)
	// ReadAgain waits, after mkfs, for the right to read the disk again. This reading uses the plan of the proof.
	// ReadAgain returns the Progress function for this reading. If ReadAgain is nil, the session does not wait.
	ReadAgain func(ctx context.Context) (func(context.Context, probe.Progress), error)
	Intents   Intents
	// Allowed returns an error if the disk must not be formatted now, for example because formatting is switched off.
	// Make calls Allowed right before it records the intent, and Finish calls Allowed before it writes.
	Allowed func() error
	// Log writes to the journal. Prove calls Log with the evidence, so the journal contains the evidence before the
	// first write to the disk.
	Log func(msg string, evidence ...string)
}

// lockTime is the maximum time that a session waits for the disk's lock. udev may hold a shared lock on the disk while
// udev probes the disk (systemd.io/BLOCK_DEVICE_LOCKING). lockEvery is the time between two attempts to lock. The
// session polls, because a context cannot end a blocked flock(2).
const (
	lockTime  = 30 * time.Second
	lockEvery = 100 * time.Millisecond
)

// Session is the work on one disk. A Session is not safe for use by several goroutines.
type Session struct {
	disk disk.Facts
	deps Deps
	sys  system

	// The field `keep` is the descriptor with the lock, and stays open until Close. The field `excl` is the descriptor
	// with the exclusive claim on the disk. The session releases the claim and sets `excl` to nil, so that mkfs can
	// claim the disk.
	keep, excl *os.File

	// s.like is a file with the bytes that mkfs.ext4 writes, or nil until ownFilesystem needs the file. s.likeOf is the
	// intent for which mkfs.ext4 wrote the file.
	like   *os.File
	likeOf *disk.Intent

	// The field `proven` is the content that Prove found. The field `plan` is the plan by which Prove has read the disk.
	proven disk.Content
	plan   probe.Plan
	// s.samples is the digest of the samples that were read when the token was verified. s.writes is the kernel's count
	// of writes, which the session takes before it reads the content.
	samples [sha256.Size]byte
	writes  uint64
	// s.written is the number of written bytes that Deps.Bytes returned before the proof. s.counted is set if the
	// kernel has counted the reads of the proof.
	written uint64
	counted bool
}

// Open opens the disk, claims it and takes the shared lock. Open fails with ErrBusy if another process has claimed the
// disk. Open also fails if the disk's device number, disk sequence number or size differs from the facts f.
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
	// The device name may lead to another disk by now, so Open checks the disk behind each of the two descriptors.
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

// release ends the exclusive claim on the disk. The session's other descriptor of the disk (s.keep) stays open.
func (s *Session) release() error {
	if s.excl == nil {
		return nil
	}
	err := s.excl.Close()
	s.excl = nil
	return err
}

func (s *Session) lock(ctx context.Context, how int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lockTime, fmt.Errorf("%w: another process has kept the disk locked for %s", ErrBusy, lockTime))
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

// wait() returns nil when the time d has passed. If the context ends earlier, wait() returns the result of
// context.Cause.
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
