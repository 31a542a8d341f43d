package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// containerBase is the directory with one subdirectory and one lock file for each container of this machine.
const containerBase = "/run/hotmount-container"

// containerWork is a container's directory below containerBase. The directory records the loop devices and the cgroup
// of the container, so that the next container can remove the leftovers of a killed process. The process that runs the
// container holds the lock of the directory.
type containerWork struct {
	name, path string
	lock       *os.File
}

// The method `memory` returns the path of the tmpfs that receives the container's writes. The container's disk files are
// in the subdirectory "disks" of the tmpfs.
func (w *containerWork) memory() string { return filepath.Join(w.path, "memory") }

// takeWork reserves the given container name, or a free name if the name is empty, and makes the container's directory.
// The caller holds the lock of containerBase.
func takeWork(name string) (_ *containerWork, err error) {
	names := []string{name}
	if name == "" {
		names = nil
		for i := range 1000 {
			names = append(names, fmt.Sprintf("c%d", i))
		}
	}
	w := &containerWork{}
	for _, w.name = range names {
		if w.lock, err = flock(filepath.Join(containerBase, w.name+".lock"), lockExclusive); !errors.Is(err, errLocked) {
			break
		}
	}
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("there is a container %s already", w.name)
	}
	if err != nil {
		return nil, err
	}
	w.path = filepath.Join(containerBase, w.name)
	if err := w.fill(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot make a working directory: %w", err), w.remove())
	}
	return w, nil
}

func (w *containerWork) fill() error {
	if err := os.MkdirAll(w.memory(), 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", w.memory(), "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("cannot mount a tmpfs at %s: %w", w.memory(), err)
	}
	for _, dir := range []string{"upper", "overlay", "root", "disks"} {
		if err := os.Mkdir(filepath.Join(w.memory(), dir), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// The method `note` records a resource of the host in the container's directory, before the container uses the resource.
func (w *containerWork) note(what, text string) error {
	if err := os.WriteFile(filepath.Join(w.path, what), []byte(text+"\n"), 0o644); err != nil {
		return fmt.Errorf("cannot note what the container has: %w", err)
	}
	return nil
}

// The method `remove` deletes what an ended container has left on the host. The container's directory is deleted last,
// because the directory records what must be removed.
func (w *containerWork) remove() error {
	defer w.lock.Close()
	var errs []error
	for _, dir := range lines(filepath.Join(w.path, "group")) {
		errs = append(errs, endGroup(dir))
	}
	for _, line := range lines(filepath.Join(w.path, "loops")) {
		var first, count int
		if _, err := fmt.Sscanf(line, "%d %d", &first, &count); err != nil {
			errs = append(errs, fmt.Errorf("cannot read the note of loop devices: %w", err))
			continue
		}
		errs = append(errs, removeLoops(first, count))
	}
	// EINVAL means that the tmpfs is not mounted.
	if err := unix.Unmount(w.memory(), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, fmt.Errorf("cannot unmount %s: %w", w.memory(), err))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return os.RemoveAll(w.path)
}

// lockContainers prevents other processes from making or cleaning containers until the caller closes the returned lock
// file.
func lockContainers(ctx context.Context) (*os.File, error) {
	if err := os.MkdirAll(containerBase, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make a working directory: %w", err)
	}
	return (&cache{dir: containerBase}).lock(ctx, ".all", lockExclusive)
}

// cleanContainers removes what the containers of killed processes have left on the host. The caller holds the lock of
// containerBase.
func cleanContainers() error {
	found, err := os.ReadDir(containerBase)
	if err != nil {
		return fmt.Errorf("cannot look for killed containers: %w", err)
	}
	var errs []error
	for _, f := range found {
		if !f.IsDir() {
			continue
		}
		lock, err := flock(filepath.Join(containerBase, f.Name()+".lock"), syscall.LOCK_EX)
		if errors.Is(err, errLocked) {
			continue
		}
		if err == nil {
			err = (&containerWork{path: filepath.Join(containerBase, f.Name()), lock: lock}).remove()
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cannot clean up after a killed container: %w", err)
	}
	return nil
}

// The function `lines` returns the non-empty lines of a file, or no lines if the file is unreadable.
func lines(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return slices.Collect(strings.FieldsFuncSeq(string(b), func(r rune) bool { return r == '\n' }))
}
