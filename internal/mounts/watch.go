package mounts

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Watch calls changed once at the start and then each time something was
// mounted, unmounted or remounted in PID 1's mount namespace, until the context
// ends, which is no error. Changes that come while changed runs make one more
// call.
//
// Where PID 1's table cannot be opened (hidepid= in proc(5) hides it from who
// is not root), this process's own is watched: what systemd mounts propagates
// into it, which is all that a hint has to tell.
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
	// Go's own poller knows no POLLPRI, which is how the kernel tells of a
	// change (proc_pid_mountinfo(5)); so poll(2), woken by a descriptor of ours.
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
	// Opening the table began the watch: a change from here on is not missed.
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

// openFirst opens the first path that can be. Not by os.Open, which would have
// Go's poller watch the descriptor as well: a change is told once for each open
// file (mounts_poll in the kernel's fs/proc_namespace.c), and whoever of the two
// asked first would take it from the other.
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
