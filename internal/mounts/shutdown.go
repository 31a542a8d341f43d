package mounts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

const (
	// goingDown is XFS_IOC_GOINGDOWN (fs/xfs/libxfs/xfs_fs.h) and also EXT4_IOC_SHUTDOWN (fs/ext4/ext4.h): _IOR('X',
	// 125, __u32), which needs CAP_SYS_ADMIN.
	goingDown = 0x8004587d
	// noLogFlush is XFS_FSOP_GOING_FLAGS_NOLOGFLUSH and also EXT4_GOING_FLAGS_NOLOGFLUSH. With noLogFlush, the kernel
	// writes nothing to the disk, not even the log.
	noLogFlush = 2
)

// ShutDown makes the filesystem of a removed device answer EIO to every process in every mount namespace. Without
// ShutDown, an XFS or ext4 filesystem seems to work until the kernel writes the filesystem's log and gets an error.
// Linux before 6.6 may write the log only after half a minute. All changes that programs make until then are lost.
//
// ShutDown returns nil if the device is not mounted anywhere. ShutDown returns an error if the device still exists and
// its mounted filesystem is not yet shut down. ShutDown also returns an error if other mounts cover each mount of the
// filesystem. ShutDown reads nothing from the disk. ShutDown may block if the path of a mount in a container leads to a
// dead file server.
func ShutDown(root string, dev disk.Dev) error {
	if err := shutDownAll(root, dev); err != nil {
		return fmt.Errorf("cannot shut down the filesystem of %s: %w", dev, err)
	}
	return nil
}

func shutDownAll(root string, dev disk.Dev) error {
	host, err := Tree(root)
	if err != nil {
		return err
	}
	// shutDownAll tries the host's mounts first, because they are fast to find, and a shutdown through one of them
	// usually succeeds.
	down, errs := shutDownBy(filepath.Join("/", root), root, host, dev)
	if down {
		return nil
	}
	all, err := namespaces(root)
	if err != nil {
		return errors.Join(errs, err)
	}
	// The first attempt may have failed because somebody has just unmounted the filesystem. The second attempt uses the
	// new mount table of the host.
	errs = nil
	for _, n := range all {
		down, err := shutDownBy(n.root, root, n.mounts, dev)
		if down {
			return nil
		}
		errs = errors.Join(errs, err)
	}
	return errs
}

// shutDownBy tries to shut down the device's filesystem through each of its mounts in the table, until one attempt
// succeeds. The argument `base` is the root directory of a process that has the given mount table.
func shutDownBy(base, root string, table []Mount, dev disk.Dev) (down bool, err error) {
	for i := range table {
		if m := &table[i]; m.Dev == dev && (m.Type == disk.XFS || m.Type == disk.Ext4) {
			// The path of a mount in a container can lead anywhere, so shutDown checks the device of the directory that
			// it opens.
			one := shutDown(filepath.Join(base, m.Path), root, dev)
			if one == nil {
				return true, nil
			}
			if _, ended := os.Stat(base); ProcessEnded(ended) {
				return false, err // the mount namespace may be gone
			}
			err = errors.Join(err, errors.New(disk.Visible("by "+m.Path+": "+one.Error())))
		}
	}
	return false, err
}

func shutDown(path, root string, dev disk.Dev) error {
	dir, err := OpenMount(path, dev)
	switch {
	case errors.Is(err, unix.EIO) && deadOn(path, dev):
		return nil
	case err != nil:
		return err
	}
	defer dir.Close()
	// While the directory is open, the kernel gives the device number to no other disk.
	_, err = os.Lstat(filepath.Join("/", root, "sys/dev/block", dev.String()))
	switch {
	case err == nil:
		return errors.New("the disk is attached")
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return os.NewSyscallError("ioctl", unix.IoctlSetPointerInt(int(dir.Fd()), goingDown, noLogFlush))
}
