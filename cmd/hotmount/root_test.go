//go:build root

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/control"
)

// TestAcceptAsRoot needs root, because the control socket accepts only root.
func TestAcceptAsRoot(t *testing.T) {
	machine(t)
	asked := answering(t, func(_ context.Context, r control.Request) (string, error) {
		if r.Disk != "vdc" {
			return "", fmt.Errorf("cannot accept %s: no disk with this name is known", r.Disk)
		}
		return "vdc is accepted", nil
	})
	for _, test := range []struct {
		arg, disk, out, want string
		code                 int
	}{
		{"vdc", "vdc", "vdc is accepted\n", "", 0},
		{"/dev/vdc", "vdc", "vdc is accepted\n", "", 0},
		{"vdz", "vdz", "", "cannot accept vdz: no disk with this name is known", 1},
		{"/dev/disk/by-id/x", "disk/by-id/x", "", "no disk with this name", 1},
		{"", "", "", "no disk with this name", 1},
	} {
		out, code, err := call(t, "accept", test.arg)
		if code != test.code || out != test.out || (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: code %d, %v, %q", test.arg, code, err, out)
		}
		if diff := cmp.Diff([]control.Request{{Do: "accept", Disk: test.disk}}, asked()); diff != "" {
			t.Errorf("%q: the daemon was asked (-want +got):\n%s", test.arg, diff)
		}
	}
	// If the accept command gets no argument or two disks, the command must fail, and must not call the daemon.
	for _, args := range [][]string{{"accept"}, {"accept", "vdc", "vdd"}} {
		if _, code, _ := call(t, args...); code != 2 || len(asked()) != 0 {
			t.Errorf("%q: code %d", args, code)
		}
	}
}

func TestStateInitBesideADaemon(t *testing.T) {
	h := machine(t)
	if _, code, err := call(t, "state", "init"); code != 0 || err != nil {
		t.Fatalf("code %d, %v", code, err)
	}
	asked := answering(t, func(context.Context, control.Request) (string, error) { return "", nil })
	if out, code, err := call(t, "state", "init"); code != 0 || err != nil || out != "" {
		t.Errorf("with a daemon: code %d, %v, %q", code, err, out)
	}
	if diff := cmp.Diff([]control.Request{{Do: "look"}}, asked()); diff != "" {
		t.Errorf("the daemon was asked (-want +got):\n%s", diff)
	}
	if err := os.RemoveAll(h.Store.State); err != nil {
		t.Fatal(err)
	}
	if out, code, err := call(t, "state", "init"); code != 0 || err != nil || !strings.HasPrefix(out, "the state directory is new; to make the daemon use it: systemctl restart hotmount\n") {
		t.Errorf("a lost state directory, with a daemon: code %d, %v, %q", code, err, out)
	}
}

// TestRunBesideADaemon checks that a second daemon ends before it reads its configuration.
func TestRunBesideADaemon(t *testing.T) {
	machine(t)
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("HOTMOUNT_SETTLE", "no time")
	answering(t, func(context.Context, control.Request) (string, error) { return "", nil })
	if out, code, err := call(t, "run"); code != 1 || err == nil || !strings.HasPrefix(err.Error(), "cannot run: another daemon runs") || out != "" {
		t.Errorf("code %d, %v, %q", code, err, out)
	}
}

func TestRescan(t *testing.T) {
	machine(t)
	if out, code, err := call(t, "rescan"); code != 0 || err != nil || out != "" {
		t.Errorf("without a daemon: code %d, %v, %q", code, err, out)
	}
	asked := answering(t, func(context.Context, control.Request) (string, error) { return "", nil })
	if out, code, err := call(t, "rescan"); code != 0 || err != nil || out != "" {
		t.Errorf("code %d, %v, %q", code, err, out)
	}
	if diff := cmp.Diff([]control.Request{{Do: "look"}}, asked()); diff != "" {
		t.Errorf("the daemon was asked (-want +got):\n%s", diff)
	}
}

// The function `answering` serves the control socket with the given handler until the test ends. The returned function
// lists the requests since its previous call.
func answering(t *testing.T, answer control.Handler) (asked func() []control.Request) {
	t.Helper()
	var mu sync.Mutex
	var all []control.Request
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- control.Serve(ctx, socket, func(ctx context.Context, r control.Request) (string, error) {
			mu.Lock()
			all = append(all, r)
			mu.Unlock()
			return answer(ctx, r)
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for {
		_, err := control.Ask(t.Context(), socket, control.Request{Do: "begin"})
		if !errors.Is(err, control.ErrDown) {
			break
		}
	}
	return func() []control.Request {
		mu.Lock()
		defer mu.Unlock()
		got := all[1:]
		all = all[:1]
		return append([]control.Request(nil), got...)
	}
}
