package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// awaited is what a turn waits for, for each device.
type awaited struct{ events, mounts bool }

// watcher hears the kernel's and udev's events, and sees mounts come.
type watcher struct {
	way    string
	want   awaited
	turn   *Turn
	names  map[string]string // by major:minor
	events int
	table  int
	buffer []byte
	// tools are the processes that the way of this program has started, own the CPU of its own calls in milliseconds.
	tools []*exec.Cmd
	own   float64
}

// watch begins to watch the devices.
func watch(way string, want awaited, loops []*loop, t *Turn) (*watcher, error) {
	w := &watcher{way: way, want: want, turn: t, names: map[string]string{}, events: -1, table: -1, buffer: make([]byte, 64<<10)}
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
	// The groups of the kernel and of udev.
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

// until waits until all that is awaited is there, and reports whether it is.
func (w *watcher) until(limit time.Duration) (bool, error) {
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
			if err := w.hear(); err != nil {
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

// hear takes all events that are there.
func (w *watcher) hear() error {
	for {
		n, _, err := unix.Recvfrom(w.events, w.buffer, 0)
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot hear events: %w", err)
		}
		at := now()
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
		if fromUdev {
			if err := w.mount(name, e["ID_FS_UUID"]); err != nil {
				return err
			}
		}
	}
}

// parse returns the properties of an event, and reports whether it is udev's.
func parse(frame []byte) (properties map[string]string, fromUdev bool) {
	// struct monitor_netlink_header in systemd's src/libsystemd/sd-device/device-monitor.c: where the properties begin.
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

// mount does what the ways do that are this program's own.
func (w *watcher) mount(name, uuid string) error {
	node, where := "/dev/"+name, filepath.Join(below, uuid)
	switch w.way {
	case mountCall:
		before := ownCPU()
		if err := os.MkdirAll(where, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(node, where, "xfs", unix.MS_NOATIME, ""); err != nil {
			return fmt.Errorf("cannot mount %s: %w", node, err)
		}
		w.own += ownCPU() - before
	case systemdMount:
		tool := exec.Command("systemd-mount", "-q", "--no-block", "--collect", "--fsck=no", "-t", "xfs", "-o", "noatime", node, where)
		if err := tool.Start(); err != nil {
			return fmt.Errorf("cannot run systemd-mount: %w", err)
		}
		w.tools = append(w.tools, tool)
	}
	return nil
}

// ownCPU returns the CPU of this process in milliseconds.
func ownCPU() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are right
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
}

// toolsEnd waits for the processes of the way, and returns the CPU of the way itself in milliseconds.
func (w *watcher) toolsEnd() (float64, error) {
	ms := w.own
	for _, tool := range w.tools {
		if err := tool.Wait(); err != nil {
			return 0, fmt.Errorf("%s: %w", tool.Path, err)
		}
		ms += float64((tool.ProcessState.UserTime() + tool.ProcessState.SystemTime()).Microseconds()) / 1000
	}
	w.tools = nil
	return ms, nil
}

// look reads the mount table.
func (w *watcher) look() error {
	at := now()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 5 || !strings.HasPrefix(f[4], below) {
			continue
		}
		name := w.names[f[2]]
		if _, known := w.turn.Mounted[name]; name != "" && !known {
			w.turn.Mounted[name] = at
		}
	}
	return nil
}
