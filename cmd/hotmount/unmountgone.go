package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
	"hotmount/internal/report"
	"hotmount/internal/store"
)

func unmountGoneCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "unmount-gone PATH:DEVICE",
		Short:  "Take the mount of a disk that is gone off the tree, and name who has it",
		Hidden: true, // for hotmount-unmount@.service
		Args:   args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, given []string) error {
			where, dev, err := parseGone(given[0])
			if err != nil {
				return usageError{err}
			}
			return unmountGone(report.New(), store.Default(), where, dev)
		},
	}
}

// parseGone takes apart a mount point of ours and the number of the device that is or
// was mounted there, such as /mnt/disks/UUID:254:16.
func parseGone(s string) (where string, dev disk.Dev, err error) {
	dir, rest := path.Split(s)
	uuid, number, _ := strings.Cut(rest, ":")
	if !disk.ValidUUID(uuid) {
		return "", dev, fmt.Errorf("%q is no mount point of hotmount with a device number", disk.Visible(s))
	}
	dev, err = disk.ParseDev(number)
	return dir + uuid, dev, err
}

// holdersTold bounds how many are told again when the disk returns.
const holdersTold = 8

// unmountGone shuts down the filesystem of the device, which is gone, names who uses it,
// and unmounts it where it is still mounted at the path, lazily if it must. It is shut
// down before, and not only taken away: who empties it, as the provisioner does, would take
// what is not found any more for deleted. They are named before it is unmounted:
// afterwards nobody can find the mount that they hold.
func unmountGone(log *report.Log, s store.Store, where string, dev disk.Dev) error {
	fail := func(err error) error { return fmt.Errorf("cannot unmount %s lazily: %w", where, err) }
	there, err := isThere(where, dev)
	if err != nil {
		return fail(err)
	}
	// While a filesystem is mounted the kernel gives its device number to no
	// other disk.
	_, err = os.Lstat("/sys/dev/block/" + dev.String())
	switch {
	case err == nil && there:
		return fail(fmt.Errorf("its disk %s is there", dev))
	case err == nil:
		return nil // another disk's: nobody has this one's filesystem any more
	case !errors.Is(err, fs.ErrNotExist):
		return fail(err)
	}
	at := ""
	if there {
		at = where
		shutDown(log, where, dev)
	}
	users, err := mounts.Users("", dev, at)
	words := list(users)
	switch {
	case err != nil:
		words = err.Error()
	case len(users) == 0 && there:
		words = "nobody that could be found"
	case len(users) == 0:
		return nil // they have just let go
	}
	what := "was unmounted"
	if there {
		lazily, err := unmount(where, dev)
		if err != nil {
			return fail(err)
		}
		if lazily {
			what = "was taken off the tree"
		}
	}
	log.Event(report.KindGone, journal.PriWarning, nil, disk.Decision{}, where, fmt.Sprintf("%s %s: its disk (%s) is gone, and it was still used by\n  %s\nThey get errors, and an XFS can be mounted again only when they have ended", where, what, dev, words))
	if !there {
		// Last: a way into a container can be one on which nobody answers.
		shutDown(log, where, dev)
	}
	if more := len(users) - holdersTold; more > 0 {
		words = fmt.Sprintf("%s\n  and %d more", list(users[:holdersTold]), more)
	}
	return s.SaveHolders(path.Base(where), words)
}

func isThere(where string, dev disk.Dev) (bool, error) {
	tree, err := mounts.Tree("")
	if err != nil {
		return false, err
	}
	return mounts.OnTop(tree, where, dev)
}

// shutDown tells what could not be done: the kernel does it, later.
func shutDown(log *report.Log, where string, dev disk.Dev) {
	if err := mounts.ShutDown("", dev); err != nil {
		log.Event(report.KindProblem, journal.PriWarning, nil, disk.Decision{}, where, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// unmount says whether it could not be done but lazily. PID 1, which tries it too, may
// be first.
func unmount(where string, dev disk.Dev) (lazily bool, err error) {
	// The errors may have made them let go.
	err = unix.Unmount(where, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EBUSY) {
		lazily, err = true, unix.Unmount(where, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
	if err != nil {
		if there, again := isThere(where, dev); again == nil && !there {
			return false, nil
		}
	}
	return lazily, err
}
