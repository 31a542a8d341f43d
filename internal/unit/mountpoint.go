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

// ErrNotEmpty reports that a mount point contains more than the marker although nothing is mounted on it. hotmount
// neither removes such a mount point nor mounts a filesystem on it.
var ErrNotEmpty = errors.New("the directory is not empty although nothing is mounted there")

const marker = disk.Marker

// MakeMountPoint makes the directory for a UUID in a class directory. The new directory already contains the marker
// when it appears under its final name. MakeMountPoint accepts an existing directory that contains nothing but the
// marker.
func MakeMountPoint(dir, uuid string) (err error) {
	defer wrap(&err, "cannot make the mount point %s/%s", dir, disk.Visible(uuid))
	class, err := openDirectory(dir)
	if err != nil {
		return err
	}
	defer class.Close()
	if !disk.ValidUUID(uuid) {
		return errors.New("the name of the directory is not a UUID")
	}
	point, err := openPoint(class, uuid)
	if errors.Is(err, unix.ENOENT) {
		return newMountPoint(class, uuid)
	}
	if err != nil {
		return err
	}
	defer point.Close()
	if err := isBare(point); err != nil {
		return err
	}
	// MakeMountPoint clears the immutable flag only to add a missing marker.
	if m, err := openMarker(point, 0); err == nil {
		m.Close()
	} else if err := errors.Join(setImmutable(point, false), mark(point)); err != nil {
		return errors.Join(err, setImmutable(point, true))
	}
	return errors.Join(setImmutable(point, true), isBare(point))
}

// draftName returns the name that a mount point has while hotmount makes or removes the mount point.
func draftName(uuid string) string { return "." + uuid }

func newMountPoint(class *os.File, uuid string) error {
	if err := removeDraft(class, uuid); err != nil {
		return err
	}
	if err := unix.Mkdirat(int(class.Fd()), draftName(uuid), 0o755); err != nil {
		return err
	}
	point, err := openPoint(class, draftName(uuid))
	if err != nil {
		return err
	}
	defer point.Close()
	if err := mark(point); err != nil {
		return errors.Join(err, removeDraft(class, uuid)) // a full filesystem may have room for the directory, but not for the marker
	}
	if err := unix.Renameat2(int(class.Fd()), draftName(uuid), int(class.Fd()), uuid, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	return setImmutable(point, true)
}

// removeDraft removes the remains of an interrupted creation or removal of the mount point.
func removeDraft(class *os.File, uuid string) (err error) {
	defer wrap(&err, "cannot remove %s/%s", class.Name(), draftName(uuid))
	return removeBare(class, draftName(uuid))
}

func removeBare(class *os.File, name string) error {
	point, err := openPoint(class, name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer point.Close()
	if err := isBare(point); err != nil {
		return err
	}
	if err := errors.Join(setImmutable(point, false), unmark(point)); err != nil {
		return err
	}
	return unix.Unlinkat(int(class.Fd()), name, unix.AT_REMOVEDIR)
}

func openMarker(d *os.File, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(d.Fd()), marker, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|flags, 0o444)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), marker), nil
}

// mark puts the marker into a directory.
func mark(d *os.File) error {
	f, err := openMarker(d, unix.O_CREAT)
	if err != nil {
		return err
	}
	defer f.Close()
	return setImmutable(f, true)
}

// unmark removes the marker, if any, from a directory.
func unmark(d *os.File) error {
	f, err := openMarker(d, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := setImmutable(f, false); err != nil {
		return err
	}
	return unix.Unlinkat(int(d.Fd()), marker, 0)
}

// RemoveMountPoint removes the mount point of a UUID from a class directory if the mount point contains nothing but the
// marker. RemoveMountPoint does not change a directory on which a filesystem is mounted. A missing directory is not an
// error.
func RemoveMountPoint(dir, uuid string) (err error) {
	defer wrap(&err, "cannot remove the mount point %s/%s", dir, disk.Visible(uuid))
	class, err := openDirectory(dir)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer class.Close()
	if !disk.ValidUUID(uuid) {
		return errors.New("the name of the directory is not a UUID")
	}
	point, err := openPoint(class, uuid)
	if errors.Is(err, unix.ENOENT) {
		return removeDraft(class, uuid)
	}
	if errors.Is(err, errMounted) {
		return nil
	}
	if err != nil {
		return err
	}
	defer point.Close()
	if err := isBare(point); err != nil {
		return err
	}
	if err := removeDraft(class, uuid); err != nil {
		return err
	}
	if err := setImmutable(point, false); err != nil {
		return err
	}
	// A mount point without the marker must not be visible under its final name.
	err = unix.Renameat2(int(class.Fd()), uuid, int(class.Fd()), draftName(uuid), unix.RENAME_NOREPLACE)
	if err != nil {
		again := setImmutable(point, true)
		if errors.Is(err, unix.EBUSY) { // something was mounted on the directory during the removal, so the directory stays
			return again
		}
		return errors.Join(err, again)
	}
	return removeDraft(class, uuid)
}

// Leftovers returns the names of all entries of a class directory, or none if the directory does not exist.
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

// errMounted reports that a filesystem is mounted on a mount point.
var errMounted = errors.New("something is mounted there")

// openDirectory opens a directory step by step from the root and follows no symlink. A pod that can write to a class
// directory therefore cannot use a symlink to lead hotmount to another directory. openat2(2) would need only one step,
// but RestrictSUIDSGID= makes openat2(2) fail with ENOSYS (seccomp_restrict_sxid in systemd's
// src/shared/seccomp-util.c).
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

// openPoint opens a mount point, or returns errMounted if something is mounted on it. openPoint does not access the
// mounted filesystem, whose disk may be gone.
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

// openBelow opens a directory within another directory. The name of the returned file is the full path.
func openBelow(d *os.File, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(d.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path.Join(d.Name(), name)), nil
}

// mountID returns the id of the mount through which the file is open. The id is the first field of mountinfo
// (proc_pid_fdinfo(5)). Unlike statx(2), mountID sends no request to the filesystem.
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
	return "", errors.New("/proc/self/fdinfo has no mount id")
}

// isBare returns an error if the directory contains anything but the marker.
func isBare(d *os.File) error {
	if _, err := d.Seek(0, io.SeekStart); err != nil {
		return err
	}
	names, err := d.Readdirnames(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for _, name := range names {
		what := "first entry: " + disk.Visible(name)
		if name == marker {
			var st unix.Stat_t
			if err := unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return err
			}
			if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size == 0 {
				continue
			}
			what = marker + " is not an empty file"
		}
		return fmt.Errorf("%w (%s); check the contents of the directory, then: chattr -i %[3]s %[3]s/%[4]s; move the contents away; %[5]s", ErrNotEmpty, what, d.Name(), marker, disk.RemoveCommands(d.Name()))
	}
	return nil
}

// immutable is FS_IMMUTABLE_FL (linux/fs.h). golang.org/x/sys does not define FS_IMMUTABLE_FL.
const immutable = 0x10

// setImmutable sets or clears FS_IMMUTABLE_FL (ioctl_iflags(2), chattr(1)). setImmutable does nothing on a filesystem
// that does not support the flag, such as tmpfs before Linux 6.0.
func setImmutable(d *os.File, enable bool) error {
	flags, err := unix.IoctlGetUint32(int(d.Fd()), unix.FS_IOC_GETFLAGS)
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("FS_IOC_GETFLAGS: %w", err)
	}
	want := flags &^ immutable
	if enable {
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
