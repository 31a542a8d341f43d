package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"hotmount/internal/config"
	"hotmount/internal/disk"
	"hotmount/internal/helper"
	"hotmount/internal/inventory"
	"hotmount/internal/nodetest"
	"hotmount/internal/usage"
)

// prove returns the Prover of the hotmount commands, for the test node h.
func prove(h inventory.Host) Prover {
	return func(ctx context.Context, f *disk.Facts, s *disk.Settings) (disk.Content, error) {
		return helper.Prove(ctx, h, f, s)
	}
}

func TestPlan(t *testing.T) {
	h := nodetest.New(t)
	makeState(t, h)
	settings := config.Default()
	table := func() string {
		t.Helper()
		var b strings.Builder
		if _, err := Plan(t.Context(), h, &b, &settings, prove(h), false); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	const want = `DISK  SIZE   SERIAL        DECISION  WHY
vda   5 GiB                ignore    the disk carries the system: / is on the disk
vdb   5 GiB  DATA-1        mount     the disk holds xfs 0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f
vdc   5 GiB  \x1b[2J\n\tx  refuse    the disk holds LVM2_member\x1b[31m; nothing on the disk may be overwritten yet: the state directory is not initialised; what helps: hotmount state init`
	got := table()
	if !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 4 {
		t.Errorf("got\n%s", got)
	}

	// The table must have no line for a loop device without a size. The table must have a line for a disk of a class,
	// even if the disk has no size.
	nodetest.Write(t, h.Root, map[string]string{"sys/block/loop0/dev": "7:0\n", "sys/block/loop0/diskseq": "1\n", "sys/block/loop0/size": "0\n",
		"sys/block/loop0/ro": "0\n", "sys/block/loop0/removable": "0\n", "sys/block/loop0/queue/rotational": "0\n",
		"sys/block/loop0/queue/logical_block_size": "512\n", "sys/block/loop0/stat": "1 2 3 4 5 6 7 8 9 10 11\n"})
	nodetest.Write(t, h.Root, map[string]string{"sys/devices/pci0000:00/0000:20:00.0/block/vdc/size": "0\n"})
	if got := table(); strings.Contains(got, "loop0") || !strings.Contains(got, "vdc   0 B") {
		t.Errorf("got\n%s", got)
	}

	// The machine that runs the test has no disk vdzz, so plan cannot open the disk. As root, plan must print that the
	// disk cannot be opened. For other users, plan must print that only root can read the disk. Even if one disk cannot
	// be opened, the table must have the lines of all other disks.
	if _, err := h.Store.Init(nil); err != nil {
		t.Fatal(err)
	}
	nodetest.Attach(t, h.Root, "vdzz", 48, "NEW")
	got = table()
	reason := "to read the disk, run as root: hotmount plan"
	if os.Geteuid() == 0 {
		reason = "cannot open vdzz (disk sequence number 1048): "
	}
	line := got[strings.Index(got, "vdzz"):]
	if !strings.Contains(line, "prove") || !strings.Contains(line, reason) || strings.Count(got, "\n") != 5 {
		t.Errorf("want %q, got\n%s", reason, got)
	}

	// If hotmount cannot gather the facts, Plan must print no table, because the table would be wrong.
	nodetest.Write(t, h.Root, map[string]string{"proc/swaps": "nonsense\n"})
	var b strings.Builder
	if _, err := Plan(t.Context(), h, &b, &settings, prove(h), false); err == nil || b.Len() != 0 {
		t.Errorf("with unreadable swap: %v, %q", err, b.String())
	}
}

// TestPlanOfOtherSettings checks that plan names the settings that differ from the daemon's settings.
func TestPlanOfOtherSettings(t *testing.T) {
	h := nodetest.New(t)
	settings := config.Default()
	said := func() string {
		t.Helper()
		var b strings.Builder
		if err := OtherSettings(&b, h.Store, &settings); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if got := said(); got != "" {
		t.Errorf("without a daemon: %s", got)
	}
	theirs := config.Default()
	if err := h.Store.SaveSettings(&theirs); err != nil {
		t.Fatal(err)
	}
	if got := said(); got != "" {
		t.Errorf("with the daemon's own settings: %s", got)
	}
	settings.Settle++
	settings.Classes[0].Grow = !settings.Classes[0].Grow
	if got := said(); !strings.Contains(got, "other values for: classes, settle\n") {
		t.Errorf("with others: %q", got)
	}
}

// TestFailing checks that plan, explain and status describe a failure in the same way: what fails, how often, and when
// the daemon tries again. Each failure that the daemon publishes belongs to one attachment of the disk and to one
// decision. For any other attachment or decision, the commands must not show the failure.
func TestFailing(t *testing.T) {
	h := nodetest.New(t)
	settings := config.Default()
	line := disk.Line{Disk: "vdb", Seq: 1016, Decision: disk.Decision{Action: disk.Mount}, Failure: "no way", Remedy: "another way", Tries: 7, Retry: time.Now()}
	all := func(l disk.Line) (shown [3]string) {
		t.Helper()
		if err := h.Store.Publish([]disk.Line{l}); err != nil {
			t.Fatal(err)
		}
		var plan, explained strings.Builder
		_, err := Plan(t.Context(), h, &plan, &settings, prove(h), false)
		if err != nil {
			t.Fatal(err)
		}
		dump, err := DumpOf(t.Context(), h, "vdb", &settings, prove(h), "1")
		if err == nil {
			err = Explain(&explained, dump)
		}
		if err != nil {
			t.Fatal(err)
		}
		st, err := GetStatus(t.Context(), h, &settings, usage.Hung{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range st.Disks {
			if d := &st.Disks[i]; d.Disk == "vdb" {
				shown[2] = d.Why + "; " + d.Next
			}
		}
		return [3]string{plan.String(), explained.String(), shown[2]}
	}
	// In this test the daemon is down.
	for i, got := range all(line) {
		if !strings.Contains(got, "no way") || !strings.Contains(got, "systemctl start hotmount") {
			t.Errorf("%d does not tell of the failure:\n%s", i, got)
		}
	}
	for name, change := range map[string]func(*disk.Line){
		"another attachment": func(l *disk.Line) { l.Seq++ },
		"another decision":   func(l *disk.Line) { l.Decision.Action = disk.Hold },
		"no failure":         func(l *disk.Line) { l.Failure = "" },
	} {
		l := line
		change(&l)
		for i, got := range all(l) {
			if os.Geteuid() != 0 && i == 2 && l.Decision.Action == disk.Hold {
				continue // users other than root see the decision of the daemon
			}
			if strings.Contains(got, "no way") {
				t.Errorf("%s: %d tells of a failure:\n%s", name, i, got)
			}
		}
	}
	why, next := failing(&line, line.Decision, "running")
	if want := "no way; failed 7 times so far, next try at " + line.Retry.UTC().Format("15:04:05 MST"); why != want || next != "another way" {
		t.Errorf("%q, %q", why, next)
	}
	// A dump may come from an untrusted machine.
	var b strings.Builder
	d, err := DumpOf(t.Context(), h, "vdb", &settings, prove(h), "1")
	if err != nil {
		t.Fatal(err)
	}
	d.Fails, d.Helps = "\x1b[2J", "\x1b[3J"
	if err := Explain(&b, d); err != nil || strings.Contains(b.String(), "\x1b") || !strings.Contains(b.String(), "The last try failed: \ufffd[2J\nWhat helps: \ufffd[3J\n") {
		t.Errorf("%v: %q", err, b.String())
	}
}

// TestDumpOfAnIntent checks that a printed dump contains whether the disk of the unfinished format is still attached.
func TestDumpOfAnIntent(t *testing.T) {
	settings := config.Default()
	for _, attached := range []bool{false, true} {
		f := &disk.Facts{ID: disk.ID{Name: "vdb"}}
		f.Standing.Intent = &disk.Intent{Attached: attached}
		printed, err := json.Marshal(newDump("1", &settings, f, &disk.Content{}))
		if err != nil {
			t.Fatal(err)
		}
		if d, err := ReadDump(bytes.NewReader(printed), "-"); err != nil || d.Facts.Standing.Intent.Attached != attached {
			t.Errorf("%v: %v", attached, err)
		}
	}
}

// TestPlanSaysWhatIsOff checks that hotmount mounts a filesystem even if the state is lost or the hold file exists. If
// the state is lost or the hold file exists, hotmount must hold a blank disk, and plan must name the cause.
func TestPlanSaysWhatIsOff(t *testing.T) {
	h := nodetest.New(t)
	nodetest.Attach(t, h.Root, "vdd", 48, "NEW")
	settings := config.Default()
	rows := func() map[string]string {
		t.Helper()
		var b strings.Builder
		if _, err := Plan(t.Context(), h, &b, &settings, prove(h), false); err != nil {
			t.Fatal(err)
		}
		by := map[string]string{}
		for line := range strings.Lines(b.String()) {
			by[line[:3]] = line
		}
		return by
	}
	check := func(what, vdd string) {
		t.Helper()
		by := rows()
		if !strings.Contains(by["vdb"], string(disk.Mount)) || !strings.Contains(by["vdd"], string(disk.Hold)) || !strings.Contains(by["vdd"], vdd) {
			t.Errorf("%s: %q, %q", what, by["vdb"], by["vdd"])
		}
	}
	check("not installed", "the disk was attached before hotmount was installed")
	makeState(t, h)
	check("lost", "hotmount state init")
	if _, err := h.Store.Init(nil); err != nil {
		t.Fatal(err)
	}
	nodetest.Write(t, h.Root, map[string]string{"etc/hotmount/hold": ""})
	check("held", "/etc/hotmount/hold exists")
}

// makeState makes an empty state directory, as after a loss of the state.
func makeState(t *testing.T, h inventory.Host) {
	t.Helper()
	if err := os.MkdirAll(h.Store.State, 0o700); err != nil {
		t.Fatal(err)
	}
}

// running makes the node look as if the daemon runs.
func running(t *testing.T, h inventory.Host) {
	t.Helper()
	nodetest.Write(t, h.Root, map[string]string{"sys/fs/cgroup/system.slice/hotmount.service/cgroup.procs": "8\n", "proc/8/cmdline": "/usr/bin/hotmount\x00run\x00"})
}

// TestExplainReads checks that explain reads a disk only as root, and only if the daemon does not read the disk.
func TestExplainReads(t *testing.T) {
	h := nodetest.New(t)
	if _, err := h.Store.Init(nil); err != nil {
		t.Fatal(err)
	}
	nodetest.Attach(t, h.Root, "vdzz", 48, "NEW")
	if err := h.Store.Publish([]disk.Line{{Disk: "vdzz", Seq: 1048, Decision: disk.Decision{Action: disk.Prove}}}); err != nil {
		t.Fatal(err)
	}
	settings := config.Default()
	reads := func() (done bool) {
		t.Helper()
		read := func(context.Context, *disk.Facts, *disk.Settings) (disk.Content, error) {
			done = true
			return disk.Content{}, nil
		}
		if _, err := DumpOf(t.Context(), h, "vdzz", &settings, read, "1"); err != nil {
			t.Fatal(err)
		}
		return done
	}
	if got, want := reads(), os.Geteuid() == 0; got != want {
		t.Errorf("without a daemon: %v", got)
	}
	running(t, h)
	if reads() {
		t.Error("explain reads a disk that the daemon reads")
	}
}

func TestDaemonReads(t *testing.T) {
	line := func(a disk.Action) *disk.Line { return &disk.Line{Decision: disk.Decision{Action: a}} }
	for _, c := range []struct {
		line   *disk.Line
		daemon string
		want   bool
	}{
		{line(disk.Prove), "running", true}, {line(disk.Format), "running", true},
		{line(disk.Prove), "down", false}, {line(disk.Hold), "running", false}, {line(disk.Ignore), "running", false}, {nil, "running", false},
	} {
		if got := daemonReads(c.line, c.daemon); got != c.want {
			t.Errorf("%+v, %s: %v", c.line, c.daemon, got)
		}
	}
}
