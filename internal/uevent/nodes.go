package uevent

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Nodes records the order in which entries of a directory (/dev) appear and disappear. The kernel makes the node of a
// disk before it sends the event "add" (device_add in drivers/base/core.c). The kernel removes the node before it sends
// the event "remove" (device_del). udev's events do not show the order of the kernel's events, because udev runs its
// rules for several disks at once. WatchNodes returns a Nodes.
//
// Nodes does not use fsnotify, because fsnotify asks for all events about the entries. With fsnotify, each write to
// /dev/null would wake the daemon.
type Nodes struct {
	directory string
	wanted    func(name string) bool
	events    *os.File

	mu sync.Mutex
	// The field `heard` is the number of the newest event. made[name] is the number of the event with which the entry
	// appeared. made[name] exists only while the entry exists, or if the event of its removal was lost. gone[name] is
	// the number of the event with which the entry last disappeared.
	heard      uint64
	made, gone map[string]uint64
	buf        []byte
}

// WatchNodes starts to watch the directory for entries for which wanted(name) is true. The caller must call Run.
func WatchNodes(directory string, wanted func(name string) bool) (*Nodes, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("cannot watch for new entries of %s: %w", directory, os.NewSyscallError("inotify_init1", err))
	}
	events := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, directory, unix.IN_CREATE|unix.IN_DELETE|unix.IN_ONLYDIR); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot watch for new entries of %s: %w", directory, os.NewSyscallError("inotify_add_watch", err)), events.Close())
	}
	return &Nodes{
		directory: directory, wanted: wanted, events: events,
		made: map[string]uint64{}, gone: map[string]uint64{},
		// The buffer has room for at least one event with the longest name (inotify(7)).
		buf: make([]byte, 4096),
	}, nil
}

// Run reads the events as soon as they come, so that the kernel's queue does not overflow. Run returns nil when the
// context ends.
func (n *Nodes) Run(ctx context.Context) error {
	defer n.events.Close()
	stop := context.AfterFunc(ctx, func() { n.events.Close() })
	defer stop()
	conn, err := n.events.SyscallConn()
	for err == nil {
		var readErr error
		err = conn.Read(func(fd uintptr) bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			readErr = n.read(int(fd))
			return readErr != nil
		})
		err = errors.Join(err, readErr)
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("cannot watch for new entries of %s: %w", n.directory, err)
}

// CameAfter reports whether the first entry is known to have appeared after the second entry had disappeared. The
// parameters are the names of the entries. CameAfter returns false if the first entry no longer exists, or if the
// second entry exists again. If the first entry has appeared more than once, only its last appearance counts.
func (n *Nodes) CameAfter(name, other string) bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	// The queue may still contain events that Run has not read. If CameAfter cannot read the queued events, it uses the
	// events that Run has read.
	if conn, err := n.events.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = n.read(int(fd)) })
	}
	if n.made[other] != 0 {
		return false
	}
	went, made := n.gone[other], n.made[name]
	return went != 0 && went < made
}

// The method `read` reads all queued events. The caller holds n.mu.
func (n *Nodes) read(fd int) error {
	for {
		size, err := unix.Read(fd, n.buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil:
			return os.NewSyscallError("read", err)
		}
		for at := n.buf[:size]; len(at) >= unix.SizeofInotifyEvent; {
			// The second word of struct inotify_event is the mask of the event (inotify(7)). The last word of struct
			// inotify_event is the length of the name that follows, including the padding of zeros.
			mask, length := binary.NativeEndian.Uint32(at[4:]), int(binary.NativeEndian.Uint32(at[12:]))
			padded, rest := at[unix.SizeofInotifyEvent:][:length], at[unix.SizeofInotifyEvent+length:]
			raw, _, _ := bytes.Cut(padded, []byte{0})
			n.heard++
			switch name := string(raw); {
			case mask&unix.IN_Q_OVERFLOW != 0:
				clear(n.gone) // after lost events, an entry that had disappeared may exist again
			case name == "" || !n.wanted(name):
			case mask&unix.IN_CREATE != 0:
				n.made[name] = n.heard
			default:
				n.gone[name] = n.heard
				delete(n.made, name)
			}
			at = rest
		}
	}
}
