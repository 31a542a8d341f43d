package uevent

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Nodes calls appeared with the name of each entry that comes into being in the directory,
// /dev, until the context ends, which is no error. The kernel makes the node of a new
// disk before it sends its own event (device_add in drivers/base/core.c), and udev's comes
// when udev's rules have run. Nobody counts on it: what is lost is lost.
//
// It is not by fsnotify, which asks for all that happens to the entries: in /dev each write
// to /dev/null would wake who hears of it.
func Nodes(ctx context.Context, directory string, appeared func(name string)) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("cannot hear of new entries of %s: %w", directory, os.NewSyscallError("inotify_init1", err))
	}
	events := os.NewFile(uintptr(fd), "inotify")
	defer events.Close()
	if _, err := unix.InotifyAddWatch(fd, directory, unix.IN_CREATE|unix.IN_ONLYDIR); err != nil {
		return fmt.Errorf("cannot hear of new entries of %s: %w", directory, os.NewSyscallError("inotify_add_watch", err))
	}
	stop := context.AfterFunc(ctx, func() { events.Close() })
	defer stop()
	// At least one event with the longest name (inotify(7)).
	b := make([]byte, 4096)
	for {
		n, err := events.Read(b)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot hear of new entries of %s: %w", directory, err)
		}
		for at := b[:n]; len(at) >= unix.SizeofInotifyEvent; {
			// struct inotify_event of inotify(7): its last word is the length of the name
			// that follows, padded with zeros.
			length := int(binary.NativeEndian.Uint32(at[12:]))
			name, rest := at[unix.SizeofInotifyEvent:][:length], at[unix.SizeofInotifyEvent+length:]
			if name, _, _ = bytes.Cut(name, []byte{0}); len(name) > 0 {
				appeared(string(name))
			}
			at = rest
		}
	}
}
