package report

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// journalSocket is the socket on which journald receives entries.
const journalSocket = "/run/systemd/journal/socket"

// journalPatience is how long the method `send` waits for journald to read earlier entries. If journald is stopped or
// hangs, only the first call of send waits. Until journald reads again, each further call of send fails at once.
const journalPatience = 2 * time.Second

// send sends an entry to journald (systemd.io/JOURNAL_NATIVE_PROTOCOL). The method `send` does not use journal.Send of
// go-systemd, because journal.Send waits for journald without a limit. The socket of journal.Send is not connected, and
// the kernel does not wake an unconnected sender when there is room again.
func (l *Log) send(fields map[string]string) error {
	var data bytes.Buffer
	for name, value := range fields {
		fmt.Fprintf(&data, "%s\n%s%s\n", name, binary.LittleEndian.AppendUint64(nil, uint64(len(value))), value)
	}
	var err error = unix.ENOTCONN
	if l.journald != nil {
		err = l.sendData(data.Bytes(), false)
	}
	if err != nil {
		// A new connection helps in two cases. In the first case, entries that journald has not read fill the send
		// buffer of the old connection (SO_SNDBUF). This buffer is full long before the queue of journald is full. In
		// the second case, journald has opened a new socket since the last entry.
		if err = l.connect(); err == nil {
			err = l.sendData(data.Bytes(), !l.stuck)
		}
	}
	l.stuck = errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, unix.EAGAIN)
	return err
}

// connect connects to journald. The method `connect` closes an existing connection first.
func (l *Log) connect() error {
	if l.journald != nil {
		_ = l.journald.Close() // the connection contains no unsent data
		l.journald = nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: cmp.Or(l.socket, journalSocket), Net: "unixgram"})
	if err == nil {
		l.journald = c
	}
	return err
}

// sendData sends an entry. If the parameter `wait` is true, sendData waits until the socket has room.
func (l *Log) sendData(data []byte, wait bool) error {
	err := l.give(data, nil, wait)
	if errors.Is(err, unix.EMSGSIZE) || errors.Is(err, unix.ENOBUFS) {
		// An entry that is too long for one message is sent as a file.
		file, e := sealedFile(data)
		if e != nil {
			return e
		}
		defer file.Close()
		err = l.give(nil, unix.UnixRights(int(file.Fd())), wait)
	}
	return err
}

// The method `give` sends one message. If the parameter `wait` is true, the method `give` waits until the socket has room.
func (l *Log) give(data, rights []byte, wait bool) error {
	raw, err := l.journald.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	send := func(fd uintptr) { sent = unix.Sendmsg(int(fd), data, rights, nil, unix.MSG_NOSIGNAL) }
	if err := raw.Control(send); err != nil || !wait || !errors.Is(sent, unix.EAGAIN) {
		return cmp.Or(err, sent)
	}
	if err := l.journald.SetWriteDeadline(time.Now().Add(journalPatience)); err != nil {
		return err
	}
	err = raw.Write(func(fd uintptr) bool {
		send(fd)
		return !errors.Is(sent, unix.EAGAIN)
	})
	return cmp.Or(err, sent, l.journald.SetWriteDeadline(time.Time{}))
}

// sealedFile returns a sealed file that contains the data. journald maps a sealed file into memory, but copies or
// rejects any other file.
func sealedFile(data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("journal", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "journal")
	_, err = file.Write(data)
	if err == nil {
		_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// toStderr writes a line to standard error. Under the journal, standard error is a stream to journald with a buffer of
// a few hundred KiB. If this buffer is full, toStderr does not wait.
func toStderr(line string) error {
	err := unix.Send(int(os.Stderr.Fd()), []byte(line), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	if errors.Is(err, unix.ENOTSOCK) {
		_, err = os.Stderr.WriteString(line)
	}
	return err
}
