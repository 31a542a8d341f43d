package report

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The function `deaf` returns a socket with a full queue. The test uses the returned socket in place of journald's
// socket.
func deaf(t *testing.T) (c *net.UnixConn, full int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	l := &Log{socket: path, stuck: true} // stuck is true, so that the log does not wait
	for ; l.send(map[string]string{"MESSAGE": "earlier"}) == nil; full++ {
	}
	return c, full
}

// The function `read` returns n messages from the socket, each as one string.
func read(t *testing.T, c *net.UnixConn, n int) (all []string) {
	t.Helper()
	for range n {
		b := make([]byte, 64<<10)
		if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(b[:n]))
	}
	return all
}

// journalStderr makes standard error a stream to journald while f runs. journalStderr returns the reading end of the
// stream, from which nobody reads.
func journalStderr(t *testing.T, f func()) *os.File {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "stderr"), os.NewFile(uintptr(fds[1]), "journald")
	t.Cleanup(func() { theirs.Close() })
	before := os.Stderr
	os.Stderr = ours
	defer func() { os.Stderr = before; ours.Close() }()
	f()
	return theirs
}

// The function `within` fails the test if f does not return within the given time.
func within(t *testing.T, most time.Duration, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(most):
		t.Fatalf("it took more than %v", most)
	}
}

// TestJournaldHangs checks that hotmount waits for journald only once. While journald hangs, messages go to standard
// error until the buffer of standard error is full. Later messages are lost, but are counted and reported.
func TestJournaldHangs(t *testing.T) {
	c, full := deaf(t)
	a := &Log{socket: c.LocalAddr().String()}
	stderr := journalStderr(t, func() {
		within(t, journalPatience+5*time.Second, func() { a.Problem(errors.New("the first")) })
		long := strings.Repeat("x", 4<<10)
		said := 0
		within(t, journalPatience, func() {
			for ; a.lostEntries < 3 && said < 1000; said++ {
				a.Problem(errors.New(long))
			}
		})
		if a.lostEntries != 3 || said < 4 {
			t.Errorf("%d of %d entries are lost", a.lostEntries, said)
		}
		read(t, c, full)
		a.Problem(errors.New("the next"))
		a.Problem(errors.New("the last"))
	})
	got := read(t, c, 3)
	if !strings.Contains(got[0], "the journal lacks 3 entries of hotmount") || !strings.Contains(got[1], "the next") || !strings.Contains(got[2], "the last") {
		t.Errorf("journald got %q", got)
	}
	if text, err := io.ReadAll(stderr); err != nil || !strings.HasPrefix(string(text), "the first\nx") || strings.Contains(string(text), "the next") {
		t.Errorf("standard error got %.100q, error %v", text, err)
	}
}

// TestStderrHangs checks that hotmount does not wait if it logs text to standard error and nobody reads standard error.
func TestStderrHangs(t *testing.T) {
	journalStderr(t, func() {
		l, err := NewAs("json")
		if err != nil {
			t.Fatal(err)
		}
		within(t, 10*time.Second, func() {
			for said := 0; l.lostEntries == 0 && said < 1000; said++ {
				l.Problem(errors.New(strings.Repeat("x", 4<<10)))
			}
		})
		if l.lostEntries == 0 {
			t.Error("no message was lost")
		}
	})
}

// TestJournaldIsSlow checks that hotmount sends a waiting message as soon as journald's socket has room.
func TestJournaldIsSlow(t *testing.T) {
	c, full := deaf(t)
	a := &Log{socket: c.LocalAddr().String()}
	said := make(chan struct{})
	text := stderr(t, func() {
		go func() { defer close(said); a.Problem(errors.New("no way")) }()
		time.Sleep(50 * time.Millisecond) // the message probably waits by now; the test also passes if the message is sent later
		read(t, c, full)
		<-said
	})
	if got := read(t, c, 1)[0]; !strings.Contains(got, "no way") || text != "" || a.stuck {
		t.Errorf("journald got %q, standard error %q", got, text)
	}
}

// TestJournaldComesAgain checks that hotmount keeps its connection to journald. If journald has a new socket, hotmount
// makes a new connection.
func TestJournaldComesAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	a := &Log{socket: path}
	for round := range 2 {
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		before := a.journald
		for _, said := range []string{"one", "two"} {
			if text := stderr(t, func() { a.Problem(errors.New(said)) }); text != "" {
				t.Errorf("round %d: standard error got %q", round, text)
			}
			if got := read(t, c, 1)[0]; !strings.Contains(got, said) {
				t.Errorf("round %d: journald got %q", round, got)
			}
			if said == "two" && a.journald != before {
				t.Errorf("round %d: each entry made a new connection", round)
			}
			before = a.journald
		}
		if err := errors.Join(c.Close(), os.Remove(path)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestJournaldHasRoom checks that hotmount does not wait while journald has room, even if one connection can hold only
// a few messages.
func TestJournaldHasRoom(t *testing.T) {
	c, full := deaf(t)
	read(t, c, full)
	a := &Log{socket: c.LocalAddr().String()}
	// With the smallest send buffer, the connection is full long before journald's queue is full.
	var err error
	if err = a.connect(); err == nil {
		err = a.journald.SetWriteBuffer(1)
	}
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 1500)
	text := stderr(t, func() {
		within(t, journalPatience, func() {
			for range full {
				a.Problem(errors.New(long))
			}
		})
	})
	if text != "" || a.stuck {
		t.Errorf("standard error got %d bytes", len(text))
	}
	read(t, c, full)
}

// TestLongEntry checks that a long entry is sent as a sealed file (systemd.io/JOURNAL_NATIVE_PROTOCOL).
func TestLongEntry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	long := strings.Repeat("x", 1<<20)
	(&Log{socket: path}).Problem(errors.New(long))
	oob := make([]byte, 1<<10)
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, oobn, _, _, err := c.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil || n != 0 {
		t.Fatalf("%d bytes, error %v", n, err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d messages, error %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		t.Fatalf("descriptors %v, error %v", fds, err)
	}
	file := os.NewFile(uintptr(fds[0]), "entry")
	defer file.Close()
	const all = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if seals, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0); err != nil || seals&all != all {
		t.Errorf("seals %x, error %v", seals, err)
	}
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 2<<20))
	if err != nil || !strings.Contains(string(text), fmt.Sprintf("MESSAGE\n\x00\x00\x10\x00\x00\x00\x00\x00%s\n", long)) {
		t.Errorf("%d bytes, error %v", len(text), err)
	}
}
