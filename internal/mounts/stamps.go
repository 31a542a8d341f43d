package mounts

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
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

// stamps are what stat(2) said of all files and directories that were read,
// before they were.
type stamps []stamp

type stamp struct {
	path string
	// there is what says that it is the same file with the same content; zero for
	// one that is not there.
	there identity
	// young says that it was changed just before: a further change may leave the
	// same time, which advances by ticks of the kernel (4 to 10 ms, in
	// Documentation/filesystems/multigrain-ts.rst of kernels that do better).
	young bool
}

type identity struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

// old is the age from which a file can not change without a change of its times.
const old = 2 * time.Second

func (st *stamps) take(path string) { *st = append(*st, stampOf(path)) }

func stampOf(path string) stamp {
	s := stamp{path: path}
	var i unix.Stat_t
	if err := unix.Stat(path, &i); err != nil {
		return s
	}
	s.there = identity{uint64(i.Dev), i.Ino, i.Size, i.Mtim, i.Ctim}
	age := time.Since(time.Unix(i.Ctim.Unix()))
	s.young = age < old
	return s
}

// hold says whether nothing has changed since the stamps were taken.
func (st stamps) hold() bool {
	return !slices.ContainsFunc(st, func(s stamp) bool {
		return s.young || stampOf(s.path).there != s.there
	})
}
