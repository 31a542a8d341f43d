package unit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
)

// nth gives one of many mount units.
func nth(i int) MountUnit {
	u := mountUnit()
	u.ID = disk.ID{Name: fmt.Sprintf("vd%c", 'b'+i), Seq: uint64(12 + i)}
	u.Path = fmt.Sprintf("/mnt/disks/5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e%02d", i)
	return u
}

// wantedByService is all that PID 1 is asked for where another mount was asked for just before.
const wantedByService = `StartTransientUnit hotmount-mount-13.service fail [
  Description "Mount xfs 5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f on /dev/vdb"
  Type "oneshot"
  ExecStart [["/usr/bin/mount", ["/usr/bin/mount", "--all", "--fstab", "/proc/self/fd/0"], false]]
  Conditions [["ConditionPathIsSymbolicLink", false, true, "/mnt/disks/5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e01"]]
  StandardInput "data"
  StandardInputData "/dev/disk/by-diskseq/13 /mnt/disks/5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e01 xfs noatime,nodev,nosuid 0 0\n"
  Environment ["LC_ALL=C"]
  TimeoutStartUSec @t 900000000
  CollectMode "inactive-or-failed"
  DefaultDependencies false
  Conflicts ["shutdown.target"]
  Before ["shutdown.target", "mnt-disks-5f0c8f3e\\x2d2b3c\\x2d4d61\\x2d9c2e\\x2d0a1b2c3d4e01.mount"]
  Wants ["mnt-disks-5f0c8f3e\\x2d2b3c\\x2d4d61\\x2d9c2e\\x2d0a1b2c3d4e01.mount"]
] [
  UNIT
]`

// TestByService: a mount that is asked for just after another goes by a service. The mount unit has all
// that it has alone, and only logs less.
func TestByService(t *testing.T) {
	p, alone := startPID1(t), startPID1(t)
	m := p.manager()
	if err := m.StartMount(background(t), nth(0)); err != nil {
		t.Fatal(err)
	}
	before := p.calls()
	if strings.Contains(before, serviceUnit) {
		t.Errorf("the first one goes by a service: %s", before)
	}
	if err := m.StartMount(background(t), nth(1)); err != nil {
		t.Fatal(err)
	}
	if err := alone.manager().StartMount(background(t), nth(1)); err != nil {
		t.Fatal(err)
	}
	_, properties, _ := strings.Cut(alone.calls(), " fail [\n")
	properties = strings.TrimSuffix(properties, "\n] []") + "\n  LogLevelMax 5\n  SyslogLevel 5"
	want := strings.Replace(wantedByService, "UNIT", Name(nth(1).Path)+" ["+strings.ReplaceAll("\n"+properties, "\n", "\n  ")+"\n  ]", 1)
	if diff := cmp.Diff(want, strings.TrimPrefix(p.calls(), before+"\n")); diff != "" {
		t.Errorf("asked of PID 1 (-want +got):\n%s", diff)
	}
}

// TestSoonAfterAnother: PID 1 may hold back what is asked for within a second and a half of the last one.
func TestSoonAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s starts
		if s.soonAfterAnother() {
			t.Error("the first one comes after another")
		}
		for _, tt := range []struct {
			after time.Duration
			want  bool
		}{{0, true}, {heldBack - 1, true}, {heldBack - 1, true}, {heldBack, false}, {time.Second, true}, {time.Hour, false}} {
			time.Sleep(tt.after)
			if got := s.soonAfterAnother(); got != tt.want {
				t.Errorf("%s after the one before: %v", tt.after, got)
			}
		}
	})
}

// TestNotByService: where PID 1 refuses the service the mount unit is asked for alone, and has its own answer.
func TestNotByService(t *testing.T) {
	for name, tt := range map[string]struct {
		refuse string
		want   string // what the error says
	}{
		"the service is refused": {serviceUnit, ""},
		"all is refused":         {".", "said no"},
	} {
		p := startPID1(t)
		m := p.manager()
		if err := m.StartMount(background(t), nth(0)); err != nil {
			t.Fatal(err)
		}
		p.mu.Lock()
		p.refuseOnly, p.refuse = tt.refuse, "org.freedesktop.DBus.Error.LimitsExceeded"
		p.mu.Unlock()
		err := m.StartMount(background(t), nth(1))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(p.calls(), "StartTransientUnit "+Name(nth(1).Path)+" ") {
			t.Errorf("%s: it is not asked for alone", name)
		}
	}
}

// TestLine: mount(8)'s library reads in the table what the mount unit says.
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
	// findmnt(8) itself writes what is no plain character as \xHH.
	want := `/dev/disk/by-diskseq/12 /srv/a\x20b\x5c040\x09#\x0a"c/` + uuid + ` xfs noatime,nodev,nosuid
/dev/disk/by-diskseq/12 /mnt/disks/` + uuid + ` xfs defaults
`
	if diff := cmp.Diff(want, string(out)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
