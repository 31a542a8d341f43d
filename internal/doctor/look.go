package doctor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// Answer is one JSON line from Look or List. It has one of the following parts.
type Answer struct {
	// Namespace is the namespace of the process, sent first and last. A difference shows that another process got its
	// PID.
	Namespace string `json:"namespace,omitempty"`
	// Args is the process's command line.
	Args []string `json:"args,omitempty"`
	// At is a requested path. Sight is what is there.
	At    string `json:"at,omitempty"`
	Sight *Sight `json:"sight,omitempty"`
	// Entry is one entry of a directory.
	Entry *Entry `json:"entry,omitempty"`
	// Failure is the reason why no more answers follow.
	Failure string `json:"failure,omitempty"`
}

// maxArgs bounds how much of a command line is read, in bytes.
const maxArgs = 64 << 10

// Look finds out what a process has at each path, resolved inside its root. It writes one Answer a line, in any order.
//
// Look can hang forever: on the command line of a process, or on a path on a dead or foreign filesystem. It therefore
// runs in a process of its own, and answers for the other paths while one hangs. It opens with O_PATH only, so it reads
// no file and touches no device or FIFO.
func Look(pid int, paths []string, w io.Writer) error {
	out := json.NewEncoder(w)
	proc := "/proc/" + strconv.Itoa(pid)
	namespace := func() error {
		link, err := os.Readlink(proc + "/ns/mnt")
		if err != nil {
			return err
		}
		return out.Encode(Answer{Namespace: link})
	}
	if err := namespace(); err != nil {
		return err
	}
	root, err := unix.Open(proc+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot open the root of process %d: %w", pid, err)
	}
	defer unix.Close(root)
	err = sights(paths, func(p string) Sight { return sight(root, p) }, func(a Answer) error { return out.Encode(a) })
	if err = errors.Join(err, namespace()); err != nil || len(paths) > 0 {
		return err
	}
	line, err := readLimited(proc+"/cmdline", maxArgs)
	if err != nil {
		return err
	}
	return out.Encode(Answer{Args: strings.Split(strings.TrimRight(line, "\x00"), "\x00")})
}

// maxHung bounds how many paths may hang before the others are not looked at. Each keeps a thread.
const maxHung = 16

// sights looks at several paths at once, and passes each result to tell as soon as it has it.
func sights(paths []string, look func(string) Sight, tell func(Answer) error) error {
	var telling sync.Mutex
	var failure error
	each(paths, maxHung, func(p string) {
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
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	id, err := mountID(fd)
	if err != nil {
		return Sight{Failure: err.Error()}
	}
	// d_path() gives the path in the mount namespace of the file.
	real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return Sight{Failure: err.Error()}
	}
	return Sight{MountID: id, Path: strings.TrimSuffix(real, " (deleted)")}
}

// mountID returns the first field of mountinfo for an open file (proc_pid_fdinfo(5)). Unlike statx(2) it asks nothing
// of the filesystem.
func mountID(fd int) (int, error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(info)) {
		if id, found := strings.CutPrefix(line, "mnt_id:"); found {
			return strconv.Atoi(strings.TrimSpace(id))
		}
	}
	return 0, errors.New("/proc/self/fdinfo names no mount")
}

// maxEntries bounds how many entries of a class directory are looked at.
const maxEntries = 4096

// List writes the entries of a directory itself, one Answer a line, not what is mounted over them. It looks through a
// copy of the directory's mount (open_tree(2)). No other process sees the copy, which ends with the call.
func List(dir string, w io.Writer) error {
	copied, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	defer unix.Close(copied)
	d, err := openIn(copied, ".")
	if err != nil {
		return err
	}
	defer d.Close()
	entries, err := d.ReadDir(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	more := len(entries) > maxEntries
	entries = entries[:min(len(entries), maxEntries)]
	out := json.NewEncoder(w)
	for _, e := range entries {
		one, err := entry(d, e)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			one.Failure = err.Error()
		}
		if err := out.Encode(Answer{Entry: &one}); err != nil {
			return err
		}
	}
	if more {
		return fmt.Errorf("it has more than %d entries", maxEntries)
	}
	return nil
}

var kinds = map[fs.FileMode]string{fs.ModeDir: "directory", fs.ModeSymlink: "symlink", fs.ModeNamedPipe: "fifo", fs.ModeSocket: "socket", 0: "file"}

func entry(d *os.File, e fs.DirEntry) (Entry, error) {
	one := Entry{Name: e.Name(), Kind: cmp.Or(kinds[e.Type()], "device")}
	var err error
	switch one.Kind {
	case "directory":
		one.First, err = first(int(d.Fd()), one.Name)
	case "symlink":
		buf := make([]byte, unix.PathMax)
		var n int
		n, err = unix.Readlinkat(int(d.Fd()), one.Name, buf)
		one.Target = string(buf[:max(n, 0)])
	}
	return one, err
}

// first returns the name of something in a directory other than hotmount's marker.
func first(dir int, name string) (string, error) {
	d, err := openIn(dir, name)
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

func openIn(dir int, name string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
