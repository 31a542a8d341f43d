package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
	"hotmount/internal/report"
)

func unmountGoneCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "unmount-gone PATH",
		Short:  "Take the mount of a disk that is gone off the tree",
		Hidden: true, // for hotmount-unmount@.service
		Args:   args(cobra.ExactArgs(1)),
		RunE:   func(_ *cobra.Command, given []string) error { return unmountGone(report.New(), given[0]) },
	}
}

// unmountGone unmounts lazily what is mounted at the path, if its disk is not
// there any more. Its users are named first: afterwards nobody can find the
// mount that they hold.
func unmountGone(log *report.Log, path string) error {
	table, err := mounts.Table("")
	if err != nil {
		return fmt.Errorf("cannot unmount %s: %w", path, err)
	}
	for _, m := range table {
		if m.Path != path {
			continue
		}
		// While a filesystem is mounted the kernel gives its device number to no
		// other disk.
		_, err := os.Lstat("/sys/dev/block/" + m.Dev.String())
		if err == nil {
			return fmt.Errorf("cannot unmount %s lazily: its disk %s is there", path, m.Dev)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot unmount %s lazily: %w", path, err)
		}
		users, err := mounts.Users("", m.Dev, path)
		words := list(users)
		switch {
		case err != nil:
			words = err.Error()
		case len(users) == 0:
			words = "nobody that could be found"
		}
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("cannot unmount %s lazily: %w", path, err)
		}
		log.Event(report.KindGone, journal.PriWarning, nil, disk.Decision{}, path, fmt.Sprintf("%s was taken off the tree: its disk (%s) is gone, and it was still used by\n  %s\nThey get errors, and the same filesystem can be mounted again only when they have ended", path, m.Dev, words))
	}
	return nil
}
