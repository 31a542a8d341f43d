package report

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
	_ "unsafe" // for go:linkname

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
)

const uuid = "5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f"

// librarySocket is the path where go-systemd looks for journald. The linker can set librarySocket
// (journal/journal_unix.go).
//
//go:linkname librarySocket github.com/coreos/go-systemd/v22/journal.journalSocket
var librarySocket string

// An entry contains the fields that journald reads from one datagram. A journal field may occur several times in one
// entry.
type entry map[string][]string

// inbox reads datagrams from a socket as soon as the datagrams arrive. The kernel's queue for datagrams is short
// (net.unix.max_dgram_qlen), and a sender waits while the queue is full.
type inbox struct {
	socket    *net.UnixConn
	path      string
	datagrams chan []byte
}

func listen(t *testing.T, path string) inbox {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	in := inbox{c, path, make(chan []byte, 1000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			b := make([]byte, 64<<10)
			n, err := c.Read(b)
			if err != nil {
				return
			}
			in.datagrams <- b[:n:n]
		}
	}()
	t.Cleanup(func() { c.Close(); <-done })
	return in
}

// newInbox returns an inbox that replaces journald's socket.
func newInbox(t *testing.T) inbox {
	t.Helper()
	before := librarySocket
	librarySocket = filepath.Join(t.TempDir(), "socket")
	t.Cleanup(func() { librarySocket = before })
	return listen(t, librarySocket)
}

// The method `log` returns a log that writes to this inbox.
func (i inbox) log() *Log { return &Log{socket: i.path} }

func (i inbox) datagram(t *testing.T) []byte {
	t.Helper()
	select {
	case b := <-i.datagrams:
		return b
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was sent")
		return nil
	}
}

// The method `next` reads the next entry as journald does (systemd.io/JOURNAL_NATIVE_PROTOCOL).
func (i inbox) next(t *testing.T) entry {
	t.Helper()
	e := entry{}
	for b := bytes.NewBuffer(i.datagram(t)); ; {
		line, err := b.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			break
		}
		if err != nil {
			t.Fatalf("a field without an end: %q", line)
		}
		name, value, plain := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !plain {
			var size uint64
			if err := binary.Read(b, binary.LittleEndian, &size); err != nil || size >= uint64(b.Len()) {
				t.Fatalf("%s has %d bytes, got %d: %v", name, size, b.Len(), err)
			}
			value = string(b.Next(int(size)))
			if end, err := b.ReadByte(); end != '\n' || err != nil {
				t.Fatalf("%s ends with %q, %v", name, end, err)
			}
		}
		// journald drops a field whose name does not match the pattern below (journal_field_valid in systemd).
		if !regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`).MatchString(name) {
			t.Errorf("invalid name of a field: %q", name)
		}
		e[name] = append(e[name], value)
	}
	return e
}

// The method `one` returns a map with the single value of each field, and fails the test if a field occurs several times.
func (e entry) one(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, values := range e {
		if len(values) != 1 {
			t.Errorf("%s: %q", name, values)
		}
		all[name] = values[0]
	}
	return all
}

func facts(serial string) *disk.Facts {
	return &disk.Facts{ID: disk.ID{Name: "vdb", Dev: disk.Dev{Major: 254, Minor: 16}, Seq: 12}, Size: 5 << 30, Serial: serial, Udev: disk.Udev{Initialized: true}}
}

func decisionEvent(f *disk.Facts, c *disk.Content, s *disk.Settings, d disk.Decision) disk.Event {
	return disk.Event{Kind: disk.EventDecided, Facts: f, Content: c, Settings: s, Decision: d}
}

func mounted(f *disk.Facts, d disk.Decision, path string) disk.Event {
	return disk.Event{Kind: disk.EventMounted, Facts: f, Decision: d, Path: path}
}

func failed(f *disk.Facts, d disk.Decision, path string, err error, again disk.Tries) disk.Event {
	return disk.Event{Kind: disk.EventFailed, Facts: f, Decision: d, Path: path, Err: err, Tries: again}
}

func recovered(f *disk.Facts) disk.Event { return disk.Event{Kind: disk.EventRecovered, Facts: f} }

func gone(f *disk.Facts, path string) disk.Event {
	return disk.Event{Kind: disk.EventGone, Facts: f, Path: path}
}

func bounced(f *disk.Facts, path string) disk.Event {
	return disk.Event{Kind: disk.EventBounced, Facts: f, Path: path}
}

func settings() *disk.Settings {
	return &disk.Settings{Format: true, Classes: []disk.Class{
		{Name: "fast", Selectors: disk.Selectors{Names: []string{"nvme*"}}, Directory: "/mnt/fast", Create: "xfs", Accept: []string{"xfs"}},
		{Name: "default", Selectors: disk.Selectors{Names: []string{"vd*"}}, Directory: "/mnt/disks", Create: "xfs", Accept: []string{"xfs"}},
	}}
}

// TestKinds repeats the MESSAGE_IDs, because users' scripts depend on them.
func TestKinds(t *testing.T) {
	want := map[Kind]string{
		KindSeen:      "1a5fdbd3a9e44bcf857513f51e889e21",
		KindDecided:   "8d257cf62e324ae2818900eb75c8833f",
		KindHeld:      "bd4ed046df54461e81253de17d379121",
		KindAmiss:     "3fc8a617b3684aaa83d78586e3c76c08",
		KindRefused:   "f6069dd09fe94626a9bcd1a791130da9",
		KindProven:    "7f256a91fea2447dab04adb584de3e55",
		KindFormatted: "3d02a53f47f844f790341d3bb1afb1ad",
		KindGrown:     "dafa3840c4c24aac8829ab90ba6cf8fe",
		KindGivenOut:  "714a872467334d608ea50a741a74156f",
		KindTrimmed:   "6b61b43dd3b843da99bad8e53abe52dc",
		KindMounted:   "a9f0438d20a54cb2b5788042a7b0bdad",
		KindFailed:    "db5193068a5b444e89220b40468456ec",
		KindGone:      "ba183a4a7423409c92799d952cdf0ad5",
		KindBounced:   "a9d874880dcf4ca5b63448e9799abcce",
		KindRescan:    "65c06bbaf47c4ee9979344507a34808d",
		KindNotice:    "7774f65c32334b598892bb9e718beec8",
		KindProblem:   "668e8644ecc84d45b43580c03a0d0612",
	}
	if len(want) != 17 {
		t.Errorf("%d different kinds", len(want))
	}
	for kind, id := range want {
		if string(kind) != id {
			t.Errorf("%s changed to %s", id, kind)
		}
		// A MESSAGE_ID is a random UUID (systemd-id128 new) without dashes.
		if !regexp.MustCompile(`^[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}$`).MatchString(string(kind)) {
			t.Errorf("%s is no MESSAGE_ID", kind)
		}
	}
	// The test must list all kinds of events in report.go.
	source, err := os.ReadFile("report.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(regexp.MustCompile(`(?m)^\s*Kind\w+\s+Kind = "`).FindAll(source, -1)); n != len(want) {
		t.Errorf("there are %d kinds, the test knows %d", n, len(want))
	}
}

func TestJournalFields(t *testing.T) {
	in := newInbox(t)
	a := in.log()
	d := disk.Decision{Action: disk.Mount, Reason: disk.ReasonFilesystem, Class: "default", UUID: uuid, Type: "xfs"}
	of := map[string]string{
		"HOTMOUNT_DEVICE": "/dev/vdb", "HOTMOUNT_DISKSEQ": "12", "HOTMOUNT_SERIAL": "DATA-1", "HOTMOUNT_DECISION": "mount",
		"HOTMOUNT_REASON": "filesystem", "HOTMOUNT_CLASS": "default", "HOTMOUNT_UUID": uuid,
	}
	const name, path = "/dev/vdb (serial DATA-1, 5 GiB)", "/mnt/disks/" + uuid
	const mountUnit = `mnt-disks-5f0c8f3e\x2d2b3c\x2d4d61\x2d9c2e\x2d0a1b2c3d4e5f.mount`
	for _, test := range []struct {
		name     string
		send     func()
		priority string
		id       Kind
		unit     string
		message  string
		// The map `disk` contains the journal fields about the disk, without the fields that every entry contains.
		disk map[string]string
	}{
		{"mounted", func() { a.Report(mounted(facts("DATA-1"), d, path)) }, "5", KindMounted, mountUnit, name + ": mounted xfs " + uuid + " at " + path, of},
		{"decided to mount", func() {
			a.Report(decisionEvent(facts("DATA-1"), &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid}, settings(), d))
		},
			"6", KindDecided, mountUnit, name + ": mount: the disk holds xfs " + uuid, of},
		{"failed, to be tried again", func() {
			a.Report(failed(facts("DATA-1"), d, path, errors.New("no\nway\n"), disk.Tries{Count: 1, Wait: 90*time.Second + time.Microsecond}))
		},
			"3", KindFailed, mountUnit, name + ": no; way; next try in 1m30s", of},
		{"failed again", func() {
			a.Report(failed(facts("DATA-1"), d, "", errors.New("said before"), disk.Tries{Count: 2, Wait: time.Hour, Quiet: true}))
			a.Report(failed(facts("DATA-1"), d, "", errors.New("no way"), disk.Tries{Count: 3, Wait: time.Hour}))
		},
			"3", KindFailed, "", name + ": no way; next try in 1h0m0s (failed 3 times so far)", of},
		{"gone", func() { a.Report(gone(facts("DATA-1"), path)) }, "5", KindGone, mountUnit, name + ": gone; the disk was mounted at " + path,
			map[string]string{"HOTMOUNT_DEVICE": "/dev/vdb", "HOTMOUNT_DISKSEQ": "12", "HOTMOUNT_SERIAL": "DATA-1", "HOTMOUNT_UUID": uuid}},
		{"gone, not mounted, without a serial", func() { a.Report(gone(facts(""), "")) }, "5", KindGone, "", "/dev/vdb (no serial, 5 GiB): gone",
			map[string]string{"HOTMOUNT_DEVICE": "/dev/vdb", "HOTMOUNT_DISKSEQ": "12"}},
		{"unmounted by systemd", func() { a.Report(bounced(facts(""), path)) }, "5", KindBounced, mountUnit,
			"/dev/vdb (no serial, 5 GiB): systemd unmounted the disk for a soft reboot, or because systemd considered the disk unplugged; hotmount mounts the disk again",
			map[string]string{"HOTMOUNT_DEVICE": "/dev/vdb", "HOTMOUNT_DISKSEQ": "12", "HOTMOUNT_DECISION": "mount", "HOTMOUNT_UUID": uuid}},
		{"problem", func() { a.Problem(errors.New("it is\nso")) }, "3", KindProblem, "", "it is; so", nil},
		{"rescan", func() { a.Rescan("events were lost") }, "6", KindRescan, "", "looking at all disks: events were lost", nil},
	} {
		test.send()
		want := map[string]string{"PRIORITY": test.priority, "MESSAGE": test.message, "MESSAGE_ID": string(test.id)}
		if test.unit != "" {
			want["OBJECT_SYSTEMD_UNIT"] = test.unit
		}
		for k, v := range test.disk {
			want[k] = v
		}
		if diff := cmp.Diff(want, in.next(t).one(t)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// TestPriorities checks that a search for warnings in the journal finds refused disks, but not disks that hotmount
// ignores.
func TestPriorities(t *testing.T) {
	in := newInbox(t)
	a := in.log()
	c := &disk.Content{Kind: disk.Other, Type: "LVM2_member"}
	for action, want := range map[disk.Action]string{
		disk.Refuse: "4", disk.Hold: "4", disk.Ignore: "7", disk.Wait: "7", disk.Mount: "6", disk.Format: "6", disk.Prove: "6", disk.Keep: "6",
	} {
		a.Report(decisionEvent(facts("S"), c, settings(), disk.Decision{Action: action, Reason: disk.ReasonOther, Class: "default"}))
		if got := in.next(t).one(t)["PRIORITY"]; got != want {
			t.Errorf("%s has priority %s, want %s", action, got, want)
		}
	}
	// Report must not log a decision with ReasonNoClass, because every node has disks that no class selects.
	a.Report(decisionEvent(facts("S"), c, settings(), disk.Decision{Action: disk.Ignore, Reason: disk.ReasonNoClass}))
	a.Problem(errors.New("the next"))
	if got := in.next(t).one(t)["MESSAGE"]; got != "the next" {
		t.Errorf("got %q", got)
	}
}

// TestUnitOfDecision checks to which unit an entry about a decision belongs. An entry about a disk that is mounted or
// will be mounted belongs to the mount unit of its mount point in the class directory. All other entries belong to no
// unit.
func TestUnitOfDecision(t *testing.T) {
	in := newInbox(t)
	a := in.log()
	for _, test := range []struct {
		action      disk.Action
		class, uuid string
		want        string
	}{
		{disk.Mount, "default", uuid, `mnt-disks-5f0c8f3e\x2d2b3c\x2d4d61\x2d9c2e\x2d0a1b2c3d4e5f.mount`},
		{disk.Keep, "fast", uuid, `mnt-fast-5f0c8f3e\x2d2b3c\x2d4d61\x2d9c2e\x2d0a1b2c3d4e5f.mount`},
		{disk.Refuse, "default", uuid, ""},
		{disk.Mount, "default", "", ""},
		{disk.Mount, "none of that name", uuid, ""},
	} {
		f, c := facts("S"), &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: test.uuid}
		a.Report(decisionEvent(f, c, settings(), disk.Decision{Action: test.action, Reason: disk.ReasonFilesystem, Class: test.class, UUID: test.uuid, Type: "xfs"}))
		if got := in.next(t).one(t)["OBJECT_SYSTEMD_UNIT"]; got != test.want {
			t.Errorf("%s %s %q: unit %q, want %q", test.action, test.class, test.uuid, got, test.want)
		}
	}
}

// TestUnitNames compares hotmount's unit names with the output of `systemd-escape --path --suffix=mount`.
func TestUnitNames(t *testing.T) {
	in := newInbox(t)
	log := in.log()
	for path, want := range map[string]string{
		"/mnt/disks/" + uuid:   `mnt-disks-5f0c8f3e\x2d2b3c\x2d4d61\x2d9c2e\x2d0a1b2c3d4e5f.mount`,
		"/mnt/my-disks_1.x/u":  `mnt-my\x2ddisks_1.x-u.mount`,
		"/.hidden/.too/u":      `\x2ehidden-.too-u.mount`,
		"//mnt///disks/u/":     `mnt-disks-u.mount`,
		"/mnt/a b\\c\xc3\xa9d": `mnt-a\x20b\x5cc\xc3\xa9d.mount`,
		"/":                    `-.mount`,
	} {
		log.Event(KindGone, journal.PriNotice, nil, disk.Decision{}, path, "x")
		if got := in.next(t).one(t)["OBJECT_SYSTEMD_UNIT"]; got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

// hostile contains strings that a hostile maker of disks could choose as serial, label or type.
var hostile = []string{
	"a\nMESSAGE=forged\nPRIORITY=0",
	"a\nMESSAGE\n\x06\x00\x00\x00\x00\x00\x00\x00forged",
	"\x1b[2J\x1b]0;title\x07", "\r\b\b\bcleared", "\x00\x00", "\xff\xfe\x80", "\u202egnp.exe", "\u0085\u2028\u2029x", "\u009b31m",
	"STATUS=x\nREADY=1", strings.Repeat("\n", 1000), strings.Repeat("x", 10000), `\n`, "=", " ",
}

// The function `clean` fails the test if the text contains bytes that must not reach a terminal.
func clean(t *testing.T, where, text string) {
	t.Helper()
	bad := func(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, bad) || len(text) > 2000 {
		t.Errorf("%s: %.300q", where, text)
	}
}

func TestHostile(t *testing.T) {
	in := newInbox(t)
	var text bytes.Buffer
	fields := []string{
		"HOTMOUNT_CLASS", "HOTMOUNT_DECISION", "HOTMOUNT_DEVICE", "HOTMOUNT_DISKSEQ", "HOTMOUNT_REASON", "HOTMOUNT_SERIAL", "HOTMOUNT_UUID",
		"MESSAGE", "MESSAGE_ID", "OBJECT_SYSTEMD_UNIT", "PRIORITY",
	}
	for _, h := range hostile {
		f := facts(h)
		f.Model, f.Vendor, f.WWN, f.Slot = h, h, h, h
		f.Holders, f.Partitions, f.Claim, f.Unseen = []string{h}, []string{h}, h, h
		f.Udev.FSLabel, f.Udev.FSType, f.Udev.Ambivalent = h, h, h
		f.Mounts = []disk.MountPoint{{Path: h, Source: h}}
		f.SameSerial = []disk.Peer{{ID: disk.ID{Name: "vdc", Seq: 1}, Slot: h, UUID: h, Mounted: h, InUse: h, Serial: h}}
		f.SameUUID, f.SameWWN = f.SameSerial, f.SameSerial
		f.Standing.Verdict = &disk.Verdict{Failure: h}
		c := &disk.Content{Kind: disk.Other, Type: h, Label: h}
		for _, a := range []*Log{in.log(), {text: &text}} {
			events := 0
			for _, reason := range []disk.Reason{
				disk.ReasonSystem, disk.ReasonElsewhere, disk.ReasonHeld, disk.ReasonClaimed, disk.ReasonSeed, disk.ReasonPartitions, disk.ReasonTwin,
				disk.ReasonType, disk.ReasonOther, disk.ReasonUnknown, disk.ReasonSameSerial, disk.ReasonSameWWN, disk.ReasonUnseen, disk.ReasonFormatFailed, disk.ReasonFilesystem,
			} {
				d := disk.Decision{Action: disk.Mount, Reason: reason, Class: "default", UUID: uuid, Type: h}
				a.Report(decisionEvent(f, c, settings(), d))
				events++
			}
			d := disk.Decision{Action: disk.Mount, Reason: disk.ReasonFilesystem, Class: "default", UUID: uuid, Type: "xfs"}
			a.Report(mounted(f, d, "/mnt/disks/"+uuid))
			a.Report(failed(f, d, "/mnt/disks/"+uuid, errors.New(cut(h)), disk.Tries{Wait: time.Second}))
			a.Report(gone(f, ""))
			a.Problem(errors.New(cut(h)))
			a.Rescan(cut(h))
			events += 5
			if a.text != nil {
				lines := 0
				for s := bufio.NewScanner(&text); s.Scan(); lines++ {
					clean(t, "text", s.Text())
				}
				if lines != events {
					t.Errorf("%.40q: %d lines for %d events", h, lines, events)
				}
				continue
			}
			for range events {
				for name, value := range in.next(t).one(t) {
					if !slices.Contains(fields, name) {
						t.Errorf("%.40q: field %q", h, name)
					}
					if name != "OBJECT_SYSTEMD_UNIT" {
						clean(t, name, value)
					}
				}
			}
		}
	}
}

// The function `cut` shortens the text of an error to 200 bytes. Outside the tests, the code that creates an error
// already shortens the parts of the error's text.
func cut(s string) string { return s[:min(len(s), 200)] }

func TestName(t *testing.T) {
	for serial, want := range map[string]string{
		"DATA-1": "/dev/vdb (serial DATA-1, 5 GiB)", "": "/dev/vdb (no serial, 5 GiB)", "a\nb": `/dev/vdb (serial a\nb, 5 GiB)`,
	} {
		if got := Name(facts(serial)); got != want {
			t.Errorf("%q: %q, want %q", serial, got, want)
		}
	}
	volume := facts("LVM-x")
	volume.MapperName = "vg0-disk1"
	if got := Name(volume); got != "/dev/vdb (vg0-disk1, 5 GiB)" {
		t.Errorf("a logical volume: %q", got)
	}
}

func TestText(t *testing.T) {
	var b strings.Builder
	a := &Log{text: &b}
	a.Report(gone(facts("DATA-1"), "/mnt/disks/"+uuid))
	a.Problem(errors.New("one\ntwo"))
	a.Event(KindProven, journal.PriInfo, facts("DATA-1"), disk.Decision{}, "", "it is blank\n  all zero")
	want := "/dev/vdb (serial DATA-1, 5 GiB): gone; the disk was mounted at /mnt/disks/" + uuid + "\none; two\nit is blank\n  all zero\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEvidenceIsOneEntry checks that the journal gets all evidence in one entry, on separate lines.
func TestEvidenceIsOneEntry(t *testing.T) {
	in := newInbox(t)
	const message = "it is blank\n  wipefs: nothing\n  PRIORITY=0"
	in.log().Event(KindProven, journal.PriInfo, nil, disk.Decision{}, "", message)
	want := map[string]string{"PRIORITY": "6", "MESSAGE_ID": string(KindProven), "MESSAGE": message}
	if diff := cmp.Diff(want, in.next(t).one(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// stderr returns what is written to standard error while f runs.
func stderr(t *testing.T, f func()) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	before := os.Stderr
	os.Stderr = file
	defer func() { os.Stderr = before }()
	f()
	b, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestJournalIsDown checks that a message is not lost if journald is not running.
func TestJournalIsDown(t *testing.T) {
	in := newInbox(t)
	in.socket.Close()
	if got := stderr(t, func() { in.log().Problem(errors.New("no way")) }); got != "no way\n" {
		t.Errorf("standard error got %q", got)
	}
}

// TestNewIsTextForPeople checks that New writes text to standard error unless JOURNAL_STREAM shows that standard error
// belongs to the journal.
func TestNewIsTextForPeople(t *testing.T) {
	newInbox(t)
	for _, stream := range []string{"", "1:1", "nonsense"} {
		t.Setenv("JOURNAL_STREAM", stream)
		if got := stderr(t, func() { New().Problem(errors.New("no way")) }); got != "no way\n" {
			t.Errorf("JOURNAL_STREAM=%s: standard error got %q", stream, got)
		}
	}
}

func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	manager := listen(t, path)
	t.Setenv("NOTIFY_SOCKET", path)
	var b strings.Builder
	a := &Log{text: &b}
	for _, test := range []struct {
		state, want string
	}{
		{"READY=1", "READY=1"},
		{"RELOADING=1", "RELOADING=1"},
		{"WATCHDOG=1", "WATCHDOG=1"},
		{"STATUS=2 mounted", "STATUS=2 mounted"},
		// A line break in a status text must not let the text set another state, such as READY=1.
		{"STATUS=vdb\nREADY=1\nMAINPID=1", "STATUS=vdb; READY=1; MAINPID=1"},
	} {
		a.Notify(test.state)
		if got := string(manager.datagram(t)); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	if b.Len() != 0 {
		t.Errorf("text %q", b.String())
	}
	manager.socket.Close()
	if a.Notify("WATCHDOG=1"); !strings.HasPrefix(b.String(), "cannot notify the service manager: ") {
		t.Errorf("without a manager: %q", b.String())
	}
	b.Reset()
	t.Setenv("NOTIFY_SOCKET", "")
	if a.Notify("WATCHDOG=1"); b.Len() != 0 {
		t.Errorf("without NOTIFY_SOCKET: %q", b.String())
	}
}
