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

// Reader reads the mount tables of PID 1 and of this process repeatedly. It reads PID 1's only after a change, and
// parses only lines that are new. A node with pods has many mounts, and the kernel takes longer to write a longer
// table.
//
// The zero value is ready, is safe for concurrent use, and is for one root.
type Reader struct {
	host, own oneTable

	mu sync.Mutex
	// propagates maps each directory for which Propagates returned nil to the time of that check.
	propagates map[string]time.Time
}

// propagationHolds is how long a positive check of propagation stays valid.
const propagationHolds = time.Second

// Tree returns PID 1's mount table (proc_pid_mountinfo(5)) below a root path, "" or "/" for the live system. It is in
// the kernel's order: the later of two mounts at one path is on top. Excessively long SuperOptions are cut. The caller
// must not change the table.
//
// Some changes come without a notice from the kernel (see changed). The result may lack them until the table changes
// again, or Doubt is called.
func (r *Reader) Tree(root string) ([]Mount, error) {
	return r.host.read(filepath.Join("/", root, tablePath), true)
}

// Last returns the table of the last call of Tree, nil if there was none. The caller must not change it.
func (r *Reader) Last() []Mount {
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	return r.host.last
}

// Doubt makes Tree read the table again, even without a notice from the kernel.
func (r *Reader) Doubt() {
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	r.host.doubted = true
}

// Propagates returns nil if PID 1's mounts below the directory appear in this process's mount namespace. Otherwise a
// directory there can be a live mount point on the host without looking like one, and removing it would remove the
// mount.
//
// It reads both tables, because the kernel gives no notice of a change of propagation alone. Nil stays valid for a
// second, an error does not. When disks come one after the other, each mount changes both tables, and reading them
// takes longer with more mounts.
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

// oneTable is the last state of a mount table.
type oneTable struct {
	mu   sync.Mutex
	file *os.File // where it is kept open
	// doubted makes read read the table without a notice from the kernel.
	doubted bool
	// last are the mounts of the lines, which point into text. next is for the next text.
	last       []Mount
	lines      [][]byte
	text, next bytes.Buffer
}

// read returns the table. With keep, from the third call on, it reads the table only after a change. A single read
// leaves nothing open.
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
	// The next call of changed reports changes from here on.
	return t.parse(io.NewSectionReader(file, 0, math.MaxInt64))
}

// openUnwatched opens a file that Go's poller does not watch. With os.Open the poller would consume the kernel's change
// notices, which changed needs.
func openUnwatched(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// tells reports whether changed works for the file: a mount table of procfs, not a copy of one.
func tells(file *os.File) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(file.Fd()), &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// changed reports whether the kernel may have changed the mount table since it was opened, or since the last call
// (mounts_poll in fs/proc_namespace.c). The kernel gives no notice of:
//   - a filesystem that becomes read-only by the kernel itself, from another mount namespace, or by fsconfig(2);
//   - a change by mount(2) of the propagation alone (do_change_type in fs/namespace.c);
//   - a mount point whose path changes because a directory above it is renamed.
func changed(file *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(file.Fd()), Events: unix.POLLPRI}}
	n, err := unix.Poll(fds, 0)
	return n != 0 || err != nil
}

// parse returns the mounts of the table. It reuses the mounts of unchanged lines from the previous table. The kernel
// keeps the order of mounts that stay; if a line moves, parse parses it again.
func (t *oneTable) parse(r io.Reader) ([]Mount, error) {
	last, lines := t.last, t.lines
	t.last, t.lines = nil, nil // until the whole table is parsed
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
