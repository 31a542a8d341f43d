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

// Loop is a loop device (loop(4)) that has a file.
type Loop struct {
	// Name is its kernel name.
	Name string
	// File is the path of what lies below it, as whoever set it up called it, who may have been
	// in another mount namespace. Foreign bytes.
	File string
	// Below is the block device that lies below it, zero for none that is found. Known says that
	// the kernel has told it, and not the path, which may mean another here.
	Below disk.Dev
	Known bool
	// Device and Inode are those of its file, as stat(2) has them, where the kernel has told it (Known).
	Device, Inode uint64
	// Denied reports that this process may not open it, and so cannot ask.
	Denied bool
}

// Called reports whether its path ends as that of a disk's node does, below whatever directory
// that is dev to somebody, or in a mount of its own.
func (l *Loop) Called(name string) bool {
	dir, base := path.Split(strings.TrimSuffix(l.File, " (deleted)"))
	return base == name && (dir == "/" || path.Base(dir) == "dev")
}

// SameFile reports whether both lie on one file: as the kernel tells it, and where it does not by the path.
func (l *Loop) SameFile(other *Loop) bool {
	if l.Known && other.Known {
		return l.Device == other.Device && l.Inode == other.Inode
	}
	return l.File != "" && l.File == other.File
}

// Loops returns the loop devices that have a file. What is below one can be a disk, and
// nothing else tells of it: the kernel neither lists it among the disk's holders nor has
// it claim the disk. Who may open loop devices, which the daemon may not, is told by the
// kernel what lies below; others go by the path, in PID 1's mount table.
func Loops(root string, table Paths) ([]Loop, error) {
	// /proc/partitions, which has none of those that wait to be used, has all disks.
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
		// Documentation/ABI/testing/sysfs-block-loop. One that waits to be used has none, nor has a
		// device whose file was taken away meanwhile. A path can be too long to be told.
		file, err := os.ReadFile(filepath.Join("/", root, where, l.Name, "loop/backing_file"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
			continue
		}
		if err == nil {
			l.File = strings.TrimSuffix(string(file), "\n")
		}
		l.ask(root, table)
		if !l.Known {
			l.follow(root, table)
		}
		all = append(all, l)
	}
	return all, nil
}

// ask has the kernel tell what lies below (LOOP_GET_STATUS64, loop(4)). A file has the device number
// zero there, or that of no block device (loop_get_status in the kernel's drivers/block/loop.c,
// which asks for the file's attributes: not where a server may never answer).
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
	l.Known, l.Below = true, disk.Dev{Major: unix.Major(info.Rdevice), Minor: unix.Minor(info.Rdevice)}
	l.Device, l.Inode = info.Device, info.Inode
}

// local are the filesystems of which this kernel alone tells a file's attributes.
var local = []string{
	"bcachefs", "btrfs", "devtmpfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfsplus", "iso9660", "jfs", "nilfs2",
	"ntfs3", "overlay", "ramfs", "reiserfs", "rootfs", "squashfs", "tmpfs", "udf", "vfat", "xfs", "zfs",
}

// Regular reports whether its path leads to a regular file on a filesystem of this kernel alone. It does not where
// the file is not visible to this process.
func (l *Loop) Regular(root string, table Paths) bool {
	if m := table.At(l.File); m == nil || !slices.Contains(local, m.Type) {
		return false
	}
	mode, _ := l.stat(root, table)
	return mode == unix.S_IFREG
}

// stat returns the type of what its path leads to, and the number of a device, unless the way leads past a server.
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

// follow goes by the path if that leads to where device nodes are, or are bound to, and past no
// server: other ways may lead through a directory of a dead disk.
func (l *Loop) follow(root string, table Paths) {
	if m := table.At(l.File); m == nil || m.Type != "devtmpfs" && m.Type != "tmpfs" {
		return
	}
	if mode, dev := l.stat(root, table); mode == unix.S_IFBLK {
		l.Below = dev
	}
}
