package mounts

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"hotmount/internal/smallfile"
)

// Reader reads the mount tables of PID 1 and of this process again and again. PID 1's is read only
// when it has changed, and of what is read only lines are parsed that were not in it before: the more is
// mounted, and on a node with pods that is much, the longer the kernel takes to write it out. The zero
// value is ready, also for several at once, and is for one root.
type Reader struct {
	host, own oneTable

	mu        sync.Mutex
	propagate map[string]way // by directory
}

// Tree gives PID 1's mount table (proc_pid_mountinfo(5)) below a root path, "" or "/" for the
// live system, in the kernel's order: of two mounts at one path the later one is on top.
// SuperOptions of absurd length are cut. It is not to be changed. What the kernel does not tell of
// (changed) may be as it was.
func (r *Reader) Tree(root string) ([]Mount, error) {
	return r.host.read(filepath.Join("/", root, tablePath), true)
}

// Last gives the table that Tree has read last, not to be changed; nil if it has read none.
func (r *Reader) Last() []Mount {
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	return r.host.last
}

// Propagates says, by nil, that what PID 1 mounts below the directory shows in this
// process's mount namespace. Where it does not, a directory there can be a live mount point
// on the host without looking like one, and removing it would take the mount away.
//
// It is found out once, and again when either of the two mounts by which the directory is reached is
// another one, or the host's is shared in another way.
func (r *Reader) Propagates(root, dir string) error {
	now := way{own: mountID(filepath.Join("/", root, dir))}
	host, err := r.Tree(root)
	if err != nil {
		return err
	}
	at, err := carrier(host, dir)
	if err != nil {
		return err
	}
	now.host = *at
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.own != 0 && r.propagate[dir] == now {
		return nil
	}
	delete(r.propagate, dir)
	own, err := r.own.read(filepath.Join("/", root, ownTablePath), false)
	if err != nil {
		return err
	}
	if err := propagates(host, own, dir); err != nil {
		return err
	}
	if r.propagate == nil {
		r.propagate = map[string]way{}
	}
	r.propagate[dir] = now
	return nil
}

// way is by which mounts a directory is reached: in PID 1's mount namespace, and the ID of that in ours.
type way struct {
	host Mount
	own  uint64
}

// mountID gives the ID of the mount to which the path leads in this process's namespace, 0 if
// it can not be told.
func mountID(path string) uint64 {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_MNT_ID, &st); err != nil || st.Mask&unix.STATX_MNT_ID == 0 {
		return 0
	}
	return st.Mnt_id
}

// oneTable is what was read last of a mount table.
type oneTable struct {
	mu   sync.Mutex
	file *os.File // where it is kept open
	// last are the mounts of the lines, which are of text; next is for the next text.
	last       []Mount
	lines      [][]byte
	text, next bytes.Buffer
}

// read reads the table, from the third time on only where it has changed if keep is given: who reads
// it once leaves nothing open.
func (t *oneTable) read(path string, keep bool) ([]Mount, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all, err := t.reread(path, keep)
	if err != nil {
		return nil, fmt.Errorf("cannot read mount table: %w", err)
	}
	return all, nil
}

func (t *oneTable) reread(path string, keep bool) ([]Mount, error) {
	file, again := t.file, t.last != nil
	if file == nil {
		var err error
		if file, err = smallfile.Open(path); err != nil {
			return nil, err
		}
		if keep && again && tells(file) {
			t.file = file
		} else {
			defer file.Close()
		}
	} else if again && !changed(file) {
		return t.last, nil
	}
	// What changes from here on is told by the next call of changed.
	return t.parse(io.NewSectionReader(file, 0, math.MaxInt64))
}

// tells says whether changed can go by the file: a mount table of procfs, and no copy of one.
func tells(file *os.File) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(file.Fd()), &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// changed says whether the kernel may have changed the mount table since it was opened or this was last
// asked (mounts_poll in the kernel's fs/proc_namespace.c). It is not told of a filesystem that the kernel
// itself makes read-only, nor of what mount(2) does to the propagation alone (do_change_type in
// fs/namespace.c).
func changed(file *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(file.Fd()), Events: unix.POLLPRI}}
	n, err := unix.Poll(fds, 0)
	return n != 0 || err != nil
}

// parse gives the mounts of the table: of a line that was in the one before what it was then. The order
// of what stays is the same, as the kernel has it; else a line is parsed once more.
func (t *oneTable) parse(r io.Reader) ([]Mount, error) {
	last, lines := t.last, t.lines
	t.last, t.lines = nil, nil // until all is well
	t.next.Reset()
	if _, err := t.next.ReadFrom(r); err != nil {
		return nil, err
	}
	t.text, t.next = t.next, t.text
	now := slices.AppendSeq(make([][]byte, 0, len(lines)+1), bytes.Lines(t.text.Bytes()))
	all := make([]Mount, len(now))
	var fresh bytes.Buffer
	var missing []int
	for i, line := range now {
		at := slices.IndexFunc(lines, func(l []byte) bool { return bytes.Equal(l, line) })
		if at < 0 {
			fresh.Write(line)
			missing = append(missing, i)
			continue
		}
		all[i] = last[at]
		last, lines = last[at+1:], lines[at+1:]
	}
	parsed, err := ParseTree(&fresh)
	if err != nil {
		return nil, err
	}
	for i, at := range missing {
		all[at] = parsed[i]
	}
	t.last, t.lines = all, now
	return all, nil
}
