package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const ownUUID = "0a0b0c0d-1111-4222-8333-abcdefabcdef"

// The function `made` returns a sparse file in which the real mkfs.xfs has made a filesystem.
func made(t *testing.T, size int64, args ...string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
		t.Fatal(err)
	}
	args = append(append([]string{"-q", "-K"}, args...), path)
	if out, err := exec.Command("/usr/sbin/mkfs.xfs", args...).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.xfs %q: %v: %s", args, err, out)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestOwnIsAllThatMkfsWrites runs mkfs.xfs with several sets of options. A scan for the UUID of the filesystem must
// accept every byte that mkfs.xfs writes. A scan for another UUID must report the first byte of the superblock as
// foreign.
func TestOwnIsAllThatMkfsWrites(t *testing.T) {
	for _, options := range []string{"", "-d su=256k,sw=2", "-s size=4096", "-m rmapbt=1,reflink=0"} {
		size := uint64(320 * mib)
		if strings.Contains(options, "su=") {
			size = 640 * mib // with stripe options on 320 MiB, each allocation group would be too small for the log
		}
		f := made(t, int64(size), append([]string{"-m", "uuid=" + ownUUID}, strings.Fields(options)...)...)
		got, err := Scan(t.Context(), Source{Reader: f, Size: size, Own: Own{UUID: madeUUID}}, Full)
		if err != nil || got.clean() || got.Offset != 0 {
			t.Errorf("mkfs.xfs %s, another UUID: %+v, error %v", options, got, err)
		}
		if err := IsNewXFS(f, ownUUID); err != nil {
			t.Errorf("mkfs.xfs %s: %v", options, err)
		}
		if options == "" { // mkfs.xfs -f first writes zeros, which remain if mkfs.xfs is killed
			if _, err := f.WriteAt(make([]byte, 128*kib), 0); err != nil {
				t.Fatal(err)
			}
		}
		got, err = Scan(t.Context(), Source{Reader: f, Size: size, Own: Own{UUID: ownUUID}}, Full)
		if err != nil || !got.clean() || got.Own == 0 || got.Zero() || got.Read != size {
			t.Errorf("mkfs.xfs %s: %+v, error %v", options, got, err)
		}
	}
}

// TestOwnFindsForeignBytes checks that a scan finds one foreign byte anywhere, even directly after our own sectors,
// blocks or log records.
func TestOwnFindsForeignBytes(t *testing.T) {
	const size = 320 * mib
	f := made(t, size, "-m", "uuid="+ownUUID)
	log := int64(-1)
	for at := int64(0); at < size; at += block {
		var b [4]byte
		if _, err := f.ReadAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(b[:], []byte{0xfe, 0xed, 0xba, 0xbe}) {
			log = at
		}
	}
	if log < 0 {
		t.Fatal("no log")
	}
	for name, at := range map[string]int64{
		"a sector after the group's headers": 4 * sector, "the last sector of that block": 8*sector - 1, "between the inodes and the next group": 200 * kib,
		"a block without a header": 24 * kib, "the third sector of the log": log + 2*sector + 4, "the block after": log + block, "the last byte": size - 1, "in the middle": 123456789,
	} {
		var was [1]byte
		if _, err := f.ReadAt(was[:], at); err != nil || was[0] != 0 {
			t.Fatalf("%s: byte %d is %x, error %v", name, at, was, err)
		}
		put(t, f, at, 1)
		got, err := Scan(t.Context(), Source{Reader: f, Size: size, Own: Own{UUID: ownUUID}}, Full)
		if err != nil || got.clean() || got.Offset != uint64(at) || got.Bytes[0] != 1 {
			t.Errorf("%s: %+v, error %v", name, got, err)
		}
		put(t, f, at, 0)
	}
	// An XFS header with another UUID must be foreign. A block without the magic number of an XFS structure must be
	// foreign.
	for name, at := range map[string]int64{"superblock": 32, "free space": sector + 64, "inodes of the group": 2*sector + 296, "free list": 3*sector + 8, "B-tree": block + 32, "inode": 64*kib + 160, "log": log + 304, "magic number": block} {
		var was [1]byte
		if _, err := f.ReadAt(was[:], at); err != nil {
			t.Fatal(err)
		}
		put(t, f, at, was[0]+1)
		if got, err := Scan(t.Context(), Source{Reader: f, Size: size, Own: Own{UUID: ownUUID}}, Full); err != nil || got.clean() {
			t.Errorf("%s: %+v, error %v", name, got, err)
		}
		put(t, f, at, was[0])
	}
}

func TestIsWholeXFS(t *testing.T) {
	const size = 320 * mib
	for _, options := range []string{"-s size=512", "-s size=4096"} {
		f := made(t, size, append([]string{"-m", "uuid=" + ownUUID}, strings.Fields(options)...)...)
		if err := IsWholeXFS(f, ownUUID); err != nil {
			t.Error(err)
		}
		if err := IsWholeXFS(f, madeUUID); err == nil || !strings.Contains(err.Error(), "holds the XFS filesystem "+ownUUID) {
			t.Errorf("another UUID: %v", err)
		}
		// IsWholeXFS must return an error if only one header of a group is lost, because mkfs.xfs writes each of the
		// four headers separately.
		sector := int64(512)
		if strings.HasSuffix(options, "4096") {
			sector = 4096
		}
		for n := range int64(4) {
			is := make([]byte, sector)
			if _, err := f.ReadAt(is, 160*mib+n*sector); err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(make([]byte, sector), 160*mib+n*sector); err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf("byte %d, in the headers of group 2,", 160*mib+n*sector)
			if err := IsWholeXFS(f, ownUUID); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("header %d is lost: %v", n, err)
			}
			if _, err := f.WriteAt(is, 160*mib+n*sector); err != nil {
				t.Fatal(err)
			}
		}
		if err := IsWholeXFS(f, ownUUID); err != nil {
			t.Error(err)
		}
		// IsWholeXFS must accept a free list in use, which may have a block number in its last entry.
		last := 160*mib + 4*sector - 4
		put(t, f, last+3, 7)
		if err := IsWholeXFS(f, ownUUID); err != nil {
			t.Errorf("free list in use: %v", err)
		}
		if got, err := Scan(t.Context(), Source{Reader: f, Size: size, Own: Own{UUID: ownUUID}}, Full); err != nil || got.clean() != (sector == 512) {
			t.Errorf("a free list in use counts as half made: %+v, error %v", got, err)
		}
		put(t, f, last+3, 0xff)
		// IsWholeXFS must accept old data after the headers of a group, because mkfs.xfs writes nothing there.
		for at := range int64(4) {
			if _, err := f.WriteAt([]byte("old"), at*80*mib+4*sector); err != nil {
				t.Fatal(err)
			}
		}
		if err := IsWholeXFS(f, ownUUID); err != nil {
			t.Errorf("old data behind the headers: %v", err)
		}
		// IsWholeXFS must return an error if the headers of one group are zero or have the UUID of another machine's
		// filesystem.
		other := made(t, size, append([]string{"-m", "uuid=" + madeUUID}, strings.Fields(options)...)...)
		group := make([]byte, 64*kib)
		if _, err := other.ReadAt(group, 160*mib); err != nil {
			t.Fatal(err)
		}
		for name, head := range map[string][]byte{"another's": group, "zero": make([]byte, 64*kib)} {
			if _, err := f.WriteAt(head, 160*mib); err != nil {
				t.Fatal(err)
			}
			if err := IsWholeXFS(f, ownUUID); err == nil || !strings.Contains(err.Error(), "byte 167772160, in the headers of group 2,") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := errors.Join(f.Truncate(160*mib), f.Truncate(161*mib)); err != nil {
			t.Fatal(err)
		}
		if err := IsWholeXFS(f, ownUUID); err == nil {
			t.Error("cut, and whole")
		}
	}
	if err := IsWholeXFS(bytes.NewReader(head(t, "xfs-half-made.head")), madeUUID); err == nil || !strings.Contains(err.Error(), "is still running on the disk") {
		t.Errorf("half made: %v", err)
	}
}

// TestIsNewXFS lets another machine overwrite single blocks that mkfs.xfs wrote behind the headers. IsNewXFS must name
// the first byte of each such block, also if the block is zero. IsWholeXFS does not read these blocks.
func TestIsNewXFS(t *testing.T) {
	const size = 320 * mib
	for options, first := range map[string]int64{"": 1, "-s size=4096": 4, "-m rmapbt=1": 1, "-m reflink=0": 1, "-m finobt=0": 1, "-i size=1024": 1} {
		args := strings.Fields(options)
		f := made(t, size, append([]string{"-m", "uuid=" + ownUUID}, args...)...)
		others := made(t, size, append([]string{"-m", "uuid=" + madeUUID}, args...)...)
		if err := IsNewXFS(f, ownUUID); err != nil {
			t.Errorf("mkfs.xfs %s: %v", options, err)
		}
		// The superblock, AGF, AGI and AGFL come first. The roots of the B-trees follow, one block each.
		trees := map[string]int64{"-m rmapbt=1": 6, "-m reflink=0": 4, "-m finobt=0": 4}[options]
		if trees == 0 {
			trees = 5
		}
		wrong := map[int64]string{}
		for group := range int64(4) {
			for n := range trees {
				at := group*80*mib + (first+n)*block
				wrong[at] = fmt.Sprintf("byte %d, in the B-trees of group %d,", at, group)
			}
		}
		inode := int64(512)
		if strings.Contains(options, "-i") {
			inode = 1024
		}
		root := field(t, f, 56, 8) * inode
		for _, n := range []int64{0, 1, 63} {
			wrong[root+n*inode] = fmt.Sprintf("byte %d, in the inodes,", root+n*inode)
		}
		// The lowest sb_agblklog bits of sb_logstart are a block number. The higher bits are the group's number.
		start, bits := field(t, f, 48, 8), field(t, f, 124, 1)
		log := (start>>bits)*80*mib + (start&(1<<bits-1))*block
		wrong[log] = fmt.Sprintf("byte %d, in the log,", log)
		for at, want := range wrong {
			length := int64(block)
			if strings.Contains(want, "inodes") {
				length = inode
			}
			is, theirs := make([]byte, length), make([]byte, length)
			_, err := f.ReadAt(is, at)
			_, err2 := others.ReadAt(theirs, at)
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			for _, b := range [][]byte{theirs, make([]byte, length)} {
				if _, err := f.WriteAt(b, at); err != nil {
					t.Fatal(err)
				}
				if err := IsNewXFS(f, ownUUID); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("mkfs.xfs %s, want %q: %v", options, want, err)
				}
				if err := IsWholeXFS(f, ownUUID); err != nil {
					t.Errorf("mkfs.xfs %s, %s only the headers: %v", options, want, err)
				}
			}
			if _, err := f.WriteAt(is, at); err != nil {
				t.Fatal(err)
			}
		}
		// IsNewXFS must reject an impossible size of the inodes.
		b := make([]byte, 4096)
		if _, err := f.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		binary.BigEndian.PutUint16(b[104:], 511)
		clear(b[224:228])
		size := binary.BigEndian.Uint16(b[102:])
		binary.LittleEndian.PutUint32(b[224:], crc32.Checksum(b[:size], crc32.MakeTable(crc32.Castagnoli)))
		if _, err := f.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		if err := IsNewXFS(f, ownUUID); err == nil || !strings.Contains(err.Error(), "its inodes have 511 bytes") {
			t.Errorf("mkfs.xfs %s, inodes of 511 bytes: %v", options, err)
		}
		if err := IsNewXFS(f, madeUUID); err == nil || !strings.Contains(err.Error(), "holds the XFS filesystem "+ownUUID) {
			t.Errorf("another UUID: %v", err)
		}
	}
}

// field returns the big-endian number of n bytes at the byte offset.
func field(t *testing.T, r io.ReaderAt, at int64, n int) int64 {
	t.Helper()
	b := make([]byte, 8)
	if _, err := r.ReadAt(b[8-n:], at); err != nil {
		t.Fatal(err)
	}
	return int64(binary.BigEndian.Uint64(b))
}

func put(t *testing.T, w io.WriterAt, at int64, c byte) {
	t.Helper()
	if _, err := w.WriteAt([]byte{c}, at); err != nil {
		t.Fatal(err)
	}
}

// FuzzOwner checks that the method `foreign` returns an index inside its input, and never the index of a zero byte. If
// the input does not contain the owner's UUID, each byte other than zero must be foreign.
func FuzzOwner(f *testing.F) {
	f.Add([]byte("XFSB"), uint64(0))
	f.Add(append([]byte{0xfe, 0xed, 0xba, 0xbe, 0, 0, 0, 1, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff}, make([]byte, 600)...), uint64(4096))
	f.Fuzz(func(t *testing.T, b []byte, at uint64) {
		o := newOwner(ownUUID)
		i, own := o.foreign(b, at/align*align)
		if i >= len(b) || i >= 0 && b[i] == 0 || own > uint64(len(b)) {
			t.Errorf("%d, %d of %d", i, own, len(b))
		}
		if !bytes.Contains(b, o.uuid) && i != nonZero(b) {
			t.Errorf("%d without a UUID, the first byte is %d", i, nonZero(b))
		}
	})
}
