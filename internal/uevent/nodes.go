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

// Nodes hears of the entries of a directory, /dev, in the order in which they come into being
// and go. The kernel makes the node of a new disk before it sends its own event, and removes it
// before the one that the disk is gone (device_add and device_del in drivers/base/core.c);
// udev's come when udev's rules have run, those of one disk beside those of another. Make it
// with WatchNodes.
//
// It is not by fsnotify, which asks for all that happens to the entries: in /dev each write
// to /dev/null would wake who hears of it.
type Nodes struct {
	directory string
	wanted    func(name string) bool
	events    *os.File

	mu sync.Mutex
	// heard counts the events; made and gone have its value when the entry of that name came
	// into being, which is still there, or went last.
	heard      uint64
	made, gone map[string]uint64
	buf        []byte
}

// WatchNodes begins to watch the directory for entries with wanted names. Run has to be called.
func WatchNodes(directory string, wanted func(name string) bool) (*Nodes, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("cannot hear of new entries of %s: %w", directory, os.NewSyscallError("inotify_init1", err))
	}
	events := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, directory, unix.IN_CREATE|unix.IN_DELETE|unix.IN_ONLYDIR); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot hear of new entries of %s: %w", directory, os.NewSyscallError("inotify_add_watch", err)), events.Close())
	}
	return &Nodes{
		directory: directory, wanted: wanted, events: events,
		made: map[string]uint64{}, gone: map[string]uint64{},
		// At least one event with the longest name (inotify(7)).
		buf: make([]byte, 4096),
	}, nil
}

// Run takes the events as they come, so that the kernel's queue does not overflow. It returns when the context
// ends, which is no error.
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
	return fmt.Errorf("cannot hear of new entries of %s: %w", n.directory, err)
}

// CameAfter reports whether the entry is known to have come into being, and not to have gone since,
// after the other one had gone, which is not there again either: whose going was the last one
// is not told of one that is.
func (n *Nodes) CameAfter(name, other string) bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	// Run may not have come to what is queued. Where it cannot be read any more nothing
	// that is newer is known.
	if conn, err := n.events.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = n.read(int(fd)) })
	}
	if n.made[other] != 0 {
		return false
	}
	went, made := n.gone[other], n.made[name]
	return went != 0 && went < made
}

// read takes all events that are queued. Its caller holds n.mu.
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
			// struct inotify_event of inotify(7): the second word is what happened, the last one
			// the length of the name that follows, padded with zeros.
			mask, length := binary.NativeEndian.Uint32(at[4:]), int(binary.NativeEndian.Uint32(at[12:]))
			padded, rest := at[unix.SizeofInotifyEvent:][:length], at[unix.SizeofInotifyEvent+length:]
			raw, _, _ := bytes.Cut(padded, []byte{0})
			n.heard++
			switch name := string(raw); {
			case mask&unix.IN_Q_OVERFLOW != 0:
				clear(n.gone) // what had gone may be there again
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
