package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
	"github.com/moby/sys/mountinfo"
)

// controlGroup is the cgroup2 directory that a container's processes are in.
type controlGroup struct {
	dir string
	// holder is the first process of a scope, nil elsewhere. It keeps the scope until the container's first
	// process is there.
	holder *process
}

// newControlGroup makes one. Where the host runs systemd, which owns the hierarchy, it is that of a delegated
// scope (systemd's CGROUP_DELEGATION).
func newControlGroup(ctx context.Context, name string) (*controlGroup, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup2"))
	if err != nil {
		return nil, fmt.Errorf("cannot find cgroup2: %w", err)
	}
	if len(mounts) == 0 {
		return nil, errors.New("cannot find cgroup2: it is not mounted")
	}
	top := mounts[0].Mountpoint
	if exists("/run/systemd/system") {
		return newScope(ctx, top, name+".scope")
	}
	g := &controlGroup{dir: filepath.Join(top, name)}
	if err := os.Mkdir(g.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("cannot make a cgroup: %w", err)
	}
	return g, nil
}

// newScope has the host's systemd make a scope, which begins with a process.
func newScope(ctx context.Context, top, name string) (_ *controlGroup, err error) {
	conn, err := dbus.NewSystemdConnectionContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot ask systemd for a scope: %w", err)
	}
	defer conn.Close()
	holder, err := startProcess("the scope's first process", exec.Command("sleep", "infinity"))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			holder.kill()
		}
	}()
	pid := holder.cmd.Process.Pid
	done := make(chan string, 1)
	if _, err := conn.StartTransientUnitContext(ctx, name, "replace", []dbus.Property{
		dbus.PropDescription("A container of hotmount's tests"), dbus.PropPids(uint32(pid)), {Name: "Delegate", Value: godbus.MakeVariant(true)},
	}, done); err != nil {
		return nil, fmt.Errorf("cannot ask systemd for a scope: %w", err)
	}
	select {
	case result := <-done:
		if result != "done" {
			return nil, fmt.Errorf("cannot make a scope: systemd's job has ended %q", result)
		}
	case <-ctx.Done():
		return nil, fmt.Errorf("cannot make a scope: %w", ctx.Err())
	}
	for _, line := range lines(fmt.Sprintf("/proc/%d/cgroup", pid)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return &controlGroup{dir: filepath.Join(top, path), holder: holder}, nil
		}
	}
	return nil, fmt.Errorf("cannot find the cgroup of %s", name)
}

// begun ends what has kept the cgroup until a process of the container was there.
func (g *controlGroup) begun() {
	if g.holder != nil {
		g.holder.kill()
		g.holder = nil
	}
}

// remove waits until the kernel has no process in the cgroup any more, and removes it.
func (g *controlGroup) remove() error {
	g.begun()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); ; <-tick.C {
		err := removeGroups(g.dir)
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(end) {
			return err
		}
	}
}

// removeGroups removes a cgroup and all below it.
func removeGroups(dir string) error {
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the container's cgroup: %w", err)
	}
	for _, path := range slices.Backward(all) {
		if err := syscall.Rmdir(path); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("cannot remove the cgroup %s: %w", path, err)
		}
	}
	return nil
}
