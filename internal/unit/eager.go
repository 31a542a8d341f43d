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
	// greeted says that PID 1 has authenticated us already, begun that the handshake is over
	// for godbus, and held that its last line waits for the first message.
	greeted, begun, held bool
	// left is how much of a message is still to be read.
	left int
	// hears says that signals are wanted.
	hears atomic.Bool
}

func newEager(c net.Conn) *eager { return &eager{Conn: c, in: bufio.NewReader(c)} }

// begin is the last line of the handshake ("Authentication Protocol" in the D-Bus
// specification).
const begin = "BEGIN\r\n"

// leastFirst is how long in bytes the first message has to be at least where it goes with the
// last line of the handshake: so much PID 1 reads at once of a handshake
// (bus_socket_read_auth in bus-socket.c). A message that it has read whole with it, it
// does not look at before something else comes; of a longer one it reads on.
const leastFirst = 256

// greet authenticates and holds back that it begins to speak: for who has not begun PID 1
// makes no signals (bus_foreach_bus in systemd's src/core/dbus.c).
func (e *eager) greet() error { return e.authenticate("") }

func (e *eager) authenticate(more string) error {
	if _, err := fmt.Fprintf(e.Conn, "\x00AUTH EXTERNAL %s\r\n%s", hex.EncodeToString([]byte(strconv.Itoa(os.Getuid()))), more); err != nil {
		return err
	}
	answer, err := e.in.ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(answer, "OK ") {
		return fmt.Errorf("systemd answers %q", strings.TrimSpace(answer))
	}
	e.greeted = true
	return nil
}

// Write holds the handshake back until it is complete, sends it and waits for the
// answer. After greet it sends what is left of it with the first message.
func (e *eager) Write(b []byte) (int, error) {
	switch {
	case e.held:
		if len(b) < leastFirst {
			return 0, fmt.Errorf("a message of %d bytes may not be the first", len(b))
		}
		e.held = false
		n, err := e.Conn.Write(append([]byte(begin), b...))
		return max(0, n-len(begin)), err
	case e.begun:
		return e.Conn.Write(b)
	case !bytes.HasSuffix(b, []byte(begin)):
		return len(b), nil
	case e.greeted:
		e.held = true
	default:
		if err := e.authenticate(begin); err != nil {
			return 0, err
		}
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
