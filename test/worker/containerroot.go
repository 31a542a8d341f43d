package worker

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

//go:embed recipe/containerroot.sh
var containerHook string

// containerPackages are named one by one: a minimal Debian recommends nothing.
var containerPackages = []string{
	"systemd", "systemd-sysv", "udev", "dbus", "kmod", "xfsprogs", "e2fsprogs", "btrfs-progs", "dosfstools", "attr", "util-linux", "mount",
	"fdisk", "lvm2", "mdadm", "gdisk", "parted", "iproute2", "procps", "psmisc", "lsof", "strace",
}

// containerTools are Debian packages that a container needs on the host.
var containerTools = []string{"mmdebstrap", "debian-archive-keyring", "util-linux", "mount"}

// ContainerRoot returns the directory of the suite's root filesystem for containers, which is built
// once and kept in the cache. It must not be changed, and stays until release is called.
func ContainerRoot(ctx context.Context, suite string, progress io.Writer) (dir string, release func(), err error) {
	if err := Need(ctx, progress, containerTools); err != nil {
		return "", nil, err
	}
	c, err := openCache()
	if err != nil {
		return "", nil, err
	}
	r := recipe{
		Version: recipeVersion, Suite: suite, Arch: runtime.GOARCH, Packages: containerPackages, Customize: containerHook,
	}
	defer c.prune("container-", keptImages)
	e, err := c.get(ctx, "container-"+suite+"-"+key(r), func(dir string) error {
		say(progress, "building the %s container's root filesystem (about 40 s) …", suite)
		if err := r.bootstrap(ctx, dir, filepath.Join(dir, "tree"), ""); err != nil {
			return fmt.Errorf("cannot build the %s container's root filesystem: %w", suite, err)
		}
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	return e.path("tree"), e.release, nil
}

// containerLower returns the root filesystem that the options name. A tarball is unpacked into work.
func containerLower(ctx context.Context, o ContainerOptions, work string) (dir string, release func(), err error) {
	if o.Root == "" {
		return ContainerRoot(ctx, o.Suite, o.Progress)
	}
	info, err := os.Stat(o.Root)
	if err != nil {
		return "", nil, fmt.Errorf("cannot use the root filesystem: %w", err)
	}
	if dir, err = filepath.Abs(o.Root); err != nil || info.IsDir() {
		return dir, func() {}, err
	}
	lower := filepath.Join(work, "lower")
	if err := os.Mkdir(lower, 0o755); err != nil {
		return "", nil, fmt.Errorf("cannot use the root filesystem: %w", err)
	}
	_, err = command(ctx, nil, "tar", "--extract", "--numeric-owner", "--xattrs", "--file", dir, "--directory", lower)
	return lower, func() {}, err
}

// NewContainerRoot writes the suite's root filesystem as a tarball, for a machine that has no archive.
func NewContainerRoot(ctx context.Context, suite, tarball string, progress io.Writer) error {
	dir, release, err := ContainerRoot(ctx, suite, progress)
	if err != nil {
		return err
	}
	defer release()
	_, err = command(ctx, nil, "tar", "--create", "--numeric-owner", "--xattrs", "--gzip", "--file", tarball, "--directory", dir, ".")
	return err
}

// lines returns the lines of a file, none where there is no file.
func lines(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return slices.Collect(strings.FieldsFuncSeq(string(b), func(r rune) bool { return r == '\n' }))
}
