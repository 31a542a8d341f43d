package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// loopDisk is a disk that a container has.
type loopDisk struct {
	Attached
	number int
	// device is open as long as the disk is attached: closing what is open for writing is an event.
	device *os.File
}

func (d *loopDisk) name() string { return fmt.Sprintf("loop%d", d.number) }

// Attach connects a loop device with the disk's file. A loop device has no serial, no bus and no image
// format: with these the disk needs a [Worker].
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

// place completes what a disk does not say and finds it a free loop device. c.mu is held.
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
		// One that a program inside has taken is not ours.
		if !exists(fmt.Sprintf("/sys/block/loop%d/loop", n)) && !taken(func(l *loopDisk) bool { return l.number == n }) {
			return &loopDisk{Attached: Attached{Disk: d}, number: n}, nil
		}
	}
	return nil, errors.New("no loop device is free")
}

// plug makes the node inside, as devtmpfs does for a new disk, and connects the device.
func (c *Container) plug(l *loopDisk) (err error) {
	// The counts and settings of a new disk begin anew.
	if c.used[l.number] {
		if err := renewLoop(l.number); err != nil {
			return err
		}
	}
	c.used[l.number] = true
	if node := c.node(l); node != "" {
		if err := unix.Mknod(node, syscall.S_IFBLK|0o660, int(unix.Mkdev(loopMajor, uint32(l.number)))); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("cannot make %s: %w", node, err)
		}
	}
	l.device, err = ConfigureLoop("/dev/"+l.name(), l.File, l.ReadOnly, l.LogicalBlockSize)
	return err
}

// node returns the host's name of the disk's node inside, "" while the container is off. c.mu is held.
func (c *Container) node(l *loopDisk) string {
	if c.init == nil {
		return ""
	}
	return fmt.Sprintf("/proc/%d/root/dev/%s", c.init.cmd.Process.Pid, l.name())
}

// find returns the disk called id. c.mu is held.
func (c *Container) find(id string) (*loopDisk, error) {
	i := slices.IndexFunc(c.attached, func(l *loopDisk) bool { return l.ID == id })
	if i < 0 {
		return nil, fmt.Errorf("the container has no disk %q", id)
	}
	return c.attached[i], nil
}

// Detach takes the file from the loop device. While a filesystem on it is mounted the kernel keeps
// the file until it is unmounted (LOOP_CLR_FD in loop(4)): nothing pulls a loop device.
func (c *Container) Detach(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, err := c.find(id)
	if err != nil {
		return err
	}
	if err := unix.IoctlSetInt(int(l.device.Fd()), unix.LOOP_CLR_FD, 0); err != nil {
		return fmt.Errorf("cannot detach %s: %w", l.name(), err)
	}
	if node := c.node(l); node != "" {
		if err := os.Remove(node); err != nil {
			return fmt.Errorf("cannot detach %s: %w", l.name(), err)
		}
	}
	c.attached = slices.DeleteFunc(c.attached, func(x *loopDisk) bool { return x == l })
	return l.device.Close()
}

// Resize changes the size of a disk, and of its file, to size bytes.
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

// BlockDevice returns the kernel's name of the disk, such as loop100.
func (c *Container) BlockDevice(_ context.Context, id string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, err := c.find(id)
	if err != nil {
		return "", err
	}
	return l.name(), nil
}

// Put copies a local file, with its mode, to remote. Directories are made.
func (c *Container) Put(ctx context.Context, local, remote string) error {
	f, err := os.Open(local)
	if err != nil {
		return fmt.Errorf("cannot copy to the container: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("cannot copy to the container: %w", err)
	}
	return c.write(ctx, f, remote, info.Mode())
}

// Write makes the file remote, with its directories, of data.
func (c *Container) Write(ctx context.Context, remote string, data []byte, mode os.FileMode) error {
	return c.write(ctx, strings.NewReader(string(data)), remote, mode)
}

func (c *Container) write(ctx context.Context, from io.Reader, remote string, mode os.FileMode) error {
	return c.exec(ctx, "write "+remote, writeScript(remote, mode), from, io.Discard)
}

// Get copies the container's file remote to local.
func (c *Container) Get(ctx context.Context, remote, local string) error {
	f, err := os.Create(local)
	if err != nil {
		return fmt.Errorf("cannot copy from the container: %w", err)
	}
	return errors.Join(c.exec(ctx, "read "+remote, "cat "+shellQuote(remote), nil, f), f.Close())
}

// Install installs a package.
func (c *Container) Install(ctx context.Context, deb string) error { return installDeb(ctx, c, deb) }

// BootID returns an identifier of the current boot: the start of its systemd, in clock ticks of the host.
func (c *Container) BootID(ctx context.Context) (string, error) {
	out, err := c.Run(ctx, "stat -c %Y.%i /proc/1/ns/pid")
	return strings.TrimSpace(out), err
}

// WaitBooted waits until systemd has no start job left. It returns the word for the state: running,
// or degraded where a unit has failed.
func (c *Container) WaitBooted(ctx context.Context) (string, error) {
	out, err := c.Run(ctx, "systemctl is-system-running --wait || true")
	return strings.TrimSpace(out), err
}

// Serial returns what the container's first process printed before it was systemd.
func (c *Container) Serial() (string, error) {
	b, err := os.ReadFile(filepath.Join(c.work.path, "boot.log"))
	return string(b), err
}

// SaveLogs copies the container's journal and state to dir.
func (c *Container) SaveLogs(ctx context.Context, dir string) error {
	return saveLogs(ctx, c, dir, filepath.Join(c.work.path, "boot.log"))
}
