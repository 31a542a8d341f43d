package worker

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ContainerOptions describe a [Container]. Of Options a container has Suite, Files, Deb, Setup, Dir
// and Progress; the others are a virtual machine's.
type ContainerOptions struct {
	Options
	// Name names its cgroup, its host and the directory /srv/Name of its disks. It is "try", say, and unique
	// on this machine. By default it is that of the working directory.
	Name string
	// Root is a root filesystem that ContainerRoot has made, a directory or a tarball of it. By
	// default the container has one made.
	Root string
	// Loops is how many loop devices it has, 32 by default.
	Loops int
	// BackingDirs are directories of the host. Files in them are disks to the class default, as
	// files in Disks are.
	BackingDirs []string
}

// Container is a Debian whose systemd is PID 1 of namespaces of its own, on this machine's kernel. Its disks are
// loop devices. A device filter keeps all other disks from it. It needs root.
type Container struct {
	o     ContainerOptions
	work  *workDir
	lower string // the root filesystem
	leave func() // it
	disks string // the host's name of the directory of disks
	first int

	mu       sync.Mutex
	init     *process
	group    *controlGroup // of this boot
	harness  *os.File      // the cgroup of what the host runs inside
	attached []*loopDisk
	used     map[int]bool // numbers of loop devices that had a disk
}

var (
	_ Machine = (*Container)(nil)
	_ Node    = (*Container)(nil)
)

//go:embed recipe/container.sh
var bootScript string

// StartContainer boots a container and installs what the options name. The caller must Stop it. When this process
// is killed, the kernel kills the container; what it leaves behind the next one removes.
func StartContainer(ctx context.Context, o ContainerOptions) (_ *Container, err error) {
	if os.Getuid() != 0 {
		return nil, errors.New("cannot start a container: only root can")
	}
	if o.Suite == "" {
		o.Suite = DefaultSuite
	}
	c := &Container{o: o, used: map[int]bool{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("cannot start a container: %w", err), c.Stop())
		}
	}()
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	if err := c.PowerOn(ctx); err != nil {
		return nil, err
	}
	if _, err := c.WaitBooted(ctx); err != nil {
		return nil, err
	}
	return c, c.install(ctx)
}

// prepare makes what stays from one boot of the container to the next.
func (c *Container) prepare(ctx context.Context) (err error) {
	if c.work, err = newWorkDir(); err != nil {
		return err
	}
	c.o.Name = cmp.Or(c.o.Name, filepath.Base(c.work.path))
	c.o.Loops = cmp.Or(c.o.Loops, 32)
	if c.lower, c.leave, err = containerLower(ctx, c.o, c.work.path); err != nil {
		return err
	}
	if c.disks, err = os.MkdirTemp("/dev/shm", workPrefix); err != nil {
		return fmt.Errorf("cannot make a directory for disks: %w", err)
	}
	if err := c.note("disks", c.disks); err != nil {
		return err
	}
	c.first, err = addLoops(c.o.Loops, func(n int) error { return c.note("loops", strconv.Itoa(n)) })
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.work.path, "boot.sh"), []byte(bootScript), 0o644)
}

// note adds a line to a file of the working directory, by which what a killed run has
// left is found.
func (c *Container) note(file, line string) error {
	f, err := os.OpenFile(filepath.Join(c.work.path, file), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("cannot note what the container has: %w", err)
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// install places the files, installs the package and runs the setup.
func (c *Container) install(ctx context.Context) error {
	files := c.o.Files
	if c.o.Deb != "" {
		files = append([]File{{Path: "/etc/hotmount/config.d/container.yaml", Data: []byte(c.Class())}}, files...)
	}
	for _, f := range files {
		if err := c.Write(ctx, f.Path, f.Data, cmp.Or(f.Mode, 0o644)); err != nil {
			return err
		}
	}
	if c.o.Deb != "" {
		if err := c.Install(ctx, c.o.Deb); err != nil {
			return err
		}
	}
	if c.o.Setup != "" {
		if _, err := c.Run(ctx, c.o.Setup); err != nil {
			return err
		}
	}
	return nil
}

// Class returns a configuration whose only class has the container's disks.
func (c *Container) Class() string {
	return "classes:\n- name: default\n  directory: /mnt/disks\n" + c.Selectors("  ")
}

// Selectors returns the lines of a class that select the container's disks, indented so.
func (c *Container) Selectors(indent string) string {
	var patterns []string
	for _, dir := range append([]string{c.Disks(), c.disks}, c.o.BackingDirs...) {
		patterns = append(patterns, strconv.Quote(dir+"/*"))
	}
	return indent + `names: ["loop*"]` + "\n" + indent + "backing_file: [" + strings.Join(patterns, ", ") + "]\n"
}

// First returns the number of its first loop device.
func (c *Container) First() int { return c.first }

// Loops returns how many loop devices it has, with numbers in a row.
func (c *Container) Loops() int { return c.o.Loops }

// Disks returns the directory inside the container for files of disks. It lies in memory.
func (c *Container) Disks() string { return "/srv/" + c.o.Name }

// HostDisks returns the host's name of the same directory.
func (c *Container) HostDisks() string { return c.disks }

// PowerOn boots the container, with the same files and disks, and waits until systemd answers.
func (c *Container) PowerOn(ctx context.Context) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.init != nil {
		return errors.New("cannot switch the container on: it is on")
	}
	if c.group, err = newControlGroup(ctx, "hotmount-"+c.o.Name); err != nil {
		return err
	}
	if err := c.note("group", c.group.dir); err != nil {
		return err
	}
	devices := slices.Clone(basicDevices)
	for n := c.first; n < c.first+c.o.Loops; n++ {
		devices = append(devices, device{true, loopMajor, int32(n)})
	}
	if err := allowDevices(c.group.dir, devices); err != nil {
		return err
	}
	if err := c.startInit(); err != nil {
		return err
	}
	c.group.begun()
	if err := c.awaitSystemd(ctx); err != nil {
		return err
	}
	// Beside systemd's own cgroups, which it leaves alone.
	harness := filepath.Join(c.group.dir, "harness")
	if err := os.Mkdir(harness, 0o755); err != nil {
		return fmt.Errorf("cannot make a cgroup: %w", err)
	}
	if c.harness, err = os.Open(harness); err != nil {
		return fmt.Errorf("cannot open a cgroup: %w", err)
	}
	return nil
}

// startInit starts what becomes systemd. c.mu is held.
func (c *Container) startInit() error {
	dir, err := os.Open(c.group.dir)
	if err != nil {
		return fmt.Errorf("cannot switch the container on: %w", err)
	}
	defer dir.Close()
	log, err := os.Create(filepath.Join(c.work.path, "boot.log"))
	if err != nil {
		return fmt.Errorf("cannot switch the container on: %w", err)
	}
	defer log.Close()
	var nodes []string
	for _, d := range c.attached {
		nodes = append(nodes, strconv.Itoa(d.number))
	}
	cmd := exec.Command("bash", filepath.Join(c.work.path, "boot.sh"))
	cmd.Env = []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LOWER=" + c.lower, "WORK=" + c.work.path, "NAME=" + c.o.Name, "DISKS=" + c.disks,
		"NODES=" + strings.Join(nodes, " "),
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET | syscall.CLONE_NEWCGROUP,
		// The cgroup is joined first, so that it is the root of the cgroup namespace.
		UseCgroupFD: true, CgroupFD: int(dir.Fd()),
	}
	c.init, err = startProcess("the container's systemd", cmd)
	return err
}

// awaitSystemd waits until PID 1 is systemd and answers. c.mu is held.
func (c *Container) awaitSystemd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	socket := fmt.Sprintf("/proc/%d/root/run/systemd/private", c.init.cmd.Process.Pid)
	for !exists(socket) {
		select {
		case <-c.init.done:
		case <-ctx.Done():
		case <-tick.C:
			continue
		}
		said, _ := os.ReadFile(filepath.Join(c.work.path, "boot.log"))
		return fmt.Errorf("cannot boot the container: %w: %s", errors.Join(ctx.Err(), c.init.err), said)
	}
	return nil
}

// PowerCut ends all processes of the container at once. What its systemd has mounted is unmounted by
// the kernel, so its disks lose nothing.
func (c *Container) PowerCut(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.init != nil {
		c.init.kill()
		c.init = nil
	}
	if c.harness != nil {
		c.harness.Close()
		c.harness = nil
	}
	if c.group == nil {
		return nil
	}
	group := c.group
	c.group = nil
	return group.remove()
}

// Shutdown has systemd end what runs, and waits until the container is off.
func (c *Container) Shutdown(ctx context.Context) error {
	if _, err := c.Run(ctx, "systemctl --no-block poweroff"); err != nil {
		return fmt.Errorf("cannot shut the container down: %w", err)
	}
	c.mu.Lock()
	init := c.init
	c.mu.Unlock()
	if init != nil {
		if err := init.wait(ctx); err != nil {
			return fmt.Errorf("cannot shut the container down: %w", err)
		}
	}
	return c.PowerCut(ctx)
}

// Reboot shuts the container down and boots it anew.
func (c *Container) Reboot(ctx context.Context) error {
	if err := c.Shutdown(ctx); err != nil {
		return err
	}
	return c.PowerOn(ctx)
}

// Stop ends the container and removes what it has left on the host.
func (c *Container) Stop() error {
	errs := []error{c.PowerCut(context.Background())}
	for _, d := range c.attached {
		errs = append(errs, d.device.Close())
	}
	if c.work != nil {
		errs = append(errs, cleanContainer(c.work.path), c.work.remove())
	}
	if c.leave != nil {
		c.leave()
	}
	return errors.Join(errs...)
}

// cleanContainer removes what the working directory of an ended container notes.
func cleanContainer(work string) error {
	var errs []error
	for _, dir := range lines(filepath.Join(work, "group")) {
		errs = append(errs, (&controlGroup{dir: dir}).remove())
	}
	for _, line := range lines(filepath.Join(work, "loops")) {
		n, err := strconv.Atoi(line)
		if err == nil {
			err = removeLoops(n, 1)
		}
		errs = append(errs, err)
	}
	for _, dir := range lines(filepath.Join(work, "disks")) {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// Command returns a command that runs in all of the container's namespaces and in its cgroup. Its streams are the
// caller's to set.
func (c *Container) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.harness == nil {
		return &exec.Cmd{Err: fmt.Errorf("cannot run %s: %w", name, errOff)}
	}
	enter := []string{"--target", strconv.Itoa(c.init.cmd.Process.Pid), "--pid", "--mount", "--uts", "--ipc", "--net", "--cgroup", "--wdns=/root",
		"setpriv", "--bounding-set=-sys_time,-sys_module", "env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "TERM=" + os.Getenv("TERM"), name}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(c.harness.Fd())}
	return cmd
}

// Run is as a virtual machine's: see [guest.Run].
func (c *Container) Run(ctx context.Context, script string) (string, error) {
	var out strings.Builder
	err := c.exec(ctx, script, "set -e\n"+script, nil, &out)
	return out.String(), err
}

func (c *Container) exec(ctx context.Context, what, script string, stdin io.Reader, stdout io.Writer) error {
	cmd := c.Command(ctx, "bash", "-c", script)
	var stderr strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, &stderr
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("cannot run %.100q in the container: %w", what, ctx.Err())
	case errors.As(err, &exit) && exit.Exited():
		e := &ExitError{Code: exit.ExitCode(), Script: what, Stderr: stderr.String()}
		if kept, ok := stdout.(*strings.Builder); ok {
			e.Stdout = kept.String()
		}
		return e
	}
	return fmt.Errorf("cannot run %.100q in the container: %w: %s", what, err, stderr.String())
}
