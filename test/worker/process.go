package worker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is a long-running child process. When the parent process ends for any reason, the kernel kills the child
// process.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has ended and was reaped
	err  error         // the result of Wait; valid once the channel `done` is closed
}

// startProcess starts a command that the kernel kills when the calling process ends.
//
// With PR_SET_PDEATHSIG, the kernel kills the child when the parent's thread ends, even if the parent process
// continues. The goroutine that starts the child therefore stays locked to its thread until the child has ended.
func startProcess(name string, cmd *exec.Cmd) (*process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr.Setpgid = true // a terminal's ^C reaches only the test, which cleans up
	p := &process{name: name, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	// At its end, this goroutine closes the channel p.done. The methods p.kill() and p.end() wait until p.done is
	// closed.
	go func() {
		runtime.LockOSThread() // the thread is never unlocked, and ends with the goroutine
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}
	return p, nil
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// The method `kill` ends the process at once and waits until the process is gone.
func (p *process) kill() {
	if p.running() {
		_ = p.cmd.Process.Kill() // the process may have ended already
	}
	<-p.done
}

// The method `end` sends SIGTERM to the process, and kills the process if it still runs after the given duration.
func (p *process) end(grace time.Duration) {
	if p.running() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	select {
	case <-p.done:
	case <-time.After(grace):
		p.kill()
	}
}

// The method `wait` waits until the process ends. If the context ends first, the method returns an error.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot wait for %s to end: %w", p.name, ctx.Err())
	}
}

// The function `command` runs a tool to its end and returns its standard output. If the tool fails, the error contains
// the tool's standard error.
func command(ctx context.Context, env []string, name string, args ...string) (string, error) {
	return runTool(ctx, &syscall.SysProcAttr{}, env, name, args...)
}

// The function `contained` runs a tool as command() does, but in new mount and PID namespaces. When the tool ends or is
// killed, no process and no mount of the tool remains. The caller must be root.
func contained(ctx context.Context, env []string, name string, args ...string) (string, error) {
	const script = `set -e; mount --make-rprivate /; mount -t proc proc /proc; "$@"`
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	return runTool(ctx, attr, env, "sh", append([]string{"-c", script, "sh", name}, args...)...)
}

func runTool(ctx context.Context, attr *syscall.SysProcAttr, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(append(os.Environ(), "LC_ALL=C.UTF-8"), env...)
	cmd.SysProcAttr = attr
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := ctx.Err(); err != nil {
		return "", toolError(ctx, name, args, "", err)
	}
	p, err := startProcess(name, cmd)
	if err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // kills the process group, which may have ended
	})
	<-p.done
	stop()
	if p.err != nil {
		return stdout.String(), toolError(ctx, name, args, stderr.String(), p.err)
	}
	return stdout.String(), nil
}

func toolError(ctx context.Context, name string, args []string, stderr string, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	what := strings.Join(append([]string{name}, args...), " ")
	if len(what) > 200 {
		what = what[:200] + "…"
	}
	if stderr = strings.TrimSpace(stderr); stderr != "" {
		return fmt.Errorf("cannot run %s: %w: %s", what, err, tail(stderr, 4000))
	}
	return fmt.Errorf("cannot run %s: %w", what, err)
}

// tail returns "…" and the last n bytes of s, or s itself if s has at most n bytes.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + s[len(s)-n:]
}
