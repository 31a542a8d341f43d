package worker

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

//go:embed recipe/containerroot.sh
var containerHook string

// containerPackages lists the Debian packages of a container. The list names recommended packages, too, because a
// minimal Debian is built without recommended packages.
var containerPackages = []string{
	"systemd", "systemd-sysv", "udev", "dbus", "kmod", "xfsprogs", "e2fsprogs", "btrfs-progs", "dosfstools", "attr", "util-linux", "mount",
	"fdisk", "lvm2", "mdadm", "gdisk", "parted", "iproute2", "procps", "psmisc", "lsof", "strace",
}

// containerTools are the Debian packages that the host needs to make a container.
var containerTools = []string{"mmdebstrap", "debian-archive-keyring", "util-linux", "mount"}

// ContainerRoot returns a directory with the root filesystem for containers of the given Debian release. ContainerRoot
// builds the directory once and keeps it in the cache. The caller must not change the directory. The directory remains
// at least until the caller calls the function `release`.
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
	defer c.removeOld("container-", keptImages)
	e, err := c.get(ctx, "container-"+suite+"-"+key(r), func(dir string) error {
		reportStep(progress, "building the %s container's root filesystem (about 40 s) …", suite)
		if err := r.bootstrap(ctx, dir, filepath.Join(dir, "tree"), ""); err != nil {
			return fmt.Errorf("cannot build the %s container's root filesystem: %w", suite, err)
		}
		return writeID(dir)
	})
	if err != nil {
		return "", nil, err
	}
	return e.path("tree"), e.release, nil
}

// givenRoot returns the directory of the root filesystem that ContainerOptions.Root names. givenRoot unpacks a tarball
// into the cache, unless the cache already has the tarball's content.
func givenRoot(ctx context.Context, root string) (dir string, release func(), err error) {
	info, err := os.Stat(root)
	if err != nil {
		return "", nil, fmt.Errorf("cannot use the root filesystem: %w", err)
	}
	if root, err = filepath.Abs(root); err != nil || info.IsDir() {
		return root, func() {}, err
	}
	hash, err := hashFile(root)
	if err != nil {
		return "", nil, err
	}
	c, err := openCache()
	if err != nil {
		return "", nil, err
	}
	defer c.removeOld("tarball-", keptImages)
	e, err := c.get(ctx, "tarball-"+key(hash), func(dir string) error {
		tree := filepath.Join(dir, "tree")
		if err := os.Mkdir(tree, 0o755); err != nil {
			return fmt.Errorf("cannot use the root filesystem: %w", err)
		}
		if _, err := command(ctx, nil, "tar", "--extract", "--numeric-owner", "--xattrs", "--file", root, "--directory", tree); err != nil {
			return err
		}
		return writeID(dir)
	})
	if err != nil {
		return "", nil, err
	}
	return e.path("tree"), e.release, nil
}

// containerLower returns the directory of the root filesystem that the options name. The directory becomes the lowerdir
// of an overlayfs.
func containerLower(ctx context.Context, o ContainerOptions) (lower string, release func(), err error) {
	if o.Root == "" {
		return ContainerRoot(ctx, o.Suite, o.Progress)
	}
	return givenRoot(ctx, o.Root)
}

// NewContainerRoot writes the root filesystem for containers of a Debian release to a tarball, for machines that cannot
// reach a Debian archive.
func NewContainerRoot(ctx context.Context, suite, tarball string, progress io.Writer) error {
	dir, release, err := ContainerRoot(ctx, suite, progress)
	if err != nil {
		return err
	}
	defer release()
	_, err = command(ctx, nil, "tar", "--create", "--numeric-owner", "--xattrs", "--gzip", "--file", tarball, "--directory", dir, ".")
	return err
}
