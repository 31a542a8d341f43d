package format

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"hotmount/internal/probe"
)

// ErrToken reports that a token is not valid.
var ErrToken = errors.New("the token is not valid: it is for another disk or other content, or it has expired; a token expires when the disk is written to, attached again or held for another reason, or when the machine restarts")

// Token returns the token that binds the operator's order to this disk in its present state. The argument `boot` is the
// boot ID, followed by the conditions that the token overrides. The token covers the serial, the disk sequence number,
// the size and the kernel's count of writes. The token also covers a digest of all bytes that the plan of the proof
// reads. For the plan Unsigned, the digest covers the bytes that the plan Sampled reads. The token is not a secret,
// because only root can use it.
func (s *Session) Token(ctx context.Context, boot string) (string, error) {
	token, err := s.token(ctx, boot)
	if err != nil {
		return "", fmt.Errorf("cannot make a token for %s: %w", s.disk.ID, err)
	}
	return token, nil
}

func (s *Session) token(ctx context.Context, boot string) (string, error) {
	if !s.proven.Proven {
		return "", errors.New("the disk was not read")
	}
	plan := s.plan
	if plan == probe.Unsigned {
		plan = probe.Sampled
	}
	content, err := probe.Digest(ctx, s.source(), plan)
	if err != nil {
		return "", err
	}
	// The digest is valid only if nobody has written to the disk since Prove.
	if err := s.isUntouched(); err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "hotmount format 1\nboot %q\nseq %d\nserial %q\nsize %d\nwrites %d\ncontent %x\n",
		boot, s.disk.Seq, s.disk.Serial, s.disk.Size, s.writes, content))
	return fmt.Sprintf("%x", sum[:16]), nil
}

// hold verifies the operator's token, and stores a digest of the samples. Later, verifyToken compares the digest with
// the samples on the disk. verifyToken reads only samples, because udev gives up on a disk that is locked for three
// minutes, and a full reading may take longer.
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

// verifyToken returns an error if the samples or the kernel's count of writes have changed since hold() verified the
// token.
func (s *Session) verifyToken(ctx context.Context) error {
	got, err := probe.Digest(ctx, s.source(), probe.Sampled)
	switch {
	case err != nil:
		return err
	case got != s.samples:
		return ErrToken
	}
	return s.isUntouched()
}
