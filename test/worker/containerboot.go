package worker

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed recipe/container.sh
var bootScript string

// PowerOn boots the container with its previous files and disks, and waits until systemd answers.
func (c *Container) PowerOn(ctx context.Context) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.init != nil {
		return errors.New("cannot switch the container on: it is on")
	}
	if err := c.group.recreate(); err != nil {
		return err
	}
	if err := c.startInit(); err != nil {
		return err
	}
	if err := c.awaitSystemd(ctx); err != nil {
		return err
	}
	if c.harness, err = os.Open(c.group.harnessDir()); err != nil {
		return fmt.Errorf("cannot open a cgroup: %w", err)
	}
	return nil
}

// bootLog returns the path of the container's boot log. The boot log contains what the container's first process writes
// before this process becomes systemd.
func (c *Container) bootLog() string { return filepath.Join(c.work.path, "boot.log") }

// startInit starts the process that becomes systemd. The caller holds c.mu.
func (c *Container) startInit() error {
	dir, err := os.Open(c.group.insideDir())
	if err != nil {
		return fmt.Errorf("cannot switch the container on: %w", err)
	}
	defer dir.Close()
	log, err := os.Create(c.bootLog())
	if err != nil {
		return fmt.Errorf("cannot switch the container on: %w", err)
	}
	defer log.Close()
	var nodes []string
	for _, l := range c.attached {
		nodes = append(nodes, strconv.Itoa(l.number))
	}
	cmd := exec.Command("bash", "-c", bootScript)
	cmd.Env = []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LOWER=" + c.lower, "MEMORY=" + c.work.memory(), "NAME=" + c.o.Name,
		"NODES=" + strings.Join(nodes, " "), "ARGS=" + strings.Join(c.o.KernelArgs, " "),
		"CAPABILITIES=" + foreignCapabilities, "BACKING=" + strings.Join(c.o.BackingDirs, " "),
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET | syscall.CLONE_NEWCGROUP,
		// clone3(2) starts the process in this cgroup (since Linux 5.7), so that this cgroup is the root of the new
		// cgroup namespace.
		UseCgroupFD: true, CgroupFD: int(dir.Fd()),
	}
	c.init, err = startProcess("the container's systemd", cmd)
	return err
}

// awaitSystemd waits until the container's PID 1 is systemd and answers. The caller holds c.mu.
func (c *Container) awaitSystemd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // enough time even on an emulated processor
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !answers(c.init.cmd.Process.Pid) {
		var err error
		select {
		case <-c.init.done:
			err = c.init.err
		case <-ctx.Done():
			err = ctx.Err()
		case <-tick.C:
			continue
		}
		said, _ := os.ReadFile(c.bootLog())
		return fmt.Errorf("cannot boot the container: %w: %s", err, said)
	}
	return nil
}

// The function `answers` reports whether the process is systemd and has made its private socket. The socket alone
// proves nothing: the container's boot script begins in the host's root directory, which contains the private socket of
// the host's systemd.
func answers(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && filepath.Base(exe) == "systemd" && exists(fmt.Sprintf("/proc/%d/root/run/systemd/private", pid))
}

// killAll kills all processes of the container and waits until they are gone.
func (c *Container) killAll() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if c.init != nil {
		c.init.kill()
		c.init = nil
	}
	if c.harness != nil {
		err = c.harness.Close()
		c.harness = nil
	}
	return err
}

// PowerCut always returns an error. A container cannot lose writes in a power cut, because the host's kernel continues
// to run.
func (c *Container) PowerCut(context.Context) error {
	return errors.New("cannot cut a container's power: it needs the virtual machine")
}

// Reboot shuts the container down through systemd, and boots it again with the same disks.
func (c *Container) Reboot(ctx context.Context) error {
	if err := c.Shutdown(ctx); err != nil {
		return err
	}
	return c.PowerOn(ctx)
}

// Shutdown switches the container off through systemd, and waits until it is off.
func (c *Container) Shutdown(ctx context.Context) error {
	if _, err := c.Run(ctx, "systemctl --no-block poweroff"); err != nil {
		return fmt.Errorf("cannot shut down the container: %w", err)
	}
	c.mu.Lock()
	init := c.init
	c.mu.Unlock()
	if init != nil {
		if err := init.wait(ctx); err != nil {
			return fmt.Errorf("cannot shut down the container: %w", err)
		}
	}
	return c.killAll()
}
