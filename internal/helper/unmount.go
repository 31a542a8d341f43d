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

// ParseGone takes apart a mount point of ours and the number of the device that is or
// was mounted there, such as /mnt/disks/UUID:254:16.
func ParseGone(s string) (where string, dev disk.Dev, err error) {
	dir, rest := path.Split(s)
	uuid, number, _ := strings.Cut(rest, ":")
	if !disk.ValidUUID(uuid) {
		return "", dev, fmt.Errorf("%q is no mount point of hotmount with a device number", disk.Visible(s))
	}
	dev, err = disk.ParseDev(number)
	return dir + uuid, dev, err
}

// holdersTold is how many users at most are named again when the disk returns.
const holdersTold = 8

// UnmountGone shuts down the filesystem of the device, which is gone, and names its users. If
// it is still mounted at the path, it is unmounted, lazily if necessary.
//
// It is shut down first. Else a process that empties it, as the provisioner does, would take
// files that it does not find any more for deleted. The users are named before the unmount,
// since afterwards nobody can find the mount that they hold.
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
		return fail(fmt.Errorf("its disk %s is there", dev))
	case attached != 0:
		return nil // another disk's: nobody has this one's filesystem any more
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
		words = "nobody that could be found"
	case len(users) == 0:
		return nil // they have just let go
	}
	what := unmounted
	if there {
		if what, err = unmount(h, where, dev, umount); err != nil {
			return fail(err)
		}
		// As above: it has returned, or the number is another's.
		if attached, err = h.Attached(dev); err != nil {
			return fail(err)
		} else if attached != 0 {
			return nil
		}
	}
	log.Event(report.KindGone, journal.PriWarning, nil, disk.Decision{}, where, fmt.Sprintf("%s %s: its disk (%s) is gone, and it was still used by\n  %s\nThey get errors, and an XFS can be mounted again only when they have ended", where, what, dev, words))
	if !there {
		// Last: a way into a container can be one on which nobody answers.
		shutDown(log, h.Root, where, dev)
	}
	if more := len(users) - holdersTold; more > 0 {
		words = fmt.Sprintf("%s\n  and %d more", mounts.Lines(users[:holdersTold]), more)
	}
	return h.Store.SaveHolders(path.Base(where), words)
}

// shutDown reports what could not be done: the kernel does it later.
func shutDown(log *report.Log, root, where string, dev disk.Dev) {
	if err := mounts.ShutDown(root, dev); err != nil {
		log.Event(report.KindProblem, journal.PriWarning, nil, disk.Decision{}, where, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// What has become of the mount, in words.
const (
	unmounted   = "was unmounted"
	takenOff    = "was taken off the tree"
	nothingLeft = "was unmounted already, so that nothing was left to do there"
)

// unmount returns what has become of the mount. PID 1, which tries it too, may be first, and
// the daemon have mounted there the disk that has returned, also under the same number: so
// it is looked again before each try, for umount2(2) takes whatever is mounted at the path.
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
		// The errors may have made them let go.
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
