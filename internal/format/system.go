package format

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// The interface `system` contains the operations of a session that the tests replace. In the tests, another
// implementation uses files instead of disks.
type system interface {
	// open opens the device node for reads with O_DIRECT. If exclusive is set, open also claims the disk.
	open(node string, exclusive bool) (*os.File, error)
	// identify returns the identity of the open disk.
	identify(f *os.File) (identity, error)
	// writeOut writes the dirty pages of all processes to the disk, so that the kernel counts these writes. While a
	// write is only in the page cache, the kernel does not count it.
	writeOut(f *os.File) error
	// rereadPartitions makes the kernel read the partition table again.
	rereadPartitions(f *os.File) error
	// node returns the current device number of the device node.
	node(path string) (disk.Dev, error)
	// temp makes an empty file.
	temp() (*os.File, error)
	// readFile returns the content of a file.
	readFile(path string) ([]byte, error)
}

// identity contains the device number, disk sequence number and size of a disk. These values must not change between
// the first read and the end of mkfs.
type identity struct {
	dev       disk.Dev
	seq, size uint64
}

type linux struct{}

// writeOut does not use fsync(2), because fsync sends a flush and the kernel counts a flush as a write.
func (linux) writeOut(f *os.File) error {
	const all = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	if err := unix.SyncFileRange(int(f.Fd()), 0, 0, all); err != nil {
		return os.NewSyscallError("sync_file_range", err)
	}
	return nil
}

func (linux) rereadPartitions(f *os.File) error {
	return os.NewSyscallError("BLKRRPART", unix.IoctlSetInt(int(f.Fd()), unix.BLKRRPART, 0))
}

func (linux) open(node string, exclusive bool) (*os.File, error) {
	flags := os.O_RDONLY | unix.O_DIRECT | unix.O_CLOEXEC | unix.O_NOFOLLOW
	if exclusive {
		flags |= unix.O_EXCL // open(2): O_EXCL without O_CREAT fails with EBUSY if the block device is in use
	}
	return os.OpenFile(node, flags, 0)
}

func (linux) identify(f *os.File) (identity, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return identity{}, err
	}
	dev, err := blockDevice(&st)
	if err != nil {
		return identity{}, err
	}
	id := identity{dev: dev}
	if id.seq, err = ioctl(f, unix.BLKGETDISKSEQ); err != nil {
		return identity{}, fmt.Errorf("BLKGETDISKSEQ: %w", err)
	}
	if id.size, err = ioctl(f, unix.BLKGETSIZE64); err != nil {
		return identity{}, fmt.Errorf("BLKGETSIZE64: %w", err)
	}
	return id, nil
}

func (linux) node(path string) (disk.Dev, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return disk.Dev{}, err
	}
	return blockDevice(&st)
}

func (linux) temp() (*os.File, error) { return os.CreateTemp("", "hotmount-ext4-") }

func (linux) readFile(path string) ([]byte, error) { return os.ReadFile(path) }

func blockDevice(st *unix.Stat_t) (disk.Dev, error) {
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return disk.Dev{}, errors.New("the disk is not a block device")
	}
	return disk.Dev{Major: unix.Major(uint64(st.Rdev)), Minor: unix.Minor(uint64(st.Rdev))}, nil
}

// ioctl returns the 64-bit result of an ioctl(2) request (linux/fs.h). golang.org/x/sys has no function for such a
// request.
func ioctl(f *os.File, request uintptr) (uint64, error) {
	var n uint64
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(&n))); errno != 0 {
		return 0, errno
	}
	return n, nil
}
