// Package usage measures mounted filesystems in a separate process, because a filesystem on a dead disk may never
// answer.
package usage

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"
	"sync"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/mounts"
	"hotmount/internal/run"
)

// Space is the usage of a mounted filesystem.
type Space struct {
	At string
	// Size, Free and Available are in bytes (statfs(2)). Inodes and FreeInodes are numbers of inodes.
	Size, Free, Available, Inodes, FreeInodes uint64
	// Dev is the filesystem's device. Geometry is nil if the filesystem is not XFS, or if the process cannot read the
	// geometry.
	Dev      disk.Dev
	Geometry *disk.Geometry
}

// Hung contains the path of each filesystem on which a process hangs. The channel is closed when the process has ended.
type Hung map[string]<-chan struct{}

// Scan gathers the facts of all disks. Scan also measures the filesystems that are mounted at paths that end in a UUID,
// and returns their usage by path. Scan passes the map `hung` to the function `Of`, which reads and changes the map.
func Scan(ctx context.Context, h inventory.Host, hung Hung) ([]disk.Facts, map[string]Space, error) {
	disks, err := h.Scan()
	if err != nil {
		return nil, nil, err
	}
	var paths []string
	by := map[string]*disk.Facts{}
	for i := range disks {
		for _, m := range disks[i].Mounts {
			if m.Root == "/" && !m.Covered && disk.ValidUUID(path.Base(m.Path)) {
				paths = append(paths, m.Path)
				by[m.Path] = &disks[i]
			}
		}
	}
	sizes := Of(ctx, paths, hung)
	for p, u := range sizes {
		if f := by[p]; u.Geometry != nil && u.Dev == f.Dev {
			f.Geometry = u.Geometry
		}
	}
	return disks, sizes, nil
}

// Of measures the filesystems at the paths concurrently, in a separate process, because a dead filesystem never
// answers. If that process hangs, the function Of adds each path without an answer to the caller's map. Later calls skip
// such a path until the process has ended, so that at most one process hangs for each path.
func Of(ctx context.Context, paths []string, hung Hung) map[string]Space {
	for p, ended := range hung {
		select {
		case <-ended:
			delete(hung, p)
		default:
		}
	}
	var notHung []string
	for _, p := range paths {
		if hung[p] == nil {
			notHung = append(notHung, p)
		}
	}
	known := map[string]Space{}
	if len(notHung) == 0 {
		return known
	}
	all, err := run.Self[Space](ctx, nil, append([]string{"usage"}, notHung...)...)
	for _, u := range all {
		known[u.At] = u
	}
	var child run.Unanswered
	for _, p := range notHung {
		if _, ok := known[p]; !ok && errors.As(err, &child) {
			hung[p] = child.Ended
		}
	}
	return known
}

// Print measures the filesystems at the paths and prints each answer as it comes. Print runs in the process that the
// function Of starts.
func Print(w io.Writer, paths []string) error {
	out := json.NewEncoder(w)
	var (
		asking sync.WaitGroup
		saying sync.Mutex
		failed error
	)
	for _, p := range paths {
		asking.Go(func() {
			u := measure(p)
			saying.Lock()
			defer saying.Unlock()
			failed = errors.Join(failed, out.Encode(u))
		})
	}
	asking.Wait()
	return failed
}

// measure measures one filesystem, and never returns if the filesystem does not answer.
func measure(p string) Space {
	u := Space{At: p}
	var s unix.Statfs_t
	var st unix.Stat_t
	if err := errors.Join(unix.Statfs(p, &s), unix.Stat(p, &st)); err != nil {
		return u
	}
	u.Size, u.Free, u.Available = s.Blocks*uint64(s.Bsize), s.Bfree*uint64(s.Bsize), s.Bavail*uint64(s.Bsize)
	u.Inodes, u.FreeInodes = s.Files, s.Ffree
	u.Dev = disk.Dev{Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}
	if s.Type != unix.XFS_SUPER_MAGIC {
		return u
	}
	if g, err := mounts.XFSGeometry(p, u.Dev); err == nil {
		u.Geometry = &g
	}
	return u
}
