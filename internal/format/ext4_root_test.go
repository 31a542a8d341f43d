//go:build root

package format

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hotmount/internal/disk"
	"hotmount/internal/run"
)

// ext4Loop returns a disk whose class makes ext4 filesystems.
func ext4Loop(t *testing.T, size int64, options ...string) *loop {
	l := newLoop(t, size)
	l.class.Intent.Ext4 = &disk.MkfsExt4{Time: 1795000000, Options: options, Owner: "1000:2000", Mode: "2770"}
	return l
}

// isExt4 checks the filesystem with Debian's own tools.
func (l *loop) isExt4() {
	l.t.Helper()
	sh(l.t, "e2fsck -fn "+l.facts.Node())
	if got := sh(l.t, "blkid -p -o value -s UUID -s TYPE "+l.facts.Node()); got != uuid+"\next4" {
		l.t.Errorf("blkid reports %q", got)
	}
	if got := l.root(); got != "Mode: 02770 User: 1000 Group: 2000" {
		l.t.Errorf("the root directory: %q", got)
	}
}

// root returns the mode and the owner of the root directory.
func (l *loop) root() string {
	l.t.Helper()
	return sh(l.t, "debugfs -R 'stat <2>' "+l.facts.Node()+" 2>/dev/null | grep -oE '(Mode|User|Group): *[0-9]+' | tr -s '\\n ' ' '")
}

// TestRealExt4Mode checks that hotmount sets the mode of the root directory, which mkfs.ext4 cannot set. If debugfs(8)
// is killed, hotmount must set the mode with one write when hotmount next examines the disk. hotmount must not change a
// filesystem that was already mounted, or that may belong to another disk.
func TestRealExt4Mode(t *testing.T) {
	const before = "Mode: 0755 User: 1000 Group: 2000"
	for name, tc := range map[string]struct {
		meanwhile func(*loop)
		want      string
	}{
		"killed": {func(*loop) {}, "Mode: 02770 User: 1000 Group: 2000"},
		"mounted": {func(l *loop) {
			dir := t.TempDir()
			sh(t, "mount "+l.facts.Node()+" "+dir+"; umount "+dir)
		}, before},
		"doubt": {func(l *loop) { l.facts.Standing.IntentDoubt = true }, before},
	} {
		l := ext4Loop(t, 300<<20)
		if !l.killedBy(crash{n: 1, debugfs: true}) {
			t.Fatal("debugfs was not killed")
		}
		if got := l.root(); got != before {
			t.Fatalf("%s: the root directory is %q before the one write", name, got)
		}
		tc.meanwhile(l)
		if c, err := l.work(); err != nil || c.Kind != disk.Filesystem || c.UUID != uuid {
			t.Errorf("%s: %+v, error %v", name, c, err)
		}
		if got := l.root(); got != tc.want {
			t.Errorf("%s: the root directory is %q, not %q", name, got, tc.want)
		}
		if tc.want != before {
			l.isExt4()
			if l.facts.Standing.Intent != nil {
				t.Errorf("%s: the intent is still there", name)
			}
		}
	}
	// While formatting is switched off, hotmount must not correct the mode of the root directory, and must keep the
	// intent. If the root directory already has the right mode, hotmount must remove the intent.
	off := errors.New("the hold file is there")
	held := ext4Loop(t, 300<<20)
	if !held.killedBy(crash{n: 1, debugfs: true}) {
		t.Fatal("debugfs was not killed")
	}
	intent := held.facts.Standing.Intent
	sum := held.digest()
	held.off = off
	if _, err := held.work(); !errors.Is(err, off) || held.facts.Standing.Intent == nil || held.digest() != sum {
		t.Errorf("switched off: error %v, intent %v, root directory %q", err, held.facts.Standing.Intent, held.root())
	}
	held.off = nil
	if _, err := held.work(); err != nil {
		t.Error(err)
	}
	held.isExt4()
	held.off, held.facts.Standing.Intent = off, intent
	if _, err := held.work(); err != nil || held.facts.Standing.Intent != nil {
		t.Errorf("finished and switched off: error %v, intent %v", err, held.facts.Standing.Intent)
	}
	// debugfs makes a single write, and reports no error if the write fails.
	l := ext4Loop(t, 300<<20)
	if l.killedBy(crash{n: 2, debugfs: true}) {
		t.Error("debugfs writes twice")
	}
	l.isExt4()
	l = ext4Loop(t, 300<<20)
	l.runner = silent{}
	if _, err := l.work(); err == nil || !strings.Contains(err.Error(), "the root directory has mode 0755, not 02770") || l.facts.Standing.Intent == nil {
		t.Errorf("error %v, intent %v", err, l.facts.Standing.Intent)
	}
}

// The Runner `silent` runs debugfs without -w, so that debugfs changes nothing.
type silent struct{}

func (silent) Run(ctx context.Context, cmd run.Command) (run.Result, error) {
	if cmd.Path == debugfs {
		cmd.Args = []string{"-R", "stats -h", cmd.Args[len(cmd.Args)-1]}
	}
	return run.Exec{}.Run(ctx, cmd)
}

func TestRealExt4(t *testing.T) {
	all := map[string]*loop{
		"small": ext4Loop(t, 300<<20+512), "options": ext4Loop(t, 600<<20, "-m 0", "-i 65536", "-E stride=4,stripe_width=8", "-J size=32"),
	}
	if full {
		all["large"], all["inodes"] = ext4Loop(t, 70<<30), ext4Loop(t, 2<<30, "-N 4096")
	}
	for name, l := range all {
		c, err := l.work()
		if err != nil || c.Kind != disk.Blank || l.begun != 1 || l.ended != 1 {
			t.Fatalf("%s: %+v, error %v; %d intents begun, %d ended", name, c, err, l.begun, l.ended)
		}
		l.isExt4()
		if c, err = l.work(); err != nil || c.Kind != disk.Filesystem || c.Type != "ext4" || c.UUID != uuid {
			t.Errorf("%s: %+v, error %v", name, c, err)
		}
	}
}

// TestRealExt4Crash checks that hotmount completes the format after mkfs.ext4 was killed once or twice, at any write.
// mkfs.ext4 writes the superblock last. After the kill, hotmount therefore finds a blank disk, a half-made filesystem
// or a whole filesystem.
func TestRealExt4Crash(t *testing.T) {
	for _, options := range [][]string{{"-N 80000", "-m 0"}, nil} {
		if options == nil && !full {
			continue
		}
		found := map[disk.Kind]int{}
		n := 1
		for ; ; n++ {
			if !full && n > 6 && n%29 != 0 {
				continue
			}
			l := ext4Loop(t, 300<<20, options...)
			if !l.killed(n) {
				break
			}
			if again := n / 2; again > 0 && !l.killed(again) {
				t.Fatalf("there is no write %d", again)
			}
			found[l.isMade()]++
			l.isExt4()
			l.free()
		}
		t.Logf("%q: killed up to write %d: found %v", options, n-1, found)
		if n < 40 || found[disk.HalfMade] < 4 || found[disk.Unknown] > 0 {
			t.Errorf("%q: killed up to write %d: found %v", options, n-1, found)
		}
	}
}

// TestRealExt4SuperblockIsLast checks that mkfs.ext4 writes the superblock last. If mkfs.ext4 is killed before the
// write of the superblock, blkid must find nothing. A filesystem that blkid recognises must be whole.
func TestRealExt4SuperblockIsLast(t *testing.T) {
	n := 52
	for ; ; n++ {
		l := ext4Loop(t, 300<<20)
		if !l.killed(n) {
			break
		}
		if out, err := exec.Command("blkid", "-p", l.facts.Node()).CombinedOutput(); err == nil {
			t.Errorf("killed at write %d: %s", n, out)
		}
		l.free()
	}
	if n == 52 {
		t.Error("it was not killed")
	}
}

// TestRealExt4Foreign checks that hotmount does not recognise the remains of a killed mkfs.ext4 if anything else is on
// the disk. A node with another intent must not recognise the remains of mkfs.ext4. hotmount must not change a disk
// with remains that it does not recognise.
func TestRealExt4Foreign(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		change func(*disk.Intent)
	}{
		"a byte in the middle":        {"printf x | dd of=$d bs=1 seek=151234567 conv=notrunc;", nil},
		"a byte in the boot sector":   {"printf x | dd of=$d bs=1 seek=3 conv=notrunc;", nil},
		"a bit of a descriptor":       {"printf '\\377' | dd of=$d bs=1 seek=4097 conv=notrunc;", nil},
		"another's ext4 without head": {"mkfs.ext4 -q -F -b 4096 -U " + other + " $d; dd if=/dev/zero of=$d bs=4k count=1 conv=notrunc;", nil},
		"another UUID":                {"", func(i *disk.Intent) { i.UUID = other }},
		"begun as an XFS":             {"", func(i *disk.Intent) { i.Ext4 = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			l := ext4Loop(t, 300<<20)
			if !l.killed(40) {
				t.Fatal("it was not killed")
			}
			sh(t, "d="+l.facts.Node()+"; exec 2>/dev/null; "+tc.script+" true; sync $d; blockdev --flushbufs $d")
			if tc.change != nil {
				tc.change(l.facts.Standing.Intent)
			}
			before := l.digest()
			c, err := l.work()
			if err != nil || c.Kind != disk.Unknown {
				t.Errorf("%+v, error %v", c, err)
			}
			if l.digest() != before {
				t.Error("it was changed")
			}
		})
	}
}

// TestRealExt4Confirmed checks formats by token on disks with content. After a format by token, wipefs must find only
// the ext4 filesystem.
func TestRealExt4Confirmed(t *testing.T) {
	for name, script := range map[string]string{
		"xfs": "mkfs.xfs -q $d", "gpt": "echo ',,' | sfdisk -q -X gpt $d; blockdev --rereadpt $d || true", "swap": "mkswap -q $d", "random": "dd if=/dev/urandom of=$d bs=1M count=200 oflag=direct", "lvm": "pvcreate -qq -y $d",
	} {
		t.Run(name, func(t *testing.T) {
			l := ext4Loop(t, 300<<20)
			sh(t, "d="+l.facts.Node()+"; "+script+"; sync $d; blockdev --flushbufs $d")
			if err := l.confirm(); err != nil {
				t.Fatal(err)
			}
			l.isExt4()
			if got := sh(t, "wipefs -n --noheadings -O TYPE "+l.facts.Node()); got != "ext4" {
				t.Errorf("wipefs reports %q", got)
			}
		})
	}
}

// TestRealExt4Busy checks that mkfs.ext4 refuses a disk that is in use, and does not ask for confirmation.
func TestRealExt4Busy(t *testing.T) {
	l := ext4Loop(t, 300<<20)
	dir := filepath.Join(t.TempDir(), "m")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	sh(t, "mkfs.ext4 -q "+l.facts.Node()+" && mount "+l.facts.Node()+" "+dir)
	defer sh(t, "umount "+dir)
	e := ext4{node: l.facts.Node(), uuid: uuid, program: *l.class.Intent.Ext4}
	if _, _, err := e.run(t.Context(), run.Exec{}); err == nil || !strings.Contains(err.Error(), "mounted") {
		t.Errorf("error %v", err)
	}
}

func TestRealAgreesExt4(t *testing.T) {
	file := filepath.Join(t.TempDir(), "disk")
	if err := AgreesExt4(t.Context(), run.Exec{}, []string{"-m 0", "-i 65536", "-J size=64"}, file); err != nil {
		t.Error(err)
	}
	if got := sh(t, "du "+file); !strings.HasPrefix(got, "0\t") {
		t.Errorf("it was written to: %s", got)
	}
	if err := AgreesExt4(t.Context(), run.Exec{}, []string{"-i 17"}, file); err == nil || !strings.Contains(err.Error(), "invalid inode ratio 17") {
		t.Errorf("error %v", err)
	}
}
