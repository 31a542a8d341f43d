package grow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"hotmount/internal/disk"
)

func TestExt4(t *testing.T) {
	for _, tt := range []struct {
		size, block uint64
		args        []string
	}{
		{64 << 20, 4096, []string{"-b", "4096"}},
		{64 << 20, 1024, []string{"-b", "1024"}},
		{64 << 20, 4096, []string{"-b", "4096", "-O", "^64bit"}},
	} {
		image := filepath.Join(t.TempDir(), "image")
		if err := os.WriteFile(image, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(image, int64(tt.size)); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("mkfs.ext4", append(tt.args, "-q", "-F", image)...).CombinedOutput(); err != nil {
			t.Fatalf("mkfs.ext4: %v: %s", err, out)
		}
		f, err := os.Open(image)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if g, err := ext4(f); err != nil || g != (disk.Geometry{Size: tt.size, Block: tt.block}) {
			t.Errorf("%v: %+v, %v", tt.args, g, err)
		}
		if g, err := Measure(image, "ext4"); err != nil || g != (disk.Geometry{Size: tt.size, Block: tt.block}) {
			t.Errorf("%v: measured %+v, %v", tt.args, g, err)
		}
		if _, err := Measure(image, "xfs"); err == nil {
			t.Error("an ext4 is read as an XFS")
		}
	}
}

// superblock returns a superblock with only the fields that the function ext4 reads.
func superblock(low, high, incompat, shift uint32, magic uint16) *bytes.Reader {
	b := make([]byte, 2048)
	le := binary.LittleEndian
	le.PutUint32(b[1024+0x04:], low)
	le.PutUint32(b[1024+0x18:], shift)
	le.PutUint16(b[1024+0x38:], magic)
	le.PutUint32(b[1024+0x60:], incompat)
	le.PutUint32(b[1024+0x150:], high)
	return bytes.NewReader(b)
}

func TestExt4Blocks(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    *bytes.Reader
		size uint64 // the expected size in bytes, 0 for an error
	}{
		{"64 bits", superblock(5, 1, 0x80, 2, 0xef53), (1<<32 + 5) * 4096},
		{"32 bits, with something where the rest would be", superblock(5, 1, 0, 2, 0xef53), 5 * 4096},
		{"no magic number", superblock(5, 0, 0, 2, 0xef54), 0},
		{"blocks of 128 KiB", superblock(5, 0, 0, 7, 0xef53), 0},
		{"no blocks", superblock(0, 0, 0, 2, 0xef53), 0},
		{"more than a disk can have", superblock(5, 1<<31, 0x80, 2, 0xef53), 0},
		{"too short", bytes.NewReader(make([]byte, 1500)), 0},
	} {
		g, err := ext4(tt.r)
		if g.Size != tt.size || (err != nil) != (tt.size == 0) {
			t.Errorf("%s: %+v, %v", tt.name, g, err)
		}
	}
}

// TestErrorsRecorded checks that an ext4 filesystem with EXT4_ERROR_FS in s_state is refused, because the kernel does
// not grow such a filesystem.
func TestErrorsRecorded(t *testing.T) {
	for state, want := range map[uint16]error{0: nil, 1: nil, 2: ErrRecorded, 3: ErrRecorded, 4: nil} {
		b := make([]byte, 2048)
		binary.LittleEndian.PutUint16(b[1024+0x3a:], state)
		if err := errorsRecorded(bytes.NewReader(b)); !errors.Is(err, want) {
			t.Errorf("state %d: %v", state, err)
		}
	}
	if err := errorsRecorded(bytes.NewReader(nil)); err == nil {
		t.Error("no error without a superblock")
	}
}

// FuzzExt4 checks that, for any bytes, the function ext4 returns either an error or a possible size of a disk.
func FuzzExt4(f *testing.F) {
	sound := make([]byte, 2048)
	copy(sound[1024+0x04:], []byte{0, 0, 4, 0})
	copy(sound[1024+0x18:], []byte{2})
	copy(sound[1024+0x38:], []byte{0x53, 0xef})
	f.Add(sound)
	f.Add(sound[:2047])
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := ext4(bytes.NewReader(b))
		if err == nil && (g.Block < 1024 || g.Block > 64<<10 || g.Size < g.Block || g.Size > 1<<63-1 || g.Size%g.Block != 0) {
			t.Errorf("%d bytes in blocks of %d", g.Size, g.Block)
		}
	})
}
