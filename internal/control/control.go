// Package control implements the socket through which the command line requests changes. Only root may use the socket.
package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Socket is the path of the control socket.
const Socket = "/run/hotmount/control.sock"

// ErrDown reports that no daemon listens on the socket.
var ErrDown = errors.New("the daemon does not run (systemctl start hotmount)")

// Request is a request of the command line.
type Request struct {
	// Do is the action. "accept" accepts a hold, or allows another try after a failure. "release" unmounts a disk, or
	// removes the link of a block volume. "look" forgets earlier failures, and looks at every disk. "hint" looks at the
	// disk whose disk sequence number is Seq.
	Do string `json:"do"`
	// Disk is the kernel name of the disk. Seq is the disk sequence number of the attachment, or 0 for any disk with
	// the name in the field Disk.
	Disk string `json:"disk"`
	Seq  uint64 `json:"seq,omitempty"`
	// Reason is the reason of the hold that an accept may lift. If Reason is empty, an accept may lift a hold with any
	// reason.
	Reason string `json:"reason,omitempty"`
}

// Response is the daemon's answer. Response contains either a text for the operator or an error.
type Response struct {
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"`
}

// maxRequest bounds the size of a request in bytes. The constant `patience` is the time limit for the daemon to handle a
// request. The constant `delivery` is the time limit for the daemon to send the answer.
const (
	maxRequest = 4096
	patience   = 30 * time.Second
	delivery   = 5 * time.Second
)

// Handler carries out a request and returns the answer.
type Handler func(ctx context.Context, r Request) (string, error)

// Serve listens at the path and answers requests until ctx ends.
func Serve(ctx context.Context, path string, handle Handler) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot open the socket for hotmount's commands: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("cannot open the socket for hotmount's commands: %w", err)
	}
	// The umask of the service already denies access to all users except root. Chmod denies access to users other than
	// root even if the umask is wrong. The daemon also checks the uid of the process at the other end.
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(fmt.Errorf("cannot open the socket for hotmount's commands: %w", err), l.Close())
	}
	var conns sync.WaitGroup
	defer conns.Wait()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		c, err := l.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot serve hotmount's commands: %w", err)
		}
		conns.Go(func() { serve(ctx, c, handle) })
	}
}

func serve(ctx context.Context, c *net.UnixConn, handle Handler) {
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()

	text, err := answerTo(ctx, c, handle)
	answer := Response{Text: text}
	if err != nil {
		answer = Response{Error: err.Error()}
	}
	// If the peer is gone or does not read, nobody needs the answer.
	_ = c.SetWriteDeadline(time.Now().Add(delivery))
	_ = json.NewEncoder(c).Encode(answer)
}

func answerTo(ctx context.Context, c *net.UnixConn, handle Handler) (string, error) {
	uid, err := peerUID(c)
	if err != nil {
		return "", err
	}
	if uid != 0 {
		return "", errors.New("only root may make changes")
	}
	r, err := readRequest(c)
	if err != nil {
		return "", fmt.Errorf("cannot read the request: %w", err)
	}
	return handle(ctx, r)
}

// readRequest reads a request, which is one line.
func readRequest(from io.Reader) (r Request, err error) {
	line, err := bufio.NewReaderSize(from, maxRequest).ReadSlice('\n')
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	return r, err
}

// peerUID returns the user id of the process at the other end (SO_PEERCRED in unix(7)).
func peerUID(c *net.UnixConn) (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, credErr); err != nil {
		return 0, fmt.Errorf("cannot tell which user sent the request: %w", err)
	}
	return cred.Uid, nil
}

// Listens reports whether a daemon listens at the path.
func Listens(ctx context.Context, path string) bool {
	c, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "unix", path)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// Ask sends the request to the daemon that listens at the path, and returns the daemon's answer. If no daemon listens,
// Ask returns ErrDown.
func Ask(ctx context.Context, path string, r Request) (string, error) {
	c, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "unix", path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return "", ErrDown
	}
	if err != nil {
		return "", fmt.Errorf("cannot reach the daemon: %w", err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, patience+delivery)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := json.NewEncoder(c).Encode(r); err != nil {
		return "", fmt.Errorf("cannot ask the daemon: %w", err)
	}
	var answer Response
	if err := json.NewDecoder(c).Decode(&answer); err != nil {
		return "", fmt.Errorf("cannot read the daemon's answer: %w", err)
	}
	if answer.Error != "" {
		return "", errors.New(answer.Error)
	}
	return answer.Text, nil
}
