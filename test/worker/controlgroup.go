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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
	"github.com/moby/sys/mountinfo"
)

// controlGroup is the cgroup2 directory of a container. The subdirectory "inside" is for the container's own processes,
// and is the root of the container's cgroup namespace. The subdirectory "harness" is for processes that the host starts
// inside the container.
type controlGroup struct {
	dir string
	// The field `holder` is a process that keeps the cgroup's systemd scope active, or nil if the host does not run
	// systemd.
	holder *process
}

func (g *controlGroup) insideDir() string  { return filepath.Join(g.dir, "inside") }
func (g *controlGroup) harnessDir() string { return filepath.Join(g.dir, "harness") }

// newControlGroup makes a cgroup. If the host runs systemd, which owns the cgroup hierarchy, the cgroup is a delegated
// scope (systemd's CGROUP_DELEGATION). newControlGroup calls made() with the cgroup's directory, and then makes the
// subdirectories.
func newControlGroup(ctx context.Context, name string, made func(dir string) error) (_ *controlGroup, err error) {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup2"))
	if err != nil {
		return nil, fmt.Errorf("cannot find cgroup2: %w", err)
	}
	if len(mounts) == 0 {
		return nil, errors.New("cannot find cgroup2: it is not mounted")
	}
	top := mounts[0].Mountpoint
	g := &controlGroup{dir: filepath.Join(top, name)}
	if exists("/run/systemd/system") {
		if g, err = newScope(ctx, top, name+".scope"); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(made(g.dir), g.fill()); err != nil {
		return nil, errors.Join(err, g.remove())
	}
	return g, nil
}

// newScope asks the host's systemd for a scope with a process that keeps the scope active.
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

// The method `fill` makes the subdirectories "inside" and "harness", and enables all available cgroup controllers in both
// subdirectories.
func (g *controlGroup) fill() error {
	for _, dir := range []string{g.insideDir(), g.harnessDir()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("cannot make a cgroup: %w", err)
		}
	}
	// A cgroup that enables controllers for its children cannot contain processes, so the scope's process moves to
	// "harness".
	if g.holder != nil {
		pid := strconv.Itoa(g.holder.cmd.Process.Pid)
		if err := os.WriteFile(filepath.Join(g.harnessDir(), "cgroup.procs"), []byte(pid), 0); err != nil {
			return fmt.Errorf("cannot use the scope: %w", err)
		}
	}
	controllers, err := os.ReadFile(filepath.Join(g.dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("cannot read the cgroup's controllers: %w", err)
	}
	for _, c := range strings.Fields(string(controllers)) {
		if err := os.WriteFile(filepath.Join(g.dir, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return fmt.Errorf("cannot pass the controller %s on: %w", c, err)
		}
	}
	return nil
}

// The method `recreate` replaces the subdirectory "inside" by a new cgroup, after the container's systemd has ended.
func (g *controlGroup) recreate() error {
	if err := removeGroups(g.insideDir()); err != nil {
		return err
	}
	if err := os.Mkdir(g.insideDir(), 0o755); err != nil {
		return fmt.Errorf("cannot make a cgroup: %w", err)
	}
	return nil
}

// The method `remove` kills the remaining processes in the cgroup and removes the cgroup.
func (g *controlGroup) remove() error {
	if g.holder != nil {
		g.holder.kill()
		g.holder = nil
	}
	return endGroup(g.dir)
}

// endGroup kills all processes in a container's cgroup and removes the cgroup. endGroup asks the host's systemd to stop
// the scope, because systemd can fail to notice an empty scope.
func endGroup(dir string) error {
	if scope := filepath.Base(dir); exists("/run/systemd/system") && strings.HasSuffix(scope, ".scope") {
		if err := killGroup(dir); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if _, err := command(ctx, nil, "systemctl", "stop", scope); err != nil && !strings.Contains(err.Error(), "not loaded") {
			return err
		}
	}
	return removeGroups(dir)
}

// killGroup kills all processes in a cgroup, unless the cgroup is removed at the same time. Before Linux 5.14, which added
// cgroup.kill, killGroup does nothing. On an older kernel no process remains, because the kernel kills a container's
// processes when the container's PID 1 ends.
func killGroup(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0); err != nil && !isRemoved(err) {
		return fmt.Errorf("cannot end what runs in the cgroup %s: %w", dir, err)
	}
	return nil
}

// isRemoved reports whether the error of a cgroup's file means that the cgroup does not exist. The error is ENODEV if
// the cgroup was removed while its file was open: systemd removes a scope as soon as the scope is empty.
func isRemoved(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

// removeGroups kills all processes in a cgroup, waits until they are gone, and removes the cgroup and its descendants.
func removeGroups(dir string) error {
	if err := killGroup(dir); err != nil {
		return err
	}
	return poll(10*time.Second, func() error { return removeEmpty(dir) })
}

func removeEmpty(dir string) error {
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the cgroup %s: %w", dir, err)
	}
	for _, path := range slices.Backward(all) {
		if err := syscall.Rmdir(path); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("cannot remove the cgroup %s: %w", path, err)
		}
	}
	return nil
}
