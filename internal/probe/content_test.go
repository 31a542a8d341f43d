package probe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
	"hotmount/internal/run"
	"hotmount/internal/run/runtest"
)

const madeUUID = "6f1c2a9e-3b5d-4c7f-8a10-2b3c4d5e6f70"

func head(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReadXFS(t *testing.T) {
	whole, half := head(t, "xfs.head"), head(t, "xfs-half-made.head")
	whole300 := XFSSuper{UUID: madeUUID, Size: 300 * mib, Block: 4096, Group: 75 * mib, Groups: 4, Sector: 512, Log: 64 << 20,
		LogStart: 150*mib + 6*4096, RootInode: 128, InodeSize: 512}
	half300 := whole300
	half300.InProgress, half300.RootInode = true, 1<<64-1
	change := func(b []byte, at int, c byte) []byte {
		b = bytes.Clone(b)
		b[at] = c
		return b
	}
	// A superblock of XFS version 4 has no checksum.
	v4 := func(b []byte) []byte { return change(b, 101, 0xa4) }
	for _, tc := range []struct {
		name string
		b    []byte
		want XFSSuper
		err  string
	}{
		{"whole", whole, whole300, ""},
		{"half made", half, half300, ""},
		{"version 4 has no checksum", change(change(whole, 101, 0xa4), 226, 0), whole300, ""},
		{"zeros", make([]byte, 4096), XFSSuper{}, "no XFS superblock"},
		{"another magic number", change(whole, 0, 'x'), XFSSuper{}, "no XFS superblock"},
		{"another UUID", change(whole, 33, 0), XFSSuper{}, "checksum"},
		{"finished by one flipped bit", change(half, 126, 0), XFSSuper{}, "checksum"},
		{"last byte of the sector", change(whole, 511, 1), XFSSuper{}, "checksum"},
		{"version", change(whole, 101, 0xa6), XFSSuper{}, "its version is 6"},
		{"sector", change(whole, 102, 0x40), XFSSuper{}, "sector"},
		{"block size", change(whole, 4, 1), XFSSuper{}, "blocks of"},
		{"too many blocks", change(whole, 8, 0xff), XFSSuper{}, "blocks of"},
		{"too many groups", v4(change(whole, 88, 0xff)), XFSSuper{}, "groups of"},
		{"no groups", v4(change(whole, 91, 0)), XFSSuper{}, "groups of"},
		{"short", whole[:4095], XFSSuper{}, "cannot read byte 4095"},
	} {
		got, err := ReadXFS(bytes.NewReader(tc.b))
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

func FuzzParseXFS(f *testing.F) {
	f.Add(head(f, "xfs.head"))
	f.Add(head(f, "xfs-half-made.head"))
	f.Add(make([]byte, 4096))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append(b, make([]byte, 4096)...)[:4096]
		s, err := parseXFS(b)
		if err == nil && (len(s.UUID) != 36 || s.Size == 0) {
			t.Errorf("%+v", s)
		}
		if err != nil && s != (XFSSuper{}) {
			t.Errorf("%+v with error %v", s, err)
		}
	})
}

func TestContent(t *testing.T) {
	const uuid = "1a87b826-5e06-442a-902d-df3304da8e48"
	w := func(kind string) Signature { return Signature{Tool: "wipefs", Type: kind, UUID: uuid} }
	b := func(kind, usage string) Signature {
		return Signature{Tool: "blkid", Type: kind, Usage: usage, UUID: uuid, Label: "data"}
	}
	zero := Finding{Plan: Full, Size: 5 * gib, Read: 5 * gib, Places: 1}
	old := Finding{Plan: Full, Size: 5 * gib, Offset: mib, Bytes: []byte{0x45, 0x46}}
	super := &XFSSuper{UUID: uuid, Size: gib}
	half := &XFSSuper{UUID: uuid, Size: gib, InProgress: true}
	for _, tc := range []struct {
		name  string
		sigs  []Signature
		f     Finding
		super *XFSSuper
		want  disk.Content
	}{
		{"blank", nil, zero, nil, disk.Content{Kind: disk.Blank}},
		{"no scan", nil, Finding{}, nil, disk.Content{Kind: disk.Unknown}},
		{"old data", nil, old, nil, disk.Content{Kind: disk.Unknown}},
		{"a superblock nobody names", nil, zero, super, disk.Content{Kind: disk.Unknown}},
		{"wipefs alone", []Signature{w("gpt")}, zero, nil, disk.Content{Kind: disk.Other, Type: "gpt"}},
		{"blkid alone", []Signature{b("ext4", "filesystem")}, zero, nil, disk.Content{Kind: disk.Other, Type: "ext4"}},
		{"blkid knows no word", []Signature{{Tool: "blkid", Type: "unknown"}}, zero, nil, disk.Content{Kind: disk.Other, Type: "unknown"}},

		{"ext4", []Signature{w("ext4"), b("ext4", "filesystem")}, Finding{}, nil, disk.Content{Kind: disk.Filesystem, Type: "ext4", UUID: uuid, Label: "data"}},
		{"xfs", []Signature{w("xfs"), b("xfs", "filesystem")}, Finding{}, super, disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Label: "data"}},
		{"xfs without a sound superblock", []Signature{w("xfs"), b("xfs", "filesystem")}, Finding{}, nil, disk.Content{Kind: disk.Unknown, Type: "xfs"}},
		{"xfs of another UUID", []Signature{w("xfs"), b("xfs", "filesystem")}, Finding{}, &XFSSuper{UUID: madeUUID}, disk.Content{Kind: disk.Unknown, Type: "xfs"}},
		{"half-made xfs", []Signature{w("xfs"), b("xfs", "filesystem")}, Finding{}, half, disk.Content{Kind: disk.HalfMade, Type: "xfs", UUID: uuid}},
		{"half-made xfs that no tool names", nil, Finding{}, half, disk.Content{Kind: disk.HalfMade, Type: "xfs", UUID: uuid}},
		{"half-made xfs and something else", []Signature{w("xfs"), w("gpt"), b("xfs", "filesystem")}, Finding{}, half, disk.Content{Kind: disk.Other, Type: "xfs"}},
		{"half-made xfs without a UUID", nil, old, &XFSSuper{UUID: "00000000-0000-0000-0000-000000000000", InProgress: true}, disk.Content{Kind: disk.Unknown}},
		{"no UUID", []Signature{w("vfat"), {Tool: "blkid", Type: "vfat", Usage: "filesystem", UUID: "AB12-CD34"}}, Finding{}, nil, disk.Content{Kind: disk.Other, Type: "vfat"}},
		{"a UUID in capitals", []Signature{w("ext4"), {Tool: "blkid", Type: "ext4", Usage: "filesystem", UUID: strings.ToUpper(uuid)}}, Finding{}, nil, disk.Content{Kind: disk.Filesystem, Type: "ext4", UUID: uuid}},
		{"two filesystems", []Signature{w("xfs"), w("ext4"), b("xfs", "filesystem")}, Finding{}, super, disk.Content{Kind: disk.Other, Type: "xfs"}},
		{"ambivalent", []Signature{w("xfs"), w("ext4"), b("filesystem:xfs filesystem:ext4", "ambivalent")}, Finding{}, super, disk.Content{Kind: disk.Other, Type: "filesystem:xfs filesystem:ext4"}},
		{"a partition table", []Signature{w("gpt"), w("gpt"), w("PMBR"), b("gpt", "partition table")}, Finding{}, nil, disk.Content{Kind: disk.Other, Type: "gpt"}},
		{"a filesystem and a partition table", []Signature{w("ext4"), b("ext4", "filesystem"), b("dos", "partition table")}, Finding{}, nil, disk.Content{Kind: disk.Other, Type: "ext4"}},
		{"LVM", []Signature{w("LVM2_member"), b("LVM2_member", "raid")}, Finding{}, nil, disk.Content{Kind: disk.Other, Type: "LVM2_member"}},
		{"LUKS", []Signature{w("crypto_LUKS"), b("crypto_LUKS", "crypto")}, Finding{}, nil, disk.Content{Kind: disk.Other, Type: "crypto_LUKS"}},
		{"swap", []Signature{w("swap"), b("swap", "other")}, Finding{}, nil, disk.Content{Kind: disk.Other, Type: "swap"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Content(tc.sigs, tc.f, tc.super, Own{})
			if len(got.Evidence) == 0 {
				t.Error("no evidence")
			}
			got.Evidence, tc.want.Proven = nil, true
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestContentOfOurOwn checks that Content recognises hotmount's own half-made XFS only if nothing else is on the disk.
func TestContentOfOurOwn(t *testing.T) {
	const uuid = "1a87b826-5e06-442a-902d-df3304da8e48"
	named := []Signature{{Tool: "wipefs", Type: "xfs", UUID: uuid}, {Tool: "blkid", Type: "xfs", Usage: "filesystem", UUID: uuid}}
	clean := Finding{Plan: Full, Size: 5 * gib, Read: 5 * gib, Own: 64 * kib}
	zero := Finding{Plan: Full, Size: 5 * gib, Read: 5 * gib}
	old := Finding{Plan: Full, Size: 5 * gib, Own: 64 * kib, Offset: mib, Bytes: []byte{0x45}}
	half, whole := &XFSSuper{UUID: uuid, InProgress: true}, &XFSSuper{UUID: uuid}
	ours := disk.Content{Kind: disk.HalfMade, Type: "xfs", UUID: uuid}
	for _, tc := range []struct {
		name  string
		sigs  []Signature
		f     Finding
		super *XFSSuper
		want  disk.Content
	}{
		{"with its superblock", named, clean, half, ours},
		{"with nothing but its superblock", named, zero, half, ours},
		{"without its superblock", nil, clean, nil, ours},
		{"blank", nil, zero, nil, disk.Content{Kind: disk.Blank}},
		{"something beside it", named, old, half, disk.Content{Kind: disk.Unknown, Type: "xfs"}},
		{"not scanned", named, Finding{}, half, disk.Content{Kind: disk.Unknown, Type: "xfs"}},
		{"something beside what is left of it", nil, old, nil, disk.Content{Kind: disk.Unknown}},
		{"finished, and no tool names it", nil, clean, whole, disk.Content{Kind: disk.Unknown}},
		{"finished", named, Finding{}, whole, disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid}},
	} {
		got := Content(tc.sigs, tc.f, tc.super, Own{UUID: uuid})
		got.Evidence, tc.want.Proven = nil, true
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

func TestLook(t *testing.T) {
	blank := make([]byte, 3*mib)
	whole := append(head(t, "xfs.head"), make([]byte, 3*mib-4096)...)
	// If one bit of the superblock is flipped, blkid from util-linux 2.41 and later does not recognise an XFS.
	flipped := bytes.Clone(whole)
	flipped[511] = 1
	xfsLines := func(s string) string {
		return strings.NewReplacer("1a87b826-5e06-442a-902d-df3304da8e48", madeUUID).Replace(s)
	}
	for _, tc := range []struct {
		name          string
		data          []byte
		size          uint64
		wipefs, blkid runtest.Answer
		want          disk.Content
		err           string
	}{
		{"blank", blank, 3 * mib, runtest.Print(wipefsNothing, 0), runtest.Print("", 2),
			disk.Content{Kind: disk.Blank, Proven: true, Evidence: []string{"wipefs: nothing", "blkid: nothing", "read 3 MiB of 3 MiB, all zero (full)"}}, ""},
		{"xfs", whole, 3 * mib, runtest.Print(xfsLines(wipefsXFS), 0), runtest.Print(xfsLines(blkidXFS), 0),
			disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: madeUUID, Label: `a b="x`, Proven: true, Evidence: []string{
				"wipefs: xfs at byte 0 UUID " + madeUUID, "blkid: xfs (filesystem) UUID " + madeUUID,
				"byte 0: an XFS superblock, UUID " + madeUUID + ", mkfs finished",
			}}, ""},
		{"a flipped bit", flipped, 3 * mib, runtest.Print(wipefsNothing, 0), runtest.Print("", 2),
			disk.Content{Kind: disk.Unknown, Proven: true, Evidence: []string{
				"wipefs: nothing", "blkid: nothing",
				"not blank: found old data at byte 0, as on a recycled volume or a damaged disk",
				"byte 0: 58 46 53 42 00 00 10 00 00 00 00 00 00 01 2c 00",
				"byte 0: cannot use the XFS superblock: its checksum is 225f09ab, computed d0348aa8",
			}}, ""},
		{"unreadable", blank, 4 * mib, runtest.Print(wipefsNothing, 0), runtest.Print("", 2), disk.Content{}, "cannot read byte 3145728"},
		{"named, and yet unreadable", nil, 3 * mib, runtest.Print(wipefsSwap, 0), runtest.Print(blkidSwap, 0), disk.Content{}, "cannot read byte 0"},
		{"no bytes", nil, 4 * mib, runtest.Print(wipefsNothing, 0), runtest.Print("", 2), disk.Content{}, "cannot read byte 0"},
		{"wipefs fails", blank, 3 * mib, runtest.Complain("no", 1), runtest.Print("", 2), disk.Content{}, "cannot understand"},
		{"blkid killed", blank, 3 * mib, runtest.Print(wipefsNothing, 0), runtest.Fail(errors.New("killed")), disk.Content{}, "killed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := runtest.New(t)
			r.On(wipefsLine, tc.wipefs)
			r.On(blkidLine, tc.blkid)
			got, err := Look(t.Context(), r, Source{Reader: bytes.NewReader(tc.data), Node: "/dev/vdb", Size: tc.size}, Full)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The reader `watched` sends the byte offset of each read of a scan to a channel.
type watched struct {
	io.ReaderAt
	read chan int64
}

func (w watched) ReadAt(b []byte, at int64) (int, error) {
	if len(b) > align {
		w.read <- at
	}
	return w.ReaderAt.ReadAt(b, at)
}

// TestLookReadsWhileTheToolsStart checks that the scan runs at the same time as wipefs and blkid, but only on a disk
// that begins with zeros. If wipefs and blkid name content, Look must return that content, whatever the scan has read.
func TestLookReadsWhileTheToolsStart(t *testing.T) {
	whole := append(head(t, "xfs.head"), make([]byte, 3*mib-4096)...)
	half := append(head(t, "xfs-half-made.head"), make([]byte, 3*mib-4096)...)
	blank := make([]byte, 3*mib)
	late := bytes.Clone(blank)
	late[2*mib] = 1
	nothing, swap := runtest.Print(wipefsNothing, 0), runtest.Print(wipefsSwap, 0)
	for _, tc := range []struct {
		name          string
		data          []byte
		wipefs, blkid runtest.Answer
		early         bool
		want          disk.Kind
	}{
		{"blank", blank, nothing, runtest.Print("", 2), true, disk.Blank},
		{"old data", late, nothing, runtest.Print("", 2), true, disk.Unknown},
		{"zeros first, and named", late, swap, runtest.Print(blkidSwap, 0), true, disk.Other},
		{"xfs that is not named", whole, nothing, runtest.Print("", 2), false, disk.Unknown},
		{"half made", half, nothing, runtest.Print("", 2), false, disk.HalfMade},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // synctest fails if a goroutine waits forever
				w := watched{bytes.NewReader(tc.data), make(chan int64, 2*len(tc.data)/chunk)}
				r := runtest.New(t)
				r.On(wipefsLine, tc.wipefs)
				r.On(blkidLine, func(c run.Command) (run.Result, error) {
					if tc.early {
						w.read <- <-w.read // waits until the scan has begun
					} else if synctest.Wait(); len(w.read) > 0 {
						t.Error("the disk was read before the tools had ended")
					}
					return tc.blkid(c)
				})
				source := Source{Reader: w, Node: "/dev/vdb", Size: 3 * mib, Own: Own{Type: disk.XFS, UUID: madeUUID}}
				got, err := Look(t.Context(), r, source, Full)
				if err != nil || got.Kind != tc.want {
					t.Errorf("%+v, %v", got, err)
				}
				if scanned := strings.Contains(strings.Join(got.Evidence, " "), "blank"); scanned && tc.want == disk.Other {
					t.Errorf("a scan is in the evidence although the tools named something: %q", got.Evidence)
				}
				close(w.read) // a later read panics: no goroutine may read after Look has returned
			})
		})
	}
}

// The reader `slow` delays the reads of a scan: the first read takes one second, the second read takes two seconds, and
// so on.
type slow struct{ io.ReaderAt }

func (s slow) ReadAt(b []byte, at int64) (int, error) {
	if len(b) > align {
		time.Sleep(time.Duration(1+at/chunk) * time.Second)
	}
	return s.ReaderAt.ReadAt(b, at)
}

// TestLookEndsTheScanOfWhatIsNamed checks that Look cancels the scan if wipefs and blkid name content. Look must wait
// only for the read that is in progress. The test's Progress function returns only when the scan is cancelled.
func TestLookEndsTheScanOfWhatIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runtest.New(t)
		r.On(wipefsLine, runtest.Print(wipefsSwap, 0))
		r.On(blkidLine, func(c run.Command) (run.Result, error) {
			time.Sleep(1500 * time.Millisecond)
			return runtest.Print(blkidSwap, 0)(c)
		})
		source := Source{
			Reader: slow{bytes.NewReader(make([]byte, 3*mib))}, Node: "/dev/vdb", Size: 3 * mib,
			Progress: func(ctx context.Context, _ Progress) { <-ctx.Done() },
		}
		begun := time.Now()
		if got, err := Look(t.Context(), r, source, Full); err != nil || got.Kind != disk.Other || time.Since(begun) != 2*time.Second {
			t.Errorf("%+v, %v, after %s", got, err, time.Since(begun))
		}
	})
}

// TestLookAtADamagedSuperblock checks that hotmount never accepts a damaged superblock as its own, because mkfs.xfs
// does not write a damaged superblock. For a damaged superblock, Look must return Unknown even if every sector has the
// UUID of our own filesystem.
func TestLookAtADamagedSuperblock(t *testing.T) {
	whole := append(head(t, "xfs.head"), make([]byte, 3*mib-4096)...)
	for want, damage := range map[disk.Kind]func([]byte){
		disk.Unknown:  func(b []byte) { b[511] = 1 },
		disk.HalfMade: func(b []byte) { clear(b[:512]) },
	} {
		data := bytes.Clone(whole)
		damage(data)
		r := runtest.New(t)
		r.On(wipefsLine, runtest.Print(wipefsNothing, 0))
		r.On(blkidLine, runtest.Print("", 2))
		source := Source{Reader: bytes.NewReader(data), Node: "/dev/vdb", Size: 3 * mib, Own: Own{Type: disk.XFS, UUID: madeUUID}}
		if got, err := Look(t.Context(), r, source, Full); err != nil || got.Kind != want {
			t.Errorf("%s: %+v, %v", want, got, err)
		}
	}
}

func TestForeignWordsAreMadeVisible(t *testing.T) {
	c := Content([]Signature{{Tool: "blkid", Type: "x\ny", Usage: "\x1b[2J", UUID: "\u202e"}}, Finding{}, nil, Own{})
	for _, line := range c.Evidence {
		if strings.ContainsAny(line, "\n\x1b\u202e") {
			t.Errorf("%q", line)
		}
	}
}
