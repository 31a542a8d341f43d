// Package grow has a filesystem take the whole of its disk, where it is mounted or
// before it is mounted anywhere. Only xfs_growfs and resize2fs write; this package
// makes sure that it is the disk that was meant, before and after.
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

// Time is far more than an online growth needs on a disk that answers, mountTime
// than the recovery of a log.
const (
	Time      = 10 * time.Minute
	mountTime = 15 * time.Minute
)

// ErrShrunk reports that the filesystem takes more than the disk has, ErrUnmountable
// that the filesystem cannot be mounted.
var (
	ErrShrunk      = errors.New("the filesystem is larger than its disk")
	ErrUnmountable = errors.New("the filesystem cannot be mounted")
)

// Mounted measures the filesystem of that type, XFS or ext4, and UUID that is mounted from
// f at the path, has it grow if it can take more of the disk, and gives its
// geometry before and after. Both are the same if nothing could be won, and zero if it is another
// XFS, which is not touched. The error
// wraps disk.ErrGone if the disk is another one now, ErrShrunk if it is too small.
func Mounted(ctx context.Context, r run.Runner, f *disk.Facts, path, fstype, uuid string) (before, after disk.Geometry, err error) {
	before, after, err = mounted(ctx, r, f, path, fstype, uuid)
	if err != nil {
		err = fmt.Errorf("cannot grow the filesystem of %s: %w", f.ID, err)
	}
	return before, after, err
}

// Unmounted does the same for a filesystem that is not mounted, by its superblock and,
// if it can take more, at the directory, where it is mounted with those options
// meanwhile. Nobody but the caller may see
// it there: the caller has a mount namespace of its own, which also ends what a
// crash leaves. The error wraps ErrUnmountable as well.
func Unmounted(ctx context.Context, r run.Runner, f *disk.Facts, dir, fstype, uuid string, options []string) (before, after disk.Geometry, err error) {
	// While this is open no other device gets the node's name and number.
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
	if err := is(&before, uuid); err != nil {
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

// is says, by nil, that what was measured is the filesystem of that UUID, as far as it is known: what is on a disk
// may have changed since udev has looked, by way of its storage.
func is(g *disk.Geometry, uuid string) error {
	if g.UUID != "" && g.UUID != uuid {
		return fmt.Errorf("it holds the XFS %s, not %s", g.UUID, uuid)
	}
	return nil
}

// succeed runs a command whose exit code has to be 0.
func succeed(ctx context.Context, r run.Runner, c run.Command) error {
	res, err := r.Run(ctx, c)
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("%s: exit code %d: %s", c, res.ExitCode, disk.Visible(strings.TrimSpace(string(res.Stderr))))
	}
	return err
}

func mounted(ctx context.Context, r run.Runner, f *disk.Facts, path, fstype, uuid string) (before, after disk.Geometry, err error) {
	device, err := os.OpenFile(f.Node(), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return before, after, f.Sandboxed("hotmount-grow", err)
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	// While this is open the filesystem stays mounted where it is.
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
		err = is(&before, uuid)
	}
	if err != nil {
		return disk.Geometry{}, disk.Geometry{}, err
	}
	after = before
	if room, err := hasRoom(before, f); !room {
		return before, after, err
	}
	c := run.Command{Path: xfsGrowfs, Args: []string{"-d", path}, Timeout: Time}
	if fstype != "xfs" {
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

// hasRoom reports whether the filesystem can take more of the disk. The error is
// ErrShrunk.
func hasRoom(g disk.Geometry, f *disk.Facts) (bool, error) {
	if g.Size > f.Size {
		return false, fmt.Errorf("%w: %s of %s", ErrShrunk, disk.ExactSize(g.Size), disk.ExactSize(f.Size))
	}
	return g.Usable(f.Size) > g.Size, nil
}

// check reports whether the open device, and the one that has its name, is the disk
// with that sequence number. That it has another size than f by now is dealt with
// at the next look.
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
		return fmt.Errorf("%s has disk sequence number %d now: %w", f.Node(), seq, disk.ErrGone)
	}
	return nil
}

// Measure returns how much of the disk at the device node the filesystem of that type
// takes that is not mounted, by its superblock: nothing of a type other than XFS and
// ext4.
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

// ext4 returns how much of the disk an ext4 takes, read from its superblock.
func ext4(r io.ReaderAt) (disk.Geometry, error) {
	// The superblock is 1024 bytes at byte 1024 (Linux,
	// Documentation/filesystems/ext4/super.rst). The page cache, through which
	// this goes, has what the mounted filesystem has.
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
		return disk.Geometry{}, errors.New("it has no superblock of an ext4")
	}
	blocks := uint64(le.Uint32(b[0x04:]))
	if le.Uint32(b[0x60:])&incompat64 != 0 {
		blocks |= uint64(le.Uint32(b[0x150:])) << 32
	}
	block := uint64(1024) << shift
	if blocks == 0 || blocks > (1<<63-1)/block {
		return disk.Geometry{}, fmt.Errorf("its superblock names %d blocks of %d bytes", blocks, block)
	}
	return disk.Geometry{Size: blocks * block, Block: block}, nil
}
