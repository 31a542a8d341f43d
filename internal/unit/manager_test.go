package unit

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"hotmount/internal/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const uuid = "5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f"

func mountUnit() MountUnit {
	return MountUnit{
		ID:   disk.ID{Name: "vdb", Seq: 12},
		Path: "/mnt/disks/" + uuid, Type: "xfs", Options: []string{"noatime", "nodev", "nosuid"},
		Description: "xfs " + uuid + " on /dev/vdb", Timeout: 15 * time.Minute,
	}
}

// The constant `wanted` contains every call that hotmount may send to PID 1, with all properties, in the form in which
// the call arrives on the socket.
const wanted = `StartTransientUnit mnt-disks-5f0c8f3e\x2d2b3c\x2d4d61\x2d9c2e\x2d0a1b2c3d4e5f.mount fail [
  Description "xfs 5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f on /dev/vdb"
  What "/dev/disk/by-diskseq/12"
  Where "/mnt/disks/5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
  Type "xfs"
  Options "noatime,nodev,nosuid,nofail"
  TimeoutUSec @t 900000000
  Environment ["LC_ALL=C"]
  CollectMode "inactive-or-failed"
  Before ["local-fs.target"]
  OnSuccess ["hotmount-cleanup@mnt-disks-5f0c8f3e\\x2d2b3c\\x2d4d61\\x2d9c2e\\x2d0a1b2c3d4e5f.service"]
  OnFailure ["hotmount-cleanup@mnt-disks-5f0c8f3e\\x2d2b3c\\x2d4d61\\x2d9c2e\\x2d0a1b2c3d4e5f.service"]
  OnFailureJobMode "fail"
] []
StopUnit mnt-disks-5f0c8f3e\x2d2b3c\x2d4d61\x2d9c2e\x2d0a1b2c3d4e5f.mount replace
StartUnit hotmount-format@12.service replace
StartUnit hotmount-stage@12.service replace
StartUnit hotmount-grow@12.service replace
StartUnit hotmount-users@12.service replace
RestartUnit hotmount-block@12.service replace
StopUnit hotmount-block@12.service replace
StartUnit hotmount-cleanup@mnt-disks-5f0c8f3e\x2d2b3c\x2d4d61\x2d9c2e\x2d0a1b2c3d4e5f.service replace
StartUnit hotmount-unmount@mnt-disks-5f0c8f3e\x2d2b3c\x2d4d61\x2d9c2e\x2d0a1b2c3d4e5f:254:16.service replace
Get mnt_2ddisks_2d5f0c8f3e_5cx2d2b3c_5cx2d4d61_5cx2d9c2e_5cx2d0a1b2c3d4e5f_2emount org.freedesktop.systemd1.Unit Job
Get mnt_2ddisks_2d5f0c8f3e_5cx2d2b3c_5cx2d4d61_5cx2d9c2e_5cx2d0a1b2c3d4e5f_2emount org.freedesktop.systemd1.Unit ActiveState
GetAll mnt_2ddisks_2emount org.freedesktop.systemd1.Unit
GetAll mnt_2emount org.freedesktop.systemd1.Unit
GetAll dev_2dvdb_2edevice org.freedesktop.systemd1.Unit
Get systemd1 org.freedesktop.systemd1.Manager UserspaceTimestampMonotonic`

// startMount starts a mount, and at once calls the function that StartMount returns.
func startMount(ctx context.Context, m *Manager, u MountUnit) error {
	over, err := m.StartMount(ctx, u)
	over()
	return err
}

// The list `jobs` contains a call of each Manager method that starts a job.
var jobs = []struct {
	name string
	call func(context.Context, *Manager) error
}{
	{"StartMount", func(ctx context.Context, m *Manager) error { return startMount(ctx, m, mountUnit()) }},
	{"StopMount", func(ctx context.Context, m *Manager) error { return m.StopMount(ctx, mountUnit().Path) }},
	{"Run format", program(disk.ProgramFormat)},
	{"Run fill", program(disk.ProgramFill)},
	{"Run grow", program(disk.ProgramGrow)},
	{"Run users", program(disk.ProgramUsers)},
	{"Run block", program(disk.ProgramBlock)},
	{"Stop block", func(ctx context.Context, m *Manager) error { return m.Stop(ctx, disk.ProgramBlock, disk.ID{Seq: 12}) }},
	{"Run cleanup", program(disk.ProgramCleanup)},
	{"Run unmount", program(disk.ProgramUnmount)},
}

// The function `program` returns a function that starts the given program through Manager.Run.
func program(p disk.Program) func(context.Context, *Manager) error {
	return func(ctx context.Context, m *Manager) error {
		return m.Run(ctx, p, disk.ID{Seq: 12, Dev: disk.Dev{Major: 254, Minor: 16}}, mountUnit().Path)
	}
}

// The function `format` runs ProgramFormat.
func format(ctx context.Context, m *Manager, seq uint64) error {
	return m.Run(ctx, disk.ProgramFormat, disk.ID{Seq: seq}, "")
}

// The list `everything` contains at least one call of each method that the type Manager exports.
var everything = append(slices.Clone(jobs), []struct {
	name string
	call func(context.Context, *Manager) error
}{
	{"MountEnded", func(ctx context.Context, m *Manager) error {
		_, err := m.MountEnded(ctx, mountUnit().Path, false)
		return err
	}},
	{"CheckHeldBack", func(_ context.Context, m *Manager) error { return m.CheckHeldBack(mountUnit().Path) }},      // CheckHeldBack makes no call
	{"AwaitCleanup", func(ctx context.Context, m *Manager) error { return m.AwaitCleanup(ctx, mountUnit().Path) }}, // without a directory, AwaitCleanup makes no call
	{"MissingAbove", func(ctx context.Context, m *Manager) error {
		_, err := m.MissingAbove(ctx, mountUnit().Path, "dependency")
		return err
	}},
	{"Plugged", func(ctx context.Context, m *Manager) error {
		_, err := m.Plugged(ctx, disk.ID{Name: "vdb"})
		return err
	}},
}...)

func TestWhatPID1IsAskedFor(t *testing.T) {
	p := startPID1(t)
	p.unit = map[string]any{"Job": struct {
		ID   uint32
		Path dbus.ObjectPath
	}{0, "/"}, "ActiveState": "active", "ActiveEnterTimestampMonotonic": uint64(1), "UserspaceTimestampMonotonic": uint64(1)}
	left := map[string]bool{}
	for m := range reflect.TypeFor[*Manager]().Methods() {
		left[m.Name] = true
	}
	programs := 0
	for _, e := range everything {
		method, _, _ := strings.Cut(e.name, " ")
		delete(left, method)
		if method == "Run" {
			programs++
		}
		if err := e.call(background(t), p.manager()); err != nil {
			t.Errorf("%s: %v", e.name, err)
		}
	}
	if len(left) > 0 {
		t.Errorf("no row for the methods %v", left)
	}
	source, err := os.ReadFile("../disk/program.go")
	if n := strings.Count(string(source), ` Program = "`); err != nil || n != programs {
		t.Errorf("%d of %d programs have a row, %v", programs, n, err)
	}
	if diff := cmp.Diff(wanted, p.calls()); diff != "" {
		t.Errorf("calls to PID 1 (-want +got):\n%s", diff)
	}
}

func TestResults(t *testing.T) {
	for _, result := range []string{"canceled", "timeout", "failed", "dependency", "skipped", "of tomorrow's systemd"} {
		p := startPID1(t)
		p.result = result
		for _, e := range jobs {
			if e.name == "StartMount" {
				continue // StartMount does not report the job's result, because StartMount returns before the job has ended
			}
			err := e.call(background(t), p.manager())
			var job *JobError
			if !errors.As(err, &job) || job.Result != result || job.Unit == "" || ofNode(err) {
				t.Errorf("%s, %s: %v", e.name, result, err)
			}
		}
	}
}

// TestMountEnded checks that hotmount asks PID 1 whether the job of a mount has ended. hotmount must not wait for a
// signal from PID 1.
func TestMountEnded(t *testing.T) {
	type job struct {
		ID   uint32
		Path dbus.ObjectPath
	}
	for _, test := range []struct {
		job           job
		state         string
		ended, failed bool
	}{
		{job{7, "/org/freedesktop/systemd1/job/7"}, "inactive", false, false}, // the disk's device does not exist yet
		{job{7, "/org/freedesktop/systemd1/job/7"}, "activating", false, false},
		{job{0, "/"}, "active", true, false},
		{job{0, "/"}, "failed", true, true},
		{job{0, "/"}, "inactive", true, true}, // systemd has unloaded the unit
	} {
		p := startPID1(t)
		p.result = "" // no signal comes at the end of the job
		p.unit = map[string]any{"Job": test.job, "ActiveState": test.state}
		m := p.manager()
		if err := startMount(background(t), m, mountUnit()); err != nil {
			t.Fatal(err)
		}
		ended, err := m.MountEnded(background(t), mountUnit().Path, false)
		var failed *JobError
		if ended != test.ended || errors.As(err, &failed) != test.failed || !test.failed && err != nil {
			t.Errorf("%+v: ended %v, error %v", test, ended, err)
		}
		p.noConnections(t)
		// While the file of the unit exists, MountEnded must not ask PID 1, unless the parameter `sure` is true.
		m.transient = t.TempDir()
		if err := os.WriteFile(filepath.Join(m.transient, Name(mountUnit().Path)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		asked := p.calls()
		if ended, err := m.MountEnded(background(t), mountUnit().Path, false); ended || err != nil || p.calls() != asked {
			t.Errorf("%+v: with the file there: ended %v, error %v, asked %s", test, ended, err, strings.TrimPrefix(p.calls(), asked))
		}
		if ended, _ := m.MountEnded(background(t), mountUnit().Path, true); ended != test.ended {
			t.Errorf("%+v: for sure: ended %v", test, ended)
		}
	}
	p := startPID1(t)
	p.refuse = "org.freedesktop.DBus.Error.NoReply"
	if ended, err := p.manager().MountEnded(background(t), mountUnit().Path, false); ended || err == nil {
		t.Errorf("without an answer: ended %v, error %v", ended, err)
	}
	if _, err := p.manager().MountEnded(background(t), "/etc", true); err == nil {
		t.Error("accepted a mount that is not hotmount's")
	}
}

// TestAwaitCleanup checks a directory that remains from an earlier mount. If PID 1 still runs the cleanup of the
// directory, hotmount must wait until the cleanup has ended.
func TestAwaitCleanup(t *testing.T) {
	const none, other = "org.freedesktop.systemd1.NoSuchUnit", "org.freedesktop.DBus.Error.LimitsExceeded"
	for name, tt := range map[string]struct {
		directory, loaded bool
		refuse            string
		asked             string // UNIT stands for the name of the cleanup unit
		fails             bool
	}{
		"a new mount point":                    {},
		"the unit is there":                    {directory: true, loaded: true},
		"the unit is there, its directory not": {loaded: true},
		"nobody cleans up":                     {directory: true, refuse: none, asked: "GetUnit UNIT"},
		"a cleanup is under way":               {directory: true, asked: "GetUnit UNIT\nStartUnit UNIT replace"},
		"PID 1 does not say":                   {directory: true, refuse: other, asked: "GetUnit UNIT\nStartUnit UNIT replace", fails: true},
	} {
		p := startPID1(t)
		p.refuse = tt.refuse
		m, path := p.manager(), filepath.Join(t.TempDir(), uuid)
		m.transient = t.TempDir()
		if tt.directory {
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if tt.loaded {
			if err := os.WriteFile(filepath.Join(m.transient, Name(path)), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.AwaitCleanup(background(t), path); (err != nil) != tt.fails {
			t.Errorf("%s: %v", name, err)
		}
		if got := p.calls(); got != strings.ReplaceAll(tt.asked, "UNIT", cleanupUnit(path)) {
			t.Errorf("%s: calls %q", name, got)
		}
	}
	p := startPID1(t)
	p.result = "failed"
	var failed *JobError
	if err := p.manager().AwaitCleanup(background(t), t.TempDir()); err == nil || errors.As(err, &failed) {
		t.Errorf("not one of our mount points: %v", err)
	}
	path := filepath.Join(t.TempDir(), uuid)
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := p.manager().AwaitCleanup(background(t), path); !errors.As(err, &failed) {
		t.Errorf("the failed cleanup: %v", err)
	}
}

func ofNode(err error) bool {
	var of *disk.NodeError
	return errors.As(err, &of)
}

// TestFaultsOfTheNode checks that each call returns an error of the node (disk.NodeError) if PID 1 refuses the call or
// does not run.
func TestFaultsOfTheNode(t *testing.T) {
	p := startPID1(t)
	p.refuse = "org.freedesktop.DBus.Error.LimitsExceeded"
	for _, m := range []*Manager{p.manager(), {socket: filepath.Join(t.TempDir(), "none")}} {
		for _, e := range jobs {
			if err := e.call(background(t), m); !ofNode(err) {
				t.Errorf("%s: %v", e.name, err)
			}
		}
		if _, err := m.MountEnded(background(t), mountUnit().Path, true); !ofNode(err) {
			t.Errorf("MountEnded: %v", err)
		}
		if _, err := m.Plugged(background(t), disk.ID{Name: "vdb"}); !ofNode(err) {
			t.Errorf("Plugged: %v", err)
		}
		if _, err := m.MissingAbove(background(t), mountUnit().Path, "dependency"); !ofNode(err) {
			t.Errorf("MissingAbove: %v", err)
		}
	}
}

// TestMissingAbove checks which mount unit MissingAbove returns if a mount's job failed because of a required unit. Of
// the mount units above the mount point, MissingAbove must return the nearest unit that is loaded but not active. If
// something else prevented the mount, such as a failed condition, MissingAbove must return "".
func TestMissingAbove(t *testing.T) {
	for _, test := range []struct{ load, active, result, want string }{
		{"loaded", "failed", "dependency", "mnt-disks.mount"},
		{"loaded", "inactive", "dependency", "mnt-disks.mount"},
		{"loaded", "active", "dependency", ""},
		{"not-found", "inactive", "dependency", ""},
		{"loaded", "inactive", "failed", ""},
		{"loaded", "inactive", "", ""},
	} {
		p := startPID1(t)
		p.unit = map[string]any{"LoadState": test.load, "ActiveState": test.active}
		if got, err := p.manager().MissingAbove(background(t), mountUnit().Path, test.result); err != nil || got != test.want {
			t.Errorf("%+v: %q, error %v", test, got, err)
		}
	}
}

// TestPlugged checks that Plugged returns the start time of the new userspace for a disk that was plugged before a soft
// reboot.
func TestPlugged(t *testing.T) {
	for name, test := range map[string]struct {
		state            string
		since, userspace uint64
		want             time.Duration
	}{
		"plugged later":          {"active", 70e6, 2e6, 70 * time.Second},
		"before the soft reboot": {"active", 70e6, 500e6, 500 * time.Second},
		"unplugged":              {"inactive", 70e6, 2e6, 0},
		"never":                  {"active", 0, 2e6, 0},
	} {
		p := startPID1(t)
		p.unit = map[string]any{"ActiveState": test.state, "ActiveEnterTimestampMonotonic": test.since, "UserspaceTimestampMonotonic": test.userspace}
		if got, err := p.manager().Plugged(background(t), disk.ID{Name: "vdb"}); err != nil || got != test.want {
			t.Errorf("%s: since %s, error %v", name, got, err)
		}
	}
}

// TestRefusedMount checks that no mount point remains after a refused mount. If PID 1 may still mount the disk, the
// mount point must stay.
func TestRefusedMount(t *testing.T) {
	for name, test := range map[string]struct {
		refuse string
		has    bool
		want   bool
	}{
		"refused":          {"org.freedesktop.DBus.Error.LimitsExceeded", false, true},
		"it has the unit":  {"org.freedesktop.DBus.Error.LimitsExceeded", true, false},
		"another's unit":   {"org.freedesktop.systemd1.UnitExists", false, false},
		"it takes the job": {"", false, false},
	} {
		p, m, u := startPID1(t), (*Manager)(nil), mountUnit()
		p.refuse = test.refuse
		m = p.manager()
		m.transient = t.TempDir()
		u.Path = filepath.Join(t.TempDir(), filepath.Base(u.Path))
		if err := os.Mkdir(u.Path, 0o755); err != nil {
			t.Fatal(err)
		}
		if test.has {
			if err := os.WriteFile(filepath.Join(m.transient, Name(u.Path)), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := startMount(background(t), m, u); (err != nil) != (test.refuse != "") {
			t.Errorf("%s: %v", name, err)
		}
		p.mu.Lock()
		got := slices.ContainsFunc(p.log, func(call string) bool {
			return strings.Contains(call, cleanupUnit(u.Path)) && !strings.Contains(call, "StartTransientUnit")
		})
		if got != test.want {
			t.Errorf("%s: cleaned up %v, want %v: %q", name, got, test.want, p.log)
		}
		p.mu.Unlock()
	}
}

func TestErrors(t *testing.T) {
	p := startPID1(t)
	p.refuse = "org.freedesktop.systemd1.UnitExists"
	if err := startMount(background(t), p.manager(), mountUnit()); !errors.Is(err, ErrExists) {
		t.Errorf("UnitExists: %v", err)
	}
	p.mu.Lock()
	p.refuse = "org.freedesktop.systemd1.NoSuchUnit"
	p.mu.Unlock()
	if err := p.manager().StopMount(background(t), mountUnit().Path); err != nil {
		t.Errorf("stop a missing unit: %v", err)
	}
	if err := format(background(t), p.manager(), 12); err == nil || errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "hotmount-format@12.service") {
		t.Errorf("start a missing unit: %v", err)
	}
	nobody := &Manager{socket: filepath.Join(t.TempDir(), "none")}
	if err := format(background(t), nobody, 12); err == nil || !strings.Contains(err.Error(), "cannot connect to systemd") {
		t.Errorf("without systemd: %v", err)
	}
}

// TestLost checks that hotmount starts a job again if PID 1 re-executes itself while the job runs. After PID 1 has
// re-executed itself, no signal on the old connection reports the end of the job.
func TestLost(t *testing.T) {
	p := startPID1(t)
	p.result = ""
	m := p.manager()
	ended := make(chan error)
	go func() { ended <- format(background(t), m, 12) }()
	<-p.called
	p.mu.Lock()
	p.result = "done"
	p.mu.Unlock()
	p.drop()
	if err := <-ended; err != nil {
		t.Errorf("the lost job: %v", err)
	}
	if got := p.calls(); got != "StartUnit hotmount-format@12.service replace\nStartUnit hotmount-format@12.service replace" {
		t.Errorf("PID 1 got\n%s", got)
	}
}

// TestManyAtOnce checks that hotmount closes each connection when its request has ended. On an open connection, PID 1
// would send the changes of every unit.
func TestManyAtOnce(t *testing.T) {
	p := startPID1(t)
	m := p.manager()
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if err := format(background(t), m, uint64(i)+1); err != nil {
				t.Errorf("job %d: %v", i, err)
			}
		})
	}
	all.Wait()
	p.noConnections(t)
}

// TestMountConnection checks that a mount needs only one connection, and that hotmount closes it after the request.
func TestMountConnection(t *testing.T) {
	p := startPID1(t)
	if err := startMount(background(t), p.manager(), mountUnit()); err != nil {
		t.Error(err)
	}
	p.noConnections(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all != 1 {
		t.Errorf("%d connections", p.all)
	}
}

// TestEnds checks that a cancelled call returns at once, whatever state its request has reached.
func TestEnds(t *testing.T) {
	p := startPID1(t)
	p.result = ""
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- format(ctx, p.manager(), 12) }()
	<-p.called
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("while the job is under way: %v", err)
	}
	if err := format(ctx, p.manager(), 12); !errors.Is(err, context.Canceled) {
		t.Errorf("before the request: %v", err)
	}
}

// TestNotAuthenticated checks the error if PID 1 rejects the connection. The error must contain PID 1's answer, and
// must not blame the disk.
func TestNotAuthenticated(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "private")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "REJECTED\r\n")
			io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	m := &Manager{socket: socket}
	for name, err := range map[string]error{
		"a job": format(background(t), m, 12), "a mount": startMount(background(t), m, mountUnit()),
	} {
		if !ofNode(err) || !strings.Contains(err.Error(), "authentication") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFrozen checks that hotmount does not wait forever for a PID 1 that accepts no connection.
func TestFrozen(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "private")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := format(ctx, &Manager{socket: socket}, 12); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestRefused(t *testing.T) {
	for name, change := range map[string]func(*MountUnit){
		"no sequence number":       func(u *MountUnit) { u.ID.Seq = 0 },
		"a relative path":          func(u *MountUnit) { u.Path = "mnt/" + uuid },
		"a path that is not clean": func(u *MountUnit) { u.Path = "/mnt/../etc/" + uuid },
		"no UUID":                  func(u *MountUnit) { u.Path = "/mnt/disks/etc" },
		"below the root":           func(u *MountUnit) { u.Path = "/" + uuid },
		"no path":                  func(u *MountUnit) { u.Path = "" },
		"another type":             func(u *MountUnit) { u.Type = "vfat" },
		"no type":                  func(u *MountUnit) { u.Type = "" },
		"an empty option":          func(u *MountUnit) { u.Options = []string{""} },
		"two options in one":       func(u *MountUnit) { u.Options = []string{"ro,exec"} },
		"an option with a space":   func(u *MountUnit) { u.Options = []string{"a b"} },
		"an option with a newline": func(u *MountUnit) { u.Options = []string{"a\nWhat=/dev/vda"} },
		"a specifier":              func(u *MountUnit) { u.Options = []string{"x=%h"} },
		"a quote":                  func(u *MountUnit) { u.Options = []string{`x="`} },
		"a description of lines":   func(u *MountUnit) { u.Description = "a\nb" },
		"bytes as a description":   func(u *MountUnit) { u.Description = "\xff" },
		"no time":                  func(u *MountUnit) { u.Timeout = 0 },
	} {
		p := startPID1(t)
		u := mountUnit()
		change(&u)
		if err := startMount(background(t), p.manager(), u); err == nil {
			t.Errorf("%s: mounted", name)
		}
		if p.calls() != "" {
			t.Errorf("%s: PID 1 got %s", name, p.calls())
		}
	}
	p := startPID1(t)
	for _, path := range []string{"", "/", "/etc", "/mnt/disks", "/mnt/disks/" + uuid + "/..", "/mnt/disks/" + uuid + "/", uuid} {
		if err := p.manager().StopMount(background(t), path); err == nil {
			t.Errorf("StopMount(%q) returned no error", path)
		}
		for _, program := range []disk.Program{disk.ProgramCleanup, disk.ProgramUnmount} {
			if err := p.manager().Run(background(t), program, disk.ID{Seq: 12}, path); err == nil {
				t.Errorf("Run(%s, %q) returned no error", program, path)
			}
		}
	}
	for _, program := range []disk.Program{disk.ProgramFormat, disk.ProgramFill, disk.ProgramGrow, disk.ProgramUsers, disk.ProgramBlock} {
		if err := p.manager().Run(background(t), program, disk.ID{}, mountUnit().Path); err == nil {
			t.Errorf("Run(%s) without a sequence number returned no error", program)
		}
	}
	if err := p.manager().Stop(background(t), disk.ProgramBlock, disk.ID{}); err == nil {
		t.Error("Stop without a sequence number returned no error")
	}
	if p.calls() != "" {
		t.Errorf("PID 1 got %s", p.calls())
	}
}

func TestName(t *testing.T) {
	// The wanted names are the output of systemd-escape(1) of systemd 252.
	for path, want := range map[string]string{
		"/mnt/disks/" + uuid:  `mnt-disks-5f0c8f3e\x2d2b3c\x2d4d61\x2d9c2e\x2d0a1b2c3d4e5f.mount`,
		"/srv/a b/.x/" + uuid: `srv-a\x20b-.x-5f0c8f3e\x2d2b3c\x2d4d61\x2d9c2e\x2d0a1b2c3d4e5f.mount`,
		"/.x/ü/" + uuid:       `\x2ex-\xc3\xbc-5f0c8f3e\x2d2b3c\x2d4d61\x2d9c2e\x2d0a1b2c3d4e5f.mount`,
	} {
		if got := Name(path); got != want {
			t.Errorf("Name(%q) = %s, want %s", path, got, want)
		}
	}
}

// TestExecuting checks that a call succeeds although PID 1 re-executes itself and does not answer for a while.
func TestExecuting(t *testing.T) {
	p := startPID1(t)
	before := filepath.Join(t.TempDir(), "before")
	l, err := net.Listen("unix", before)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		// From here on, nothing listens for connections until the new socket exists.
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		accepted <- errors.Join(err, c.Close(), l.Close())
	}()
	ended := make(chan error, 1)
	go func() { ended <- format(background(t), &Manager{socket: before}, 12) }()
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("unix", before); !executing(err) {
		t.Errorf("%v, %v", c, err)
	}
	if err := os.Rename(p.socket, before); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
