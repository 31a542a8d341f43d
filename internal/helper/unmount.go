package helper

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/coreos/go-systemd/v22/journal"
	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/mounts"
	"hotmount/internal/report"
)

// ParseGone parses the path of a mount point and the device number of the disk that is or was mounted there. An example
// of the argument is /mnt/disks/UUID:254:16.
func ParseGone(s string) (where string, dev disk.Dev, err error) {
	dir, rest := path.Split(s)
	uuid, number, _ := strings.Cut(rest, ":")
	if !disk.ValidUUID(uuid) {
		return "", dev, fmt.Errorf("found %q, expected a mount point of hotmount, a colon and a device number, as in /mnt/disks/UUID:254:16", disk.Visible(s))
	}
	dev, err = disk.ParseDev(number)
	return dir + uuid, dev, err
}

// holdersNamed is the largest number of users that hotmount names when the disk returns.
const holdersNamed = 8

// UnmountGone shuts down the filesystem of a detached disk, and reports the users of the filesystem. If the filesystem
// is still mounted at the path, UnmountGone unmounts it, lazily if necessary.
//
// The shutdown comes before the unmount. Without the shutdown, a provisioner that deletes the volume's files could get
// no error, and assume that the files are deleted. UnmountGone looks for the users before the unmount, because hotmount
// cannot find the users of a detached mount.
func UnmountGone(h inventory.Host, where string, dev disk.Dev) error {
	return unmountGone(report.New(), h, where, dev, unix.Unmount)
}

func unmountGone(log *report.Log, h inventory.Host, where string, dev disk.Dev, umount func(where string, flags int) error) error {
	fail := func(err error) error { return fmt.Errorf("cannot unmount %s lazily: %w", where, err) }
	there, err := h.MountedAt(where, dev)
	if err != nil {
		return fail(err)
	}
	attached, err := h.Attached(dev)
	switch {
	case err != nil:
		return fail(err)
	case attached != 0 && there:
		return fail(fmt.Errorf("the disk %s of the filesystem is attached", dev))
	case attached != 0:
		return nil // the device number belongs to another disk now, so nobody has the old disk's filesystem mounted any more
	}
	at := ""
	if there {
		at = where
		shutDown(log, h.Root, where, dev)
	}
	users, err := mounts.Users(h.Root, dev, at)
	words := mounts.Lines(users)
	switch {
	case err != nil:
		words = err.Error()
	case len(users) == 0 && there:
		words = "something that hotmount cannot find"
	case len(users) == 0:
		return nil // the users have just ended their use
	}
	what := unmounted
	if there {
		if what, err = unmount(h, where, dev, umount); err != nil {
			return fail(err)
		}
		// During the unmount, the disk may have been attached again, or another disk may have got the device number.
		if attached, err = h.Attached(dev); err != nil {
			return fail(err)
		} else if attached != 0 {
			return nil
		}
	}
	log.Event(report.KindGone, journal.PriWarning, nil, disk.Decision{}, where, fmt.Sprintf("%s %s: its disk (%s) is gone, but the filesystem was still in use; its users:\n  %s\nAll users get errors; hotmount can mount an XFS filesystem again only when all users have ended", where, what, dev, words))
	if !there {
		// The shutdown in containers comes last, because entering a container's mount namespace can hang.
		shutDown(log, h.Root, where, dev)
	}
	if more := len(users) - holdersNamed; more > 0 {
		words = fmt.Sprintf("%s\n  and %d more", mounts.Lines(users[:holdersNamed]), more)
	}
	return h.Store.SaveHolders(path.Base(where), words)
}

// shutDown shuts the filesystem down and logs a failure. If shutDown fails, the kernel shuts the filesystem down later.
func shutDown(log *report.Log, root, where string, dev disk.Dev) {
	if err := mounts.ShutDown(root, dev); err != nil {
		log.Event(report.KindProblem, journal.PriWarning, nil, disk.Decision{}, where, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// These constants are texts that describe how the mount ended.
const (
	unmounted   = "was unmounted"
	takenOff    = "was detached from the mount tree"
	nothingLeft = "was already unmounted"
)

// unmount unmounts the path and returns what happened to the mount, in words. If PID 1 unmounts the path first, the
// daemon may mount the returned disk at the path, even under the same device number. umount2(2) unmounts any filesystem
// at the path, so unmount checks before each try which filesystem is mounted there.
func unmount(h inventory.Host, where string, dev disk.Dev, umount func(where string, flags int) error) (what string, err error) {
	isLeft := func() (bool, error) {
		there, err := h.MountedAt(where, dev)
		if err != nil || !there {
			return false, err
		}
		returned, err := h.Attached(dev)
		return returned == 0, err
	}
	for _, try := range []struct {
		flags int
		what  string
	}{
		// The first try is not lazy, because the I/O errors after the shutdown may have ended every use of the mount.
		{unix.UMOUNT_NOFOLLOW, unmounted},
		{unix.UMOUNT_NOFOLLOW | unix.MNT_DETACH, takenOff},
	} {
		if left, err := isLeft(); err != nil || !left {
			return nothingLeft, err
		}
		if err = umount(where, try.flags); !errors.Is(err, unix.EBUSY) {
			what = try.what
			break
		}
	}
	if err != nil {
		if left, again := isLeft(); again == nil && !left {
			return nothingLeft, nil
		}
	}
	return what, err
}
