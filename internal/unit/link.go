package unit

import (
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// MakeLink makes the link of that path in a class directory, which leads over
// disk.LinkDirectory to the disk. What was left there of an earlier attachment is
// replaced; anything else that has the name is an error. The one who calls keeps the
// disk open: as long as it is, the kernel gives its name to no other.
func MakeLink(link string, id disk.ID) error {
	if err := makeLink(link, id); err != nil {
		return fmt.Errorf("cannot make the link %s to %s: %w", disk.Visible(link), id, err)
	}
	return nil
}

func makeLink(link string, id disk.ID) error {
	class, name, err := openLink(link)
	if err != nil {
		return err
	}
	defer class.Close()
	// The first part of the way is made last: whoever follows the link arrives.
	if err := os.Mkdir(disk.LinkDirectory, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	via, err := openDirectory(disk.LinkDirectory)
	if err != nil {
		return err
	}
	defer via.Close()
	if target, err := readlink(via, name); err == nil && target != id.BySeq() {
		// Of an attachment that has ended: nobody else has the serial.
		if err := unix.Unlinkat(int(via.Fd()), name, 0); err != nil {
			return err
		}
	}
	if err := symlink(id.BySeq(), via, name); err != nil {
		return err
	}
	return symlink(disk.LinkDirectory+"/"+name, class, name)
}

// RemoveLink removes the link of that path from a class directory, and what it leads
// over, if it is that to the disk. That it is not there is no error.
func RemoveLink(link string, id disk.ID) error {
	if err := removeLink(link, id); err != nil {
		return fmt.Errorf("cannot remove the link %s to %s: %w", disk.Visible(link), id, err)
	}
	return nil
}

func removeLink(link string, id disk.ID) error {
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
		return nil // it is that of another attachment by now
	}
	if err := removeDead(class, name); err != nil {
		return err
	}
	return unix.Unlinkat(int(via.Fd()), name, 0)
}

// RemoveDeadLink removes a link of ours from a class directory that leads nowhere
// since its disk, or the boot, is gone.
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

// removeDead removes the entry if it is a link of ours.
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

func openLink(link string) (class *os.File, name string, err error) {
	if !path.IsAbs(link) || path.Clean(link) != link || path.Dir(link) == "/" {
		return nil, "", errors.New("it is no entry of a class directory")
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
		return fmt.Errorf("%s/%s is there already, and not hotmount's", d.Name(), disk.Visible(name))
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
