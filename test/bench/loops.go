package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"hotmount/test/worker"
)

// loop is one of the container's loop devices.
type loop struct {
	name string // such as loop700
	dev  string // major:minor
	// The field `file` is the open loop device, or nil if the loop device has no backing file. The last close of a device
	// that is open for writing would cause a uevent.
	file *os.File
}

func (in *insideBench) loops(n int) ([]*loop, error) {
	all := make([]*loop, n)
	for i := range all {
		name := fmt.Sprintf("loop%d", in.First+i)
		dev, err := os.ReadFile("/sys/block/" + name + "/dev")
		if err != nil {
			return nil, err
		}
		all[i] = &loop{name: name, dev: strings.TrimSpace(string(dev))}
	}
	return all, nil
}

func (l *loop) node() string { return "/dev/" + l.name }

// The method `attach` connects the loop device with a backing file. First, attach makes the device's node in /dev, as
// devtmpfs does.
func (l *loop) attach(file string) (err error) {
	var major, minor uint32
	if _, err := fmt.Sscanf(l.dev, "%d:%d", &major, &minor); err != nil {
		return fmt.Errorf("cannot read the device number %q of %s: %w", l.dev, l.name, err)
	}
	if err := unix.Mknod(l.node(), unix.S_IFBLK|0o660, int(unix.Mkdev(major, minor))); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot make %s: %w", l.node(), err)
	}
	l.file, err = worker.ConfigureLoop(l.node(), file, false, 0)
	return err
}

// letGo reopens the devices read-only, for the mount method that is called neighbour. With this mount method, hotmount
// does not mount a disk that a process has open for writing. Each reopened device causes one more udev event.
func letGo(loops []*loop) error {
	for _, l := range loops {
		reader, err := os.Open(l.node())
		if err != nil {
			return err
		}
		if err := l.file.Close(); err != nil {
			return errors.Join(err, reader.Close())
		}
		l.file = reader
	}
	return nil
}

// The function `detach` detaches the files from the loop devices, and removes the nodes of the devices.
func detach(loops []*loop) error {
	var errs []error
	for _, l := range loops {
		if l.file == nil {
			continue
		}
		if err := os.Remove(l.node()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		if err := unix.IoctlSetInt(int(l.file.Fd()), unix.LOOP_CLR_FD, 0); err != nil {
			errs = append(errs, fmt.Errorf("cannot disconnect %s: %w", l.name, err))
		}
		errs = append(errs, l.file.Close())
		l.file = nil
	}
	return errors.Join(errs...)
}

const diskSize = 1 << 30

// uuid returns the UUID of the filesystem on disk i. The UUID must be unique across containers, because the kernel does
// not mount two XFS filesystems with one UUID.
func (in *insideBench) uuid(i int) string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012d", in.First, i)
}

// The method `disks` makes sparse files, each with an XFS filesystem. disks() does not change files that exist.
func (in *insideBench) disks(ctx context.Context, n int) ([]string, error) {
	all := make([]string, n)
	for i := range all {
		all[i] = filepath.Join(in.Dir, fmt.Sprintf("x%d.img", i))
		if _, err := os.Stat(all[i]); err == nil {
			continue
		}
		if err := sparse(all[i], diskSize); err != nil {
			return nil, err
		}
		// The holes in the files save memory, because the XFS logs of 200 disks would take much memory.
		for _, args := range [][]string{{"mkfs.xfs", "-q", "-m", "uuid=" + in.uuid(i)}, {"fallocate", "--dig-holes"}} {
			if said, err := exec.CommandContext(ctx, args[0], append(args[1:], all[i])...).CombinedOutput(); err != nil {
				return nil, fmt.Errorf("cannot make the disk %s: %s: %w: %s", all[i], args[0], err, said)
			}
		}
	}
	return all, nil
}

// The method `blank` makes a new sparse file without data. The file takes no memory while it is read.
func (in *insideBench) blank(name string, size int64) (string, error) {
	path := filepath.Join(in.Dir, name)
	if err := os.RemoveAll(path); err != nil {
		return "", err
	}
	return path, sparse(path, size)
}

func sparse(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}
