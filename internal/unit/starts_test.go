package unit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
)

// nth returns a mount unit for the test disk with the given number.
func nth(i int) MountUnit {
	u := mountUnit()
	u.ID = disk.ID{Name: fmt.Sprintf("vd%c", 'b'+i), Seq: uint64(12 + i)}
	u.Path = fmt.Sprintf("/mnt/disks/5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e%02d", i)
	return u
}

// The type `asked` contains the results of one call of StartMount.
type asked struct {
	over func()
	err  error
}

// The function `waits` calls StartMount in a goroutine, and returns when the mount is in the queue.
func waits(t *testing.T, ctx context.Context, m *Manager, u MountUnit) <-chan asked {
	t.Helper()
	waiting := func() int {
		m.starts.mu.Lock()
		defer m.starts.mu.Unlock()
		return len(m.starts.waiting)
	}
	before, answer := waiting(), make(chan asked, 1)
	go func() {
		over, err := m.StartMount(ctx, u)
		answer <- asked{over, err}
	}()
	for limit := background(t); waiting() == before; {
		if limit.Err() != nil {
			t.Fatal("StartMount does not wait")
		}
	}
	return answer
}

// The function `busy` returns a Manager with one mount under way. New mounts wait up to an hour for this mount.
func busy(t *testing.T, p *pid1) (m *Manager, over func()) {
	t.Helper()
	m = p.manager()
	m.transient, m.starts.maxWait = t.TempDir(), time.Hour
	over, err := m.StartMount(background(t), nth(0))
	if err != nil {
		t.Fatal(err)
	}
	return m, over
}

// wantedTogether is the request that PID 1 must get after two mounts have waited for another mount.
const wantedTogether = `StartTransientUnit hotmounts-13.service fail [
  Description "Mount several disks at once (2)"
  Type "oneshot"
  ExecStart [["/usr/bin/mount", ["/usr/bin/mount", "--all", "--fork", "--fstab", "/proc/self/fd/0"], false]]
  Conditions [["ConditionPathIsSymbolicLink", false, true, "/mnt/disks/5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e01"], ["ConditionPathIsSymbolicLink", false, true, "/mnt/disks/5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e02"]]
  StandardInput "data"
  StandardInputData "/dev/disk/by-diskseq/13 /mnt/disks/5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e01 xfs noatime,nodev,nosuid 0 0\n/dev/disk/by-diskseq/14 /mnt/disks/5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e02 ext4 defaults 0 0\n"
  Environment ["LC_ALL=C"]
  TimeoutStartUSec @t 1800000000
  CollectMode "inactive-or-failed"
  DefaultDependencies false
  Conflicts ["shutdown.target"]
  Before ["shutdown.target", "mnt-disks-5f0c8f3e\\x2d2b3c\\x2d4d61\\x2d9c2e\\x2d0a1b2c3d4e01.mount", "mnt-disks-5f0c8f3e\\x2d2b3c\\x2d4d61\\x2d9c2e\\x2d0a1b2c3d4e02.mount"]
  Wants ["mnt-disks-5f0c8f3e\\x2d2b3c\\x2d4d61\\x2d9c2e\\x2d0a1b2c3d4e01.mount", "mnt-disks-5f0c8f3e\\x2d2b3c\\x2d4d61\\x2d9c2e\\x2d0a1b2c3d4e02.mount"]
] [
  UNIT 1
  UNIT 2
]`

// TestTogether checks that mounts wait while another mount is under way, and then start together. Each mount unit must
// have the same properties as a mount unit that starts alone, except for its log level.
func TestTogether(t *testing.T) {
	p := startPID1(t)
	m, over := busy(t, p)
	first := nth(1)
	second := nth(2)
	first.Timeout, second.Type, second.Options = 30*time.Minute, "ext4", nil
	one := waits(t, background(t), m, first)
	two := waits(t, background(t), m, second)
	before := p.calls()
	over()
	for _, answer := range []<-chan asked{one, two} {
		if a := <-answer; a.err != nil {
			t.Error(a.err)
		} else {
			defer a.over()
		}
	}
	want := wantedTogether
	for i, u := range []MountUnit{first, second} {
		alone := startPID1(t)
		if over, err := alone.manager().StartMount(background(t), u); err != nil {
			t.Fatal(err)
		} else {
			over()
		}
		_, properties, _ := strings.Cut(alone.calls(), " fail [\n")
		properties = strings.TrimSuffix(properties, "\n] []") + "\n  LogLevelMax 5\n  SyslogLevel 5"
		want = strings.Replace(want, fmt.Sprintf("UNIT %d", i+1), Name(u.Path)+" ["+strings.ReplaceAll("\n"+properties, "\n", "\n  ")+"\n  ]", 1)
	}
	if diff := cmp.Diff(want, strings.TrimPrefix(p.calls(), before+"\n")); diff != "" {
		t.Errorf("calls to PID 1 (-want +got):\n%s", diff)
	}
}

// TestTurn checks that a new mount waits for all mounts under way, but not for mounts that are over.
func TestTurn(t *testing.T) {
	p := startPID1(t)
	m, over := busy(t, p)
	one, two := waits(t, background(t), m, nth(1)), waits(t, background(t), m, nth(2))
	over()
	over()
	a, b := <-one, <-two
	three := waits(t, background(t), m, nth(3))
	a.over()
	a.over() // the second call has no effect
	if got := p.calls(); strings.Contains(got, Name(nth(3).Path)) {
		t.Errorf("a mount is still under way, and PID 1 got %s", got)
	}
	b.over()
	if c := <-three; c.err != nil {
		t.Error(c.err)
	} else {
		c.over()
	}
	if len(m.starts.turn) > 0 {
		t.Error("all mounts are over, and the turn has not ended")
	}
	if got, want := p.calls(), fmt.Sprintf("\nStartTransientUnit %s%d.service fail [", togetherUnit, nth(3).ID.Seq); !strings.Contains(got, want) {
		t.Errorf("a mount just after several was not started by a service: %s", got)
	}
	// The last batch is now so long ago that PID 1 no longer delays the jobs of mount units.
	m.starts.lastBatch = time.Now().Add(-2 * heldBack)
	if over, err := m.StartMount(background(t), nth(4)); err != nil {
		t.Error(err)
	} else {
		over()
	}
	if got := p.calls(); !strings.Contains(got, "\nStartTransientUnit "+Name(nth(4).Path)+" fail [") {
		t.Errorf("a mount long after several was not started alone: %s", got)
	}
}

// TestWaitMost checks that a slow mount delays other mounts for no longer than waitMost.
func TestWaitMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var ends, last atomic.Int64
		turn := func() {
			ends.Add(1)
			last.Store(int64(time.Since(began)))
		}
		ended := func(want int64) {
			t.Helper()
			if synctest.Wait(); ends.Load() != want {
				t.Errorf("after %s it has ended %d times, want %d", time.Since(began), ends.Load(), want)
			}
		}
		all := []*start{{}, {}}
		endTurn(all, waitMost, turn)
		all[0].over()
		all[0].over()
		ended(0)
		time.Sleep(time.Minute)
		if ended(1); last.Load() != int64(waitMost) {
			t.Errorf("it ends after %s", time.Duration(last.Load()))
		}
		all[1].over()
		ended(1)
		endTurn(nil, waitMost, turn)
		ended(2)
		one := []*start{{}}
		endTurn(one, waitMost, turn)
		ended(2)
		one[0].over()
		ended(3)
		time.Sleep(time.Minute)
		ended(3)
	})
}

// TestGivenUp checks that hotmount does not start a waiting mount whose caller has cancelled the call.
func TestGivenUp(t *testing.T) {
	p := startPID1(t)
	m, over := busy(t, p)
	ctx, cancel := context.WithCancel(background(t))
	one := waits(t, ctx, m, nth(1))
	two := waits(t, background(t), m, nth(2))
	cancel()
	if a := <-one; !errors.Is(a.err, context.Canceled) {
		t.Errorf("cancelled: %v", a.err)
	} else {
		a.over()
	}
	over()
	if a := <-two; a.err != nil {
		t.Error(a.err)
	} else {
		a.over()
	}
	if got := p.calls(); strings.Contains(got, Name(nth(1).Path)) || strings.Contains(got, togetherUnit) {
		t.Errorf("PID 1 got %s", got)
	}
}

// TestNotTogether checks that hotmount requests each mount alone, if the common request fails. Each mount must get its
// own result.
func TestNotTogether(t *testing.T) {
	for name, tt := range map[string]struct {
		refuse string
		want   string // the expected error of each mount
	}{
		"refused together": {togetherUnit, ""},
		"all are refused":  {".", "said no"},
	} {
		p := startPID1(t)
		m, over := busy(t, p)
		p.mu.Lock()
		p.refuseOnly, p.refuse = tt.refuse, "org.freedesktop.DBus.Error.LimitsExceeded"
		p.mu.Unlock()
		var waiting []<-chan asked
		for i := range 3 {
			waiting = append(waiting, waits(t, background(t), m, nth(i+1)))
		}
		over()
		for i := range waiting {
			a := <-waiting[i]
			a.over()
			if (a.err == nil) != (tt.want == "") || a.err != nil && !strings.Contains(a.err.Error(), tt.want) {
				t.Errorf("%s: %d: %v", name, i, a.err)
			}
			if !strings.Contains(p.calls(), "StartTransientUnit "+Name(nth(i+1).Path)+" ") {
				t.Errorf("%s: mount %d was not started alone", name, i)
			}
		}
	}
}

// TestHeld checks that CheckHeldBack returns an error only if the mount unit exists while a service mounts several
// disks.
func TestHeld(t *testing.T) {
	for name, tt := range map[string]struct {
		files []string
		want  bool
	}{
		"nothing":              {nil, false},
		"the unit":             {[]string{Name(mountUnit().Path)}, false},
		"a service":            {[]string{togetherUnit + "12.service"}, false},
		"the unit and service": {[]string{Name(mountUnit().Path), togetherUnit + "12.service"}, true},
		"no such service":      {[]string{Name(mountUnit().Path), "a" + togetherUnit + "12.service", togetherUnit + "12.mount"}, false},
	} {
		m := &Manager{transient: t.TempDir()}
		for _, f := range tt.files {
			if err := os.WriteFile(filepath.Join(m.transient, f), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.CheckHeldBack(mountUnit().Path); (err != nil) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLine checks that libmount reads the values of a mount unit from the fstab(5) line that hotmount writes.
func TestLine(t *testing.T) {
	u := mountUnit()
	u.Path = "/srv/a b\\040\t#\n\"c/" + uuid
	table := filepath.Join(t.TempDir(), "fstab")
	plain := mountUnit()
	plain.Options = nil
	if err := os.WriteFile(table, []byte(u.line()+plain.line()), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "findmnt", "--tab-file", table, "--fstab", "--raw", "--noheadings", "--output", "SOURCE,TARGET,FSTYPE,OPTIONS").CombinedOutput()
	// findmnt(8) itself prints special characters as \xHH.
	want := `/dev/disk/by-diskseq/12 /srv/a\x20b\x5c040\x09#\x0a"c/` + uuid + ` xfs noatime,nodev,nosuid
/dev/disk/by-diskseq/12 /mnt/disks/` + uuid + ` xfs defaults
`
	if diff := cmp.Diff(want, string(out)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestLostAnswer checks that hotmount repeats a request to PID 1 once, and only once, after a lost answer.
func TestLostAnswer(t *testing.T) {
	for lost, want := range map[int]int{0: 1, 1: 2, 2: 2} {
		p := startPID1(t)
		p.lose = lost
		over, err := p.manager().StartMount(background(t), mountUnit())
		over()
		if (err != nil) != (lost == 2) {
			t.Errorf("%d lost: %v", lost, err)
		}
		if got := strings.Count(p.calls(), "StartTransientUnit "); got != want {
			t.Errorf("%d lost: PID 1 got %d calls, want %d", lost, got, want)
		}
	}
}
