package mounts

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Watch calls changed once at the start and after each mount, unmount or remount in PID 1's mount namespace. Changes
// during a call cause one more call. Watch returns nil when the context ends.
//
// If it cannot open PID 1's table, it watches this process's own. hidepid= in proc(5) hides PID 1's from all but root.
// The mounts of systemd propagate into this process's table, which is enough for a hint.
func Watch(ctx context.Context, changed func()) error {
	if err := watch(ctx, changed, tablePath, ownTablePath); err != nil {
		return fmt.Errorf("cannot watch mount table: %w", err)
	}
	return nil
}

func watch(ctx context.Context, changed func(), paths ...string) error {
	table, err := openFirst(paths)
	if err != nil {
		return err
	}
	defer unix.Close(table)
	// Go's own poller does not support POLLPRI, by which the kernel reports a change (proc_pid_mountinfo(5)). So this
	// uses poll(2), and an eventfd to wake it.
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	defer unix.Close(wake)
	woken := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		_, err := unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		woken <- err
	})
	fds := []unix.PollFd{
		{Fd: int32(table), Events: unix.POLLPRI | unix.POLLERR},
		{Fd: int32(wake), Events: unix.POLLIN},
	}
	// The watch began when the table was opened, so no change from here on is missed.
	if ctx.Err() == nil {
		changed()
	}
	for ctx.Err() == nil && err == nil {
		_, err = unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			err = nil
		case err != nil:
			err = os.NewSyscallError("poll", err)
		case fds[0].Revents&unix.POLLNVAL != 0:
			err = errors.New("poll: the table's descriptor is not open")
		case fds[0].Revents != 0 && ctx.Err() == nil:
			changed()
		}
	}
	if !stop() {
		err = errors.Join(err, os.NewSyscallError("write", <-woken))
	}
	return err
}

// openFirst opens the first path that it can. It avoids os.Open, because Go's poller would then watch the descriptor
// too. The kernel reports a change once for each open file (mounts_poll in fs/proc_namespace.c), so the poller could
// take the notice.
func openFirst(paths []string) (int, error) {
	var failed error
	for _, path := range paths {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			return fd, nil
		}
		failed = errors.Join(failed, &os.PathError{Op: "open", Path: path, Err: err})
	}
	return -1, failed
}
