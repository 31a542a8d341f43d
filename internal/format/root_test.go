//go:build root

package format

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
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
	// runner is run.Exec unless a test wants something in between.
	runner run.Runner
}

func newLoop(t *testing.T, size int64) *loop {
	l := &loop{t: t, image: filepath.Join(t.TempDir(), "disk"), runner: run.Exec{}}
	if err := errors.Join(os.WriteFile(l.image, nil, 0o600), os.Truncate(l.image, size)); err != nil {
		t.Fatal(err)
	}
	l.attach(sh(t, "losetup -f --show "+l.image))
	t.Cleanup(func() { sh(t, "losetup -d "+l.facts.Node()) })
	return l
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

// count is writes and discards (Linux, Documentation/block/stat.rst).
func (l *loop) count() (uint64, error) {
	fields := strings.Fields(l.read("stat", l.facts.Name))
	var sum uint64
	for _, i := range []int{4, 11} {
		n, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func (l *loop) Begin(disk.Intent) error { l.begun++; return nil }
func (l *loop) End(string) error        { l.ended++; return nil }

func (l *loop) deps() Deps {
	return Deps{Runner: l.runner, Writes: l.count, Settle: time.Millisecond, Intents: l, Log: func(msg string, evidence ...string) {
		l.t.Logf("%s: %q", msg, evidence)
	}}
}

func (l *loop) work() (disk.Content, error) {
	s, err := Open(l.t.Context(), l.facts, l.deps())
	if err != nil {
		return disk.Content{}, err
	}
	defer s.Close()
	c, err := s.Prove(l.t.Context(), "full")
	if err != nil || c.Kind != disk.Blank && (c.Kind != disk.HalfMade || c.UUID != uuid) {
		return c, err
	}
	o := MakeOptions{Intent: disk.Intent{Identity: l.facts.Identity("boot"), UUID: uuid}, RecoverHalfMade: c.Kind == disk.HalfMade}
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

// Debian's own tools and damages of what they make. Nothing of it is blank, and
// not a byte of it is changed.
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
		"an archive":              {"tar -cf $d /etc/passwd 2>/dev/null", disk.Unknown, ""},
		"xfs and ext4":            {"mkfs.ext4 -q $d; mkfs.xfs -q -f $d.x; dd if=$d.x of=$d bs=512 count=1 conv=notrunc", disk.Other, "filesystem:xfs filesystem:ext4:1.0"},
		"a boot sector's last 2":  {"printf '\\125\\252' | dd of=$d bs=1 seek=510 conv=notrunc", disk.Other, "dos"},
		"an MBR with a partition": {"printf '\\200\\000\\002\\000\\203\\077\\040\\000\\000\\010\\000\\000\\000\\010\\000\\000' | dd of=$d bs=1 seek=446 conv=notrunc; printf '\\125\\252' | dd of=$d bs=1 seek=510 conv=notrunc", disk.Other, "dos"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, 300<<20)
			sh(t, "d="+l.image+"; truncate -s 300M $d.x; exec 2>/dev/null; "+tc.script+"; truncate -s 300M $d; sync $d; blockdev --flushbufs "+l.facts.Node())
			before := l.digest()
			// A loop device keeps its counters when its file changes.
			writes, err := l.count()
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
				t.Error("it was changed")
			}
			if n, err := l.count(); n != writes || err != nil {
				t.Errorf("%d writes, error %v", n-writes, err)
			}
		})
	}
}

// crash starts mkfs.xfs so that it is killed before its n-th write of metadata
// (xfsprogs, libxfs/init.c, LIBXFS_DEBUG_WRITE_CRASH). The two writes of zeros
// at the start and the log's are not counted.
type crash struct{ n int }

func (c crash) Run(ctx context.Context, cmd run.Command) (run.Result, error) {
	if cmd.Path == mkfs && cmd.Args[0] == "-K" {
		cmd.Args = append([]string{fmt.Sprintf("LIBXFS_DEBUG_WRITE_CRASH=ddev=%d", c.n), mkfs}, cmd.Args...)
		cmd.Path = "/usr/bin/env"
	}
	return run.Exec{}.Run(ctx, cmd)
}

// Wherever mkfs.xfs is killed, the next look finds the disk blank, half made
// with our UUID, or whole, and one more run makes it whole.
func TestRealCrash(t *testing.T) {
	killed, found := 0, map[disk.Kind]int{}
	step := 1
	for n := 1; !t.Failed(); n += step {
		if n == 5 {
			step = 6 // all the writes that follow find the disk half made
		}
		over := false
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			l := newLoop(t, 300<<20)
			l.runner = crash{n}
			_, err := l.work()
			if over = err == nil; over {
				return // there are no more writes to be killed at
			}
			killed++
			if !strings.Contains(err.Error(), "signal: killed") || l.begun != 1 || l.ended != 0 {
				t.Fatalf("error %v", err)
			}
			l.runner = run.Exec{}
			c, err := l.work()
			if err != nil || c.Kind != disk.Blank && c.UUID != uuid {
				t.Fatalf("%+v, error %v", c, err)
			}
			found[c.Kind]++
			if c, err := l.work(); err != nil || c.Kind != disk.Filesystem || c.UUID != uuid {
				t.Errorf("%+v, error %v", c, err)
			}
		})
		if over {
			break
		}
	}
	t.Logf("killed at %d writes: found %v", killed, found)
	if found[disk.HalfMade] < 10 {
		t.Errorf("killed at %d writes: found %v", killed, found)
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

// The claim lasts through the proof.
func TestRealClaim(t *testing.T) {
	l := newLoop(t, 300<<20)
	s, err := Open(t.Context(), l.facts, l.deps())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Prove(t.Context(), "full"); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.xfs", "-f", l.facts.Node()).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("busy")) {
		t.Errorf("mkfs.xfs got in: %v: %s", err, out)
	}
}

func TestRealWrites(t *testing.T) {
	l := newLoop(t, 300<<20)
	s, err := Open(t.Context(), l.facts, l.deps())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Prove(t.Context(), "full"); err != nil {
		t.Fatal(err)
	}
	// Zeros in the middle: nothing but the kernel's count tells of them.
	sh(t, "dd if=/dev/zero of="+l.facts.Node()+" bs=4096 seek=30000 count=1 oflag=direct")
	o := MakeOptions{Intent: disk.Intent{Identity: l.facts.Identity("boot"), UUID: uuid}}
	if err := s.Make(t.Context(), o); !errors.Is(err, ErrWritten) {
		t.Errorf("error %v", err)
	}
	if l.begun != 0 {
		t.Error("the intent was recorded")
	}
}

// The name now means another disk.
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
		t.Errorf("a file is %+v", id)
	}
	if dev, err := (linux{}).node(path); err == nil {
		t.Errorf("a file is %v", dev)
	}
	link := path + ".link"
	if err := os.Symlink("/dev/loop0", link); err != nil {
		t.Fatal(err)
	}
	if _, err := (linux{}).open(link, false); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link is followed: %v", err)
	}
}

// BenchmarkRealScan reads 1 GiB of a loop device as dd iflag=direct bs=1M does.
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
	for _, how := range []string{"dd", "scan"} {
		b.Run(how, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				if how == "dd" {
					if err := exec.Command("dd", "if="+dev, "of=/dev/null", "bs=1M", "iflag=direct").Run(); err != nil {
						b.Fatal(err)
					}
					continue
				}
				if found, err := probe.Scan(b.Context(), f, size, probe.Full); err != nil || !found.Zero() {
					b.Fatal(found, err)
				}
			}
		})
	}
}
