//go:build root

package format

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
	"hotmount/internal/probe"
	"hotmount/internal/run"
)

// loop is a real block device on a sparse file.
type loop struct {
	t     *testing.T
	image string
	facts disk.Facts
	begun int
	ended int
	// The field `off` is the reason why formatting is switched off, or nil if formatting is on.
	off error
	// The field `runner` is run.Exec, or the Runner with which a test replaces run.Exec.
	runner run.Runner
	// The field `class` contains the options of Make that come from the disk's class.
	class MakeOptions
	// The function `progress` is called after each read of a scan.
	progress func(context.Context, probe.Progress)
}

func newLoop(t *testing.T, size int64) *loop {
	l := &loop{t: t, image: filepath.Join(t.TempDir(), "disk"), runner: run.Exec{}}
	if err := errors.Join(os.WriteFile(l.image, nil, 0o600), os.Truncate(l.image, size)); err != nil {
		t.Fatal(err)
	}
	l.attach(sh(t, "losetup -f --show "+l.image))
	t.Cleanup(l.free)
	return l
}

// free detaches the loop device and removes its file, because the files of hundreds of tests may fill the machine's own
// disk.
func (l *loop) free() {
	if l.image != "" {
		sh(l.t, "losetup -d "+l.facts.Node()+"; rm "+l.image)
		l.image = ""
	}
}

func (l *loop) attach(node string) {
	name := filepath.Base(node)
	l.facts = disk.Facts{ID: disk.ID{Name: name, Seq: l.number("diskseq", name)}, Size: 512 * l.number("size", name)}
	var err error
	if l.facts.Dev, err = disk.ParseDev(l.read("dev", name)); err != nil {
		l.t.Fatal(err)
	}
}

func (l *loop) read(attribute, name string) string {
	text, err := os.ReadFile("/sys/block/" + name + "/" + attribute)
	if err != nil {
		l.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func (l *loop) number(attribute, name string) uint64 {
	n, err := strconv.ParseUint(l.read(attribute, name), 10, 64)
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}

// count returns how many writes and discards are complete, and how many are in flight (Linux,
// Documentation/block/stat.rst).
func (l *loop) count() (done, inFlight uint64, err error) {
	if _, err := fmt.Sscan(l.read("inflight", l.facts.Name), new(uint64), &inFlight); err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(l.read("stat", l.facts.Name))
	for _, i := range []int{4, 11} {
		n, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil {
			return 0, 0, err
		}
		done += n
	}
	return done, inFlight, nil
}

func (l *loop) bytes() (read, written uint64, err error) {
	stat := strings.Fields(l.read("stat", l.facts.Name))
	if read, err = strconv.ParseUint(stat[2], 10, 64); err == nil {
		written, err = strconv.ParseUint(stat[6], 10, 64)
	}
	return 512 * read, 512 * written, err
}

func (l *loop) Begin(i disk.Intent) error { l.begun++; l.facts.Standing.Intent = &i; return nil }
func (l *loop) Amend(i disk.Intent) error { l.facts.Standing.Intent = &i; return nil }
func (l *loop) End(string, error) error   { l.ended++; l.facts.Standing.Intent = nil; return nil }

func (l *loop) deps() Deps {
	return Deps{Runner: l.runner, Writes: l.count, Bytes: l.bytes, Progress: l.progress, Settle: time.Millisecond, Intents: l, Allowed: func() error { return l.off }, Log: func(msg string, evidence ...string) {
		l.t.Logf("%s: %q", msg, evidence)
	}}
}

func (l *loop) work() (disk.Content, error) {
	s, err := Open(l.t.Context(), l.facts, l.deps())
	if err != nil {
		return disk.Content{}, err
	}
	defer s.Close()
	c, err := s.Prove(l.t.Context(), "auto")
	if i := l.facts.Standing.Intent; err == nil && !c.Torn && c.Kind == disk.Filesystem && i != nil && c.UUID == i.UUID {
		if err := s.Finish(l.t.Context()); err != nil {
			return c, err
		}
		return c, l.End(i.UUID, nil)
	}
	if err != nil || c.Kind != disk.Blank && (c.Kind != disk.HalfMade || c.UUID != uuid) {
		return c, err
	}
	o := l.class
	o.Intent, o.RecoverHalfMade = disk.Intent{Identity: l.facts.Identity("boot"), UUID: uuid, Ext4: o.Intent.Ext4}, c.Kind == disk.HalfMade
	return c, s.Make(l.t.Context(), o)
}

func (l *loop) digest() string {
	f, err := os.Open(l.image)
	if err != nil {
		l.t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		l.t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func sh(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.Command("/bin/sh", "-ec", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestRealBlankDisk(t *testing.T) {
	for _, size := range []int64{300 << 20, 300<<20 + 512, 70 << 30} {
		t.Run(strconv.FormatInt(size, 10), func(t *testing.T) {
			l := newLoop(t, size)
			c, err := l.work()
			if err != nil || c.Kind != disk.Blank {
				t.Fatalf("%+v, error %v", c, err)
			}
			if l.begun != 1 || l.ended != 1 {
				t.Errorf("the intent was begun %d times and ended %d times", l.begun, l.ended)
			}
			sh(t, "xfs_repair -n "+l.facts.Node())
			if got := sh(t, "blkid -p -o value -s UUID "+l.facts.Node()); got != uuid {
				t.Errorf("UUID %s", got)
			}
			c, err = l.work()
			if err != nil || c.Kind != disk.Filesystem || c.Type != "xfs" || c.UUID != uuid {
				t.Errorf("%+v, error %v", c, err)
			}
		})
	}
}

// afterMkfs is a Runner that calls a function right after mkfs has written.
type afterMkfs func()

func (f afterMkfs) Run(ctx context.Context, c run.Command) (run.Result, error) {
	res, err := run.Exec{}.Run(ctx, c)
	if c.Path == mkfs && c.Args[0] != "-N" && c.Args[0] != "-V" || c.Path == mkfsExt4 && c.Args[0] != "-n" && strings.HasPrefix(c.Args[len(c.Args)-1], "/dev/") {
		f()
	}
	return res, err
}

// TestRealCountsAgree checks that the kernel's count of written bytes matches the bytes that mkfs.xfs writes (isOurs).
// If the counts match, hotmount does not read the disk again after mkfs.xfs. After mkfs.ext4, hotmount reads the disk
// again. hotmount must find a byte that another process writes after mkfs.
func TestRealCountsAgree(t *testing.T) {
	ext4 := func(options ...string) func() *loop {
		return func() *loop { return ext4Loop(t, 1<<30, options...) }
	}
	xfs := func(options ...string) func() *loop {
		return func() *loop {
			l := newLoop(t, 1<<30)
			l.class.Mkfs = options
			return l
		}
	}
	for name, disk := range map[string]func() *loop{
		"as it is": xfs(), "another log": xfs("-l size=70m"), "ext4": ext4(), "ext4 with options": ext4("-m 0", "-i 65536", "-J size=32"),
	} {
		for what, write := range map[string]bool{"alone": false, "somebody else": true} {
			t.Run(name+", "+what, func(t *testing.T) {
				l := disk()
				again := l.class.Intent.Ext4 != nil
				after, read := false, 0
				l.progress = func(context.Context, probe.Progress) {
					if after {
						read++
					}
				}
				l.runner = afterMkfs(func() {
					after = true
					if write {
						sh(t, "printf theirs | dd of="+l.facts.Node()+" bs=1 seek=600000000 conv=notrunc,fsync 2>/dev/null")
					}
				})
				_, err := l.work()
				switch {
				case !write && (err != nil || (read != 0) != again):
					t.Errorf("error %v, %d reads after mkfs", err, read)
				case write && (!errors.Is(err, ErrWritten) || !strings.Contains(err.Error(), "byte 600000000 was written")):
					t.Errorf("error %v, %d reads after mkfs", err, read)
				}
			})
		}
	}
}

// TestRealCountsAgreeOverOldData makes the checks of TestRealCountsAgree on a disk that was not blank, and that is
// formatted by token.
func TestRealCountsAgreeOverOldData(t *testing.T) {
	for what, write := range map[string]bool{"alone": false, "somebody else": true} {
		t.Run(what, func(t *testing.T) {
			l := newLoop(t, 300<<20)
			sh(t, "mkfs.ext4 -q "+l.facts.Node())
			l.runner = afterMkfs(func() {
				if write {
					sh(t, "printf theirs | dd of="+l.facts.Node()+" bs=1 seek=200000000 conv=notrunc,fsync 2>/dev/null")
				}
			})
			err := l.confirm()
			if !write && err != nil || write && (!errors.Is(err, ErrWritten) || l.facts.Standing.Intent == nil || l.facts.Standing.Intent.Doubt == "") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestRealContent checks disks with content that Debian's own tools make, and damaged copies of this content. hotmount
// must find none of these disks blank, and must not change a byte of them.
func TestRealContent(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		kind   disk.Kind
		what   string
	}{
		"xfs":                     {"mkfs.xfs -q $d", disk.Filesystem, "xfs"},
		"ext4":                    {"mkfs.ext4 -q $d", disk.Filesystem, "ext4"},
		"swap":                    {"mkswap -q $d", disk.Other, "swap"},
		"xfs, first 4 KiB zero":   {"mkfs.xfs -q $d; dd if=/dev/zero of=$d bs=4096 count=1 conv=notrunc", disk.Unknown, ""},
		"ext4, first 4 KiB zero":  {"mkfs.ext4 -q $d; dd if=/dev/zero of=$d bs=4096 count=1 conv=notrunc", disk.Unknown, ""},
		"xfs, half made":          {"LIBXFS_DEBUG_WRITE_CRASH=ddev=10 mkfs.xfs -q -K -m uuid=" + other + " $d || true", disk.HalfMade, "xfs"},
		"xfs, one bit of it":      {"mkfs.xfs -q $d; printf '\\001' | dd of=$d bs=1 seek=60 conv=notrunc", disk.Unknown, "xfs"},
		"random bytes":            {"dd if=/dev/urandom of=$d bs=1M count=3 seek=100 conv=notrunc", disk.Unknown, ""},
		"one byte at the end":     {"printf x | dd of=$d bs=1 seek=314572799 conv=notrunc", disk.Unknown, ""},
		"one byte in the middle":  {"printf x | dd of=$d bs=1 seek=151234567 conv=notrunc", disk.Unknown, ""},
		"an archive":              {"tar -cf $d /etc/passwd 2>/dev/null", disk.Other, "tar"},
		"xfs and ext4":            {"mkfs.ext4 -q $d; mkfs.xfs -q -f $d.x; dd if=$d.x of=$d bs=512 count=1 conv=notrunc", disk.Other, "filesystem:xfs filesystem:ext4:1.0"},
		"a boot sector's last 2":  {"printf '\\125\\252' | dd of=$d bs=1 seek=510 conv=notrunc", disk.Other, "dos"},
		"an MBR with a partition": {"printf '\\200\\000\\002\\000\\203\\077\\040\\000\\000\\010\\000\\000\\000\\010\\000\\000' | dd of=$d bs=1 seek=446 conv=notrunc; printf '\\125\\252' | dd of=$d bs=1 seek=510 conv=notrunc", disk.Other, "dos"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, 300<<20)
			sh(t, "d="+l.image+"; truncate -s 300M $d.x; exec 2>/dev/null; "+tc.script+"; truncate -s 300M $d; sync $d; blockdev --flushbufs "+l.facts.Node())
			before := l.digest()
			// A loop device does not reset its I/O counters when its backing file changes, so the test compares two
			// counts.
			writes, _, err := l.count()
			if err != nil {
				t.Fatal(err)
			}
			c, err := l.work()
			if err != nil {
				t.Fatal(err)
			}
			if c.Kind != tc.kind || c.Type != tc.what {
				t.Errorf("%+v", c)
			}
			if l.digest() != before {
				t.Error("the disk was changed")
			}
			if n, _, err := l.count(); n != writes || err != nil {
				t.Errorf("%d writes, error %v", n-writes, err)
			}
		})
	}
}

// The Runner `crash` kills mkfs.xfs or mkfs.ext4 at the n-th write (strace(1), "-e inject"). The number n counts all
// writes, including the writes of zeros and of the log. If the field `debugfs` is set, `crash` kills debugfs and not
// mkfs. debugfs runs after mkfs.ext4.
type crash struct {
	n       int
	debugfs bool
}

func (c crash) Run(ctx context.Context, cmd run.Command) (run.Result, error) {
	writer := cmd.Path == mkfs && cmd.Args[0] != "-N" && cmd.Args[0] != "-V" ||
		cmd.Path == mkfsExt4 && cmd.Args[0] != "-n" && strings.HasPrefix(cmd.Args[len(cmd.Args)-1], "/dev/")
	if c.debugfs {
		writer = cmd.Path == debugfs
	}
	if writer {
		const writes = "pwrite64,fallocate"
		cmd.Args = append([]string{"-f", "-qq", "-o", "/dev/null", "-e", "trace=" + writes, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", writes, c.n), cmd.Path}, cmd.Args...)
		cmd.Path = "/usr/bin/strace"
	}
	return run.Exec{}.Run(ctx, cmd)
}

// The method `killed` kills mkfs at its n-th write, or returns false if mkfs makes fewer than n writes.
func (l *loop) killed(n int) bool {
	return l.killedBy(crash{n: n})
}

func (l *loop) killedBy(k crash) bool {
	l.t.Helper()
	l.runner = k
	c, err := l.work()
	l.runner = run.Exec{}
	if err == nil {
		return false
	}
	if !strings.Contains(err.Error(), "signal: killed") || l.facts.Standing.Intent == nil {
		l.t.Fatalf("killed at write %d: %+v, error %v", k.n, c, err)
	}
	return true
}

// isMade proves the disk once more, formats the disk if necessary, and returns the kind of the earlier content. isMade
// fails the test if the disk then has no filesystem with the intended UUID.
func (l *loop) isMade() disk.Kind {
	l.t.Helper()
	before, err := l.work()
	if err != nil {
		l.t.Fatalf("%+v, error %v", before, err)
	}
	if c, err := l.work(); err != nil || c.Kind != disk.Filesystem || c.UUID != uuid {
		l.t.Fatalf("%+v, and then %+v, error %v", before, c, err)
	}
	return before.Kind
}

// The variable `full` reports whether the tests try every case, and not only a selection.
var full = os.Getenv("HOTMOUNT_TEST_FULL") != ""

// TestRealCrash checks that one more run makes the filesystem whole after mkfs.xfs was killed at any write. After the
// kill, hotmount must find a blank disk, a half-made filesystem with the UUID of the intent, or a whole filesystem.
func TestRealCrash(t *testing.T) {
	found := map[disk.Kind]int{}
	n := 1
	for ; ; n++ {
		if !full && n > 8 && n%9 != 0 {
			continue // the later writes of mkfs.xfs resemble each other, so every ninth is enough
		}
		l := newLoop(t, 300<<20)
		if !l.killed(n) {
			break
		}
		found[l.isMade()]++
		sh(t, "xfs_repair -n "+l.facts.Node())
		l.free()
	}
	t.Logf("killed up to write %d: found %v", n-1, found)
	if n < 60 || found[disk.HalfMade] < 5 || found[disk.Unknown] > 0 {
		t.Errorf("killed up to write %d: found %v", n-1, found)
	}
}

// TestRealClassOptions repeats a killed format with several sets of class options for mkfs.xfs. Each option that a
// class may set is in one of the sets. The root directory of the new filesystem must have the owner and mode of the
// class.
func TestRealClassOptions(t *testing.T) {
	text, err := Prototype("1000:2000", "2770")
	proto := filepath.Join(t.TempDir(), "root")
	if err := errors.Join(err, os.WriteFile(proto, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, options := range [][]string{
		{"-i size=1024,maxpct=10,sparse=0", "-d agcount=2", "-n size=16k", "-l size=70m"},
		{"-d su=64k,sw=2", "-l su=256k", "-m rmapbt=1,reflink=0"},
		{"-d sunit=128,swidth=256", "-l sunit=64", "-m finobt=0,bigtime=0,inobtcount=0"},
		{"-d noalign", "-i nrext64=1"},
	} {
		found := map[disk.Kind]int{}
		for n := 1; ; n++ {
			if !full && n > 5 && n%25 != 0 {
				continue
			}
			l := newLoop(t, 600<<20)
			l.class = MakeOptions{Mkfs: options, Proto: proto}
			if !l.killed(n) {
				break
			}
			found[l.isMade()]++
			sh(t, "xfs_repair -n "+l.facts.Node())
			if inode := sh(t, "xfs_db -r -c 'sb 0' -c 'addr rootino' -c 'p core.mode core.uid core.gid' "+l.facts.Node()); inode != "core.mode = 042770\ncore.uid = 1000\ncore.gid = 2000" {
				t.Errorf("%q: the root directory has %q", options, inode)
			}
			l.free()
		}
		t.Logf("%q: found %v", options, found)
		if found[disk.HalfMade] < 2 {
			t.Errorf("%q: found %v", options, found)
		}
	}
}

// TestRealTornFormat simulates a power cut during a format. The disk then has the superblock, which mkfs writes last,
// but lacks an earlier write. hotmount must refuse the torn filesystem, must not change the disk, and must format the
// disk only by token. A filesystem is not torn if it is recorded as a volume, or if its ext4 superblock shows an
// earlier mount.
func TestRealTornFormat(t *testing.T) {
	for kind, lost := range map[string]string{
		disk.XFS:  "bs=4k seek=$((2 * 75 * 256)) count=1", // the headers of group 2 of 4
		disk.Ext4: "bs=4k seek=32768 count=1",             // the copy of the superblock in group 1
	} {
		t.Run(kind, func(t *testing.T) {
			l := newLoop(t, 300<<20)
			if kind == disk.Ext4 {
				l = ext4Loop(t, 300<<20)
			}
			if _, err := l.work(); err != nil {
				t.Fatal(err)
			}
			intent := &disk.Intent{Identity: l.facts.Identity("boot"), UUID: uuid, Ext4: l.class.Intent.Ext4}
			l.facts.Standing.Intent = intent
			ended := l.ended
			sh(t, "dd if=/dev/zero of="+l.facts.Node()+" "+lost+" conv=notrunc; sync "+l.facts.Node())
			before := l.digest()
			decide := func(c disk.Content) (disk.Decision, bool) {
				f := l.facts
				f.Udev = disk.Udev{Initialized: true, FSType: kind, FSUsage: "filesystem", FSUUID: uuid}
				f.BackingFile = "/srv/ci/x"
				s := &disk.Settings{Format: true, FormatLimit: 9, Classes: []disk.Class{{Name: "x", Selectors: disk.Selectors{Names: []string{f.Name}, BackingFile: []string{"/srv/ci/*"}}, Directory: "/mnt/x", Create: kind, Accept: []string{kind}}}}
				d := policy.Decide(&f, &c, s)
				if why, next := policy.Words(&f, &c, s, d); c.Torn && (!strings.Contains(why, " wrote is missing: ") || !strings.Contains(next, "hotmount format "+f.Name)) {
					t.Errorf("%s; %s", why, next)
				}
				_, ok := policy.Confirmable(&f, &c, s)
				return d, ok
			}
			torn := func() {
				t.Helper()
				c, err := l.work()
				if d, ok := decide(c); err != nil || !c.Torn || l.ended != ended || d.Reason != disk.ReasonTorn || d.Action != disk.Refuse || !ok {
					t.Errorf("%+v, error %v, ended %d times, %+v, may be confirmed: %v", c, err, l.ended-ended, d, ok)
				}
			}
			torn()
			torn()
			if l.digest() != before {
				t.Error("the disk was changed")
			}
			l.facts.Standing.Volume = &disk.Sighting{UUID: uuid}
			c, err := l.work()
			if d, ok := decide(c); err != nil || c.Torn || d.Action != disk.Mount || ok || l.ended == ended {
				t.Errorf("mounted since: %+v, error %v, ended %d times, %+v, may be confirmed: %v", c, err, l.ended-ended, d, ok)
			}
			l.facts.Standing.Volume, l.facts.Standing.Intent, ended = nil, intent, l.ended
			if err := l.confirm(); err != nil {
				t.Fatal(err)
			}
			if l.ended == ended || l.facts.Standing.Intent != nil {
				t.Error("the intent is still there")
			}
			sh(t, map[string]string{disk.XFS: "xfs_repair -n ", disk.Ext4: "e2fsck -fn "}[kind]+l.facts.Node())

			// The test now mounts the filesystem. The intent stays, and no volume is recorded. The same state arises if
			// hotmount can neither remove the intent nor record the mount.
			dir := t.TempDir()
			sh(t, "mount "+l.facts.Node()+" "+dir+"; echo precious >"+dir+"/f; umount "+dir+"; dd if=/dev/zero of="+l.facts.Node()+" "+lost+" conv=notrunc; sync "+l.facts.Node())
			l.facts.Standing.Intent, ended = intent, l.ended
			before = l.digest()
			if kind == disk.XFS {
				torn() // the superblock of an XFS filesystem does not show whether the filesystem was ever mounted
			} else if c, err := l.work(); err != nil || c.Torn {
				t.Errorf("mounted by somebody: %+v, error %v", c, err)
			}
			if l.digest() != before {
				t.Error("the disk was changed")
			}
		})
	}
}

// TestRealCrashAgain checks that a whole filesystem is made even after two or three killed runs. mkfs.xfs -f first
// zeroes the structures of an earlier run, including the first superblock.
func TestRealCrashAgain(t *testing.T) {
	firsts, step := []int{4, 60}, 11
	if full {
		firsts, step = []int{1, 2, 3, 4, 5, 6, 20, 40, 60, 65}, 1
	}
	found := map[disk.Kind]int{}
	for _, first := range firsts {
		for n := 1; ; n++ {
			if n > 8 && n%step != 0 {
				continue
			}
			l := newLoop(t, 300<<20)
			if !l.killed(first) {
				t.Fatalf("mkfs.xfs makes no write %d", first)
			}
			if !l.killed(n) {
				break
			}
			if third := n / 2; third > 0 && !l.killed(third) {
				t.Fatalf("mkfs.xfs makes no write %d", third)
			}
			found[l.isMade()]++
			l.free()
		}
	}
	// On a disk that is too large to be read in full, hotmount relies on samples.
	l := newLoop(t, 70<<30)
	if !l.killed(60) || !l.killed(12) || l.isMade() != disk.HalfMade {
		t.Error("a large disk was not found half made")
	}
	t.Logf("found %v", found)
	if found[disk.HalfMade] < 20 {
		t.Errorf("found %v", found)
	}
}

// confirm formats the disk by token.
func (l *loop) confirm() error {
	s, err := Open(l.t.Context(), l.facts, l.deps())
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Prove(l.t.Context(), "auto"); err != nil {
		return err
	}
	token, err := s.Token(l.t.Context(), "boot")
	if err != nil {
		return err
	}
	intent := disk.Intent{Identity: l.facts.Identity("boot"), UUID: uuid, Ext4: l.class.Intent.Ext4}
	return s.Make(l.t.Context(), MakeOptions{Intent: intent, Token: token, Boot: "boot"})
}

// TestRealTokenOverASecondHeader checks the format of a disk that has a second LUKS2 header. The header lies at the
// highest possible offset, and mkfs does not overwrite the header. If a disk has two signatures, udev marks the disk as
// "ambivalent". The error of the format must report the LUKS2 header, and name the command that removes the header.
func TestRealTokenOverASecondHeader(t *testing.T) {
	l := newLoop(t, 300<<20)
	header := make([]byte, 4096)
	copy(header, "SKUL\xba\xbe\x00\x02")
	binary.BigEndian.PutUint64(header[256:], 4<<20)
	f, err := os.OpenFile(l.facts.Node(), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(header, 4<<20); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	err = l.confirm()
	mend := "wipefs --all --types noxfs " + l.facts.Node()
	if !errors.Is(err, ErrMade) || !strings.Contains(err.Error(), "crypto_LUKS at byte 4194304") || !strings.HasSuffix(err.Error(), mend) {
		t.Fatalf("error %v", err)
	}
	if l.facts.Standing.Intent != nil {
		t.Error("the intent is still there")
	}
	if c, err := l.work(); err != nil || c.Kind != disk.Other {
		t.Errorf("the disk is %+v, error %v", c, err)
	}
	sh(t, mend)
	if c, err := l.work(); err != nil || c.Kind != disk.Filesystem || c.UUID != uuid {
		t.Errorf("after wipefs the disk is %+v, error %v", c, err)
	}
	sh(t, "xfs_repair -n "+l.facts.Node())
}

// TestRealCrashOverOldData checks that hotmount repeats a killed format over old data only with a token. hotmount
// cannot distinguish the old data from data that somebody wrote after the crash.
func TestRealCrashOverOldData(t *testing.T) {
	writes := []int{1, 4, 60}
	if full {
		writes = []int{1, 2, 3, 4, 5, 20, 60}
	}
	for _, n := range writes {
		l := newLoop(t, 300<<20)
		sh(t, "dd if=/dev/urandom of="+l.facts.Node()+" bs=1M seek=10 count=280 oflag=direct; mkfs.ext4 -q -F -E nodiscard "+l.facts.Node())
		l.runner = crash{n: n}
		if err := l.confirm(); err == nil || !strings.Contains(err.Error(), "signal: killed") {
			t.Fatalf("error %v", err)
		}
		l.runner = run.Exec{}
		if i := l.facts.Standing.Intent; i == nil || !i.Over {
			t.Errorf("killed at write %d: the intent is %+v", n, i)
		}
		before := l.digest()
		if c, err := l.work(); err != nil || c.Kind == disk.HalfMade || c.Kind == disk.Blank || l.digest() != before {
			t.Errorf("killed at write %d: the disk is %s or was changed, error %v", n, c.Kind, err)
		}
		if err := l.confirm(); err != nil {
			t.Error(err)
		}
		if c, err := l.work(); err != nil || c.Kind != disk.Filesystem || c.UUID != uuid {
			t.Errorf("killed at write %d: %+v, error %v", n, c, err)
		}
		sh(t, "xfs_repair -n "+l.facts.Node())
	}
}

// TestRealForeignBytesInTheHalfMade checks when hotmount repeats the format of a half-made filesystem, whose superblock
// may be missing. hotmount may repeat the format only if the disk contains nothing besides the half-made filesystem,
// and only on the node that has the intent.
func TestRealForeignBytesInTheHalfMade(t *testing.T) {
	for name, tc := range map[string]struct {
		first, second int
		script        string
		kind          disk.Kind
	}{
		"a byte in the middle":                    {30, 0, "printf x | dd of=$d bs=1 seek=151234567 conv=notrunc", disk.Unknown},
		"a byte in the middle, no superblock":     {60, 6, "printf x | dd of=$d bs=1 seek=151234567 conv=notrunc", disk.Unknown},
		"a byte behind a header":                  {30, 0, "printf x | dd of=$d bs=1 seek=2050 conv=notrunc", disk.Unknown},
		"finished by somebody":                    {30, 0, "mkfs.xfs -q -f -K -m uuid=" + other + " $d", disk.Filesystem},
		"half made by somebody":                   {30, 0, "LIBXFS_DEBUG_WRITE_CRASH=ddev=10 mkfs.xfs -q -f -K -m uuid=" + other + " $d || true", disk.HalfMade},
		"half made by somebody, no superblock":    {30, 0, "if LIBXFS_DEBUG_WRITE_CRASH=ddev=30 mkfs.xfs -q -f -K -m uuid=" + other + " $d; then exit 1; fi; dd if=/dev/zero of=$d bs=4k count=32 conv=notrunc", disk.Unknown},
		"another filesystem without a superblock": {30, 0, "mkfs.ext4 -q -F $d; dd if=/dev/zero of=$d bs=4k count=1 conv=notrunc", disk.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, 300<<20)
			if !l.killed(tc.first) || tc.second > 0 && !l.killed(tc.second) {
				t.Fatal("mkfs was not killed")
			}
			sh(t, "d="+l.facts.Node()+"; exec 2>/dev/null; "+tc.script+"; sync $d; blockdev --flushbufs $d")
			before := l.digest()
			c, err := l.work()
			if err != nil || c.Kind != tc.kind || c.UUID == uuid {
				t.Errorf("%+v, error %v", c, err)
			}
			if l.digest() != before {
				t.Error("the disk was changed")
			}
		})
	}
}

func TestRealBusy(t *testing.T) {
	l := newLoop(t, 300<<20)
	f, err := os.OpenFile(l.facts.Node(), os.O_RDONLY|unix.O_EXCL, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := l.work(); !errors.Is(err, ErrBusy) || !Retry(err) {
		t.Errorf("error %v", err)
	}
}

// TestRealClaim checks that no other process can claim the disk during the proof.
func TestRealClaim(t *testing.T) {
	l := newLoop(t, 300<<20)
	s, err := Open(t.Context(), l.facts, l.deps())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Prove(t.Context(), "auto"); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.xfs", "-f", l.facts.Node()).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("busy")) {
		t.Errorf("mkfs.xfs could open the disk: %v: %s", err, out)
	}
}

func TestRealWrites(t *testing.T) {
	l := newLoop(t, 300<<20)
	s, err := Open(t.Context(), l.facts, l.deps())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Prove(t.Context(), "auto"); err != nil {
		t.Fatal(err)
	}
	// If another process writes zeros to the middle of a blank disk, only the kernel's count of writes shows this.
	sh(t, "dd if=/dev/zero of="+l.facts.Node()+" bs=4096 seek=30000 count=1 oflag=direct")
	o := MakeOptions{Intent: disk.Intent{Identity: l.facts.Identity("boot"), UUID: uuid}}
	if err := s.Make(t.Context(), o); !errors.Is(err, ErrWritten) {
		t.Errorf("error %v", err)
	}
	if l.begun != 0 {
		t.Error("the intent was recorded")
	}
}

// TestRealOtherDisk checks that hotmount refuses a device name that now belongs to another disk.
func TestRealOtherDisk(t *testing.T) {
	l := newLoop(t, 300<<20)
	old := l.facts
	sh(t, "losetup -d "+old.Node()+"; truncate -s 300M "+l.image+".2; losetup "+old.Node()+" "+l.image+".2")
	if _, err := l.work(); err == nil || !strings.Contains(err.Error(), "another disk") {
		t.Errorf("error %v", err)
	}
	l.facts = old
	l.facts.Seq = l.number("diskseq", old.Name)
	if _, err := l.work(); err != nil {
		t.Error(err)
	}
}

func TestRealNoDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if id, err := (linux{}).identify(f); err == nil {
		t.Errorf("identity of a file: %+v", id)
	}
	if dev, err := (linux{}).node(path); err == nil {
		t.Errorf("device number of a file: %v", dev)
	}
	link := path + ".link"
	if err := os.Symlink("/dev/loop0", link); err != nil {
		t.Fatal(err)
	}
	if _, err := (linux{}).open(link, false); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link is followed: %v", err)
	}
}

// TestRealScanGoesPastThePageCache checks that a scan neither reads from the page cache nor leaves pages in it.
func TestRealScanGoesPastThePageCache(t *testing.T) {
	const size = 64 << 20
	l := newLoop(t, size)
	f, err := linux{}.open(l.facts.Node(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pages, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(pages)
	cached := func() (n int) {
		vec := make([]byte, size/os.Getpagesize())
		// golang.org/x/sys has no wrapper for mincore(2).
		if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&pages[0])), size, uintptr(unsafe.Pointer(&vec[0]))); errno != 0 {
			t.Fatal(errno)
		}
		for _, v := range vec {
			n += int(v & 1)
		}
		return n
	}
	before := cached()
	found, err := probe.Scan(t.Context(), probe.Source{Reader: f, Size: size}, probe.Full)
	if err != nil || !found.Zero() {
		t.Fatalf("%+v, error %v", found, err)
	}
	if after := cached(); after > before {
		t.Errorf("%d pages were cached, and now %d", before, after)
	}
	// The page cache of the loop device still contains zeros.
	if pages[32<<20] != 0 {
		t.Fatal("the page cache does not have zeros")
	}
	sh(t, "printf x | dd of="+l.image+" bs=1 seek=33554432 conv=notrunc,fsync")
	if found, err = probe.Scan(t.Context(), probe.Source{Reader: f, Size: size}, probe.Full); err != nil || found.Zero() || pages[32<<20] != 0 {
		t.Errorf("%+v, cached %d, error %v", found, pages[32<<20], err)
	}
}

// leastOfDD is the lowest allowed speed of a scan of an idle disk, as a share of the speed of dd iflag=direct bs=1M.
const leastOfDD = 0.8

// BenchmarkRealScan reads 1 GiB of a loop device alternately with probe.Scan and with dd, and reports the median ratio
// of the speeds. BenchmarkRealScan fails if the ratio is below leastOfDD.
func BenchmarkRealScan(b *testing.B) {
	const size = 1 << 30
	image := filepath.Join(b.TempDir(), "disk")
	if out, err := exec.Command("/bin/sh", "-ec", "dd if=/dev/zero of="+image+" bs=1M count=1024; sync "+image).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	node, err := exec.Command("losetup", "-f", "--show", "--direct-io=on", image).Output()
	if err != nil {
		b.Fatal(err)
	}
	dev := strings.TrimSpace(string(node))
	defer func() {
		if err := exec.Command("losetup", "-d", dev).Run(); err != nil {
			b.Error(err)
		}
	}()
	f, err := linux{}.open(dev, false)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var all time.Duration
	var ratios []float64
	b.SetBytes(2 * size)
	for b.Loop() {
		begun := time.Now()
		if err := exec.Command("dd", "if="+dev, "of=/dev/null", "bs=1M", "iflag=direct").Run(); err != nil {
			b.Fatal(err)
		}
		dd := time.Since(begun)
		begun = time.Now()
		if found, err := probe.Scan(b.Context(), probe.Source{Reader: f, Size: size}, probe.Full); err != nil || !found.Zero() {
			b.Fatal(found, err)
		}
		scan := time.Since(begun)
		ratios = append(ratios, float64(dd)/float64(scan))
		all += scan
	}
	slices.Sort(ratios)
	median := ratios[len(ratios)/2]
	b.ReportMetric(median, "scan/dd")
	b.ReportMetric(float64(b.N)*size/all.Seconds()/(1<<20), "scan-MiB/s")
	if median < leastOfDD {
		b.Errorf("got %.2f of dd's speed, want at least %.1f", median, leastOfDD)
	}
}
