package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// loopDisk is a disk of a container.
type loopDisk struct {
	Attached
	number int
	// The field `device` is the loop device, which is open as long as the disk is attached. Closing a loop device that is
	// open for writing would cause a uevent.
	device *os.File
}

func (d *loopDisk) name() string { return fmt.Sprintf("loop%d", d.number) }

// Attach attaches the disk's file to a free loop device of the container. Attach returns an error for disk options that
// only a [Worker] supports, such as a serial, a bus or the format qcow2.
func (c *Container) Attach(_ context.Context, d Disk) (Attached, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, err := c.place(d)
	if err == nil {
		err = c.plug(l)
	}
	if err != nil {
		return Attached{}, fmt.Errorf("cannot attach %s: %w", d.File, err)
	}
	c.attached = append(c.attached, l)
	return l.Attached, nil
}

// The method `place` sets the defaults of the disk and finds a free loop device. The caller holds c.mu.
func (c *Container) place(d Disk) (*loopDisk, error) {
	if d.Serial != "" || d.Bus != "" || d.Format != "" && d.Format != "raw" || d.Shared || d.Direct || d.Blkdebug != nil || d.Device != nil {
		return nil, errors.New("a loop device cannot be such a disk: it needs the virtual machine")
	}
	taken := func(yes func(*loopDisk) bool) bool { return slices.ContainsFunc(c.attached, yes) }
	for i := 0; d.ID == ""; i++ {
		if id := fmt.Sprintf("disk%d", i); !taken(func(l *loopDisk) bool { return l.ID == id }) {
			d.ID = id
		}
	}
	if taken(func(l *loopDisk) bool { return l.ID == d.ID }) {
		return nil, fmt.Errorf("there is a disk %s already", d.ID)
	}
	file, err := filepath.Abs(d.File)
	if err != nil {
		return nil, err
	}
	d.File = file
	for n := c.first; n < c.first+c.o.Loops; n++ {
		// A program inside the container may have attached files to some of the container's loop devices.
		if !bound(n) && !taken(func(l *loopDisk) bool { return l.number == n }) {
			return &loopDisk{Attached: Attached{Disk: d}, number: n}, nil
		}
	}
	return nil, errors.New("no loop device is free")
}

// The method `plug` makes the loop device's node in the container, as devtmpfs does for a new disk, and attaches the
// disk's file. The caller holds c.mu.
func (c *Container) plug(l *loopDisk) (err error) {
	if err := c.renew(l.number); err != nil {
		return err
	}
	c.used[l.number] = true
	if l.device, err = openLoop(l.number, loopMode(l.ReadOnly)); err != nil {
		return err
	}
	if node := c.node(l); node != "" {
		if err := unix.Mknod(node, syscall.S_IFBLK|0o660, int(unix.Mkdev(loopMajor, uint32(l.number)))); err != nil && !errors.Is(err, unix.EEXIST) {
			return errors.Join(fmt.Errorf("cannot make %s: %w", node, err), l.device.Close())
		}
	}
	if err := configure(l.device, l.File, l.ReadOnly, l.LogicalBlockSize); err != nil {
		return errors.Join(fmt.Errorf("cannot connect %s: %w", l.name(), err), l.device.Close())
	}
	return nil
}

// The method `renew` makes the kernel recreate a loop device that has had a disk. Recreating the loop device resets its
// counters and settings. The caller holds c.mu.
func (c *Container) renew(n int) error {
	if !c.used[n] {
		return nil
	}
	delete(c.used, n)
	return renewLoop(n)
}

// The method `node` returns the host's path to the disk's device node in the container. While the container is off, the
// path is "". The caller holds c.mu.
func (c *Container) node(l *loopDisk) string {
	if c.init == nil {
		return ""
	}
	return fmt.Sprintf("/proc/%d/root/dev/%s", c.init.cmd.Process.Pid, l.name())
}

// find returns the attached disk with the given ID. The caller holds c.mu.
func (c *Container) find(id string) (*loopDisk, error) {
	i := slices.IndexFunc(c.attached, func(l *loopDisk) bool { return l.ID == id })
	if i < 0 {
		return nil, fmt.Errorf("the container has no disk %q", id)
	}
	return c.attached[i], nil
}

// Detach detaches a disk and waits until it is gone. A loop device cannot be removed while it is in use. If a
// filesystem on the disk is mounted, Detach returns an error, and the kernel detaches the disk after the unmount.
func (c *Container) Detach(ctx context.Context, id string) error {
	c.mu.Lock()
	l, err := c.find(id)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if err := c.DetachSurprise(ctx, id); err != nil {
		return err
	}
	err = poll(10*time.Second, func() error {
		if bound(l.number) && ctx.Err() == nil {
			return unix.EBUSY // udev may have the device open for a moment
		}
		return ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("cannot detach %s: it is in use: %w", l.name(), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.renew(l.number)
}

// DetachSurprise detaches a disk without waiting for its users. The kernel keeps the disk until its last user closes
// the disk.
func (c *Container) DetachSurprise(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, err := c.find(id)
	if err != nil {
		return err
	}
	c.attached = slices.DeleteFunc(c.attached, func(x *loopDisk) bool { return x == l })
	if node := c.node(l); node != "" {
		if err := os.Remove(node); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("cannot detach %s: %w", l.name(), err), ClearLoop(l.device))
		}
	}
	return ClearLoop(l.device)
}

// Resize changes the size of a disk and its file to the given number of bytes.
func (c *Container) Resize(_ context.Context, id string, size int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, err := c.find(id)
	if err != nil {
		return err
	}
	if err := os.Truncate(l.File, size); err != nil {
		return fmt.Errorf("cannot resize %s: %w", id, err)
	}
	if err := unix.IoctlSetInt(int(l.device.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return fmt.Errorf("cannot resize %s: %w", id, err)
	}
	return nil
}

// BlockDevice returns the kernel's name of the disk, such as loop100. BlockDevice does not wait, because the disk's
// loop device exists as soon as Attach returns.
func (c *Container) BlockDevice(_ context.Context, id string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, err := c.find(id)
	if err != nil {
		return "", err
	}
	return l.name(), nil
}
