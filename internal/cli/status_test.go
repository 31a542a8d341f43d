package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/config"
	"hotmount/internal/disk"
	"hotmount/internal/nodetest"
	"hotmount/internal/policy"
	"hotmount/internal/usage"
)

func testStatus(at time.Time) *Status {
	const uuid = "0b0f1c6e-aaaa-4000-8000-000000000001"
	return &Status{Daemon: "down", Disks: []DiskStatus{
		{Disk: "vdb", Size: 5 << 30, Serial: "S1", Content: disk.Filesystem, Type: "xfs", UUID: uuid, Class: "default", State: "mounted", Since: at.Add(-49 * time.Hour),
			Where: "/mnt/disks/" + uuid, Used: 1, Capacity: 1000, Why: "the disk is mounted"},
		{Disk: strings.Repeat("v", 30), Size: 1023 << 40, Serial: "\x1b[31m" + strings.Repeat("S", 20), Content: disk.Other, Type: "LVM2_member_of_something", Class: strings.Repeat("c", 60),
			State: "refused", Since: at.Add(-time.Hour), Where: "/a/very/long/directory/indeed/" + uuid, Why: strings.Repeat("because of that ", 20), Next: "detach " + strings.Repeat("it ", 60)},
		{Disk: "dm-0", Name: "vg0-disk1", Serial: "LVM-x", State: "held", Why: "w"},
		{Disk: "vdd", Content: disk.Unread, State: "held", Hold: policy.HoldData, Why: "w", Next: "hotmount accept vdd", Evidence: []string{"blkid: nothing", "byte 7: \x1b"}},
	}, Missing: []MissingStatus{{UUID: uuid, Why: strings.Repeat("it was there ", 20), Next: "hotmount forget " + uuid}}, MissingUnknown: "a\x1b"}
}

// TestStatusFits checks for every state of a disk that the table is at most 100 characters wide. In the test, all
// columns other than the state have their widest values.
func TestStatusFits(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	const uuid = "0b0f1c6e-aaaa-4000-8000-000000000001"
	long := strings.Repeat("ü", 60)
	states := map[string]bool{"failed": true}
	for _, a := range []disk.Action{disk.Ignore, disk.Hold, disk.Refuse, disk.Prove, disk.Format, disk.Mount, disk.Link, disk.Grow, disk.Keep, disk.Wait} {
		for _, r := range []disk.Reason{disk.ReasonGivenOut, disk.ReasonMounted, disk.ReasonFault} {
			states[disk.Decision{Action: a, Reason: r}.State()] = true
		}
	}
	for state := range states {
		for _, size := range []uint64{0, 1023<<30 + 950<<20, 1<<64 - 1} {
			for _, where := range []string{"", long, "/mnt/disks/" + uuid, "/" + long + "/" + uuid} {
				s := &Status{Daemon: "running", Disks: []DiskStatus{{Disk: long, Size: size, Serial: long, Content: disk.Other, Type: long, Class: long, State: state,
					Since: at.Add(-24 * time.Hour * 9999), Where: where, Used: 1, Capacity: 1, Why: "w"}}}
				var b bytes.Buffer
				if err := printStatus(&b, s, false, false, at); err != nil {
					t.Fatal(err)
				}
				line := strings.Split(b.String(), "\n")[1]
				if n := utf8.RuneCountInString(line); n > columns || !strings.Contains(line, state) {
					t.Errorf("%d columns: %s", n, line)
				}
			}
		}
	}
}

// TestPrintStatus checks that the table is at most 100 columns wide, whatever the names of the disks are.
// TestPrintStatus also checks that foreign bytes do not reach the terminal.
func TestPrintStatus(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	if err := printStatus(&b, testStatus(at), false, false, at); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Errorf("an escape reaches the terminal: %q", b.String())
	}
	for _, want := range []string{
		"vdb       5 GiB     S1          xfs        default   mounted  2d     1%    /mnt/disks/0b0f1c6e…\n",
		"dm-0      0 B       vg0-disk1  ", "\ndm-0 (vg0-disk1) is held: w\n",
		"\nvdd is held (previous data): w\n  found: blkid: nothing\n  found: byte 7: \\x1b\n  what helps: hotmount accept vdd\n", "\nmissing: it was there it", "\n  what helps: hotmount forget 0b0f1c6e-aaaa-4000-8000-000000000001\n", "\ncannot list the missing filesystems: a\\x1b\n", "\nthe daemon does not run: systemctl start hotmount\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "vdb is") {
		t.Errorf("a mounted disk is explained:\n%s", b.String())
	}
	b.Reset()
	if err := printStatus(&b, testStatus(at), true, true, at); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/mnt/disks/0b0f1c6e-aaaa-4000-8000-000000000001\n", "\x1b[31mvvv", "\x1b[33mvdd"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("wide and in colour: no %q in\n%s", want, b.String())
		}
	}
}

// TestPrintIgnored checks that the text below the table gives the reason why a disk of a class is ignored. The text
// below the table must not mention the disk that carries the system. The wide table must show the beginning and the
// end of a serial of 70 characters.
func TestPrintIgnored(t *testing.T) {
	serial := "LVM-" + strings.Repeat("g", 32) + strings.Repeat("v", 28) + "VOLUME"
	s := &Status{Daemon: "running", Disks: []DiskStatus{
		{Disk: "vda", Content: disk.Other, State: "ignored", Why: "the disk carries the system: / is on it"},
		{Disk: "vdb", Content: disk.Other, Class: "default", State: "ignored", Why: "the disk is in use by md0"},
		{Disk: "dm-0", Serial: serial, Content: disk.Filesystem, Class: "default", State: "mounted"},
	}}
	for _, wide := range []bool{false, true} {
		var b bytes.Buffer
		if err := printStatus(&b, s, false, wide, time.Now()); err != nil {
			t.Fatal(err)
		}
		if text := b.String(); !strings.Contains(text, "\nvdb is ignored: the disk is in use by md0\n") || strings.Contains(text, "vda is") || strings.Contains(text, serial) || strings.Contains(text, "VOLUME ") != wide {
			t.Errorf("wide %t:\n%s", wide, text)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(line); n > columns+10 {
				t.Errorf("wide %t: %d columns: %s", wide, n, line)
			}
		}
	}
}

// TestBad checks that Bad counts refused disks and failed disks.
func TestBad(t *testing.T) {
	s := testStatus(time.Time{})
	for state, want := range map[string]int{"refused": 1, "failed": 1, "ignored": 0} {
		if s.Disks[1].State = state; s.Bad() != want {
			t.Errorf("%s: %d", state, s.Bad())
		}
	}
}

// TestStatusYAML checks that the YAML has the same keys as the JSON.
func TestStatusYAML(t *testing.T) {
	var b bytes.Buffer
	s := testStatus(time.Time{})
	s.Disks[0].Serial = "no"
	if err := s.Print(&b, "yaml", false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"daemon: \"down\"\n", "serial: \"no\"\n", "uuid: \"0b0f1c6e-aaaa"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestStatusTellsWhatFailed checks when status shows a failure that the daemon has published. Status must not show a
// failure that belongs to another attachment of the disk or to an earlier decision.
func TestStatusTellsWhatFailed(t *testing.T) {
	h := nodetest.New(t)
	settings := config.Default()
	status := func() map[string]DiskStatus {
		t.Helper()
		st, err := GetStatus(t.Context(), h, &settings, usage.Hung{})
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]DiskStatus{}
		for _, d := range st.Disks {
			all[d.Disk] = d
		}
		return all
	}
	before := status()["vdb"]
	if before.State != "unmounted" {
		t.Fatalf("got %+v", before)
	}
	line := disk.Line{Disk: "vdb", Seq: 1016, Decision: before.Decision, Failure: "no way", Remedy: "another way"}
	for _, test := range []struct {
		what   string
		change func(*disk.Line)
		want   string
	}{
		{"failed", func(*disk.Line) {}, "failed"},
		{"another disk", func(l *disk.Line) { l.Seq++ }, "unmounted"},
		{"decided otherwise since", func(l *disk.Line) { l.Decision.Action = disk.Refuse }, "unmounted"},
		{"nothing failed", func(l *disk.Line) { l.Failure = "" }, "unmounted"},
	} {
		l := line
		test.change(&l)
		if err := h.Store.Publish([]disk.Line{l}); err != nil {
			t.Fatal(err)
		}
		got := status()["vdb"]
		if os.Geteuid() != 0 && test.what == "decided otherwise since" {
			continue // users other than root see the decision of the daemon
		}
		// If the daemon is down, status must advise the operator to start the daemon. Status must not show the remedy
		// that the daemon published.
		if got.State != test.want || got.State == "failed" && (got.Why != "no way" || !strings.HasSuffix(got.Next, "systemctl start hotmount")) {
			t.Errorf("%s: %+v", test.what, got)
		}
	}
}

// TestDaemonRuns checks that a child process that outlives the daemon does not count as the daemon.
func TestDaemonRuns(t *testing.T) {
	const procs = "sys/fs/cgroup/system.slice/hotmount.service/cgroup.procs"
	for _, test := range []struct {
		name  string
		files map[string]string
		want  bool
	}{
		{"no unit", map[string]string{}, false},
		{"no process", map[string]string{procs: ""}, false},
		{"the daemon", map[string]string{procs: "7\n8\n", "proc/7/cmdline": "/proc/self/exe\x00usage\x00/a\x00", "proc/8/cmdline": "/usr/bin/hotmount\x00run\x00--x\x00"}, true},
		{"the daemon, below the hierarchy of systemd", map[string]string{strings.Replace(procs, "cgroup/", "cgroup/systemd/", 1): "8\n", "proc/8/cmdline": "/usr/bin/hotmount\x00run\x00"}, true},
		{"what it has left", map[string]string{procs: "7\n", "proc/7/cmdline": "/proc/self/exe\x00usage\x00/a\x00"}, false},
		{"what has died", map[string]string{procs: "7\n", "proc/7/cmdline": ""}, false},
		{"other users' processes are hidden", map[string]string{procs: "7\n"}, true},
	} {
		root := t.TempDir()
		nodetest.Write(t, root, test.files)
		if got := DaemonRuns(root); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}

// TestHears checks which parts of the daemon's published status appear in the output of hotmount status.
func TestHears(t *testing.T) {
	then := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
	refused := disk.Decision{Action: disk.Refuse, Reason: disk.ReasonUnknown, Class: "default"}
	mounted := disk.Decision{Action: disk.Keep, Reason: disk.ReasonMounted, Class: "default"}
	lost := disk.Decision{Action: disk.Keep, Reason: disk.ReasonLost, Class: "lvm"}
	for _, test := range []struct {
		name   string
		is     DiskStatus
		said   disk.Line
		daemon string
		want   DiskStatus
	}{
		{"since when", DiskStatus{State: "refused", Decision: refused, Since: then.Add(time.Hour)}, disk.Line{Decision: refused, Since: then}, "running",
			DiskStatus{State: "refused", Decision: refused, Since: then}},
		{"not of another decision", DiskStatus{State: "refused", Decision: refused, Since: then.Add(time.Hour)}, disk.Line{Decision: disk.Decision{Action: disk.Refuse, Reason: disk.ReasonTwin}, Since: then}, "running",
			DiskStatus{State: "refused", Decision: refused, Since: then.Add(time.Hour)}},
		{"a mount knows it better", DiskStatus{State: "mounted", Decision: mounted, Since: then.Add(time.Hour)}, disk.Line{Decision: mounted, Since: then}, "running",
			DiskStatus{State: "mounted", Decision: mounted, Since: then.Add(time.Hour)}},
		{"but not one that was there before", DiskStatus{State: "mounted", Decision: mounted}, disk.Line{Decision: mounted, Since: then}, "running",
			DiskStatus{State: "mounted", Decision: mounted, Since: then}},
		{"which disk below is gone", DiskStatus{State: "failed", Decision: lost, Why: "vdb"}, disk.Line{Decision: lost, Why: "vdb, serial PV"}, "running",
			DiskStatus{State: "failed", Decision: lost, Why: "vdb, serial PV"}},
		{"a failure", DiskStatus{State: "refused", Decision: refused}, disk.Line{Decision: refused, Failure: "f", Remedy: "r"}, "running",
			DiskStatus{State: "failed", Decision: refused, Why: "f", Next: "r"}},
		{"a failure that repeats itself", DiskStatus{State: "unmounted", Decision: refused}, disk.Line{Decision: refused, Failure: "f", Remedy: "r", Tries: 3, Retry: then}, "running",
			DiskStatus{State: "failed", Decision: refused, Why: "f; failed 3 times so far, next try at 08:00:00 UTC", Next: "r", Tries: 3, Retry: then}},
		{"a failure of a daemon that is down", DiskStatus{State: "refused", Decision: refused}, disk.Line{Decision: refused, Failure: "f", Remedy: "r"}, "down",
			DiskStatus{State: "failed", Decision: refused, Why: "f", Next: "the daemon tries again when it is started: systemctl start hotmount"}},
	} {
		got := test.is
		got.addPublished(&test.said, test.daemon)
		if os.Geteuid() != 0 && test.name == "not of another decision" {
			continue // users other than root see the decision of the daemon
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// TestStatusOfAFault checks that the text above the table names the settings in use, and why they are in use.
func TestStatusOfAFault(t *testing.T) {
	s := testStatus(time.Time{})
	s.Fault = "/etc/hotmount/config.yaml:1: formt: unknown key"
	var b bytes.Buffer
	if err := printStatus(&b, s, true, false, time.Time{}); err != nil {
		t.Fatal(err)
	}
	above, _, table := strings.Cut(b.String(), "\n\nDISK ")
	if words := strings.Join(strings.Fields(above), " "); !table || !strings.Contains(words, "last good settings") || !strings.Contains(words, s.Fault) || !strings.HasSuffix(words, "what helps: hotmount config check") {
		t.Errorf("got\n%s", b.String())
	}
	h := nodetest.New(t)
	settings := config.Default()
	settings.Fault = "x"
	st, err := GetStatus(t.Context(), h, &settings, usage.Hung{})
	if err != nil || st.Fault != "x" {
		t.Fatalf("%v, %+v", err, st)
	}
	for _, d := range st.Disks {
		if d.Disk == "vdb" && (d.State != "held" || !strings.Contains(d.Why, "configuration has a fault")) {
			t.Errorf("got %+v", d)
		}
	}
}
