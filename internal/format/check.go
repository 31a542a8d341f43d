package format

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"hotmount/internal/disk"
	"hotmount/internal/probe"
)

// isOurs returns an error if anybody except mkfs wrote to the disk between the first read of the proof and the end of
// mkfs.
//
// mkfs.xfs bypasses the page cache, so the kernel's counts of bytes show whether anybody else has written to the disk.
// The bytes counted for the disk must equal the bytes counted for mkfs.xfs, plus zero, one or two times the size of the
// XFS log. mkfs.xfs asks the kernel to zero the XFS log (libxfs_log_clear in xfsprogs). If the disk's write-zeroes
// command succeeds, the kernel adds the size of the log once to the count for the disk. If the write-zeroes command
// fails, the kernel writes the zeros itself, and adds the size of the log twice to the count for the disk. If the
// kernel refuses to zero the log, mkfs.xfs writes the zeros itself. In this case, the bytes counted for mkfs.xfs
// include the log.
//
// If the log does not explain the difference between the two counts, isOurs reads the disk again with the plan of the
// proof. isOurs then returns nil only if it has read every byte and each byte is zero or part of hotmount's filesystem.
//
// mkfs.ext4 writes through the page cache, so the kernel's counts prove nothing and isOurs reads the disk again. If the
// reading after mkfs.ext4 is interrupted, the filesystem is not in doubt, because nothing suggests another writer.
//
// If the disk was not proven all zero before mkfs, old data cannot be distinguished from later writes. In this case,
// isOurs does not read the disk again. After mkfs.xfs, isOurs checks only the counts. After mkfs.ext4, isOurs checks
// nothing.
func (s *Session) isOurs(ctx context.Context, o *MakeOptions, counted, wrote uint64) error {
	zeros := !o.Intent.Over && s.plan != probe.Unsigned
	var counts string
	if o.Intent.Ext4 == nil {
		super, err := probe.ReadXFS(s.keep)
		if err != nil {
			return err
		}
		n, log := int64(counted-wrote), int64(super.Log)
		for range 2 {
			if n >= log {
				n -= log
			}
		}
		if n == 0 {
			return nil
		}
		counts = fmt.Sprintf("the kernel has counted %d written bytes since hotmount first read the disk; mkfs.xfs wrote %d bytes, and the XFS log of %d bytes does not explain the difference", counted, wrote, log)
		if !zeros {
			return fmt.Errorf("%w: %s; hotmount cannot tell whether somebody else made some of these writes, because the disk was not all zeros before", ErrWritten, counts)
		}
		// The doubt about other writers is recorded now, because the second reading may take long and may be
		// interrupted.
		o.Intent.Doubt = counts + ", and hotmount could not read the whole disk again"
		if err := s.deps.Intents.Amend(o.Intent); err != nil {
			return err
		}
	}
	if !zeros {
		return nil
	}
	source := s.source()
	source.Own = s.ownFilesystem(&o.Intent)
	var err error
	if s.deps.ReadAgain != nil {
		if source.Progress, err = s.deps.ReadAgain(ctx); err != nil {
			return err
		}
	}
	found, err := probe.Scan(ctx, source, s.plan)
	switch {
	case err != nil:
		return err
	case len(found.Bytes) > 0:
		return fmt.Errorf("%w: while mkfs.%s ran, or right before, byte %d was written", ErrWritten, o.Intent.Type(), found.Offset)
	case counts == "":
		return nil
	case found.Plan != probe.Full:
		return fmt.Errorf("%w: %s; the samples that were read again show no write by somebody else, but the rest of the disk was not read", ErrWritten, counts)
	}
	o.Intent.Doubt = ""
	return s.deps.Intents.Amend(o.Intent)
}

// again() returns an error if the content of the disk has changed since the proof, or if anybody has written to the
// disk. With a token, again() compares samples of the disk with the samples that were read when the token was verified.
// Without a token, again() compares the result of a short look with the proof.
func (s *Session) again(ctx context.Context, o MakeOptions) error {
	if o.Token != "" {
		return s.verifyToken(ctx)
	}
	c, err := s.look(ctx, s.plan.ShortLook())
	if err != nil {
		return err
	}
	// If a half-made filesystem has lost its superblock, a short look may find the disk blank.
	same := c.Kind == s.proven.Kind && c.UUID == s.proven.UUID || c.Kind == disk.Blank && s.proven.Kind == disk.HalfMade
	if !same {
		return s.changed(fmt.Errorf("the disk was %s and is %s now", kindAndUUID(&s.proven), kindAndUUID(&c)))
	}
	return s.isUntouched()
}

// kindAndUUID describes the content of a disk without bytes of the disk, because every user may read the error.
func kindAndUUID(c *disk.Content) string {
	return strings.TrimSpace(string(c.Kind) + " " + disk.Visible(c.UUID))
}

// changed returns ErrWritten if this machine has written to the disk according to the kernel's counts. If this machine
// has not written to the disk, changed returns ErrShared. If isUntouched fails otherwise, changed returns that error.
func (s *Session) changed(what error) error {
	switch err := s.isUntouched(); {
	case err == nil:
		return fmt.Errorf("%w: %w", ErrShared, what)
	case errors.Is(err, ErrWritten):
		return fmt.Errorf("%w: %w", err, what)
	default:
		return errors.Join(err, what)
	}
}

func (s *Session) isUntouched() error {
	if err := s.isSame(s.keep); err != nil {
		return err
	}
	if err := s.sys.writeOut(s.keep); err != nil {
		return err
	}
	writes, inFlight, err := s.deps.Writes()
	switch {
	case err != nil:
		return err
	case writes != s.writes:
		return fmt.Errorf("%w: %d writes and discards since the last count", ErrWritten, writes-s.writes)
	case inFlight > 0:
		return fmt.Errorf("%w: %d writes are not complete yet, and may reach the disk at any time", ErrWritten, inFlight)
	}
	return nil
}

// isSame returns an error unless the open file is the intended disk and the device node still leads to this disk.
func (s *Session) isSame(f *os.File) error {
	want := identity{dev: s.disk.Dev, seq: s.disk.Seq, size: s.disk.Size}
	got, err := s.sys.identify(f)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("this is another disk, or the disk has another size: found device number %s, disk sequence number %d and %d bytes, expected %s, %d and %d bytes",
			got.dev, got.seq, got.size, want.dev, want.seq, want.size)
	}
	dev, err := s.sys.node(s.disk.Node())
	if err != nil {
		return err
	}
	if dev != want.dev {
		return fmt.Errorf("%s is device number %s now, but was device number %s", s.disk.Node(), dev, want.dev)
	}
	return nil
}

// readBack reads the new filesystem from the disk, without the page cache, and verifies the filesystem with the
// function `check`.
func (s *Session) readBack(kind, uuid string, check func(r io.ReaderAt, kind, uuid string) error) error {
	if err := check(s.keep, kind, uuid); err != nil {
		return fmt.Errorf("cannot read back what mkfs.%s wrote: %w", kind, err)
	}
	return s.isSame(s.keep)
}

func checkWhole(r io.ReaderAt, kind, uuid string) error {
	if kind == disk.Ext4 {
		return probe.IsWholeExt4(r, uuid)
	}
	return probe.IsWholeXFS(r, uuid)
}

// checkNew is checkWhole for a filesystem that nobody has used since mkfs. For XFS, checkNew reads more than checkWhole.
func checkNew(r io.ReaderAt, kind, uuid string) error {
	if kind == disk.Ext4 {
		return probe.IsWholeExt4(r, uuid)
	}
	return probe.IsNewXFS(r, uuid)
}
