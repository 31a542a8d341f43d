package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// firstLoop is the lowest loop device number that a container takes. Numbers below firstLoop are for other programs.
const firstLoop = 100

// loopMajor is the major number of loop devices.
const loopMajor = 7

// addLoops makes loop devices with consecutive numbers, and returns the first number. Before addLoops makes the
// devices, it calls note(), so that a later run can remove the devices of a killed run.
func addLoops(count int, note func(first int) error) (int, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return 0, fmt.Errorf("cannot make loop devices: %w", err)
	}
	defer control.Close()
	for first := firstLoop; first+count <= 1<<20; first++ {
		if taken := takenLoop(first, count); taken >= 0 {
			first = taken
			continue
		}
		if err := note(first); err != nil {
			return 0, err
		}
		made, err := addRow(int(control.Fd()), first, count)
		if err == nil {
			return first, nil
		}
		// EEXIST means that another program has meanwhile made a loop device with one of these numbers.
		if removed := removeLoops(first, made); removed != nil || !errors.Is(err, unix.EEXIST) {
			return 0, errors.Join(err, removed)
		}
	}
	return 0, errors.New("cannot make loop devices: no numbers are free")
}

// takenLoop returns the highest number of an existing loop device in the range from first to first+count-1. If no loop
// device exists in this range, takenLoop returns -1.
func takenLoop(first, count int) int {
	for n := first + count - 1; n >= first; n-- {
		if exists(fmt.Sprintf("/sys/block/loop%d", n)) {
			return n
		}
	}
	return -1
}

// addRow makes loop devices with the numbers from first to first+count-1, and returns how many devices it has made.
func addRow(control, first, count int) (int, error) {
	for i := range count {
		if err := unix.IoctlSetInt(control, unix.LOOP_CTL_ADD, first+i); err != nil {
			return i, fmt.Errorf("cannot make loop device %d: %w", first+i, err)
		}
	}
	return count, nil
}

// removeLoops detaches the files of the loop devices with the numbers from first to first+count-1, and then removes
// these loop devices. removeLoops waits up to ten seconds for the last user of each loop device.
func removeLoops(first, count int) error {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("cannot remove loop devices: %w", err)
	}
	defer control.Close()
	errs := make([]error, count)
	// The kernel takes 50 ms to remove a loop device, and can remove several devices at the same time.
	var all sync.WaitGroup
	for i := range count {
		if exists(fmt.Sprintf("/sys/block/loop%d", first+i)) {
			all.Go(func() { errs[i] = removeLoop(int(control.Fd()), first+i) })
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// renewLoop removes a loop device and adds it again. Between these two steps, another container may take the number of
// the loop device. Therefore renewLoop tries to add the loop device for up to ten seconds.
func renewLoop(n int) error {
	if err := removeLoops(n, 1); err != nil {
		return err
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("cannot make a loop device: %w", err)
	}
	defer control.Close()
	err = poll(10*time.Second, func() error {
		err := unix.IoctlSetInt(int(control.Fd()), unix.LOOP_CTL_ADD, n)
		if errors.Is(err, unix.EEXIST) {
			return unix.EBUSY
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot make loop device %d: %w", n, err)
	}
	return nil
}

func removeLoop(control, n int) error {
	// A program in the container may have attached a file without LO_FLAGS_AUTOCLEAR. The kernel does not detach such a
	// file when the program ends.
	if bound(n) {
		f, err := openLoop(n, os.O_RDONLY)
		if err != nil {
			return err
		}
		_ = unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0) // the file may already be detached
		f.Close()
	}
	err := poll(10*time.Second, func() error { return unix.IoctlSetInt(control, unix.LOOP_CTL_REMOVE, n) })
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("cannot remove loop device %d: %w", n, err)
	}
	return nil
}

// The function `poll` calls try() until the result is not EBUSY, or until the given duration is over.
func poll(long time.Duration, try func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(long); ; <-tick.C {
		if err := try(); !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
			return err
		}
	}
}

// The function `bound` reports whether a file is attached to the loop device.
func bound(n int) bool { return exists(fmt.Sprintf("/sys/block/loop%d/loop", n)) }

// openLoop opens a loop device through a temporary device node, because /dev may have no node for the loop device.
// Closing the usual node in /dev would make udev send an event, because udev watches that node.
func openLoop(n, mode int) (*os.File, error) {
	dir, err := os.MkdirTemp("/dev", ".hotmount-")
	if err != nil {
		return nil, fmt.Errorf("cannot open loop device %d: %w", n, err)
	}
	defer os.RemoveAll(dir)
	node := filepath.Join(dir, "loop")
	if err := unix.Mknod(node, syscall.S_IFBLK|0o600, int(unix.Mkdev(loopMajor, uint32(n)))); err != nil {
		return nil, fmt.Errorf("cannot open loop device %d: %w", n, err)
	}
	f, err := os.OpenFile(node, mode, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open loop device %d: %w", n, err)
	}
	return f, nil
}

// ConfigureLoop attaches the file to the loop device of the given node, and returns the open device. When the last user
// closes the device, the kernel detaches the file. The block size is in bytes; 0 selects the kernel's default. The
// caller closes the device with [ClearLoop].
func ConfigureLoop(node, file string, readOnly bool, blockSize int) (*os.File, error) {
	device, err := os.OpenFile(node, loopMode(readOnly), 0)
	if err != nil {
		return nil, fmt.Errorf("cannot attach %s: %w", file, err)
	}
	if err := configure(device, file, readOnly, blockSize); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot attach %s to %s: %w", file, node, err), device.Close())
	}
	return device, nil
}

// ClearLoop detaches the file from the loop device and closes the device. If the device is in use, for example by a
// mounted filesystem, the kernel detaches the file when the last use ends (LOOP_CLR_FD in loop(4)).
func ClearLoop(device *os.File) error {
	err := unix.IoctlSetInt(int(device.Fd()), unix.LOOP_CLR_FD, 0)
	if errors.Is(err, unix.ENXIO) { // another process has already detached the file
		err = nil
	}
	if err = errors.Join(err, device.Close()); err != nil {
		return fmt.Errorf("cannot clear a loop device: %w", err)
	}
	return nil
}

func loopMode(readOnly bool) int {
	if readOnly {
		return os.O_RDONLY
	}
	return os.O_RDWR
}

func configure(device *os.File, file string, readOnly bool, blockSize int) error {
	back, err := os.OpenFile(file, loopMode(readOnly), 0)
	if err != nil {
		return err
	}
	defer back.Close()
	flags := uint32(unix.LO_FLAGS_AUTOCLEAR)
	if readOnly {
		flags |= unix.LO_FLAGS_READ_ONLY
	}
	config := unix.LoopConfig{Fd: uint32(back.Fd()), Size: uint32(blockSize), Info: unix.LoopInfo64{Flags: flags}}
	// EBUSY means that the loop device is still releasing its previous file.
	return poll(5*time.Second, func() error { return unix.IoctlLoopConfigure(int(device.Fd()), &config) })
}
