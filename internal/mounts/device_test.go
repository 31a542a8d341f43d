package mounts

import (
	"strings"
	"testing"

	"hotmount/internal/disk"
)

// TestDeviceUsers checks that DeviceUsers leaves out a process that ends during the call, and a process without an open
// device. TestRealLoops checks a process that uses a disk.
func TestDeviceUsers(t *testing.T) {
	root := t.TempDir()
	process(t, root, "7", map[string]string{"comm": "sh\n", "fd/0": "no device"}, nil)
	process(t, root, "8", map[string]string{"comm": "gone\n"}, nil)
	got, err := DeviceUsers(root, disk.ID{Name: "vdb", Dev: disk.Dev{Major: 254, Minor: 16}})
	if err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestForWriting(t *testing.T) {
	for info, want := range map[string]bool{
		"pos:\t0\nflags:\t0100000\nmnt_id:\t25\n":  false, // O_RDONLY
		"pos:\t0\nflags:\t0100001\nmnt_id:\t25\n":  true,
		"pos:\t0\nflags:\t02100202\nmnt_id:\t25\n": true, // O_RDWR|O_EXCL
		"pos:\t1\nmnt_id:\t2\n":                    false,
		"flags:\t9\n":                              false,
		"":                                         false,
	} {
		if got := forWriting(info); got != want {
			t.Errorf("%q: %v", info, got)
		}
	}
}

func TestIsMonitor(t *testing.T) {
	for name, want := range map[string]bool{
		"qemu-system-x86 ":                  true,
		"guest /usr/bin/qemu-system-x86_64": true,
		"cloud-hyperviso ":                  true,
		"x /opt/bin/cloud-hypervisor":       true,
		"firecracker ":                      true,
		"virt-launcher ":                    true,
		"bash /usr/bin/bash":                false,
		"not-qemu- /usr/bin/x":              false,
		" ":                                 false,
	} {
		root := t.TempDir()
		comm, exe, _ := strings.Cut(name, " ")
		links := map[string]string{}
		if exe != "" {
			links["exe"] = exe
		}
		process(t, root, "7", map[string]string{"comm": comm + "\n"}, links)
		if got := isMonitor(root + "/proc/7"); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
