package helper

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
	"hotmount/internal/nodetest"
)

func TestOpener(t *testing.T) {
	var (
		qemu    = mounts.User{PID: 7, Command: "qemu-system-x86", Machine: true}
		dd      = mounts.User{PID: 8, Command: "dd", Writes: true, Unit: "session-1.scope"}
		reader  = mounts.User{PID: 9, Command: "smartd", Unit: "smartd.service"}
		udevd   = mounts.User{PID: 10, Command: "(udev-worker)", Writes: true, Unit: "udev"}
		older   = mounts.User{PID: 11, Command: "systemd-udevd", Writes: true, Unit: "systemd-udevd.service"}
		own     = mounts.User{PID: 12, Command: "sleep", Writes: true, Unit: "hotmount-block@12.service"}
		failure = errors.New("no")
	)
	for name, test := range map[string]struct {
		first, second []mounts.User
		err           error
		want          *disk.Opener
		waits         bool
	}{
		"nobody":                             {},
		"a monitor":                          {first: []mounts.User{reader, qemu}, want: &disk.Opener{PID: 7, Command: "qemu-system-x86", Machine: true}},
		"a writer, twice":                    {first: []mounts.User{dd}, second: []mounts.User{reader, dd}, want: &disk.Opener{PID: 8, Command: "dd"}, waits: true},
		"a writer, once":                     {first: []mounts.User{dd}, waits: true},
		"a writer, and then another":         {first: []mounts.User{dd}, second: []mounts.User{{PID: 13, Writes: true}}, waits: true},
		"a writer that reads afterwards":     {first: []mounts.User{dd}, second: []mounts.User{{PID: 8, Command: "dd"}}, waits: true},
		"a monitor that comes meanwhile":     {first: []mounts.User{dd}, second: []mounts.User{qemu}, want: &disk.Opener{PID: 7, Command: "qemu-system-x86", Machine: true}, waits: true},
		"readers, udev and hotmount":         {first: []mounts.User{reader, udevd, older, own}},
		"nobody can tell":                    {err: failure},
		"a writer, and then nobody can tell": {first: []mounts.User{dd}, err: failure, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, looks := time.Now(), 0
				got, err := opener(t.Context(), func() ([]mounts.User, error) {
					looks++
					if looks == 1 && test.waits {
						return test.first, nil
					}
					if looks == 1 {
						return test.first, test.err
					}
					return test.second, test.err
				})
				if diff := cmp.Diff(test.want, got); diff != "" || !errors.Is(err, test.err) {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
				if waited := time.Since(begun) >= openAgain; waited != test.waits {
					t.Errorf("it took %s", time.Since(begun))
				}
			})
		})
	}
}

func TestOpenerEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	by, err := opener(ctx, func() ([]mounts.User, error) { return []mounts.User{{PID: 8, Writes: true}}, nil })
	if by != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", by, err)
	}
}

// TestMonitorIsRecorded checks that hotmount does not format a disk that another process has open. If the process is a
// virtual machine monitor, or has the disk mounted in its mount namespace, hotmount must record the use of the disk. In
// every other case, hotmount must record nothing.
func TestMonitorIsRecorded(t *testing.T) {
	for name, test := range map[string]struct {
		by       *disk.Opener
		recorded bool
	}{
		"a monitor":  {&disk.Opener{PID: 7, Command: "qemu-system-x86", Machine: true}, true},
		"a writer":   {&disk.Opener{PID: 8, Command: "dd"}, false},
		"a mount":    {&disk.Opener{PID: 8, Command: "pod", How: "mounted at /srv in its mount namespace"}, true},
		"no process": {&disk.Opener{How: "mounted or being mounted according to the kernel, but in no mount table that hotmount can read"}, false},
		"nobody":     {},
	} {
		h := nodetest.New(t)
		f, err := h.Look("vdc")
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Store.SaveOpener(f.Seq, test.by); err != nil {
			t.Fatal(err)
		}
		m := &making{job: &job{host: h, facts: &f}}
		err = m.checkOpener()
		if (err != nil) != (test.by != nil) || err != nil && !strings.Contains(err.Error(), "cannot format vdc: it is "+test.by.String()) {
			t.Errorf("%s: %v", name, err)
		}
		f, err = h.Look("vdc")
		if used := f.Standing.Used; err != nil || (used != nil) != test.recorded || used != nil && used.How != test.by.String() {
			t.Errorf("%s: the record is %+v, %v", name, used, err)
		}
	}
	m := &making{job: &job{host: nodetest.New(t), facts: &disk.Facts{ID: disk.ID{Name: "vdc", Seq: 9}}}}
	if err := m.checkOpener(); err == nil {
		t.Error("a search without a result counts as no opener")
	}
}

// TestMounter checks the result of the function `mounter`: the process that has a disk mounted in another mount
// namespace. The function must ignore two things: hotmount's own units, and each mount in the host's mount table.
func TestMounter(t *testing.T) {
	const of = "60 1 254:32 / /srv rw - xfs /dev/vdc rw\n"
	pod := map[string]string{"sys/fs/xfs/vdc/": "", "proc/1/ns/mnt": "-> mnt:[1]", "proc/7/comm": "pod\n", "proc/7/ns/mnt": "-> mnt:[2]", "proc/7/mountinfo": of}
	for name, test := range map[string]struct {
		files map[string]string
		want  *disk.Opener
	}{
		"a pod":                   {nil, &disk.Opener{PID: 7, Command: "pod", How: "mounted at /srv in its mount namespace"}},
		"hotmount grows it":       {map[string]string{"proc/7/cgroup": "0::/system.slice/hotmount-stage@12.service\n"}, nil},
		"a pod beside hotmount":   {map[string]string{"proc/6/comm": "hotmount\n", "proc/6/ns/mnt": "-> mnt:[3]", "proc/6/mountinfo": of, "proc/6/cgroup": "0::/system.slice/hotmount-stage@12.service\n"}, &disk.Opener{PID: 7, Command: "pod", How: "mounted at /srv in its mount namespace"}},
		"mounted on the host now": {map[string]string{"proc/1/mountinfo": "27 1 254:0 / / rw - ext4 /dev/vda rw\n" + of}, nil},
		"another disk":            {map[string]string{"proc/7/mountinfo": "60 1 254:16 / /srv rw - xfs /dev/vdb rw\n"}, &disk.Opener{How: "mounted or being mounted according to the kernel, but in no mount table that hotmount can read"}},
	} {
		h := nodetest.New(t)
		nodetest.Write(t, h.Root, pod)
		nodetest.Write(t, h.Root, test.files)
		f, err := h.Look("vdc")
		if err != nil {
			t.Fatal(err)
		}
		got, err := mounter(h, &f)
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}
