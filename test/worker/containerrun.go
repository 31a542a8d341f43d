package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// foreignCapabilities are the capabilities that a container does not get, in the syntax of setpriv(1). Kernel modules,
// hardware, the clock, audit and the kernel's log belong to the host.
const foreignCapabilities = "-sys_module,-sys_rawio,-sys_time,-syslog,-audit_control,-audit_read,-wake_alarm"

// Command returns a command that runs in all namespaces of the container, but in a cgroup beside the cgroup of the
// container's systemd. The caller sets the standard input and output of the command. The command ends when the context
// ends.
func (c *Container) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.harness == nil {
		return &exec.Cmd{Err: fmt.Errorf("cannot run %s: %w", name, errOff)}
	}
	enter := []string{
		"--target", strconv.Itoa(c.init.cmd.Process.Pid), "--pid", "--mount", "--uts", "--ipc", "--net", "--cgroup", "--wdns=/root",
		// With --pdeathsig, the kernel kills the command in the container when nsenter, which waits on the host, has
		// ended.
		"setpriv", "--pdeathsig=KILL", "--bounding-set=" + foreignCapabilities, "env", "-i",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "TERM=" + os.Getenv("TERM"), name,
	}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(c.harness.Fd())}
	return cmd
}

// Run runs a bash script as root, with -e and no input, and returns its standard output. guest.Run is the counterpart
// of Container.Run for virtual machines. If the script's exit code is not 0, the error is an [*ExitError].
func (c *Container) Run(ctx context.Context, script string) (string, error) {
	var out bytes.Buffer
	var err error
	if len(script) < maxArgument {
		err = c.exec(ctx, script, "set -e\n"+script, nil, &out)
	} else {
		err = c.exec(ctx, script, "f=$(mktemp); cat >$f; bash -e $f </dev/null", strings.NewReader(script), &out)
	}
	return out.String(), err
}

func (c *Container) exec(ctx context.Context, what, script string, stdin io.Reader, stdout io.Writer) error {
	cmd := c.Command(ctx, "bash", "-c", script)
	if cmd.Err != nil {
		return cmd.Err
	}
	// When the context ends, all processes in the script's process group are killed.
	cmd.SysProcAttr.Setpgid = true
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("cannot run %.100q in the container: %w", what, ctx.Err())
	case errors.As(err, &exit) && exit.Exited():
		e := &ExitError{Code: exit.ExitCode(), Script: what, Stderr: stderr.String()}
		if kept, ok := stdout.(*bytes.Buffer); ok {
			e.Stdout = kept.String()
		}
		return e
	}
	return fmt.Errorf("cannot run %.100q in the container: %w: %s", what, err, stderr.String())
}

// Put copies a local file, with its mode, to a remote path in the container. Put makes missing directories.
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

// Write writes data to the remote file in the container, and makes missing directories.
func (c *Container) Write(ctx context.Context, remote string, data []byte, mode os.FileMode) error {
	return c.write(ctx, bytes.NewReader(data), remote, mode)
}

func (c *Container) write(ctx context.Context, from io.Reader, remote string, mode os.FileMode) error {
	return c.exec(ctx, "write "+remote, writeScript(remote, mode), from, io.Discard)
}

// Get copies the remote file of the container to a local path.
func (c *Container) Get(ctx context.Context, remote, local string) error {
	f, err := os.Create(local)
	if err != nil {
		return fmt.Errorf("cannot copy from the container: %w", err)
	}
	return errors.Join(c.exec(ctx, "read "+remote, "cat "+shellQuote(remote), nil, f), f.Close())
}

// Install installs a package in the running container.
func (c *Container) Install(ctx context.Context, deb string) error { return installDeb(ctx, c, deb) }

// BootID returns the identifier of the container's PID namespace, because each boot has a new PID namespace. The
// kernel's own boot ID belongs to the host. A bind mount over boot_id in /proc would not help, because a service with
// ProtectProc= mounts its own /proc.
func (c *Container) BootID(ctx context.Context) (string, error) {
	out, err := c.Run(ctx, "readlink /proc/1/ns/pid")
	return strings.TrimSpace(out), err
}

// WaitBooted waits until systemd has finished all start jobs. WaitBooted returns "running", or "degraded" if a unit has
// failed.
func (c *Container) WaitBooted(ctx context.Context) (string, error) {
	out, err := c.Run(ctx, "systemctl is-system-running --wait || true")
	return strings.TrimSpace(out), err
}

// Serial returns what the container's first process wrote before this process became systemd. A container has no
// console.
func (c *Container) Serial() (string, error) {
	b, err := os.ReadFile(c.bootLog())
	if err != nil {
		return "", fmt.Errorf("cannot read the boot log: %w", err)
	}
	return string(b), nil
}

// SaveLogs saves the container's boot log, its journal, and lists of its units, mounts, disks and processes in dir.
// SaveLogs omits the kernel's log, which belongs to the host.
func (c *Container) SaveLogs(ctx context.Context, dir string) error {
	if c.work == nil {
		return nil
	}
	c.mu.Lock()
	running := c.harness != nil
	c.mu.Unlock()
	if !running {
		return saveLogs(ctx, nil, dir, filepath.Join(c.work.path, "boot.log"))
	}
	return saveLogs(ctx, c, dir, filepath.Join(c.work.path, "boot.log"))
}
