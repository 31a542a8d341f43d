package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The type `awaited` names the kinds of changes that a turn awaits on each device.
type awaited struct{ events, mounts bool }

// watcher receives the events of the kernel and of udev, and watches the mount table.
type watcher struct {
	want   awaited
	turn   *Turn
	names  map[string]string // device names by major:minor
	events int
	table  int
	buffer []byte
	// The field `probed` is the channel for disks that udev has announced. If this program does not implement the mount
	// method, the channel is nil.
	probed chan<- probed
}

// The function `watch` starts to watch the devices.
func watch(want awaited, loops []*loop, t *Turn) (*watcher, error) {
	w := &watcher{want: want, turn: t, names: map[string]string{}, events: -1, table: -1, buffer: make([]byte, 64<<10)}
	for _, l := range loops {
		w.names[l.dev] = l.name
	}
	if err := w.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot watch: %w", err), w.close())
	}
	return w, nil
}

func (w *watcher) open() (err error) {
	if w.events, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(w.events, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20); err != nil {
		return err
	}
	// The netlink groups 1 and 2 are the multicast groups of the kernel and of udev.
	if err := unix.Bind(w.events, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1 | 2}); err != nil {
		return err
	}
	w.table, err = unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return err
}

func (w *watcher) close() error {
	var errs []error
	for _, fd := range []int{w.events, w.table} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}

// waitForAll waits for all awaited events, and reports whether all of them arrived before the time limit.
func (w *watcher) waitForAll(limit time.Duration) (bool, error) {
	// The time of an event is the time when this thread reads the event. The thread gets a real-time priority, so that
	// the thread reads events immediately. If the kernel does not allow the priority, the times are a little late.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	realTime := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 10, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	if unix.SchedSetAttr(0, &realTime, 0) == nil {
		defer unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}, 0)
	}
	fds := []unix.PollFd{{Fd: int32(w.events), Events: unix.POLLIN}, {Fd: int32(w.table), Events: unix.POLLPRI}}
	for deadline := time.Now().Add(limit); !w.done(); {
		if time.Now().After(deadline) {
			return false, nil
		}
		if _, err := unix.Poll(fds, 1000); err != nil && !errors.Is(err, unix.EINTR) {
			return false, err
		}
		if fds[1].Revents != 0 {
			if err := w.look(); err != nil {
				return false, err
			}
		}
		if fds[0].Revents != 0 {
			if err := w.readEvents(); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

func (w *watcher) done() bool {
	n := len(w.names)
	return (!w.want.events || len(w.turn.Probed) == n) && (!w.want.mounts || len(w.turn.Mounted) == n)
}

// readEvents reads all queued events.
func (w *watcher) readEvents() error {
	for {
		n, _, err := unix.Recvfrom(w.events, w.buffer, 0)
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot hear events: %w", err)
		}
		at := monotonicMs()
		e, fromUdev := parse(w.buffer[:n])
		name := w.names[e["MAJOR"]+":"+e["MINOR"]]
		times := w.turn.Added
		if fromUdev {
			times = w.turn.Probed
		}
		if _, known := times[name]; name == "" || known || e["SUBSYSTEM"] != "block" {
			continue
		}
		times[name] = at
		if fromUdev && w.probed != nil {
			w.probed <- probed{name, e["ID_FS_UUID"]}
		}
	}
}

// parse returns the properties of an event, and reports whether udev sent the event.
func parse(frame []byte) (properties map[string]string, fromUdev bool) {
	// The offset of the properties is in struct monitor_netlink_header of systemd's
	// src/libsystemd/sd-device/device-monitor.c.
	const magic, offset, size = "libudev\x00", 16, 40
	if bytes.HasPrefix(frame, []byte(magic)) && len(frame) > size {
		fromUdev = true
		frame = frame[min(uint32(len(frame)), binary.NativeEndian.Uint32(frame[offset:])):]
	}
	properties = map[string]string{}
	for p := range strings.SplitSeq(string(frame), "\x00") {
		if key, value, ok := strings.Cut(p, "="); ok {
			properties[key] = value
		}
	}
	return properties, fromUdev
}

// The method `look` reads the mount table.
func (w *watcher) look() error {
	at := monotonicMs()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 5 || !strings.HasPrefix(f[4], mountsDir) {
			continue
		}
		name := w.names[f[2]]
		if _, known := w.turn.Mounted[name]; name != "" && !known {
			w.turn.Mounted[name] = at
		}
	}
	return nil
}
