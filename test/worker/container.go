package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// ContainerOptions describe a [Container]. A container uses only these Options: Suite, Files, Deb, Setup, KernelArgs,
// Dir and Progress. The other Options apply only to virtual machines. Only systemd and other programs in the container
// read KernelArgs, because the container uses the running kernel of this machine.
type ContainerOptions struct {
	Options
	// Name is the container's host name. The names of the container's cgroup and of its disk directory /srv/Name
	// contain Name. Name consists of lower-case letters, digits and "-". No two containers of this machine may have the
	// same name. By default, the container gets a name that no other container has.
	Name string
	// Root is the path of a root filesystem: a directory from [ContainerRoot] or a tarball from [NewContainerRoot]. By
	// default, the container uses the root filesystem that [ContainerRoot] returns.
	Root string
	// Loops is the number of the container's loop devices, 32 by default.
	Loops int
	// BackingDirs are directories of the host that contain disk files. The container's default class selects a loop
	// device if the device's backing file is in BackingDirs or in the container's disk directory.
	BackingDirs []string
}

// Container is a Debian system in its own namespaces on this machine's kernel, with systemd as PID 1. A container's
// disks are loop devices. A BPF device filter denies the container all disks except its own loop devices. Only root can
// start a container.
//
// A container has no kernel of its own, no partitions on its disks, and no surprise removal of its disks. A container's
// clock is the host's clock. XFS filesystems with the same UUID cannot be mounted at the same time, even in different
// containers.
type Container struct {
	o     ContainerOptions
	work  *containerWork
	group *controlGroup
	lower string // the directory of the root filesystem, which is overlayfs's lowerdir
	leave func() // releases the cache entry that contains the directory `lower`
	first int

	mu       sync.Mutex
	init     *process
	harness  *os.File // the cgroup of the processes that the host starts in the container
	attached []*loopDisk
	used     map[int]bool // the numbers of loop devices that have had a disk
}

var (
	_ Machine = (*Container)(nil)
	_ Node    = (*Container)(nil)
)

var goodName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

// StartContainer boots a container according to the options. The caller must Stop the container. When the calling
// process is killed, the kernel kills the container. The next start of a container removes what a killed container
// left on the host.
func StartContainer(ctx context.Context, o ContainerOptions) (*Container, error) {
	o.Suite, o.Loops = cmp.Or(o.Suite, DefaultSuite), cmp.Or(o.Loops, 32)
	if err := checkContainer(o); err != nil {
		return nil, fmt.Errorf("cannot start a container: %w", err)
	}
	lower, leave, err := containerLower(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("cannot start a container: %w", err)
	}
	c, err := bootContainer(ctx, o, lower, leave)
	if err != nil {
		return nil, fmt.Errorf("cannot start a container: %w", err)
	}
	return c, nil
}

// checkContainer returns an error if the caller is not root, the name is invalid, or the host has not loaded a
// necessary kernel module. A container cannot load a kernel module itself.
func checkContainer(o ContainerOptions) error {
	if os.Getuid() != 0 {
		return errors.New("only root can")
	}
	if o.Name != "" && !goodName.MatchString(o.Name) {
		return fmt.Errorf("%q cannot be its name", o.Name)
	}
	known := strings.Fields(strings.Join(lines("/proc/filesystems"), " "))
	var missing []string
	for _, name := range []string{"ext4", "overlay", "xfs"} {
		if !slices.Contains(known, name) {
			missing = append(missing, name)
		}
	}
	// The file /dev/loop-control can exist before the kernel module loop is loaded, and opening the file loads the
	// module.
	if !exists("/sys/module/loop") {
		missing = append(missing, "loop")
	}
	if len(missing) > 0 {
		return fmt.Errorf("this kernel lacks what modprobe -a %s loads", strings.Join(missing, " "))
	}
	return nil
}

// bootContainer boots a container from the root filesystem in the directory `lower`. Then bootContainer installs the
// files and the package of the options, and runs the setup script. The container's method Stop calls leave().
func bootContainer(ctx context.Context, o ContainerOptions, lower string, leave func()) (_ *Container, err error) {
	c := &Container{o: o, lower: lower, leave: leave, used: map[int]bool{}}
	defer func() {
		if err == nil {
			return
		}
		if o.Dir != "" {
			err = errors.Join(err, c.SaveLogs(context.WithoutCancel(ctx), o.Dir))
		}
		err = errors.Join(err, c.Stop())
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
	return c, install(ctx, c, o.Options)
}

// prepare makes the parts of a container that a reboot does not change: directory, loop devices, cgroup, device filter
// and class.
func (c *Container) prepare(ctx context.Context) error {
	lock, err := lockContainers(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := cleanContainers(); err != nil {
		return err
	}
	if c.work, err = takeWork(c.o.Name); err != nil {
		return err
	}
	c.o.Name = c.work.name
	c.first, err = addLoops(c.o.Loops, func(first int) error { return c.work.note("loops", fmt.Sprintf("%d %d", first, c.o.Loops)) })
	if err != nil {
		return err
	}
	c.group, err = newControlGroup(ctx, "hotmount-"+c.o.Name, func(dir string) error { return c.work.note("group", dir) })
	if err != nil {
		return err
	}
	devices := slices.Clone(basicDevices)
	for n := c.first; n < c.first+c.o.Loops; n++ {
		devices = append(devices, device{true, loopMajor, int32(n)})
	}
	if err := allowDevices(c.group.dir, devices); err != nil {
		return err
	}
	return c.writeClass()
}

// classFile is the path of the configuration file with the container's class. A file with this path in Options.Files
// replaces the default configuration file. The configuration file exists before the hotmount package is installed.
const classFile = "/etc/hotmount/config.d/container.yaml"

func (c *Container) writeClass() error {
	if slices.ContainsFunc(c.o.Files, func(f File) bool { return f.Path == classFile }) {
		return nil
	}
	path := filepath.Join(c.work.memory(), "upper", classFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("cannot write the container's class: %w", err)
	}
	if err := os.WriteFile(path, []byte(c.Class()), 0o644); err != nil {
		return fmt.Errorf("cannot write the container's class: %w", err)
	}
	return nil
}

// Class returns a hotmount configuration with one class, which selects the container's disks.
func (c *Container) Class() string {
	return "classes:\n- name: default\n  directory: /mnt/disks\n" + c.Selectors("  ")
}

// Selectors returns the configuration lines with which a class selects the container's disks. Each returned line begins
// with the string `indent`.
func (c *Container) Selectors(indent string) string {
	var patterns []string
	for _, dir := range append([]string{c.Disks(), c.HostDisks()}, c.o.BackingDirs...) {
		patterns = append(patterns, strconv.Quote(dir+"/*"))
	}
	return indent + `names: ["loop*"]` + "\n" + indent + "backing_file: [" + strings.Join(patterns, ", ") + "]\n"
}

// First returns the number of the container's first loop device.
func (c *Container) First() int { return c.first }

// Loops returns the number of the container's loop devices. The container's loop devices have consecutive numbers.
func (c *Container) Loops() int { return c.o.Loops }

// Disks returns the directory for disk files, as a path inside the container. The directory for disk files is on a
// tmpfs.
func (c *Container) Disks() string { return "/srv/" + c.o.Name }

// HostDisks returns the directory for disk files, as a path on the host.
func (c *Container) HostDisks() string { return filepath.Join(c.work.memory(), "disks") }

// Stop ends the container and removes what the container left on the host.
func (c *Container) Stop() error {
	errs := []error{c.killAll()}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.attached {
		errs = append(errs, ClearLoop(l.device))
	}
	c.attached = nil
	if c.group != nil {
		errs = append(errs, c.group.remove())
	}
	if c.work != nil {
		errs = append(errs, c.work.remove())
	}
	if c.leave != nil {
		c.leave()
	}
	return errors.Join(errs...)
}
