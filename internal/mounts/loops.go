package mounts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// Loop is a loop device (loop(4)) with a backing file.
type Loop struct {
	// Name is the loop device's kernel name.
	Name string
	// File is the path of the backing file in the mount namespace of the process that set up the loop device. File can
	// contain arbitrary bytes.
	File string
	// The field Below is the block device on which the loop device is built. If no block device is found, the device
	// number in Below is zero, or no block device has this number. FromKernel reports whether the kernel itself named
	// this block device. If FromKernel is false, the field Below is the device that this process sees at the path in
	// the field File. That device can differ from the backing device.
	Below      disk.Dev
	FromKernel bool
	// Device and Inode are st_dev and st_ino of the backing file (stat(2)). Device and Inode are valid only if
	// FromKernel is true.
	Device, Inode uint64
	// Denied reports whether the process lacks permission to open the loop device. Without permission to open the loop
	// device, a process cannot ask the kernel for the backing file.
	Denied bool
}

// Called compares the path of the backing file with the kernel name of a disk. Called returns true if the last part of
// the path is this name, in a directory named dev or at the root of a mount. Such a path may be the path of the disk's
// device node.
func (l *Loop) Called(name string) bool {
	dir, base := path.Split(strings.TrimSuffix(l.File, " (deleted)"))
	return base == name && (dir == "/" || path.Base(dir) == "dev")
}

// SameFile reports whether the two loop devices have the same backing file. SameFile compares the inodes if the kernel
// named both backing files, and the paths in all other cases.
func (l *Loop) SameFile(other *Loop) bool {
	if l.FromKernel && other.FromKernel {
		return l.Device == other.Device && l.Inode == other.Inode
	}
	return l.File != "" && l.File == other.File
}

// Loops returns the loop devices with a backing file. A loop device can hide a use of a disk. If a loop device is built
// on a disk, the loop device does not claim the disk, and is not among the disk's holders in sysfs.
//
// A process that has permission to open a loop device can ask the kernel for the backing file. The daemon has no
// permission to open loop devices, and looks for the path of the backing file in PID 1's mount table.
func Loops(root string, table Paths) ([]Loop, error) {
	// Loops does not read /proc/partitions, because that file also lists all disks of the machine.
	const where = "sys/devices/virtual/block"
	entries, err := os.ReadDir(filepath.Join("/", root, where))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the loop devices: %w", err)
	}
	var all []Loop
	for _, e := range entries {
		l := Loop{Name: e.Name()}
		if !strings.HasPrefix(l.Name, "loop") {
			continue
		}
		// Documentation/ABI/testing/sysfs-block-loop describes the file backing_file. backing_file is missing if the
		// loop device has no backing file, or has just lost it. A read of backing_file fails if the path of the backing
		// file is too long for the kernel.
		file, err := os.ReadFile(filepath.Join("/", root, where, l.Name, "loop/backing_file"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
			continue
		}
		if err == nil {
			l.File = strings.TrimSuffix(string(file), "\n")
		}
		l.ask(root, table)
		if !l.FromKernel {
			l.follow(root, table)
		}
		all = append(all, l)
	}
	return all, nil
}

// The method `ask` asks the kernel which backing file the loop device has (LOOP_GET_STATUS64, loop(4)). For a regular
// backing file, the kernel returns a device number that is zero or belongs to no block device. LOOP_GET_STATUS64 reads
// the attributes of the backing file (loop_get_status in drivers/block/loop.c). The method `ask` skips backing files on
// a file server, because a dead server never answers.
func (l *Loop) ask(root string, table Paths) {
	if m := table.At(l.File); m != nil && !slices.Contains(local, m.Type) {
		return
	}
	fd, err := unix.Open(filepath.Join("/", root, "dev", l.Name), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		l.Denied = errors.Is(err, fs.ErrPermission)
		return
	}
	defer unix.Close(fd)
	info, err := unix.IoctlLoopGetStatus64(fd)
	if err != nil {
		return
	}
	l.FromKernel, l.Below = true, disk.Dev{Major: unix.Major(info.Rdevice), Minor: unix.Minor(info.Rdevice)}
	l.Device, l.Inode = info.Device, info.Inode
}

// The variable `local` lists the filesystem types for which this kernel returns the attributes of a file without a
// request to a file server.
var local = []string{
	"bcachefs", "btrfs", "devtmpfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfsplus", "iso9660", "jfs", "nilfs2",
	"ntfs3", "overlay", "ramfs", "reiserfs", "rootfs", "squashfs", "tmpfs", "udf", "vfat", "xfs", "zfs",
}

// Regular reports whether the path of the backing file leads to a regular file on a local filesystem. Regular returns
// false if this process cannot see the file.
func (l *Loop) Regular(root string, table Paths) bool {
	if m := table.At(l.File); m == nil || !slices.Contains(local, m.Type) {
		return false
	}
	mode, _ := l.stat(root, table)
	return mode == unix.S_IFREG
}

// stat returns the type of the backing file. If the backing file is a device node, stat also returns the device number.
// stat returns zeros if the path crosses a filesystem of a file server.
func (l *Loop) stat(root string, table Paths) (mode uint16, dev disk.Dev) {
	if slices.ContainsFunc(table.onWay(l.File), func(m *Mount) bool { return !slices.Contains(local, m.Type) }) {
		return 0, disk.Dev{}
	}
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, filepath.Join("/", root, l.File), unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st) != nil {
		return 0, disk.Dev{}
	}
	return st.Mode & unix.S_IFMT, disk.Dev{Major: st.Rdev_major, Minor: st.Rdev_minor}
}

// The method `follow` sets the field Below to the device at the path of the backing file. follow() uses only paths
// on a devtmpfs or tmpfs, where device nodes and their bind mounts lie. A path on another filesystem may lead through a
// directory of a dead disk, where a process may block.
func (l *Loop) follow(root string, table Paths) {
	if m := table.At(l.File); m == nil || m.Type != "devtmpfs" && m.Type != "tmpfs" {
		return
	}
	if mode, dev := l.stat(root, table); mode == unix.S_IFBLK {
		l.Below = dev
	}
}
