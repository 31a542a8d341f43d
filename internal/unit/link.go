package unit

import (
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// MakeLink makes a link at the given path in a class directory. The link leads through disk.LinkDirectory to the disk.
// MakeLink replaces a link of an earlier attachment, and fails if any other entry has the same path.
//
// The caller must keep the disk open, so that the kernel cannot give the disk's name to another disk.
func MakeLink(link string, id disk.ID) (err error) {
	defer wrap(&err, "cannot make the link %s to %s", disk.Visible(link), id)
	class, name, err := openLink(link)
	if err != nil {
		return err
	}
	defer class.Close()
	// MakeLink makes the link in the class directory last, so that a new link leads to the disk at once.
	if err := os.Mkdir(disk.LinkDirectory, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	via, err := openDirectory(disk.LinkDirectory)
	if err != nil {
		return err
	}
	defer via.Close()
	if target, err := readlink(via, name); err == nil && target != id.BySeq() {
		// The old link belongs to an attachment that has ended. The name of a link contains the disk's serial, and no
		// other attached disk has this serial.
		if err := unix.Unlinkat(int(via.Fd()), name, 0); err != nil {
			return err
		}
	}
	if err := symlink(id.BySeq(), via, name); err != nil {
		return err
	}
	return symlink(disk.LinkDirectory+"/"+name, class, name)
}

// RemoveLink removes the link at the given path from a class directory if the link leads to the disk or leads nowhere.
// RemoveLink also removes the link's target in disk.LinkDirectory. A missing link is not an error.
func RemoveLink(link string, id disk.ID) (err error) {
	defer wrap(&err, "cannot remove the link %s to %s", disk.Visible(link), id)
	class, name, err := openLink(link)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer class.Close()
	via, err := openDirectory(disk.LinkDirectory)
	if errors.Is(err, unix.ENOENT) {
		return removeDead(class, name)
	}
	if err != nil {
		return err
	}
	defer via.Close()
	switch target, err := readlink(via, name); {
	case errors.Is(err, unix.ENOENT):
		return removeDead(class, name)
	case err != nil:
		return err
	case target != id.BySeq():
		return nil // the link now belongs to another attachment
	}
	if err := removeDead(class, name); err != nil {
		return err
	}
	return unix.Unlinkat(int(via.Fd()), name, 0)
}

// RemoveDeadLink removes a link from a class directory if hotmount made the link and the link leads nowhere. A link
// leads nowhere after the removal of its disk, and after a reboot.
func RemoveDeadLink(dir, name string) error {
	class, err := openDirectory(dir)
	if err != nil {
		return err
	}
	defer class.Close()
	if _, err := os.Stat(disk.LinkDirectory + "/" + name); !errors.Is(err, unix.ENOENT) {
		return err
	}
	return removeDead(class, name)
}

// removeDead removes the entry if it is a link that hotmount made.
func removeDead(class *os.File, name string) error {
	target, err := readlink(class, name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || err == nil && target != disk.LinkDirectory+"/"+name {
		return nil
	}
	if err != nil {
		return err
	}
	return unix.Unlinkat(int(class.Fd()), name, 0)
}

// wrap puts the formatted text before the error err. If err is nil, wrap does nothing.
func wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *err)
	}
}

func openLink(link string) (class *os.File, name string, err error) {
	if !path.IsAbs(link) || path.Clean(link) != link || path.Dir(link) == "/" {
		return nil, "", errors.New("the link is not an entry of a class directory")
	}
	class, err = openDirectory(path.Dir(link))
	return class, path.Base(link), err
}

func symlink(target string, d *os.File, name string) error {
	err := unix.Symlinkat(target, int(d.Fd()), name)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	if there, err := readlink(d, name); err != nil || there != target {
		return fmt.Errorf("%s/%s already exists, and hotmount did not make it", d.Name(), disk.Visible(name))
	}
	return nil
}

func readlink(d *os.File, name string) (string, error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(d.Fd()), name, b)
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}
