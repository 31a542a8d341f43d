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

// Reader reads the mount tables of PID 1 and of this process again and again. PID 1's is read only
// when it has changed, and of what is read only lines are parsed that were not in it before: the more is
// mounted, and on a node with pods that is much, the longer the kernel takes to write it out. The zero
// value is ready, also for several at once, and is for one root.
type Reader struct {
	host, own oneTable

	mu sync.Mutex
	// propagates is of which directories Propagates has said so, and since when.
	propagates map[string]time.Time
}

// propagationHolds is how long it holds that a directory propagates.
const propagationHolds = time.Second

// Tree returns PID 1's mount table (proc_pid_mountinfo(5)) below a root path, "" or "/" for the
// live system, in the kernel's order: of two mounts at one path the later one is on top.
// SuperOptions of absurd length are cut. It is not to be changed. What the kernel does not tell of
// (changed) may be as it was until the table changes, or Doubt is called.
func (r *Reader) Tree(root string) ([]Mount, error) {
	return r.host.read(filepath.Join("/", root, tablePath), true)
}

// Last returns the table that Tree has read last, not to be changed; nil if it has read none.
func (r *Reader) Last() []Mount {
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	return r.host.last
}

// Doubt has Tree read the table anew, whatever the kernel tells of it.
func (r *Reader) Doubt() {
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	r.host.doubted = true
}

// Propagates says, by nil, that what PID 1 mounts below the directory shows in this
// process's mount namespace. Where it does not, a directory there can be a live mount point
// on the host without looking like one, and removing it would take the mount away. Both tables are
// read for it: of a change of the propagation alone the kernel does not tell. What it says holds for a second: where disks come one after the other each mount changes
// both tables, and the more is mounted the longer it takes to read them. What it refuses does not.
func (r *Reader) Propagates(root, dir string) error {
	begun := time.Now()
	r.mu.Lock()
	since, known := r.propagates[dir]
	r.mu.Unlock()
	if known && begun.Sub(since) < propagationHolds {
		return nil
	}
	r.Doubt()
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

// oneTable is what was read last of a mount table.
type oneTable struct {
	mu   sync.Mutex
	file *os.File // where it is kept open
	// doubted has it read although nothing is told of it.
	doubted bool
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
		if file, err = openUnwatched(path); err != nil {
			return nil, err
		}
		if keep && again && tells(file) {
			t.file = file
		} else {
			defer file.Close()
		}
	} else if again && !t.doubted && !changed(file) {
		return t.last, nil
	}
	t.doubted = false
	// What changes from here on is told by the next call of changed.
	return t.parse(io.NewSectionReader(file, 0, math.MaxInt64))
}

// openUnwatched opens a file that Go's poller does not watch, as it would one of os.Open: what the kernel tells the
// poller of a mount table it does not tell changed any more.
func openUnwatched(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// tells reports whether changed can go by the file: a mount table of procfs, and no copy of one.
func tells(file *os.File) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(file.Fd()), &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// changed reports whether the kernel may have changed the mount table since it was opened or this was last
// asked (mounts_poll in the kernel's fs/proc_namespace.c). It is not told of a filesystem that the kernel
// itself makes read-only, or somebody in another mount namespace or by fsconfig(2); of what mount(2) does to
// the propagation alone (do_change_type in fs/namespace.c); nor of a mount point whose path is another since a
// directory above it was renamed.
func changed(file *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(file.Fd()), Events: unix.POLLPRI}}
	n, err := unix.Poll(fds, 0)
	return n != 0 || err != nil
}

// parse returns the mounts of the table: of a line that was in the one before what it was then. The order
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
