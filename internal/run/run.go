// Package run starts child processes and waits for them. For each child, package run requires an absolute path and a
// time limit, limits the output, and sets the environment.
package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limit is the largest output of a child in bytes, for each of its two streams. The children of hotmount print a few
// kilobytes.
const Limit = 1 << 20

// ErrOutput reports that the child printed more than Limit. The incomplete output is discarded.
var ErrOutput = fmt.Errorf("more than %d bytes of output", Limit)

// ErrTimeout reports that the child did not end within its time limit.
var ErrTimeout = errors.New("the command did not end in time")

// Command describes one child process.
type Command struct {
	// Path is the absolute path of the program. Run does not search PATH.
	Path string
	Args []string
	// Env is added to the default environment. Each entry has the form "KEY=value".
	Env []string
	// Timeout is the longest time that the child may run. Run refuses a Timeout of zero.
	Timeout time.Duration
}

// String returns the command line for people, not quoted for a shell.
func (c Command) String() string { return strings.Join(append([]string{c.Path}, c.Args...), " ") }

// Result is the result of a child that exited and was not killed.
type Result struct {
	Stdout, Stderr []byte
	ExitCode       int
	// Wrote is the number of bytes that the child wrote, as the kernel counted them. The kernel counts in units of 512
	// bytes (ru_oublock in getrusage(2)). The number is exact for direct I/O.
	Wrote uint64
}

// Runner runs a command to its end. An exit code other than zero is not an error, because the caller interprets the
// code. An error means that the command did not start, was killed by a signal or printed more than Limit. A command
// that has not ended at its time limit, or at the end of ctx, is also an error.
type Runner interface {
	Run(ctx context.Context, c Command) (Result, error)
}

// outputDelay is the longest time that Run reads the output of a child that has ended. When a child has ended, its
// output is complete, unless another process holds the output open. A bound of one second was too short on a slow
// machine that reads several disks.
const outputDelay = 5 * time.Second

// Exec is the Runner that starts real processes.
type Exec struct{}

// Run starts the command in its own process group and waits for its end. When ctx ends or the time limit is reached,
// Run kills the whole group. Nothing can kill a child that hangs in the kernel on dead storage, and Run waits for such
// a child too. A caller that must not hang calls Run in a separate process.
func (Exec) Run(ctx context.Context, c Command) (Result, error) {
	res, err := start(ctx, c)
	if err != nil {
		return Result{}, fmt.Errorf("cannot run %s: %w", c, err)
	}
	return res, nil
}

func start(ctx context.Context, c Command) (Result, error) {
	if !filepath.IsAbs(c.Path) {
		return Result{}, errors.New("the path is not absolute")
	}
	if c.Timeout <= 0 {
		return Result{}, errors.New("no time limit")
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("%w (%s)", ErrTimeout, c.Timeout))
	defer cancel()

	stdout, stderr := output{overflow: stop}, output{overflow: stop}
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"}, c.Env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = outputDelay
	cmd.Cancel = func() error { return killGroup(cmd) }
	// The child must not outlive this process. This process keeps the disk open, so that no other disk gets the disk's
	// name. The kernel sends Pdeathsig when the thread that started the child ends, so the goroutine keeps its thread
	// (PR_SET_PDEATHSIG in prctl(2)).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// Go closes its own descriptors in the child. CloseRange marks the descriptors that this process inherited from its
	// parent, so that the child does not get them (close_range(2), Linux 5.11).
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return Result{}, os.NewSyscallError("close_range", err)
	}

	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		// The output is still open, perhaps in a process that the child has started.
		err := killGroup(cmd)
		if errors.Is(err, syscall.ESRCH) {
			return Result{}, fmt.Errorf("the command's output was not read to the end within %s", outputDelay)
		}
		return Result{}, errors.Join(errors.New("the command left a process behind"), err)
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil && (err != nil || errors.Is(context.Cause(ctx), ErrOutput)):
		return Result{}, context.Cause(ctx)
	case errors.As(err, &exit) && exit.Exited():
	case err != nil:
		return Result{}, err
	}
	res := Result{Stdout: stdout.buf.Bytes(), Stderr: stderr.buf.Bytes(), ExitCode: cmd.ProcessState.ExitCode()}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		res.Wrote = 512 * uint64(usage.Oublock)
	}
	return res, nil
}

func killGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// output collects one of a child's output streams, at most Limit bytes. A child that writes more than Limit is killed.
// The buffer is not embedded, because io.Copy would call the ReadFrom of an embedded buffer instead of Write.
type output struct {
	buf      bytes.Buffer
	overflow context.CancelCauseFunc
}

func (o *output) Write(p []byte) (int, error) {
	if o.buf.Len()+len(p) > Limit {
		o.overflow(ErrOutput)
		return 0, ErrOutput
	}
	return o.buf.Write(p)
}
