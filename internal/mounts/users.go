package mounts

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// User is one use of a mounted filesystem that keeps it in use after it is unmounted at its mount point.
type User struct {
	// PID and Command belong to the process. They are zero and empty for a mount on the host.
	PID     int    `json:"pid,omitempty"`
	Command string `json:"command,omitempty"`
	// Pod is the UID of the Kubernetes pod that the use belongs to, or empty.
	Pod string `json:"pod,omitempty"`
	// Unit is the process's systemd unit. Writes reports that it has the disk open for writing, Machine that it is a
	// virtual machine monitor. Only DeviceUsers sets them.
	Unit    string `json:"unit,omitempty"`
	Writes  bool   `json:"writes,omitempty"`
	Machine bool   `json:"machine,omitempty"`
	// How is the kind of use, in words. Foreign bytes in it are visible.
	How string `json:"how"`
}

// String returns the user in words.
func (u User) String() string {
	s := u.How
	if u.PID != 0 {
		s = fmt.Sprintf("process %d (%s): %s", u.PID, disk.Visible(u.Command), u.How)
	}
	if u.Pod != "" {
		s += " (pod " + u.Pod + ")"
	}
	return s
}

// Lines returns the users in words, one a line. All but the first line are indented.
func Lines(users []User) string {
	var lines []string
	for _, u := range users {
		lines = append(lines, u.String())
	}
	return strings.Join(lines, "\n  ")
}

// MountedAnywhere reports whether an XFS or ext4 on the named disk is mounted in any mount namespace. It then has an
// entry in /sys/fs/TYPE (xfs_mountfs in fs/xfs/xfs_mount.c, ext4_register_sysfs in fs/ext4/sysfs.c).
func MountedAnywhere(root, name string) bool {
	for _, fstype := range []string{disk.XFS, disk.Ext4} {
		if _, err := os.Lstat(filepath.Join("/", root, "sys/fs", fstype, name)); err == nil {
			return true
		}
	}
	return false
}

// Users returns the users of the filesystem with that device number that is mounted at the path. Those are other mounts
// of it, in any mount namespace, and processes. A process counts if it has a file open or mapped, or a working or root
// directory there. Its mount need not be in any table any more.
//
// Users reads nothing from the disk, which may be dead. Only root with all capabilities sees every user. It leaves out
// processes that end meanwhile.
func Users(root string, dev disk.Dev, path string) ([]User, error) {
	host, err := Tree(root)
	if err != nil {
		return nil, err
	}
	trees, tasks, err := namespaces(root, host)
	if err != nil {
		return nil, err
	}

	var users []User
	for _, m := range host {
		if m.Dev == dev && m.Path != path {
			users = append(users, User{Pod: podOfPath(m.Path), How: "mounted at " + disk.Visible(m.Path)})
		}
	}
	f := follow(host, dev, path, trees)
	ids := map[string]map[int]bool{}
	for namespace, mounts := range trees {
		ids[namespace] = map[int]bool{}
		for _, m := range mounts {
			ids[namespace][m.ID] = m.Dev == dev
		}
	}
	for _, p := range tasks {
		tree := trees[p.namespace]
		for i := range tree {
			if m := &tree[i]; p.first && m.Dev == dev && !f.follows(tree, m) {
				users = append(users, user(p.dir, "mounted at "+disk.Visible(m.Path)+" in its mount namespace"))
			}
		}
		for _, how := range uses(p.dir, ids[p.namespace], dev) {
			users = append(users, user(p.dir, how))
		}
	}
	return users, nil
}

// task is a process with a known mount namespace. first reports whether it is the first process of a namespace other
// than the host's.
type task struct {
	dir, namespace string
	first          bool
}

// namespaces returns all processes, and the mount table of each mount namespace as its first process sees it. The
// caller passes the host's.
func namespaces(root string, host []Mount) (map[string][]Mount, []task, error) {
	proc := filepath.Join("/", root, "proc")
	hostNamespace, err := os.Readlink(filepath.Join(proc, "1/ns/mnt"))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot tell mount namespaces apart: %w", err)
	}
	pids, err := PIDs(root)
	if err != nil {
		return nil, nil, err
	}
	trees, tasks := map[string][]Mount{hostNamespace: host}, []task(nil)
	for _, pid := range pids {
		p := task{dir: filepath.Join(proc, strconv.Itoa(pid))}
		p.namespace, err = os.Readlink(filepath.Join(p.dir, "ns/mnt"))
		if err == nil && trees[p.namespace] == nil {
			p.first = true
			trees[p.namespace], err = tree(filepath.Join(p.dir, "mountinfo"))
		}
		switch {
		case Gone(err):
			continue
		case err != nil:
			return nil, nil, fmt.Errorf("cannot see what process %d uses: %w", pid, err)
		}
		tasks = append(tasks, p)
	}
	return trees, tasks, nil
}

// follower identifies the mounts in other namespaces that end with the host's. The mount below decides: the kernel
// unmounts the same place on each mount that receives the host mount's events (propagate_umount in fs/pnode.c,
// mount_namespaces(7)). The peer group of the copy itself does not matter.
type follower struct {
	// groups are the peer groups that receive an unmount from the mount below the host's. place is the directory in
	// that mount's filesystem.
	groups map[int]bool
	place  string
	dev    disk.Dev
}

func follow(host []Mount, dev disk.Dev, path string, trees map[string][]Mount) (f follower) {
	for i := range host {
		m := &host[i]
		if below := parent(host, m); m.Dev == dev && m.Path == path && below != nil && below.Shared != 0 {
			f = follower{Receivers(below.Shared, maps.Values(trees)), inside(below, m.Path), below.Dev}
		}
	}
	return f
}

// follows reports whether the mount ends when the host's does. It returns false if the process cannot see the mount
// below.
func (f *follower) follows(tree []Mount, m *Mount) bool {
	below := parent(tree, m)
	return below != nil && below.Receives(f.groups) && below.Dev == f.dev && inside(below, m.Path) == f.place
}

func parent(tree []Mount, m *Mount) *Mount {
	i := slices.IndexFunc(tree, func(o Mount) bool { return o.ID == m.Parent })
	if i < 0 || m.Parent == m.ID {
		return nil
	}
	return &tree[i]
}

func tree(table string) ([]Mount, error) {
	file, err := os.Open(table)
	if err != nil {
		return nil, fmt.Errorf("cannot read mount table: %w", err)
	}
	defer file.Close()
	all, err := ParseTree(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read mount table: %w", err)
	}
	return all, nil
}

// uses returns how the process uses the filesystem, each kind once. ids has the mounts that the process sees, true for
// those of the filesystem. A process that has ended uses nothing.
func uses(dir string, ids map[int]bool, dev disk.Dev) []string {
	var how []string
	fds, _ := os.ReadDir(filepath.Join(dir, "fdinfo"))
	if slices.ContainsFunc(fds, func(fd fs.DirEntry) bool {
		info, _ := os.ReadFile(filepath.Join(dir, "fdinfo", fd.Name()))
		return on(string(info), filepath.Join(dir, "fd", fd.Name()), ids, dev)
	}) {
		how = append(how, "has a file open")
	}
	for _, link := range [][2]string{{"cwd", "works in a directory of it"}, {"root", "has its root directory there"}} {
		name := filepath.Join(dir, link[0])
		// O_PATH opens the link's target without asking the filesystem.
		if f, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
			info, _ := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", f))
			unix.Close(f)
			if on(string(info), name, ids, dev) {
				how = append(how, link[1])
			}
		}
	}
	// address perms offset dev inode path (proc_pid_maps(5)), with dev in hex.
	want := fmt.Sprintf("%02x:%02x", dev.Major, dev.Minor)
	mapped, _ := os.ReadFile(filepath.Join(dir, "maps"))
	for line := range strings.Lines(string(mapped)) {
		if f := strings.Fields(line); len(f) >= 4 && f[3] == want {
			return append(how, "has a file mapped")
		}
	}
	return how
}

// on reports whether an open file lies on the device's filesystem. Its mount decides, or its stat if no table has the
// mount. A removal of the mount point in another namespace detaches such a mount (rmdir(2), detach_mounts in
// fs/namespace.c).
func on(info, open string, ids map[int]bool, dev disk.Dev) bool {
	if id, err := strconv.Atoi(Field(info, "mnt_id")); err == nil {
		if ours, known := ids[id]; known {
			return ours
		}
	}
	var st unix.Statx_t
	// The flag avoids a request to a server.
	err := unix.Statx(unix.AT_FDCWD, open, unix.AT_STATX_DONT_SYNC, 0, &st)
	if errors.Is(err, unix.EIO) {
		return deadOn(open, dev)
	}
	return err == nil && st.Dev_major == dev.Major && st.Dev_minor == dev.Minor
}

// deadOn reports whether a file that answers EIO lies on an XFS of the device that is shut down. Its stat fails so
// (xfs_vn_getattr in fs/xfs/xfs_iops.c), but statfs(2) answers, with the device (xfs_fs_statfs in fs/xfs/xfs_super.c).
func deadOn(path string, dev disk.Dev) bool {
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) != nil {
		return false
	}
	number := uint64(uint32(fs.Fsid.Val[0]))
	return dev == disk.Dev{Major: unix.Major(number), Minor: unix.Minor(number)}
}

// podPath matches kubelet's own directories (/var/lib/kubelet/pods/UID).
var podPath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`/pods/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/`)
})

func podOfPath(path string) string {
	if m := podPath().FindStringSubmatch(path); m != nil {
		return m[1]
	}
	return ""
}
