//go:build root

package uevent

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// sender opens a socket that sends to udev's group. Sending to udev's group needs CAP_NET_ADMIN.
func sender(t *testing.T) func(frame []byte, uid uint32) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	group := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: udevGroup}
	return func(frame []byte, uid uint32) {
		t.Helper()
		// Root may claim any uid in the credentials of a message (CAP_SETUID). The receiver gets the claimed uid as if
		// a process with that uid had sent the message.
		err := unix.Sendmsg(fd, frame, unix.UnixCredentials(&unix.Ucred{Pid: int32(unix.Getpid()), Uid: uid}), group, 0)
		if err != nil {
			t.Fatalf("cannot send to udev's group (this needs root): %v", err)
		}
	}
}

// collect runs the listener until the listener emits a hint about the named disk, and returns all earlier hints.
func collect(t *testing.T, l *Listener, last string) []Hint {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []Hint
	err := l.Run(ctx, func(h Hint) {
		if h.Name == last {
			cancel()
			return
		}
		got = append(got, h)
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func end() []byte { return change("DEVPATH", "/devices/virtual/block/end-of-test") }

func TestReceive(t *testing.T) {
	send := sender(t)
	l, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	partition := []string{"ACTION=add", "DEVPATH=/devices/x/block/vdb/vdb1", "SUBSYSTEM=block", "DEVTYPE=partition"}
	send(disk(added...), 0)
	send(build("net", "", "ACTION=add", "DEVPATH=/devices/virtual/net/veth0", "SUBSYSTEM=net"), 0)
	send(build("block", "partition", partition...), 0)
	send(build("block", "bdi", "ACTION=add", "DEVPATH=/devices/x/block/vdc", "SUBSYSTEM=block", "DEVTYPE=bdi"), 0)
	send([]byte("add@/devices/virtual/net/veth0\x00ACTION=add\x00"), 0)
	send(disk(added...)[:20], 0)
	send(disk(added...), 65534)
	send(disk("A=B"), 0)
	send(append(disk(added...), make([]byte, maxFrame)...), 0)
	send(end(), 0)
	want := []Hint{
		{Name: "vdb", Seq: 12, Action: "add"},
		{Name: "vdb1", Action: "add", Partition: true, Whole: "vdb"},
		{Rescan: true, Cause: `an event could not be read: "unknow kobject action (got: )"`},
		{Rescan: true, Cause: "an event was too long to be read"},
	}
	if diff := cmp.Diff(want, collect(t, l, "end-of-test")); diff != "" {
		t.Errorf("hints (-want +got):\n%s", diff)
	}
	// The kernel passed six frames on to the listener. The filter dropped four frames, which never woke the listener.
	if diff := cmp.Diff(Counters{Frames: 6, Foreign: 1, Unreadable: 2}, l.Counters()); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
}

func TestOverrun(t *testing.T) {
	send := sender(t)
	l, err := listen(1)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		send(disk(added...), 0)
	}
	var before, after, rescans int
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = l.Run(ctx, func(h Hint) {
		switch {
		case h.Rescan:
			rescans++
			send(end(), 0)
		case h.Name == "end-of-test":
			cancel()
		case rescans < 2:
			before++
		default:
			after++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if before == 0 || before >= 100 || after != 0 {
		t.Errorf("%d of 100 hints came before the second rescan, %d after it", before, after)
	}
	// The kernel silently dropped the frame that was sent at the first rescan. The second rescan makes up for the
	// dropped frame.
	if got := l.Counters(); rescans != 2 || got.Overruns != 1 {
		t.Errorf("%d rescans, counters %+v", rescans, got)
	}
}
