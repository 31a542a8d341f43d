package worker

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// firstLoop is the lowest number that a container takes: those below are other programs'.
const firstLoop = 100

// addLoops has the kernel make that many loop devices with numbers in a row, and returns the
// first number. It tells made of each that is there, so that a killed run's can be removed.
func addLoops(count int, made func(n int) error) (first int, err error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return 0, fmt.Errorf("cannot make loop devices, is the module loop loaded: %w", err)
	}
	defer control.Close()
	for first = firstLoop; first < 1<<20; first += count {
		n, err := addRow(int(control.Fd()), first, count, made)
		if err == nil {
			return first, nil
		}
		if removed := removeLoops(first, n); removed != nil || !errors.Is(err, unix.EEXIST) {
			return 0, errors.Join(err, removed)
		}
	}
	return 0, errors.New("cannot make loop devices: no numbers are free")
}

// addRow returns how many of the row it has made.
func addRow(control, first, count int, made func(n int) error) (int, error) {
	for i := range count {
		if err := unix.IoctlSetInt(control, unix.LOOP_CTL_ADD, first+i); err != nil {
			return i, fmt.Errorf("cannot make loop device %d: %w", first+i, err)
		}
		if err := made(first + i); err != nil {
			return i + 1, err
		}
	}
	return count, nil
}

// removeLoops takes their files from these loop devices and has the kernel remove them. It waits
// for the last user of a file, who may be on its way out.
func removeLoops(first, count int) error {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("cannot remove loop devices: %w", err)
	}
	defer control.Close()
	var errs []error
	for n := first; n < first+count; n++ {
		if !exists(fmt.Sprintf("/sys/block/loop%d", n)) {
			continue
		}
		errs = append(errs, removeLoop(int(control.Fd()), n))
	}
	return errors.Join(errs...)
}

// renewLoop removes a loop device and adds it again. Meanwhile another container may have its number for
// a moment, while it looks for numbers in a row.
func renewLoop(n int) error {
	if err := removeLoops(n, 1); err != nil {
		return err
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("cannot add a loop device: %w", err)
	}
	defer control.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); ; <-tick.C {
		err := unix.IoctlSetInt(int(control.Fd()), unix.LOOP_CTL_ADD, n)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EEXIST) || time.Now().After(end) {
			return fmt.Errorf("cannot add loop device %d: %w", n, err)
		}
	}
}

func removeLoop(control, n int) error {
	if f, err := os.Open(fmt.Sprintf("/dev/loop%d", n)); err == nil {
		_ = unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0) // it may have none
		f.Close()
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); ; <-tick.C {
		err := unix.IoctlSetInt(control, unix.LOOP_CTL_REMOVE, n)
		if err == nil || errors.Is(err, unix.ENODEV) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
			return fmt.Errorf("cannot remove loop device %d: %w", n, err)
		}
	}
}

// ConfigureLoop connects the loop device, whose node is given, with the file, and returns the
// open device. ReadOnly and BlockSize (bytes, 0 for the kernel's default) are as in losetup(8).
func ConfigureLoop(node, file string, readOnly bool, blockSize int) (*os.File, error) {
	mode, flags := os.O_RDWR, uint32(0)
	if readOnly {
		mode, flags = os.O_RDONLY, unix.LO_FLAGS_READ_ONLY
	}
	back, err := os.OpenFile(file, mode, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot attach %s: %w", file, err)
	}
	defer back.Close()
	device, err := os.OpenFile(node, mode, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot attach %s: %w", file, err)
	}
	config := unix.LoopConfig{Fd: uint32(back.Fd()), Size: uint32(blockSize), Info: unix.LoopInfo64{Flags: flags}}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	// EBUSY: a device that has just lost a file is still on its way.
	for end := time.Now().Add(5 * time.Second); ; <-tick.C {
		err = unix.IoctlLoopConfigure(int(device.Fd()), &config)
		if err == nil {
			return device, nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
			return nil, errors.Join(fmt.Errorf("cannot attach %s to %s: %w", file, node, err), device.Close())
		}
	}
}
