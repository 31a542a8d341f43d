package mounts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Watch calls changed() at the start and after each mount, unmount or remount in PID 1's mount namespace. If the mount
// table changes during a call of changed(), Watch calls changed() once more. Watch may also call changed() without a
// change of the mount table. Watch returns nil when the context ends.
//
// If Watch cannot open PID 1's mount table, Watch watches the mount table of this process. The mount option hidepid=
// (proc(5)) can hide PID 1's mount table from users other than root. Mounts by systemd also change the mount table of
// this process, because the mounts propagate to this process's mount namespace.
func Watch(ctx context.Context, changed func()) error {
	if err := watch(ctx, changed, tablePath, ownTablePath); err != nil {
		return fmt.Errorf("cannot watch the mount table: %w", err)
	}
	return nil
}

func watch(ctx context.Context, changed func(), paths ...string) error {
	table, err := openFirst(paths)
	if err != nil {
		return err
	}
	defer table.Close()
	conn, err := table.SyscallConn()
	if err != nil {
		return err
	}
	// When the context ends, the deadline makes conn.Read return an error.
	defer context.AfterFunc(ctx, func() { _ = table.SetReadDeadline(time.Now()) })()
	// The kernel wakes Go's poller at each change of the mount table (mounts_poll in fs/proc_namespace.c). After each
	// wakeup, conn.Read calls the function again, so one call of conn.Read is enough for all changes. A change while
	// the function runs also wakes the poller.
	err = conn.Read(func(uintptr) (done bool) {
		if ctx.Err() == nil {
			changed()
		}
		return ctx.Err() != nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func openFirst(paths []string) (*os.File, error) {
	var failed error
	for _, path := range paths {
		table, err := os.Open(path)
		if err == nil {
			return table, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}
