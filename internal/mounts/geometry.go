package mounts

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// xfsGeometry is XFS_IOC_FSGEOMETRY_V1, _IOR('X', 100, struct xfs_fsop_geom_v1) (fs/xfs/libxfs/xfs_fs.h of Linux).
// XFS_IOC_FSGEOMETRY_V1 needs no capability.
const xfsGeometry = 0x80705864

// XFSGeometry returns the size and the UUID of a mounted XFS filesystem. The device must be mounted at the path in this
// process's mount namespace.
func XFSGeometry(path string, dev disk.Dev) (disk.Geometry, error) {
	g, err := xfsGeometryOf(path, dev)
	if err != nil {
		return g, fmt.Errorf("cannot measure the XFS at %s: %w", path, err)
	}
	return g, nil
}

func xfsGeometryOf(path string, dev disk.Dev) (g disk.Geometry, err error) {
	dir, err := OpenMount(path, dev)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	var b [112]byte
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), xfsGeometry, uintptr(unsafe.Pointer(&b))); errno != 0 {
		return g, fmt.Errorf("XFS_IOC_FSGEOMETRY_V1: %w", errno)
	}
	// The values are the fields blocksize, agblocks, datablocks and uuid of struct xfs_fsop_geom_v1.
	native := binary.NativeEndian
	g.Block = uint64(native.Uint32(b[0:]))
	g.Group = uint64(native.Uint32(b[8:])) * g.Block
	g.Size = native.Uint64(b[32:]) * g.Block
	g.UUID = disk.UUID([16]byte(b[64:80]))
	if g.Block == 0 || g.Group == 0 {
		return g, errors.New("the kernel reports blocks or groups of size 0")
	}
	return g, nil
}

// OpenMount opens the root directory of the filesystem at the path. OpenMount returns an error if another device is
// mounted at the path. While the directory is open, the filesystem cannot be unmounted.
func OpenMount(path string, dev disk.Dev) (*os.File, error) {
	dir, err := os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	err = unix.Fstat(int(dir.Fd()), &st)
	if found := (disk.Dev{Major: unix.Major(uint64(st.Dev)), Minor: unix.Minor(uint64(st.Dev))}); err == nil && found != dev {
		err = fmt.Errorf("expected the device %s there, but the device %s is mounted", dev, found)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}
