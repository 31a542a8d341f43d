package helper

import (
	"bufio"
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"hotmount/internal/nodetest"
)

// TestTakeBack runs TakeBack twice for one link, and checks that the daemon gets only one request to look at the disk.
// If the daemon is down, TakeBack must not fail.
func TestTakeBack(t *testing.T) {
	h := nodetest.New(t)
	f, err := h.Look("vdb")
	if err == nil {
		_, err = h.Store.Init(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	give := func() {
		t.Helper()
		if err := h.Store.GiveOut(&f, "boot", "raw", filepath.Join(t.TempDir(), "gone", "virtio-A")); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(t.TempDir(), "s")
	give()
	if err := TakeBack(t.Context(), h, f.Seq, socket); err != nil {
		t.Errorf("without a daemon: %v", err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	heard := make(chan string, 2)
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			line, _ := bufio.NewReader(c).ReadString('\n')
			heard <- line
			_, _ = c.Write([]byte("{}\n"))
			c.Close()
		}
	}()
	give()
	for range 2 { // systemd runs TakeBack first as ExecStop=, then as ExecStopPost=
		if err := TakeBack(t.Context(), h, f.Seq, socket); err != nil {
			t.Error(err)
		}
	}
	if got := <-heard; got != fmt.Sprintf(`{"do":"hint","disk":"","seq":%d}`+"\n", f.Seq) || len(heard) != 0 {
		t.Errorf("the daemon hears %q, and then %d more", got, len(heard))
	}
}
