package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func serving(t *testing.T, handle Handler) (path string) {
	path = filepath.Join(t.TempDir(), "s")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, path, handle) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	// A connection succeeds as soon as Serve listens on the socket.
	for {
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
			return path
		}
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ECONNREFUSED) {
			t.Fatal(err)
		}
	}
}

func TestAsk(t *testing.T) {
	path := serving(t, func(_ context.Context, r Request) (string, error) {
		if r.Disk == "vdz" {
			return "", errors.New("no such disk")
		}
		return r.Do + " " + r.Disk, nil
	})
	if os.Geteuid() != 0 {
		_, err := Ask(t.Context(), path, Request{Do: "accept", Disk: "vdb"})
		if err == nil || !strings.Contains(err.Error(), "only root") {
			t.Fatalf("as uid %d: %v", os.Geteuid(), err)
		}
		return
	}
	got, err := Ask(t.Context(), path, Request{Do: "accept", Disk: "vdb"})
	if err != nil || got != "accept vdb" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := Ask(t.Context(), path, Request{Do: "accept", Disk: "vdz"}); err == nil || err.Error() != "no such disk" {
		t.Errorf("got %v", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestTheAnswerThatThereIsNone checks that a waiting client gets an error if the daemon ends before it can answer. If
// the client's own context ends, Ask must return an error at once.
func TestTheAnswerThatThereIsNone(t *testing.T) {
	if os.Geteuid() != 0 {
		return // without root no request reaches the handler (TestAsk)
	}
	asked := make(chan struct{}, 2)
	path := filepath.Join(t.TempDir(), "s")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, path, func(ctx context.Context, _ Request) (string, error) {
			asked <- struct{}{}
			<-ctx.Done()
			return "", errors.New("cannot wait for it")
		})
	}()
	for {
		if c, err := net.Dial("unix", path); err == nil {
			c.Close()
			break
		}
	}
	impatient, leave := context.WithCancel(t.Context())
	answers := make(chan error, 2)
	go func() { _, err := Ask(impatient, path, Request{Do: "release"}); answers <- err }()
	<-asked
	leave()
	if err := <-answers; err == nil || strings.Contains(err.Error(), "cannot wait for it") {
		t.Errorf("who has left: %v", err)
	}
	go func() { _, err := Ask(t.Context(), path, Request{Do: "release"}); answers <- err }()
	<-asked
	stop()
	if err := <-answers; err == nil || err.Error() != "cannot wait for it" {
		t.Errorf("who waits: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestRubbish(t *testing.T) {
	path := serving(t, func(context.Context, Request) (string, error) { return "", errors.New("was asked") })
	for _, rubbish := range []string{"\n", "{\n", strings.Repeat("x", 3*maxRequest)} {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		// The daemon may close the connection before the whole request is written.
		_, _ = c.Write([]byte(rubbish))
		var b [4096]byte
		n, _ := c.Read(b[:])
		if strings.Contains(string(b[:n]), "was asked") {
			t.Errorf("%q was taken for a request", rubbish)
		}
		c.Close()
	}
}

func FuzzReadRequest(f *testing.F) {
	f.Add([]byte(`{"do":"accept","disk":"vdb"}` + "\n"))
	f.Add([]byte(`{"do":"look"}` + "\n" + `{"do":"accept","disk":"vdc"}` + "\n"))
	f.Add([]byte(`{"do":"accept"`))
	f.Add([]byte("null\n[]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := readRequest(bytes.NewReader(data))
		line, _, ended := bytes.Cut(data, []byte("\n"))
		switch whole := ended && len(line) < maxRequest && json.Valid(line); {
		case err != nil && r != Request{}:
			t.Errorf("%+v beside the error %v", r, err)
		case err == nil && !whole:
			t.Errorf("%+v of what is no request", r)
		case err == nil && (len(r.Do) > 3*len(line) || len(r.Disk) > 3*len(line)):
			t.Errorf("%+v is more than was said", r)
		}
	})
}

func TestNoDaemon(t *testing.T) {
	if _, err := Ask(t.Context(), filepath.Join(t.TempDir(), "s"), Request{}); !errors.Is(err, ErrDown) {
		t.Errorf("got %v, want ErrDown", err)
	}
}
