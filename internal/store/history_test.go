package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hotmount/internal/disk"
)

func numbered(i int) string { return fmt.Sprintf("5f0c8f3e-2b3c-4d61-9c2e-%012x", i) }

// The function `begin` starts a format. The parameter `limit` is the number of disks that may be formatted within the
// period.
func begin(s Store, i, limit int) (*Format, error) {
	f := facts("vdb", uint64(i), fmt.Sprint("S", i))
	id := f.Identity("boot1")
	r := &Format{Store: s, Limit: limit, Period: time.Hour, Record: disk.Record{
		Name: "vdb", Identity: id, Class: "default", UUID: numbered(i), By: disk.ByDaemon, Evidence: []string{"all zeros", "wipefs: nothing"},
	}}
	return r, r.Begin(disk.Intent{Identity: id, Class: "default", UUID: numbered(i)})
}

func history(t *testing.T, s Store) []disk.Record {
	t.Helper()
	all, err := s.History()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestHistoryTellsWhatWasDecidedAndWhatCameOfIt(t *testing.T) {
	s := made(t)
	if got := history(t, s); len(got) != 0 {
		t.Errorf("of a new store: %+v", got)
	}
	before := time.Now()
	whole, err := begin(s, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := standing(s, facts("vdb", 1, "S1"), "boot1").Intent; got == nil || got.UUID != numbered(1) {
		t.Errorf("begun without an intent: %+v", got)
	}
	if err := errors.Join(whole.End(numbered(1), nil), whole.Close(errors.New("x"))); err != nil {
		t.Fatal(err)
	}
	if got := standing(s, facts("vdb", 1, "S1"), "boot1").Intent; got != nil {
		t.Errorf("ended with an intent: %+v", got)
	}
	bad, err := begin(s, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := bad.Close(errors.New("mkfs: no")); err != nil {
		t.Fatal(err)
	}
	open, err := begin(s, 3, 0)
	if err != nil {
		t.Fatal(err)
	}
	// A later change of an intent must not appear in the history as another format.
	doubtful := facts("vdb", 3, "S3")
	if err := open.Amend(disk.Intent{Identity: doubtful.Identity("boot1"), UUID: numbered(3), Doubt: "x"}); err != nil {
		t.Fatal(err)
	}
	if got := standing(s, doubtful, "boot1").Intent; got == nil || got.Doubt != "x" {
		t.Errorf("the intent is %+v", got)
	}
	if got := standing(s, facts("vdb", 2, "S2"), "boot1").Intent; got == nil {
		t.Error("what failed has no intent any more")
	}
	if err := (&Format{Store: s}).Close(errors.New("x")); err != nil {
		t.Errorf("one that has not begun: %v", err)
	}
	got := history(t, s)
	want := []disk.Record{whole.Record, bad.Record, open.Record}
	want[1].Failure = "mkfs: no"
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(disk.Record{}, "Begun", "Ended")); diff != "" {
		t.Fatal(diff)
	}
	for i, r := range got {
		if r.Begun.Before(before.Add(-time.Second)) || r.Ended.IsZero() != (i == 2) || r.Made() != (i == 0) {
			t.Errorf("%d: begun %s, ended %s, made %v", i, r.Begun, r.Ended, r.Made())
		}
	}
}

// TestHistorySurvivesACutAtEveryByte checks that parseHistory reads the earlier lines, whatever part of the last line a
// power cut has damaged. After the power cut, hotmount must be able to write the next line.
func TestHistorySurvivesACutAtEveryByte(t *testing.T) {
	s := made(t)
	for i := range 2 {
		if _, err := begin(s, i, 0); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(s.historyFile())
	if err != nil {
		t.Fatal(err)
	}
	first := bytes.IndexByte(data, '\n') + 1
	for n := first; n < len(data); n++ {
		tails := map[string][]byte{"cut": data[:n], "zeros": append(bytes.Clone(data[:n]), make([]byte, len(data)-n)...)}
		// The last line contains a zero byte, but the bytes after it were written.
		tails["hole"] = bytes.Clone(data)
		tails["hole"][n-1] = 0
		if n == first {
			delete(tails, "hole")
		}
		for what, tail := range tails {
			if all, whole, err := parseHistory(tail); err != nil || whole != first || len(all) != 1 || all[0].UUID != numbered(0) {
				t.Fatalf("%s at %d: %d bytes, %+v, %v", what, n, whole, all, err)
			}
			if (n-first)%50 != 0 {
				continue // syncing a file is slow
			}
			if err := os.WriteFile(s.historyFile(), tail, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := begin(s, 7, 0); err != nil {
				t.Fatalf("%s at %d: %v", what, n, err)
			}
			if got := history(t, s); len(got) != 2 || got[0].UUID != numbered(0) || got[1].UUID != numbered(7) {
				t.Fatalf("%s at %d, then one more: %+v", what, n, got)
			}
		}
	}
}

// TestADamagedHistoryFormatsNothing checks that a damaged history stops all formatting, if a power cut cannot have
// caused the damage.
func TestADamagedHistoryFormatsNothing(t *testing.T) {
	for what, damage := range map[string]func([]byte) []byte{
		"a line in the middle": func(b []byte) []byte { b[0] = 'x'; return b },
		"a newer version":      func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(`"version":1`), []byte(`"version":2`)) },
		"too large":            func([]byte) []byte { return make([]byte, limit+1) },
	} {
		s := made(t)
		for i := range 2 {
			if _, err := begin(s, i, 0); err != nil {
				t.Fatal(err)
			}
		}
		data, err := os.ReadFile(s.historyFile())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.historyFile(), damage(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := standing(s, facts("vdb", 9, ""), "boot1"); got.Formatting == "" {
			t.Errorf("%s: may be formatted", what)
		}
		if _, err := begin(s, 3, 0); err == nil {
			t.Errorf("%s: a format began", what)
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	s := made(t)
	z := strings.Repeat("z", 2000)
	r := disk.Record{Evidence: bounded([]string{z, z, z, z, z, "w"}), Failure: truncate(z+z, evidenceSize)}
	if n := len(strings.Join(r.Evidence, "")); n > evidenceSize+100 || r.Evidence[len(r.Evidence)-1] != "… and 3 more" {
		t.Errorf("%d bytes of evidence: %q", n, r.Evidence)
	}
	r.Identity.Serial = strings.Repeat("\x00", 20)
	var many []disk.Record
	for i := range 1000 {
		r.UUID = numbered(i)
		many = append(many, r)
	}
	lines, err := newest(many)
	if err != nil {
		t.Fatal(err)
	}
	kept, whole, err := parseHistory(lines)
	if err != nil || whole != len(lines) || whole > historySize/2 || len(kept) < 256 || kept[len(kept)-1].UUID != numbered(999) {
		t.Errorf("%d records are kept, in %d of %d bytes, %v", len(kept), whole, len(lines), err)
	}
	// The history is nearly full when one more format begins.
	if lines, err = newest(many[:3]); err != nil {
		t.Fatal(err)
	}
	idle := []byte(`{"version":1}` + "\n")
	full := append(lines, bytes.Repeat(idle, (historySize-len(lines))/len(idle))...)
	if err := os.WriteFile(s.historyFile(), full, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := begin(s, 1001, 0); err != nil {
		t.Fatal(err)
	}
	if got := history(t, s); len(got) != 4 || got[0].UUID != numbered(0) || got[3].UUID != numbered(1001) {
		t.Errorf("%d records are left", len(got))
	}
	if info, err := os.Stat(s.historyFile()); err != nil || info.Size() > historySize/2 {
		t.Errorf("after it was full: %v, %v", info, err)
	}
}

// TestParallelFormatsDoNotSlipThroughTheBrake checks that the limit also applies to many formats that begin at once.
func TestParallelFormatsDoNotSlipThroughTheBrake(t *testing.T) {
	s := made(t)
	const limit, all = 5, 20
	results := make([]error, all)
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() { _, results[i] = begin(s, i, limit) })
	}
	group.Wait()
	begun := 0
	for _, err := range results {
		if err == nil {
			begun++
		} else if !errors.Is(err, ErrBrake) {
			t.Error(err)
		}
	}
	if begun != limit || len(history(t, s)) != limit {
		t.Errorf("%d have begun, %d are recorded; want %d", begun, len(history(t, s)), limit)
	}
	if got := standing(s, facts("vdx", 99, ""), "boot1").Formats; len(got) != limit || got[0] < 0 || got[0] > time.Minute {
		t.Errorf("the ages of the formats: %v", got)
	}
	if _, err := begin(s, 98, 0); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

// TestTheBrakeCountsDisks checks that a format and its restart count as one format, because they have the same UUID or
// the same disk. Earlier attempts on a disk must not stop another attempt on the same disk.
func TestTheBrakeCountsDisks(t *testing.T) {
	s := made(t)
	try := func(f *disk.Facts, boot, uuid string, limit int) error {
		id := f.Identity(boot)
		r := &Format{Store: s, Limit: limit, Period: time.Hour, Record: disk.Record{Name: f.Name, Identity: id, UUID: uuid, By: disk.ByDaemon}}
		return r.Begin(disk.Intent{Identity: id, UUID: uuid})
	}
	vdb, again, vdc := facts("vdb", 1, "B"), facts("vdb", 7, "B"), facts("vdc", 2, "C")
	for i, err := range []error{try(vdb, "boot1", numbered(1), 1), s.EndFormat(numbered(1), errors.New("x")), try(vdb, "boot1", numbered(2), 1), try(again, "boot2", numbered(2), 1)} {
		if err != nil {
			t.Errorf("try %d of one disk: %v", i, err)
		}
	}
	if own, other := standing(s, again, "boot2"), standing(s, vdc, "boot2"); len(own.Formats) != 0 || len(other.Formats) != 1 {
		t.Errorf("for itself %v, for another %v", own.Formats, other.Formats)
	}
	// The disk was attached again, and has another sequence number. When hotmount checks format_limit for this disk,
	// the disk's own earlier formats must not count.
	if own := standing(s, facts("vdd", 9, "B"), "boot3"); len(own.Formats) != 0 {
		t.Errorf("for itself, attached again: %v", own.Formats)
	}
	if err := try(vdc, "boot2", numbered(3), 1); !errors.Is(err, ErrBrake) {
		t.Errorf("another disk: %v", err)
	}
	if err := try(vdc, "boot2", numbered(3), 2); err != nil {
		t.Errorf("another disk, with room: %v", err)
	}
	// The format of the disk has ended. When hotmount checks format_limit for a disk, the ended format of the same disk
	// must not count. Only the format of the other disk counts.
	if err := s.EndFormat(numbered(3), errors.New("x")); err != nil {
		t.Fatal(err)
	}
	if own := standing(s, vdc, "boot2"); len(own.Formats) != 1 {
		t.Errorf("for itself, with its format ended: %v", own.Formats)
	}
}

func TestTheBrakeHoldsUntilAccepted(t *testing.T) {
	s, f := made(t), facts("vdb", 4, "S")
	for range 2 {
		if err := s.RecordHold(f, "boot1", disk.ReasonBrake); err != nil {
			t.Fatal(err)
		}
	}
	if !standing(s, f, "boot1").Braked || !standing(s, facts("vdc", 9, "S"), "boot2").Braked || standing(s, facts("vdc", 9, "T"), "boot2").Braked {
		t.Error("the wrong disks are held")
	}
	if err := s.Accept(facts("vdc", 9, "S"), "boot2", disk.Word{Reason: disk.ReasonBrake}); err != nil {
		t.Fatal(err)
	}
	if standing(s, f, "boot3").Braked {
		t.Error("held after it was accepted")
	}
}

// TestUseIsKeptUntilAccepted checks that the use of a disk by another program stays on record until the operator
// accepts the disk. Each use must be recorded only once, and only for this disk.
func TestUseIsKeptUntilAccepted(t *testing.T) {
	s, f := made(t), facts("vdb", 4, "S")
	for range 2 {
		if err := s.KeepUse(f, "boot1", "mounted at /srv"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.KeepUse(facts("vdc", 5, "T"), "boot1", "claimed by "+strings.Repeat("x", 4096)); err != nil {
		t.Fatal(err)
	}
	if st, err := s.load(); err != nil || len(st.Used) != 2 || len(st.Used[1].How) > 600 {
		t.Errorf("%+v, %v", st.Used, err)
	}
	for _, boot := range []string{"boot1", "boot2"} {
		u := standing(s, facts("vde", 9, "S"), boot).Used
		if u == nil || u.How != "mounted at /srv" || u.Seen.IsZero() || standing(s, facts("vde", 9, "U"), boot).Used != nil {
			t.Errorf("%s: %+v", boot, u)
		}
	}
	if err := s.Accept(facts("vde", 9, "S"), "boot2", disk.Word{Reason: disk.ReasonUsed}); err != nil {
		t.Fatal(err)
	}
	if standing(s, f, "boot3").Used != nil || standing(s, facts("vdc", 5, "T"), "boot3").Used == nil {
		t.Error("the wrong disk was accepted")
	}
	lost := Store{State: t.TempDir(), Runtime: t.TempDir()}
	if err := lost.KeepUse(f, "boot1", "x"); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "cannot record that somebody else uses vdb") {
		t.Errorf("%v", err)
	}
	if u := standing(lost, f, "boot1").Used; u == nil || u.How != "x" || standing(lost, facts("vdb", 5, "S"), "boot1").Used != nil {
		t.Errorf("without a state directory: %+v", u)
	}
	for what, end := range map[string]func(Store) error{"forgotten": func(s Store) error { return s.Forget(4) }, "accepted": func(s Store) error { return s.Accept(f, "boot1", disk.Word{Reason: disk.ReasonUsed}) }} {
		full := made(t)
		if err := full.keep(usedDir, 4, disk.Use{How: "x"}); err != nil {
			t.Fatal(err)
		}
		if err := end(full); err != nil || standing(full, f, "boot1").Used != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestOpener checks that the record of SaveOpener can be read only once, and is removed when the attachment ends.
func TestOpener(t *testing.T) {
	s := made(t)
	if o, err := s.TakeOpener(4); o != nil || err == nil {
		t.Errorf("without a result: %v, %v", o, err)
	}
	for _, want := range []*disk.Opener{nil, {PID: 7, Command: "qemu\n", Machine: true}} {
		if err := s.SaveOpener(4, want); err != nil {
			t.Fatal(err)
		}
		if got, err := s.TakeOpener(4); err != nil || (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	if err := errors.Join(s.SaveOpener(4, nil), s.Forget(4)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.TakeOpener(4); err == nil {
		t.Error("taken twice")
	}
}

func sighting(f *disk.Facts, boot, uuid string) disk.Sighting {
	return disk.Sighting{Identity: f.Identity(boot), UUID: uuid, Type: "xfs", Class: "default", Mounted: time.Unix(1e9, 0).UTC()}
}

// partOf turns the facts of a disk into the facts of its first partition.
func partOf(f *disk.Facts) *disk.Facts {
	f.Whole, f.Name, f.Seq, f.Size = f.Name, f.Name+"1", disk.PartitionSeq(f.Seq, 1), f.Size/2
	f.Slot += "-part1"
	if f.Serial != "" {
		f.Serial += "-part1"
	}
	return f
}

func TestFormerDisks(t *testing.T) {
	slot := facts("vdb", 2, "")
	large := facts("vdb", 9, "")
	large.Size++
	nowhere := facts("vdb", 9, "")
	nowhere.Slot = ""
	one, two := numbered(1), numbered(2)
	const long = "ABCDEFGHIJKLMNOPQRST-and-more"
	left := sighting(slot, "boot1", one)
	left.Left = true
	leftBefore := sighting(facts("vdb", 1, ""), "boot1", one)
	leftBefore.Left = true
	for _, tt := range []struct {
		name         string
		seen         []disk.Sighting
		f            *disk.Facts
		boot         string
		serial, slot string
	}{
		{name: "nothing seen", f: slot, boot: "boot2"},
		{name: "the serial", seen: []disk.Sighting{sighting(facts("vdx", 1, "S"), "boot1", one)}, f: facts("vdb", 9, "S"), boot: "boot1", serial: one},
		{name: "the serial after a reboot, elsewhere", seen: []disk.Sighting{sighting(facts("vdx", 1, "S"), "boot1", one)}, f: facts("vdb", 9, "S"), boot: "boot2", serial: one},
		{name: "another serial", seen: []disk.Sighting{sighting(facts("vdx", 1, "S"), "boot1", one)}, f: facts("vdb", 9, "T"), boot: "boot2"},
		{name: "the serial, cut by virtio now", seen: []disk.Sighting{sighting(facts("sda", 1, long), "boot1", one)}, f: facts("vdb", 9, long[:20]), boot: "boot2", serial: one},
		{name: "the serial, cut by virtio then", seen: []disk.Sighting{sighting(facts("vdb", 1, long[:20]), "boot1", one)}, f: facts("sda", 9, long), boot: "boot2", serial: one},
		{name: "a partition had the serial, cut by virtio now", seen: []disk.Sighting{sighting(partOf(facts("sda", 1, long)), "boot1", one)}, f: facts("vdb", 9, long[:20]), boot: "boot2", serial: one},
		{name: "the beginning of a serial that virtio does not cut", seen: []disk.Sighting{sighting(facts("sda", 1, long), "boot1", one)}, f: facts("vdb", 9, long[:19]), boot: "boot2"},
		{name: "the last of a serial", seen: []disk.Sighting{sighting(facts("vdx", 1, "S"), "boot1", one), sighting(facts("vdx", 2, "S"), "boot1", two)}, f: facts("vdb", 9, "S"), boot: "boot2", serial: two},
		{name: "the slot after a reboot", seen: []disk.Sighting{sighting(slot, "boot1", one)}, f: facts("vdb", 9, ""), boot: "boot2", slot: one},
		{name: "the slot after two reboots", seen: []disk.Sighting{sighting(slot, "boot1", one)}, f: facts("vdb", 9, ""), boot: "boot3", slot: one},
		{name: "the slot in the same boot", seen: []disk.Sighting{sighting(slot, "boot1", one)}, f: facts("vdb", 9, ""), boot: "boot1"},
		{name: "another slot", seen: []disk.Sighting{sighting(facts("vdx", 2, ""), "boot1", one)}, f: facts("vdb", 9, ""), boot: "boot2"},
		{name: "no slot", seen: []disk.Sighting{sighting(nowhere, "boot1", one)}, f: nowhere, boot: "boot2"},
		{name: "the slot, another size", seen: []disk.Sighting{sighting(slot, "boot1", one)}, f: large, boot: "boot2"},
		{name: "the slot, another serial", seen: []disk.Sighting{sighting(facts("vdb", 2, "T"), "boot1", one)}, f: facts("vdb", 9, "S"), boot: "boot2"},
		{name: "the slot, no serial any more", seen: []disk.Sighting{sighting(facts("vdb", 2, "T"), "boot1", one)}, f: facts("vdb", 9, ""), boot: "boot2", slot: one},
		{name: "the slot and the serial", seen: []disk.Sighting{sighting(facts("vdb", 2, "S"), "boot1", one)}, f: facts("vdb", 9, "S"), boot: "boot2", serial: one, slot: one},
		{name: "the last in the slot", seen: []disk.Sighting{sighting(slot, "boot1", one), sighting(facts("vdb", 3, ""), "boot1", two)}, f: facts("vdb", 9, ""), boot: "boot2", slot: two},
		{name: "a partition had the serial and the slot", seen: []disk.Sighting{sighting(partOf(facts("vdb", 2, "S")), "boot1", one)}, f: facts("vdb", 9, "S"), boot: "boot2", serial: one, slot: one},
		{name: "a partition had the slot", seen: []disk.Sighting{sighting(partOf(facts("vdb", 2, "")), "boot1", one)}, f: facts("vdb", 9, ""), boot: "boot2", slot: one},
		{name: "a partition of another disk", seen: []disk.Sighting{sighting(partOf(facts("vdb", 2, "T")), "boot1", one)}, f: facts("vdb", 9, "S"), boot: "boot2"},
		{name: "it was seen leaving", seen: []disk.Sighting{sighting(slot, "boot1", one), left}, f: facts("vdb", 9, ""), boot: "boot2"},
		{name: "it came back after it left", seen: []disk.Sighting{sighting(slot, "boot1", one), leftBefore}, f: facts("vdb", 9, ""), boot: "boot2", slot: one},
	} {
		s := made(t)
		for _, n := range tt.seen {
			if err := s.Remember([]disk.Sighting{n}); err != nil {
				t.Fatal(err)
			}
		}
		got := standing(s, tt.f, tt.boot)
		if got.Formatting != "" {
			t.Errorf("%s: %s", tt.name, got.Formatting)
		}
		for what, pair := range map[string]struct {
			got  *disk.Sighting
			want string
		}{"serial": {got.FormerSerial, tt.serial}, "slot": {got.FormerSlot, tt.slot}} {
			if (pair.got == nil) != (pair.want == "") || pair.got != nil && pair.got.UUID != pair.want {
				t.Errorf("%s: %s: %+v, want %q", tt.name, what, pair.got, pair.want)
			}
		}
	}
}

// The function `found` returns a sighting of unmounted content that was found on the disk in that boot.
func found(f *disk.Facts, boot, what, uuid string) disk.Sighting {
	return disk.Sighting{Identity: f.Identity(boot), Type: what, UUID: uuid, Mounted: time.Unix(1e9, 0).UTC()}
}

// TestFormerContents checks that hotmount remembers unmounted content across a reboot, for a disk in the same slot or
// with the same serial. If hotmount noticed the removal of the disk, or if other content is in the slot now, hotmount
// must ignore the remembered content.
func TestFormerContents(t *testing.T) {
	one, two := numbered(1), numbered(2)
	plain, serial := facts("vdb", 2, ""), facts("vdb", 2, "S")
	large := facts("vdb", 9, "")
	large.Size++
	note := func(n ...disk.Sighting) func(Store) error { return func(s Store) error { return s.Note(n) } }
	begin := func(f *disk.Facts, boot string) func(Store) error {
		return func(s Store) error { return s.Begin(disk.Intent{Identity: f.Identity(boot), UUID: two}) }
	}
	mount := func(n ...disk.Sighting) func(Store) error { return func(s Store) error { return s.Remember(n) } }
	type acts []func(Store) error
	for _, tt := range []struct {
		name         string
		acts         acts
		f            *disk.Facts
		boot         string
		serial, slot string // "type UUID"
	}{
		{"the slot after a reboot", acts{note(found(plain, "boot1", "btrfs", one))}, facts("vdb", 9, ""), "boot2", "", "btrfs " + one},
		{"the slot after two reboots", acts{note(found(plain, "boot1", "btrfs", one))}, facts("vdb", 9, ""), "boot3", "", "btrfs " + one},
		{"the slot in the same boot", acts{note(found(plain, "boot1", "btrfs", one))}, facts("vdb", 9, ""), "boot1", "", ""},
		{"the slot, another size", acts{note(found(plain, "boot1", "btrfs", one))}, large, "boot2", "", ""},
		{"another slot", acts{note(found(facts("vdx", 2, ""), "boot1", "btrfs", one))}, facts("vdb", 9, ""), "boot2", "", ""},
		{"the slot, another serial", acts{note(found(serial, "boot1", "btrfs", one))}, facts("vdb", 9, "T"), "boot2", "", ""},
		{"the serial", acts{note(found(facts("vdx", 2, "S"), "boot1", "gpt", ""))}, facts("vdb", 9, "S"), "boot2", "gpt ", ""},
		{"the serial in the same boot", acts{note(found(facts("vdx", 2, "S"), "boot1", "gpt", ""))}, facts("vdb", 9, "S"), "boot1", "", ""},
		{"slot and serial", acts{note(found(serial, "boot1", "ext4", one))}, facts("vdb", 9, "S"), "boot2", "ext4 " + one, "ext4 " + one},
		{"slot and serial, no UUID: it is told once", acts{note(found(serial, "boot1", "LVM2_member", ""))}, facts("vdb", 9, "S"), "boot2", "LVM2_member ", ""},
		{"a partition", acts{note(found(partOf(facts("vdb", 2, "")), "boot1", "btrfs", one))}, facts("vdb", 9, ""), "boot2", "", "btrfs " + one},
		{"it was seen leaving", acts{note(found(plain, "boot1", "btrfs", one)), note(disk.Sighting{Identity: plain.Identity("boot1"), Left: true})}, facts("vdb", 9, ""), "boot2", "", ""},
		{"another one left", acts{note(found(plain, "boot1", "btrfs", one)), note(disk.Sighting{Identity: facts("vdb", 3, "").Identity("boot1"), Left: true})}, facts("vdb", 9, ""), "boot2", "", "btrfs " + one},
		{"something else came to the slot", acts{note(found(plain, "boot1", "btrfs", one)), note(found(facts("vdb", 7, ""), "boot2", "swap", two))}, facts("vdb", 9, ""), "boot3", "", "swap " + two},
		{"the disk is in another slot since", acts{note(found(serial, "boot1", "btrfs", one)), note(found(facts("vdx", 7, "S"), "boot2", "btrfs", one))}, facts("vdb", 9, ""), "boot3", "", ""},
		{"two of a serial", acts{note(found(serial, "boot1", "btrfs", one)), note(found(facts("vdx", 3, "S"), "boot1", "btrfs", two))}, facts("vdb", 9, ""), "boot2", "", "btrfs " + one},
		{"a filesystem is mounted there since", acts{note(found(plain, "boot1", "btrfs", one)), mount(sighting(facts("vdb", 7, ""), "boot2", two))}, facts("vdb", 9, ""), "boot3", "", "xfs " + two},
		{"a filesystem was mounted there before", acts{mount(sighting(plain, "boot1", two)), note(found(facts("vdb", 7, ""), "boot2", "btrfs", one))}, facts("vdb", 9, ""), "boot3", "", "btrfs " + one},
		{"its format was begun", acts{note(found(serial, "boot1", "btrfs", one)), begin(serial, "boot1")}, facts("vdb", 9, "S"), "boot2", "", ""},
		{"its format was begun once it had been given up", acts{note(found(plain, "boot1", "btrfs", one)), begin(facts("vdb", 7, ""), "boot2")}, facts("vdb", 9, ""), "boot3", "", ""},
		{"another disk's format was begun", acts{note(found(serial, "boot1", "btrfs", one)), begin(facts("vdx", 3, "T"), "boot1")}, facts("vdb", 9, "S"), "boot2", "btrfs " + one, "btrfs " + one},
		{"a filesystem that another class has since", acts{mount(disk.Sighting{Identity: plain.Identity("boot1"), UUID: two, Type: "xfs"})}, facts("vdb", 9, ""), "boot2", "", "xfs " + two},
	} {
		s := made(t)
		for _, act := range tt.acts {
			if err := act(s); err != nil {
				t.Fatal(err)
			}
		}
		name := func(l *disk.Sighting) string {
			if l == nil {
				return ""
			}
			return l.Type + " " + l.UUID
		}
		got := standing(s, tt.f, tt.boot)
		if name(got.FormerSerial) != tt.serial || name(got.FormerSlot) != tt.slot || got.Before != nil || got.Formatting != "" {
			t.Errorf("%s: serial %q, slot %q, want %q, %q (%s)", tt.name, name(got.FormerSerial), name(got.FormerSlot), tt.serial, tt.slot, got.Formatting)
		}
		if seen, err := s.Sightings(); err != nil || slices.ContainsFunc(seen, func(l disk.Sighting) bool { return l.Type != "xfs" }) {
			t.Errorf("%s: it is remembered as mounted: %+v, %v", tt.name, seen, err)
		}
	}
}

// TestNotedIsWrittenWhenItChanges checks that Note writes its file only if the content changes. Note must also limit
// the number of records in the file. Note must not replace a file that a newer version of hotmount wrote.
func TestNotedIsWrittenWhenItChanges(t *testing.T) {
	s, f := made(t), facts("vdb", 2, "S")
	n := found(f, "boot1", "btrfs", numbered(1))
	var before os.FileInfo
	for i := range 3 {
		if err := errors.Join(s.Note([]disk.Sighting{n}), s.Note(nil), s.Note([]disk.Sighting{{Identity: facts("vdx", 9, "").Identity("boot1"), Left: true}})); err != nil {
			t.Fatal(err)
		}
		now, err := os.Stat(s.notedFile())
		if err != nil || i > 0 && !os.SameFile(before, now) {
			t.Errorf("written once more: %v", err)
		}
		before = now
	}
	if got := standing(s, f, "boot1").Noted; got == nil || *got != n {
		t.Errorf("noted: %+v", got)
	}
	if standing(s, f, "boot2").Noted != nil || standing(s, facts("vdb", 3, "S"), "boot1").Noted != nil {
		t.Error("noted of another attachment")
	}
	var many []disk.Sighting
	for i := range mostKept + 5 {
		many = append(many, found(facts(fmt.Sprint("vd", i), uint64(i), strings.Repeat("\x01", 20)), "boot1", "btrfs", numbered(i)))
	}
	if err := s.Note(many); err != nil {
		t.Fatal(err)
	}
	if got, err := s.NotedSightings(); err != nil || len(got) != mostKept || got[len(got)-1].UUID != numbered(mostKept+4) {
		t.Errorf("%d are left, %v", len(got), err)
	}
	if err := os.WriteFile(s.notedFile(), []byte(`{"version": 2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.Note(many[:1]) == nil || standing(s, f, "b").Formatting == "" {
		t.Error("a newer memory is replaced, or may be formatted with it")
	}
}

// TestTheSerialOfADiskThatWasFormattedOnly checks that hotmount knows the serial of a disk that was formatted but never
// mounted.
func TestTheSerialOfADiskThatWasFormattedOnly(t *testing.T) {
	s := made(t)
	r, err := begin(s, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	again := facts("vdc", 9, "S1")
	if got := standing(s, again, "boot1").FormerSerial; got != nil {
		t.Errorf("while it is formatted: %+v", got)
	}
	if err := r.End(numbered(1), nil); err != nil {
		t.Fatal(err)
	}
	if got := standing(s, again, "boot2").FormerSerial; got == nil || got.UUID != numbered(1) || got.Type != "xfs" {
		t.Errorf("got %+v", got)
	}
}

func TestSightingsAreBoundedAndReadWhole(t *testing.T) {
	s := made(t)
	var many []disk.Sighting
	for i := range mostKept + 5 {
		many = append(many, sighting(facts("vdb", uint64(i), strings.Repeat("\x01", 20)), "boot1", numbered(i)))
	}
	if err := s.Remember(many); err != nil {
		t.Fatal(err)
	}
	got, err := s.Sightings()
	if err != nil || len(got) != mostKept || got[len(got)-1].UUID != numbered(mostKept+4) {
		t.Errorf("%d are left, %v", len(got), err)
	}
	if err := os.WriteFile(s.sightingsFile(), []byte(`{"version": 2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := standing(s, facts("vdb", 1, ""), "b"); got.Formatting == "" {
		t.Error("with a newer memory of filesystems: may be formatted")
	}
	if s.Remember(many[:1]) == nil {
		t.Error("a newer memory of filesystems was replaced")
	}
}

// TestRecordsOfAnotherVersion checks that hotmount still recognises its volumes, block volumes and class directories if
// the records have an unknown version and unknown keys. hotmount then formats nothing, and does not replace the records.
// A filesystem with an intent of an unknown version does not count as complete.
func TestRecordsOfAnotherVersion(t *testing.T) {
	s := made(t)
	f := facts("vdb", 12, "A")
	if err := s.Remember([]disk.Sighting{sighting(f, "boot1", numbered(1))}); err != nil {
		t.Fatal(err)
	}
	given := facts("vdc", 13, "B")
	if err := s.GiveOut(given, "boot1", "raw", "/mnt/disks/B"); err != nil {
		t.Fatal(err)
	}
	begun := disk.Intent{UUID: numbered(3), Identity: facts("vdd", 14, "C").Identity("boot1")}
	if err := errors.Join(s.saveIntent(begun), s.SaveDirectories(&disk.Settings{Classes: []disk.Class{{Directory: "/mnt/disks"}}})); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{s.sightingsFile(), s.givenFile(), s.intentFile(begun.UUID), s.directoriesFile()} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		next := regexp.MustCompile(`"version": ?1`).ReplaceAllString(string(before), `"new": true, "version": 9`)
		if next == string(before) {
			t.Fatalf("%s has no version", path)
		}
		if err := os.WriteFile(path, []byte(next), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := s.Load("boot2", nil)
	if m.Lost == nil || strings.Contains(m.Lost.Error(), "mv ") || len(m.Sightings) != 1 || m.Sightings[0].UUID != numbered(1) || len(m.Given) != 1 || m.Given[0].Link != "/mnt/disks/B" {
		t.Errorf("lost %v, sightings %+v, given out %+v", m.Lost, m.Sightings, m.Given)
	}
	if all, err := s.intents(); err == nil || strings.Contains(err.Error(), "mv ") || len(all) != 1 || all[0].UUID != begun.UUID || all[0].Doubt == "" {
		t.Errorf("intents %+v, %v", all, err)
	}
	if dirs, err := s.Directories(); err == nil || !slices.Equal(dirs, []string{"/mnt/disks"}) {
		t.Errorf("directories %q, %v", dirs, err)
	}
	if s.RecordLeft(begun.UUID) == nil {
		t.Error("the intent was replaced")
	}
	if s.Remember([]disk.Sighting{sighting(f, "boot2", numbered(2))}) == nil || s.GiveOut(given, "boot2", "raw", "/mnt/disks/C") == nil {
		t.Error("the records were replaced")
	}
}

// TestAKeyOfAnotherType checks a file of another version in which a key has another type. hotmount must not advise the
// operator to move the file away.
func TestAKeyOfAnotherType(t *testing.T) {
	const wrong = `"filesystems": 9, "disks": 9, "used": 9, "uuid": 9}`
	for _, file := range []func(Store) string{Store.stateFile, Store.sightingsFile, Store.givenFile, func(s Store) string { return s.intentFile(numbered(1)) }} {
		for content, want := range map[string]string{
			`{"version": 9, ` + wrong: ": the file has version 9, but this hotmount knows version 1",
			`{"version": 1, ` + wrong: "cannot read ",
			`{"version": 9`:           "cannot read ",
		} {
			s := made(t)
			if err := errors.Join(makeSynced(s.intentDir()), os.WriteFile(file(s), []byte(content), 0o600)); err != nil {
				t.Fatal(err)
			}
			lost := s.Load("boot2", nil).Lost
			if lost == nil || !strings.Contains(lost.Error(), want) || strings.Contains(want, "version 9") == strings.Contains(lost.Error(), "cannot read ") {
				t.Errorf("%s in %s: %v", content, filepath.Base(file(s)), lost)
			}
		}
	}
}

// TestAFailedWriteFormatsNothingUntilInit checks that a failed write of any record stops all formatting until Init
// runs. To make the write fail, the test makes a directory with the name of the file. A separate system test uses a
// full or read-only filesystem.
func TestAFailedWriteFormatsNothingUntilInit(t *testing.T) {
	f := facts("vdb", 1, "S")
	for what, tt := range map[string]struct {
		blocked string // the path at which the test makes a directory instead of the file
		write   func(Store) error
	}{
		"check":       {"check", func(s Store) error { return s.Check() }},
		"history":     {"history.jsonl", func(s Store) error { _, err := begin(s, 1, 0); return err }},
		"intent":      {"intents/" + numbered(1) + ".json", func(s Store) error { _, err := begin(s, 1, 0); return err }},
		"lock":        {"lock", func(s Store) error { return s.Remember(nil) }},
		"directories": {"directories.json", func(s Store) error { return s.SaveDirectories(&disk.Settings{}) }},
	} {
		s := made(t)
		blocked := filepath.Join(s.State, tt.blocked)
		if err := errors.Join(os.RemoveAll(blocked), os.MkdirAll(filepath.Join(blocked, "x"), 0o700)); err != nil {
			t.Fatal(err)
		}
		if tt.write(s) == nil {
			t.Errorf("%s: no error", what)
			continue
		}
		if err := os.RemoveAll(blocked); err != nil {
			t.Fatal(err)
		}
		if got := standing(s, f, "b"); !strings.HasPrefix(got.Formatting, disk.StateGap) {
			t.Errorf("%s: may be formatted afterwards: %q", what, got.Formatting)
		}
		if made, err := s.Init(nil); made || err != nil {
			t.Errorf("%s: Init: %v, %v", what, made, err)
		}
		if got := standing(s, f, "b"); got.Formatting != "" {
			t.Errorf("%s: after Init: %s", what, got.Formatting)
		}
	}
}

// FuzzParseHistory checks that parseHistory returns the same records after the unreadable end of the history is cut
// off.
func FuzzParseHistory(f *testing.F) {
	f.Add([]byte(`{"version":1,"begin":{"uuid":"a","evidence":["x"]}}` + "\n" + `{"version":1,"end":{"uuid":"a","failure":"y"}}` + "\n{"))
	f.Add([]byte("{\"version\":1}\n\x00\x00\n"))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, whole, err := parseHistory(data)
		if err != nil {
			return
		}
		again, length, err := parseHistory(data[:whole])
		if err != nil || length != whole {
			t.Fatalf("%d of %d bytes, %v", length, whole, err)
		}
		if diff := cmp.Diff(all, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestFull checks that markFull makes one file for each filesystem that fills its disk. The file's name ends with the
// disk's size in sectors of 512 bytes. The file must exist only as long as the filesystem is on record.
func TestFull(t *testing.T) {
	s := made(t)
	full := func(n int, size uint64) disk.Sighting {
		f := facts("vdb", uint64(n), "S")
		f.Size = size
		seen := sighting(f, "boot1", numbered(n))
		seen.Full = true
		return seen
	}
	partly := full(1, 2<<30)
	partly.Full = false
	left := full(1, 3<<30)
	left.Left = true
	another := full(1, 5<<30)
	another.Identity.Seq, another.Left = 77, true
	var many []disk.Sighting
	for i := range mostKept {
		many = append(many, full(100+i, 0))
	}
	for _, step := range []struct {
		what string
		seen []disk.Sighting
		want string // the size in the file name for the UUID numbered(1)
	}{
		{"mounted", []disk.Sighting{full(1, 1<<30)}, "2097152"},
		{"resized", []disk.Sighting{partly}, ""},
		{"grown", []disk.Sighting{full(1, 3<<30)}, "6291456"},
		{"detached", []disk.Sighting{left}, "6291456"},
		{"another of its UUID detached", []disk.Sighting{another}, "6291456"},
		{"again", []disk.Sighting{full(1, 3<<30)}, "6291456"},
		{"twice at once", []disk.Sighting{full(1, 4<<30), full(1, 5<<30)}, "10485760"},
		{"forgotten", many, ""},
	} {
		if err := s.Remember(step.seen); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		found, err := filepath.Glob(filepath.Join(s.State, "full", numbered(1)+"-*"))
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		if step.want != "" {
			want = []string{filepath.Join(s.State, "full", numbered(1)+"-"+step.want)}
		}
		if !slices.Equal(found, want) {
			t.Errorf("%s: %q, want %q", step.what, found, want)
		}
	}
}
