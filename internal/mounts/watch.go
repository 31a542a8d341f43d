package mounts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Watch calls changed at the start and after each mount, unmount or remount in PID 1's mount namespace. A change during
// a call of changed causes one more call. A call may also come without a change. Watch returns nil when the context
// ends.
//
// If Watch cannot open PID 1's table, it watches the table of this process. hidepid= in proc(5) hides PID 1's table
// from all users but root. Mounts by systemd propagate into this process's table, which is enough for a hint.
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
	defer table.Close()
	conn, err := table.SyscallConn()
	if err != nil {
		return err
	}
	// The deadline ends Read when the context ends. Read also returns any error of the table.
	defer context.AfterFunc(ctx, func() { _ = table.SetReadDeadline(time.Now()) })()
	// The kernel wakes Go's poller at each change (mounts_poll in fs/proc_namespace.c), and Read then calls the
	// function again. A change during a call of the function also wakes the poller. One call of Read is therefore
	// enough for all changes.
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
