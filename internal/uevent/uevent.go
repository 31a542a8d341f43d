// Package uevent hears udev say that something happened to a disk. What it
// hears is a hint to look at a disk again and nothing more: a frame that was
// lost, cut short or that cannot be read becomes the hint to look at all of
// them.
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

// Hint says which disk to look at again.
type Hint struct {
	// Name is the kernel's name of the disk, the entry in /sys/block; empty
	// with Rescan.
	Name string
	// Seq is the disk sequence number that the event was about, 0 if it said
	// none.
	Seq uint64
	// Action is the kernel's word for what happened: "add", "change", "remove"
	// and so on (enum kobject_action in include/linux/kobject.h).
	Action string
	// Partition reports that it is about a partition, which Name names; Seq is 0 then, and Whole
	// the name of its disk.
	Partition bool
	Whole     string
	// Rescan asks to look at every disk, Cause says why.
	Rescan bool
	Cause  string
}

// Counters count what a Listener has received since it was made.
type Counters struct {
	// Frames passed the kernel's filter and were read.
	Frames uint64
	// Foreign frames were dropped: their sender is not root, they were not sent
	// to udev's group, or they are not about a disk or partition.
	Foreign uint64
	// Unreadable frames were cut short or could not be parsed: a rescan each.
	Unreadable uint64
	// Overruns are the times the kernel had no room for a frame: a rescan at
	// once and one when the socket is empty.
	Overruns uint64
}

// Listener holds a socket that receives udev's events of disks and partitions.
type Listener struct {
	socket *os.File

	frames, foreign, unreadable, overruns atomic.Uint64
}

const (
	// udevGroup is the multicast group to which udev sends a device after its
	// rules have run (MONITOR_GROUP_UDEV in systemd's device-monitor-private.h);
	// as a bit mask, which is what bind(2) and the sender's address hold.
	udevGroup = 2
	// maxFrame is the longest frame in bytes that is read whole. udev's own
	// listeners read 8 KiB.
	maxFrame = 32 << 10
	// receiveBuffer in bytes is asked for; the kernel gives no more than
	// net.core.rmem_max to those without CAP_NET_ADMIN (socket(7)).
	receiveBuffer = 4 << 20
)

const lost = "events were lost: the socket's buffer was full"

// Listen opens the socket. Events are kept by the kernel from then on, so that
// a scan after Listen misses nothing. The Listener must be run to be closed.
func Listen() (*Listener, error) { return listen(receiveBuffer) }

func listen(buffer int) (*Listener, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("cannot listen to udev: %w", os.NewSyscallError("socket", err))
	}
	// The filter comes before bind: until then the socket is in no group, and
	// nothing that did not pass the filter can be waiting in it.
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

// filter is the socket filter that keeps a node's busy network events from
// waking us: it lets through what carries udev's magic number and its hashes of
// SUBSYSTEM=block and DEVTYPE=disk or partition. A load beyond a frame's end drops the frame
// (Documentation/networking/filter.rst).
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

// Counters returns the counts so far. It may be called at any time.
func (l *Listener) Counters() Counters {
	return Counters{
		Frames:     l.frames.Load(),
		Foreign:    l.foreign.Load(),
		Unreadable: l.unreadable.Load(),
		Overruns:   l.overruns.Load(),
	}
}

// Run calls emit for each hint until the context ends, which is no error, and
// closes the socket. It is called once. While emit blocks, the kernel keeps what
// it has room for.
func (l *Listener) Run(ctx context.Context, emit func(Hint)) error {
	raw, err := l.socket.SyscallConn()
	if err != nil {
		return fmt.Errorf("cannot receive from udev: %w", err)
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		// The one error that is possible is that the socket cannot be polled;
		// then the first read has failed with the same.
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
			// Once it has said so, the kernel drops all that comes, silently,
			// until the socket is empty (netlink_overrun, netlink_rcv_wake in
			// net/netlink/af_netlink.c): a rescan now may be too early.
			l.overruns.Add(1)
			r.lossy = true
			emit(Hint{Rescan: true, Cause: lost})
		case errors.Is(err, errEmpty):
			r.lossy = false
			emit(Hint{Rescan: true, Cause: lost})
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		case err != nil:
			return fmt.Errorf("cannot receive from udev: %w", err)
		default:
			l.frames.Add(1)
			if h, ok := l.judge(m); ok {
				emit(h)
			}
		}
	}
	return nil
}

// judge makes a hint of a message, or none if the message is nothing to us.
func (l *Listener) judge(m message) (Hint, bool) {
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

// message is what recvmsg(2) gave.
type message struct {
	frame   []byte
	control []byte
	flags   int
	groups  uint32
}

// fromRoot reports whether the kernel vouches for a sender with uid 0
// (SCM_CREDENTIALS, unix(7)). Who may send to udev's group holds CAP_NET_ADMIN,
// but need not be root.
func (m *message) fromRoot() bool {
	controls, err := unix.ParseSocketControlMessage(m.control)
	if err != nil || len(controls) != 1 {
		return false
	}
	sender, err := unix.ParseUnixCredentials(&controls[0])
	return err == nil && sender.Uid == 0
}

// errEmpty reports that the socket of a lossy receiver is empty.
var errEmpty = errors.New("socket is empty")

// receiver receives messages into buffers that are used again.
type receiver struct {
	raw            syscall.RawConn
	frame, control []byte
	// lossy is set after an overrun, until the socket is seen empty.
	lossy bool
}

// receive waits for one message, which is valid until the next.
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
