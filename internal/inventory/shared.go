package inventory

import (
	"sync"

	"hotmount/internal/mounts"
)

// Shared is what looks have in common, which they need not each gather for
// themselves. The zero value is ready. It is for one Host.
type Shared struct {
	claims mounts.ClaimCache

	gathering sync.Mutex // held by the one that gathers
	mu        sync.Mutex
	next      *batch // has not begun
}

// batch is one gathering for all looks that began before it did: what a look is
// given is never older than the look.
type batch struct {
	once   sync.Once
	common common
	err    error
}

// gather gives what is to be gathered once for all disks, not to be changed.
func (s *Shared) gather(h Host) (*common, error) {
	if s == nil {
		c, err := h.gather()
		return &c, err
	}
	s.mu.Lock()
	if s.next == nil {
		s.next = new(batch)
	}
	b := s.next
	s.mu.Unlock()
	s.gathering.Lock()
	defer s.gathering.Unlock()
	b.once.Do(func() {
		// Who comes from here on is given the next one.
		s.mu.Lock()
		s.next = nil
		s.mu.Unlock()
		b.common, b.err = h.gather()
	})
	return &b.common, b.err
}

func (s *Shared) claimed(root string) ([]mounts.Claim, error) {
	if s == nil {
		return mounts.Claims(root)
	}
	return s.claims.Claims(root)
}
