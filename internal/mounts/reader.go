package mounts

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Reader reads the mount tables of PID 1 and of this process repeatedly. Reader reads PID 1's table only after a
// change, and parses only lines that are new. A node with many pods has a long mount table, and the kernel needs much
// time to print a long table.
//
// The zero Reader is ready for use and safe for concurrent use. Use each Reader for only one root directory.
type Reader struct {
	host, own oneTable

	mu sync.Mutex
	// The keys of the map `propagates` are the directories for which Propagates returned nil. The values are the
	// times of these checks.
	propagates map[string]time.Time
}

// propagationHolds is how long a nil result of Propagates stays valid.
const propagationHolds = time.Second

// Tree returns PID 1's mount table (proc_pid_mountinfo(5)). The argument `root` is the directory that contains proc. For
// the live system, root is "" or "/". The mounts are in the kernel's order: the later of two mounts at one path is on
// top. In each Mount, a text longer than maxField or maxPoint lacks its end. The caller must not change the returned
// slice, which Reader keeps.
//
// The kernel does not report some changes of the mount table (see changed()). If the kernel does not report a change,
// the result of Tree lacks this change until the next reported change, or until ForceReread.
func (r *Reader) Tree(root string) ([]Mount, error) {
	return r.host.read(filepath.Join("/", root, tablePath), true)
}

// Last returns the mount table from the latest call of Tree, or nil if there is none. The caller must not change the
// returned slice, which Reader keeps.
func (r *Reader) Last() []Mount {
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	return r.host.last
}

// ForceReread makes the next call of Tree read the mount table, even if the kernel has reported no change.
func (r *Reader) ForceReread() {
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	r.host.mustReread = true
}

// Propagates returns nil if PID 1's mounts below the directory appear in this process's mount namespace. Without
// propagation, a directory can be a mount point on the host although this process sees no mount there. If this process
// removed the directory, the kernel would also remove the mount on the host.
//
// Propagates reads the mount tables of PID 1 and of this process, because the kernel does not report changes of
// propagation. Propagates keeps a nil result for one second, but does not keep an error. The kept result saves time
// when many disks are mounted in a row, because reading a long mount table takes time.
func (r *Reader) Propagates(root, dir string) error {
	begun := time.Now()
	r.mu.Lock()
	since, known := r.propagates[dir]
	r.mu.Unlock()
	if known && begun.Sub(since) < propagationHolds {
		return nil
	}
	r.ForceReread()
	host, err := r.Tree(root)
	if err != nil {
		return err
	}
	own, err := r.own.read(filepath.Join("/", root, ownTablePath), false)
	if err != nil {
		return err
	}
	if err := propagates(host, own, dir); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.propagates == nil {
		r.propagates = map[string]time.Time{}
	}
	r.propagates[dir] = begun
	return nil
}

// oneTable is the last state of a mount table.
type oneTable struct {
	mu   sync.Mutex
	file *os.File // the open table, or nil
	// If mustReread is true, the next call of read() reads the mount table even if the kernel has reported no change.
	mustReread bool
	// last[i] is the mount that the line lines[i] of the table describes. Each line is a slice of the buffer `text`.
	// parse() reads a new version of the table into the buffer `next`, and then swaps the two buffers.
	last       []Mount
	lines      [][]byte
	text, next bytes.Buffer
}

// The method `read` returns the mounts of the table. If keep is true, the second call leaves the file open, and later
// calls read the table only after a change.
func (t *oneTable) read(path string, keep bool) ([]Mount, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all, err := t.reread(path, keep)
	if err != nil {
		return nil, fmt.Errorf("cannot read the mount table: %w", err)
	}
	return all, nil
}

func (t *oneTable) reread(path string, keep bool) ([]Mount, error) {
	file, again := t.file, t.last != nil
	if file == nil {
		var err error
		if file, err = openUnwatched(path); err != nil {
			return nil, err
		}
		if keep && again && supportsChanged(file) {
			t.file = file
		} else {
			defer file.Close()
		}
	} else if again && !t.mustReread && !changed(file) {
		return t.last, nil
	}
	t.mustReread = false
	// If the kernel reports a change of the mount table from now on, the next call of changed() returns true.
	return t.parse(io.NewSectionReader(file, 0, math.MaxInt64))
}

// openUnwatched opens a file without Go's poller. os.Open would give the file to Go's poller, which would consume the
// kernel's reports of changes. The function `changed` needs these reports itself.
func openUnwatched(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// supportsChanged reports whether changed() works for the file. changed() works only for a file of procfs, and not for
// a copy of a mount table.
func supportsChanged(file *os.File) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(file.Fd()), &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// changed reports whether the kernel may have changed the mount table since the file was opened, or since the last call
// (mounts_poll in fs/proc_namespace.c). The kernel gives no notice of these changes:
//   - The kernel itself, a process in another mount namespace, or fsconfig(2) makes a filesystem read-only.
//   - mount(2) changes only the propagation (do_change_type in fs/namespace.c).
//   - The path of a mount point changes because a directory above it is renamed.
func changed(file *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(file.Fd()), Events: unix.POLLPRI}}
	n, err := unix.Poll(fds, 0)
	return n != 0 || err != nil
}

// parse returns the mounts of the table, and reuses the mounts of unchanged lines from the previous table. The kernel
// keeps the order of the mounts, so parse() searches for each line only in the lines that follow the previous match. A
// line that has moved is parsed again.
func (t *oneTable) parse(r io.Reader) ([]Mount, error) {
	last, lines := t.last, t.lines
	t.last, t.lines = nil, nil // if the parse fails, the Reader must not keep the old table
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
