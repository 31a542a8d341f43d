package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/metrics"
	"hotmount/internal/nodetest"
	"hotmount/internal/report"
)

// TestFormerDirectories checks that a former class directory stays on record while a mount, mount point or link of
// hotmount is in it. Once the directory contains none of these, hotmount must remove the directory from the record.
func TestFormerDirectories(t *testing.T) {
	const uuid = "0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	h := nodetest.New(t)
	n := node{Host: h, report: report.New(), metrics: metrics.New("x"), partitions: new(atomic.Bool), loops: new(atomic.Bool), driversFault: new(atomic.Value)}
	if _, err := h.Store.Init(nil); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	save := func(names ...string) {
		t.Helper()
		s := &disk.Settings{}
		for _, name := range names {
			s.Classes = append(s.Classes, disk.Class{Directory: at(name)})
		}
		if err := n.saveSettings(s); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, names ...string) {
		t.Helper()
		var want []string
		for _, name := range names {
			want = append(want, at(name))
		}
		got, err := h.Store.Directories()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
		}
	}
	nodetest.Write(t, dir, map[string]string{
		"empty/":              "",
		"foreign/file":        "",
		"foreign/link":        "-> /dev/vdb",
		"foreign/other":       "-> " + disk.LinkDirectory + "/virtio-S",
		"file":                "",
		"leftover/" + uuid:    "",
		"draft/." + uuid:      "",
		"linked/virtio-S":     "-> " + disk.LinkDirectory + "/virtio-S",
		"mounted/":            "",
		"part/":               "",
		"now/" + uuid + "/x/": "",
	})
	const root = "27 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n"
	table := filepath.Join(h.Root, "proc/1/mountinfo")
	nodetest.Write(t, h.Root, map[string]string{"proc/1/mountinfo": root +
		"40 27 254:64 / " + at("mounted/"+uuid) + " rw - xfs /dev/vde rw\n" +
		"41 27 254:64 /x " + at("part/"+uuid) + " rw - xfs /dev/vde rw\n"})
	save("empty", "foreign", "file", "missing", "leftover", "draft", "linked", "mounted", "part", "now")
	save("now", "new")
	check("without their classes", "now", "new", "leftover", "draft", "linked", "mounted")
	save("now")
	check("once more", "now", "leftover", "draft", "linked", "mounted")
	// Once the mounts and leftovers are gone, hotmount must remove their directories from the record.
	nodetest.Write(t, h.Root, map[string]string{"proc/1/mountinfo": root})
	for _, name := range []string{"leftover", "draft", "linked"} {
		if err := os.RemoveAll(at(name)); err != nil {
			t.Fatal(err)
		}
	}
	save("now")
	check("cleaned up", "now")
	// A directory that cannot be read must stay on record, because a mount point of hotmount may be in it.
	barred := strings.Repeat("x", 300) // ENAMETOOLONG
	save("now", "empty", barred)
	save("now", "empty")
	check("with one that cannot be looked at", "now", "empty", barred)
	if err := os.Remove(table); err != nil {
		t.Fatal(err)
	}
	save("now")
	check("without a mount table", "now", "empty", barred)
}

// loggingTo returns a log that writes to the file.
func loggingTo(t *testing.T, file string) *report.Log {
	t.Helper()
	former := os.Stderr
	defer func() { os.Stderr = former }()
	var err error
	if os.Stderr, err = os.Create(file); err != nil {
		t.Fatal(err)
	}
	log, err := report.NewAs("text")
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// TestEndedDriver checks that a look still reports a storage driver after the driver's socket is gone. If hotmount
// repeatedly fails to record the drivers, it must report the error only once.
func TestEndedDriver(t *testing.T) {
	h := nodetest.New(t)
	h.Shared = new(inventory.Shared)
	journal := filepath.Join(t.TempDir(), "journal")
	n := node{Host: h, report: loggingTo(t, journal), driversFault: new(atomic.Value)}
	socket := filepath.Join(h.Root, "var/lib/kubelet/plugins/csi.example.com/csi.sock")
	nodetest.Write(t, h.Root, map[string]string{"var/lib/kubelet/plugins/csi.example.com/": "", "var/lib/kubelet/plugins_registry": "not a directory"})
	if err := syscall.Mknod(socket, syscall.S_IFSOCK|0o600, 0); err != nil {
		t.Fatal(err)
	}
	look := func() (names []string) {
		t.Helper()
		f, err := n.Gather(&disk.Settings{})("vdb")
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Drivers {
			names = append(names, d.Name)
		}
		return names
	}
	look()
	look()
	if text, err := os.ReadFile(journal); err != nil || strings.Count(string(text), "cannot record the storage drivers") != 1 {
		t.Errorf("reported: %s, %v", text, err)
	}
	if _, err := h.Store.Init(nil); err != nil {
		t.Fatal(err)
	}
	look()
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	want := []string{"csi.example.com", "unknown, because /var/lib/kubelet/plugins_registry cannot be read"}
	if diff := cmp.Diff(want, look()); diff != "" {
		t.Errorf("after the driver's end (-want +got):\n%s", diff)
	}
	if got := h.Drivers(); len(got) != 2 {
		t.Errorf("beforehand: %v", got)
	}
	if diff := cmp.Diff(want[:1], h.Store.Drivers()); diff != "" {
		t.Errorf("on record (-want +got):\n%s", diff)
	}
}

// TestRecords checks the records of sightings, and of the reasons to hold, refuse or not mount a disk.
func TestRecords(t *testing.T) {
	h := nodetest.New(t)
	h.Shared = new(inventory.Shared)
	n := node{Host: h, report: report.New(), metrics: metrics.New("x"), partitions: new(atomic.Bool), loops: new(atomic.Bool), driversFault: new(atomic.Value)}
	if _, err := h.Store.Init(nil); err != nil {
		t.Fatal(err)
	}
	s := &disk.Settings{}
	look := func() (disk.Facts, disk.Standing) {
		t.Helper()
		f, err := n.Gather(s)("vdb")
		if err != nil {
			t.Fatal(err)
		}
		return f, f.Standing
	}
	f, _ := look()
	for reason, kept := range map[disk.Reason]func(st *disk.Standing) bool{
		disk.ReasonReleased:  func(st *disk.Standing) bool { return st.Unmounted == disk.ReasonReleased },
		disk.ReasonUnmounted: func(st *disk.Standing) bool { return st.Unmounted == disk.ReasonUnmounted },
		disk.ReasonUsed:      func(st *disk.Standing) bool { return st.Used != nil && st.Used.How == "mounted at /srv" },
		disk.ReasonTwin:      func(st *disk.Standing) bool { return st.Twin },
		disk.ReasonBrake:     func(st *disk.Standing) bool { return st.Braked },
	} {
		if _, st := look(); kept(&st) {
			t.Errorf("%s is kept before", reason)
		}
		if err := n.RecordHold(&f, reason, "mounted at /srv"); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
		if _, st := look(); !kept(&st) {
			t.Errorf("%s is not kept: %+v", reason, st)
		}
		if err := n.RecordHold(&f, "", ""); err != nil {
			t.Error(err)
		}
	}
	if _, st := look(); st.Unmounted != "" || !st.Twin {
		t.Errorf("after it may be mounted again: %+v", st)
	}
	if err := n.Accept(&f, disk.Word{Reason: disk.ReasonTwin}); err != nil {
		t.Error(err)
	}
	if _, st := look(); st.Twin {
		t.Error("it is a twin after the accept")
	}
	const uuid = "0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	if err := n.Expect(disk.Sighting{Identity: f.Identity(""), UUID: uuid, Type: disk.XFS, Left: true}, "vdx"); err != nil {
		t.Error(err)
	}
	noted := disk.Sighting{Identity: f.Identity(""), UUID: uuid, Type: disk.XFS}
	if err := n.Remember(false, []disk.Sighting{noted}); err != nil {
		t.Error(err)
	}
	seen, err := h.Store.Sightings()
	contents, notedErr := h.Store.NotedSightings()
	if err != nil || notedErr != nil || len(seen) != 0 || len(contents) != 1 || contents[0].Identity.Boot != nodetest.BootID {
		t.Errorf("noted alone: %+v, %v, %+v, %v", seen, err, contents, notedErr)
	}
	if err := n.Remember(true, nil); err != nil {
		t.Error(err)
	}
	if seen, err = h.Store.Sightings(); err != nil || len(seen) != 1 || seen[0].Identity.Boot != nodetest.BootID || seen[0].Newest != 1032 {
		t.Errorf("what left: %+v, %v", seen, err)
	}
}
