package store

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
)

const uuid = "5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f"

func newStore(t *testing.T) Store {
	dir := t.TempDir()
	return Store{State: filepath.Join(dir, "lib"), Runtime: filepath.Join(dir, "run")}
}

func made(t *testing.T, present ...disk.Identity) Store {
	t.Helper()
	s := newStore(t)
	if ok, err := s.Init(present); !ok || err != nil {
		t.Fatalf("Init: %v, %v", ok, err)
	}
	if err := os.Mkdir(s.Runtime, 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

func facts(name string, seq uint64, serial string) *disk.Facts {
	return &disk.Facts{ID: disk.ID{Name: name, Seq: seq}, Serial: serial, Slot: "pci-" + name, Size: 5 << 30}
}

func standing(s Store, f *disk.Facts, boot string) disk.Standing {
	m := s.Load(boot, nil)
	return m.Standing(f)
}

func TestALostStoreFormatsNothing(t *testing.T) {
	s := newStore(t)
	if got := standing(s, facts("vdb", 1, ""), "b"); !strings.Contains(got.Formatting, "not initialised") {
		t.Errorf("without a store: %+v", got)
	}
	for name, content := range map[string]string{"newer": `{"version": 2}`, "cut": `{"version": 1, "pres`, "empty": ""} {
		s := made(t)
		if err := os.WriteFile(s.stateFile(), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := standing(s, facts("vdb", 1, ""), "b"); got.Formatting == "" {
			t.Errorf("%s: may be formatted", name)
		}
		if ok, err := s.Init(nil); ok || err == nil {
			t.Errorf("%s: Init replaced it: %v, %v", name, ok, err)
		}
	}
	s = made(t)
	if err := os.MkdirAll(s.intentDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.intentDir(), uuid+".json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := standing(s, facts("vdb", 1, ""), "b"); got.Formatting == "" {
		t.Error("with an unreadable intent: may be formatted")
	}
	// An intent that cannot be read must not hide the other intents.
	broken, other := facts("vdb", 1, ""), facts("vdc", 2, "S")
	broken.Udev = disk.Udev{Initialized: true, FSUUID: uuid, FSType: "xfs", FSUsage: "filesystem"}
	intent := disk.Intent{UUID: "11111111-2222-4333-8444-555555555555", Identity: other.Identity("b"), Doubt: "somebody was at work"}
	if err := s.saveIntent(intent); err != nil {
		t.Fatal(err)
	}
	if got := standing(s, broken, "b"); got.Intent == nil || got.Intent.Doubt == "" || got.Formatting == "" {
		t.Errorf("what the unreadable one made: %+v", got)
	}
	if got := standing(s, other, "b"); got.Intent == nil || got.Intent.UUID != intent.UUID {
		t.Errorf("beside an unreadable one: %+v", got)
	}
	if got := standing(s, facts("vdd", 3, "T"), "b"); got.Intent != nil {
		t.Errorf("a third disk has %+v", got.Intent)
	}
	if err := s.RecordLeft(uuid); err == nil {
		t.Error("an unreadable intent was overwritten")
	}
}

// TestRemedyOfADamagedFile checks that the command in the message about an unreadable file repairs the file.
func TestRemedyOfADamagedFile(t *testing.T) {
	s := made(t)
	if err := os.MkdirAll(s.intentDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	const again = "hotmount rescan"
	intent := filepath.Join(s.intentDir(), uuid+".json")
	for path, next := range map[string]string{
		s.stateFile():     "hotmount state init",
		s.sightingsFile(): again, s.notedFile(): again, s.historyFile(): again,
		intent:        "hotmount rescan",
		s.givenFile(): "",
	} {
		if err := os.WriteFile(path, []byte("{\n{\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		said := standing(s, facts("vdb", 1, ""), "b").Formatting
		why, helps, _ := strings.Cut(said, disk.Helps)
		if want := "mv " + path + " " + path + ".bad && " + next; !strings.Contains(why, path) || next != "" && !strings.HasSuffix(helps, want) || next == "" && !strings.HasSuffix(helps, "restore the file from a backup, then: hotmount rescan") {
			t.Errorf("%s: %q", path, said)
		}
		if err := os.Rename(path, path+".bad"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Init(nil); err != nil {
			t.Error(err)
		}
		if said := standing(s, facts("vdb", 1, ""), "b").Formatting; said != "" {
			t.Errorf("%s: moved away: %q", path, said)
		}
	}
	if err := os.WriteFile(s.stateFile(), []byte(`{"version": 9}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = "the file has version 9, but this hotmount knows version 1; what helps: install the version that wrote the file; to see which versions were installed: zgrep -h 'installed hotmount:' /var/log/dpkg.log*"
	if said := standing(s, facts("vdb", 1, ""), "b").Formatting; said != "cannot use "+s.stateFile()+": "+want {
		t.Errorf("of another version: %q", said)
	}
}

func TestPresentUntilAccepted(t *testing.T) {
	serial, slot := facts("vdb", 2, "S1"), facts("vdc", 3, "")
	s := made(t, serial.Identity("boot1"), slot.Identity("boot1"))
	if ok, err := s.Init(nil); ok || err != nil {
		t.Fatalf("a second Init: %v, %v", ok, err)
	}
	moved := facts("vdx", 7, "S1")
	other := facts("vdd", 3, "")
	other.Slot = "pci-vde"
	resized := func(f *disk.Facts) *disk.Facts { f.Size *= 2; return f }
	unplaced := facts("dm-1", 9, "")
	unplaced.Slot = ""
	for _, tt := range []struct {
		name string
		f    *disk.Facts
		boot string
		want bool
	}{
		{"the same attachment", serial, "boot1", true},
		{"the same attachment, resized", resized(facts("vdc", 3, "")), "boot1", true},
		{"the same serial, attached anew in this boot", moved, "boot1", false},
		{"the same slot, attached anew in this boot", facts("vdc", 8, ""), "boot1", false},
		{"the same serial in another slot after a reboot", moved, "boot2", true},
		{"the same serial in another slot, resized", resized(facts("vdx", 7, "S1")), "boot2", true},
		{"the same slot after a reboot", facts("vdc", 8, ""), "boot2", true},
		{"the same slot, resized", resized(facts("vdc", 9, "")), "boot2", true},
		{"the same slot, with a serial by now", facts("vdc", 9, "S3"), "boot2", true},
		{"the same slot, without its serial", facts("vdb", 9, ""), "boot2", true},
		{"the same slot, another serial", facts("vdb", 9, "S3"), "boot2", false},
		{"another slot after a reboot, the same number", other, "boot2", false},
		{"no slot, no serial", unplaced, "boot2", false},
	} {
		if got := standing(s, tt.f, tt.boot).Present != nil; got != tt.want {
			t.Errorf("%s: present %v, want %v", tt.name, got, tt.want)
		}
	}
	if err := s.Accept(resized(facts("vdc", 9, "S3")), "boot2", disk.Word{Reason: disk.ReasonPresent}); err != nil {
		t.Fatal(err)
	}
	if standing(s, facts("vdc", 8, ""), "boot3").Present != nil || standing(s, moved, "boot3").Present == nil {
		t.Error("accept of a disk that has changed did not last, or took another off the list")
	}
	s = made(t, serial.Identity("boot1"), slot.Identity("boot1"))
	if err := s.Accept(serial, "boot1", disk.Word{Reason: disk.ReasonPresent}); err != nil {
		t.Fatal(err)
	}
	if got := standing(s, serial, "boot1"); got.Present != nil || len(got.Accepted) != 1 {
		t.Errorf("after accept: %+v", got)
	}
	if standing(s, slot, "boot1").Present == nil || standing(s, moved, "boot2").Present != nil {
		t.Error("accept took the wrong disk off the list, or did not last over a reboot")
	}
	if err := s.Forget(serial.Seq); err != nil {
		t.Fatal(err)
	}
	if standing(s, serial, "boot1").Accepted != nil {
		t.Error("accepted after the attachment was forgotten")
	}
}

// TestAWordIsForOneDisk checks an accept for one of several disks with the same serial. virtio can make serials equal,
// because virtio truncates serials to 20 characters. Accept must remove only the accepted disk from the list of the
// disks that were present at the installation.
func TestAWordIsForOneDisk(t *testing.T) {
	one, two := facts("vdb", 2, "S1"), facts("vdc", 3, "S1")
	two.Slot = "pci-2"
	s := made(t, one.Identity("boot1"), two.Identity("boot1"))
	two.SameSerial = []disk.Peer{{ID: one.ID, Serial: "S1"}}
	if err := s.Accept(two, "boot2", disk.Word{Reason: disk.ReasonPresent}); err != nil {
		t.Fatal(err)
	}
	if p := standing(s, one, "boot2").Present; p == nil || p.Slot != one.Slot {
		t.Errorf("the other is not held any more: %+v", p)
	}
	if st, err := s.load(); err != nil || len(st.Present) != 1 {
		t.Errorf("%+v, error %v", st.Present, err)
	}
}

// TestAWordIsForWhatWasTold checks that an accept ends only a hold for the same reason. Several accepts for one disk
// must be valid at the same time. An accept that an older version of hotmount recorded must end no hold.
func TestAWordIsForWhatWasTold(t *testing.T) {
	f := facts("vdb", 2, "S1")
	f.Udev = disk.Udev{Initialized: true, FSUsage: "filesystem", FSType: "xfs", FSUUID: uuid}
	words := []disk.Word{{Reason: disk.ReasonPresent}, {Reason: disk.ReasonBrake}, {Reason: disk.ReasonTwin, UUID: uuid}, {Reason: disk.ReasonFormerSerial, UUID: uuid}}
	s := made(t, f.Identity("boot1"))
	for _, r := range []disk.Reason{disk.ReasonBrake, disk.ReasonTwin} {
		if err := s.RecordHold(f, "boot1", r); err != nil {
			t.Fatal(err)
		}
	}
	kept := func() (all []disk.Reason) {
		for r, is := range map[disk.Reason]bool{disk.ReasonPresent: standing(s, f, "boot1").Present != nil, disk.ReasonBrake: standing(s, f, "boot1").Braked, disk.ReasonTwin: standing(s, f, "boot1").Twin} {
			if is {
				all = append(all, r)
			}
		}
		return all
	}
	if got := kept(); len(got) != 3 {
		t.Fatalf("kept: %v", got)
	}
	for i, w := range words {
		for range 2 {
			if err := s.Accept(f, "boot1", w); err != nil {
				t.Fatal(err)
			}
		}
		if got := standing(s, f, "boot1").Accepted; !slices.Equal(got, words[:i+1]) {
			t.Errorf("after %v: %v", w, got)
		}
		if got := kept(); len(got) != max(0, 2-i) || slices.Contains(got, w.Reason) {
			t.Errorf("after %v still kept: %v", w, got)
		}
	}
	for _, old := range []string{"", uuid} {
		if err := os.WriteFile(s.record(acceptedDir, 2), []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
		if st := standing(s, f, "boot1"); st.Accepted != nil {
			t.Errorf("%q lifts %v", old, st.Accepted)
		}
		if err := s.Accept(f, "boot1", words[0]); err != nil {
			t.Fatal(err)
		}
		if got := standing(s, f, "boot1").Accepted; !slices.Equal(got, words[:1]) {
			t.Errorf("after %q: %v", old, got)
		}
	}
}

// TestAcceptKeepsTheRelease checks that an accept of another hold does not end a release.
func TestAcceptKeepsTheRelease(t *testing.T) {
	for reason, want := range map[disk.Reason]disk.Reason{"": "", disk.ReasonCSI: disk.ReasonReleased} {
		s, f := made(t), facts("vdb", 2, "S")
		if err := s.KeepUnmounted(f, disk.ReasonReleased); err != nil {
			t.Fatal(err)
		}
		f.Standing.Unmounted, f.Standing.WasMounted = disk.ReasonReleased, time.Now()
		if err := s.Accept(f, "boot1", disk.Word{Reason: reason}); err != nil {
			t.Fatal(err)
		}
		if got := standing(s, f, "boot1").Unmounted; got != want {
			t.Errorf("accept of %q: %q", reason, got)
		}
	}
}

// TestAcceptWithoutRoom checks an accept after an unmount. If Accept cannot write the new record, Accept must remove
// the record of the unmount.
func TestAcceptWithoutRoom(t *testing.T) {
	s, f := made(t), facts("vdb", 2, "S")
	f.Standing.WasMounted = time.Now()
	if err := s.KeepUnmounted(f, disk.ReasonUnmounted); err != nil {
		t.Fatal(err)
	}
	path := s.record(unmountedDir, f.Seq)
	if err := s.Accept(f, "boot1", disk.Word{}); err != nil || !standing(s, f, "boot1").Remount {
		t.Errorf("with room: %v", err)
	}
	// The write fails, because no file can replace a directory. The removal works, because the directory is empty.
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := s.Accept(f, "boot1", disk.Word{}); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the record: %v", err)
	}
}

// TestRemoved checks that every disk that is attached at a second installation of hotmount counts as present. hotmount
// must format nothing until it has recorded the disks of the second installation.
func TestRemoved(t *testing.T) {
	first, accepted, meanwhile := facts("vdb", 2, "S1"), facts("vdc", 3, ""), facts("vdd", 4, "")
	s := made(t, first.Identity("boot1"), accepted.Identity("boot1"))
	if err := s.Accept(accepted, "boot1", disk.Word{Reason: disk.ReasonPresent}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.removedFile(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := standing(s, meanwhile, "boot2"); !strings.Contains(got.Formatting, "hotmount state init") {
		t.Errorf("before they are written down: %+v", got)
	}
	if ok, err := s.Init([]disk.Identity{meanwhile.Identity("boot2")}); !ok || err != nil {
		t.Fatalf("Init: %v, %v", ok, err)
	}
	for _, tt := range []struct {
		f    *disk.Facts
		want bool
	}{{first, true}, {accepted, false}, {meanwhile, true}, {facts("vde", 9, "S9"), false}} {
		if got := standing(s, tt.f, "boot2"); (got.Present != nil) != tt.want || got.Formatting != "" {
			t.Errorf("%s: %+v", tt.f.Name, got)
		}
	}
	if ok, err := s.Init(nil); ok || err != nil {
		t.Errorf("a second time: %v, %v", ok, err)
	}
}

func TestIntentsAndVerdicts(t *testing.T) {
	s, f := made(t), facts("vdb", 2, "")
	i := disk.Intent{Identity: f.Identity("boot1"), Class: "default", UUID: uuid}
	if err := s.Begin(i); err != nil {
		t.Fatal(err)
	}
	if got := standing(s, facts("vdb", 9, ""), "boot2").Intent; got == nil || cmp.Diff(*got, i) != "" {
		t.Errorf("after a reboot: %+v", got)
	}
	if got := standing(s, facts("vdc", 9, ""), "boot2").Intent; got != nil {
		t.Errorf("another disk has the intent %+v", got)
	}
	if err := s.End(uuid); err != nil {
		t.Fatal(err)
	}
	if got := standing(s, f, "boot1").Intent; got != nil {
		t.Errorf("after the end: %+v", got)
	}
	if s.Begin(disk.Intent{UUID: "../../etc/passwd"}) == nil || s.End("..") == nil {
		t.Error("took what is no UUID for a file name")
	}

	v := disk.Verdict{Seq: 2, Size: f.Size, Writes: 3, Content: disk.Content{Kind: disk.Other, Evidence: []string{"x"}}}
	if err := s.SaveVerdict(v); err != nil {
		t.Fatal(err)
	}
	if got := standing(s, f, "boot1").Verdict; got == nil || cmp.Diff(*got, v) != "" {
		t.Errorf("verdict: %+v", got)
	}
}

func TestBeginNeedsTheStateDirectory(t *testing.T) {
	s := newStore(t)
	if err := s.Begin(disk.Intent{UUID: uuid}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestSettingsAreHandedOn(t *testing.T) {
	s := made(t)
	want := &disk.Settings{Format: true, Settle: 5, Classes: []disk.Class{{Name: "a", Directory: "/a"}, {Name: "b", Directory: "/b"}}}
	if err := s.SaveSettings(want); err != nil {
		t.Fatal(err)
	}
	if err := s.SaveDirectories(want); err != nil {
		t.Fatal(err)
	}
	got, err := s.Settings()
	if err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	dirs, err := s.Directories()
	if err != nil || cmp.Diff([]string{"/a", "/b"}, dirs) != "" {
		t.Errorf("got %v, %v", dirs, err)
	}
}

// FuzzLoad checks Load with a file of any content. If Load does not understand a record, hotmount must format nothing.
func FuzzLoad(f *testing.F) {
	files := []string{"state/state.json", "state/filesystems.json", "state/history.jsonl", "state/intents/" + uuid + ".json", "run/verdicts/12", "run/unmounted/12", "state/contents.json"}
	f.Add(byte(0), []byte(`{"version":1,"present":[{"boot":"b","seq":12,"size":1}]}`))
	f.Add(byte(1), []byte(`{"version":1,"filesystems":[{"identity":{"boot":"b","seq":12,"size":1},"uuid":"`+uuid+`"}]}`))
	f.Add(byte(2), []byte(`{"version":1,"begin":{"uuid":"`+uuid+`"}}`+"\n"))
	f.Add(byte(3), []byte(`{"identity":{"boot":"b","seq":12,"size":1},"uuid":"`+uuid+`"}`))
	f.Add(byte(4), []byte(`{"seq":12,"size":1,"content":{"kind":"blank","proven":true}}`))
	f.Add(byte(5), []byte("hand"))
	f.Add(byte(6), []byte(`{"version":1,"filesystems":[{"identity":{"boot":"b","seq":12,"size":1},"type":"swap"}]}`))
	dir := f.TempDir()
	s := Store{State: filepath.Join(dir, "state"), Runtime: filepath.Join(dir, "run")}
	for _, name := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			f.Fatal(err)
		}
	}
	if _, err := s.Init(nil); err != nil {
		f.Fatal(err)
	}
	sound, err := os.ReadFile(s.stateFile())
	if err != nil {
		f.Fatal(err)
	}
	disk12 := disk.Facts{ID: disk.ID{Name: "vdb", Seq: 12}, Size: 1}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		if err := os.WriteFile(s.stateFile(), sound, 0o600); err != nil {
			t.Fatal(err)
		}
		name := files[int(which)%len(files)]
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
		m := s.Load("b", nil)
		st := m.Standing(&disk12)
		if (m.Lost != nil) != (st.Formatting != "") {
			t.Errorf("lost %v, formatting %q", m.Lost, st.Formatting)
		}
		lines := strings.HasSuffix(name, ".jsonl") // the last line of a .jsonl file may be incomplete
		if strings.HasPrefix(name, "state/") && !lines && !json.Valid(data) && m.Lost == nil {
			t.Errorf("%s: understood %q", name, data)
		}
		if st.Intent != nil && !disk.ValidUUID(st.Intent.UUID) {
			t.Errorf("an intent of the UUID %q", st.Intent.UUID)
		}
		if v := st.Verdict; v.Valid(&disk12) && (v.Seq != 12 || v.Size != 1) {
			t.Errorf("a verdict of another disk: %+v", v)
		}
	})
}

// TestAcceptWritesOnlyChanges checks an accept that removes no lasting record. Such an accept must not write to the
// state directory, because the directory may be read-only.
func TestAcceptWritesOnlyChanges(t *testing.T) {
	s := made(t)
	f := facts("vdb", 1, "S")
	if err := s.RecordHold(f, "boot1", disk.ReasonBrake); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		reason disk.Reason
		writes bool
	}{{disk.ReasonUsed, false}, {disk.ReasonBrake, true}, {disk.ReasonBrake, false}} {
		before, err := os.Stat(s.stateFile())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Accept(f, "boot1", disk.Word{Reason: step.reason}); err != nil {
			t.Fatal(err)
		}
		after, err := os.Stat(s.stateFile())
		if err != nil || os.SameFile(before, after) == step.writes {
			t.Errorf("%s: it was written: %v (%v)", step.reason, !os.SameFile(before, after), err)
		}
	}
}
