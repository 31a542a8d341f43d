// Package grow grows a mounted or unmounted filesystem to the size of its disk. The package runs xfs_growfs or
// resize2fs, and verifies, before and after the growth, that the disk is the intended disk.
package grow

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
	"hotmount/internal/probe"
	"hotmount/internal/run"
)

const (
	xfsGrowfs = "/usr/sbin/xfs_growfs"
	resize2fs = "/usr/sbin/resize2fs"
	mount     = "/usr/bin/mount"
	umount    = "/usr/bin/umount"
)

// Time is the time limit for an online growth, and mountTime is the limit for a mount, which may replay the log. On a
// responsive disk, a growth and a mount take far less time than these limits.
const (
	Time      = 10 * time.Minute
	mountTime = 15 * time.Minute
)

// ErrShrunk reports that the filesystem is larger than the disk. ErrUnmountable reports that the filesystem cannot be
// mounted. ErrRecorded reports that the superblock of the ext4 filesystem records errors. The kernel does not grow such
// a filesystem (ext4_resize_begin in fs/ext4/resize.c).
var (
	ErrShrunk      = errors.New("the filesystem is larger than its disk")
	ErrUnmountable = errors.New("the filesystem cannot be mounted")
	ErrRecorded    = errors.New("the ext4 filesystem has recorded errors, and the kernel does not grow such a filesystem")
)

// Mounted measures the disk's XFS or ext4 filesystem that has the given UUID and is mounted at the given path. Mounted
// grows the filesystem if the filesystem can use more of the disk.
//
// Mounted returns the geometry of the filesystem before and after the growth. The two geometries are equal if the disk
// has no room for growth, or if the filesystem must not grow (Facts.Fixed). If an XFS with another UUID is mounted at
// the path, Mounted changes nothing, and returns zero geometries and an error. The error wraps disk.ErrGone if the disk
// has been replaced, and ErrShrunk if the disk is smaller than the filesystem. The error wraps ErrRecorded if the
// superblock of the ext4 filesystem records errors.
func Mounted(ctx context.Context, r run.Runner, f *disk.Facts, path, fstype, uuid string) (before, after disk.Geometry, err error) {
	before, after, err = mounted(ctx, r, f, path, fstype, uuid)
	if err != nil {
		err = fmt.Errorf("cannot grow the filesystem of %s: %w", f.ID, err)
	}
	return before, after, err
}

// Unmounted grows a filesystem that is not mounted, and returns the same results as Mounted. Unmounted reads the
// geometry of the unmounted filesystem from the superblock. If the filesystem can use more of the disk, Unmounted
// mounts the filesystem at dir with the given mount options, and calls Mounted. The caller must have its own mount
// namespace, so that nobody else sees the mount and a crash leaves no mount. The error of Unmounted can wrap the same
// errors as the error of Mounted, or ErrUnmountable.
func Unmounted(ctx context.Context, r run.Runner, f *disk.Facts, dir, fstype, uuid string, options []string) (before, after disk.Geometry, err error) {
	// While the block device is open, the kernel gives the device's name and number to no other device.
	device, err := os.OpenFile(f.Node(), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return before, after, f.Sandboxed("hotmount-stage", err)
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	if err := check(device, f); err != nil {
		return before, after, fmt.Errorf("cannot grow the filesystem of %s: %w", f.ID, err)
	}
	if before, err = measure(device, fstype); err != nil {
		return before, after, fmt.Errorf("%w: %w", ErrUnmountable, err)
	}
	if err := checkUUID(&before, uuid); err != nil {
		return disk.Geometry{}, disk.Geometry{}, fmt.Errorf("cannot grow the filesystem of %s: %w", f.ID, err)
	}
	if room, err := hasRoom(before, f); !room {
		return before, before, err
	}
	c := run.Command{Path: mount, Args: []string{"-t", fstype, "-o", strings.Join(options, ","), f.Node(), dir}, Timeout: mountTime}
	if err := succeed(ctx, r, c); err != nil {
		return before, after, fmt.Errorf("%w: %w", ErrUnmountable, err)
	}
	defer func() {
		err = errors.Join(err, succeed(context.WithoutCancel(ctx), r, run.Command{Path: umount, Args: []string{dir}, Timeout: mountTime}))
	}()
	return Mounted(ctx, r, f, dir, fstype, uuid)
}

// checkUUID returns an error if the measured filesystem has another UUID. The content of the disk may have changed
// since udev read the disk. checkUUID returns nil if the UUID of the measured filesystem is unknown.
func checkUUID(g *disk.Geometry, uuid string) error {
	if g.UUID != "" && g.UUID != uuid {
		return fmt.Errorf("the disk holds the XFS filesystem %s, not %s", g.UUID, uuid)
	}
	return nil
}

// succeed runs a command and returns an error unless its exit code is 0.
func succeed(ctx context.Context, r run.Runner, c run.Command) error {
	res, err := r.Run(ctx, c)
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("%s: exit code %d: %s", c, res.ExitCode, disk.Output(res.Stderr))
	}
	return err
}

func mounted(ctx context.Context, r run.Runner, f *disk.Facts, path, fstype, uuid string) (before, after disk.Geometry, err error) {
	device, err := os.OpenFile(f.Node(), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return before, after, f.Sandboxed("hotmount-grow", err)
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	// While the directory is open, the filesystem stays mounted at the given path.
	dir, err := mounts.OpenMount(path, f.Dev)
	if err != nil {
		return before, after, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if err := check(device, f); err != nil {
		return before, after, err
	}
	measure := func() (disk.Geometry, error) {
		if fstype == "xfs" {
			return mounts.XFSGeometry(path, f.Dev)
		}
		return ext4(device)
	}
	if before, err = measure(); err == nil {
		err = checkUUID(&before, uuid)
	}
	if err != nil {
		return disk.Geometry{}, disk.Geometry{}, err
	}
	after = before
	if room, err := hasRoom(before, f); !room || f.Fixed() {
		return before, after, err
	}
	c := run.Command{Path: xfsGrowfs, Args: []string{"-d", path}, Timeout: Time}
	if fstype != "xfs" {
		if err := errorsRecorded(device); err != nil {
			return before, after, err
		}
		c.Path, c.Args = resize2fs, []string{f.Node()}
	}
	if err = succeed(ctx, r, c); err == nil {
		err = check(device, f)
	}
	now, measureErr := measure()
	if measureErr == nil {
		after = now
	}
	return before, after, errors.Join(err, measureErr)
}

// hasRoom reports whether the filesystem can use more of the disk. The error wraps ErrShrunk if the filesystem is
// larger than the disk.
func hasRoom(g disk.Geometry, f *disk.Facts) (bool, error) {
	if g.Size > f.Size {
		return false, fmt.Errorf("%w: %s of %s", ErrShrunk, disk.ExactSize(g.Size), disk.ExactSize(f.Size))
	}
	return g.Usable(f.Size) > g.Size, nil
}

// check returns an error if the open device is not the disk with the disk sequence number in f. The function `check` also
// returns an error if another device now has the disk's name. The function ignores the size, because the next look at
// the disk notices a changed size.
func check(device *os.File, f *disk.Facts) error {
	var open, named unix.Stat_t
	if err := unix.Fstat(int(device.Fd()), &open); err != nil {
		return err
	}
	if err := unix.Lstat(f.Node(), &named); err != nil {
		return errors.Join(disk.ErrGone, err)
	}
	if open.Mode&unix.S_IFMT != unix.S_IFBLK || open.Rdev != named.Rdev || (disk.Dev{Major: unix.Major(open.Rdev), Minor: unix.Minor(open.Rdev)}) != f.Dev {
		return fmt.Errorf("%s is another device now: %w", f.Node(), disk.ErrGone)
	}
	var seq uint64
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, device.Fd(), unix.BLKGETDISKSEQ, uintptr(unsafe.Pointer(&seq))); errno != 0 {
		return fmt.Errorf("BLKGETDISKSEQ: %w", errno)
	}
	if seq != f.Seq {
		return fmt.Errorf("%s now has disk sequence number %d: %w", f.Node(), seq, disk.ErrGone)
	}
	return nil
}

// Measure returns the geometry of the unmounted XFS or ext4 filesystem on the device, according to its superblock. For
// other filesystem types, Measure returns the zero geometry.
func Measure(node, fstype string) (g disk.Geometry, err error) {
	device, err := os.OpenFile(node, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	return measure(device, fstype)
}

func measure(r io.ReaderAt, fstype string) (disk.Geometry, error) {
	switch fstype {
	case disk.XFS:
		super, err := probe.ReadXFS(r)
		return disk.Geometry{Size: super.Size, Block: super.Block, Group: super.Group, UUID: super.UUID}, err
	case disk.Ext4:
		return ext4(r)
	}
	return disk.Geometry{}, nil
}

// errorsRecorded returns ErrRecorded if the superblock of the ext4 filesystem records errors.
func errorsRecorded(r io.ReaderAt) error {
	const state, withErrors = 1024 + 0x3a, 2 // s_state, EXT4_ERROR_FS
	var b [2]byte
	if _, err := r.ReadAt(b[:], state); err != nil {
		return err
	}
	if binary.LittleEndian.Uint16(b[:])&withErrors != 0 {
		return ErrRecorded
	}
	return nil
}

// ext4 returns the geometry of the ext4 filesystem on the disk, according to its superblock.
func ext4(r io.ReaderAt) (disk.Geometry, error) {
	// An ext4 superblock begins at byte 1024 and has 1024 bytes (Linux, Documentation/filesystems/ext4/super.rst). A
	// read through the page cache returns the current superblock of the mounted filesystem.
	var b [1024]byte
	if _, err := r.ReadAt(b[:], 1024); err != nil {
		return disk.Geometry{}, err
	}
	const (
		magic        = 0xef53 // s_magic
		incompat64   = 0x80   // s_feature_incompat: INCOMPAT_64BIT
		largestShift = 6      // s_log_block_size: 64 KiB
	)
	le := binary.LittleEndian
	shift := le.Uint32(b[0x18:])
	if le.Uint16(b[0x38:]) != magic || shift > largestShift {
		return disk.Geometry{}, errors.New("the disk has no ext4 superblock")
	}
	blocks := uint64(le.Uint32(b[0x04:]))
	if le.Uint32(b[0x60:])&incompat64 != 0 {
		blocks |= uint64(le.Uint32(b[0x150:])) << 32
	}
	block := uint64(1024) << shift
	if blocks == 0 || blocks > (1<<63-1)/block {
		return disk.Geometry{}, fmt.Errorf("the superblock states %d blocks of %d bytes", blocks, block)
	}
	return disk.Geometry{Size: blocks * block, Block: block}, nil
}
