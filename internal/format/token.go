package format

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"hotmount/internal/probe"
)

// ErrToken reports that a token does not hold.
var ErrToken = errors.New("the token does not hold: it is for another disk or another content, or the disk was written to or attached anew since, or the machine restarted")

// Token returns what binds the operator's word to this disk in this boot, as it is
// now: its serial, disk sequence number and size, the kernel's count of writes
// since what Prove has found, and a digest of all that Prove has read, but of the samples
// at least. It is no secret: whoever may use it is root.
func (s *Session) Token(ctx context.Context, boot string) (string, error) {
	token, err := s.token(ctx, boot)
	if err != nil {
		return "", fmt.Errorf("cannot make a token for %s: %w", s.disk.ID, err)
	}
	return token, nil
}

func (s *Session) token(ctx context.Context, boot string) (string, error) {
	if !s.proven.Proven {
		return "", errors.New("it was not read")
	}
	plan := s.plan
	if plan == probe.Unsigned {
		plan = probe.Sampled
	}
	content, err := probe.Digest(ctx, s.source(), plan)
	if err != nil {
		return "", err
	}
	// The digest is of this disk, and of what Prove has found.
	if err := s.isUntouched(); err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "hotmount format 1\nboot %q\nseq %d\nserial %q\nsize %d\nwrites %d\ncontent %x\n",
		boot, s.disk.Seq, s.disk.Serial, s.disk.Size, s.writes, content))
	return fmt.Sprintf("%x", sum[:16]), nil
}

// hold reports that the token holds, and takes the samples that say so again later: udev gives
// up on a disk that is locked for three minutes, which all of it may take.
func (s *Session) hold(ctx context.Context, token, boot string) error {
	got, err := s.token(ctx, boot)
	if err == nil && got != token {
		err = ErrToken
	}
	if err == nil {
		s.samples, err = probe.Digest(ctx, s.source(), probe.Sampled)
	}
	return err
}

// holds reports that a token that held does so still, by the samples, and the kernel's count
// of this machine's writes.
func (s *Session) holds(ctx context.Context) error {
	got, err := probe.Digest(ctx, s.source(), probe.Sampled)
	switch {
	case err != nil:
		return err
	case got != s.samples:
		return ErrToken
	}
	return s.isUntouched()
}
