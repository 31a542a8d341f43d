// Package uevent receives udev's events about disks. An event is only a hint to look at a disk again. A frame is the
// netlink message for one event. If a frame is lost, cut short or unreadable, the package sends a hint to look at all
// disks.
package uevent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Hint names a disk to look at again.
type Hint struct {
	// Name is the kernel name of the disk or the partition, or empty if Rescan is set.
	Name string
	// Seq is the disk sequence number in the event, or 0 if the event has none.
	Seq uint64
	// Action is the kernel's name for the event: "add", "change", "remove" and so on (enum kobject_action in
	// include/linux/kobject.h).
	Action string
	// Partition reports whether the event is about a partition. For a partition, the field Whole is the name of the
	// whole disk, and Seq is 0. For a whole disk, the field Whole is empty.
	Partition bool
	Whole     string
	// Rescan asks for a look at every disk. Cause is the reason, in words.
	Rescan bool
	Cause  string
}

// Counters counts the frames that a Listener has received or lost since its creation.
type Counters struct {
	// Frames is the number of frames that passed the kernel's filter and were read.
	Frames uint64
	// Foreign is the number of frames that cause no hint. A foreign frame has a sender other than root, a group other
	// than udev's, or a device other than a disk or partition.
	Foreign uint64
	// Unreadable is the number of frames that were cut short or could not be parsed. Each unreadable frame causes a
	// rescan.
	Unreadable uint64
	// Overruns is the number of times that the kernel had no room for a frame. Each overrun causes two rescans: one at
	// once, and one when the socket is empty.
	Overruns uint64
}

// Listener holds a socket that receives udev's events about disks and partitions.
type Listener struct {
	socket *os.File

	frames, foreign, unreadable, overruns atomic.Uint64
}

const (
	// udevGroup is the multicast group to which udev sends the event of a device after udev's rules have run
	// (MONITOR_GROUP_UDEV in systemd's device-monitor-private.h). The value is a bit mask, as in bind(2) and in the
	// sender's address.
	udevGroup = 2
	// maxFrame is the length in bytes of the longest frame that is read as a whole. udev's older listeners read frames
	// of up to 8 KiB, and newer listeners read frames of any size.
	maxFrame = 32 << 10
	// receiveBuffer is the requested size of the socket's buffer in bytes. For SO_RCVBUF, the kernel grants at most
	// net.core.rmem_max, even to a process with CAP_NET_ADMIN (socket(7)).
	receiveBuffer = 4 << 20
)

const eventsLost = "events were lost: the socket's buffer was full"

// Listen opens the socket. As soon as Listen has returned, the kernel queues every event. A caller that scans the disks
// after Listen therefore misses no change. The caller must call Run, which closes the socket.
func Listen() (*Listener, error) { return listen(receiveBuffer) }

func listen(buffer int) (*Listener, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("cannot listen to udev: %w", os.NewSyscallError("socket", err))
	}
	// The filter is set before bind(2). Before bind(2), the socket belongs to no group and receives no frame.
	if err := setUp(fd, buffer); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("cannot listen to udev: %w", err)
	}
	return &Listener{socket: os.NewFile(uintptr(fd), "udev")}, nil
}

func setUp(fd, buffer int) error {
	instructions := filter()
	program := unix.SockFprog{Len: uint16(len(instructions)), Filter: &instructions[0]}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program); err != nil {
		return os.NewSyscallError("setsockopt SO_ATTACH_FILTER", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return os.NewSyscallError("setsockopt SO_PASSCRED", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer); err != nil {
		return os.NewSyscallError("setsockopt SO_RCVBUF", err)
	}
	return os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: udevGroup}))
}

// The function `filter` returns a socket filter, which keeps the many network events of a node from waking the daemon.
// The filter accepts a frame only if the frame has udev's magic number and two known hashes. One hash is for
// SUBSYSTEM=block, and the other hash is for DEVTYPE=disk or DEVTYPE=partition. If an instruction of the filter reads
// beyond the end of a frame, the kernel drops the frame (Documentation/networking/filter.rst).
func filter() []unix.SockFilter {
	const (
		load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		jump = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret  = unix.BPF_RET | unix.BPF_K
	)
	return []unix.SockFilter{
		{Code: load, K: magicOffset},
		{Code: jump, K: udevMagic, Jf: 6},
		{Code: load, K: subsystemHashAt},
		{Code: jump, K: blockHash, Jf: 4},
		{Code: load, K: devtypeHashAt},
		{Code: jump, K: diskHash, Jt: 1},
		{Code: jump, K: partHash, Jf: 1},
		{Code: ret, K: 0xffffffff},
		{Code: ret, K: 0},
	}
}

// Counters returns the counts so far, and may be called at any time.
func (l *Listener) Counters() Counters {
	return Counters{
		Frames:     l.frames.Load(),
		Foreign:    l.foreign.Load(),
		Unreadable: l.unreadable.Load(),
		Overruns:   l.overruns.Load(),
	}
}

// Run calls `emit` for each hint. When the context ends, Run closes the socket and returns nil. Run may be called only
// once. While a call of `emit` lasts, the kernel keeps as many frames as fit into the socket's buffer.
func (l *Listener) Run(ctx context.Context, emit func(Hint)) error {
	raw, err := l.socket.SyscallConn()
	if err != nil {
		return fmt.Errorf("cannot receive from udev: %w", err)
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		// SetReadDeadline fails only if the socket cannot be polled. A read of such a socket never waits, so Run ends
		// even if no deadline is set.
		_ = l.socket.SetReadDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !stop() {
			<-stopped
		}
		l.socket.Close()
	}()
	r := receiver{raw: raw, frame: make([]byte, maxFrame), control: make([]byte, unix.CmsgSpace(unix.SizeofUcred))}
	for ctx.Err() == nil {
		m, err := r.receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			// After ENOBUFS, the kernel silently drops all frames until the socket is empty (netlink_overrun and
			// netlink_rcv_wake in net/netlink/af_netlink.c). The first rescan may therefore come too early.
			l.overruns.Add(1)
			r.lossy = true
			emit(Hint{Rescan: true, Cause: eventsLost})
		case errors.Is(err, errEmpty):
			r.lossy = false
			emit(Hint{Rescan: true, Cause: eventsLost})
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		case err != nil:
			return fmt.Errorf("cannot receive from udev: %w", err)
		default:
			l.frames.Add(1)
			if h, ok := l.hintOf(m); ok {
				emit(h)
			}
		}
	}
	return nil
}

// hintOf turns a message into a hint, or returns false for a foreign message (Counters.Foreign).
func (l *Listener) hintOf(m message) (Hint, bool) {
	if !m.fromRoot() || m.groups != udevGroup {
		l.foreign.Add(1)
		return Hint{}, false
	}
	if m.flags&unix.MSG_TRUNC != 0 {
		l.unreadable.Add(1)
		return Hint{Rescan: true, Cause: "an event was too long to be read"}, true
	}
	h, err := parse(m.frame)
	if errors.Is(err, errForeign) {
		l.foreign.Add(1)
		return Hint{}, false
	}
	if err != nil {
		l.unreadable.Add(1)
		return Hint{Rescan: true, Cause: "an event could not be read: " + err.Error()}, true
	}
	return h, true
}

// The type `message` is one message that recvmsg(2) has returned.
type message struct {
	frame   []byte
	control []byte
	flags   int
	groups  uint32
}

// fromRoot reports whether the kernel confirms that the sender has uid 0 (SCM_CREDENTIALS in unix(7)). Sending to
// udev's group needs CAP_NET_ADMIN, but not uid 0.
func (m *message) fromRoot() bool {
	controls, err := unix.ParseSocketControlMessage(m.control)
	if err != nil || len(controls) != 1 {
		return false
	}
	sender, err := unix.ParseUnixCredentials(&controls[0])
	return err == nil && sender.Uid == 0
}

// errEmpty reports that, after an overrun, the socket is empty for the first time.
var errEmpty = errors.New("socket is empty")

// receiver receives messages into reused buffers.
type receiver struct {
	raw            syscall.RawConn
	frame, control []byte
	// lossy is true from an overrun until the socket has been empty once.
	lossy bool
}

// receive waits for one message. The message is valid until the next call.
func (r *receiver) receive() (message, error) {
	var (
		m    message
		fail error
	)
	err := r.raw.Read(func(fd uintptr) bool {
		n, nc, flags, from, err := unix.Recvmsg(int(fd), r.frame, r.control, 0)
		if errors.Is(err, unix.EAGAIN) {
			if r.lossy {
				fail = errEmpty
			}
			return r.lossy
		}
		fail = os.NewSyscallError("recvmsg", err)
		if err != nil {
			return true
		}
		m = message{frame: r.frame[:n], control: r.control[:nc], flags: flags}
		if sender, ok := from.(*unix.SockaddrNetlink); ok {
			m.groups = sender.Groups
		}
		return true
	})
	return m, errors.Join(err, fail)
}
