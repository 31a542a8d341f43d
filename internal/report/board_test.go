package report

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hotmount/internal/disk"
)

func TestBoard(t *testing.T) {
	b := NewBoard(nil)
	f := facts("S")
	refused := disk.Decision{Action: disk.Refuse, Reason: disk.ReasonUnknown, Class: "default"}
	changed := func(what string) {
		t.Helper()
		select {
		case <-b.Changed():
		default:
			t.Errorf("%s: no change was reported", what)
		}
	}
	one := func(what string) disk.Line {
		t.Helper()
		changed(what)
		all := b.Lines()
		if len(all) != 1 {
			t.Fatalf("%s: %+v", what, all)
		}
		return all[0]
	}
	b.Report(decisionEvent(f, &disk.Content{Kind: disk.Unknown, Evidence: []string{"byte 4096: 0x7f"}}, settings(), refused))
	l := one("refused")
	if l.Why == "" || l.Next == "" || l.Decision != refused || l.Kind != disk.Unknown || l.Seq != 12 || !b.Knows("vdb", 12) || b.Knows("vdb", 13) {
		t.Errorf("refused: %+v", l)
	}
	b.Report(failed(f, refused, "", errors.New("no\nway"), disk.Tries{Count: 9, Wait: time.Hour, Quiet: true, OfNode: true}))
	if l = one("failed"); !l.OfNode || l.Failure != "no; way" || l.Remedy == "" || l.Decision != refused || l.Tries != 9 || time.Until(l.Retry) < 59*time.Minute {
		t.Errorf("failed: %+v", l)
	}
	l.Retry = time.Date(2026, 11, 28, 2, 3, 4, 0, time.UTC)
	if got := l.Failing(); got != "no; way; failed 9 times so far, next try at 02:03:04 UTC" {
		t.Errorf("in words: %s", got)
	}
	b.Report(recovered(f))
	if l = one("recovered"); l.OfNode || l.Failure != "" || l.Remedy != "" || l.Next == "" || l.Tries != 0 || !l.Retry.IsZero() {
		t.Errorf("recovered: %+v", l)
	}
	b.Report(failed(f, refused, "", errors.New("no"), disk.Tries{}))
	ours := disk.Decision{Action: disk.Keep, Reason: disk.ReasonMounted, Class: "default", UUID: uuid, Type: "xfs"}
	b.Report(mounted(f, ours, "/mnt/disks/"+uuid))
	if diff := cmp.Diff(disk.Line{Disk: "vdb", Seq: 12, Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Decision: ours, Why: "the disk is mounted at /mnt/disks/" + uuid}, one("mounted"), cmpopts.IgnoreFields(disk.Line{}, "Since")); diff != "" {
		t.Error(diff)
	}
	// The failure belongs to a disk that had the same name earlier and is gone, so the board must ignore the failure.
	former := facts("S")
	former.Seq = 11
	b.Report(failed(former, disk.Decision{UUID: uuid}, "", errors.New("busy"), disk.Tries{Wait: time.Second}))
	if l = one("another failed"); l.Failure != "" {
		t.Errorf("another disk's failure: %+v", l)
	}
	b.Report(gone(f, ""))
	changed("gone")
	// The board must record the failure of a disk that hotmount has not looked at yet. The sequence number of such a
	// disk is unknown.
	b.Report(failed(&disk.Facts{ID: disk.ID{Name: "vdb"}}, disk.Decision{}, "", errors.New("no"), disk.Tries{Wait: time.Second}))
	if l = one("not seen"); l.Failure != "no" {
		t.Errorf("not seen: %+v", l)
	}
	b.Report(decisionEvent(f, &disk.Content{}, settings(), disk.Decision{Action: disk.Ignore, Reason: disk.ReasonSystem}))
	if changed("ignored"); len(b.Lines()) != 0 {
		t.Errorf("ignored: %+v", b.Lines())
	}
}

// TestFailedRemedy checks that the command in the remedy makes hotmount try again, but does not lift a hold. If a hold
// begins after hotmount has printed the command, the command must not lift this hold.
func TestFailedRemedy(t *testing.T) {
	for name, tt := range map[string]struct {
		d    disk.Decision
		want string
	}{
		"a mount":   {disk.Decision{Action: disk.Mount, Reason: disk.ReasonFilesystem}, "hotmount accept vdb filesystem"},
		"a hold":    {disk.Decision{Action: disk.Hold, Reason: disk.ReasonPresent}, "hotmount rescan"},
		"a refusal": {disk.Decision{Action: disk.Refuse, Reason: disk.ReasonTwin}, "hotmount rescan"},
		"no look":   {disk.Decision{}, "hotmount rescan"},
	} {
		b := NewBoard(nil)
		b.Report(failed(&disk.Facts{ID: disk.ID{Name: "vdb"}}, tt.d, "", errors.New("no"), disk.Tries{Wait: time.Second}))
		if got := b.Lines()[0].Remedy; got != "hotmount tries again; to try at once: "+tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestUnselected checks that an unselected disk has a line on the board until something uses the disk. An unselected
// disk must be logged once for each attachment.
func TestUnselected(t *testing.T) {
	f, c := facts("S"), &disk.Content{Kind: disk.Unread}
	unselected, used := disk.Decision{Action: disk.Ignore, Reason: disk.ReasonUnselected}, disk.Decision{Action: disk.Ignore, Reason: disk.ReasonNoClass}
	b := NewBoard(nil)
	for i, again := range []bool{false, true} {
		if b.Repeats(decisionEvent(f, c, settings(), unselected)) != again {
			t.Errorf("time %d: logged before: %v", i, !again)
		}
		b.Report(decisionEvent(f, c, settings(), unselected))
		lines := b.Lines()
		if len(lines) != 1 || lines[0].Next == "" {
			t.Errorf("%+v", lines)
		}
		next := *f
		next.Seq++
		if later := NewBoard(lines); !later.Repeats(decisionEvent(f, c, settings(), unselected)) || later.Repeats(decisionEvent(&next, c, settings(), unselected)) {
			t.Error("the next daemon logs the same disk again, or does not log the next one")
		}
		if b.Report(decisionEvent(f, c, settings(), used)); len(b.Lines()) != 0 {
			t.Errorf("in use: %+v", b.Lines())
		}
	}
}

// TestSince checks that Line.Since keeps its value while the decision for an attachment stays the same, even after a
// restart of the daemon.
func TestSince(t *testing.T) {
	then := time.Now().UTC().Add(-time.Hour)
	refused := disk.Decision{Action: disk.Refuse, Reason: disk.ReasonUnknown, Class: "default"}
	held := disk.Decision{Action: disk.Hold, Reason: disk.ReasonFormatOff, Class: "default"}
	for _, test := range []struct {
		name   string
		former []disk.Line
		decide []disk.Decision
		same   bool
	}{
		{"first", nil, []disk.Decision{refused}, false},
		{"as before the restart", []disk.Line{{Disk: "vdb", Seq: 12, Decision: refused, Since: then}}, []disk.Decision{refused}, true},
		{"and once more", []disk.Line{{Disk: "vdb", Seq: 12, Decision: refused, Since: then}}, []disk.Decision{refused, refused}, true},
		{"otherwise", []disk.Line{{Disk: "vdb", Seq: 12, Decision: refused, Since: then}}, []disk.Decision{held}, false},
		{"otherwise, and again", []disk.Line{{Disk: "vdb", Seq: 12, Decision: refused, Since: then}}, []disk.Decision{held, refused}, false},
		{"another disk", []disk.Line{{Disk: "vdb", Seq: 11, Decision: refused, Since: then}}, []disk.Decision{refused}, false},
		{"of a version that did not say", []disk.Line{{Disk: "vdb", Seq: 12, Decision: refused}}, []disk.Decision{refused}, false},
	} {
		for i := range test.former {
			test.former[i].Why = line(decisionEvent(facts("S"), &disk.Content{}, settings(), test.former[i].Decision)).Why
		}
		b := NewBoard(test.former)
		repeats := len(test.former) > 0 && test.former[0].Seq == 12 && test.former[0].Decision == test.decide[0]
		if got := b.Repeats(decisionEvent(facts("S"), &disk.Content{}, settings(), test.decide[0])); got != repeats {
			t.Errorf("%s: logged before: %t", test.name, got)
		}
		if b.Repeats(decisionEvent(facts("S"), &disk.Content{}, settings(), disk.Decision{Action: disk.Mount})) {
			t.Errorf("%s: a mount counts as logged before", test.name)
		}
		for _, d := range test.decide {
			b.Report(decisionEvent(facts("S"), &disk.Content{}, settings(), d))
		}
		if b.Repeats(decisionEvent(facts("S"), &disk.Content{}, settings(), test.decide[0])) {
			t.Errorf("%s: logged before, although another decision came since", test.name)
		}
		if got := b.Lines()[0].Since; got.Equal(then) != test.same || got.IsZero() {
			t.Errorf("%s: since %s", test.name, got)
		}
	}
	l := line(decisionEvent(facts("S"), &disk.Content{}, settings(), refused))
	l.Why = "in other words"
	if NewBoard([]disk.Line{l}).Repeats(decisionEvent(facts("S"), &disk.Content{}, settings(), refused)) {
		t.Error("logged before, although the words differ")
	}
}
