package unit

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// eager is a connection to PID 1 whose handshake is one message and one answer, as
// it is for sd-bus's own client (bus_socket_start_auth_client in systemd's
// src/libsystemd/sd-bus/bus-socket.c): godbus waits for three answers, each of which
// costs a turn of PID 1's loop just when it has a new disk on its hands. Nothing is
// sent with the handshake: what PID 1 has read with it, it may not look at before
// something else comes.
//
// It skips the signals for who does not hear them. PID 1 sends all that it has, some
// hundred for a disk, and to take them apart was a third of the daemon's time where
// twenty disks came at once.
type eager struct {
	net.Conn
	in *bufio.Reader
	// begun says that the handshake is over.
	begun bool
	// left is how much of a message is still to be read.
	left int
	// hears says that signals are wanted.
	hears atomic.Bool
}

func newEager(c net.Conn) *eager { return &eager{Conn: c, in: bufio.NewReader(c)} }

// begin is the last line of the handshake ("Authentication Protocol" in the D-Bus
// specification).
const begin = "BEGIN\r\n"

// Write holds the handshake back until it is complete, sends it and waits for the
// answer.
func (e *eager) Write(b []byte) (int, error) {
	if e.begun {
		return e.Conn.Write(b)
	}
	if !bytes.HasSuffix(b, []byte(begin)) {
		return len(b), nil
	}
	if _, err := fmt.Fprintf(e.Conn, "\x00AUTH EXTERNAL %s\r\n"+begin, hex.EncodeToString([]byte(strconv.Itoa(os.Getuid())))); err != nil {
		return 0, err
	}
	answer, err := e.in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if !strings.HasPrefix(answer, "OK ") {
		return 0, fmt.Errorf("systemd answers %q", strings.TrimSpace(answer))
	}
	e.begun = true
	return len(b), nil
}

// Read gives the answers that godbus expects, then what PID 1 says after its own.
func (e *eager) Read(b []byte) (int, error) {
	if !e.begun {
		return copy(b, "REJECTED EXTERNAL\r\nDATA\r\nOK 0\r\n"), nil
	}
	for e.left == 0 {
		n, signal, err := e.next()
		if err != nil {
			return 0, err
		}
		if !signal || e.hears.Load() {
			e.left = n
		} else if _, err := e.in.Discard(n); err != nil {
			return 0, err
		}
	}
	n, err := e.in.Read(b[:min(len(b), e.left)])
	e.left -= n
	return n, err
}

// next gives the length in bytes of the message that comes next and whether it is a
// signal, by its header: byte order, type, flags, version, and the lengths of the body and
// of the array of fields, which is padded to 8 bytes ("Message Format" in the D-Bus
// specification).
func (e *eager) next() (n int, signal bool, err error) {
	const header, typeSignal, most = 16, 4, 128 << 20
	h, err := e.in.Peek(header)
	if err != nil {
		return 0, false, err
	}
	var order binary.ByteOrder = binary.LittleEndian
	if h[0] == 'B' {
		order = binary.BigEndian
	}
	body, fields := uint64(order.Uint32(h[4:])), uint64(order.Uint32(h[12:]))
	all := header + (fields+7)&^7 + body
	if h[0] != 'l' && h[0] != 'B' || all > most {
		return 0, false, fmt.Errorf("systemd sends what is no message of D-Bus: % x", h)
	}
	return int(all), h[1] == typeSignal, nil
}
