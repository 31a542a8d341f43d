package main

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
	"hotmount/internal/run"
)

// space is what a mounted filesystem says of itself (statfs(2)), in bytes.
type space struct {
	At             string
	Used, Capacity uint64
	// Size, Free and Available as statvfs(3) has them; Inodes are counted.
	Size, Free, Available, Inodes, FreeInodes uint64
	// Dev is its device, and Geometry how much of that it takes: of an XFS, if the
	// caller may open it.
	Dev      disk.Dev
	Geometry *disk.Geometry
}

// scan gathers the facts of all disks with what their mounted filesystems say of
// themselves, by path. Hung is as for usage.
func scan(ctx context.Context, s *disk.Settings, hung map[string]int) ([]disk.Facts, map[string]space, error) {
	disks, err := hostFor(s).Scan()
	if err != nil {
		return nil, nil, err
	}
	var paths []string
	at := map[string]*disk.Facts{}
	for i := range disks {
		for _, m := range disks[i].Mounts {
			if m.Root == "/" && !m.Covered && disk.ValidUUID(path.Base(m.Path)) {
				paths = append(paths, m.Path)
				at[m.Path] = &disks[i]
			}
		}
	}
	sizes := usage(ctx, paths, hung)
	for p, u := range sizes {
		if f := at[p]; u.Geometry != nil && u.Dev == f.Dev {
			f.Geometry = u.Geometry
		}
	}
	return disks, sizes, nil
}

// usage asks in a process of its own, all at once: a dead filesystem never answers.
// One that has not answered is not asked again as long as that process, whose id hung
// has, can not be ended: each time would leave another one behind.
func usage(ctx context.Context, paths []string, hung map[string]int) map[string]space {
	for p, pid := range hung {
		// It was killed. With ECHILD it has been waited for, for another path.
		if ended, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); ended != 0 || err != nil {
			delete(hung, p)
		}
	}
	var asked []string
	for _, p := range paths {
		if hung[p] == 0 {
			asked = append(asked, p)
		}
	}
	known := map[string]space{}
	if len(asked) == 0 {
		return known
	}
	all, err := run.Self[space](ctx, nil, append([]string{"usage"}, asked...)...)
	for _, u := range all {
		known[u.At] = u
	}
	var child run.Unanswered
	for _, p := range asked {
		if _, ok := known[p]; !ok && errors.As(err, &child) {
			hung[p] = child.PID
		}
	}
	return known
}

func usageCommand() *cobra.Command {
	return &cobra.Command{
		Use: "usage PATH...", Short: "Say how full filesystems are", Args: args(cobra.MinimumNArgs(1)),
		Hidden: true, // for status and the daemon, as a process of its own that may hang
		RunE: func(c *cobra.Command, given []string) error {
			out := json.NewEncoder(c.OutOrStdout())
			var (
				asking sync.WaitGroup
				saying sync.Mutex
				failed error
			)
			for _, p := range given {
				asking.Go(func() {
					u := spaceAt(p)
					saying.Lock()
					defer saying.Unlock()
					failed = errors.Join(failed, out.Encode(u))
				})
			}
			asking.Wait()
			return failed
		},
	}
}

// spaceAt may never return.
func spaceAt(p string) space {
	u := space{At: p}
	var s unix.Statfs_t
	var st unix.Stat_t
	if err := errors.Join(unix.Statfs(p, &s), unix.Stat(p, &st)); err != nil {
		return u
	}
	u.Capacity = (s.Blocks - s.Bfree + s.Bavail) * uint64(s.Bsize)
	u.Used = (s.Blocks - s.Bfree) * uint64(s.Bsize)
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
