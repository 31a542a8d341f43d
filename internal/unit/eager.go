package unit

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// eager is a connection to PID 1 whose handshake is one message and one answer, as
// it is for sd-bus's own client (bus_socket_start_auth_client in systemd's
// src/libsystemd/sd-bus/bus-socket.c): godbus waits for three answers, each of which
// costs a turn of PID 1's loop just when it has a new disk on its hands. Nothing is
// sent with the handshake: what PID 1 has read with it, it may not look at before
// something else comes.
type eager struct {
	net.Conn
	in *bufio.Reader
	// begun says that the handshake is over.
	begun bool
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
	return e.in.Read(b)
}
