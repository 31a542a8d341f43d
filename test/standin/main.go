// Command standin plays the part of Kubernetes on a worker in tests. The command runs as root.
//
//	standin COUNT SOURCE
//
// standin COUNT SOURCE makes COUNT containers: processes in their own mount namespaces, each with one volume. standin
// bind-mounts SOURCE where kubelet bind-mounts a pod's volume, and the container sees the volume as /data. The
// containers run until they are killed.
//
//	standin provisioner DIRECTORY NODE PERIOD CLASS:MODE:DIRECTORY...
//
// `standin provisioner` plays the part of the local-static-provisioner of Kubernetes.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

func main() {
	err := fmt.Errorf("usage: %s COUNT SOURCE", os.Args[0])
	switch {
	case len(os.Args) == 3 && os.Args[1] == "container":
		err = container(os.Args[2])
	case len(os.Args) > 5 && os.Args[1] == "provisioner":
		err = runProvisioner(os.Args[2:])
	case len(os.Args) == 3:
		err = pods(os.Args[1], os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "standin:", err)
		os.Exit(1)
	}
}

func pods(count, source string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	for i := range n {
		volume := fmt.Sprintf("/var/lib/kubelet/pods/6a6e9d0c-1111-4222-8333-%012d/volumes/kubernetes.io~local-volume/local-pv-%d", i, i)
		if err := os.MkdirAll(volume, 0o750); err != nil {
			return err
		}
		if err := unix.Mount(source, volume, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("cannot bind %s: %w", volume, err)
		}
		c := exec.Command("/proc/self/exe", "container", volume)
		c.Stderr = os.Stderr
		// If Unshareflags contains CLONE_NEWNS, Go makes all mounts in the new mount namespace private.
		c.SysProcAttr = &unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Setsid: true}
		if err := c.Start(); err != nil {
			return fmt.Errorf("cannot start container %d: %w", i, err)
		}
	}
	return nil
}

// The function `container` moves this process to a root directory of its own, and then replaces the process by sleep(1).
func container(volume string) error {
	const root = "/run/standin-root"
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("none", root, "tmpfs", 0, "size=64k"); err != nil {
		return err
	}
	for dir, source := range map[string]string{"usr": "/usr", "data": volume} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
		if err := unix.Mount(source, filepath.Join(root, dir), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("cannot bind %s: %w", source, err)
		}
	}
	for _, dir := range []string{"lib", "lib64"} {
		if err := os.Symlink("usr/"+dir, filepath.Join(root, dir)); err != nil {
			return err
		}
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	// pivot_root(".", ".") mounts the old root on top of the new root (NOTES in pivot_root(2)). The call of Unmount
	// then detaches the old root.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Exec("/usr/bin/sleep", []string{"sleep", "infinity"}, nil)
}
