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
// change, and parses only lines that are new. A node with pods has many mounts, and a long table costs the kernel much
// time.
//
// The zero value is ready for use and safe for concurrent use. Use each Reader for one root only.
type Reader struct {
	host, own oneTable

	mu sync.Mutex
	// propagates maps each directory for which Propagates returned nil to the time of that check.
	propagates map[string]time.Time
}

// propagationHolds is how long a nil result of Propagates stays valid.
const propagationHolds = time.Second

// Tree returns PID 1's mount table (proc_pid_mountinfo(5)). root is the directory with /proc, and "" or "/" for the
// live system. The mounts are in the kernel's order: the later of two mounts at one path is on top. Very long
// SuperOptions are cut. The caller must not change the table.
//
// The kernel gives no notice of some changes (see changed). The result may lack a change without a notice until the
// table changes again, or until ForceReread is called.
func (r *Reader) Tree(root string) ([]Mount, error) {
	return r.host.read(filepath.Join("/", root, tablePath), true)
}

// Last returns the table that Tree returned last, or nil if Tree was never called. The caller must not change the
// table.
func (r *Reader) Last() []Mount {
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	return r.host.last
}

// ForceReread makes Tree read the table again, even without a notice from the kernel.
func (r *Reader) ForceReread() {
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	r.host.mustReread = true
}

// Propagates returns nil if PID 1's mounts below the directory appear in this process's mount namespace. If PID 1's
// mounts do not appear, a directory can be a mount point on the host although this process sees no mount on it. A
// removal of such a directory would also remove the mount on the host.
//
// Propagates reads both tables, because the kernel gives no notice if only the propagation changes. A nil result stays
// valid for a second, and an error is not kept. When disks come one after the other, each mount changes both tables,
// and reading long tables takes time.
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
	// mustReread reports that the next call of read has to read the table even without a notice from the kernel.
	mustReread bool
	// last has the mounts of lines. The lines are slices of text. next is the buffer for the next text.
	last       []Mount
	lines      [][]byte
	text, next bytes.Buffer
}

// read returns the table. If keep is set, the third call and later calls read the table only after a change. A single
// call of read leaves no file open.
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
		if keep && again && supportsChanged(file) {
			t.file = file
		} else {
			defer file.Close()
		}
	} else if again && !t.mustReread && !changed(file) {
		return t.last, nil
	}
	t.mustReread = false
	// The next call of the function changed reports changes that come after this point.
	return t.parse(io.NewSectionReader(file, 0, math.MaxInt64))
}

// openUnwatched opens a file that Go's poller does not watch. In a file from os.Open, the poller would consume the
// kernel's notices of changes, which the function changed needs.
func openUnwatched(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// supportsChanged reports whether the function changed works for the file, which must be a mount table of procfs and
// not a copy.
func supportsChanged(file *os.File) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(file.Fd()), &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// changed reports whether the kernel may have changed the mount table since the file was opened, or since the last call
// (mounts_poll in fs/proc_namespace.c). The kernel gives no notice of these changes:
//   - A filesystem becomes read-only by the kernel itself, from another mount namespace, or by fsconfig(2).
//   - mount(2) changes only the propagation (do_change_type in fs/namespace.c).
//   - The path of a mount point changes because a directory above it is renamed.
func changed(file *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(file.Fd()), Events: unix.POLLPRI}}
	n, err := unix.Poll(fds, 0)
	return n != 0 || err != nil
}

// parse returns the mounts of the table. parse reuses the mounts of unchanged lines from the previous table. The kernel
// keeps the order of mounts that stay. A line that has moved is parsed again.
func (t *oneTable) parse(r io.Reader) ([]Mount, error) {
	last, lines := t.last, t.lines
	t.last, t.lines = nil, nil // so that a failed parse leaves no old table
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
