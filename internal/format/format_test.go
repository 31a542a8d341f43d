package format

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/probe"
	"hotmount/internal/run"
	"hotmount/internal/run/runtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	uuid  = "0a0b0c0d-1111-4222-8333-abcdefabcdef"
	other = "99999999-1111-4222-8333-abcdefabcdef"
	size  = 40 << 20

	ourUUID = uuid // the value of uuid, for functions whose parameter uuid hides the constant

	wipefsLine  = "/usr/sbin/wipefs -n -J /dev/vdb"
	blkidLine   = "/usr/sbin/blkid -p -o udev /dev/vdb"
	versionLine = "/usr/sbin/mkfs.xfs -V"
	dryLine     = "/usr/sbin/mkfs.xfs -N -K -m uuid=" + uuid + " /dev/vdb"
	makeLine    = "/usr/sbin/mkfs.xfs -K -m uuid=" + uuid + " /dev/vdb"
	dryOver     = "/usr/sbin/mkfs.xfs -N -f -K -m uuid=" + uuid + " /dev/vdb"
	makeOver    = "/usr/sbin/mkfs.xfs -f -K -m uuid=" + uuid + " /dev/vdb"
)

// The type `world` simulates a disk in a file, and everything else that a session uses.
type world struct {
	// The field `claimed` is the file that the session opened exclusively. The field `other` is the identity of this file,
	// or nil if the file is the disk itself.
	claimed *os.File
	other   *identity
	*runtest.Runner
	t     *testing.T
	image string
	facts disk.Facts
	intent
	// mu guards the fields that change while a session waits for the settle time.
	mu        sync.Mutex
	running   sync.Mutex // guards the record of the commands, because tools start at the same time
	now       identity
	nodeDev   disk.Dev
	writes    uint64
	bytes     uint64 // bytes written
	read      uint64 // bytes that the kernel has counted as read; the number stays the same if the field `uncounted` is set
	uncounted bool
	buffered  uint64 // writes that are only in the page cache
	reread    int
	rereadErr error
	inFlight  uint64 // writes that the disk has received, but not completed
	counters  error
	lts       bool
	openErr   map[bool]error
	off       error // the reason why formatting is switched off, or nil
	story     []string

	readAgain func(context.Context) (func(context.Context, probe.Progress), error)
	log       []string
}

// The type `intent` implements Intents, and records the calls of a session.
type intent struct {
	last                       disk.Intent
	beginErr, endErr, amendErr error
	onBegin                    func()
}

func newWorld(t *testing.T) *world {
	w := &world{Runner: runtest.New(t), t: t, image: filepath.Join(t.TempDir(), "disk"), openErr: map[bool]error{}}
	if err := os.WriteFile(w.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(w.image, size); err != nil {
		t.Fatal(err)
	}
	w.facts = disk.Facts{ID: disk.ID{Name: "vdb", Dev: disk.Dev{Major: 254, Minor: 16}, Seq: 12}, Size: size}
	w.now = identity{dev: w.facts.Dev, seq: 12, size: size}
	w.nodeDev = w.facts.Dev
	w.nothingNamed()
	w.On(versionLine, runtest.Print("mkfs.xfs version 6.1.0\n", 0))
	w.On(dryLine, runtest.Print("meta-data=/dev/vdb\n", 0))
	w.On(makeLine, w.mkfs)
	return w
}

func (w *world) nothingNamed() {
	w.On(wipefsLine, runtest.Print(`{"signatures": []}`, 0))
	w.On(blkidLine, runtest.Print("", 2))
}

func (w *world) named(uuid string) {
	w.On(wipefsLine, runtest.Print(`{"signatures": [{"device": "vdb", "offset": "0x0", "type": "xfs", "uuid": "`+uuid+`", "label": null}]}`, 0))
	w.On(blkidLine, runtest.Print("ID_FS_TYPE=xfs\nID_FS_USAGE=filesystem\nID_FS_UUID_ENC="+uuid+"\n", 0))
}

// halfMade puts an unfinished XFS on the disk.
func (w *world) halfMade(uuid string) {
	w.put(0, super(w.t, "xfs-half-made.head", uuid))
	w.named(uuid)
	w.facts.Standing.Intent = &disk.Intent{UUID: ourUUID}
	w.On(dryOver, runtest.Print("meta-data=/dev/vdb\n", 0))
	w.On(makeOver, w.mkfs)
}

// mkfs simulates a successful run of mkfs.xfs, which changes the disk and the kernel's counts.
func (w *world) mkfs(run.Command) (run.Result, error) {
	w.put(0, super(w.t, "xfs.head", uuid))
	w.put(4096, behind(w.t, uuid))
	w.put(logStart, logHeader(w.t, uuid))
	w.named(uuid)
	w.writes += 65
	w.bytes += 65<<12 + 64<<20
	return run.Result{Stdout: []byte("meta-data=/dev/vdb\ndata=...\n"), Wrote: 65 << 12}, nil
}

func (w *world) put(at int64, b []byte) {
	f, err := os.OpenFile(w.image, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(b, at)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		w.t.Error(err)
	}
}

// super returns a superblock captured from mkfs.xfs, with the given UUID and the size of this disk.
func super(t *testing.T, name, uuid string) []byte {
	b, err := os.ReadFile("../probe/testdata/" + name)
	if err != nil {
		t.Error(err)
		return nil
	}
	b = bytes.ReplaceAll(b, bytes.Clone(b[32:48]), raw(t, uuid))
	binary.BigEndian.PutUint64(b[8:], size/4096)
	inGroups(b, 1)
	return b
}

// raw returns the 16 bytes of the UUID.
func raw(t *testing.T, uuid string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	if err != nil {
		t.Error(err)
	}
	return b
}

// Places of blocks in the filesystem of xfs.head, in bytes.
const (
	inodes, inode = 64 << 10, 512
	reference     = 5 * 4096 // the root of the B-tree of reference counts
	logStart      = 4 << 20
)

// logHeader returns the first sector of a new log, with only the magic number and the UUID.
func logHeader(t *testing.T, uuid string) []byte {
	b := make([]byte, 512)
	copy(b, "\xfe\xed\xba\xbe")
	copy(b[304:], raw(t, uuid))
	return b
}

// behind returns what mkfs.xfs writes behind the headers, from byte 4096 of the disk: the roots of five B-trees, and 64
// inodes. Each structure has only its magic number and its UUID.
func behind(t *testing.T, uuid string) []byte {
	b := make([]byte, inodes+64*inode-4096)
	for i, magic := range []string{"AB3B", "AB3C", "IAB3", "FIB3", "R3FC"} {
		copy(b[i*4096:], magic)
		copy(b[i*4096+32:], raw(t, uuid))
	}
	for i := inodes - 4096; i < len(b); i += inode {
		copy(b[i:], "IN")
		copy(b[i+160:], raw(t, uuid))
	}
	return b
}

// inGroups sets the number of allocation groups in an XFS superblock, and moves the log into the first group.
func inGroups(b []byte, n uint32) {
	binary.BigEndian.PutUint32(b[84:], size/4096/n)
	binary.BigEndian.PutUint32(b[88:], n)
	binary.BigEndian.PutUint64(b[48:], logStart/4096)
	clear(b[224:228])
	binary.LittleEndian.PutUint32(b[224:], crc32.Checksum(b[:512], crc32.MakeTable(crc32.Castagnoli)))
}

func (w *world) Begin(i disk.Intent) error {
	w.last = i
	w.story = append(w.story, "begin "+i.UUID)
	if w.onBegin != nil {
		w.onBegin()
	}
	return w.beginErr
}

func (w *world) Amend(i disk.Intent) error {
	w.last = i
	w.story = append(w.story, "amend "+i.UUID)
	return w.amendErr
}

func (w *world) End(uuid string, failure error) error {
	line := "end " + uuid
	if failure != nil {
		line += ", not made"
	}
	w.story = append(w.story, line)
	return w.endErr
}

// Run records the command. wipefs and blkid start at the same time, but the record always has wipefs first.
func (w *world) Run(ctx context.Context, c run.Command) (run.Result, error) {
	w.running.Lock()
	at := len(w.story)
	if at > 0 && c.String() == wipefsLine && w.story[at-1] == blkidLine {
		at--
	}
	w.story = slices.Insert(w.story, at, c.String())
	w.running.Unlock()
	return w.Runner.Run(ctx, c)
}

func (w *world) open(node string, exclusive bool) (*os.File, error) {
	if node != "/dev/vdb" {
		w.t.Errorf("open of %s", node)
	}
	if err := w.openErr[exclusive]; err != nil {
		return nil, &os.PathError{Op: "open", Path: node, Err: err}
	}
	f, err := os.Open(w.image)
	if exclusive {
		w.claimed = f
	}
	return f, err
}

func (w *world) identify(f *os.File) (identity, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.other != nil && f == w.claimed {
		return *w.other, nil
	}
	return w.now, nil
}

func (w *world) count() (done, inFlight uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes, w.inFlight, w.counters
}

// moved implements Deps.Bytes. Each call of moved() first adds 4 KiB to the count of read bytes, unless the field
// uncounted is set.
func (w *world) moved() (read, written uint64, err error) {
	if !w.uncounted {
		w.read += 4096
	}
	return w.read, w.bytes, nil
}

func (w *world) writeOut(*os.File) error {
	w.writes += w.buffered
	w.buffered = 0
	return nil
}

func (w *world) rereadPartitions(*os.File) error {
	w.reread++
	return w.rereadErr
}

func (w *world) node(string) (disk.Dev, error) { return w.nodeDev, nil }

func (w *world) readFile(path string) ([]byte, error) {
	if path != lts || !w.lts {
		return nil, fs.ErrNotExist
	}
	return os.ReadFile("testdata/lts_6.1.conf")
}

func (w *world) temp() (*os.File, error) { return os.Create(w.image + ".like") }

func (w *world) deps() Deps {
	return Deps{
		ReadAgain: w.readAgain,
		Runner:    w,
		Writes:    w.count,
		Bytes:     w.moved,
		Settle:    5 * time.Second, SecondLook: 3 * time.Second,
		Intents: w,
		Allowed: func() error { return w.off },
		Log: func(msg string, evidence ...string) {
			w.story = append(w.story, "log")
			w.log = append(w.log, append([]string{msg}, evidence...)...)
		},
	}
}

func (w *world) makeOptions(recover bool) MakeOptions {
	return MakeOptions{Intent: disk.Intent{Identity: w.facts.Identity("boot"), UUID: uuid}, RecoverHalfMade: recover}
}

// work opens, proves and formats the disk, as hotmount does.
func (w *world) work(blank string, recover bool, between func()) error {
	s, err := open(w.t.Context(), w.facts, w.deps(), w)
	if err != nil {
		return err
	}
	defer func() {
		if err := s.Close(); err != nil {
			w.t.Error(err)
		}
	}()
	if _, err := s.Prove(w.t.Context(), blank); err != nil {
		return err
	}
	if between != nil {
		between()
	}
	return s.Make(w.t.Context(), w.makeOptions(recover))
}

// mkfsRan reports whether mkfs.xfs ran with writes (without -N).
func (w *world) mkfsRan() bool {
	for _, line := range w.Calls() {
		if strings.HasPrefix(line, mkfs) && line != versionLine && !strings.HasPrefix(line, mkfs+" -N ") {
			return true
		}
	}
	return false
}

// TestDriverThatDoesNotCount checks that hotmount writes nothing if the kernel has not counted the reads of the proof.
// A driver that does not count reads would not count writes of other processes either. Even with a token, hotmount must
// write nothing to a disk whose driver does not count requests.
func TestDriverThatDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.uncounted = true
		if err := w.work("full", false, nil); err == nil || !strings.Contains(err.Error(), "driver does not count reads and writes") || w.mkfsRan() {
			t.Errorf("blank: %v, %q", err, w.story)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.uncounted = true
		w.put(1<<20, []byte("data"))
		s, err := open(t.Context(), w.facts, w.deps(), w)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if c, err := s.Prove(t.Context(), "full"); err != nil || c.Kind != disk.Unknown {
			t.Fatalf("%+v, %v", c, err)
		}
		intent := disk.Intent{UUID: uuid, Identity: w.facts.Identity("boot")}
		if err := s.Make(t.Context(), MakeOptions{Intent: intent, Token: "x", Boot: "boot"}); err == nil || !strings.Contains(err.Error(), "driver does not count reads and writes") || w.mkfsRan() {
			t.Errorf("by token: %v, %q", err, w.story)
		}
	})
}

func TestBlankDisk(t *testing.T) {
	for _, blank := range []string{"full", "sampled", "unsigned"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			begun := time.Now()
			if err := w.work(blank, false, nil); err != nil {
				t.Fatal(err)
			}
			want := []string{
				wipefsLine, blkidLine, "log",
				versionLine, wipefsLine, blkidLine, dryLine, "log", "begin " + uuid,
				wipefsLine, blkidLine, makeLine,
				"log", "end " + uuid,
			}
			if diff := cmp.Diff(want, w.story); diff != "" {
				t.Error(diff)
			}
			if took := time.Since(begun); took != 8*time.Second {
				t.Errorf("settling and the last look took %s", took)
			}
		})
	}
}

// TestWritesOfWhatWasRead checks that Writes returns the count of writes as it was before Prove read the disk. After
// Make, Writes must return the count as it was right after mkfs.xfs.
func TestWritesOfWhatWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, err := open(t.Context(), w.facts, w.deps(), w)
		if err != nil {
			t.Fatal(err)
		}
		before := w.writes
		if _, err := s.Prove(t.Context(), "full"); err != nil {
			t.Fatal(err)
		}
		if s.Writes() != before {
			t.Errorf("got %d writes after the proof, want %d", s.Writes(), before)
		}
		if err := s.Make(t.Context(), w.makeOptions(false)); err != nil {
			t.Fatal(err)
		}
		made := w.writes
		w.writes++
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s.Writes() != made || made == before {
			t.Errorf("got %d writes after mkfs.xfs, want %d", s.Writes(), made)
		}
	})
}

func TestEvidenceIsInTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var before []string
		w.On(makeLine, func(c run.Command) (run.Result, error) {
			before = w.log
			return w.mkfs(c)
		})
		if err := w.work("full", false, nil); err != nil {
			t.Fatal(err)
		}
		evidence := []string{"wipefs: nothing", "blkid: nothing", "read 40 MiB of 40 MiB, all zero (full)"}
		want := append([]string{"vdb (disk sequence number 12) is blank"}, evidence...)
		want = append(want, "making XFS "+uuid+" on vdb (disk sequence number 12)")
		if diff := cmp.Diff(want, before); diff != "" {
			t.Error(diff)
		}
		want = append(want, "made XFS "+uuid+" on vdb (disk sequence number 12) and read it back", "meta-data=/dev/vdb", "data=...")
		if diff := cmp.Diff(want, w.log); diff != "" {
			t.Error(diff)
		}
	})
}

func TestHalfMadeDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.halfMade(uuid)
		begun := time.Now()
		if err := w.work("full", true, nil); err != nil {
			t.Fatal(err)
		}
		want := []string{
			wipefsLine, blkidLine, "log",
			versionLine, wipefsLine, blkidLine, dryOver, "log", "begin " + uuid,
			wipefsLine, blkidLine, makeOver,
			"log", "end " + uuid,
		}
		if diff := cmp.Diff(want, w.story); diff != "" {
			t.Error(diff)
		}
		if took := time.Since(begun); took != 8*time.Second {
			t.Errorf("settling and the last look took %s", took)
		}
	})
}

// TestObstacles checks that mkfs.xfs writes nothing, for each obstacle and with each plan of the proof. mkfs.xfs runs
// only with -N, which writes nothing. A session itself cannot write, because its descriptors are open for reading only.
func TestObstacles(t *testing.T) {
	dead := errors.New("signal: killed")
	write := func(w *world) { w.writes++ }
	stall := func(w *world) { w.inFlight++ }
	const unanswered = "somebody writes to the disk: 1 writes are not complete yet"
	for _, tc := range []struct {
		name string
		// The test calls before() before Open, and calls between() after Prove and before Make.
		before, between func(*world)
		blank           string
		recover         bool
		err             string
		// If the field `byte` is set, the obstacle is beyond the first 4 KiB, so the test does not use the plan Unsigned.
		byte bool
		// If the field `begun` is set, Make records the intent before it finds the obstacle, and must then remove the
		// intent.
		begun bool
	}{
		// Obstacles for Open.
		{name: "claimed by somebody", before: func(w *world) { w.openErr[true] = unix.EBUSY }, err: "the disk is in use"},
		{name: "barred by the sandbox", before: func(w *world) { w.openErr[false] = unix.EPERM }, err: "the sandbox of hotmount-format@12.service"},
		{name: "not there", before: func(w *world) { w.openErr[false] = unix.ENOENT }, err: "no such file"},
		{name: "another sequence number", before: func(w *world) { w.now.seq = 13 }, err: "another disk"},
		{name: "another size", before: func(w *world) { w.now.size = size + 512 }, err: "another size"},
		{name: "another device number", before: func(w *world) { w.now.dev.Minor = 32 }, err: "another disk"},
		{name: "another device node", before: func(w *world) { w.nodeDev.Minor = 32 }, err: "/dev/vdb is device number 254:32"},
		{name: "locked by somebody", before: func(w *world) { w.lockedBy(unix.LOCK_EX) }, err: "locked for 30s"},

		// Obstacles while Prove reads the disk.
		{name: "a byte at the start", before: func(w *world) { w.put(0, []byte{1}) }, err: "not proven"},
		{name: "a byte at the end", byte: true, before: func(w *world) { w.put(size-1, []byte{1}) }, err: "not proven"},
		{name: "a byte in the middle", byte: true, before: func(w *world) { w.put(size/2, []byte{1}) }, err: "not proven"},
		{name: "shorter than it says", byte: true, before: func(w *world) { w.truncate(size - 4096) }, err: "cannot read byte"},
		{name: "reads nothing", before: func(w *world) { w.truncate(0) }, err: "cannot read byte 0"},
		{name: "an unknown plan", blank: "quick", err: "unknown plan"},
		{name: "no plan", blank: "none", err: "unknown plan"},

		// Obstacles from wipefs and blkid.
		{name: "wipefs fails", before: func(w *world) { w.On(wipefsLine, runtest.Complain("no", 1)) }, err: "cannot understand"},
		{name: "wipefs killed", before: func(w *world) { w.On(wipefsLine, runtest.Fail(dead)) }, err: "signal: killed"},
		{name: "wipefs silent", before: func(w *world) { w.On(wipefsLine, runtest.Print("", 0)) }, err: "cannot understand"},
		{name: "wipefs names a backup GPT", before: func(w *world) {
			w.On(wipefsLine, runtest.Print(`{"signatures": [{"device": "vdb", "offset": "0x1", "type": "gpt", "uuid": null, "label": null}]}`, 0))
		}, err: "not proven"},
		{name: "a word of blkid", before: func(w *world) { w.On(blkidLine, runtest.Print("ID_FS_TYPE=DM_snapshot_cow\n", 0)) }, err: "not proven"},
		{name: "an unknown word of blkid", before: func(w *world) { w.On(blkidLine, runtest.Print("ID_X=1\n", 2)) }, err: "not proven"},
		{name: "blkid killed", before: func(w *world) { w.On(blkidLine, runtest.Fail(dead)) }, err: "signal: killed"},
		{name: "blkid ambivalent without a word", before: func(w *world) { w.On(blkidLine, runtest.Print("", 8)) }, err: "cannot understand"},
		{name: "blkid complains", before: func(w *world) { w.On(blkidLine, runtest.Complain("error", 2)) }, err: "cannot understand"},
		{name: "a filesystem", before: func(w *world) { w.put(0, super(w.t, "xfs.head", other)); w.named(other) }, err: `not proven blank: the content is "filesystem"`},

		// Writes of another process.
		{name: "written while it was read", before: func(w *world) { w.whenRun(blkidLine, write) }, err: "1 writes"},
		{name: "written while it settled", before: func(w *world) { w.after(4*time.Second, write) }, err: "1 writes"},
		{name: "a write that stalls since before", before: stall, err: unanswered},
		{name: "a write that stalls while it settled", before: func(w *world) { w.after(4*time.Second, stall) }, err: unanswered},
		{name: "a write that stalls after the proof", between: stall, err: unanswered},
		{name: "a byte and a write that stalls after the proof", between: func(w *world) { w.put(4095, []byte{1}); stall(w) }, err: unanswered},
		{name: "no counters", before: func(w *world) { w.counters = errors.New("no stat") }, err: "no stat"},
		{name: "pulled while it settled", before: func(w *world) { w.after(4*time.Second, func(w *world) { w.now.seq++ }) }, err: "another disk"},
		{name: "resized while it settled", before: func(w *world) { w.after(4*time.Second, func(w *world) { w.now.size *= 2 }) }, err: "another size"},
		{name: "written to the page cache while it settled", before: func(w *world) { w.after(4*time.Second, func(w *world) { w.buffered++ }) }, err: "1 writes"},
		{name: "written to the page cache after the proof", between: func(w *world) { w.buffered++ }, err: "1 writes"},
		{name: "written after the proof", between: write, err: "1 writes"},
		{name: "pulled after the proof", between: func(w *world) { w.now.seq++ }, err: "another disk"},
		{name: "resized after the proof", between: func(w *world) { w.now.size *= 2 }, err: "another size"},
		{name: "another node after the proof", between: func(w *world) { w.nodeDev.Minor++ }, err: "device number"},
		{name: "no counters after the proof", between: func(w *world) { w.counters = errors.New("no stat") }, err: "no stat"},
		{name: "a byte at the start after the proof", between: func(w *world) { w.put(4095, []byte{1}) }, err: "another machine writes to the disk"},
		{name: "a byte at the end after the proof", byte: true, between: func(w *world) { w.put(size-1, []byte{1}) }, err: "another machine writes to the disk"},
		{name: "a byte and a write after the proof", between: func(w *world) { w.put(4095, []byte{1}); w.writes++ }, err: "somebody writes to the disk: 1 writes"},
		{name: "a signature after the proof", between: func(w *world) { w.named(other) }, err: "another machine writes to the disk"},
		{name: "unreadable after the proof", between: func(w *world) { w.truncate(0) }, err: "cannot read byte 0"},
		{name: "switched off after the proof", between: func(w *world) { w.off = errors.New("the hold file") }, err: "the hold file"},
		{name: "half made and switched off after the proof", recover: true, between: func(w *world) { w.off = errors.New("the hold file") }, err: "the hold file",
			before: func(w *world) { w.halfMade(uuid) }},
		{name: "locked after the proof", between: func(w *world) { w.lockedBy(unix.LOCK_SH) }, err: "locked for 30s"},

		// Obstacles: mkfs.xfs fails, or the intent cannot be recorded.
		{name: "mkfs -N refuses", before: func(w *world) {
			w.On(dryLine, runtest.Complain("mkfs.xfs: /dev/vdb appears to contain something.\nmkfs.xfs: Use the -f option to force overwrite.\n", 1))
		}, err: "exit code 1: mkfs.xfs: /dev/vdb appears"},
		{name: "mkfs -N refuses what another machine has just made", byte: true, before: func(w *world) {
			w.On(dryLine, func(run.Command) (run.Result, error) {
				w.put(size-1, []byte{1})
				return run.Result{ExitCode: 1}, nil
			})
		}, err: "another machine writes to the disk"},
		{name: "an unknown mkfs.xfs", before: func(w *world) { w.On(versionLine, runtest.Print("mkfs.xfs (new) 7\n", 0)) }, err: "cannot understand /usr/sbin/mkfs.xfs -V"},
		{name: "no mkfs.xfs", before: func(w *world) { w.On(versionLine, runtest.Fail(os.ErrNotExist)) }, err: "does not exist"},
		{name: "mkfs -N killed", before: func(w *world) { w.On(dryLine, runtest.Fail(dead)) }, err: "signal: killed"},
		{name: "the intent fails", before: func(w *world) { w.beginErr = errors.New("no space left") }, err: "no space left"},

		// Obstacles at the last look.
		{name: "written during mkfs -N", before: func(w *world) { w.whenRun(dryLine, write) }, err: "1 writes", begun: true},
		{name: "written at the last moment", before: func(w *world) { w.onBegin = func() { w.writes++ } }, err: "1 writes", begun: true},
		{name: "a write that stalls during mkfs -N", before: func(w *world) { w.whenRun(dryLine, stall) }, err: unanswered, begun: true},
		{name: "a write that stalls at the last moment", before: func(w *world) { w.onBegin = func() { stall(w) } }, err: unanswered, begun: true},
		{name: "a byte at the last moment", byte: true, before: func(w *world) { w.onBegin = func() { w.put(size-1, []byte{1}) } }, err: "another machine writes to the disk", begun: true},
		{name: "a signature at the last moment", before: func(w *world) { w.onBegin = func() { w.named(other) } }, err: "another machine writes to the disk", begun: true},
		{name: "unreadable at the last moment", before: func(w *world) { w.onBegin = func() { w.truncate(0) } }, err: "cannot read byte 0", begun: true},
		{name: "another disk at the last moment", before: func(w *world) { w.onBegin = func() { w.now.seq++ } }, err: "another disk", begun: true},
		{name: "another node at the last moment", before: func(w *world) { w.onBegin = func() { w.nodeDev.Minor++ } }, err: "device number", begun: true},

		// Half-made filesystems.
		{name: "half made, not asked to make it again", before: func(w *world) { w.halfMade(uuid) }, err: `not proven blank: the content is "half-made"`},
		{name: "half made by somebody else", before: func(w *world) { w.halfMade(other) }, recover: true, err: "expected the half-made filesystem " + uuid + ", but the disk holds the half-made filesystem " + other},
		{name: "asked to make again a blank disk", recover: true, err: `not proven half-made: the content is "blank"`},
		{name: "asked to make again a whole filesystem", before: func(w *world) { w.mkfs(run.Command{}) }, recover: true, err: `not proven half-made: the content is "filesystem"`},
		{name: "half made, and something else", before: func(w *world) {
			w.halfMade(uuid)
			w.On(blkidLine, runtest.Print("ID_FS_TYPE=xfs\nID_PART_TABLE_TYPE=dos\n", 0))
		}, recover: true, err: `not proven half-made: the content is "other"`},
		{name: "half made, finished by somebody", before: func(w *world) { w.halfMade(uuid) }, between: func(w *world) { w.put(0, super(w.t, "xfs.head", uuid)) }, recover: true, err: "another machine writes to the disk"},
		{name: "half made, replaced at the last moment", before: func(w *world) {
			w.halfMade(uuid)
			w.onBegin = func() { w.put(0, super(w.t, "xfs-half-made.head", other)); w.named(other) }
		}, recover: true, err: "another machine writes to the disk"},
		{name: "half made over old data", before: func(w *world) {
			w.halfMade(uuid)
			w.facts.Standing.Intent.Over = true
			w.put(size/2, []byte("old data"))
		}, recover: true, byte: true, err: `not proven half-made: the content is "unknown"`},
		{name: "half made, written while it settled", before: func(w *world) {
			w.halfMade(uuid)
			w.after(4*time.Second, write)
		}, recover: true, err: "1 writes"},
		{name: "half made, written", before: func(w *world) { w.halfMade(uuid) }, between: write, recover: true, err: "1 writes"},
	} {
		plans := []string{tc.blank}
		switch {
		case tc.blank != "":
		case tc.byte:
			plans = []string{"full", "sampled"}
		default:
			plans = []string{"full", "sampled", "unsigned"}
		}
		for _, blank := range plans {
			t.Run(tc.name+", "+blank, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					if tc.before != nil {
						tc.before(w)
					}
					between := func() {
						if tc.between != nil {
							tc.between(w)
						}
					}
					err := w.work(blank, tc.recover, between)
					if err == nil || !strings.Contains(err.Error(), tc.err) {
						t.Errorf("error %v, want %q", err, tc.err)
					}
					if strings.Contains(err.Error(), "not blank: ") { // every user may read the error
						t.Errorf("the error quotes the evidence: %v", err)
					}
					final := tc.name == "mkfs -N refuses" || strings.Contains(tc.err, "another machine writes")
					if Retry(err) == final {
						t.Errorf("retry %v: %v", Retry(err), err)
					}
					if w.mkfsRan() {
						t.Errorf("mkfs.xfs was started: %q", w.Calls())
					}
					if ended := w.times("end "+uuid+", not made") > 0; ended != tc.begun {
						t.Errorf("the story is %q", w.story)
					}
				})
			})
		}
	}
}

func (w *world) times(prefix string) (n int) {
	for _, line := range w.story {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

func (w *world) truncate(n int64) {
	if err := os.Truncate(w.image, n); err != nil {
		w.t.Error(err)
	}
}

// lockedBy lets another process lock the disk until the end of the test.
func (w *world) lockedBy(how int) {
	f, err := os.Open(w.image)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { f.Close() })
	if err := unix.Flock(int(f.Fd()), how); err != nil {
		w.t.Error(err)
	}
}

// whenRun calls a function when the given command runs for the first time.
func (w *world) whenRun(line string, do func(*world)) {
	answer := map[string]runtest.Answer{blkidLine: runtest.Print("", 2), dryLine: runtest.Print("", 0)}[line]
	w.On(line, func(c run.Command) (run.Result, error) {
		do(w)
		w.On(line, answer)
		return answer(c)
	})
}

// after() starts a timer at the first run of blkid. When the given time has passed, the timer calls do().
func (w *world) after(d time.Duration, do func(*world)) {
	w.whenRun(blkidLine, func(w *world) {
		time.AfterFunc(d, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			do(w)
		})
	})
}

// TestOpenAndProveRefuse checks that Open or Prove already reports each obstacle, so that no later step has to find the
// obstacle.
func TestOpenAndProveRefuse(t *testing.T) {
	for name, tc := range map[string]struct {
		before, settling func(*world)
		open, prove      string
	}{
		"another disk":             {before: func(w *world) { w.now.seq++ }, open: "another disk"},
		"another node":             {before: func(w *world) { w.nodeDev.Minor++ }, open: "device number"},
		"locked":                   {before: func(w *world) { w.lockedBy(unix.LOCK_EX) }, open: "locked for 30s"},
		"written while it settled": {settling: func(w *world) { w.writes++ }, prove: "1 writes"},
		"pulled while it settled":  {settling: func(w *world) { w.now.seq++ }, prove: "another disk"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if tc.before != nil {
					tc.before(w)
				}
				s, err := open(t.Context(), w.facts, w.deps(), w)
				if tc.open != "" {
					if err == nil || !strings.Contains(err.Error(), tc.open) || len(w.story) != 0 {
						t.Errorf("error %v, the story is %q", err, w.story)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				w.after(time.Second, tc.settling)
				c, err := s.Prove(t.Context(), "full")
				if err == nil || !strings.Contains(err.Error(), tc.prove) || c.Kind != disk.Unknown {
					t.Errorf("%+v, error %v", c, err)
				}
			})
		})
	}
}

// TestShortLock checks that hotmount waits until a short lock ends, such as a lock of udev.
func TestShortLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		f, err := os.Open(w.image)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
			t.Fatal(err)
		}
		err = w.work("full", false, func() { time.AfterFunc(2*time.Second, func() { f.Close() }) })
		if err != nil || !w.mkfsRan() {
			t.Errorf("error %v", err)
		}
	})
}

// TestSharedWhileProving checks that other processes, such as udev, can read the disk during the proof. No other
// process can claim the disk during the proof.
func TestSharedWhileProving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, err := open(t.Context(), w.facts, w.deps(), w)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		f, err := os.Open(w.image)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			t.Errorf("somebody else got an exclusive lock: %v", err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
			t.Errorf("nobody else got a shared lock: %v", err)
		}
	})
}

// TestLockedDuringMkfs checks that hotmount holds the lock while mkfs.xfs runs.
func TestLockedDuringMkfs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.On(makeLine, func(c run.Command) (run.Result, error) {
			f, err := os.Open(w.image)
			if err != nil {
				return run.Result{}, err
			}
			defer f.Close()
			if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
				t.Errorf("somebody else got a shared lock: %v", err)
			}
			return w.mkfs(c)
		})
		if err := w.work("full", false, nil); err != nil {
			t.Error(err)
		}
	})
}

// TestMkfsGoesWrong checks that Make returns an error after each failure during or after mkfs.xfs. The intent stays for
// the next look.
func TestMkfsGoesWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		mkfs func(*world) runtest.Answer
		err  string
	}{
		"refuses":  {func(*world) runtest.Answer { return runtest.Complain("Device or resource busy", 1) }, "exit code 1: Device or resource busy"},
		"killed":   {func(*world) runtest.Answer { return runtest.Fail(errors.New("signal: killed")) }, "signal: killed"},
		"did none": {func(*world) runtest.Answer { return runtest.Print("", 0) }, "no XFS superblock"},
		"half": {func(w *world) runtest.Answer {
			return func(run.Command) (run.Result, error) {
				w.put(0, super(t, "xfs-half-made.head", uuid))
				return run.Result{}, nil
			}
		}, "is still running on the disk"},
		"another UUID": {func(w *world) runtest.Answer {
			return func(run.Command) (run.Result, error) {
				w.put(0, super(t, "xfs.head", other))
				return run.Result{}, nil
			}
		}, other},
		"unreadable": {func(w *world) runtest.Answer {
			return func(run.Command) (run.Result, error) {
				w.truncate(0)
				return run.Result{}, nil
			}
		}, "cannot read byte 0"},
		"headers of another": {func(w *world) runtest.Answer {
			return func(c run.Command) (run.Result, error) {
				res, err := w.mkfs(c)
				w.put(512, super(t, "xfs.head", other)[512:1024])
				return res, err
			}
		}, "headers of group 0"},
		"resized": {func(w *world) runtest.Answer {
			return func(c run.Command) (run.Result, error) {
				w.now.size *= 2
				return w.mkfs(c)
			}
		}, "another size"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.On(makeLine, tc.mkfs(w))
				err := w.work("full", false, nil)
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				if w.times("begin ") != 1 || w.times("end ") != 0 {
					t.Errorf("the story is %q", w.story)
				}
			})
		})
	}
}

// TestSecondLook checks that Make returns an error if another machine formats the disk at the same time and writes
// last. Make must also return an error if a process on this machine has written, or begun to write, after mkfs. The
// intent must record the doubt, because the next look may find the filesystem whole.
func TestSecondLook(t *testing.T) {
	for name, tc := range map[string]struct {
		later func(*world)
		is    error
		err   string
	}{
		"another UUID":                  {func(w *world) { w.put(0, super(t, "xfs.head", other)) }, ErrShared, "holds the XFS filesystem " + other},
		"at work":                       {func(w *world) { w.put(0, super(t, "xfs-half-made.head", uuid)) }, ErrShared, "is still running on the disk"},
		"zeroed":                        {func(w *world) { w.put(0, make([]byte, 4096)) }, ErrShared, "no XFS superblock"},
		"headers of another":            {func(w *world) { w.put(512, super(t, "xfs.head", other)[512:1024]) }, ErrShared, "headers of group 0"},
		"a B-tree of another":           {func(w *world) { w.put(reference, behind(t, other)[reference-4096:][:4096]) }, ErrShared, "byte 20480, in the B-trees of group 0, does not belong to the XFS filesystem " + uuid},
		"a B-tree is lost":              {func(w *world) { w.put(reference, make([]byte, 4096)) }, ErrShared, "in the B-trees of group 0"},
		"inodes of another":             {func(w *world) { w.put(inodes, behind(t, other)[inodes-4096:]) }, ErrShared, "byte 65536, in the inodes,"},
		"the log of another":            {func(w *world) { w.put(logStart, logHeader(t, other)) }, ErrShared, "byte 4194304, in the log,"},
		"another UUID, by this machine": {func(w *world) { w.put(0, super(t, "xfs.head", other)); w.writes++ }, ErrWritten, "1 writes"},
		"written, and whole":            {func(w *world) { w.writes++ }, ErrWritten, "1 writes"},
		"in the page cache, and whole":  {func(w *world) { w.buffered++ }, ErrWritten, "1 writes"},
		"a write that stalls":           {func(w *world) { w.inFlight++ }, ErrWritten, "1 writes are not complete yet"},
		"unreadable":                    {func(w *world) { w.truncate(reference) }, io.ErrUnexpectedEOF, "(disk sequence number 12): cannot read back what mkfs.xfs wrote: cannot read byte 20480"},
		"pulled":                        {func(w *world) { w.now.seq++ }, nil, "another disk"},
		"not to be counted":             {func(w *world) { w.counters = errors.New("no stat") }, nil, "no stat"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.On(makeLine, func(c run.Command) (run.Result, error) {
					time.AfterFunc(2*time.Second, func() {
						w.mu.Lock()
						defer w.mu.Unlock()
						tc.later(w)
					})
					return w.mkfs(c)
				})
				err := w.work("full", false, nil)
				if err == nil || !strings.Contains(err.Error(), tc.err) || tc.is != nil && !errors.Is(err, tc.is) {
					t.Errorf("error %v", err)
				}
				if w.times("end ") != 0 || w.times("amend ") > 0 != (tc.is != nil) || (w.last.Doubt != "") != (tc.is != nil) || w.last.UUID != uuid {
					t.Errorf("the story is %q, the intent %+v", w.story, w.last)
				}
			})
		})
	}
}

func TestDoubtThatIsNotRecordedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.amendErr = errors.New("no space left")
		w.On(makeLine, func(c run.Command) (run.Result, error) {
			time.AfterFunc(2*time.Second, func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.writes++
			})
			return w.mkfs(c)
		})
		if err := w.work("full", false, nil); !errors.Is(err, ErrWritten) || !errors.Is(err, w.amendErr) {
			t.Errorf("error %v", err)
		}
	})
}

// TestOwnWritesAreNoOthers simulates writes of mkfs that reach the disk from the page cache only after mkfs ends.
// hotmount must not mistake these writes for writes of another process.
func TestOwnWritesAreNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.On(makeLine, func(c run.Command) (run.Result, error) {
			w.buffered += 2
			return w.mkfs(c)
		})
		if err := w.work("full", false, nil); err != nil || w.last.Doubt != "" {
			t.Errorf("error %v, the intent is %+v", err, w.last)
		}
	})
}

// TestClaimOfAnotherDisk checks that Open returns an error if the device name leads to another disk by the time of the
// exclusive open(2).
func TestClaimOfAnotherDisk(t *testing.T) {
	w := newWorld(t)
	other := w.now
	other.seq++
	w.other = &other
	if _, err := open(t.Context(), w.facts, w.deps(), w); err == nil || !strings.Contains(err.Error(), "another disk") {
		t.Errorf("error %v", err)
	}
}

// TestOwnIsOfOneDisk checks that the UUID of an intent identifies hotmount's own filesystem only on the disk of the
// intent.
func TestOwnIsOfOneDisk(t *testing.T) {
	w := newWorld(t)
	w.facts.Standing.Intent = &disk.Intent{UUID: ourUUID}
	s, err := open(t.Context(), w.facts, w.deps(), w)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if own := s.source().Own; own.UUID != ourUUID {
		t.Errorf("own disk: %+v", own)
	}
	s.disk.Standing.IntentDoubt = true
	if own := s.source().Own; own.UUID != "" {
		t.Errorf("perhaps another disk: %+v", own)
	}
}

// TestTorn simulates a power cut after which the disk has the superblock, but not all earlier writes of mkfs.
func TestTorn(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world)
		torn   bool
		err    string
	}{
		"whole":                       {func(w *world) {}, false, ""},
		"a header is another's":       {func(w *world) { w.put(512, super(t, "xfs.head", other)[512:1024]) }, true, ""},
		"a header is lost":            {func(w *world) { w.put(1024, make([]byte, 512)) }, true, ""},
		"it was mounted since":        {func(w *world) { w.put(1024, make([]byte, 512)); w.facts.Standing.Volume = &disk.Sighting{UUID: uuid} }, false, ""},
		"another was mounted":         {func(w *world) { w.put(1024, make([]byte, 512)); w.facts.Standing.Volume = &disk.Sighting{UUID: other} }, true, ""},
		"on what may be another disk": {func(w *world) { w.put(1024, make([]byte, 512)); w.facts.Standing.IntentDoubt = true }, false, ""},
		"no intent":                   {func(w *world) { w.put(1024, make([]byte, 512)); w.facts.Standing.Intent = nil }, false, ""},
		"another filesystem's intent": {func(w *world) { w.put(1024, make([]byte, 512)); w.facts.Standing.Intent.UUID = other }, false, ""},
		"the intent is of an ext4":    {func(w *world) { w.facts.Standing.Intent.Ext4 = &disk.MkfsExt4{} }, true, ""},
		"a header cannot be read": {func(w *world) {
			b := super(t, "xfs.head", uuid)
			inGroups(b, 2)
			w.put(0, b)
			w.truncate(size / 2)
		}, false, "cannot read byte"},
		"a header is lost while it writes": {func(w *world) { w.put(1024, make([]byte, 512)); w.inFlight++ }, false, "not complete yet"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if _, err := w.mkfs(run.Command{}); err != nil {
					t.Fatal(err)
				}
				w.facts.Standing.Intent = &disk.Intent{UUID: uuid}
				tc.change(w)
				s, err := open(t.Context(), w.facts, w.deps(), w)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				c, err := s.Prove(t.Context(), "full")
				if tc.err != "" {
					if err == nil || !strings.Contains(err.Error(), tc.err) || c.Kind != disk.Unknown {
						t.Errorf("%+v, error %v", c, err)
					}
					return
				}
				said := len(c.Evidence) > 0 && strings.Contains(c.Evidence[len(c.Evidence)-1], " wrote is missing: ")
				if err != nil || c.Kind != disk.Filesystem || c.UUID != uuid || c.Torn != tc.torn || said != tc.torn {
					t.Errorf("%+v, error %v", c, err)
				}
			})
		})
	}
}

// token returns the token that hotmount shows to the operator.
func (w *world) token(boot string) (string, error) {
	s, err := open(w.t.Context(), w.facts, w.deps(), w)
	if err != nil {
		return "", err
	}
	defer s.Close()
	if _, err := s.Prove(w.t.Context(), "auto"); err != nil {
		return "", err
	}
	return s.Token(w.t.Context(), boot)
}

// confirm formats the disk by token.
func (w *world) confirm(token string) error {
	s, err := open(w.t.Context(), w.facts, w.deps(), w)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Prove(w.t.Context(), "auto"); err != nil {
		return err
	}
	o := w.makeOptions(false)
	o.Token, o.Boot = token, "boot"
	return s.Make(w.t.Context(), o)
}

func TestToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(size/2, []byte("old data"))
		w.On(dryOver, runtest.Print("", 0))
		w.On(makeOver, w.mkfs)
		token, err := w.token("boot")
		if err != nil || len(token) != 32 || w.mkfsRan() {
			t.Fatalf("token %q, error %v", token, err)
		}
		if again, err := w.token("boot"); again != token || err != nil {
			t.Errorf("and then %q, error %v", again, err)
		}
		w.story = nil
		if err := w.confirm(token); err != nil {
			t.Fatal(err)
		}
		want := []string{
			wipefsLine, blkidLine, "log", versionLine, dryOver, "log", "begin " + uuid, makeOver, "log", "end " + uuid,
			wipefsLine, blkidLine,
		}
		if diff := cmp.Diff(want, w.story); diff != "" {
			t.Error(diff)
		}
		if err := w.confirm(token); err == nil {
			t.Error("the token is still valid after the format")
		}
	})
}

// TestMadeByToken checks that the kernel forgets the old partitions after a format by token. If something prevents the
// use of the new filesystem, the error reports the obstacle and not a failed format.
func TestMadeByToken(t *testing.T) {
	for name, tc := range map[string]struct {
		partitions []string
		rereadErr  error
		after      func(*world)
		want       string
		reread     int
	}{
		"no partitions":     {nil, errors.New("no"), nil, "", 0},
		"partitions":        {[]string{"vdb1"}, nil, nil, "", 1},
		"partitions in use": {[]string{"vdb1"}, unix.EBUSY, nil, "the filesystem is made, but the kernel still has the disk's old partitions: device or resource busy; to make the kernel forget these partitions: blockdev --rereadpt /dev/vdb", 1},
		"the tools fail":    {nil, nil, func(w *world) { w.On(wipefsLine, runtest.Print("", 1)) }, "the filesystem is made, but hotmount cannot check whether other signatures are left on the disk", 0},
		"something else is left": {nil, nil, func(w *world) {
			w.On(wipefsLine, runtest.Print(`{"signatures": [{"device": "vdb", "offset": "0x40000", "type": "zfs_member", "uuid": null, "label": null}]}`, 0))
		}, "zfs_member at byte 262144, which mkfs.xfs does not overwrite; to remove the signature: wipefs --all --types noxfs /dev/vdb", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.put(size/2, []byte("old data"))
				w.facts.Partitions, w.rereadErr = tc.partitions, tc.rereadErr
				w.On(dryOver, runtest.Print("", 0))
				w.On(makeOver, func(c run.Command) (run.Result, error) {
					r, err := w.mkfs(c)
					if tc.after != nil {
						tc.after(w)
					}
					return r, err
				})
				token, err := w.token("boot")
				if err != nil {
					t.Fatal(err)
				}
				err = w.confirm(token)
				if (err != nil) != (tc.want != "") || err != nil && (!errors.Is(err, ErrMade) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "cannot make")) {
					t.Errorf("error %v", err)
				}
				if w.reread != tc.reread || !slices.Contains(w.story, "end "+uuid) {
					t.Errorf("read %d times, story %q", w.reread, w.story)
				}
			})
		})
	}
}

// TestOver checks that an intent still records an overwrite by token when the filesystem is made again. Without the
// recorded overwrite, hotmount could mistake a copy of the disk for the original disk, or old data for another writer's
// data.
func TestOver(t *testing.T) {
	for name, tc := range map[string]struct {
		former *disk.Intent
		token  bool
		want   bool
	}{
		"blank":                       {nil, false, false},
		"half made, blank before":     {&disk.Intent{UUID: uuid}, false, false},
		"half made, not blank before": {&disk.Intent{UUID: uuid, Over: true}, false, true},
		"by a token":                  {nil, true, true},
		"blank now, not blank before": {&disk.Intent{UUID: uuid, Over: true}, false, true},
		"another's":                   {&disk.Intent{UUID: other, Over: true}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.On(dryOver, runtest.Print("", 0))
				w.On(makeOver, w.mkfs)
				var err error
				switch {
				case tc.token:
					w.put(size/2, []byte("old data"))
					var token string
					if token, err = w.token("boot"); err == nil {
						err = w.confirm(token)
					}
				default:
					recover := strings.HasPrefix(name, "half made")
					if recover {
						w.halfMade(uuid)
					}
					w.facts.Standing.Intent = tc.former
					err = w.work("full", recover, nil)
				}
				if err != nil || w.last.Over != tc.want {
					t.Errorf("the intent is %+v, error %v", w.last, err)
				}
			})
		})
	}
}

func TestOverwritten(t *testing.T) {
	xfs := disk.Content{Kind: disk.Filesystem, UUID: other}
	for name, tc := range map[string]struct {
		former *disk.Intent
		proven disk.Content
		token  string
		over   bool
		was    string
	}{
		"a filesystem":                    {nil, xfs, "token", true, other},
		"an unfinished one":               {nil, disk.Content{Kind: disk.HalfMade, UUID: other}, "token", true, ""},
		"a filesystem that is left alone": {nil, xfs, "", false, ""},
		"again":                           {&disk.Intent{UUID: uuid, Over: true, Was: "before"}, disk.Content{Kind: disk.HalfMade, UUID: uuid}, "", true, "before"},
		"again, by the word":              {&disk.Intent{UUID: uuid, Over: true, Was: "before"}, disk.Content{Kind: disk.HalfMade, UUID: uuid}, "token", true, "before"},
		"another one, by the word":        {&disk.Intent{UUID: uuid, Over: true, Was: "before"}, xfs, "token", true, other},
		"its own, by the word":            {&disk.Intent{UUID: uuid, Over: true, Was: "before"}, disk.Content{Kind: disk.Filesystem, UUID: uuid}, "token", true, "before"},
		"one, and before was none":        {&disk.Intent{UUID: uuid, Over: true}, xfs, "token", true, other},
		"one, where it was blank":         {&disk.Intent{UUID: uuid}, xfs, "token", true, other},
		"another's":                       {&disk.Intent{UUID: "x", Over: true, Was: "before"}, disk.Content{Kind: disk.Blank}, "", false, ""},
	} {
		s := &Session{proven: tc.proven}
		s.disk.Standing.Intent = tc.former
		if over, was := s.overwritten(MakeOptions{Intent: disk.Intent{UUID: uuid}, Token: tc.token}); over != tc.over || was != tc.was {
			t.Errorf("%s: %v, %q", name, over, was)
		}
	}
}

// TestWrittenDuringMkfs checks that hotmount finds a write by another process between the last look and the end of
// mkfs. The kernel's count of written bytes shows a foreign write during mkfs, but its count of requests does not. If
// the count of written bytes does not match the bytes of mkfs.xfs, hotmount reads the disk again. If hotmount reads
// every byte and finds no foreign byte, hotmount must use the disk. If hotmount can re-read only samples of the disk, the
// intent must record a doubt. A disk that was not proven all zero is not read again, and its intent must also record a
// doubt.
func TestWrittenDuringMkfs(t *testing.T) {
	const gib = 1 << 30
	const unread = -1 // an offset outside all samples
	plans := map[string]struct {
		blank string
		size  int64
		over  bool
		asks  bool
		// If the counts differ and no reading finds a foreign byte, the expected error message ends with the text in
		// `nowhere`. If `nowhere` is empty, the test expects no error in this case.
		nowhere string
	}{
		"full":            {"full", size, false, true, ""},
		"sampled, 1 GiB":  {"sampled", gib, false, true, "; the samples that were read again show no write by somebody else, but the rest of the disk was not read"},
		"auto":            {"auto", size, false, true, ""},
		"auto, 100 GiB":   {"auto", 100 * gib, false, true, "; the samples that were read again show no write by somebody else"},
		"unsigned, 1 GiB": {"unsigned", gib, false, false, "; hotmount cannot tell whether somebody else made some of these writes"},
		"a token":         {"full", size, true, false, "; hotmount cannot tell whether somebody else made some of these writes"},
	}
	for name, tc := range map[string]struct {
		counted int64 // bytes that the kernel counts beyond one count of each byte that mkfs.xfs wrote
		at      int64 // offset in bytes at which another process writes, or 0 for no write
	}{
		"nobody":                            {0, 0},
		"nobody, zeros counted twice":       {64 << 20, 0},
		"nobody, zeros not counted":         {-64 << 20, 0},
		"somebody, in a sample":             {512, 8 << 20},
		"somebody, in no sample":            {512, unread},
		"somebody, of whom nothing is left": {512, 0},
		"fewer than mkfs.xfs wrote":         {-512 - 64<<20, 0},
		"half of the zeros":                 {-32 << 20, 0},
	} {
		differ := tc.counted%(64<<20) != 0
		for plan, p := range plans {
			if p.size > gib && tc.counted != 0 && tc.at != unread {
				continue // this saves the slow reading of 100 GiB, because a disk of 1 GiB has the same result
			}
			t.Run(plan+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					at := tc.at
					if at == unread {
						at = p.size/2 + 200<<10
					}
					w.truncate(p.size)
					w.now.size, w.facts.Size = uint64(p.size), uint64(p.size)
					make := func(c run.Command) (run.Result, error) {
						r, err := w.mkfs(c)
						w.bytes += uint64(tc.counted)
						if at != 0 {
							w.put(at, []byte("theirs"))
						}
						return r, err
					}
					w.On(makeLine, make)
					asked := 0
					w.readAgain = func(context.Context) (func(context.Context, probe.Progress), error) {
						asked++
						// After a crash during the second reading, the recorded doubt must prevent a mount.
						if w.last.Doubt == "" {
							t.Error("the second reading begins, and no doubt is recorded")
						}
						return nil, nil
					}
					var err error
					if p.over {
						w.put(size/2, []byte("old data"))
						w.On(dryOver, runtest.Print("", 0))
						w.On(makeOver, make)
						var token string
						if token, err = w.token("boot"); err == nil {
							err = w.confirm(token)
						}
					} else {
						err = w.work(p.blank, false, nil)
					}
					if (asked == 1) != (differ && p.asks) {
						t.Errorf("read again %d times", asked)
					}
					want := ""
					if differ && p.nowhere != "" {
						want = fmt.Sprintf("counted %d written bytes since hotmount first read the disk; mkfs.xfs wrote %d bytes, and the XFS log of %d bytes does not explain the difference%s", 65<<12+64<<20+tc.counted, 65<<12, 64<<20, p.nowhere)
					}
					if at != 0 && p.asks && (p.nowhere == "" || tc.at != unread) {
						want = fmt.Sprintf("byte %d was written", at)
					}
					// Every user may read the doubt, so the doubt must not quote the bytes.
					if strings.Contains(w.last.Doubt, "746865697273") {
						t.Errorf("doubt %q", w.last.Doubt)
					}
					if want == "" && (err != nil || w.last.Doubt != "") || want != "" && (!errors.Is(err, ErrWritten) || !strings.Contains(err.Error(), want) || !strings.Contains(w.last.Doubt, want)) {
						t.Errorf("error %v, doubt %q", err, w.last.Doubt)
					}
				})
			})
		}
	}
}

// TestNotReadAgain checks that the disk stays in doubt if it cannot be read again.
func TestNotReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.On(makeLine, func(c run.Command) (run.Result, error) {
			r, err := w.mkfs(c)
			w.bytes += 4096
			return r, err
		})
		stopped := errors.New("stopped")
		w.readAgain = func(context.Context) (func(context.Context, probe.Progress), error) { return nil, stopped }
		if err := w.work("full", false, nil); !errors.Is(err, stopped) || w.last.Doubt == "" {
			t.Errorf("error %v, doubt %q", err, w.last.Doubt)
		}
	})
}

// TestTokenIsForAllThatWasRead checks that a token covers every byte that Prove reads, not only the samples. The
// kernel's count of writes does not show writes of another machine, but a digest of all bytes does.
func TestTokenIsForAllThatWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const large, between = 1 << 30, 512<<20 + 200<<10
		w.truncate(large)
		w.now.size, w.facts.Size = large, large
		w.put(size/2, []byte("old data"))
		w.On(dryOver, runtest.Print("", 0))
		token, err := w.token("boot")
		if err != nil {
			t.Fatal(err)
		}
		samples := func() [sha256.Size]byte {
			f, err := os.Open(w.image)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			sum, err := probe.Digest(t.Context(), probe.Source{Reader: f, Size: large}, probe.Sampled)
			if err != nil {
				t.Fatal(err)
			}
			return sum
		}
		before := samples()
		w.put(between, []byte{1})
		if samples() != before {
			t.Fatal("the samples show the change, so this test proves nothing")
		}
		if err := w.confirm(token); !errors.Is(err, ErrToken) || w.mkfsRan() {
			t.Errorf("error %v", err)
		}
	})
}

// TestTokenHoldsForOneStateOnly checks that a token is valid for one disk, one boot and one content. If the disk, the
// boot or the content differs, hotmount must write nothing.
func TestTokenHoldsForOneStateOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		before, atLast func(*world)
		boot           string
		err            error
	}{
		"one byte changed":                 {before: func(w *world) { w.put(size/2, []byte("Old")) }, err: ErrToken},
		"one byte more":                    {before: func(w *world) { w.put(size-1, []byte{1}) }, err: ErrToken},
		"written, and the same":            {before: func(w *world) { w.writes++ }, err: ErrToken},
		"attached anew":                    {before: func(w *world) { w.now.seq++; w.facts.Seq++ }, err: ErrToken},
		"another serial":                   {before: func(w *world) { w.facts.Serial = "X" }, err: ErrToken},
		"after a reboot":                   {boot: "another", err: ErrToken},
		"one byte changed during mkfs -N":  {atLast: func(w *world) { w.put(size/2, []byte("Old")) }, err: ErrToken},
		"written during mkfs -N":           {atLast: func(w *world) { w.writes++ }, err: ErrWritten},
		"a write that stalls":              {before: func(w *world) { w.inFlight++ }, err: ErrWritten},
		"a write that stalls at last":      {atLast: func(w *world) { w.inFlight++ }, err: ErrWritten},
		"another disk during mkfs -N":      {atLast: func(w *world) { w.now.seq++ }},
		"blank now":                        {before: func(w *world) { w.put(size/2, make([]byte, 8)) }},
		"not to be read now":               {before: func(w *world) { w.truncate(size / 2) }},
		"claimed by somebody":              {before: func(w *world) { w.openErr[true] = unix.EBUSY }, err: ErrBusy},
		"the kernel counts no writes":      {before: func(w *world) { w.counters = errors.New("no stat") }},
		"resized":                          {before: func(w *world) { w.truncate(size + 1<<20); w.now.size += 1 << 20; w.facts.Size += 1 << 20 }, err: ErrToken},
		"resized, and the facts are stale": {before: func(w *world) { w.now.size += 1 << 20 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.put(size/2, []byte("old data"))
				w.On(dryOver, runtest.Print("", 0))
				boot := "boot"
				if tc.boot != "" {
					boot = tc.boot
				}
				token, err := w.token(boot)
				if err != nil {
					t.Fatal(err)
				}
				if tc.before != nil {
					tc.before(w)
				}
				if tc.atLast != nil {
					w.onBegin = func() { tc.atLast(w) }
				}
				if err := w.confirm(token); err == nil || tc.err != nil && !errors.Is(err, tc.err) {
					t.Errorf("error %v", err)
				}
				if w.mkfsRan() || w.times("begin ") != w.times("end ") {
					t.Errorf("the story is %q", w.story)
				}
			})
		})
	}
}

// TestNoTokenForWhatWasNotRead checks that hotmount gives no token without a proof of the content.
func TestNoTokenForWhatWasNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, err := open(t.Context(), w.facts, w.deps(), w)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if token, err := s.Token(t.Context(), "boot"); err == nil {
			t.Errorf("token %q", token)
		}
		o := w.makeOptions(false)
		o.Token = "x"
		if err := s.Make(t.Context(), o); err == nil || w.mkfsRan() {
			t.Errorf("error %v", err)
		}
	})
}

func TestIntentThatStaysIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.endErr = errors.New("read-only file system")
		if err := w.work("full", false, nil); err != nil {
			t.Error(err)
		}
		if last := w.log[len(w.log)-1]; last != "read-only file system" {
			t.Errorf("the log is %q", w.log)
		}
	})
}

// TestRecoveryKeepsItsIntent checks that a cancelled recovery keeps the intent. Without the intent, hotmount would take
// its own half-made filesystem for the filesystem of another machine.
func TestRecoveryKeepsItsIntent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.halfMade(uuid)
		w.onBegin = func() { w.writes++ }
		if err := w.work("full", true, nil); !errors.Is(err, ErrWritten) {
			t.Errorf("error %v", err)
		}
		if w.mkfsRan() || w.times("end ") != 0 {
			t.Errorf("the story is %q", w.story)
		}
	})
}

// TestNewIntentOverACopyIsTakenBack checks that a cancelled format removes its new intent, because nothing was written.
// On a copy of a disk, hotmount must ignore the intent of the original disk.
func TestNewIntentOverACopyIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(size/2, []byte("old data"))
		w.facts.Standing.Intent, w.facts.Standing.IntentDoubt = &disk.Intent{UUID: other, Over: true}, true
		w.On(dryOver, runtest.Print("", 0))
		token, err := w.token("boot")
		if err != nil {
			t.Fatal(err)
		}
		w.onBegin = func() { w.put(size/2, []byte("Old")) }
		if err := w.confirm(token); !errors.Is(err, ErrToken) {
			t.Errorf("error %v", err)
		}
		if w.mkfsRan() || w.story[len(w.story)-1] != "end "+uuid+", not made" || w.times("end ") != 1 {
			t.Errorf("the story is %q", w.story)
		}
	})
}

func TestMakeRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*MakeOptions)
		err    string
	}{
		"no UUID":       {func(o *MakeOptions) { o.Intent.UUID = "" }, "not a UUID"},
		"a path":        {func(o *MakeOptions) { o.Intent.UUID = "../../../../../../../../../../../../" }, "not a UUID"},
		"another disk":  {func(o *MakeOptions) { o.Intent.Identity.Seq++ }, "for another disk"},
		"another size":  {func(o *MakeOptions) { o.Intent.Identity.Size++ }, "for another disk"},
		"not half made": {func(o *MakeOptions) { o.RecoverHalfMade = true }, "not proven half-made"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				s, err := open(t.Context(), w.facts, w.deps(), w)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if _, err := s.Prove(t.Context(), "full"); err != nil {
					t.Fatal(err)
				}
				o := w.makeOptions(false)
				tc.change(&o)
				if err := s.Make(t.Context(), o); err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				if w.mkfsRan() || w.times("begin ") != 0 {
					t.Errorf("the story is %q", w.story)
				}
			})
		})
	}
}

func TestNothingWithoutProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, err := open(t.Context(), w.facts, w.deps(), w)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Make(t.Context(), w.makeOptions(false)); err == nil {
			t.Error("formatted without a proof")
		}
		// If a second proof fails, the first proof of the session is no longer valid.
		if _, err := s.Prove(t.Context(), "full"); err != nil {
			t.Fatal(err)
		}
		w.counters = errors.New("no stat")
		c, err := s.Prove(t.Context(), "full")
		if err == nil || c.Kind != disk.Unknown || c.Proven || len(c.Evidence) != 1 {
			t.Errorf("%+v, error %v", c, err)
		}
		w.counters = nil
		if err := s.Make(t.Context(), w.makeOptions(false)); err == nil {
			t.Error("formatted after a failed proof")
		}
		if len(w.story) == 0 || w.mkfsRan() {
			t.Errorf("the story is %q", w.story)
		}
	})
}

func TestNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, err := open(t.Context(), w.facts, w.deps(), w)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Prove(t.Context(), "full"); err != nil {
			t.Fatal(err)
		}
		if err := s.Make(t.Context(), w.makeOptions(false)); err != nil {
			t.Fatal(err)
		}
		if err := s.Make(t.Context(), w.makeOptions(false)); err == nil {
			t.Error("formatted twice")
		}
		if _, err := s.Prove(t.Context(), "full"); err == nil {
			t.Error("the proof ran after the format")
		}
	})
}

func TestEndOfContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the disk is gone")
		time.AfterFunc(3*time.Second, func() { cancel(gone) })
		s, err := open(ctx, w.facts, w.deps(), w)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		begun := time.Now()
		if _, err := s.Prove(ctx, "full"); !errors.Is(err, gone) || time.Since(begun) != 3*time.Second {
			t.Errorf("error %v after %s", err, time.Since(begun))
		}
	})
}

// TestArguments checks every command line of mkfs.xfs. The command line has -f only for a half-made filesystem or with
// a token (TestToken).
func TestArguments(t *testing.T) {
	var got []string
	for _, options := range []guard{{}, newest(t)} {
		for _, class := range [][]string{nil, {"-i size=1024"}} {
			for _, proto := range []string{"", "/tmp/x"} {
				for _, over := range []bool{false, true} {
					for _, dry := range []bool{true, false} {
						m := making{node: "/dev/vdb", uuid: uuid, guard: options, class: class, proto: proto, dry: dry, overwrite: over}
						got = append(got, strings.Join(m.args(), " "))
					}
				}
			}
		}
	}
	var want []string
	for _, conf := range []string{"", "-c options=/usr/share/xfsprogs/mkfs/lts_6.1.conf "} {
		for _, class := range []string{"", "-i size=1024 "} {
			for _, proto := range []string{"", "-p /tmp/x "} {
				rest := conf + class + proto + "-K -m uuid=" + uuid + " /dev/vdb"
				want = append(want, "-N "+rest, rest, "-N -f "+rest, "-f "+rest)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestForceStandsOnce checks that the string "-f" occurs only once in hotmount's code, in the method making.args. Only
// the package `format` may run mkfs.
func TestForceStandsOnce(t *testing.T) {
	var files []string
	for _, dir := range []string{"..", "../../cmd"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	places, whens, ext4s := 0, 0, 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		places += strings.Count(string(text), `"-f"`)
		if filepath.Dir(name) != "../format" {
			if strings.Contains(string(text), "mkfs.") && strings.Contains(string(text), "run.Command{") {
				t.Errorf("%s may run mkfs", name)
			}
			continue
		}
		if strings.Contains(string(text), `"-F`) {
			t.Errorf("%s has -F", name)
		}
		ext4s += strings.Count(string(text), "ext4{")
		whens += strings.Count(string(text), "overwrite: o.RecoverHalfMade || o.Token != \"\"") + strings.Count(string(text), "making{")
	}
	if whens != 2 {
		t.Errorf("%d places format, or decide when to use -f", whens)
	}
	if places != 1 {
		t.Errorf(`"-f" occurs in %d places`, places)
	}
	if ext4s != 3 {
		t.Errorf("%d places call mkfs.ext4", ext4s)
	}
}

func TestPeopleReadErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(1<<20, []byte("EFI PART"))
		err := w.work("full", false, nil)
		want := `cannot make a filesystem on vdb (disk sequence number 12): the disk was not proven blank: the content is "unknown"`
		if fmt.Sprint(err) != want {
			t.Errorf("%v", err)
		}
		evidence := []string{
			"vdb (disk sequence number 12) is unknown", "wipefs: nothing", "blkid: nothing",
			"not blank: found old data at byte 1048576, as on a recycled volume or a damaged disk",
			"byte 1048576: 45 46 49 20 50 41 52 54 00 00 00 00 00 00 00 00",
		}
		if diff := cmp.Diff(evidence, w.log); diff != "" {
			t.Error(diff)
		}
	})
}

// TestPrototype checks the owner and mode of the root directory in the prototype. The prototype is empty if owner and
// mode are the defaults of mkfs.xfs.
func TestPrototype(t *testing.T) {
	for _, c := range []struct{ owner, mode, want string }{
		{"", "", ""},
		{"0:0", "0755", ""},
		{"1000:2000", "0755", "/dev/null\n0 0\nd--755 1000 2000\n$\n"},
		{"0:0", "2770", "/dev/null\n0 0\nd-g770 0 0\n$\n"},
		{"0:5", "6007", "/dev/null\n0 0\ndug007 0 5\n$\n"},
	} {
		if got, err := Prototype(c.owner, c.mode); got != c.want || err != nil {
			t.Errorf("%s %s: %q, %v", c.owner, c.mode, got, err)
		}
	}
	for _, c := range [][2]string{{"a:b", "0755"}, {"0:0", "1777"}, {"0", "0755"}, {"0:0", "9"}} {
		if got, err := Prototype(c[0], c[1]); err == nil {
			t.Errorf("%q: %q", c, got)
		}
	}
}

// TestClassOptions checks that the dry run has the options of the class. These options come before -K and the UUID.
func TestClassOptions(t *testing.T) {
	m := MakeOptions{Mkfs: []string{"-i size=1024", "-m reflink=0"}, Proto: "/tmp/x", Intent: disk.Intent{UUID: uuid}}
	if got := strings.Join(m.making("/dev/vdb", guard{}).args(), " "); got != "-N -i size=1024 -m reflink=0 -p /tmp/x -K -m uuid="+uuid+" /dev/vdb" {
		t.Error(got)
	}
}

// TestForeignOption checks that mkfs.xfs never gets an option that is forbidden for a class, even if the settings
// contain the option.
func TestForeignOption(t *testing.T) {
	for _, option := range []string{"-f", "-m uuid=1", "/dev/vda", "-d name=/dev/vda", "-i size=512 -f"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			s, err := open(t.Context(), w.facts, w.deps(), w)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Prove(t.Context(), "full"); err != nil {
				t.Fatal(err)
			}
			o := w.makeOptions(false)
			o.Mkfs = []string{"-n size=8k", option}
			if err := s.Make(t.Context(), o); err == nil || !strings.Contains(err.Error(), "not an option that a class may give") {
				t.Errorf("%q: %v", option, err)
			}
			for _, line := range w.story {
				if strings.HasPrefix(line, mkfs) || strings.HasPrefix(line, "begin") {
					t.Errorf("%q: %s", option, line)
				}
			}
		})
	}
}
