package uevent

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// murmur2 is MurmurHash2 with seed 0, as in string_hash32 of systemd's device-monitor.c.
func murmur2(s string) uint32 {
	const m = 0x5bd1e995
	h := uint32(len(s))
	for ; len(s) >= 4; s = s[4:] {
		k := binary.LittleEndian.Uint32([]byte(s)) * m
		k ^= k >> 24
		h = h*m ^ k*m
	}
	switch len(s) {
	case 3:
		h ^= uint32(s[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(s[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(s[0])) * m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

func TestHashes(t *testing.T) {
	for s, want := range map[string]uint32{"block": blockHash, "disk": diskHash, "partition": partHash} {
		if got := murmur2(s); got != want {
			t.Errorf("murmur2(%q) = %#x, the code has %#x", s, got, want)
		}
	}
}

// The variable `added` is the output of `udevadm monitor --udev --property` on Debian 12 for a new virtio disk with an
// XFS filesystem. The properties are in udev's order.
var added = []string{
	"ACTION=add",
	"DEVPATH=/devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/block/vdb",
	"SUBSYSTEM=block",
	"DEVNAME=/dev/vdb",
	"DEVTYPE=disk",
	"DISKSEQ=12",
	"SEQNUM=1834",
	"MAJOR=254",
	"MINOR=16",
	"USEC_INITIALIZED=96325531",
	"ID_SERIAL=a-b",
	"ID_PATH=pci-0000:05:00.0",
	"ID_PATH_TAG=pci-0000_05_00_0",
	"ID_FS_UUID=7ab12e3a-d2c2-4b94-a3cf-9a3aa3a4b2d7",
	"ID_FS_UUID_ENC=7ab12e3a-d2c2-4b94-a3cf-9a3aa3a4b2d7",
	"ID_FS_BLOCKSIZE=4096",
	"ID_FS_LASTBLOCK=1310720",
	"ID_FS_SIZE=5368709120",
	"ID_FS_TYPE=xfs",
	"ID_FS_USAGE=filesystem",
	"DEVLINKS=/dev/disk/by-id/virtio-a-b /dev/disk/by-path/pci-0000:05:00.0 /dev/disk/by-path/virtio-pci-0000:05:00.0 /dev/disk/by-diskseq/12 /dev/disk/by-uuid/7ab12e3a-d2c2-4b94-a3cf-9a3aa3a4b2d7",
	"TAGS=:systemd:",
	"CURRENT_TAGS=:systemd:",
}

// build makes a frame as device_monitor_send_device does in systemd's device-monitor.c.
func build(subsystem, devtype string, properties ...string) []byte {
	body := strings.Join(properties, "\x00") + "\x00"
	f := append([]byte(prefix), make([]byte, headerSize-len(prefix))...)
	binary.BigEndian.PutUint32(f[magicOffset:], udevMagic)
	binary.NativeEndian.PutUint32(f[headerSizeAt:], headerSize)
	binary.NativeEndian.PutUint32(f[propertiesAt:], headerSize)
	binary.NativeEndian.PutUint32(f[propertiesLenAt:], uint32(len(body)))
	binary.BigEndian.PutUint32(f[subsystemHashAt:], murmur2(subsystem))
	binary.BigEndian.PutUint32(f[devtypeHashAt:], murmur2(devtype))
	return append(f, body...)
}

func disk(properties ...string) []byte { return build("block", "disk", properties...) }

// change(key, value) returns a frame about vdb with the property key=value. If the value is empty, the frame lacks the
// property.
func change(key, value string) []byte {
	var properties []string
	for _, p := range added {
		if !strings.HasPrefix(p, key+"=") {
			properties = append(properties, p)
		} else if value != "" {
			properties = append(properties, key+"="+value)
		}
	}
	return disk(properties...)
}

func patch(frame []byte, at int, value uint32) []byte {
	binary.NativeEndian.PutUint32(frame[at:], value)
	return frame
}

func TestParse(t *testing.T) {
	longer := append(append([]byte{}, disk(added...)...), "X=Y\x00"...)
	for _, test := range []struct {
		name  string
		frame []byte
		want  Hint
		fail  string
	}{
		{name: "add", frame: disk(added...), want: Hint{Name: "vdb", Seq: 12, Action: "add"}},
		{name: "partition", frame: disk("ACTION=add", "DEVPATH=/devices/x/block/vdb/vdb1", "SUBSYSTEM=block", "DEVTYPE=partition", "DISKSEQ=12"), want: Hint{Name: "vdb1", Action: "add", Partition: true, Whole: "vdb"}},
		{name: "remove", frame: change("ACTION", "remove"), want: Hint{Name: "vdb", Seq: 12, Action: "remove"}},
		{name: "an old kernel", frame: change("DISKSEQ", ""), want: Hint{Name: "vdb", Action: "add"}},
		{name: "a slash in the name", frame: change("DEVPATH", "/devices/x/block/cciss!c0d0"), want: Hint{Name: "cciss!c0d0", Seq: 12, Action: "add"}},
		{name: "bytes behind the properties", frame: longer, want: Hint{Name: "vdb", Seq: 12, Action: "add"}},

		{name: "another type of device", frame: change("DEVTYPE", "scsi_host"), fail: errForeign.Error()},
		{name: "network device", frame: change("SUBSYSTEM", "net"), fail: errForeign.Error()},
		{name: "no device type", frame: change("DEVTYPE", ""), fail: errForeign.Error()},
		{name: "no action", frame: change("ACTION", ""), fail: "action"},
		{name: "an action we do not know", frame: change("ACTION", "\x1b[2Jeat"), fail: `\x1b[2jeat`},
		{name: "no path", frame: change("DEVPATH", ""), fail: "name"},
		{name: "root path", frame: change("DEVPATH", "/"), fail: "name"},
		{name: "dots", frame: change("DEVPATH", "/devices/.."), fail: "name"},
		{name: "a control character in the name", frame: change("DEVPATH", "/block/vd\x1b"), fail: "name"},
		{name: "a space in the name", frame: change("DEVPATH", "/block/vd b"), fail: "name"},
		{name: "a name of the kernel's longest", frame: change("DEVPATH", "/block/"+strings.Repeat("a", 31)), want: Hint{Name: strings.Repeat("a", 31), Seq: 12, Action: "add"}},
		{name: "a longer name", frame: change("DEVPATH", "/block/"+strings.Repeat("a", 32)), fail: "name"},
		{name: "an equals sign in a serial", frame: change("ID_SERIAL", "a=b"), fail: "invalid env data"},
		{name: "a property without an equals sign", frame: disk(append([]string{"NONSENSE"}, added...)...), fail: "invalid env data"},
		{name: "an equals sign in the path", frame: change("DEVPATH", "/block/vd=b"), fail: "invalid env data"},
		{name: "sequence number", frame: change("DISKSEQ", "-1"), fail: "sequence number"},

		{name: "nothing", frame: nil, fail: "too short"},
		{name: "half a header", frame: disk(added...)[:30], fail: "too short"},
		{name: "a header alone", frame: patch(disk()[:40], propertiesLenAt, 0), fail: "too short"},
		{name: "the kernel's", frame: []byte("add@/devices/pci0000:00/0000:00:02.4/block/vdb\x00ACTION=add\x00"), fail: "not a message from udev"},
		{name: "magic", frame: patch(disk(added...), magicOffset, 1), fail: "magic"},
		{name: "short header", frame: patch(disk(added...), headerSizeAt, 39), fail: "do not fit"},
		{name: "offset within the header", frame: patch(disk(added...), propertiesAt, 39), fail: "do not fit"},
		{name: "offset beyond the end", frame: patch(disk(added...), propertiesAt, 1<<20), fail: "do not fit"},
		{name: "offset that wraps around", frame: patch(patch(disk(added...), propertiesAt, 1<<32-1), propertiesLenAt, 2), fail: "do not fit"},
		{name: "length beyond the end", frame: patch(disk(added...), propertiesLenAt, 1<<31), fail: "do not fit"},
		{name: "last property without its end", frame: patch(disk(added...), propertiesLenAt, 100), fail: "does not end with NUL"},
		{name: "nothing of a device", frame: disk("A=B"), fail: "action"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parse(test.frame)
			if test.fail == "" && err != nil {
				t.Fatalf("cannot parse: %v", err)
			}
			if test.fail != "" && (err == nil || !strings.Contains(err.Error(), test.fail)) {
				t.Fatalf("got error %v, want %q", err, test.fail)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("hint (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(disk(added...))
	f.Add(change("ACTION", "remove"))
	f.Add(change("DISKSEQ", "-1"))
	f.Add(disk("A"))
	f.Add(disk("=", "ACTION=", "DEVPATH=="))
	f.Add(patch(disk(added...), propertiesAt, 44))
	f.Add([]byte("add@/devices/block/vdb\x00ACTION=add\x00"))
	f.Add([]byte("libudev\x00"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, err := parse(frame)
		switch {
		case err != nil && h != Hint{}:
			t.Errorf("got %+v and the error %v", h, err)
		case err == nil && (!plausibleName(h.Name) || h.Action == "" || h.Rescan):
			t.Errorf("invalid hint: %+v", h)
		}
		if err != nil && strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
			t.Errorf("control characters in the error %q", err)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	frame := disk(added...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parse(frame); err != nil {
			b.Fatal(err)
		}
	}
}

func TestJudge(t *testing.T) {
	root := credentials(0)
	frame := disk(added...)
	for _, test := range []struct {
		name    string
		message message
		want    *Hint
		counted Counters
	}{
		{"a disk", message{frame: frame, control: root, groups: 2}, &Hint{Name: "vdb", Seq: 12, Action: "add"}, Counters{}},
		{"not from root", message{frame: frame, control: credentials(1000), groups: 2}, nil, Counters{Foreign: 1}},
		{"sender unknown", message{frame: frame, groups: 2}, nil, Counters{Foreign: 1}},
		{"to the kernel's group", message{frame: frame, control: root, groups: 1}, nil, Counters{Foreign: 1}},
		{"to us alone", message{frame: frame, control: root}, nil, Counters{Foreign: 1}},
		{"cut short", message{frame: frame[:50], control: root, groups: 2, flags: truncated}, &Hint{Rescan: true, Cause: "an event was too long to be read"}, Counters{Unreadable: 1}},
		{"cut short and not from root", message{frame: frame, control: credentials(1), groups: 2, flags: truncated}, nil, Counters{Foreign: 1}},
		{"unreadable", message{frame: frame[:50], control: root, groups: 2}, &Hint{Rescan: true, Cause: "an event could not be read: a header of 40 bytes, and properties of 700 bytes at offset 40, do not fit into a message of 50 bytes"}, Counters{Unreadable: 1}},
		{"another type of device", message{frame: change("DEVTYPE", "scsi_host"), control: root, groups: 2}, nil, Counters{Foreign: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var l Listener
			got, ok := l.hintOf(test.message)
			want := Hint{}
			if test.want != nil {
				want = *test.want
			}
			if ok != (test.want != nil) {
				t.Errorf("emitted is %v", ok)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("hint (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.counted, l.Counters()); diff != "" {
				t.Errorf("counters (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRunOnClosedSocket checks that a closed socket is an error and does not cause endless rescans.
func TestRunOnClosedSocket(t *testing.T) {
	l, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	l.socket.Close()
	if err := l.Run(t.Context(), func(h Hint) { t.Errorf("emitted %+v", h) }); err == nil {
		t.Error("no error")
	}
}

// TestParseAllocates bounds the number of allocations for a frame, because go-udev's parser splits each property.
func TestParseAllocates(t *testing.T) {
	frame := disk(added...)
	n := testing.AllocsPerRun(100, func() {
		if _, err := parse(frame); err != nil {
			t.Fatal(err)
		}
	})
	if n > 80 {
		t.Errorf("%v allocations", n)
	}
}
