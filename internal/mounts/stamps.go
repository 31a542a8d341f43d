package mounts

import (
	"slices"
	"sync"

	"hotmount/internal/smallfile"
)

// ClaimCache reads claims again only when a file or a directory that they come
// from has changed, which on a node with hundreds of unit files is most of what a
// look at a disk costs. The zero value is ready, and is for one root.
type ClaimCache struct {
	mu     sync.Mutex
	known  bool
	stamps stamps
	claims []Claim
}

// Claims is the function Claims, with what is known. The result is not to be
// changed.
func (c *ClaimCache) Claims(root string) ([]Claim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known && c.stamps.hold() {
		return c.claims, nil
	}
	c.known, c.stamps = false, nil
	claims, err := c.stamps.claimsBelow(rooted(root))
	if err != nil {
		return nil, claimError(err)
	}
	c.known, c.claims = true, claims
	return claims, nil
}

// stamps are those of all files and directories that were read, taken before they were.
type stamps []smallfile.Stamp

func (st *stamps) take(path string) { *st = append(*st, smallfile.StampOf(path)) }

// hold says whether nothing has changed since the stamps were taken.
func (st stamps) hold() bool {
	return !slices.ContainsFunc(st, func(s smallfile.Stamp) bool { return !s.Holds() })
}
