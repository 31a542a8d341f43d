package format

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"hotmount/internal/probe"
)

// ErrToken says that a token does not hold.
var ErrToken = errors.New("the token does not hold: it is for another disk or another content, or the disk was written to or attached anew since, or the machine restarted")

// Token gives what binds the operator's word to this disk in this boot, as it is
// now: its serial, disk sequence number and size, the kernel's count of writes
// since what Prove has found, and a digest of what probe.Digest reads. That is the
// samples, also of a disk that is proven blank in full: Make takes it twice while it has
// udev's lock, which udev gives up on after three minutes. It is no
// secret: whoever may use it is root.
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
	content, err := probe.Digest(ctx, s.source())
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
