package probe

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hotmount/internal/disk"
)

// madeExt4 returns a sparse file in which the real mkfs.ext4 has made a filesystem. The parameter `when` is the creation
// time, and args are further arguments of mkfs.ext4.
func madeExt4(t *testing.T, size int64, uuid, when string, args ...string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
		t.Fatal(err)
	}
	args = append(append([]string{"-q", "-b", "4096", "-O", "metadata_csum"}, args...),
		"-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1,hash_seed="+uuid, "-U", uuid, path)
	c := exec.Command("/usr/sbin/mkfs.ext4", args...)
	c.Env = []string{"E2FSPROGS_FAKE_TIME=" + when}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4 %q: %v: %s", args, err, out)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

const when = "1795000000"

func ownExt4(like io.ReaderAt) Own {
	return Own{Type: disk.Ext4, UUID: ownUUID, Like: func(context.Context) (io.ReaderAt, error) { return like, nil }}
}

func TestIsWholeExt4(t *testing.T) {
	const size = 1 << 30
	f := madeExt4(t, size, ownUUID, when)
	if err := IsWholeExt4(f, ownUUID); err != nil {
		t.Error(err)
	}
	if err := IsWholeExt4(f, madeUUID); err == nil || !strings.Contains(err.Error(), "holds the ext4 filesystem "+ownUUID) {
		t.Errorf("another UUID: %v", err)
	}
	other := madeExt4(t, size, madeUUID, when)
	for name, tc := range map[string]struct {
		at, n int64
		want  string
	}{
		"the copy of group 3":    {3 * 32768 * block, superSize, "at byte 402653184 there is no copy"},
		"the group descriptors":  {block, block, "the descriptor of group 0 does not belong to"},
		"the last descriptor":    {block + 7*64, 64, "the descriptor of group 7 does not belong to"},
		"the primary superblock": {superSize, superSize, "holds the ext4 filesystem " + madeUUID},
	} {
		was, is := make([]byte, tc.n), make([]byte, tc.n)
		if err := errors.Join(read(f, was, tc.at), read(other, is, tc.at)); err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{is, make([]byte, tc.n)} {
			if _, err := f.WriteAt(b, tc.at); err != nil {
				t.Fatal(err)
			}
			if err := IsWholeExt4(f, ownUUID); err == nil || bytes.Equal(b, is) && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := f.WriteAt(was, tc.at); err != nil {
			t.Fatal(err)
		}
	}
	if err := IsWholeExt4(f, ownUUID); err != nil {
		t.Error(err)
	}
	// If s_state is 0, IsWholeExt4 must return an error, because mkfs.ext4 or the kernel may still write to the
	// filesystem.
	b := make([]byte, superSize)
	if err := read(f, b, superSize); err != nil {
		t.Fatal(err)
	}
	b[0x3a] = 0
	binary.LittleEndian.PutUint32(b[0x3fc:], ext4Sum(^uint32(0), b[:0x3fc]))
	if _, err := f.WriteAt(b, superSize); err != nil {
		t.Fatal(err)
	}
	if err := IsWholeExt4(f, ownUUID); err == nil || !strings.Contains(err.Error(), "is still running on the disk") {
		t.Errorf("not finished: %v", err)
	}
}

// TestExt4Root checks that Ext4Root returns the mode of a root directory that mkfs.ext4 made. If the mode was changed
// later, Ext4Root must return the new mode. Ext4Root must also report whether the filesystem was mounted. Ext4Root must
// return an error for a damaged inode or another UUID.
func TestExt4Root(t *testing.T) {
	const size = 1 << 30
	debugfs := func(f *os.File, request string) {
		t.Helper()
		if out, err := exec.Command("/usr/sbin/debugfs", "-w", "-R", request, f.Name()).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", request, err, out)
		}
	}
	for request, want := range map[string]struct {
		mode uint16
		used bool
		err  string
	}{
		"stats -h":                         {mode: 0o755},
		"set_inode_field <2> mode 042770":  {mode: 0o2770},
		"set_inode_field <1> mode 042770":  {mode: 0o755},
		"set_super_value mtime now":        {mode: 0o755, used: true},
		"set_super_value mnt_count 1":      {mode: 0o755, used: true},
		"set_inode_field <2> mode 0100644": {err: "its mode (0100644) or its checksum is wrong"},
		"set_super_value uuid " + madeUUID: {err: "the disk holds the ext4 filesystem " + madeUUID},
	} {
		f := madeExt4(t, size, ownUUID, when)
		debugfs(f, request)
		mode, used, err := Ext4Root(f, ownUUID)
		if mode != want.mode || used != want.used || (err == nil) != (want.err == "") || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%s: mode %#o, used %v, error %v", request, mode, used, err)
		}
	}
	// An inode of 4096 bytes fills a block, so the inode of the root directory is in the second block.
	large := madeExt4(t, size, ownUUID, when, "-I", "4096")
	debugfs(large, "set_inode_field <2> mode 042770")
	if mode, _, err := Ext4Root(large, ownUUID); mode != 0o2770 || err != nil {
		t.Errorf("large inodes: mode %#o, error %v", mode, err)
	}
	f := madeExt4(t, size, ownUUID, when)
	super, err := readExt4(f)
	if err != nil {
		t.Fatal(err)
	}
	at, err := super.inodes(f, make([]byte, block))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0x12}, int64(at)+int64(super.inode)+8); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Ext4Root(f, ownUUID); err == nil || !strings.Contains(err.Error(), "its checksum is wrong") {
		t.Errorf("a damaged inode: %v", err)
	}
}

func read(r io.ReaderAt, b []byte, at int64) error {
	_, err := r.ReadAt(b, at)
	return err
}

// TestOwnExt4 checks that a scan accepts the bytes that mkfs.ext4 writes with our UUID, options and time. The scan must
// also accept zeros in place of these bytes. Any other byte must be foreign. A filesystem with another UUID or other
// options must be foreign, too.
func TestOwnExt4(t *testing.T) {
	const size = 1 << 30
	like := madeExt4(t, size, ownUUID, when, "-m", "0")
	scan := func(f *os.File) (Finding, error) {
		return Scan(t.Context(), Source{Reader: f, Size: size, Own: ownExt4(like)}, Full)
	}
	f := madeExt4(t, size, ownUUID, when, "-m", "0")
	got, err := scan(f)
	if err != nil || !got.clean() || got.Own == 0 || got.Zero() || got.Read != size {
		t.Errorf("%+v, error %v", got, err)
	}
	// If mkfs.ext4 is killed before its last write, the sectors in each of the listed gaps may be zero.
	for _, gap := range [][2]int64{{0, block}, {block + 3*sector, sector}, {3 * 32768 * block, sector}} {
		if _, err := f.WriteAt(make([]byte, gap[1]), gap[0]); err != nil {
			t.Fatal(err)
		}
	}
	if got, err = scan(f); err != nil || !got.clean() || got.Own == 0 {
		t.Errorf("in part: %+v, error %v", got, err)
	}
	c := Content(nil, got, nil, ownExt4(like))
	if c.Kind != "half-made" || c.Type != "ext4" || c.UUID != ownUUID {
		t.Errorf("in part: %+v", c)
	}
	o, err := newExt4Owner(t.Context(), ownExt4(like))
	if err != nil {
		t.Fatal(err)
	}
	inodes := int64(o.inodes.start)
	for name, at := range map[string]int64{
		"the boot sector": 100, "the descriptors": block + 64, "a bitmap": inodes - 8*block, "the root directory's inode": inodes + 256 + 8, "an inode that is not used": inodes + 100*256,
		"the last byte": size - 1, "in the middle": 123456789, "the journal": size / 2, "the copy of a superblock": 3*32768*block + sector + 1,
	} {
		var was [1]byte
		if _, err := f.ReadAt(was[:], at); err != nil {
			t.Fatal(err)
		}
		put(t, f, at, was[0]^0x40)
		if got, err := scan(f); err != nil || got.clean() || got.Offset/sector != uint64(at)/sector {
			t.Errorf("%s: %+v, error %v", name, got, err)
		}
		put(t, f, at, was[0])
	}
	for name, other := range map[string]*os.File{
		"another UUID": madeExt4(t, size, madeUUID, when, "-m", "0"), "other options": madeExt4(t, size, ownUUID, when, "-N", "1024"),
	} {
		if got, err := scan(other); err != nil || got.clean() {
			t.Errorf("%s: %+v, error %v", name, got, err)
		}
	}
}

// TestOwnExt4Inode checks that hotmount recognises an inode of its own mkfs.ext4 by the UUID, even if the times in the
// inode differ. The inode must have the right checksum, which covers the UUID and the number of the inode.
func TestOwnExt4Inode(t *testing.T) {
	const size = 1 << 30
	like, later := madeExt4(t, size, ownUUID, when), madeExt4(t, size, ownUUID, "1795000099")
	other := madeExt4(t, size, madeUUID, when)
	o, err := newExt4Owner(t.Context(), ownExt4(like))
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, block)
	for _, f := range []struct {
		file *os.File
		own  bool
	}{{later, true}, {other, false}} {
		if err := read(f.file, b, int64(o.inodes.start)); err != nil {
			t.Fatal(err)
		}
		if i, _ := o.foreign(b, o.inodes.start); (i < 0) != f.own {
			t.Errorf("byte %d is foreign, own: %v", i, f.own)
		}
	}
	if err := read(later, b, int64(o.inodes.start)); err != nil {
		t.Fatal(err)
	}
	if i, _ := o.foreign(b, o.inodes.start+block); i < 0 {
		t.Error("inodes with another number are taken as ours")
	}
	if i, _ := o.foreign(b, o.inodes.end); i < 0 {
		t.Error("inodes beyond their table are taken as ours")
	}
}

func TestOwnExt4WithoutAFile(t *testing.T) {
	own := ownExt4(nil)
	own.Like = func(context.Context) (io.ReaderAt, error) { return nil, errors.New("no space left") }
	if _, err := Scan(t.Context(), Source{Reader: zeroReader{}, Size: mib, Own: own}, Full); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("error %v", err)
	}
	if _, err := Scan(t.Context(), Source{Reader: zeroReader{}, Size: mib, Own: ownExt4(zeroReader{})}, Full); err == nil || !strings.Contains(err.Error(), "cannot tell what mkfs.ext4 writes") {
		t.Errorf("error %v", err)
	}
}

type zeroReader struct{}

func (zeroReader) ReadAt(b []byte, _ int64) (int, error) { clear(b); return len(b), nil }

// FuzzParseExt4 checks that no superblock makes IsWholeExt4 panic or return nil. No superblock may make Ext4Root panic.
func FuzzParseExt4(f *testing.F) {
	f.Add(make([]byte, superSize))
	// This superblock has blocks and inodes of 4096 bytes.
	large := make([]byte, superSize)
	for at, field := range map[int]uint32{0x04: 8, 0x18: 2, 0x20: 8, 0x28: 8, 0x58: block, 0x64: csum | sparseSuper} {
		binary.LittleEndian.PutUint32(large[at:], field)
	}
	f.Add(large)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < superSize {
			return
		}
		b = bytes.Clone(b)
		binary.LittleEndian.PutUint16(b[0x38:], superMagic)
		binary.LittleEndian.PutUint32(b[0x3fc:], ext4Sum(^uint32(0), b[:0x3fc]))
		image := append(append(make([]byte, superSize), b...), make([]byte, block)...)
		if err := IsWholeExt4(bytes.NewReader(image), ownUUID); err == nil {
			t.Error("whole")
		}
		if super, err := parseExt4(b); err == nil {
			_, _, _ = Ext4Root(bytes.NewReader(append(image, make([]byte, 2*block)...)), super.uuid)
		}
	})
}
