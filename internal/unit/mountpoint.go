package unit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// ErrNotEmpty says that a mount point on which nothing is mounted has something
// in it. It is never removed, and nothing is mounted over it.
var ErrNotEmpty = errors.New("it is not empty although nothing is mounted there; look at what it holds, move it away, then remove the directory (chattr -i DIR; rmdir DIR)")

// MakeMountPoint makes the directory for a UUID in a class directory, immutable
// where the filesystem can that, so that nothing is written to it while nothing
// is mounted. One that is there already will do if it is empty.
func MakeMountPoint(dir, uuid string) error {
	if err := makeMountPoint(dir, uuid); err != nil {
		return fmt.Errorf("cannot make the mount point %s/%s: %w", dir, disk.Visible(uuid), err)
	}
	return nil
}

func makeMountPoint(dir, uuid string) error {
	class, err := openDirectory(dir)
	if err != nil {
		return err
	}
	defer class.Close()
	if !disk.ValidUUID(uuid) {
		return errors.New("it is not named by a UUID")
	}
	if err := unix.Mkdirat(int(class.Fd()), uuid, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	point, err := openPoint(class, uuid)
	if err != nil {
		return err
	}
	defer point.Close()
	if err := isEmpty(point); err != nil {
		return err
	}
	return setImmutable(point, true)
}

// RemoveMountPoint removes the directory of a UUID from a class directory, if it
// is empty. One on which something is mounted is left alone; that one is not
// there at all is no error.
func RemoveMountPoint(dir, uuid string) error {
	if err := removeMountPoint(dir, uuid); err != nil {
		return fmt.Errorf("cannot remove the mount point %s/%s: %w", dir, disk.Visible(uuid), err)
	}
	return nil
}

func removeMountPoint(dir, uuid string) error {
	class, err := openDirectory(dir)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer class.Close()
	if !disk.ValidUUID(uuid) {
		return errors.New("it is not named by a UUID")
	}
	point, err := openPoint(class, uuid)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, errMounted) {
		return nil
	}
	if err != nil {
		return err
	}
	defer point.Close()
	if err := isEmpty(point); err != nil {
		return err
	}
	if err := setImmutable(point, false); err != nil {
		return err
	}
	err = unix.Unlinkat(int(class.Fd()), uuid, unix.AT_REMOVEDIR)
	if err == nil {
		return nil
	}
	// It was mounted or filled in between: then it stays as it was.
	again := setImmutable(point, true)
	switch {
	case errors.Is(err, unix.EBUSY):
		return again
	case errors.Is(err, unix.ENOTEMPTY):
		err = ErrNotEmpty
	}
	return errors.Join(err, again)
}

// Leftovers gives the names of all entries of a class directory; of a directory
// that is not there, none.
func Leftovers(dir string) ([]string, error) {
	class, err := openDirectory(dir)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer class.Close()
	return class.Readdirnames(-1)
}

// errMounted says that something is mounted on a mount point.
var errMounted = errors.New("something is mounted there")

// openDirectory opens a directory step by step from the root, following no
// symlink: a pod that has the class directory by hostPath can not lead us
// elsewhere. openat2(2) would do it in one, but RestrictSUIDSGID= answers it
// with ENOSYS (seccomp_restrict_sxid in systemd's src/shared/seccomp-util.c).
func openDirectory(dir string) (*os.File, error) {
	if !path.IsAbs(dir) || path.Clean(dir) != dir {
		return nil, fmt.Errorf("%q is not a clean absolute path", dir)
	}
	d, err := os.Open("/")
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(strings.TrimPrefix(dir, "/"), "/") {
		next, err := openBelow(d, name, 0)
		d.Close()
		if err != nil {
			return nil, err
		}
		d = next
	}
	return d, nil
}

// openPoint opens a mount point; the error is errMounted if something is mounted
// on it. The mount itself is not touched: its filesystem may be dead.
func openPoint(class *os.File, uuid string) (*os.File, error) {
	place, err := openBelow(class, uuid, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer place.Close()
	below, err := mountID(place)
	if err != nil {
		return nil, err
	}
	above, err := mountID(class)
	if err != nil {
		return nil, err
	}
	if below != above {
		return nil, errMounted
	}
	return openBelow(place, ".", 0)
}

func openBelow(d *os.File, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(d.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// mountID is the id of the mount that the file is reached by, as in the first
// field of mountinfo (proc_pid_fdinfo(5)). Unlike statx(2) it asks nothing of the
// filesystem.
func mountID(f *os.File) (string, error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", f.Fd()))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(info)) {
		if id, found := strings.CutPrefix(line, "mnt_id:"); found {
			return strings.TrimSpace(id), nil
		}
	}
	return "", errors.New("/proc/self/fdinfo names no mount")
}

func isEmpty(d *os.File) error {
	names, err := d.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%w (first entry: %s)", ErrNotEmpty, disk.Visible(names[0]))
}

// immutable is FS_IMMUTABLE_FL (linux/fs.h), which x/sys does not have.
const immutable = 0x10

// setImmutable sets or clears FS_IMMUTABLE_FL (ioctl_iflags(2), chattr(1)). A
// filesystem that has no such flag, such as tmpfs before Linux 6.6, goes without.
func setImmutable(d *os.File, on bool) error {
	flags, err := unix.IoctlGetUint32(int(d.Fd()), unix.FS_IOC_GETFLAGS)
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("FS_IOC_GETFLAGS: %w", err)
	}
	want := flags &^ immutable
	if on {
		want |= immutable
	}
	if want == flags {
		return nil
	}
	err = unix.IoctlSetPointerInt(int(d.Fd()), unix.FS_IOC_SETFLAGS, int(want))
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("FS_IOC_SETFLAGS: %w", err)
	}
	return nil
}
