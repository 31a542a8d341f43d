package inventory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/store"
)

const (
	uuidA = "aaaaaaaa-0000-4000-8000-000000000001"
	uuidB = "bbbbbbbb-0000-4000-8000-000000000002"
	uuidC = "cccccccc-0000-4000-8000-000000000003"
)

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestStrays(t *testing.T) {
	root := t.TempDir()
	class := filepath.Join(root, "mnt/disks")
	write(t, root, "mnt/disks/"+uuidA+"/volume-file", "on the disk")
	write(t, root, "mnt/disks/"+uuidB+"/lost", "written while nothing was mounted")
	write(t, root, "mnt/disks/."+uuidA+"/"+disk.Marker, "not ours")
	write(t, root, "mnt/disks/."+uuidB+"/kept", "written while it was removed")
	write(t, root, "mnt/disks/file\x1b[2J", "")
	for _, d := range []string{uuidC, "data", "bound", uuidA + "/inner"} {
		if err := os.MkdirAll(filepath.Join(class, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc", filepath.Join(class, "cccccccc-0000-4000-8000-000000000009")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(class, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, root, "proc/1/mountinfo", "24 1 254:1 / / rw shared:1 - ext4 /dev/vda1 rw\n"+
		"90 24 254:16 / /mnt/disks/"+uuidA+" rw shared:55 - xfs /dev/vdb rw\n"+
		"91 90 254:16 /x /mnt/disks/"+uuidA+"/inner rw shared:55 - xfs /dev/vdb rw\n"+
		"92 24 254:1 /srv /mnt/disks/bound rw shared:1 - ext4 /dev/vda1 rw\n"+
		"93 24 254:1 /srv /mnt/disks/data/deep rw shared:1 - ext4 /dev/vda1 rw\n")
	// describeStrays must open no mounted directory, because open(2) may hang forever.
	opened, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(opened)
	if _, err := unix.InotifyAddWatch(opened, filepath.Join(class, uuidA), unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	got, err := Host{Root: root}.describeStrays("/mnt/disks")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Read(opened, make([]byte, 4096)); err != unix.EAGAIN {
		t.Errorf("the mount %s was opened (%d, %v)", uuidA, n, err)
	}
	// Each wanted text has the path of a foreign entry and the reason for the report.
	want := []string{
		"/mnt/disks/bound is mounted in the class directory",
		"/mnt/disks/data/deep is mounted in the class directory",
		"nothing is mounted at /mnt/disks/." + uuidA + ", but the directory has files (for example not-mounted)",
		"nothing is mounted at /mnt/disks/." + uuidB + ", but the directory has files (for example kept)",
		"nothing is mounted at /mnt/disks/" + uuidB + ", but the directory has files (for example lost)",
		"/mnt/disks/cccccccc-0000-4000-8000-000000000009 is a symlink",
		"/mnt/disks/data is a directory that hotmount did not make",
		`/mnt/disks/file\x1b[2J is a file`,
		"/mnt/disks/pipe is a FIFO",
	}
	if len(got) != len(want) {
		t.Fatalf("got:\n%s", strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
	for i, dir := range map[int]string{3: "/mnt/disks/." + uuidB, 4: "/mnt/disks/" + uuidB} {
		if why := got[i]; !strings.HasSuffix(why, "to clear the directory: chattr -i "+dir+" "+dir+"/not-mounted; move the files away; chattr -i "+dir+" "+dir+"/not-mounted; rm -f "+dir+"/not-mounted; rmdir "+dir) {
			t.Errorf("what helps: %q", why)
		}
	}
	if got, err := (Host{Root: root}).describeStrays("/srv/disks"); got != nil || err != nil {
		t.Errorf("missing directory: %q, %v", got, err)
	}
}

// TestMissing checks that Missing lists a missing filesystem until the administrator gives the filesystem up.
func TestMissing(t *testing.T) {
	root := t.TempDir()
	write(t, root, "proc/sys/kernel/random/boot_id", "22222222-0000-4000-8000-000000000000\n")
	h := Host{Root: root, Store: store.Store{State: t.TempDir(), Runtime: t.TempDir()}}
	sighting := func(uuid, boot string, left bool) disk.Sighting {
		return disk.Sighting{Identity: disk.Identity{Boot: boot, Seq: 3, Size: 5 << 30, Serial: "S" + uuid[:1]}, UUID: uuid, Type: "xfs", Mounted: time.Unix(0, 0), Left: left}
	}
	const before = "11111111-0000-4000-8000-000000000000"
	if err := h.Store.Remember([]disk.Sighting{
		sighting(uuidA, before, false), sighting(uuidB, before, false), sighting(uuidC, before, true),
		sighting("dddddddd-0000-4000-8000-000000000004", "22222222-0000-4000-8000-000000000000", false),
		sighting("eeeeeeee-0000-4000-8000-000000000005", before, false),
	}); err != nil {
		t.Fatal(err)
	}
	here := []disk.Facts{
		{Udev: disk.Udev{Initialized: true, FSUsage: "filesystem", FSType: "xfs", FSUUID: uuidA}},
		{Mounts: []disk.MountPoint{{Path: "/mnt/disks/eeeeeeee-0000-4000-8000-000000000005"}}},
	}
	listed := func(want ...string) {
		t.Helper()
		missing, err := h.Missing(here)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range missing {
			got = append(got, m.UUID)
			if what, next := Absence(&m); !strings.Contains(what, m.UUID) || !strings.Contains(what, "serial "+m.Identity.Serial) || !strings.HasSuffix(next, "hotmount forget "+m.UUID) {
				t.Errorf("%q, %q", what, next)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	listed(uuidB)
	was, err := h.Store.Sightings()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Store.GiveUp(uuidB); err != nil {
		t.Fatal(err)
	}
	listed()
	after, err := h.Store.Sightings()
	if err != nil {
		t.Fatal(err)
	}
	// The other records must not change, and their order must not change.
	was[1].Left = true
	if diff := cmp.Diff(was, after); diff != "" {
		t.Error(diff)
	}
}

// TestAbsence checks that Absence names the disk by its serial, or by its WWN if the disk has no serial.
func TestAbsence(t *testing.T) {
	for want, id := range map[string]disk.Identity{
		"on a disk of 0 B with serial S at pci-1, ": {Serial: "S", WWN: "naa.1", Slot: "pci-1"},
		"on a disk of 0 B with WWN naa.1, ":         {WWN: "naa.1"},
		"on a disk of 0 B with no serial, ":         {},
	} {
		if what, _ := Absence(&disk.Sighting{Identity: id}); !strings.Contains(what, want) {
			t.Errorf("%q, want %q", what, want)
		}
	}
}
