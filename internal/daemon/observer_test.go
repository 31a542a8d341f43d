package daemon

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/agent"
	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/metrics"
	"hotmount/internal/mounts"
	"hotmount/internal/report"
	"hotmount/internal/store"
	"hotmount/internal/usage"
)

func observing(t *testing.T) observer {
	log, err := report.NewAs("text")
	if err != nil {
		t.Fatal(err)
	}
	return observer{log, report.NewBoard(nil), metrics.New("test"), new(sync.Mutex), inventory.Host{Store: store.Store{Runtime: t.TempDir()}}, new(time.Time)}
}

// The function `decide` reports a decision about a disk only to the observer's board, and not to the journal.
func decide(o observer, name string) {
	f := &disk.Facts{ID: disk.ID{Name: name, Seq: 7}}
	o.board.Report(disk.Event{Kind: disk.EventDecided, Facts: f, Content: &disk.Content{Kind: disk.Unknown}, Settings: &disk.Settings{}, Decision: disk.Decision{Action: disk.Refuse, Reason: disk.ReasonUnknown}})
}

// TestReadyComesAfterTheStatus checks that the status of all disks is published before READY is sent.
func TestReadyComesAfterTheStatus(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	o := observing(t)
	decide(o, "vdb")
	seen := make(chan int, 1)
	go func() {
		b := make([]byte, 100)
		if n, err := c.Read(b); err != nil || string(b[:n]) != "READY=1" {
			t.Errorf("notified of %q, error %v", b[:n], err)
		}
		lines, err := o.host.Store.Published()
		if err != nil {
			t.Error(err)
		}
		seen <- len(lines)
	}()
	o.Notify(agent.Ready)
	if n := <-seen; n != 1 {
		t.Errorf("the status has %d disks", n)
	}
}

// TestMeasured checks that the metrics omit the size at a path, if this process sees another filesystem at the path.
func TestMeasured(t *testing.T) {
	at := map[string]metrics.Filesystem{"/a": {UUID: "a"}, "/b": {UUID: "b"}, "/c": {UUID: "c"}, "/d": {UUID: "d"}}
	dev := func(minor uint32) disk.Dev { return disk.Dev{Major: 254, Minor: minor} }
	tree := []mounts.Mount{
		{ID: 1, MountPoint: disk.MountPoint{Path: "/", Dev: dev(1)}},
		{ID: 2, Parent: 1, MountPoint: disk.MountPoint{Path: "/a", Dev: dev(16)}},
		{ID: 3, Parent: 1, MountPoint: disk.MountPoint{Path: "/b", Dev: dev(32)}},
		{ID: 4, Parent: 1, MountPoint: disk.MountPoint{Path: "/c", Dev: dev(48)}},
	}
	sizes := map[string]usage.Space{"/a": {Size: 7, Free: 6, Available: 5, Inodes: 4, FreeInodes: 3, Dev: dev(16)}, "/b": {Size: 9, Dev: dev(1)}, "/c": {Dev: dev(48)}}
	want := []metrics.Filesystem{{UUID: "a", Size: 7, Free: 6, Available: 5, Inodes: 4, FreeInodes: 3}}
	if diff := cmp.Diff(want, measured(tree, []string{"/a", "/b", "/c", "/d"}, at, sizes)); diff != "" {
		t.Error(diff)
	}
}

// TestNamesDoubtTheMountTable checks that a look at every disk reads the mount table again, even if the kernel has
// reported no change.
func TestNamesDoubtTheMountTable(t *testing.T) {
	last := func(n node) *mounts.Mount {
		table, err := n.Mounts()
		if err != nil {
			t.Fatal(err)
		}
		return &table[0]
	}
	// Other processes may mount something while the test runs, so the test repeats the check 100 times.
	kept, anew := false, false
	for range 100 {
		n := node{Host: inventory.Host{Shared: new(inventory.Shared)}, metrics: metrics.New("test")}
		last(n)
		before := last(n)
		if last(n) != before {
			continue
		}
		kept = true
		if _, err := n.Names(&disk.Settings{}); err != nil {
			t.Fatal(err)
		}
		now := last(n)
		anew = anew || now != before && last(n) == now
	}
	if !kept || !anew {
		t.Errorf("it is kept: %v, and read anew: %v", kept, anew)
	}
}

// TestStatusIsPublishedTogether checks that one write publishes several changes. A write waits until publishAfter has
// passed since the first change, and publishEvery since the last write. If the daemon ends during the wait, the changes
// are still published.
func TestStatusIsPublishedTogether(t *testing.T) {
	o := observing(t)
	synctest.Test(t, func(t *testing.T) {
		o.board = report.NewBoard(nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- o.publish(ctx, "") }()
		check := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			lines, err := o.host.Store.Published()
			if err != nil || len(lines) != want {
				t.Errorf("%s: %d disks, error %v, want %d", when, len(lines), err, want)
			}
		}
		decide(o, "vdb")
		check("at once", 0)
		time.Sleep(publishAfter / 2)
		decide(o, "vdc")
		check("soon", 0)
		time.Sleep(publishAfter/2 + time.Millisecond)
		check("then", 2)
		decide(o, "vdd")
		time.Sleep(publishEvery - 2*time.Millisecond)
		check("soon after that", 2)
		time.Sleep(2 * time.Millisecond)
		check("then", 3)
		time.Sleep(publishEvery)
		decide(o, "vde")
		time.Sleep(publishAfter + time.Millisecond)
		check("much later", 4)
		decide(o, "vdf")
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		check("at the end", 5)
	})
}
