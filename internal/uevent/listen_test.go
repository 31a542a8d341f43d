package uevent

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

const truncated = unix.MSG_TRUNC

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func credentials(uid uint32) []byte { return unix.UnixCredentials(&unix.Ucred{Pid: 1, Uid: uid}) }

// TestRunStops needs no root, because any user may join udev's group (NL_CFG_F_NONROOT_RECV in the kernel's
// lib/kobject_uevent.c).
func TestRunStops(t *testing.T) {
	l, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	// The timeout is long enough for Run to begin to wait for a frame.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	done := make(chan error)
	go func() { done <- l.Run(ctx, func(Hint) {}) }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("error at the end of the context: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Run does not stop")
	}
	if err := l.socket.Close(); err == nil {
		t.Error("the socket was left open")
	}
}

func TestRunWithEndedContext(t *testing.T) {
	l, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Run(ctx, func(Hint) {}); err != nil {
		t.Error(err)
	}
}
