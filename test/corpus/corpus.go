// Package corpus makes disk images that are not blank, for tests. An image contains a format that Debian's tools write,
// a damaged format, or bytes that no tool recognises. Each image stands for a user's data, so hotmount must never
// format an image.
package corpus

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

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// Packages are the Debian packages whose tools the method Kind.Make runs. Kind.Make also needs bash, coreutils, gzip,
// tar and xz-utils.
var Packages = []string{
	"bcache-tools", "btrfs-progs", "cryptsetup-bin", "dosfstools", "e2fsprogs", "erofs-utils", "exfatprogs", "f2fs-tools",
	"fdisk", "gdisk", "genisoimage", "gfs2-utils", "hfsutils", "jfsutils", "lvm2", "mount", "nilfs-tools", "ntfs-3g", "ocfs2-tools",
	"parted", "qemu-utils", "reiser4progs", "reiserfsprogs", "sqlite3", "squashfs-tools", "udftools", "util-linux",
	"util-linux-extra", "xfsprogs", "zip",
}

// Size is the size in bytes of each image whose format sets no size of its own.
const Size = 320 << 20

// Kind is one kind of image: a format, intact or damaged.
type Kind struct {
	// Name is the name of the format and of the damage, such as "xfs, first 4 KiB zero".
	Name string
	// Class is the class to which the format belongs.
	Class Class
	// The field `Is` contains the kind of content that hotmount must recognise.
	Is disk.Kind
	// Type is the name that libblkid must report, or "" if the name does not matter.
	Type string
	// Mounts reports whether the filesystem is intact and of a type that hotmount mounts. If Mounts is true, the
	// filesystem contains the files that the function Files returns.
	Mounts bool

	format *format
	damage *damage
}

// Damaged reports whether the format is damaged.
func (k *Kind) Damaged() bool { return k.damage != nil }

// Class is the name of a group of formats.
type Class string

// The constants are the classes of formats.
const (
	Filesystem Class = "filesystem"
	Swap       Class = "swap"
	Raid       Class = "RAID member"
	Table      Class = "partition table"
	Volumes    Class = "volume manager"
	Crypto     Class = "crypto"
	Cache      Class = "cache or replica"
	File       Class = "plain file"
	Bytes      Class = "bytes"
	Large      Class = "too large to be read in full"
)

// Kinds returns all kinds of images, always in the same order.
func Kinds() []Kind {
	var all []Kind
	for i := range formats {
		f := &formats[i]
		all = append(all, Kind{
			Name: f.name, Class: f.class, Is: f.kind, Type: f.blkid, format: f,
			Mounts: f.mounts,
		})
	}
	for i := range damages {
		d := &damages[i]
		for _, o := range d.of {
			f := &formats[slices.IndexFunc(formats, func(f format) bool { return f.name == o.format })]
			all = append(all, Kind{Name: f.name + ", " + d.name, Class: f.class, Is: o.kind, format: f, damage: d})
		}
	}
	return all
}

// Make makes an image of this kind at the path. The path must not exist yet.
func (k *Kind) Make(ctx context.Context, path string) error {
	if err := k.make(ctx, path); err != nil {
		return fmt.Errorf("cannot make an image of %q: %w", k.Name, err)
	}
	return nil
}

func (k *Kind) make(ctx context.Context, path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size := k.format.size
	if size == 0 {
		size = Size
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	if k.format.script != "" {
		if err := script(ctx, k.format.script, path); err != nil {
			return err
		}
	}
	im := image{f: f, size: size}
	if k.format.write != nil {
		k.format.write(&im)
	}
	if k.damage != nil {
		k.damage.do(&im, k.format)
	}
	if im.err != nil {
		return im.err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != size {
		return fmt.Errorf("it has %d bytes instead of %d", info.Size(), size)
	}
	return nil
}

// The constant `prelude` contains shell functions for the scripts that make formats. In the scripts, $d is the path of
// the image.
const prelude = `set -eu
export LC_ALL=C.UTF-8 MKE2FS_CONFIG=/dev/null
tmp=$(mktemp -d "$d.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
# put FILE: writes it from the first byte of the disk on.
put() { dd if="$1" of="$d" bs=1M conv=notrunc status=none; }
# files: a directory with the files that a filesystem is made with; proto: the same for mkfs.xfs -p.
files() { mkdir -p "$tmp/files/sub"; seq 1 20000 >"$tmp/files/numbers"; echo hotmount >"$tmp/files/sub/name"; echo "$tmp/files"; }
proto() {
	f=$(files)
	printf '/dev/null\n0 0\nd--755 0 0\nnumbers ---644 0 0 %s\nsub d--755 0 0\nname ---644 0 0 %s\n$\n$\n' "$f/numbers" "$f/sub/name" >"$tmp/proto"
	echo "$tmp/proto"
}
ext4=has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize,sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
`

// Files returns the files that are in every filesystem whose Kind.Mounts is true. The result maps the path of each file
// to the SHA-256 digest of its content.
func Files() map[string]string {
	var numbers []byte
	for i := 1; i <= 20000; i++ {
		numbers = fmt.Appendln(numbers, i)
	}
	return map[string]string{
		"numbers":  fmt.Sprintf("%x", sha256.Sum256(numbers)),
		"sub/name": fmt.Sprintf("%x", sha256.Sum256([]byte("hotmount\n"))),
	}
}

func script(ctx context.Context, text, image string) error {
	c := exec.CommandContext(ctx, "/bin/bash", "-c", prelude+text)
	c.Env = []string{"d=" + image, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + filepath.Dir(image), "TMPDIR=" + filepath.Dir(image)}
	out, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", text, err, bytes.TrimSpace(out))
	}
	return nil
}

// image is a disk image that is being written. The field `err` is the first error of a read or a write of the image.
type image struct {
	f    *os.File
	size int64
	err  error
}

func (im *image) put(at int64, b []byte) {
	if im.err == nil {
		_, im.err = im.f.WriteAt(b, at)
	}
}

func (im *image) get(at int64, n int) []byte {
	b := make([]byte, n)
	if im.err == nil {
		_, im.err = im.f.ReadAt(b, at)
	}
	return b
}

// The method `zero` sets all bytes between two offsets to 0.
func (im *image) zero(at, end int64) {
	if im.err == nil {
		im.err = unix.Fallocate(int(im.f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, min(end, im.size)-at)
	}
}

// The method `flip` inverts the lowest bit of the byte at the given offset.
func (im *image) flip(at int64) {
	b := im.get(at, 1)
	im.put(at, []byte{b[0] ^ 1})
}

// ErrBlank reports that all bytes of an image are zero.
var ErrBlank = errors.New("every byte is zero")

// Digest returns a digest of an image's size, and of the offset and content of each block that is not zero. Digest does
// not read holes in the file. Digest returns the error ErrBlank if every block is zero.
func Digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	const block = 4096
	var (
		zeros [block]byte
		found bool
		buf   = make([]byte, 1<<20)
		h     = sha256.New()
	)
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	number := func(n int64) {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], uint64(n))
		h.Write(b[:])
	}
	number(size)
	for at := int64(0); at < size; {
		if at, err = f.Seek(at, unix.SEEK_DATA); errors.Is(err, unix.ENXIO) {
			break
		} else if err != nil {
			return "", err
		}
		at = at / block * block
		hole, err := f.Seek(at, unix.SEEK_HOLE)
		if err != nil {
			return "", err
		}
		for at < hole {
			n, err := f.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
			if err != nil && !errors.Is(err, io.EOF) {
				return "", err
			}
			for i := 0; i < n; i += block {
				if b := buf[i:min(i+block, n)]; !bytes.Equal(b, zeros[:len(b)]) {
					found = true
					number(at + int64(i))
					h.Write(b)
				}
			}
			at += int64(n)
		}
	}
	if !found {
		return "", ErrBlank
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
