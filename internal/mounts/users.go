package mounts

import (
	"errors"
	"fmt"
	"io/fs"
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

// User is one use of a filesystem, or of a disk itself (DeviceUsers). A use of a filesystem keeps the filesystem busy,
// even after somebody has unmounted the filesystem from its mount point.
type User struct {
	// PID and Command describe the process that uses the filesystem. For a mount on the host, PID is 0 and Command is
	// empty.
	PID     int    `json:"pid,omitempty"`
	Command string `json:"command,omitempty"`
	// Pod is the UID of the Kubernetes pod to which the use belongs, or empty.
	Pod string `json:"pod,omitempty"`
	// Unit is the process's systemd unit. Writes reports whether the process has the disk open for writing. Machine
	// reports whether the process is a virtual machine monitor. Only DeviceUsers sets Unit, Writes and Machine.
	Unit    string `json:"unit,omitempty"`
	Writes  bool   `json:"writes,omitempty"`
	Machine bool   `json:"machine,omitempty"`
	// The field How describes the kind of use, in text without control characters.
	How string `json:"how"`
}

// String describes the use, with the process and the pod if known.
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

// Lines describes the users in words, with one user on each line. All lines except the first are indented.
func Lines(users []User) string {
	var lines []string
	for _, u := range users {
		lines = append(lines, u.String())
	}
	return strings.Join(lines, "\n  ")
}

// MountedAnywhere reports whether an XFS or ext4 filesystem on the named disk is mounted, in any mount namespace. For
// each mounted XFS or ext4 filesystem, the kernel makes an entry in /sys/fs/xfs or /sys/fs/ext4 (xfs_mountfs in
// fs/xfs/xfs_mount.c, ext4_register_sysfs in fs/ext4/sysfs.c).
func MountedAnywhere(root, name string) bool {
	for _, fstype := range []string{disk.XFS, disk.Ext4} {
		if _, err := os.Lstat(filepath.Join("/", root, "sys/fs", fstype, name)); err == nil {
			return true
		}
	}
	return false
}

// Users returns the users of the filesystem that is mounted at the path. The users are processes, and other mounts of
// the filesystem in any mount namespace of a process. A mount in another namespace is no user if the kernel removes it
// with the host's mount (follower). A process is a user if an open file, a mapped file, its working directory or its
// root directory is on the filesystem. A process is a user even if its mount of the filesystem is no longer in any
// mount table.
//
// Users reads nothing from the disk, because the disk may be dead. Only root with all capabilities sees every user of
// the filesystem. Users leaves out processes that end during the call.
func Users(root string, dev disk.Dev, path string) ([]User, error) {
	all, err := namespaces(root)
	if err != nil {
		return nil, err
	}
	var users []User
	f := newFollower(all, dev, path)
	for _, n := range all {
		ours := map[int]bool{}
		for i := range n.mounts {
			m := &n.mounts[i]
			ours[m.ID] = m.Dev == dev
			how := "mounted at " + disk.Visible(m.Path)
			switch {
			case m.Dev != dev:
			case n == all[0] && m.Path != path:
				users = append(users, User{Pod: podOfPath(m.Path), How: how})
			case n != all[0] && !f.follows(n.mounts, m):
				users = append(users, user(n.processes[0], how+" in its mount namespace"))
			}
		}
		for _, dir := range n.processes {
			for _, how := range uses(dir, ours, dev) {
				users = append(users, user(dir, how))
			}
		}
	}
	return users, nil
}

// namespace is a mount namespace with its processes.
type namespace struct {
	// The field `root` is the root directory of the namespace's first process, and the field `mounts` is the mount table of
	// that process.
	root   string
	mounts []Mount
	// The field `processes` contains the /proc directories of the namespace's processes.
	processes []string
}

// namespaces returns the mount namespaces of all processes. The mount namespace of the host is the first in the list.
func namespaces(root string) ([]*namespace, error) {
	host := &namespace{root: filepath.Join("/", root)}
	var err error
	if host.mounts, err = Tree(root); err != nil {
		return nil, err
	}
	link, err := os.Readlink(filepath.Join("/", root, "proc/1/ns/mnt"))
	if err != nil {
		return nil, fmt.Errorf("cannot tell mount namespaces apart: %w", err)
	}
	pids, err := PIDs(root)
	if err != nil {
		return nil, err
	}
	all, known := []*namespace{host}, map[string]*namespace{link: host}
	for _, pid := range pids {
		dir := filepath.Join("/", root, "proc", strconv.Itoa(pid))
		link, err := os.Readlink(filepath.Join(dir, "ns/mnt"))
		n := known[link]
		if err == nil && n == nil {
			n = &namespace{root: filepath.Join(dir, "root")}
			if n.mounts, err = ReadTable(filepath.Join(dir, "mountinfo")); err == nil {
				known[link], all = n, append(all, n)
			}
		}
		switch {
		case ProcessEnded(err):
		case err != nil:
			return nil, fmt.Errorf("cannot see what process %d uses: %w", pid, err)
		default:
			n.processes = append(n.processes, dir)
		}
	}
	return all, nil
}

// follower identifies the mounts in other namespaces that the kernel removes when the host unmounts the filesystem. The
// kernel propagates the unmount from the parent of the host's mount to other mounts (propagate_umount in fs/pnode.c,
// mount_namespaces(7)). The kernel removes a mount only if its parent mount receives the event. The peer group of the
// mount itself does not matter.
type follower struct {
	// The field `groups` contains the peer groups to which the kernel propagates the host's unmount. The field `place` is
	// the mount point of the host's mount, as a path in the parent mount's filesystem.
	groups map[int]bool
	place  string
	dev    disk.Dev
}

func newFollower(all []*namespace, dev disk.Dev, path string) (f follower) {
	var tables [][]Mount
	for _, n := range all {
		tables = append(tables, n.mounts)
	}
	for i := range tables[0] {
		m := &tables[0][i]
		if below := parent(tables[0], m); m.Dev == dev && m.Path == path && below != nil && below.Shared != 0 {
			f = follower{Receivers(below.Shared, tables), pathInMount(below, m.Path), below.Dev}
		}
	}
	return f
}

// The method `follows` reports whether the kernel removes the mount when the host unmounts the filesystem. The result is
// false if the parent mount is not in the tree.
func (f *follower) follows(tree []Mount, m *Mount) bool {
	below := parent(tree, m)
	return below != nil && below.Receives(f.groups) && below.Dev == f.dev && pathInMount(below, m.Path) == f.place
}

func parent(tree []Mount, m *Mount) *Mount {
	i := slices.IndexFunc(tree, func(o Mount) bool { return o.ID == m.Parent })
	if i < 0 || m.Parent == m.ID {
		return nil
	}
	return &tree[i]
}

// The function `uses` describes how the process uses the filesystem. The result contains each kind of use once. The
// keys of the map `ours` are the IDs of the mounts that the process sees. A value is true if the mount is a mount of
// the filesystem. The result is nil for a process that has ended.
func uses(dir string, ours map[int]bool, dev disk.Dev) []string {
	var how []string
	fds, _ := os.ReadDir(filepath.Join(dir, "fdinfo"))
	if slices.ContainsFunc(fds, func(fd fs.DirEntry) bool {
		info, _ := os.ReadFile(filepath.Join(dir, "fdinfo", fd.Name()))
		return isOnDevice(string(info), filepath.Join(dir, "fd", fd.Name()), ours, dev)
	}) {
		how = append(how, "has a file open")
	}
	for _, link := range [][2]string{{"cwd", "has its working directory there"}, {"root", "has its root directory there"}} {
		name := filepath.Join(dir, link[0])
		// With O_PATH, open(2) opens the target of the link without a request to the filesystem.
		if f, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
			info, _ := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", f))
			unix.Close(f)
			if isOnDevice(string(info), name, ours, dev) {
				how = append(how, link[1])
			}
		}
	}
	// The fields of a line are address, perms, offset, dev, inode and path (proc_pid_maps(5)). The field `dev` is
	// hexadecimal.
	want := fmt.Sprintf("%02x:%02x", dev.Major, dev.Minor)
	mapped, _ := os.ReadFile(filepath.Join(dir, "maps"))
	for line := range strings.Lines(string(mapped)) {
		if f := strings.Fields(line); len(f) >= 4 && f[3] == want {
			return append(how, "has a file mapped")
		}
	}
	return how
}

// isOnDevice reports whether an open file lies on the device's filesystem. isOnDevice looks up the file's mount ID in
// the map `ours`. If the map lacks the mount ID, isOnDevice compares the device number of the file. If a mount
// point is removed in another namespace, the mount on it becomes detached and is then in no mount table (rmdir(2),
// detach_mounts in fs/namespace.c).
func isOnDevice(info, open string, ours map[int]bool, dev disk.Dev) bool {
	if id, err := strconv.Atoi(Field(info, "mnt_id")); err == nil {
		if onDevice, known := ours[id]; known {
			return onDevice
		}
	}
	var st unix.Statx_t
	// With AT_STATX_DONT_SYNC, statx sends no request to a file server.
	err := unix.Statx(unix.AT_FDCWD, open, unix.AT_STATX_DONT_SYNC, 0, &st)
	if errors.Is(err, unix.EIO) {
		return deadOn(open, dev)
	}
	return err == nil && st.Dev_major == dev.Major && st.Dev_minor == dev.Minor
}

// deadOn reports whether a file lies on the device's XFS filesystem. deadOn is called only after another system call on
// the file has failed with EIO. On a shut-down XFS, stat(2) fails (xfs_vn_getattr in fs/xfs/xfs_iops.c), but statfs(2)
// succeeds and names the device (xfs_fs_statfs in fs/xfs/xfs_super.c).
func deadOn(path string, dev disk.Dev) bool {
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) != nil {
		return false
	}
	number := uint64(uint32(fs.Fsid.Val[0]))
	return dev == disk.Dev{Major: unix.Major(number), Minor: unix.Minor(number)}
}

// podPath matches paths in the directory that kubelet makes for a pod (/var/lib/kubelet/pods/UID).
var podPath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`/pods/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/`)
})

func podOfPath(path string) string {
	if m := podPath().FindStringSubmatch(path); m != nil {
		return m[1]
	}
	return ""
}
