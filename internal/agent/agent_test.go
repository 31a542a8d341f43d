package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hotmount/internal/disk"
)

const (
	uuidA = "aaaaaaaa-0000-4000-8000-000000000001"
	uuidB = "bbbbbbbb-0000-4000-8000-000000000002"
	uuidC = "cccccccc-0000-4000-8000-000000000003"
)

// machine is a simulated node: its disks, its mount table and the behaviour of systemd. Each action and each message of
// the agent is a line in the log of the machine. The tests compare the log as a whole.
type machine struct {
	mu       sync.Mutex
	disks    map[string]*disk.Facts
	table    []disk.MountPoint
	log      []string
	ready    time.Time
	told     map[string]disk.Facts // the facts in the last reported decision of each disk
	status   string
	statuses []string
	// statusAtReady is the last status line before READY was sent.
	statusAtReady string

	hangs       string           // the kernel name of a disk whose looks hang until hang is closed
	hang        chan struct{}    // created inside the test's synctest bubble
	mountErr    map[string]error // by kernel name
	formatErr   map[uint64]error
	lookErr     error
	sightings   []disk.Sighting
	notes       []disk.Sighting
	noteErr     error
	rememberErr error
	remembered  int  // the number of calls of Remember
	noted       int  // the length of notes at the last call of Remember
	remembers   bool // Remember hangs until hang is closed
	// The field `later` contains the names of the disks that were attached after the tested disk had left. The method
	// `newest` skips these disks, because they were never attached at the same time as the tested disk.
	later       []string
	newestErr   error
	asked       []string // the names with which the method `newest` was called
	notices     []string
	alive       int
	plugged     map[uint64]time.Time // by disk sequence number
	pluggedErr  error
	holders     map[string]string // the processes that still use the filesystem, by kernel name
	covered     map[string]bool   // mount points that another mount covers
	noEffect    bool              // mount jobs succeed, but mount nothing
	onFill      func()            // runs while a filesystem grows before its mount
	halfMade    bool              // format finds the filesystem of an unfinished mkfs
	noVerdict   bool              // a format ends without a result
	slow        bool              // mounts and formats hang until hang is closed
	grow        bool              // the setting Grow of the class
	fillErr     error
	mountWrites bool   // if true, a mount that fails writes to the disk
	mode        string // the setting Mode of the class
	running     int
	most        int
	looks       int
	gathers     int
	lookedBy    []string // each look, and how many calls of Gather came before the look
	rmdirErr    error
	keepErr     error
	again       disk.Tries // from the last failure event: the number of tries, and the wait until the next try
	lastGone    string     // the mount point in the last report that a disk is gone
	blind       bool       // from now on, no look finds a partition
	checked     []string   // the disks with which Changed was called
	changed     []string   // the names that Changed returns
	changedErr  error
	gate        func(work, name string) // called during each call of Gather, and during each look, mount, unmount, link and growth
	opener      *disk.Opener            // the process that Opener reports for every disk
	openerErr   error
}

// The constant `job` is how long each job of PID 1 takes. The agent's loop continues while a job of PID 1 runs.
const job = time.Nanosecond

// settle waits until all running jobs have ended and nothing changes any more.
func settle() {
	time.Sleep(1000 * job)
	synctest.Wait()
}

func newMachine(disks ...*disk.Facts) *machine {
	m := &machine{disks: map[string]*disk.Facts{}, told: map[string]disk.Facts{}, mountErr: map[string]error{}, formatErr: map[uint64]error{}}
	for _, d := range disks {
		m.disks[d.Name] = d
	}
	return m
}

func blankDisk(name string, seq uint64) *disk.Facts {
	return &disk.Facts{ID: disk.ID{Name: name, Dev: disk.Dev{Major: 254, Minor: uint32(name[2]-'a') * 16}, Seq: seq}, Size: 5 << 30, Udev: disk.Udev{Initialized: true}}
}

func xfsDisk(name string, seq uint64, uuid string) *disk.Facts {
	f := blankDisk(name, seq)
	f.Udev.FSUsage, f.Udev.FSType, f.Udev.FSUUID, f.Udev.FSSpan = "filesystem", "xfs", uuid, f.Size
	f.Standing.Made = true
	return f
}

func (m *machine) say(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

func (m *machine) Names(*disk.Settings) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for n := range m.disks {
		names = append(names, n)
	}
	slices.Sort(names)
	return names, nil
}

// The method `pass` calls m.gate, if a test has set m.gate. With m.gate, a test can delay a step of the agent, or
// change the machine before the step.
func (m *machine) pass(work, name string) {
	m.mu.Lock()
	gate := m.gate
	m.mu.Unlock()
	if gate != nil {
		gate(work, name)
	}
}

func (m *machine) Gather(*disk.Settings) func(name string) (disk.Facts, error) {
	m.pass("gather", "")
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gathers++
	gathering := m.gathers
	return func(name string) (disk.Facts, error) {
		f, err := m.Look(name)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.lookedBy = append(m.lookedBy, fmt.Sprintf("%s by %d", name, gathering))
		return f, err
	}
}

func (m *machine) Look(name string) (disk.Facts, error) {
	f, err := m.look(name)
	m.pass("look", name)
	return f, err
}

func (m *machine) look(name string) (disk.Facts, error) {
	m.mu.Lock()
	hangs, hang := name == m.hangs, m.hang
	m.mu.Unlock()
	if hangs {
		<-hang
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	if m.lookErr != nil {
		return disk.Facts{}, m.lookErr
	}
	d := m.disks[name]
	if d == nil || m.blind && d.Whole != "" {
		return disk.Facts{}, fmt.Errorf("cannot look at %s: %w", name, disk.ErrGone)
	}
	f := *d
	for _, p := range m.table {
		if p.Dev == f.Dev {
			f.Mounts = append(f.Mounts, p)
		}
	}
	return f, nil
}

func (m *machine) MountedAt(p string, dev disk.Dev) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.covered[p] {
		return true, errors.New("another is mounted over it")
	}
	return slices.ContainsFunc(m.table, func(e disk.MountPoint) bool { return e.Path == p && e.Dev == dev }), nil
}

func (m *machine) Attached(dev disk.Dev) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.disks {
		if d.Dev == dev {
			return d.Seq, nil
		}
	}
	return 0, nil
}

func (m *machine) Stale(*disk.Settings) ([]disk.Facts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var stale []disk.Facts
	for _, e := range m.table {
		there := false
		for _, d := range m.disks {
			there = there || d.Dev == e.Dev
		}
		if !there {
			stale = append(stale, disk.Facts{ID: disk.ID{Name: "old", Dev: e.Dev}, Mounts: []disk.MountPoint{e}})
		}
	}
	return stale, nil
}

// booted is the time at which the machine booted.
var booted = time.Date(1998, 1, 1, 0, 0, 0, 0, time.UTC)

func monotonic() time.Duration { return time.Since(booted) }

func (m *machine) Accept(f *disk.Facts, w disk.Word) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := &m.disks[f.Name].Standing
	st.Unmounted, st.Verdict = "", nil
	if w.Reason == "" {
		m.say("another try of %s", f.Name)
		return nil
	}
	m.say("accepted %s (%s)", f.Name, w.Reason)
	st.Accepted = append(st.Accepted, w)
	st.Twin = st.Twin && w.Reason != disk.ReasonTwin
	st.Braked = st.Braked && w.Reason != disk.ReasonBrake
	if w.Reason == disk.ReasonUsed {
		st.Used = nil
	}
	return nil
}

func (m *machine) RecordHold(f *disk.Facts, reason disk.Reason, how string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch reason {
	case disk.ReasonUsed:
		return m.keepUse(f, how)
	case "", disk.ReasonReleased, disk.ReasonUnmounted:
		return m.keepUnmounted(f, reason)
	}
	m.say("%s stays held: %s", f.Name, reason)
	if m.keepErr != nil {
		return m.keepErr
	}
	switch st := &m.disks[f.Name].Standing; reason {
	case disk.ReasonTwin:
		st.Twin, st.InSameSlot = true, false
	case disk.ReasonSerialTwice:
		st.Given.Twice = true
	default:
		st.Braked = true
	}
	return nil
}

func (m *machine) keepUse(f *disk.Facts, how string) error {
	m.say("%s is used by another: %s", f.Name, how)
	if m.keepErr == nil {
		m.disks[f.Name].Standing.Used = &disk.Use{Identity: f.Identity(""), UUID: f.KnownContent().UUID, How: how}
	}
	return m.keepErr
}

func (m *machine) Opener(_ context.Context, id disk.ID) (*disk.Opener, error) {
	time.Sleep(job)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say("ask who has seq %d open", id.Seq)
	return m.opener, m.openerErr
}

func (m *machine) keepUnmounted(f *disk.Facts, reason disk.Reason) error {
	if reason == "" {
		m.say("%s may be mounted", f.Name)
	} else {
		m.say("%s stays unmounted: %s", f.Name, reason)
	}
	if d := m.disks[f.Name]; d != nil {
		d.Standing.Unmounted = reason
	}
	return nil
}

// unmountGone detaches the mount of a gone disk from the mount tree. If that mount is already gone, the log names the
// processes that still use the filesystem.
func (m *machine) unmountGone(id disk.ID, p string) error {
	time.Sleep(job)
	m.mu.Lock()
	defer m.mu.Unlock()
	here := func(e disk.MountPoint) bool { return e.Path == p && e.Dev == id.Dev }
	if slices.ContainsFunc(m.table, here) {
		m.say("unmount lazily %s", p)
		if err := m.mountErr["lazily "+p]; err != nil {
			return err
		}
		m.table = slices.DeleteFunc(m.table, here)
		return nil
	}
	if who := m.holders[id.Name]; who != "" {
		m.say("%s of %s is still used by %s", p, id.Name, who)
		return errors.New("as far as can be seen")
	}
	return nil
}

func (m *machine) Plugged(_ context.Context, id disk.ID) (time.Duration, error) {
	time.Sleep(job)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.plugged[id.Seq].IsZero() || m.pluggedErr != nil {
		return 0, m.pluggedErr
	}
	return m.plugged[id.Seq].Sub(booted), nil
}

// The method `note` records what is on the disks from which hotmount mounts nothing.
func (m *machine) note(found []disk.Sighting) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notes = append(m.notes, found...)
	for _, n := range found {
		for _, f := range m.disks {
			if f.Seq != n.Identity.Seq {
				continue
			}
			f.Standing.Noted = &n
			if n.Left {
				f.Standing.Noted = nil
			}
		}
	}
	return m.noteErr
}

func (m *machine) Remember(expected bool, noted []disk.Sighting) error {
	var err error
	if expected {
		err = m.remember()
	}
	if len(noted) > 0 {
		err = errors.Join(err, m.note(noted))
	}
	return err
}

func (m *machine) remember() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.remembers {
		m.mu.Unlock()
		<-m.hang
		m.mu.Lock()
	}
	m.remembered++
	m.noted = len(m.notes)
	return m.rememberErr
}

func (m *machine) Expect(s disk.Sighting, name string) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Left {
		s.Newest, err = m.newest(name)
	}
	m.sightings = append(m.sightings, s)
	return err
}

// The method `newest` returns the highest sequence number of the disks that are not listed in m.later. The parameter
// `name` is the name of the disk that left. The name has no effect, because no attached disk has that name in these
// tests.
func (m *machine) newest(name string) (uint64, error) {
	m.asked = append(m.asked, name)
	var newest uint64
	for _, d := range m.disks {
		if !slices.Contains(m.later, cmp.Or(d.Whole, d.Name)) {
			newest = max(newest, d.DiskSeq())
		}
	}
	return newest, m.newestErr
}

func (m *machine) Notices(*disk.Settings) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.notices), nil
}

func (m *machine) Forget(seq uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say("forgot %d", seq)
	return nil
}

func (m *machine) Mount(ctx context.Context, f *disk.Facts, class *disk.Class, uuid, fstype string) error {
	time.Sleep(job)
	m.pass("mount", f.Name)
	m.mu.Lock()
	m.say("mount %s seq %d: %s at %s", f.Name, f.Seq, fstype, class.MountPoint(uuid))
	m.mu.Unlock()
	if err := m.wait(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.mountErr[f.Name]; err != nil {
		if m.mountWrites {
			m.disks[f.Name].Writes++
		}
		return err
	}
	if !m.noEffect {
		m.table = append(m.table, disk.MountPoint{Dev: f.Dev, Root: "/", Path: class.MountPoint(uuid), Type: fstype})
	}
	return nil
}

func (m *machine) wait(ctx context.Context) error {
	if !m.slow {
		return nil
	}
	select {
	case <-m.hang:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run simulates the programs that PID 1 runs.
func (m *machine) Run(ctx context.Context, p disk.Program, id disk.ID, path string) error {
	switch p {
	case disk.ProgramFormat:
		return m.format(ctx, id.Seq)
	case disk.ProgramFill:
		return m.fill(id.Seq)
	case disk.ProgramGrow:
		return m.growDisk(id.Seq)
	case disk.ProgramBlock:
		return m.giveOut(id.Seq)
	case disk.ProgramCleanup:
		return m.removeMountPoint(path)
	case disk.ProgramUnmount:
		return m.unmountGone(id, path)
	}
	return fmt.Errorf("the agent runs %s", p)
}

// format simulates ProgramFormat: a blank disk gets an XFS filesystem with a UUID made from uuidB and the disk's name.
// On a disk that is not blank, ProgramFormat finds the filesystem that udev has found.
func (m *machine) format(ctx context.Context, seq uint64) error {
	time.Sleep(job)
	m.mu.Lock()
	m.say("format seq %d", seq)
	m.running++
	m.most = max(m.most, m.running)
	m.mu.Unlock()
	if err := m.wait(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
	if err := m.formatErr[seq]; err != nil {
		return err
	}
	for _, f := range m.disks {
		if f.Seq == seq && !m.noVerdict {
			c := disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: fmt.Sprintf("%s%02x", uuidB[:34], f.Name[2]), Proven: true, Made: true}
			if f.Udev.FSUUID != "" {
				c.UUID = f.Udev.FSUUID
			}
			if m.halfMade {
				c.Kind = disk.HalfMade
			}
			f.Standing.Verdict = &disk.Verdict{Seq: seq, Size: f.Size, Writes: f.Writes, Content: c}
		}
	}
	return nil
}

// fill simulates the growth of a filesystem before its mount.
func (m *machine) fill(seq uint64) error {
	if m.onFill != nil {
		m.mu.Lock()
		m.onFill()
		m.mu.Unlock()
	}
	time.Sleep(job)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say("fill seq %d", seq)
	if m.fillErr != nil {
		return m.fillErr
	}
	for _, f := range m.disks {
		if f.Seq == seq {
			f.Standing.Fit = &disk.Fit{Seq: f.Seq, Size: f.Size, Geometry: disk.Geometry{Size: f.Size, Block: 4096}}
		}
	}
	return nil
}

// growDisk simulates the growth of a mounted filesystem.
func (m *machine) growDisk(seq uint64) error {
	time.Sleep(job)
	m.pass("grow", "")
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say("grow seq %d", seq)
	if m.noEffect {
		return nil
	}
	for _, f := range m.disks {
		if f.Seq == seq {
			if f.Geometry != nil {
				f.Geometry.Size = f.Size
			}
			f.Standing.Fit = &disk.Fit{Seq: seq, Size: f.Size, Geometry: disk.Geometry{Size: f.Size, Block: 4096}}
		}
	}
	return nil
}

func (m *machine) Unmount(_ context.Context, p string) error {
	time.Sleep(job)
	m.pass("unmount", p)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say("unmount %s", p)
	if err := m.mountErr[p]; err != nil {
		return err
	}
	if !m.noEffect {
		m.table = slices.DeleteFunc(m.table, func(e disk.MountPoint) bool { return e.Path == p })
	}
	return nil
}

func (m *machine) removeMountPoint(p string) error {
	time.Sleep(job)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say("rmdir %s", p)
	return m.rmdirErr
}

func (m *machine) Report(e disk.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := e.Facts
	switch e.Kind {
	case disk.EventDecided:
		m.say("%s: %s (%s)", f.Name, e.Decision.Action, e.Decision.Reason)
		m.told[f.Name] = *f
	case disk.EventMounted:
		m.say("%s: mounted at %s", f.Name, path.Base(e.Path))
	case disk.EventFailed:
		m.again = e.Tries
		if !e.Tries.Quiet {
			m.say("%s: failed: %v", f.Name, e.Err)
		}
	case disk.EventRecovered:
		m.say("%s: recovered", f.Name)
	case disk.EventGone:
		m.say("%s: gone", f.Name)
		m.lastGone = e.Path
	case disk.EventDisregarded:
		delete(m.told, f.Name)
	case disk.EventBounced:
		m.say("%s: bounced", f.Name)
	case disk.EventNotice:
		m.say("notice: %s", e.Notice)
	case disk.EventProblem:
		m.say("problem: %v", e.Err)
	}
}

func (m *machine) Notify(state string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch line, overall := strings.CutPrefix(state, StatusIs); {
	case overall:
		m.status, m.statuses = line, append(m.statuses, line)
	case state == Ready:
		m.say("ready")
		m.ready, m.statusAtReady = time.Now(), m.status
	case state == Reloading:
		m.say("reloading")
	case state == Alive:
		m.alive++
	}
}

func (m *machine) Changed(mounted []disk.Facts) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range mounted {
		m.checked = append(m.checked, f.Name)
	}
	return m.changed, m.changedErr
}

// The method `change` waits until the agent is idle, and then calls f to change the machine.
func (m *machine) change(f func()) {
	settle()
	m.mu.Lock()
	f()
	m.mu.Unlock()
}

// unhang lets the hanging look continue.
func (m *machine) unhang() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hangs = ""
	close(m.hang)
}

// expect waits until the agent is idle, and compares the log since the last call of expect with the expected lines.
func (m *machine) expect(t *testing.T, want string) {
	t.Helper()
	settle()
	m.mu.Lock()
	defer m.mu.Unlock()
	got := strings.Join(m.log, "\n")
	want = strings.TrimSpace(strings.ReplaceAll(want, "\t", ""))
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	m.log = nil
}

func testSettings() *disk.Settings {
	return &disk.Settings{Format: true, FormatLimit: 64, FormatPeriod: 10 * time.Minute, ReadyTimeout: 30 * time.Second, Rescan: 10 * time.Minute, Workers: 4, Classes: []disk.Class{{
		Name: "default", Selectors: disk.Selectors{Names: []string{"vd[a-z]", "vd[a-z][a-z]"}}, Directory: "/mnt/disks", Create: "xfs", Accept: []string{"xfs", "ext4"}, MinimumSize: 300 << 20,
	}}}
}

// The function `with` starts an agent on the machine, and calls the test function. Both run in a synctest bubble, which
// has its own clock. The agent must end within a second after its context ends.
func with(t *testing.T, m *machine, test func(t *testing.T, a *Agent)) {
	t.Helper()
	withHost(t, m, m, test)
}

func withHost(t *testing.T, m *machine, h Host, test func(t *testing.T, a *Agent)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m.hang = make(chan struct{})
		s := testSettings()
		s.Classes[0].Grow = m.grow
		s.Classes[0].Mode = m.mode
		a := New(h, m, m, s, 0, monotonic)
		a.phaseChanged = notePhaseChange
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		test(t, a)
		cancel()
		stopped := time.Now()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if d := time.Since(stopped); d > time.Second {
			t.Errorf("stopping took %s", d)
		}
		if m.hangs != "" {
			close(m.hang)
		}
	})
}

func TestMountsWhatIsThereAtStart(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, _ *Agent) {
		m.expect(t, `
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: mounted at `+uuidA+`
			ready`)
		if m.status != "1 mounted, 0 held, 0 refused, 0 failing" {
			t.Errorf("status %q", m.status)
		}
	})
}

func TestAdoptsWhatIsMounted(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.table = []disk.MountPoint{{Dev: m.disks["vdb"].Dev, Root: "/", Path: "/mnt/disks/" + uuidA, Type: "xfs"}}
	with(t, m, func(t *testing.T, _ *Agent) {
		m.expect(t, `
			vdb: keep (mounted)
			ready`)
	})
}

func TestFormatsAndMountsABlankDisk(t *testing.T) {
	m := newMachine()
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `ready`)
		m.change(func() { m.disks["vdb"] = blankDisk("vdb", 3) })
		for range 100 {
			a.Look("vdb")
		}
		m.expect(t, `
			vdb: prove (nothing-known-on-it)
			format seq 3
			vdb: mount (filesystem)
			mount vdb seq 3: xfs at /mnt/disks/`+uuidB[:34]+`62
			vdb: mounted at `+uuidB[:34]+`62`)
	})
}

// TestVolumeKeepsItsClass checks that a mounted volume keeps its class when another class selects its disk. The
// operator then releases the volume and accepts the disk twice. The first accept ends the release. hotmount then holds
// the disk, because the volume still belongs to the disk's former class. The second accept ends this hold.
func TestVolumeKeepsItsClass(t *testing.T) {
	vdb := xfsDisk("vdb", 2, uuidA)
	m := newMachine(vdb)
	m.table = []disk.MountPoint{{Dev: vdb.Dev, Root: "/", Path: "/mnt/disks/" + uuidA, Type: "xfs"}}
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		m.change(func() { v := m.sightings[0]; vdb.Standing.Volume, m.log = &v, nil })
		s := testSettings()
		other := s.Classes[0]
		other.Name, other.Directory = "other", "/mnt/other"
		s.Classes = append([]disk.Class{other}, s.Classes...)
		if err := a.Reload(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		settle()
		if m.status != "1 mounted, 0 held, 0 refused, 0 failing" {
			t.Errorf("status %q", m.status)
		}
		m.change(func() { m.log = nil })
		if err := a.Release(t.Context(), "vdb", 0); err != nil {
			t.Fatal(err)
		}
		settle()
		if log := strings.Join(m.log, "\n"); !strings.Contains(log, "unmount /mnt/disks/"+uuidA) {
			t.Errorf("log:\n%s", log)
		}
		m.change(func() { m.log = nil })
		for _, want := range []string{"another try of vdb\nvdb: hold (volume-of-another-class)", "accepted vdb (volume-of-another-class)"} {
			answer, err := a.Accept(t.Context(), "vdb", 0, "")
			if err != nil || strings.Contains(answer, "formatted") {
				t.Errorf("%q, %v", answer, err)
			}
			m.expect(t, want)
		}
	})
}

// TestRemembersWhatIsFull checks that the record of an XFS filesystem shows whether the filesystem fills its disk. An
// XFS filesystem is full if it is as large as its disk. The record shows the filesystem as full only once its
// superblock contains that size.
func TestRemembersWhatIsFull(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA), xfsDisk("vdc", 3, uuidB), xfsDisk("vdd", 4, uuidC))
	m.grow = true
	m.disks["vdb"].Geometry = &disk.Geometry{Size: m.disks["vdb"].Size, Block: 4096}
	m.disks["vdc"].Geometry = &disk.Geometry{Size: 1 << 30, Block: 4096}
	for _, f := range m.disks {
		f.Udev.FSSpan = f.Size
	}
	m.disks["vdc"].Udev.FSSpan = 1 << 30
	m.disks["vdd"].Geometry, m.disks["vdd"].Udev.FSType = &disk.Geometry{Size: m.disks["vdd"].Size, Block: 4096}, "ext4"
	for name, uuid := range map[string]string{"vdb": uuidA, "vdc": uuidB, "vdd": uuidC} {
		m.table = append(m.table, disk.MountPoint{Dev: m.disks[name].Dev, Root: "/", Path: "/mnt/disks/" + uuid, Type: m.disks[name].Udev.FSType})
	}
	with(t, m, func(t *testing.T, a *Agent) {
		check := func(when, want string) {
			t.Helper()
			settle()
			m.change(func() {
				full := map[string]bool{}
				for _, s := range m.sightings {
					full[s.UUID] = s.Full
				}
				if got := fmt.Sprint(full[uuidA], full[uuidB], full[uuidC]); got != want {
					t.Errorf("%s: %s, want %s", when, got, want)
				}
			})
		}
		check("at start, one had to grow", "true false false")
		m.change(func() { m.noEffect, m.disks["vdb"].Size = true, 7<<30 })
		a.Look("vdb")
		check("one cannot grow", "false false false")
		m.change(func() { m.disks["vdc"].Udev.FSSpan, m.disks["vdc"].Seq = m.disks["vdc"].Size, 5 })
		a.Look("vdc")
		check("what had grown is attached again", "false true false")
	})
}

// TestGrows checks that each enlargement of a disk makes the disk's filesystem grow once. A growth that fails must not
// unmount the disk.
func TestGrows(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.grow = true
	m.table = []disk.MountPoint{{Dev: m.disks["vdb"].Dev, Root: "/", Path: "/mnt/disks/" + uuidA, Type: "xfs"}}
	m.disks["vdb"].Geometry = &disk.Geometry{Size: 4 << 30, Block: 4096}
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `
			vdb: grow (filesystem-smaller)
			grow seq 2
			vdb: keep (mounted)
			ready`)
		a.Look("vdb")
		m.expect(t, ``)
		m.change(func() { m.disks["vdb"].Size = 6 << 30 })
		a.Look("vdb")
		m.expect(t, `
			vdb: grow (filesystem-smaller)
			grow seq 2
			vdb: keep (mounted)`)
		m.change(func() { m.disks["vdb"].Size = 5 << 30 })
		a.Look("vdb")
		m.expect(t, `vdb: keep (disk-shrunk)`)
		m.change(func() { m.disks["vdb"].Size, m.noEffect = 7<<30, true })
		a.Look("vdb")
		m.expect(t, `
			vdb: grow (filesystem-smaller)
			grow seq 2
			vdb: failed: the unit that grows the filesystem left no result`)
		if !strings.HasPrefix(m.status, "0 mounted, 0 held, 0 refused, 1 failing") || len(m.table) != 1 {
			t.Errorf("status %q, %d mounted", m.status, len(m.table))
		}
	})
}

// TestWaitingIsDecidedAgain checks a disk that waits for its format or growth during a reload. If the new settings
// forbid the format or the growth, the agent must not start the action.
func TestWaitingIsDecidedAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		line  string
		disk  func(name string, seq uint64) *disk.Facts
		limit int
		off   func(s *disk.Settings)
	}{
		"format": {"format seq ", blankDisk, proofsAtOnce, func(s *disk.Settings) { s.Format = false }},
		"grow": {"grow seq ", func(name string, seq uint64) *disk.Facts {
			f := xfsDisk(name, seq, uuidA[:34]+name[2:]+name[2:])
			f.Geometry = &disk.Geometry{Size: 4 << 30, Block: 4096}
			return f
		}, growthsAtOnce, func(s *disk.Settings) { s.Classes[0].Grow = false }},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine()
			m.grow, m.slow = true, true
			for i := range tt.limit + 1 {
				f := tt.disk("vd"+string(rune('b'+i)), uint64(2+i))
				m.disks[f.Name] = f
				if f.Udev.FSUUID != "" {
					m.table = append(m.table, disk.MountPoint{Dev: f.Dev, Root: "/", Path: "/mnt/disks/" + f.Udev.FSUUID, Type: "xfs"})
				}
			}
			m.gate = func(work, _ string) {
				if work == "grow" {
					<-m.hang
				}
			}
			with(t, m, func(t *testing.T, a *Agent) {
				settle()
				s := testSettings()
				s.Classes[0].Grow = true
				tt.off(s)
				if err := a.Reload(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				m.unhang()
				settle()
				m.mu.Lock()
				defer m.mu.Unlock()
				if log := strings.Join(m.log, "\n"); strings.Count(log, tt.line) != tt.limit {
					t.Errorf("want %d disks, log:\n%s", tt.limit, log)
				}
			})
		})
	}
}

// TestAdoptedOnce checks that the size of the disk at the first mount stays on record, if another machine made the
// filesystem. A filesystem from another machine must not grow until its disk is larger than at the first mount.
func TestAdoptedOnce(t *testing.T) {
	vdb := xfsDisk("vdb", 2, uuidA)
	vdb.Standing.Made, vdb.Geometry = false, &disk.Geometry{Size: 4 << 30, Block: 4096}
	m := newMachine(vdb)
	m.grow = true
	m.table = []disk.MountPoint{{Dev: vdb.Dev, Root: "/", Path: "/mnt/disks/" + uuidA, Type: "xfs"}}
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `
			vdb: keep (mounted)
			ready`)
		size := vdb.Size
		recorded := func(when string) {
			t.Helper()
			m.change(func() {
				if last := m.sightings[len(m.sightings)-1]; last.Adopted != size {
					t.Errorf("%s: adopted at %d, want %d", when, last.Adopted, size)
				} else {
					vdb.Standing.Volume = &last
				}
			})
		}
		recorded("at first")
		m.change(func() { vdb.Size = 6 << 30 })
		a.Look("vdb")
		m.expect(t, `
			vdb: grow (filesystem-smaller)
			grow seq 2
			vdb: keep (mounted)`)
		recorded("larger")
		m.change(func() { vdb.Size = 7 << 30 })
		a.Look("vdb")
		settle()
		recorded("larger again")
	})
}

const uuidVdd = "dddddddd-0000-4000-8000-000000000004"

// TestFillsBeforeMounting checks that a filesystem that is smaller than its disk grows before the mount. If the
// growth before the mount fails, the filesystem must be mounted at its old size.
func TestFillsBeforeMounting(t *testing.T) {
	smaller := func(name string, seq uint64, uuid string) *disk.Facts {
		f := xfsDisk(name, seq, uuid)
		f.Udev.FSSpan = f.Size - 256<<10
		return f
	}
	m := newMachine(smaller("vdb", 2, uuidA))
	m.grow = true
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `
			vdb: mount (filesystem)
			fill seq 2
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: mounted at `+uuidA+`
			ready`)
		m.change(func() {
			m.fillErr = errors.New("no room")
			m.disks["vdc"] = xfsDisk("vdc", 3, uuidB)
			m.disks["vdc"].Udev.FSSpan = 0 // udev does not know the size, so the program that grows the filesystem reads it
			m.disks["vdd"] = smaller("vdd", 4, uuidVdd)
			m.disks["vdd"].Standing.Fit = &disk.Fit{Seq: 4, Size: m.disks["vdd"].Size, Geometry: disk.Geometry{Size: 1 << 30, Block: 4096}, Failure: "no room"}
		})
		a.Look("vdc")
		m.expect(t, `
			vdc: mount (filesystem)
			fill seq 3
			mount vdc seq 3: xfs at /mnt/disks/`+uuidB+`
			problem: cannot grow the filesystem of vdc (disk sequence number 3) before the mount: no room
			vdc: mounted at `+uuidB+`
			vdc: grow (filesystem-unmeasured)
			grow seq 3
			vdc: keep (mounted)`)
		a.Look("vdd")
		m.expect(t, `
			vdd: mount (filesystem)
			mount vdd seq 4: xfs at /mnt/disks/`+uuidVdd+`
			vdd: mounted at `+uuidVdd+`
			vdd: keep (not-grown)`)
	})
}

// TestATwinWhileFilling checks a copy that grows before its mount. If the original is attached during the growth, the
// copy must not be mounted.
func TestATwinWhileFilling(t *testing.T) {
	copied, first := xfsDisk("vdb", 2, uuidA), xfsDisk("vdc", 3, uuidA)
	copied.Udev.FSSpan = copied.Size - 256<<10
	first.Standing.OnRecord = true
	m := newMachine()
	m.grow = true
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		m.change(func() {
			m.log = nil
			m.disks["vdb"] = copied
			m.onFill = func() { m.disks["vdc"] = first; go a.Look("vdc") }
		})
		a.Look("vdb")
		settle()
		m.change(func() {
			if len(m.table) != 1 || m.table[0].Dev != first.Dev {
				t.Errorf("mounted is %v\n%s", m.table, strings.Join(m.log, "\n"))
			}
			// The operator detaches vdc and keeps vdb. The disk vdb has another size by now. The filesystem must grow
			// again before its mount, because the earlier growth was for the disk's old size.
			m.onFill, m.log, m.table = nil, nil, nil
			delete(m.disks, "vdc")
			copied.Size += 1 << 30
		})
		a.Look("vdc")
		settle()
		if _, err := a.Accept(t.Context(), "vdb", 0, ""); err != nil {
			t.Error(err)
		}
		settle()
		m.change(func() {
			log := strings.Join(m.log, "\n")
			if fill, mount := strings.Index(log, "fill seq 2"), strings.Index(log, "mount vdb seq 2"); fill < 0 || mount < fill {
				t.Errorf("it is not filled before the mount:\n%s", log)
			}
		})
	})
}

// TestMeasuresAfterMounting checks that a filesystem that cannot be measured before the mount is measured after the
// mount.
func TestMeasuresAfterMounting(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.grow = true
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: mounted at `+uuidA+`
			vdb: grow (filesystem-unmeasured)
			grow seq 2
			vdb: keep (mounted)
			ready`)
	})
}

func TestFormattingHoldsBackNeitherReadyNorOthers(t *testing.T) {
	m := newMachine()
	for i := range proofsAtOnce + 1 {
		name := "vd" + string(rune('b'+i))
		m.disks[name] = blankDisk(name, uint64(i+1))
	}
	m.slow = true
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		if m.ready.IsZero() || m.most != proofsAtOnce {
			t.Errorf("ready %v, %d formats at once; want ready and %d", m.ready, m.most, proofsAtOnce)
		}
		m.change(func() { m.slow = false; m.disks["vdz"] = xfsDisk("vdz", 99, uuidA) })
		a.Look("vdz")
		settle()
		if len(m.table) != 1 {
			t.Errorf("%d mounted while others are formatted, want 1", len(m.table))
		}
		close(m.hang)
		settle()
		if len(m.table) != proofsAtOnce+2 || m.most != proofsAtOnce {
			t.Errorf("%d mounted, %d formats at once; want %d and %d", len(m.table), m.most, proofsAtOnce+2, proofsAtOnce)
		}
	})
}

// TestHangingFormatsHoldBackNoBlankDisk checks that slow formats do not stop the formats of other blank disks. After a
// minute (proofPatience), a format counts only against the higher limit proofsInAll. When a slow format ends, the
// format must no longer count against any limit.
func TestHangingFormatsHoldBackNoBlankDisk(t *testing.T) {
	m := newMachine()
	for i := range proofsInAll + 4 {
		f := blankDisk(fmt.Sprintf("vd%c%c", 'b'+i/26, 'a'+i%26), uint64(i+2))
		f.Dev.Minor = uint32(i+2) * 16
		m.disks[f.Name] = f
	}
	m.slow = true
	with(t, m, func(t *testing.T, a *Agent) {
		running := func(when string, want int) {
			t.Helper()
			settle()
			m.change(func() {
				if m.running != want || m.most != want {
					t.Errorf("%s: %d formats under way, %d at most, want %d", when, m.running, m.most, want)
				}
			})
		}
		running("at first", proofsAtOnce)
		time.Sleep(proofPatience - time.Second)
		running("within a minute", proofsAtOnce)
		time.Sleep(time.Second)
		running("after a minute", 2*proofsAtOnce)
		time.Sleep(proofsInAll / proofsAtOnce * proofPatience)
		running("later", proofsInAll)
		m.change(func() { m.slow, m.most = false, 0 })
		close(m.hang)
		settle()
		if l := &a.lanes.proofs; l.running != 0 || l.overdue != 0 || len(l.waiting) != 0 {
			t.Errorf("once they have ended: %+v", l)
		}
	})
}

// inAnHour reports whether the given number of tries is possible in the first hour. The latest possible times of the
// tries are 0, 1, 3, …, 2047 and 4095 seconds. The agent shortens each wait between two tries by up to a quarter, at
// random (backoff).
func inAnHour(tries int) bool { return tries == 12 || tries == 13 }

// TestRetriesLaterAndLaterForEver checks that the retries of a mount never end. An unchanged failure must be logged
// once a day.
func TestRetriesLaterAndLaterForEver(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.mountErr["vdb"] = errors.New("no")
	with(t, m, func(t *testing.T, a *Agent) {
		after := func(d time.Duration) (tries, told int) {
			time.Sleep(d)
			settle()
			m.change(func() {
				log := strings.Join(m.log, "\n")
				tries, told = strings.Count(log, "mount vdb"), strings.Count(log, "vdb: failed: "+m.mountErr["vdb"].Error())
				if len(m.log) > 0 && m.again.Count < tries {
					t.Errorf("%d tries are counted as %d", tries, m.again.Count)
				}
			})
			return tries, told
		}
		if n, told := after(time.Hour); !inAnHour(n) || told != 1 {
			t.Errorf("%d tries in an hour, logged %d times", n, told)
		}
		if n, told := after(9 * 24 * time.Hour); n < 9*24 || n > 9*24*4/3+longest || told < 9 || told > 11 {
			t.Errorf("%d tries in ten days, logged %d times", n, told)
		}
		// A different failure is logged at once.
		m.change(func() { m.log, m.mountErr["vdb"] = nil, errors.New("never") })
		if n, told := after(time.Hour); n < 1 || told != 1 {
			t.Errorf("another failure, %d tries, logged %d times", n, told)
		}
		// If a look finds no change of the disk, the agent must not retry the mount.
		m.change(func() { m.log = nil })
		a.Look("vdb")
		m.expect(t, ``)
		// Once a program such as xfs_repair has written to a disk, the mount must be retried at once.
		m.change(func() { m.disks["vdb"].Writes++; delete(m.mountErr, "vdb") })
		a.Look("vdb")
		m.expect(t, `
			format seq 2
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: mounted at `+uuidA+`
			vdb: recovered`)
	})
}

// TestATryThatWritesIsNoChange checks that the agent does not treat writes of the failed try itself as a change of the
// disk. A mount that fails can write to the disk, for example when the kernel recovers the filesystem's log.
func TestATryThatWritesIsNoChange(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.mountErr["vdb"], m.mountWrites = errors.New("no"), true
	with(t, m, func(t *testing.T, a *Agent) {
		time.Sleep(time.Hour)
		settle()
		if n := strings.Count(strings.Join(m.log, "\n"), "mount vdb"); !inAnHour(n) {
			t.Errorf("%d tries in an hour", n)
		}
		m.change(func() { m.disks["vdb"].Writes++; delete(m.mountErr, "vdb") })
		a.Look("vdb")
		settle()
		if log := strings.Join(m.log, "\n"); !strings.HasSuffix(log, "vdb: recovered") {
			t.Errorf("after a repair:\n%s", log)
		}
	})
}

// TestAPartitionIsNeverGivenToTheFormattingUnit checks that the formatting unit never runs for a partition that cannot
// be mounted.
func TestAPartitionIsNeverGivenToTheFormattingUnit(t *testing.T) {
	f := xfsDisk("vdb", 2, uuidA)
	f.ID.Name, f.ID.Seq, f.Whole = "vdb1", disk.PartitionSeq(2, 1), "vdb"
	m := newMachine(f)
	m.mountErr["vdb1"] = errors.New("no")
	with(t, m, func(t *testing.T, a *Agent) {
		s := testSettings()
		s.Classes[0].Selectors = disk.Selectors{Names: []string{"vd[a-z]1"}, Partitions: true}
		if err := a.Reload(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		settle()
		log := strings.Join(m.log, "\n")
		if n := strings.Count(log, "mount vdb1"); !inAnHour(n) || strings.Contains(log, "format") {
			t.Errorf("%d tries in an hour:\n%s", n, log)
		}
	})
}

// TestAMountThatFailedAndIsThereIsReported checks that the agent reports a mount that is in the mount table, even after
// its job seemed to fail. The agent can miss the end of a job when PID 1 is slow to answer.
func TestAMountThatFailedAndIsThereIsReported(t *testing.T) {
	vdb := xfsDisk("vdb", 2, uuidA)
	m := newMachine(vdb)
	m.mountErr["vdb"] = errors.New("no answer")
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: failed: no answer`)
		m.change(func() {
			m.table = []disk.MountPoint{{Dev: vdb.Dev, Root: "/", Path: "/mnt/disks/" + uuidA, Type: "xfs"}}
		})
		a.Look("vdb")
		m.expect(t, `
			vdb: mounted at `+uuidA+`
			vdb: recovered
			ready`)
	})
}

// TestWhatCanNotBeMountedIsRead checks that a disk is read after a failed mount, before the next try. udev cannot
// distinguish a finished filesystem from a filesystem whose mkfs was interrupted.
func TestWhatCanNotBeMountedIsRead(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.mountErr["vdb"], m.halfMade = errors.New("no"), true
	with(t, m, func(t *testing.T, a *Agent) {
		time.Sleep(time.Hour)
		m.expect(t, `
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: failed: no
			format seq 2
			vdb: refuse (half-made)
			vdb: recovered
			ready`)
	})
}

func TestAJobThatIsDoneIsNotBelieved(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.noEffect = true
	with(t, m, func(t *testing.T, _ *Agent) {
		m.expect(t, `
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: failed: systemd has finished the job of the mount unit, but the mount table does not show 254:16`)
		time.Sleep(retryFirst)
		settle()
		m.change(func() {
			if len(m.log) == 0 || m.log[0] != "format seq 2" {
				t.Errorf("it is not read before it is tried again: %q", m.log)
			}
		})
	})
}

func TestAProofThatWasInVainIsNotRunAgainAtOnce(t *testing.T) {
	m := newMachine(blankDisk("vdb", 2))
	m.formatErr[2] = errors.New("busy")
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		for range 10 {
			a.Look("vdb")
			settle()
		}
		m.expect(t, `
			vdb: prove (nothing-known-on-it)
			ready
			format seq 2
			vdb: failed: busy`)
	})
}

func TestDetachAndReturnUnderAnotherName(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	where := "/mnt/disks/" + uuidA
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		// The disk is detached while a process uses it. The old mount stays, and the disk comes back as vdc.
		m.change(func() {
			m.log = nil
			delete(m.disks, "vdb")
			m.disks["vdc"] = xfsDisk("vdc", 3, uuidA)
			m.mountErr[where] = errors.New("in use")
			m.mountErr["lazily "+where] = errors.New("busy")
		})
		a.Look("vdb")
		m.expect(t, `
			vdb: gone
			forgot 2
			unmount `+where+`
			unmount lazily `+where+`
			vdb: failed: cannot unmount `+where+`, whose disk vdb (disk sequence number 2) is gone: busy`)
		if m.status != "0 mounted, 0 held, 0 refused, 0 failing, 1 gone but still mounted" {
			t.Errorf("status %q", m.status)
		}
		a.Look("vdc")
		m.expect(t, `vdc: mount (filesystem)`)
		// The process that uses the old mount prevents a new mount until the process ends, hours later.
		m.change(func() {
			m.mountErr["vdc"] = disk.ErrHeld
			delete(m.mountErr, "lazily "+where)
		})
		time.Sleep(1100 * time.Millisecond)
		m.expect(t, `
			unmount `+where+`
			unmount lazily `+where+`
			rmdir `+where+`
			mount vdc seq 3: xfs at `+where+`
			vdc: failed: `+disk.ErrHeld.Error())
		time.Sleep(3 * time.Hour)
		m.change(func() {
			said := 0
			for _, line := range m.log {
				if line == "vdc: failed: "+disk.ErrHeld.Error() {
					said++
				}
			}
			if said > heldLongest {
				t.Errorf("a failure that is retried for ever is logged %d times", said)
			}
			m.log = nil
			delete(m.mountErr, "vdc")
		})
		time.Sleep(20 * time.Second)
		m.expect(t, `
			mount vdc seq 3: xfs at `+where+`
			vdc: mounted at `+uuidA+`
			vdc: recovered`)
	})
}

func TestAnotherDiskUnderTheSameName(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() {
			m.log, m.table = nil, nil
			m.disks["vdb"] = xfsDisk("vdb", 3, uuidB)
			m.disks["vdb"].ReadOnly = true
		})
		a.Look("vdb")
		m.expect(t, `
			vdb: gone
			forgot 2
			vdb: refuse (read-only)
			rmdir /mnt/disks/`+uuidA)
	})
}

// TestTheSecondOfTwoPathsIsHeld checks two disks with the same WWN, which may be two paths to one disk. hotmount must
// hold the second disk until the first disk is gone.
func TestTheSecondOfTwoPathsIsHeld(t *testing.T) {
	one, two := blankDisk("vdb", 2), blankDisk("vdc", 3)
	one.WWN, two.WWN = "naa.5000c50015ea71ac", "naa.5000c50015ea71ac"
	one.ReadOnly = true
	m := newMachine(one)
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() { m.log = nil; m.disks["vdc"] = two })
		a.Look("vdc")
		m.expect(t, `vdc: hold (same-wwn)`)
		m.change(func() { delete(m.disks, "vdb") })
		a.Look("vdb")
		m.expect(t, `
			vdb: gone
			forgot 2
			vdc: prove (nothing-known-on-it)
			format seq 3
			vdc: mount (filesystem)
			mount vdc seq 3: xfs at /mnt/disks/`+uuidB[:34]+`63
			vdc: mounted at `+uuidB[:34]+`63`)
	})
}

// TestSelves checks when hotmount delays the refusal of a disk with a shared UUID. hotmount must delay the refusal
// unless the serial or the WWN shows that the two kernel names belong to different disks.
func TestSelves(t *testing.T) {
	for name, tt := range map[string]struct {
		serial, wwn           string
		otherSerial, otherWWN string
		want                  bool
	}{
		"neither":        {want: true},
		"one serial":     {serial: "S", otherSerial: "S", want: true},
		"another serial": {serial: "S", otherSerial: "T"},
		"one WWN":        {wwn: "naa.1", otherWWN: "naa.1", want: true},
		"another WWN":    {wwn: "naa.1", otherWWN: "naa.2"},
	} {
		st := &state{decision: disk.Decision{Action: disk.Refuse, Reason: disk.ReasonTwin}}
		st.facts.Serial, st.facts.WWN = tt.serial, tt.wwn
		st.facts.SameUUID = []disk.Peer{{ID: disk.ID{Seq: 3}, Serial: tt.otherSerial, WWN: tt.otherWWN}}
		if got := st.waits(); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTheSecondOfTwoWithOneSerialIsHeld(t *testing.T) {
	one, two := blankDisk("vdb", 2), blankDisk("vdc", 3)
	one.Serial, two.Serial = "S", "S"
	m := newMachine(one)
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() { m.log = nil; m.disks["vdc"] = two })
		a.Look("vdc")
		m.expect(t, `vdc: hold (same-serial)`)
		answer, err := a.Accept(t.Context(), "vdc", 0, "")
		if err != nil || !strings.Contains(answer, "vdc") {
			t.Errorf("got %q, %v", answer, err)
		}
		m.expect(t, `
			accepted vdc (same-serial)
			vdc: prove (nothing-known-on-it)
			format seq 3
			vdc: mount (filesystem)
			mount vdc seq 3: xfs at /mnt/disks/`+uuidB[:34]+`63
			vdc: mounted at `+uuidB[:34]+`63`)
		if _, err := a.Accept(t.Context(), "vdc", 0, ""); err == nil {
			t.Error("a mounted disk was accepted")
		}
		if _, err := a.Accept(t.Context(), "vdz", 0, ""); err == nil {
			t.Error("a disk that is not there was accepted")
		}
	})
}

func TestATwinIsRefusedUntilTheOtherGoes(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() { m.log = nil; m.disks["vdc"] = xfsDisk("vdc", 3, uuidA) })
		a.Look("vdc")
		m.expect(t, `
			vdc stays held: twin
			vdc: refuse (twin)`)
		m.change(func() { delete(m.disks, "vdb"); m.table = nil })
		a.Look("vdb")
		m.expect(t, `
			vdb: gone
			forgot 2
			vdc: refuse (twin)
			rmdir /mnt/disks/`+uuidA)
		if _, err := a.Accept(t.Context(), "vdc", 0, ""); err != nil {
			t.Error(err)
		}
		m.expect(t, `
			accepted vdc (twin)
			vdc: mount (filesystem)
			mount vdc seq 3: xfs at /mnt/disks/`+uuidA+`
			vdc: mounted at `+uuidA)
	})
}

// TestWhatIsNotItselfIsATwinAtOnce checks that a disk with another disk's UUID and a different serial is refused at
// once. A disk must also be refused at once if a record shows that it was attached together with the original.
func TestWhatIsNotItselfIsATwinAtOnce(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.disks["vdb"].Serial = "A"
	with(t, m, func(t *testing.T, a *Agent) {
		other, beside := xfsDisk("vdc", 3, uuidA), xfsDisk("vdd", 4, uuidB)
		other.Serial = "B"
		beside.Standing.LastOn, beside.Standing.Beside = &disk.Sighting{UUID: uuidB, Left: true}, true
		m.change(func() { m.log = nil; m.disks["vdc"], m.disks["vdd"] = other, beside })
		a.Look("vdc")
		m.expect(t, `
			vdc stays held: twin
			vdc: refuse (twin)`)
		a.Look("vdd")
		m.expect(t, `
			vdd stays held: twin
			vdd: refuse (twin)`)
	})
}

// TestThreeOfOneUUIDAndNoRecord checks that three disks with one UUID do not cause endless looks if their refusals
// cannot be recorded.
func TestThreeOfOneUUIDAndNoRecord(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA), xfsDisk("vdc", 3, uuidA), xfsDisk("vdd", 4, uuidA))
	m.keepErr = errors.New("read-only")
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		m.change(func() { m.looks = 0 })
		a.LookAtAll()
		settle()
		if m.looks > 6 {
			t.Errorf("%d looks", m.looks)
		}
	})
}

// TestAPulledDiskIsNoTwinOfItself checks that a disk that is pulled and comes back under another name is mounted again.
// The disk must be mounted even if the agent looks at the new name before the old name.
func TestAPulledDiskIsNoTwinOfItself(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() {
			m.log, m.table = nil, nil
			delete(m.disks, "vdb")
			m.disks["vdc"] = xfsDisk("vdc", 3, uuidA)
		})
		a.Look("vdc")
		m.expect(t, `
			vdc: refuse (twin)
			vdb: gone
			forgot 2
			vdc: mount (filesystem)
			rmdir /mnt/disks/`+uuidA+`
			mount vdc seq 3: xfs at /mnt/disks/`+uuidA+`
			vdc: mounted at `+uuidA)
	})
}

// TestTheDiskBelowIsPulled checks that the agent looks at a logical volume when the disk below the volume is pulled.
// The kernel sends no event for the volume. The report about the logical volume must still contain the serial of the
// pulled disk.
func TestTheDiskBelowIsPulled(t *testing.T) {
	physical, volume := blankDisk("sdb", 2), xfsDisk("vdc", 3, uuidA)
	volume.Below = []disk.Underlying{{Name: "sdb", Serial: "PV"}}
	m := newMachine(physical, volume)
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() {
			m.log = nil
			delete(m.disks, "sdb")
			m.disks["vdc"].Below = []disk.Underlying{{Name: "sdb", Gone: true}}
		})
		a.Look("sdb")
		m.expect(t, `
			forgot 2
			vdc: keep (disk-below-gone)`)
		m.change(func() {
			if got := m.told["vdc"].Below; len(got) != 1 || got[0].Serial != "PV" {
				t.Errorf("what is reported of the disk below: %+v", got)
			}
		})
	})
}

// TestACloneThatIsSeenFirstAtBoot checks that the original is mounted at boot, although the agent looks at a copy
// first. A record shows which disk is the original: the disk on which the filesystem was mounted last.
func TestACloneThatIsSeenFirstAtBoot(t *testing.T) {
	clone, original := xfsDisk("vdb", 2, uuidA), xfsDisk("vdc", 3, uuidA)
	original.Standing.OnRecord = true
	m := newMachine(clone, original)
	m.hangs = "vdc"
	with(t, m, func(t *testing.T, _ *Agent) {
		m.expect(t, `vdb: mount (filesystem)`)
		m.unhang()
		m.expect(t, `
			vdc: mount (filesystem)
			vdb stays held: twin
			vdb: refuse (twin)
			mount vdc seq 3: xfs at /mnt/disks/`+uuidA+`
			vdc: mounted at `+uuidA+`
			ready`)
	})
}

// TestACloneWithTheSerialIsSeenFirstAtBoot checks that the original is mounted at boot, and not a copy with the
// original's serial. The original and the copy have the same serial, so only the slot on record distinguishes the two
// disks.
func TestACloneWithTheSerialIsSeenFirstAtBoot(t *testing.T) {
	clone, original := xfsDisk("vdb", 2, uuidA), xfsDisk("vdc", 3, uuidA)
	for _, f := range []*disk.Facts{clone, original} {
		f.Serial, f.Standing.OnRecord = "A", true
	}
	original.Standing.InSameSlot = true
	m := newMachine(clone, original)
	m.hangs = "vdc"
	with(t, m, func(t *testing.T, _ *Agent) {
		m.expect(t, `vdb: mount (filesystem)`)
		m.unhang()
		settle()
		if len(m.table) != 1 || m.table[0].Dev != original.Dev || m.status != "1 mounted, 0 held, 1 refused, 0 failing" {
			t.Errorf("mounted: %v, status %q", m.table, m.status)
		}
	})
}

// TestACloneThatWasRefusedIsSeenLastAtBoot checks a boot with an original disk and its copy. The copy has the same
// serial, and was refused before the boot. The agent must not decide about the original before it has looked at the
// copy.
func TestACloneThatWasRefusedIsSeenLastAtBoot(t *testing.T) {
	clone, original := xfsDisk("vdb", 2, uuidA), xfsDisk("vdc", 3, uuidA)
	for _, f := range []*disk.Facts{clone, original} {
		f.Serial, f.Standing.OnRecord, f.Standing.Twin = "A", true, true
	}
	original.Standing.InSameSlot = true
	m := newMachine(clone, original)
	m.hangs = "vdb"
	with(t, m, func(t *testing.T, _ *Agent) {
		m.expect(t, ``)
		m.unhang()
		m.expect(t, `
			vdb: refuse (twin)
			vdc: mount (filesystem)
			mount vdc seq 3: xfs at /mnt/disks/`+uuidA+`
			vdc: mounted at `+uuidA+`
			ready`)
	})
}

// TestACloneBesideADiskThatHangs checks a disk that may be a refused copy, while the look at another disk hangs. The
// possible copy must wait at most ReadyTimeout for the other disk.
func TestACloneBesideADiskThatHangs(t *testing.T) {
	original := xfsDisk("vdb", 2, uuidA)
	original.Serial, original.Standing.OnRecord, original.Standing.Twin, original.Standing.InSameSlot = "A", true, true, true
	m := newMachine(original, blankDisk("vdc", 3))
	m.hangs = "vdc"
	with(t, m, func(t *testing.T, _ *Agent) {
		time.Sleep(testSettings().ReadyTimeout - time.Second)
		m.expect(t, ``)
		time.Sleep(2 * time.Second)
		m.expect(t, `
			ready
			vdb stays held: twin
			vdb: refuse (twin)`)
		m.unhang()
	})
}

// TestLongWaitForAMount checks a disk whose mount waits until the agent has seen another disk. If another program
// begins to use the disk during the wait, the agent must not mount the disk, even without an event.
func TestLongWaitForAMount(t *testing.T) {
	for name, use := range map[string]func(m *machine, vdb *disk.Facts){
		"mounted by another program": func(m *machine, vdb *disk.Facts) {
			m.table = append(m.table, disk.MountPoint{Dev: vdb.Dev, Root: "/", Path: "/srv", Type: "xfs"})
		},
		"below a device": func(_ *machine, vdb *disk.Facts) { vdb.Holders = []string{"dm-0"} },
	} {
		for _, event := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", event ", event), func(t *testing.T) {
				vdb := xfsDisk("vdb", 2, uuidA)
				m := newMachine(vdb, blankDisk("vdc", 3))
				m.hangs = "vdc"
				with(t, m, func(t *testing.T, a *Agent) {
					m.expect(t, "vdb: mount (filesystem)")
					m.change(func() { use(m, vdb) })
					if event {
						a.Look("vdb")
						time.Sleep(time.Second)
					} else {
						time.Sleep(oldestLook)
					}
					m.unhang()
					settle()
					m.mu.Lock()
					log := strings.Join(m.log, "\n")
					m.mu.Unlock()
					if strings.Contains(log, "mount vdb") || !strings.Contains(log, "vdb: ignore") {
						t.Errorf("log:\n%s", log)
					}
				})
			})
		}
	}
}

// TestHungLooksHoldBackNoOtherDisk checks that hung looks do not stop the looks at other disks, even if as many looks
// hang as there are workers. Without a new look, a disk that has waited for its mount would never be mounted.
func TestHungLooksHoldBackNoOtherDisk(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA), blankDisk("vdc", 3))
	m.hangs = "vdc"
	with(t, m, func(t *testing.T, a *Agent) {
		s := testSettings()
		s.Workers = 1
		if err := a.Reload(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		time.Sleep(testSettings().ReadyTimeout + 2*lookPatience)
		m.change(func() { m.disks["vdd"] = xfsDisk("vdd", 4, uuidB) })
		a.Look("vdd")
		settle()
		m.mu.Lock()
		log := strings.Join(m.log, "\n")
		m.mu.Unlock()
		for _, want := range []string{"mount vdb seq 2", "mount vdd seq 4"} {
			if !strings.Contains(log, want) {
				t.Errorf("no %q in the log:\n%s", want, log)
			}
		}
		m.unhang()
	})
}

// TestEventsAroundALook checks that an event before or during a look causes no additional look before the mount. If an
// event comes during a look, one look after the mount is enough.
func TestEventsAroundALook(t *testing.T) {
	m := newMachine()
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		m.change(func() {
			m.disks["vdb"], m.disks["vdc"] = xfsDisk("vdb", 2, uuidA), xfsDisk("vdc", 3, uuidB)
			m.gate = func(work, name string) {
				if work == "gather" {
					time.Sleep(time.Second)
				}
			}
		})
		a.Look("vdb")
		synctest.Wait()
		for range 3 { // vdc waits until the look at vdb has gathered its facts
			a.Look("vdb")
			a.Look("vdc")
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		m.mu.Lock()
		defer m.mu.Unlock()
		looks := map[string]int{}
		for _, l := range m.lookedBy {
			looks[l[:3]]++
		}
		if looks["vdb"] != 2 || looks["vdc"] != 2 {
			t.Errorf("want one look at each disk before its mount and one after it: %q", m.lookedBy)
		}
	})
}

// TestFewLooksWhileADiskHangs checks two disks whose decisions wait for a third disk. The look at the third disk hangs.
// A waiting disk must cause neither a look at the other waiting disk, nor a further look at the disk that hangs.
func TestFewLooksWhileADiskHangs(t *testing.T) {
	waiting := func(name string, seq uint64, uuid, serial string) *disk.Facts {
		f := xfsDisk(name, seq, uuid)
		f.Serial, f.Standing.OnRecord, f.Standing.Twin, f.Standing.InSameSlot = serial, true, true, true
		return f
	}
	m := newMachine(waiting("vdb", 2, uuidA, "A"), waiting("vdc", 3, uuidB, "B"), blankDisk("vdd", 4))
	m.hangs = "vdd"
	m.gate = func(string, string) { time.Sleep(time.Millisecond) }
	with(t, m, func(t *testing.T, a *Agent) {
		looks := func() (n int) {
			m.change(func() { n, m.looks = m.looks, 0 })
			return n
		}
		time.Sleep(testSettings().ReadyTimeout - time.Second)
		if n := looks(); n > 5 {
			t.Errorf("%d looks before the end of the wait", n)
		}
		m.change(func() { m.lookErr = errors.New("input/output error") })
		a.Look("vdb")
		time.Sleep(11 * time.Second)
		// The agent looks at vdb again after 1, 2 and 4 seconds. The agent looks at vdc when ReadyTimeout is over.
		if n := looks(); n > 10 {
			t.Errorf("%d looks that fail", n)
		}
		m.change(func() { m.lookErr, m.log = nil, nil })
		time.Sleep(time.Minute)
		m.change(func() {
			slices.Sort(m.log) // the order of the looks differs from run to run
		})
		m.expect(t, `
			vdb stays held: twin
			vdb: recovered
			vdb: refuse (twin)
			vdc stays held: twin
			vdc: recovered
			vdc: refuse (twin)`)
		m.unhang()
	})
}

// TestACloneInThePlaceOfTheOriginalStaysRefused checks that a refused copy stays refused if it is attached in the
// original's slot. A copy with the original's serial, in the original's slot, matches the record. When the original
// comes too, hotmount must also refuse the original, because the record does not show which disk is the copy.
func TestACloneInThePlaceOfTheOriginalStaysRefused(t *testing.T) {
	clone, late := xfsDisk("vdb", 2, uuidA), xfsDisk("vdc", 3, uuidB)
	clone.Serial, clone.Standing.OnRecord, clone.Standing.Twin, clone.Standing.InSameSlot = "A", true, true, true
	m := newMachine(clone, late)
	m.hangs = "vdc"
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, ``)
		m.unhang()
		m.expect(t, `
			vdc: mount (filesystem)
			vdb stays held: twin
			vdb: refuse (twin)
			mount vdc seq 3: xfs at /mnt/disks/`+uuidB+`
			vdc: mounted at `+uuidB+`
			ready`)
		m.change(func() {
			original := xfsDisk("vdd", 4, uuidA)
			original.Serial, original.Standing.OnRecord, original.Standing.Twin = "A", true, true
			m.disks["vdd"] = original
		})
		a.Look("vdd")
		m.expect(t, `vdd: refuse (twin)`)
	})
}

// TestACloneThatUdevHasFirstAtBoot checks that a copy is not mounted at boot while udev still handles the original. If
// no record shows which disk is the original, hotmount must refuse both disks.
func TestACloneThatUdevHasFirstAtBoot(t *testing.T) {
	for _, onRecord := range []bool{true, false} {
		clone, original := xfsDisk("vdb", 2, uuidA), blankDisk("vdc", 3)
		original.Udev.Initialized = false
		original.Standing.OnRecord = onRecord
		m := newMachine(clone, original)
		m.hangs = "vdc"
		with(t, m, func(t *testing.T, a *Agent) {
			m.expect(t, `vdb: mount (filesystem)`)
			m.unhang()
			m.expect(t, `vdc: wait (udev-pending)`)
			m.change(func() {
				m.disks["vdc"] = xfsDisk("vdc", 3, uuidA)
				m.disks["vdc"].Standing.OnRecord = onRecord
			})
			a.Look("vdc")
			if !onRecord {
				m.expect(t, `
					vdc stays held: twin
					vdc: refuse (twin)
					vdb stays held: twin
					vdb: refuse (twin)
					ready`)
				return
			}
			m.expect(t, `
				vdc: mount (filesystem)
				vdb stays held: twin
				vdb: refuse (twin)
				mount vdc seq 3: xfs at /mnt/disks/`+uuidA+`
				vdc: mounted at `+uuidA+`
				ready`)
		})
	}
}

// TestADiskThatUdevNeverHasAtBoot checks that a disk with which udev never finishes does not block other disks for
// longer than ReadyTimeout.
func TestADiskThatUdevNeverHasAtBoot(t *testing.T) {
	stuck := blankDisk("vdc", 3)
	stuck.Udev.Initialized = false
	m := newMachine(xfsDisk("vdb", 2, uuidA), stuck)
	m.hangs = "vdc"
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `vdb: mount (filesystem)`)
		m.unhang()
		m.expect(t, `vdc: wait (udev-pending)`)
		time.Sleep(30 * time.Second)
		m.expect(t, `
			ready
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: mounted at `+uuidA)
	})
}

func TestProvenBlankThenHeldThenFree(t *testing.T) {
	f := blankDisk("vdb", 2)
	f.Standing.Formatting = "the hold file exists"
	f.Standing.Verdict = &disk.Verdict{Seq: 2, Size: f.Size, Content: disk.Content{Kind: disk.Blank, Proven: true}}
	m := newMachine(f)
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `
			vdb: hold (formatting-off)
			ready`)
		m.change(func() { f.Standing.Formatting = "" })
		a.Look("vdb")
		m.expect(t, `
			vdb: format (blank)
			format seq 2
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/`+uuidB[:34]+`62
			vdb: mounted at `+uuidB[:34]+`62`)
	})
}

// TestReloadWhileDisksWait checks that the agent decides again about a waiting disk when the disk's turn comes. A
// reload may have changed the settings during the wait.
func TestReloadWhileDisksWait(t *testing.T) {
	s := testSettings()
	atOnce := mountsPerWorker * s.Workers
	m := newMachine(many(atOnce + 2)...)
	m.slow = true
	with(t, m, func(t *testing.T, a *Agent) {
		s.Classes[0].Names = []string{"sd*"}
		settle()
		if err := a.Reload(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		m.mu.Lock()
		m.slow = false
		m.mu.Unlock()
		close(m.hang)
		settle()
		if len(m.table) != atOnce {
			t.Errorf("%d are mounted, %d were under way", len(m.table), atOnce)
		}
	})
}

func TestUnmountedByHandStaysSo(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() {
			m.log, m.table = nil, nil
			m.plugged = map[uint64]time.Time{2: time.Now().Add(-time.Hour)}
		})
		a.Look("vdb")
		m.expect(t, `
			vdb stays unmounted: unmounted-by-hand
			vdb: hold (unmounted-by-hand)`)
		if _, err := a.Accept(t.Context(), "vdb", 0, ""); err != nil {
			t.Error(err)
		}
		m.expect(t, `
			another try of vdb
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: mounted at `+uuidA)
		// After another unmount by hand, hotmount must hold the disk again, despite the earlier accept.
		m.change(func() { m.table = nil })
		a.Look("vdb")
		m.expect(t, `
			vdb stays unmounted: unmounted-by-hand
			vdb: hold (unmounted-by-hand)`)
		// When the disk leaves, hotmount must remove the directory of the mount that was unmounted by hand.
		m.change(func() { delete(m.disks, "vdb") })
		a.Look("vdb")
		m.expect(t, `
			vdb: gone
			forgot 2
			rmdir /mnt/disks/`+uuidA)
	})
}

// TestUnmountedBeneathAPod checks that hotmount notices the end of its own mount while kubelet's bind mount for a pod
// remains.
func TestUnmountedBeneathAPod(t *testing.T) {
	f := xfsDisk("vdb", 2, uuidA)
	m := newMachine(f)
	pod := []disk.MountPoint{{Dev: f.Dev, Root: "/", Path: "/var/lib/kubelet/pods/p/volumes/kubernetes.io~local-volume/local-pv-1", Type: "xfs"}}
	with(t, m, func(t *testing.T, a *Agent) {
		mounted := time.Now()
		ends := func(plugged time.Time, want string) {
			t.Helper()
			time.Sleep(time.Second)
			m.change(func() {
				m.log, m.table, m.plugged = nil, slices.Clone(pod), map[uint64]time.Time{2: plugged}
				f.Standing.WasMounted, f.Standing.Volume = mounted, &disk.Sighting{UUID: uuidA, Identity: disk.Identity{Seq: 2}}
			})
			a.Look("vdb")
			m.expect(t, want)
		}
		const again = `
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/` + uuidA + `
			vdb: mounted at ` + uuidA
		ends(mounted.Add(-time.Hour), `
			vdb stays unmounted: unmounted-by-hand
			vdb: hold (unmounted-by-hand)`)
		m.change(func() { m.table = nil })
		a.Look("vdb")
		m.expect(t, "")
		m.change(func() { m.table = slices.Clone(pod) })
		if _, err := a.Accept(t.Context(), "vdb", 0, ""); err != nil {
			t.Error(err)
		}
		m.expect(t, `
			another try of vdb`+again)
		// A disk that a pod uses cannot be opened exclusively, so hotmount must retry the mount without reading the
		// disk.
		m.change(func() { m.mountErr["vdb"] = errors.New("no") })
		ends(time.Now().Add(time.Hour), `
			vdb: bounced
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: failed: no`)
		m.change(func() { m.mountErr = map[string]error{} })
		time.Sleep(retryFirst)
		m.expect(t, `
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: mounted at `+uuidA+`
			vdb: recovered`)
	})
}

// TestProofsBeforeAMountKeepADistance checks that the agent treats a proof without a result as a failure, so that
// proofs are not repeated at once.
func TestProofsBeforeAMountKeepADistance(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.mountErr["vdb"], m.formatErr = errors.New("no"), map[uint64]error{}
	m.noVerdict = true
	with(t, m, func(t *testing.T, _ *Agent) {
		time.Sleep(time.Hour)
		settle()
		log := strings.Join(m.log, "\n")
		if n := strings.Count(log, "format seq 2"); n < 2 || n > longest || !strings.Contains(log, "vdb: failed: the unit that reads the disk left no result") {
			t.Errorf("%d proofs:\n%s", n, log)
		}
	})
}

// TestTakenBackBeforeTheAgentEnded checks a disk that the operator has accepted after a release or an unmount. The
// agent ends before it has mounted the disk again. The next agent must not conclude that somebody unmounted the disk by
// hand.
func TestTakenBackBeforeTheAgentEnded(t *testing.T) {
	f := xfsDisk("vdb", 2, uuidA)
	m := newMachine(f)
	m.plugged = map[uint64]time.Time{2: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)}
	f.Standing.WasMounted = time.Date(1999, 1, 2, 0, 0, 0, 0, time.UTC)
	f.Standing.MountedAt, f.Standing.Remount = f.Standing.WasMounted.Sub(booted), true
	with(t, m, func(t *testing.T, _ *Agent) {
		m.expect(t, `
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb may be mounted
			vdb: mounted at `+uuidA+`
			ready`)
	})
}

// TestGoneWhilePID1DoesNotAnswer checks a disk whose mount had ended before the agent started. The agent asks PID 1 who
// ended the mount. If the disk leaves before the answer, the agent must still record that the disk has left.
func TestGoneWhilePID1DoesNotAnswer(t *testing.T) {
	for name, leave := range map[string]func(m *machine){
		"no disk has its name":      func(m *machine) { delete(m.disks, "vdb") },
		"another disk has its name": func(m *machine) { m.disks["vdb"] = xfsDisk("vdb", 3, uuidB) },
	} {
		t.Run(name, func(t *testing.T) {
			f := xfsDisk("vdb", 2, uuidA)
			f.Standing.WasMounted = time.Now()
			f.Standing.Volume = &disk.Sighting{UUID: uuidA, Identity: disk.Identity{Seq: 2}}
			m := newMachine(f)
			m.plugged, m.pluggedErr = map[uint64]time.Time{2: time.Now()}, errors.New("no answer")
			with(t, m, func(t *testing.T, a *Agent) {
				m.expect(t, `
					vdb: failed: cannot tell who unmounted the disk: no answer`)
				m.change(func() { leave(m) })
				a.Look("vdb")
				settle()
				m.mu.Lock()
				defer m.mu.Unlock()
				log := strings.Join(m.log, "\n")
				if !strings.Contains(log, "vdb: gone") || len(m.sightings) == 0 || !m.sightings[0].Left || m.sightings[0].Identity.Seq != 2 {
					t.Errorf("log:\n%s\nsightings: %+v", log, m.sightings)
				}
			})
		})
	}
}

// TestTwinWhilePID1DoesNotAnswer checks two disks with the same UUID. The mount of the first disk had ended before the
// agent started. Even if PID 1 does not tell who ended the mount, hotmount must refuse the second disk.
func TestTwinWhilePID1DoesNotAnswer(t *testing.T) {
	vdb, vdc := xfsDisk("vdb", 2, uuidA), xfsDisk("vdc", 3, uuidA)
	vdb.Serial, vdc.Serial = "B", "C"
	vdb.Standing.WasMounted = time.Now()
	m := newMachine(vdb, vdc)
	m.plugged, m.pluggedErr = map[uint64]time.Time{2: time.Now()}, errors.New("no answer")
	with(t, m, func(t *testing.T, _ *Agent) {
		time.Sleep(2 * testSettings().ReadyTimeout)
		settle()
		m.mu.Lock()
		defer m.mu.Unlock()
		if log := strings.Join(m.log, "\n"); strings.Contains(log, "mount vdc") || !strings.Contains(log, "vdc: refuse (twin)") {
			t.Errorf("log:\n%s", log)
		}
	})
}

// TestUnmountedWhilePID1DoesNotAnswer checks that hotmount does not treat a disk as unmounted by hand while PID 1 does
// not answer.
func TestUnmountedWhilePID1DoesNotAnswer(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() {
			m.log, m.table = nil, nil
			m.plugged = map[uint64]time.Time{2: time.Now()}
			m.pluggedErr = errors.New("no answer")
		})
		a.Look("vdb")
		m.expect(t, `
			vdb: failed: cannot tell who unmounted /mnt/disks/`+uuidA+`: no answer`)
		m.change(func() { m.pluggedErr = nil })
		time.Sleep(retryFirst)
		m.expect(t, `
			vdb: bounced
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: mounted at `+uuidA+`
			vdb: recovered`)
	})
}

func TestUnmountedByHandWhileTheAgentWasDown(t *testing.T) {
	f := xfsDisk("vdb", 2, uuidA)
	m := newMachine(f)
	m.plugged = map[uint64]time.Time{2: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)}
	f.Standing.WasMounted = time.Date(1999, 1, 2, 0, 0, 0, 0, time.UTC)
	f.Standing.MountedAt = f.Standing.WasMounted.Sub(booted)
	with(t, m, func(t *testing.T, _ *Agent) {
		m.expect(t, `
			vdb stays unmounted: unmounted-by-hand
			vdb: hold (unmounted-by-hand)
			ready`)
	})
}

func TestWhatSystemdUnmountedIsMountedAgain(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() {
			m.log, m.table = nil, nil
			m.plugged = map[uint64]time.Time{2: time.Now()}
		})
		a.Look("vdb")
		m.expect(t, `
			vdb: bounced
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: mounted at `+uuidA)
		// After hotmount has mounted the disk again, hotmount must still recognise an unmount by hand.
		time.Sleep(time.Second)
		m.change(func() { m.table = nil })
		a.Look("vdb")
		m.expect(t, `
			vdb stays unmounted: unmounted-by-hand
			vdb: hold (unmounted-by-hand)`)
	})
}

// TestWatchdog checks that the loop itself feeds the watchdog, so that a hung loop does not feed the watchdog.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		a := New(m, m, m, testSettings(), 10*time.Second, monotonic)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		fed := func() int {
			synctest.Wait()
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.alive
		}
		if n := fed(); n != 1 {
			t.Errorf("fed %d times at start", n)
		}
		time.Sleep(time.Minute + time.Second)
		if n := fed(); n != 7 {
			t.Errorf("fed %d times in a minute", n-1)
		}
		// A request that does not end makes the loop hang.
		stand := make(chan struct{})
		a.requests <- func() { <-stand }
		time.Sleep(time.Minute)
		if n := fed(); n != 7 {
			t.Errorf("fed %d times while the loop stood", n-7)
		}
		close(stand)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestBeats checks that mounted filesystems are checked for faults at least every ten minutes. The watchdog must be fed
// in time, whatever the period of the watchdog is.
func TestBeats(t *testing.T) {
	for _, c := range []struct {
		watchdog      time.Duration
		checks, feeds int // the expected numbers within an hour
	}{
		{0, 6, 0},
		{10 * time.Second, 6, 360},
		{checkPeriod, 6, 6},
		// A check that is due between two ticks runs at the earlier tick.
		{4 * time.Minute, 7, 15},
		{time.Hour, 6, 6},
	} {
		t.Run(c.watchdog.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(xfsDisk("vdb", 2, uuidA))
				s := testSettings()
				s.Rescan = 24 * time.Hour
				a := New(m, m, m, s, c.watchdog, monotonic)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- a.Run(ctx) }()
				// The sleep ends after the first check, which runs once the loop has been idle for restAfter.
				time.Sleep(restAfter + 10*time.Second + time.Millisecond)
				var checks, feeds int
				m.change(func() { checks, feeds = len(m.checked), m.alive })
				time.Sleep(time.Hour)
				m.change(func() {
					if got, fed := len(m.checked)-checks, m.alive-feeds; got != c.checks || fed != c.feeds {
						t.Errorf("in an hour %d checks and %d feeds, want %d and %d", got, fed, c.checks, c.feeds)
					}
				})
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestChecked checks that mounted filesystems are checked for faults that cause no event. A check that finds no change
// must not cause a look.
func TestChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(xfsDisk("vdb", 2, uuidA), xfsDisk("vdd", 4, uuidB), blankDisk("vdc", 3))
		m.disks["vdc"].ReadOnly = true
		s := testSettings()
		s.Rescan = 24 * time.Hour
		a := New(m, m, m, s, 10*time.Second, monotonic)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		both := []string{"vdb", "vdd"}
		time.Sleep(restAfter - time.Second)
		m.change(func() {
			if len(m.checked) != 0 {
				t.Errorf("%v is asked before it rests", m.checked)
			}
		})
		time.Sleep(8 * time.Minute)
		m.change(func() {
			if slices.Sort(m.checked); !slices.Equal(m.checked, both) {
				t.Errorf("%v is asked when it rests", m.checked)
			}
			m.checked, m.log, m.looks = nil, nil, 0
		})
		time.Sleep(10*time.Minute + time.Second)
		m.change(func() {
			slices.Sort(m.checked)
			if !slices.Equal(m.checked, both) || m.looks != 0 || len(m.log) != 0 {
				t.Errorf("%v is asked, %d looks: %v", m.checked, m.looks, m.log)
			}
			m.changed, m.disks["vdd"].Fault = []string{"vdd"}, "it was shut down"
		})
		time.Sleep(30 * time.Second)
		m.change(func() {
			if m.looks != 0 {
				t.Errorf("%d looks before the time", m.looks)
			}
		})
		time.Sleep(2 * time.Minute)
		m.change(func() {
			if m.looks != 1 || !slices.Contains(m.log, "vdd: keep (mounted-with-a-fault)") {
				t.Errorf("%d looks: %v", m.looks, m.log)
			}
			m.log, m.changed, m.changedErr = nil, nil, errors.New("no table")
		})
		time.Sleep(10 * time.Minute)
		m.expect(t, `problem: no table`)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestEachNoticeIsGivenOnce(t *testing.T) {
	m := newMachine()
	m.notices = []string{"a file in the way"}
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `
			ready
			notice: a file in the way`)
		a.LookAtAll()
		m.expect(t, ``)
		m.change(func() { m.notices = nil })
		a.LookAtAll()
		m.expect(t, ``)
		m.change(func() { m.notices = []string{"a file in the way"} })
		a.LookAtAll()
		m.expect(t, `notice: a file in the way`)
	})
}

func TestRelease(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA), blankDisk("vdc", 3))
	m.disks["vdc"].ReadOnly = true
	where := "/mnt/disks/" + uuidA
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() { m.log = nil; m.mountErr[where] = errors.New("busy") })
		if err := a.Release(t.Context(), "vdb", 0); err == nil || !strings.Contains(err.Error(), "busy") {
			t.Errorf("a busy disk: %v", err)
		}
		m.expect(t, `
			vdb stays unmounted: released
			unmount `+where+`
			vdb may be mounted`)
		m.change(func() { delete(m.mountErr, where) })
		if err := a.Release(t.Context(), "vdb", 0); err != nil {
			t.Error(err)
		}
		m.expect(t, `
			vdb stays unmounted: released
			unmount `+where+`
			rmdir `+where+`
			vdb: hold (released)`)
		for _, line := range m.statuses {
			if strings.Contains(line, "gone") {
				t.Errorf("of a disk that is released the status says %q", line)
			}
		}
		for _, name := range []string{"vdb", "vdc", "vdz"} {
			if err := a.Release(t.Context(), name, 0); err == nil {
				t.Errorf("%s was released", name)
			}
		}
	})
}

func TestAHangingDiskHoldsBackReadyOnlySoLong(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA), xfsDisk("vdc", 3, uuidB))
	m.disks["vdc"].Standing.OnRecord, m.disks["vdc"].Standing.InSameSlot = true, true
	m.hangs = "vdb"
	with(t, m, func(t *testing.T, _ *Agent) {
		start := time.Now()
		m.change(func() {
			if len(m.table) != 1 || !m.ready.IsZero() {
				t.Errorf("%d mounted, ready %v; want 1 and not ready", len(m.table), m.ready)
			}
		})
		time.Sleep(31 * time.Second)
		m.change(func() {
			if got := m.ready.Sub(start); got != 30*time.Second {
				t.Errorf("ready after %s, want 30s", got)
			}
			if !strings.Contains(m.status, "working on vdb") {
				t.Errorf("status %q does not name vdb", m.status)
			}
		})
	})
}

func TestUdevIsWaitedFor(t *testing.T) {
	d := xfsDisk("vdb", 2, uuidA)
	d.Udev.Initialized = false
	m := newMachine(d)
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `vdb: wait (udev-pending)`)
		m.change(func() { m.disks["vdb"] = xfsDisk("vdb", 2, uuidA) })
		a.Look("vdb")
		m.expect(t, `
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: mounted at `+uuidA+`
			ready`)
	})
}

func TestStopsWhileAMountHangs(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.slow = true
	with(t, m, func(*testing.T, *Agent) { synctest.Wait() })
}

func TestReloadForgetsFailures(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.mountErr["vdb"] = errors.New("no")
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() { m.log = nil; delete(m.mountErr, "vdb") })
		if err := a.Reload(t.Context(), testSettings()); err != nil {
			t.Fatal(err)
		}
		settle()
		if !slices.Contains(m.log, "vdb: mounted at "+uuidA) {
			t.Errorf("not mounted at once after a reload: %q", m.log)
		}
	})
}

// TestRemembersWhatIsMounted checks that each filesystem that is found mounted is recorded once. The departure of a
// disk whose filesystem was mounted must be recorded too.
func TestRemembersWhatIsMounted(t *testing.T) {
	vdb := xfsDisk("vdb", 2, uuidA)
	vdb.Serial, vdb.Slot = "S", "pci-5"
	m := newMachine(vdb)
	m.table = []disk.MountPoint{{Dev: vdb.Dev, Root: "/", Path: "/mnt/disks/" + uuidA, Type: "xfs"}}
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		for range 3 {
			a.Look("vdb")
			settle()
		}
		want := disk.Sighting{Identity: vdb.Identity(""), UUID: uuidA, Type: "xfs", Class: "default", Directory: "/mnt/disks"}
		check := func(when string, want ...disk.Sighting) {
			t.Helper()
			m.change(func() {
				for i := range m.sightings {
					if m.sightings[i].Mounted.IsZero() {
						t.Errorf("%s: no time", when)
					}
					if s := &m.sightings[i]; s.At != s.Mounted.Sub(booted) {
						t.Errorf("%s: mounted at %s, by the clock at %s", when, s.At, s.Mounted)
					}
					m.sightings[i].Mounted, m.sightings[i].At = time.Time{}, 0
				}
				if !slices.Equal(m.sightings, want) {
					t.Errorf("%s: got %+v, want %+v", when, m.sightings, want)
				}
				m.sightings = nil
			})
		}
		check("at start", want)
		m.change(func() { vdb.Size++ })
		a.Look("vdb")
		want.Identity.Size++
		check("grown", want)
		m.change(func() { m.log = nil; m.rememberErr = errors.New("full") })
		m.change(func() { vdb.Size++ })
		a.Look("vdb")
		time.Sleep(saveEvery)
		m.expect(t, `problem: full`)
		want.Identity.Size++
		check("not recorded", want)
		m.change(func() { delete(m.disks, "vdb"); m.disks["vdx"] = blankDisk("vdx", disk.PartitionSeq(7, 3)) })
		a.Look("vdb")
		want.Left, want.Newest = true, 7
		check("detached", want)
		if !slices.Equal(m.asked, []string{"vdb"}) {
			t.Errorf("what was attached together with %q", m.asked)
		}
	})
}

// TestRecordsKeepTheirDistance checks that mounted disks that come within saveEvery are recorded together. The first
// mounted disk is recorded at once. Disks that still wait for their record are recorded when the agent ends. If a disk
// is not mounted or has left, the agent records the disk without a wait.
func TestRecordsKeepTheirDistance(t *testing.T) {
	m := newMachine()
	check := func(when string, want int) {
		t.Helper()
		m.change(func() {
			if m.remembered != want {
				t.Errorf("%s: recorded %d times, want %d", when, m.remembered, want)
			}
		})
	}
	with(t, m, func(t *testing.T, a *Agent) {
		come := func(name string, seq uint64, uuid string) {
			m.change(func() {
				m.disks[name] = xfsDisk(name, seq, uuid)
				m.table = append(m.table, disk.MountPoint{Dev: m.disks[name].Dev, Root: "/", Path: "/mnt/disks/" + uuid, Type: "xfs"})
			})
			a.Look(name)
		}
		time.Sleep(time.Minute)
		first := time.Now()
		come("vdb", 2, uuidA)
		check("one has come", 1)
		come("vdc", 3, uuidB)
		come("vdd", 4, uuidC)
		time.Sleep(saveEvery - time.Since(first) - time.Millisecond)
		check("two more, soon after it", 1)
		time.Sleep(2 * time.Millisecond)
		check("two more", 2)
		time.Sleep(time.Minute)
		check("nothing more", 2)
		m.change(func() { m.disks["vdb"].Size++; m.disks["vdc"].Size++ })
		a.Look("vdb")
		check("later", 3)
		a.Look("vdc")
		check("soon after that", 3)
		vde := blankDisk("vde", 5)
		vde.Slot, vde.Udev.FSType, vde.Udev.FSUsage = "pci-5", "btrfs", "filesystem"
		m.change(func() { m.disks["vde"] = vde })
		a.Look("vde")
		check("with what is not mounted", 4)
		// The content that is not mounted was found later, so it must be recorded later than the mounted filesystems.
		if len(m.notes) != 1 || m.noted != 0 {
			t.Errorf("of %d that are not mounted %d were recorded before what is", len(m.notes), m.noted)
		}
		m.change(func() { delete(m.disks, "vdb") })
		a.Look("vdb")
		check("one has left, soon after that", 5)
		m.change(func() { m.disks["vdd"].Size++ })
		a.Look("vdd")
		check("soon after that", 5)
	})
	if m.remembered != 6 {
		t.Errorf("at its end: recorded %d times, want 6", m.remembered)
	}
}

// TestRemembersOnceAtStart checks that all sightings at start are recorded together. The agent records the sightings
// when it has looked at all disks, or after one second at the latest. If the agent ends within its first second, the
// agent must record the sightings before it ends.
func TestRemembersOnceAtStart(t *testing.T) {
	mounted := func(hangs string) *machine {
		m := newMachine(xfsDisk("vdb", 2, uuidA), xfsDisk("vdc", 3, uuidB), xfsDisk("vdd", 4, uuidC), blankDisk("vde", 5))
		m.hangs = hangs
		for name, uuid := range map[string]string{"vdb": uuidA, "vdc": uuidB, "vdd": uuidC} {
			m.table = append(m.table, disk.MountPoint{Dev: m.disks[name].Dev, Root: "/", Path: "/mnt/disks/" + uuid, Type: "xfs"})
		}
		return m
	}
	check := func(m *machine, when string, want int) {
		t.Helper()
		m.change(func() {
			if m.remembered != want {
				t.Errorf("%s: recorded %d times, want %d", when, m.remembered, want)
			}
		})
	}
	m := mounted("")
	delete(m.disks, "vde")
	with(t, m, func(t *testing.T, a *Agent) {
		check(m, "ready", 1)
	})
	m = mounted("vde")
	with(t, m, func(t *testing.T, a *Agent) {
		started := time.Now()
		check(m, "one hangs", 0)
		time.Sleep(saveAfter - time.Since(started) - time.Millisecond)
		check(m, "one hangs for a second", 0)
		time.Sleep(2 * time.Millisecond)
		check(m, "one hangs longer", 1)
		time.Sleep(time.Minute)
		check(m, "one hangs", 1)
	})
	m = mounted("vde")
	m.remembers = true
	with(t, m, func(t *testing.T, a *Agent) {
		time.Sleep(2 * saveAfter)
		m.change(func() { m.disks["vdb"].Size++ })
		a.Look("vdb")
		time.Sleep(saveAfter) // the loop must not spin during this time
		check(m, "recording hangs", 0)
		m.change(func() { m.remembers = false })
		m.unhang()
		time.Sleep(saveEvery)
		check(m, "recording hangs no more, and the fourth is mounted", 3)
	})
	m = mounted("")
	delete(m.disks, "vde")
	m.remembers = true
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() { delete(m.disks, "vdb") })
		a.Look("vdb")
		check(m, "one leaves while recording takes long", 0)
		time.AfterFunc(patience/2, func() {
			m.change(func() { m.remembers = false })
			m.unhang()
		})
	})
	if m.remembered != 2 {
		t.Errorf("at the end, of what one leaves while recording takes long: recorded %d times", m.remembered)
	}
	m = mounted("vde")
	with(t, m, func(t *testing.T, a *Agent) { check(m, "one hangs", 0) })
	if m.remembered != 1 {
		t.Errorf("at the end: recorded %d times", m.remembered)
	}
}

// TestADiskThatWasUnmountedBeforeItLeft checks that the departure of a disk is recorded even if its filesystem had
// already been unmounted. The departure must be recorded even if the agent has never seen the filesystem mounted.
func TestADiskThatWasUnmountedBeforeItLeft(t *testing.T) {
	vdb := xfsDisk("vdb", 2, uuidA)
	vdb.Slot = "pci-5"
	seen := disk.Sighting{Identity: vdb.Identity("this boot"), UUID: uuidA, Type: "xfs", Class: "default", Directory: "/mnt/disks", Mounted: booted, At: time.Hour}
	elsewhere := seen
	elsewhere.Identity.Seq = 1
	left := seen
	left.Left = true
	for name, tt := range map[string]struct {
		standing disk.Standing
		want     []disk.Sighting
	}{
		"released":                             {disk.Standing{Unmounted: disk.ReasonReleased, WasMounted: booted, Volume: &seen}, []disk.Sighting{left}},
		"released, mounted in an earlier boot": {disk.Standing{Unmounted: disk.ReasonReleased, Volume: &seen}, nil},
		"released, mounted from another":       {disk.Standing{Unmounted: disk.ReasonReleased, WasMounted: booted, Volume: &elsewhere}, nil},
		"released, mounted, nothing known":     {disk.Standing{Unmounted: disk.ReasonReleased, WasMounted: booted}, nil},
	} {
		f := *vdb
		f.Standing = tt.standing
		m := newMachine(&f)
		with(t, m, func(t *testing.T, a *Agent) {
			m.change(func() { delete(m.disks, "vdb") })
			a.Look("vdb")
			m.change(func() {
				if !slices.Equal(m.sightings, tt.want) {
					t.Errorf("%s: got %+v, want %+v", name, m.sightings, tt.want)
				}
			})
		})
	}
}

// TestAPartitionLeaves checks that the departure of a partition is recorded, even after a read error. Host.Expect must
// get the name of the whole disk, because the whole disk may have left together with its partition.
func TestAPartitionLeaves(t *testing.T) {
	part := xfsDisk("vdb1", disk.PartitionSeq(2, 1), uuidA)
	part.Whole = "vdb"
	part.Standing = disk.Standing{WasMounted: booted, Volume: &disk.Sighting{Identity: part.Identity("this boot"), UUID: uuidA}}
	m := newMachine(part)
	m.newestErr = errors.New("no sysfs")
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() { delete(m.disks, "vdb1") })
		a.Look("vdb1")
		settle()
		if len(m.sightings) != 1 || !m.sightings[0].Left || !slices.Equal(m.asked, []string{"vdb"}) {
			t.Errorf("%+v, asked for %q", m.sightings, m.asked)
		}
		if !slices.Contains(m.log, "problem: no sysfs") {
			t.Errorf("%q", m.log)
		}
	})
}

// TestPartitionsAreDisregarded checks that a partition that no class selects any more is not reported as gone, and
// stays mounted.
func TestPartitionsAreDisregarded(t *testing.T) {
	part := xfsDisk("vdb", 2, uuidA)
	part.ID.Name, part.ID.Seq, part.Whole = "vdb1", disk.PartitionSeq(2, 1), "vdb"
	part.Standing.Volume = &disk.Sighting{Identity: part.Identity(""), UUID: uuidA, Directory: "/mnt/disks"}
	m := newMachine(part)
	wanted := testSettings()
	wanted.Classes[0].Selectors = disk.Selectors{Names: []string{"vd[a-z]1"}, Partitions: true}
	with(t, m, func(t *testing.T, a *Agent) {
		if err := a.Reload(t.Context(), wanted); err != nil {
			t.Fatal(err)
		}
		settle()
		m.change(func() { m.log, m.sightings, m.blind = nil, nil, true })
		if err := a.Reload(t.Context(), testSettings()); err != nil {
			t.Fatal(err)
		}
		settle()
		if len(m.table) != 1 || len(m.sightings) > 0 || strings.Contains(strings.Join(m.log, "\n"), "gone") {
			t.Errorf("table %v, sightings %v, log %q", m.table, m.sightings, m.log)
		}
		// If a class selects the partition again, the partition has the same state as before.
		m.change(func() { m.blind = false })
		if err := a.Reload(t.Context(), wanted); err != nil {
			t.Fatal(err)
		}
		settle()
		if len(m.table) != 1 || m.status != "1 mounted, 0 held, 0 refused, 0 failing" {
			t.Errorf("table %v, status %q", m.table, m.status)
		}
		// If a selected partition is not found, the agent must report it as gone.
		m.change(func() { m.log, m.blind = nil, true })
		a.Look("vdb1")
		settle()
		if !slices.Contains(m.log, "vdb1: gone") {
			t.Errorf("log %q", m.log)
		}
	})
}

// TestTheNextDisksMountStays checks that the mount of a new disk stays if the new disk has the device number of a disk
// that left. Another program has mounted the new disk at the path of the old disk before the agent looks.
func TestTheNextDisksMountStays(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		m.change(func() {
			m.log = nil
			m.disks["vdb"] = xfsDisk("vdb", 3, uuidA)
		})
		a.Look("vdb")
		settle()
		if log := strings.Join(m.log, "\n"); len(m.table) != 1 || strings.Contains(log, "unmount") || m.status != "1 mounted, 0 held, 0 refused, 0 failing" {
			t.Errorf("table %v, status %q, log:\n%s", m.table, m.status, log)
		}
	})
}

// TestAnotherDiskIsMountedInItsPlace checks a disk that is replaced during its mount, so that PID 1 mounts the
// replacement. The agent must try to unmount the replacement, and must neither report nor record a mount.
func TestAnotherDiskIsMountedInItsPlace(t *testing.T) {
	for name, tt := range map[string]struct {
		busy, covered bool
		want          string
	}{
		"idle": {false, false, `
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/` + uuidA + `
			unmount /mnt/disks/` + uuidA + `
			vdb: failed: the disk is gone: the name belonged to another disk already (disk sequence number 3), and hotmount mounted that disk by mistake; that disk is unmounted again
			vdb: gone
			forgot 2
			vdb: wait (udev-pending)
			rmdir /mnt/disks/` + uuidA},
		"covered": {false, true, `
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/` + uuidA + `
			vdb: failed: another is mounted over it
			vdb: gone
			forgot 2
			vdb: wait (udev-pending)
			vdb: failed: cannot unmount /mnt/disks/` + uuidA + `, whose disk vdb (disk sequence number 2) is gone: another is mounted over it`},
		"in use": {true, false, `
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/` + uuidA + `
			unmount /mnt/disks/` + uuidA + `
			vdb: failed: the disk is gone: the name belonged to another disk already (disk sequence number 3), and hotmount mounted that disk by mistake; that disk is still mounted; end the processes that use the mount, then: umount /mnt/disks/` + uuidA + `
			busy
			vdb: gone
			forgot 2
			vdb: wait (udev-pending)`},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(xfsDisk("vdb", 2, uuidA))
			next := xfsDisk("vdb", 3, uuidB)
			next.Udev.Initialized = false
			m.gate = func(work, name string) {
				if work == "mount" {
					m.mu.Lock()
					defer m.mu.Unlock()
					m.disks["vdb"] = next
					m.covered = map[string]bool{"/mnt/disks/" + uuidA: tt.covered}
				}
			}
			if tt.busy {
				m.mountErr["/mnt/disks/"+uuidA] = errors.New("busy")
			}
			with(t, m, func(t *testing.T, a *Agent) {
				m.expect(t, tt.want)
			})
		})
	}
}

// TestACloneDuringTheFirstMount checks that a copy is refused permanently if it is attached while the original is being
// mounted. The copy must stay refused even if the original is detached during the mount.
func TestACloneDuringTheFirstMount(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.disks["vdb"].Standing.OnRecord = true
	m.gate = func(work, name string) {
		if work == "mount" && name == "vdb" {
			<-m.hang
		}
	}
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		m.change(func() { m.log, m.disks["vdc"] = nil, xfsDisk("vdc", 3, uuidA) })
		a.Look("vdc")
		m.expect(t, `
			vdc stays held: twin
			vdc: refuse (twin)`)
		m.change(func() { delete(m.disks, "vdb"); m.mountErr["vdb"] = errors.New("gone") })
		close(m.hang)
		settle()
		if len(m.table) > 0 {
			t.Errorf("mounted: %v", m.table)
		}
	})
}

// TestAPulledDiskInAnotherSlot checks the record about a disk that leaves while a disk with another name has the same
// UUID. The record must show which disks may have been attached at the same time as the disk that left. The record must
// not depend on the serial, because a copy can have the original's serial.
func TestAPulledDiskInAnotherSlot(t *testing.T) {
	for _, tt := range []struct {
		serial    string
		partition bool
		later     []string
		newest    uint64
	}{
		{"A", false, nil, 3}, {"", false, nil, 3}, {"A", true, nil, 3},
		{"A", false, []string{"vdc"}, 0}, {"", false, []string{"vdc"}, 0}, {"A", true, []string{"vdc"}, 0},
	} {
		was, is := xfsDisk("vdb", 2, uuidA), xfsDisk("vdc", 3, uuidA)
		s := testSettings()
		for _, f := range []*disk.Facts{was, is} {
			f.Serial = tt.serial
			if tt.partition {
				f.Whole, f.ID.Name, f.ID.Seq = f.Name, f.Name+"1", disk.PartitionSeq(f.Seq, 1)
				s.Classes[0].Selectors = disk.Selectors{Names: []string{"vd[a-z]1"}, Partitions: true}
			}
		}
		m := newMachine(was)
		with(t, m, func(t *testing.T, a *Agent) {
			if err := a.Reload(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			settle()
			m.change(func() {
				m.table, m.sightings, m.later = nil, nil, tt.later
				delete(m.disks, was.Name)
				m.disks[is.Name] = is
			})
			a.Look(is.Name)
			settle()
			if len(m.sightings) == 0 || !m.sightings[0].Left || m.sightings[0].Newest != tt.newest {
				t.Errorf("%+v: %+v", tt, m.sightings)
			}
		})
	}
}

// TestNotesWhatIsNotMounted checks that content that hotmount does not mount is recorded once, and that the departure
// of its disk is recorded. The content of a disk that the node needs to boot, such as the system's disk, must not be
// recorded.
func TestNotesWhatIsNotMounted(t *testing.T) {
	at := func(f *disk.Facts, put func(*disk.Facts)) *disk.Facts { f.Slot = "pci-5"; put(f); return f }
	lvm := func(id string) func(*disk.Facts) {
		return func(f *disk.Facts) { f.Udev.FSUsage, f.Udev.FSType, f.Udev.FSUUID = "raid", "LVM2_member", id }
	}
	for name, tt := range map[string]struct {
		f          *disk.Facts
		what, uuid string // the fields `what` and `uuid` are empty if nothing is recorded
	}{
		"a type that is not accepted": {at(xfsDisk("vdb", 2, uuidA), func(f *disk.Facts) { f.Udev.FSType = "btrfs" }), "btrfs", uuidA},
		"claimed":                     {at(xfsDisk("vdb", 2, uuidA), func(f *disk.Facts) { f.Claim = "/etc/fstab:1" }), "xfs", uuidA},
		"mounted elsewhere":           {at(xfsDisk("vdb", 2, uuidA), func(f *disk.Facts) { f.Mounts = []disk.MountPoint{{Dev: f.Dev, Root: "/", Path: "/srv"}} }), "xfs", uuidA},
		"of no class":                 {at(xfsDisk("sdb", 2, uuidA), func(*disk.Facts) {}), "xfs", uuidA},
		"LVM":                         {at(blankDisk("vdb", 2), lvm("x4-B")), "LVM2_member", "x4-B"},
		"LVM, an odd name":            {at(blankDisk("vdb", 2), lvm("\x1b[31m")), "LVM2_member", ""},
		"a partition table":           {at(blankDisk("vdb", 2), func(f *disk.Facts) { f.Udev.PartTable, f.Udev.PartTableUUID = "gpt", uuidB }), "gpt", uuidB},
		"unknown bytes": {at(blankDisk("vdb", 2), func(f *disk.Facts) {
			f.Standing.Verdict = &disk.Verdict{Seq: 2, Size: f.Size, Content: disk.Content{Kind: disk.Unknown, Proven: true}}
		}), "unknown content", ""},
		"it was mounted from another disk": {at(xfsDisk("vdb", 2, uuidA), func(f *disk.Facts) {
			f.ReadOnly, f.Standing.OnRecord, f.Standing.Volume = true, true, &disk.Sighting{UUID: uuidA, Left: true}
		}), "xfs", uuidA},
		"with a serial and no slot": {at(xfsDisk("vdb", 2, uuidA), func(f *disk.Facts) { f.Slot, f.Serial, f.ReadOnly = "", "S", true }), "xfs", uuidA},
		"it is being overwritten": {at(blankDisk("vdb", 2), func(f *disk.Facts) {
			f.Standing.Intent = &disk.Intent{UUID: uuidB, Over: true}
			f.Standing.Verdict = &disk.Verdict{Seq: 2, Size: f.Size, Content: disk.Content{Kind: disk.Filesystem, Type: "btrfs", UUID: uuidA, Proven: true}}
		}), "", ""},
		"half-made here, known by its slot": {at(blankDisk("vdb", 2), func(f *disk.Facts) {
			f.Standing.Formatting, f.Standing.Intent, f.Standing.IntentBySlot = "off", &disk.Intent{UUID: uuidA}, true
			f.Standing.Verdict = &disk.Verdict{Seq: 2, Size: f.Size, Content: disk.Content{Kind: disk.HalfMade, Type: "xfs", UUID: uuidA, Proven: true}}
		}), "", ""},
		"half-made, in the slot of another": {at(blankDisk("vdb", 2), func(f *disk.Facts) {
			f.Standing.Intent, f.Standing.IntentBySlot = &disk.Intent{UUID: uuidB}, true
			f.Standing.Verdict = &disk.Verdict{Seq: 2, Size: f.Size, Content: disk.Content{Kind: disk.HalfMade, Type: "xfs", UUID: uuidA, Proven: true}}
		}), "xfs", uuidA},
		"no serial and no slot": {at(xfsDisk("vdb", 2, uuidA), func(f *disk.Facts) { f.Slot, f.ReadOnly = "", true }), "", ""},
		"the system's":          {at(xfsDisk("vdb", 2, uuidA), func(f *disk.Facts) { f.System = "/" }), "", ""},
		"a WWN and no slot":     {at(xfsDisk("vdb", 2, uuidA), func(f *disk.Facts) { f.Slot, f.WWN, f.ReadOnly = "", "naa.1", true }), "xfs", uuidA},
		"udev has not seen it":  {at(xfsDisk("vdb", 2, uuidA), func(f *disk.Facts) { f.Udev.Initialized = false }), "", ""},
		"given out once":        {at(xfsDisk("vdb", 2, uuidA), func(f *disk.Facts) { f.Standing.Given = &disk.Given{} }), "", ""},
		"remembered as mounted": {at(xfsDisk("vdb", 2, uuidA), func(f *disk.Facts) {
			f.ReadOnly, f.Standing.OnRecord, f.Standing.Volume = true, true, &disk.Sighting{UUID: uuidA}
		}), "", ""},
		"mounted": {at(xfsDisk("vdb", 2, uuidA), func(*disk.Facts) {}), "", ""},
		"blank":   {at(blankDisk("vdb", 2), func(f *disk.Facts) { f.Standing.Present = &disk.Identity{} }), "", ""},
		"half-made": {at(blankDisk("vdb", 2), func(f *disk.Facts) {
			f.Standing.Verdict = &disk.Verdict{Seq: 2, Size: f.Size, Content: disk.Content{Kind: disk.HalfMade, Type: "xfs", UUID: uuidA, Proven: true}}
		}), "xfs", uuidA},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(tt.f)
			check := func(when string, want ...disk.Sighting) {
				t.Helper()
				settle()
				m.change(func() {
					for i := range m.notes {
						if m.notes[i].Mounted.IsZero() != m.notes[i].Left {
							t.Errorf("%s: at %s", when, m.notes[i].Mounted)
						}
						m.notes[i].Mounted = time.Time{}
					}
					if !slices.Equal(m.notes, want) {
						t.Errorf("%s: noted %+v, want %+v", when, m.notes, want)
					}
					m.notes = nil
				})
			}
			var want, left []disk.Sighting
			if tt.what != "" {
				want = []disk.Sighting{{Identity: tt.f.Identity(""), Type: tt.what, UUID: tt.uuid}}
				left = []disk.Sighting{{Identity: tt.f.Identity(""), Left: true}}
			}
			look := func(t *testing.T, a *Agent) {
				for range 3 {
					a.Look(tt.f.Name)
					settle()
				}
			}
			with(t, m, func(t *testing.T, a *Agent) {
				look(t, a)
				check("seen", want...)
			})
			with(t, m, func(t *testing.T, a *Agent) {
				look(t, a)
				check("seen by the next daemon")
				m.change(func() { delete(m.disks, tt.f.Name) })
				a.Look(tt.f.Name)
				check("gone", left...)
			})
		})
	}
}

// TestNotesPartitions checks that each partition is recorded separately if a class selects partitions. The partition
// table is not recorded.
func TestNotesPartitions(t *testing.T) {
	vdb, part := blankDisk("vdb", 2), xfsDisk("vdb", 2, uuidA)
	vdb.Slot, part.Slot = "pci-5", "pci-5-part1"
	vdb.Udev.PartTable, vdb.Partitions = "gpt", []string{"vdb1"}
	part.ID.Name, part.ID.Seq, part.Whole, part.ReadOnly = "vdb1", disk.PartitionSeq(2, 1), "vdb", true
	m := newMachine(vdb, part)
	m.hangs = "vdb"
	with(t, m, func(t *testing.T, a *Agent) {
		s := testSettings()
		s.Classes[0].Selectors = disk.Selectors{Names: []string{"vd[a-z]1"}, Partitions: true}
		if err := a.Reload(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		settle()
		a.Look("vdb1") // this look finds the record of the previous look
		settle()
		m.change(func() { m.hangs = ""; m.notes = nil; part.Standing.Noted = nil })
		close(m.hang)
		a.LookAtAll()
		settle()
		m.change(func() {
			if len(m.notes) != 1 || m.notes[0].Identity.Slot != part.Slot || m.notes[0].UUID != uuidA {
				t.Errorf("noted %+v", m.notes)
			}
		})
	})
}

// TestNotesWhatChanges checks that the record of a disk's content ends when the disk is wiped. A filesystem that could
// not be mounted must stay on record until it is mounted.
func TestNotesWhatChanges(t *testing.T) {
	vdb := xfsDisk("vdb", 2, uuidA)
	vdb.Slot, vdb.Udev.FSType = "pci-5", "btrfs"
	vdc := xfsDisk("vdc", 3, uuidB)
	vdc.Slot = "pci-6"
	m := newMachine(vdb, vdc)
	m.mountErr["vdc"] = errors.New("no")
	with(t, m, func(t *testing.T, a *Agent) {
		time.Sleep(time.Hour)
		noted := func() (all []string) {
			settle()
			m.change(func() {
				for _, n := range m.notes {
					all = append(all, fmt.Sprintf("%d %s %v", n.Identity.Seq, n.Type, n.Left))
				}
				m.notes = nil
			})
			slices.Sort(all)
			return all
		}
		if got := noted(); !slices.Equal(got, []string{"2 btrfs false", "3 xfs false"}) {
			t.Errorf("at first: %q", got)
		}
		// While udev's rules run, the content is unknown, and nothing must be recorded.
		for _, done := range []bool{false, true} {
			m.change(func() { vdb.Udev.Initialized = done })
			a.Look("vdb")
			if got := noted(); got != nil {
				t.Errorf("udev has finished: %v: %q", done, got)
			}
		}
		m.change(func() {
			vdb.Udev.FSType, vdb.Udev.FSUsage, vdb.Udev.FSUUID, vdb.Standing.Present = "", "", "", &disk.Identity{}
			vdc.Writes++
			m.mountErr = map[string]error{}
		})
		a.Look("vdb")
		a.Look("vdc")
		if got := noted(); !slices.Equal(got, []string{"2  true", "3  true"}) {
			t.Errorf("wiped, and mounted: %q", got)
		}
		// A failure to record is reported once, not at each look.
		m.change(func() {
			m.log, m.noteErr = nil, errors.New("full")
			vdb.Udev.FSType, vdb.Udev.FSUsage = "swap", "other"
		})
		for range 3 {
			a.Look("vdb")
			settle()
			m.change(func() { vdb.Standing.Noted = nil })
		}
		if log := strings.Join(m.log, "\n"); strings.Count(log, "problem: full") != 1 {
			t.Errorf("log:\n%s", log)
		}
	})
}

// TestNotesInBlockMode checks that the record of a disk's content stays after a class in block mode selects the disk.
// hotmount does not read the disk again in block mode, so only the record makes hotmount hold the disk.
func TestNotesInBlockMode(t *testing.T) {
	vdb := blankDisk("vdb", 2)
	vdb.Serial, vdb.Standing.Noted = "S1", &disk.Sighting{Identity: vdb.Identity(""), Type: "unknown content"}
	m := newMachine(vdb)
	with(t, m, func(t *testing.T, a *Agent) {
		s := testSettings()
		s.Classes[0].Mode = disk.ModeBlock
		if err := a.Reload(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			time.Sleep(time.Hour)
			a.Look("vdb")
			settle()
		}
		m.change(func() {
			if log := strings.Join(m.log, "\n"); m.notes != nil || !strings.Contains(log, "vdb: hold (content-to-be-given-out)") || strings.Contains(log, "link") {
				t.Errorf("notes %+v, log:\n%s", m.notes, log)
			}
		})
	})
}

// TestTheBrakeHoldsOnWhenTheTimeIsOver checks that a disk that is held because of the format limit stays held after
// FormatPeriod, until the disk is accepted.
func TestTheBrakeHoldsOnWhenTheTimeIsOver(t *testing.T) {
	vdb := blankDisk("vdb", 2)
	vdb.Standing.Formats = make([]time.Duration, 64)
	m := newMachine(vdb)
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `
			vdb stays held: too-many-formats
			vdb: hold (too-many-formats)
			ready`)
		m.change(func() { vdb.Standing.Formats = nil })
		a.Look("vdb")
		m.expect(t, ``)
		if _, err := a.Accept(t.Context(), "vdb", 0, ""); err != nil {
			t.Error(err)
		}
		settle()
		m.change(func() {
			if len(m.table) != 1 {
				t.Errorf("accepted and not mounted: %q", m.log)
			}
		})
	})
}

// TestAFilesystemThatWasMissingTurnsUp checks that a disk that was held because of a missing filesystem is no longer
// held once the filesystem turns up.
func TestAFilesystemThatWasMissingTurnsUp(t *testing.T) {
	vdb := blankDisk("vdb", 2)
	vdb.Standing.FormerSlot = &disk.Sighting{UUID: uuidA, Type: "xfs"}
	m := newMachine(vdb)
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `
			vdb: hold (former-slot)
			ready`)
		m.change(func() { m.disks["vdc"] = xfsDisk("vdc", 3, uuidA) })
		a.Look("vdc")
		settle()
		m.change(func() {
			if len(m.table) != 2 {
				t.Errorf("%d are mounted: %q", len(m.table), m.log)
			}
		})
	})
}

// TestStormOfEvents checks that the agent needs only a few looks in a storm of events. The last event of the storm must
// cause a look, and the first event after the storm must cause a look at once.
func TestStormOfEvents(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		m.mu.Lock()
		before := m.looks
		m.mu.Unlock()
		for range 10_000 {
			a.Look("vdb")
			time.Sleep(10 * time.Millisecond)
		}
		m.expect(t, "vdb: mount (filesystem)\nmount vdb seq 2: xfs at /mnt/disks/"+uuidA+"\nvdb: mounted at "+uuidA+"\nready")
		// The last event reports that the disk has left.
		m.change(func() { delete(m.disks, "vdb") })
		a.Look("vdb")
		time.Sleep(hintMost)
		m.expect(t, "vdb: gone\nforgot 2\nunmount /mnt/disks/"+uuidA+"\nrmdir /mnt/disks/"+uuidA)
		m.mu.Lock()
		during := m.looks - before
		m.mu.Unlock()
		// Within 100 seconds there are 8 looks without delay, and 6 looks with growing delays of 0.1 to 3.2 seconds.
		// After that, there is a look every 5 seconds (hintMost).
		if during > 36 || during < 20 {
			t.Errorf("%d looks", during)
		}
		m.change(func() { m.disks["vdb"] = xfsDisk("vdb", 3, uuidA) })
		time.Sleep(hintsForgotten)
		for range hintsAtOnce {
			a.Look("vdb")
			settle()
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		// One more look shows the result of the mount.
		if got := m.looks - before - during; got != hintsAtOnce+1 {
			t.Errorf("%d looks at %d single events", got, hintsAtOnce)
		}
	})
}

// TestAnEventThatWasPutOffIsTheNextDisks checks an event that waits in a storm while its disk is replaced by another
// disk with the same name. The agent still handles the event, because the event may belong to the new disk.
func TestAnEventThatWasPutOffIsTheNextDisks(t *testing.T) {
	refused := xfsDisk("vdb", 2, uuidA)
	refused.Partitions = []string{"vdb1"}
	m := newMachine(refused)
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		for range hintsAtOnce + 1 {
			a.Look("vdb")
			settle()
		}
		m.expect(t, "vdb: refuse (partitions)\nready")
		m.change(func() { m.hangs, m.hang = "vdb", make(chan struct{}) })
		time.Sleep(hintFirst) // until the postponed look has begun
		a.Look("vdb")
		settle()
		m.change(func() { delete(m.disks, "vdb") })
		m.hang <- struct{}{}
		settle()
		m.change(func() { m.disks["vdb"] = xfsDisk("vdb", 3, uuidB) })
		select {
		case m.hang <- struct{}{}:
		default:
			t.Error("nobody looks at the next disk")
		}
		close(m.hang)
		m.mu.Lock()
		m.hangs = ""
		m.mu.Unlock()
		m.expect(t, "vdb: gone\nforgot 2\nvdb: mount (filesystem)\nmount vdb seq 3: xfs at /mnt/disks/"+uuidB+"\nvdb: mounted at "+uuidB)
	})
}

// TestStatusWhileThereIsWork checks that the status is sent at most once a second while there is work. When no work is
// left, the status is sent at once.
func TestStatusWhileThereIsWork(t *testing.T) {
	m := newMachine()
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, "ready")
		time.Sleep(statusEvery)
		m.slow = true
		told := func() string {
			settle()
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.status
		}
		const rest = "0 mounted, 0 held, 0 refused, 0 failing"
		for i, want := range []string{"", "; working on vdb, vdc", "; working on vdb, vdc", "; working on vdb, vdc, vdd, vde"} {
			name := "vd" + string(rune('b'+i))
			m.change(func() { m.disks[name] = xfsDisk(name, uint64(2+i), uuidA[:35]+string(rune('a'+i))) })
			a.Look(name)
			switch i {
			case 1:
				time.Sleep(statusAfter)
			case 3:
				time.Sleep(statusEvery)
			}
			if got := told(); got != rest+want {
				t.Errorf("%s: %q", name, got)
			}
		}
		close(m.hang)
		if got := told(); got != "4 mounted, 0 held, 0 refused, 0 failing" {
			t.Errorf("in the end: %q", got)
		}
		m.change(func() { m.hang = make(chan struct{}); m.disks["vdg"] = xfsDisk("vdg", 8, uuidC) })
		if err := a.Reload(t.Context(), testSettings()); err != nil {
			t.Fatal(err)
		}
		if got := told(); got != rest+"; working on vdb, vdc, vdd, vde, vdg" || m.statusAtReady != got {
			t.Errorf("right after a reload: %q, when it was ready again: %q", got, m.statusAtReady)
		}
		close(m.hang)
		if got := told(); got != "5 mounted, 0 held, 0 refused, 0 failing" {
			t.Errorf("after the reload: %q", got)
		}
		// Work that ends at once causes one status line.
		m.change(func() { m.slow, m.statuses = false, nil; m.disks["vdf"] = xfsDisk("vdf", 9, uuidB) })
		a.Look("vdf")
		if got := told(); got != "6 mounted, 0 held, 0 refused, 0 failing" || len(m.statuses) != 1 {
			t.Errorf("%q, told %q", got, m.statuses)
		}
	})
}

// TestGoneCostsTheOthersNothing checks that the departure of a disk causes no look at other disks.
func TestGoneCostsTheOthersNothing(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA), xfsDisk("vdc", 3, uuidB), blankDisk("vdd", 4))
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() { m.log, m.looks = nil, 0; delete(m.disks, "vdb") })
		a.Look("vdb")
		m.expect(t, `
			vdb: gone
			forgot 2
			unmount /mnt/disks/`+uuidA+`
			rmdir /mnt/disks/`+uuidA)
		if m.looks != 1 {
			t.Errorf("%d looks", m.looks)
		}
	})
}

// TestAPulledDiskWhoseNumberIsAnothers checks a pulled disk that returns under another name. The returned disk must not
// be refused permanently, even if a new disk now has the returned disk's former device number. The new disk must not be
// mistaken for the pulled disk.
func TestAPulledDiskWhoseNumberIsAnothers(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		m.change(func() {
			m.log, m.table = nil, nil
			m.disks["vdb"], m.disks["vdc"] = blankDisk("vdb", 3), xfsDisk("vdc", 4, uuidA)
		})
		a.Look("vdc")
		settle()
		if log := strings.Join(m.log, "\n"); strings.Contains(log, "stays held") {
			t.Error(log)
		}
	})
}
