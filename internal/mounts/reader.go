package mounts

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"hotmount/internal/smallfile"
)

// Reader reads the mount tables of PID 1 and of this process again and again. It parses
// only lines that it has not seen: on a node that starts pods the tables are long and
// change all the time, by a line or two. The zero value is ready, also for several at once.
type Reader struct{ host, own oneTable }

// Tree gives PID 1's mount table (proc_pid_mountinfo(5)) below a root path, "" or "/" for the
// live system, in the kernel's order: of two mounts at one path the later one is on top.
// SuperOptions of absurd length are cut.
func (r *Reader) Tree(root string) ([]Mount, error) {
	return r.host.read(filepath.Join("/", root, tablePath))
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
func (r *Reader) Propagates(root, dir string) error {
	host, err := r.Tree(root)
	if err != nil {
		return err
	}
	own, err := r.own.read(filepath.Join("/", root, ownTablePath))
	if err != nil {
		return err
	}
	return propagates(host, own, dir)
}

// oneTable is what is known of the lines of a mount table.
type oneTable struct {
	mu   sync.Mutex
	text bytes.Buffer
	// known are the mounts by their lines, those of the last table and at most as many
	// that have gone.
	known map[string]Mount
	last  []Mount
}

func (t *oneTable) read(path string) ([]Mount, error) {
	file, err := smallfile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read mount table: %w", err)
	}
	defer file.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	all, err := t.parse(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read mount table: %w", err)
	}
	t.last = all
	return all, nil
}

func (t *oneTable) parse(r io.Reader) ([]Mount, error) {
	t.text.Reset()
	if _, err := t.text.ReadFrom(r); err != nil {
		return nil, err
	}
	text := t.text.Bytes()
	var fresh bytes.Buffer
	isFresh := map[string]bool{}
	for line := range bytes.Lines(text) {
		if _, ok := t.known[string(line)]; !ok && !isFresh[string(line)] {
			fresh.Write(line)
			isFresh[string(line)] = true
		}
	}
	parsed, err := ParseTree(&fresh)
	if err != nil {
		return nil, err
	}
	n := bytes.Count(text, []byte{'\n'}) + 1
	if t.known == nil || len(t.known)+len(parsed) > 2*n {
		t.forget(text, n)
	}
	all := make([]Mount, 0, n)
	for line := range bytes.Lines(text) {
		m, ok := t.known[string(line)]
		if !ok {
			m, parsed = parsed[0], parsed[1:]
			t.known[string(line)] = m
		}
		all = append(all, m)
	}
	return all, nil
}

// forget keeps of what is known that of the text alone.
func (t *oneTable) forget(text []byte, n int) {
	kept := make(map[string]Mount, n)
	for line := range bytes.Lines(text) {
		if m, ok := t.known[string(line)]; ok {
			kept[string(line)] = m
		}
	}
	t.known = kept
}
