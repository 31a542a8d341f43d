package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
	"hotmount/internal/run"
	"hotmount/internal/unit"
)

func (u units) Mount(ctx context.Context, f *disk.Facts, class *disk.Class, uuid, fstype string) error {
	path := class.MountPoint(uuid)
	arrived, forget := u.mounting.expect(path, f.Dev)
	defer forget()
	requestedAt := u.host.Monotonic()
	over, err := u.requestMount(ctx, f, class, uuid, fstype)
	// An existing mount unit belongs to the previous mount, or was started by an earlier daemon or by a request whose
	// answer was lost. The earlier daemon may have ended while the log of the filesystem was being recovered.
	exists := errors.Is(err, unit.ErrExists)
	var held error
	if exists {
		held = u.CheckHeldBack(path)
	}
	if err == nil || exists {
		err = await(ctx, path, arrived, u.MountEnded)
	}
	over()
	var failed *unit.JobError
	if errors.As(err, &failed) {
		if held != nil {
			// Perhaps PID 1 has not started this mount, because a batch of mounts has not ended
			// (unit.Manager.CheckHeldBack). If PID 1 has not started the mount, the disk is not at fault, and the mount
			// may still need its mount point later.
			return disk.OfNode(fmt.Errorf("cannot mount %s: %w", f.ID, held))
		}
		a := readAttempt(ctx, run.Exec{}, u.host, f, class, failed.Unit, requestedAt)
		above, askErr := u.MissingAbove(ctx, path, a.result)
		if above != "" {
			err = disk.OfNode(fmt.Errorf("cannot mount %s: systemd requires %s for this mount, but %[2]s is not mounted; the disk is not the cause; to see the cause: systemctl status %[2]s; if %[2]s is not needed: remove it from /etc/fstab, then: systemctl daemon-reload", f.ID, above))
		} else {
			err = errors.Join(a.failure(f, class, fstype, failed.Unit, u.host.Store.Holders(uuid)), askErr)
		}
		// After a failed mount, PID 1 starts hotmount-cleanup@.service for the mount point. Run waits for the end of
		// this unit, because the cleanup must end before the next attempt.
		err = errors.Join(err, u.Manager.Run(ctx, disk.ProgramCleanup, f.ID, path))
	}
	if err == nil {
		// The mount of an XFS filesystem succeeds only when all processes that used the filesystem earlier have closed
		// it. Users of an ext4 filesystem on a detached disk do not prevent its mount, and no message names them.
		err = disk.OfNode(u.host.Store.ForgetHolders(uuid))
	}
	return err
}

// requestMount makes the mount point and asks PID 1 to mount the filesystem. requestMount returns when PID 1 has
// received the request. When the caller no longer waits for the mount, it must call the returned function.
func (u units) requestMount(ctx context.Context, f *disk.Facts, class *disk.Class, uuid, fstype string) (over func(), err error) {
	over = func() {}
	if err := u.host.Propagates(class.Directory); err != nil {
		return over, disk.OfNode(err)
	}
	path := class.MountPoint(uuid)
	// The error of the wait for the cleanup is ignored, because the next steps fail if the directory cannot be used.
	_ = u.AwaitCleanup(ctx, path)
	err = u.host.Store.WithReserve(func() error { return unit.MakeMountPoint(class.Directory, uuid) })
	if err != nil {
		return over, disk.OfNode(withRemedy(err, class.Directory))
	}
	serial := "no serial"
	if f.Serial != "" {
		serial = "serial " + disk.Visible(f.Serial)
	}
	return u.StartMount(ctx, unit.MountUnit{
		ID: f.ID, Path: path, Type: fstype, Options: class.MountOptions(fstype), Timeout: unit.MountTimeout,
		Description: fmt.Sprintf("%s %s on %s (%s, %s)", fstype, uuid, f.Node(), serial, disk.HumanSize(f.Size)),
	})
}

// withRemedy adds a remedy to an error about a mount point in a directory that is missing, full or read-only. Only
// hotmount doctor can find out whether the directory is read-only for every process or only in the daemon's sandbox
// (ProtectSystem= in systemd.exec(5)).
func withRemedy(err error, dir string) error {
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("%w: the disk is untouched, and hotmount mounts it when there is room for a directory; to see what is full: df -h %s; df -i %[2]s", err, dir)
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w: the disk is untouched, and is mounted once its class directory exists; to make the directory: mkdir -p %s", err, dir)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w: the disk is untouched; hotmount mounts the disk when it can write to the directory; for the cause and the remedy: hotmount doctor", err)
	}
	return err
}

// The function `await` waits for the time askFirst before it first checks whether the mount has failed. The wait
// doubles before each further check, up to askMost. Once the wait has grown to askSure, each check asks PID 1 even if
// the mount unit exists: PID 1 may keep a failed unit.
const (
	askFirst = time.Second
	askSure  = 8 * time.Second
	askMost  = 16 * time.Second
)

// await waits until the mount exists or its job has ended. During the wait, await has no connection to PID 1, because
// PID 1 sends each change of each unit to a connected process.
func await(ctx context.Context, path string, arrived <-chan struct{}, ended func(ctx context.Context, path string, sure bool) (bool, error)) error {
	for wait := askFirst; ; wait = min(2*wait, askMost) {
		select {
		case <-arrived:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("cannot wait for %s: %w", unit.Name(path), context.Cause(ctx))
		case <-time.After(wait):
		}
		if over, err := ended(ctx, path, wait >= askSure); over || err != nil {
			return err
		}
	}
}

// During many mounts and unmounts, PID 1 reads the mount table at most five times a second (mount_enumerate in systemd's
// src/core/mount.c). After the fifth time, PID 1 waits until this second is over. Until PID 1 has seen the mount of a
// mount unit, PID 1 regards the unit as stopped.
const (
	seenAfter = time.Second
	seenTries = 4
)

// untilUnmounted stops a mount unit again and again until its mount is gone, at most seenTries times.
func untilUnmounted(ctx context.Context, stop func() error, there func() (bool, error)) error {
	for try := 1; ; try++ {
		if err := stop(); err != nil {
			return err
		}
		if still, err := there(); !still || err != nil || try == seenTries {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(seenAfter):
		}
	}
}

// arrivals contains the mounts for which goroutines wait. A goroutine wakes when the mount table shows its mount.
type arrivals struct {
	mu      sync.Mutex
	waiting map[arrival]chan struct{}
}

type arrival struct {
	path string
	dev  disk.Dev
}

// expect returns a channel that is closed when the mount table shows the device at the path.
func (a *arrivals) expect(path string, dev disk.Dev) (arrived <-chan struct{}, forget func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key, c := arrival{path, dev}, make(chan struct{})
	if a.waiting == nil {
		a.waiting = map[arrival]chan struct{}{}
	}
	a.waiting[key] = c
	return c, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.waiting, key)
	}
}

// compareTable wakes the goroutines whose expected mounts are in the present mount table.
func (a *arrivals) compareTable(table []mounts.Mount) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, c := range a.waiting {
		if slices.ContainsFunc(table, func(m mounts.Mount) bool { return m.Dev == key.dev && m.Path == key.path }) {
			close(c)
			delete(a.waiting, key)
		}
	}
}
