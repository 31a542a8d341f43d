package doctor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// Answer is one JSON line from Look or List. Each Answer contains only one of these parts: Namespace, Args, At with
// Sight, Entry, or Failure.
type Answer struct {
	// Namespace is the mount namespace of the process. Look sends the namespace before all other answers.
	Namespace string `json:"namespace,omitempty"`
	// Args is the command line of the process.
	Args []string `json:"args,omitempty"`
	// At is a requested path. Sight is what the process finds at the path At.
	At    string `json:"at,omitempty"`
	Sight *Sight `json:"sight,omitempty"`
	// Entry is one entry of a directory.
	Entry *Entry `json:"entry,omitempty"`
	// Failure is the error after which no more answers follow.
	Failure string `json:"failure,omitempty"`
}

// maxArgs is the maximum number of bytes that Look reads of a command line.
const maxArgs = 64 << 10

// Look finds out what a process sees at each path. Look resolves the paths inside the root directory of the process.
// Look writes each Answer on its own line: the namespace first, then the paths in any order. If the parameter `paths` is
// empty, Look writes the command line of the process instead.
//
// Look can hang forever when it reads the command line of a process, or opens a path on a filesystem that does not
// answer. The caller must run Look in a separate process, so that the caller does not hang. While one path hangs, Look
// answers for the other paths. Look opens paths only with O_PATH, so it reads no file and touches no device or FIFO.
func Look(pid int, paths []string, w io.Writer) error {
	out := json.NewEncoder(w)
	dir, err := os.Open("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return err
	}
	defer dir.Close()
	// An open directory /proc/PID never leads to a later process with the same PID.
	proc := fmt.Sprintf("/proc/self/fd/%d", dir.Fd())
	namespace, err := os.Readlink(proc + "/ns/mnt")
	if err != nil {
		return err
	}
	if err := out.Encode(Answer{Namespace: namespace}); err != nil {
		return err
	}
	if len(paths) == 0 {
		file, err := os.Open(proc + "/cmdline")
		if err != nil {
			return err
		}
		defer file.Close()
		line, err := io.ReadAll(io.LimitReader(file, maxArgs))
		return errors.Join(err, out.Encode(Answer{Args: strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")}))
	}
	root, err := unix.Open(proc+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot open the root of process %d: %w", pid, err)
	}
	defer unix.Close(root)
	return sights(paths, func(p string) Sight { return sight(root, p) }, func(a Answer) error { return out.Encode(a) })
}

// maxHung is the number of openat2(2) calls that may hang at the same time. While this number of calls hangs, Look
// opens no more paths. Each call that hangs occupies a thread.
const maxHung = 16

// sights calls look() for several paths concurrently, and passes each result to tell() as soon as the result is known.
func sights(paths []string, look func(string) Sight, tell func(Answer) error) error {
	var telling sync.Mutex
	var failure error
	forEach(paths, maxHung, func(p string) {
		s := look(p)
		telling.Lock()
		defer telling.Unlock()
		failure = errors.Join(failure, tell(Answer{At: p, Sight: &s}))
	})
	return failure
}

// sight resolves a path inside a root directory.
func sight(root int, path string) Sight {
	fd, err := unix.Openat2(root, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return Sight{Absent: true}
	}
	if err != nil {
		return Sight{Failure: err.Error()}
	}
	defer unix.Close(fd)
	// mnt_id is the first field of mountinfo (proc_pid_fdinfo(5)). A read of mnt_id, unlike statx(2), sends no request
	// to the filesystem.
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	id, idErr := strconv.Atoi(mounts.Field(string(info), "mnt_id"))
	// The kernel (d_path) returns the path in the mount namespace of the file.
	real, linkErr := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err := cmp.Or(err, idErr, linkErr); err != nil {
		return Sight{Failure: err.Error()}
	}
	return Sight{MountID: id, Path: strings.TrimSuffix(real, " (deleted)")}
}

// maxEntries is the maximum number of entries of a class directory that List returns.
const maxEntries = 4096

// List writes the entries of a directory, with each Answer on its own line. List does not see what is mounted over the
// entries, because it looks through a copy of the directory's mount (open_tree(2)). No other process sees the copy of
// the mount. The copy disappears when List returns.
func List(dir string, w io.Writer) error {
	copied, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	defer unix.Close(copied)
	dir = fmt.Sprintf("/proc/self/fd/%d", copied)
	d, err := openDirectory(dir + "/.")
	if err != nil {
		return err
	}
	defer d.Close()
	entries, err := d.ReadDir(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	out := json.NewEncoder(w)
	for i, e := range entries {
		if i == maxEntries {
			return fmt.Errorf("the directory has more than %d entries", maxEntries)
		}
		one, err := entry(path.Join(dir, e.Name()), e)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the entry was removed after the directory was read
		}
		if err != nil {
			one.Failure = err.Error()
		}
		if err := out.Encode(Answer{Entry: &one}); err != nil {
			return err
		}
	}
	return nil
}

var kinds = map[fs.FileMode]string{fs.ModeDir: "directory", fs.ModeSymlink: "symlink", fs.ModeNamedPipe: "fifo", fs.ModeSocket: "socket", 0: "file"}

func entry(p string, e fs.DirEntry) (one Entry, err error) {
	one = Entry{Name: e.Name(), Kind: cmp.Or(kinds[e.Type()], "device")}
	switch one.Kind {
	case "directory":
		one.First, err = first(p)
	case "symlink":
		one.Target, err = os.Readlink(p)
	}
	return one, err
}

// The function `first` returns the name of one file in a directory, but never the name of hotmount's marker file. The
// result is "" if the directory has no file other than the marker file.
func first(dir string) (string, error) {
	d, err := openDirectory(dir)
	if err != nil {
		return "", err
	}
	defer d.Close()
	names, err := d.Readdirnames(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return disk.Unmarked(names), nil
}

func openDirectory(name string) (*os.File, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
