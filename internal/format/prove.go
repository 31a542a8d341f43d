package format

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/probe"
)

// Prove returns the content of the disk. The argument `blank` is the class's probe.Plan, which determines how much of the
// disk Prove reads. If the disk is blank or half-made, Prove waits until the time Deps.Settle has passed since the
// first read. Prove returns an error if the kernel counts a write to the disk before Prove ends. If Prove returns an
// error, the kind of the returned content is Unknown, and the evidence is the error.
func (s *Session) Prove(ctx context.Context, blank string) (disk.Content, error) {
	c, err := s.prove(ctx, probe.Plan(blank))
	if err != nil {
		err = fmt.Errorf("cannot prove what is on %s: %w", s.disk.ID, err)
		s.proven = disk.Content{Kind: disk.Unknown, Evidence: []string{err.Error()}}
		return s.proven, err
	}
	s.proven = c
	s.deps.Log(fmt.Sprintf("%s is %s", s.disk.ID, c.Kind), c.Evidence...)
	return c, nil
}

func (s *Session) prove(ctx context.Context, plan probe.Plan) (c disk.Content, err error) {
	if s.excl == nil {
		return c, errors.New("the file descriptor of this format is closed already")
	}
	begun := time.Now()
	s.plan = plan
	if s.writes, _, err = s.deps.Writes(); err != nil {
		return c, err
	}
	before, written, err := s.deps.Bytes()
	if err != nil {
		return c, err
	}
	s.written = written
	if c, err = s.look(ctx, plan); err != nil {
		return c, err
	}
	after, _, err := s.deps.Bytes()
	if err != nil {
		return c, err
	}
	s.counted = after > before
	if err := s.markTorn(&c); err != nil {
		return c, err
	}
	if c.Kind == disk.Blank || c.Kind == disk.HalfMade {
		if err := s.counts(); err != nil {
			return c, err
		}
		if err := wait(ctx, s.deps.Settle-time.Since(begun)); err != nil {
			return c, err
		}
	}
	return c, s.isUntouched()
}

// counts() returns an error unless the kernel has counted the reads of the proof. A kernel that counts the reads of a
// disk also counts the writes to the disk. The sysfs file queue/iostats does not prove that the driver counts I/O. For
// example, NVMe multipath before Linux 6.3 never counts I/O (drivers/nvme/host/multipath.c).
func (s *Session) counts() error {
	if s.counted {
		return nil
	}
	return errors.New("the disk's driver does not count reads and writes, so hotmount cannot tell whether somebody writes to the disk")
}

// markTorn sets the field Torn if the filesystem of the disk's intent is incomplete. If the power fails before the last
// flush of mkfs, the superblock may be the only part of the filesystem on the disk. markTorn never sets the field Torn
// for a filesystem that is known to have been mounted, or that may belong to another disk.
func (s *Session) markTorn(c *disk.Content) error {
	st := &s.disk.Standing
	if c.Kind != disk.Filesystem || st.Intent == nil || c.UUID != st.Intent.UUID || st.IntentDoubt || st.Volume != nil && st.Volume.UUID == c.UUID {
		return nil
	}
	kind := st.Intent.Type()
	err := checkWhole(s.keep, kind, c.UUID)
	var unread *probe.ReadError
	switch {
	case errors.As(err, &unread):
		return err
	case err != nil && (kind != disk.Ext4 || !probe.Ext4Used(s.keep, c.UUID)):
		c.Torn = true
		c.Evidence = append(c.Evidence, fmt.Sprintf("a part of what mkfs.%s wrote is missing: %v", kind, err))
	}
	return nil
}

func (s *Session) look(ctx context.Context, plan probe.Plan) (disk.Content, error) {
	return probe.Look(ctx, s.deps.Runner, s.source(), plan)
}

func (s *Session) source() probe.Source {
	source := probe.Source{Reader: s.keep, Node: s.disk.Node(), Size: s.disk.Size, Rate: s.deps.Rate, Progress: s.deps.Progress}
	if i := s.disk.Standing.Intent; i != nil && !s.disk.Standing.IntentDoubt {
		source.Own = s.ownFilesystem(i)
	}
	return source
}
