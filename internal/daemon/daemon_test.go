package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"hotmount/internal/control"
	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/uevent"
)

type looked []string

func (l *looked) Look(name string) { *l = append(*l, name) }
func (l *looked) LookAtAll()       { *l = append(*l, "all") }

// TestLook checks that a hint about one disk causes one look, and that a hint about all disks causes a look at all
// disks. When a partition comes or goes, the daemon must look at the whole disk, even if no class selects partitions.
func TestLook(t *testing.T) {
	var got looked
	requestLooks(&got, uevent.Hint{Name: "vdb"}, true)
	requestLooks(&got, uevent.Hint{Rescan: true}, true)
	for _, action := range []string{"add", "change", "remove"} {
		part := uevent.Hint{Name: "vdc1", Action: action, Partition: true, Whole: "vdc"}
		requestLooks(&got, part, true)
		requestLooks(&got, part, false)
	}
	if want := (looked{"vdb", "all", "vdc1", "vdc", "vdc", "vdc1", "vdc1", "vdc", "vdc"}); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestMayBeDisk checks that device nodes of loop devices wake the daemon only if a class selects loop devices. On many
// nodes, loop devices come and go often.
func TestMayBeDisk(t *testing.T) {
	for name, want := range map[string][2]bool{
		"vdb": {true, true}, "sda1": {true, true}, "nvme0n1p1": {true, true}, "dm-0": {true, true}, "xvdb": {true, true}, "md0": {true, true},
		"loop7": {false, true}, "loop7p1": {false, true}, "sr0": {}, "null": {}, "tty1": {},
	} {
		if got := [2]bool{mayBeDisk(name, false), mayBeDisk(name, true)}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

type told []string

func (a *told) Accept(_ context.Context, name string, seq uint64, shown disk.Reason) (string, error) {
	*a = append(*a, strings.TrimSpace(fmt.Sprint("accept ", name, " ", seq, " ", shown)))
	return "accepted", nil
}

func (a *told) Release(_ context.Context, name string, seq uint64) error {
	*a = append(*a, fmt.Sprint("release ", name, " ", seq))
	return nil
}

func (a *told) Retry(context.Context) error {
	*a = append(*a, "retry")
	return nil
}

func (a *told) LookAt(_ context.Context, seq uint64) error {
	*a = append(*a, fmt.Sprint("look at ", seq))
	return nil
}

func TestAnswer(t *testing.T) {
	var a told
	var answers []string
	for _, do := range []string{"accept", "release", "look", "hint", "format"} {
		text, err := answer(t.Context(), &a, control.Request{Do: do, Disk: "vdb", Seq: 7})
		answers = append(answers, fmt.Sprint(text, err))
	}
	if want := (told{"accept vdb 7", "release vdb 7", "retry", "look at 7"}); !slices.Equal(a, want) {
		t.Errorf("asked %q", a)
	}
	if want := []string{"accepted<nil>", "<nil>", "<nil>", "<nil>", `cannot do "format": this daemon does not know the request`}; !slices.Equal(answers, want) {
		t.Errorf("answered %q", answers)
	}
}

// TestReload checks that the daemon names the present fault of a configuration that was faulty at start. The journal must
// name each fault once. Without a fault at start, the daemon reads the configuration only on a signal.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := filepath.Join(t.TempDir(), "journal")
		var present atomic.Pointer[error]
		var used []string
		d := Daemon{Settings: &disk.Settings{Node: "kept", Fault: "a (and 1 more)"}, Log: loggingTo(t, journal), Load: func() (*disk.Settings, error) {
			if fault := *present.Load(); fault != nil {
				return nil, fault
			}
			return &disk.Settings{Node: "new"}, nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		hup := make(chan os.Signal)
		go d.reloadOn(ctx, hup, func(s *disk.Settings) error {
			used = append(used, s.Node+" "+s.Fault)
			return nil
		})
		for _, fault := range []error{errors.New("a\nb"), errors.New("b"), nil, errors.New("c")} {
			present.Store(&fault)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		hup <- unix.SIGHUP
		synctest.Wait()
		if want := []string{"kept b", "new "}; !slices.Equal(used, want) {
			t.Errorf("used %q, want %q", used, want)
		}
		text, err := os.ReadFile(journal)
		if got := strings.Count(string(text), "cannot reload, and the old settings stay in use: "); err != nil || got != 2 || strings.Count(string(text), "in use: b") != 1 {
			t.Errorf("%s, %v", text, err)
		}
		if d.Settings.Fault != "a (and 1 more)" {
			t.Error("the agent's settings were changed")
		}
	})
}

// TestMountedAt checks that MountedAt returns true only if the given device itself is mounted at the given path.
func TestMountedAt(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc/1"), 0o755); err != nil {
		t.Fatal(err)
	}
	const line = "36 35 254:16 / /mnt/disks/a rw,noatime shared:1 - xfs /dev/vdb rw\n"
	if err := os.WriteFile(filepath.Join(root, "proc/1/mountinfo"), []byte(line), 0o644); err != nil {
		t.Fatal(err)
	}
	n := node{Host: inventory.Host{Root: root}}
	vdb, vdc := disk.Dev{Major: 254, Minor: 16}, disk.Dev{Major: 254, Minor: 32}
	for _, test := range []struct {
		path string
		dev  disk.Dev
		want bool
	}{{"/mnt/disks/a", vdb, true}, {"/mnt/disks/a", vdc, false}, {"/mnt/disks/b", vdb, false}} {
		if got, err := n.MountedAt(test.path, test.dev); err != nil || got != test.want {
			t.Errorf("%s of %s: %v, %v", test.path, test.dev, got, err)
		}
	}
	// If another device is mounted on top, MountedAt must return an error, because umount(8) would unmount that other
	// device.
	if err := os.WriteFile(filepath.Join(root, "proc/1/mountinfo"), []byte(line+"37 36 254:32 / /mnt/disks/a rw - ext4 /dev/vdc rw\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := n.MountedAt("/mnt/disks/a", vdb); err == nil || !got || !strings.Contains(err.Error(), "254:32 is mounted at /mnt/disks/a and hides the filesystem; first: umount /mnt/disks/a") {
		t.Errorf("under another: %v, %v", got, err)
	}
	if got, err := n.MountedAt("/mnt/disks/a", vdc); err != nil || !got {
		t.Errorf("over another: %v, %v", got, err)
	}
	if err := os.Remove(filepath.Join(root, "proc/1/mountinfo")); err != nil {
		t.Fatal(err)
	}
	if _, err := n.MountedAt("/mnt/disks/a", vdb); err == nil {
		t.Error("a mount table that cannot be read is no answer")
	}
}
