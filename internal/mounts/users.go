package mounts

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// User is one use of a mounted filesystem that keeps it in use when it is
// unmounted at its mount point.
type User struct {
	// PID and Command are of the process, zero and empty for a mount of the host.
	PID     int    `json:"pid,omitempty"`
	Command string `json:"command,omitempty"`
	// Pod is the UID of the Kubernetes pod that the use belongs to, empty if it
	// belongs to none.
	Pod string `json:"pod,omitempty"`
	// Unit is the process's systemd unit, where DeviceUsers has found it.
	Unit string `json:"unit,omitempty"`
	// How is the kind of use, in words. Foreign bytes in it are visible.
	How string `json:"how"`
}

// String gives the user in words.
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

// Users gives who uses the filesystem of that device number that is mounted at
// the path: mounts of it elsewhere, also in other mount namespaces, and
// processes with a file of it open, mapped, or as a working or root directory.
// It asks nothing of the filesystem itself, which may be dead, and sees all only
// as root with all capabilities. A process that ends meanwhile is left out.
func Users(root string, dev disk.Dev, path string) ([]User, error) {
	proc := filepath.Join("/", root, "proc")
	host, err := mountsOf(filepath.Join("/", root, tablePath), dev)
	if err != nil {
		return nil, err
	}
	hostNamespace, err := os.Readlink(filepath.Join(proc, "1/ns/mnt"))
	if err != nil {
		return nil, fmt.Errorf("cannot tell mount namespaces apart: %w", err)
	}
	var users []User
	groups := map[string]bool{}
	for _, m := range host {
		if g := tag(m, "shared:"); g != "" {
			groups[g] = true
		}
		if m.Mountpoint != path {
			users = append(users, User{Pod: podOfPath(m.Mountpoint), How: "mounted at " + disk.Visible(m.Mountpoint)})
		}
	}
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("cannot list the processes: %w", err)
	}
	// The mounts of the filesystem in each namespace, looked up once.
	seen := map[string]map[int]bool{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(proc, e.Name())
		namespace, err := os.Readlink(filepath.Join(dir, "ns/mnt"))
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot see what process %d uses: %w", pid, err)
		}
		ids, known := seen[namespace]
		if !known {
			all, err := mountsOf(filepath.Join(dir, "mountinfo"), dev)
			if gone(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			ids = map[int]bool{}
			for _, m := range all {
				ids[m.ID] = true
				// What follows the host's mount goes with it.
				if namespace != hostNamespace && !groups[tag(m, "shared:")] && !groups[tag(m, "master:")] {
					users = append(users, User{PID: pid, Command: command(dir), Pod: podOf(dir), How: "mounted at " + disk.Visible(m.Mountpoint) + " in its mount namespace"})
				}
			}
			seen[namespace] = ids
		}
		for _, how := range uses(dir, ids, dev) {
			users = append(users, User{PID: pid, Command: command(dir), Pod: podOf(dir), How: how})
		}
	}
	return users, nil
}

func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL)
}

// mountsOf gives the mounts of that device in a mount table.
func mountsOf(table string, dev disk.Dev) ([]*mountinfo.Info, error) {
	file, err := os.Open(table)
	if err != nil {
		return nil, fmt.Errorf("cannot read mount table: %w", err)
	}
	defer file.Close()
	bounded, err := boundLines(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read mount table: %w", err)
	}
	all, err := mountinfo.GetMountsFromReader(bounded, func(i *mountinfo.Info) (skip, stop bool) {
		return i.Major != int(dev.Major) || i.Minor != int(dev.Minor), false
	})
	if err != nil {
		return nil, errors.New("cannot read mount table: " + disk.Visible(err.Error()))
	}
	return all, nil
}

// uses gives how the process uses the filesystem, each kind once. A process that
// has ended uses nothing.
func uses(dir string, ids map[int]bool, dev disk.Dev) []string {
	var how []string
	fds, _ := os.ReadDir(filepath.Join(dir, "fdinfo"))
	for _, fd := range fds {
		info, _ := os.ReadFile(filepath.Join(dir, "fdinfo", fd.Name()))
		if ids[mountOf(string(info))] {
			how = append(how, "has a file open")
			break
		}
	}
	for link, words := range map[string]string{"cwd": "works in a directory of it", "root": "has its root directory there"} {
		// O_PATH reaches what the link stands for without asking the filesystem.
		f, err := unix.Open(filepath.Join(dir, link), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		info, _ := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", f))
		if ids[mountOf(string(info))] {
			how = append(how, words)
		}
		unix.Close(f)
	}
	if maps, err := os.Open(filepath.Join(dir, "maps")); err == nil {
		defer maps.Close()
		// address perms offset dev inode path (proc_pid_maps(5)), dev in hex.
		want := fmt.Sprintf("%02x:%02x", dev.Major, dev.Minor)
		lines := bufio.NewScanner(maps)
		for lines.Scan() {
			if f := strings.Fields(lines.Text()); len(f) >= 4 && f[3] == want {
				how = append(how, "has a file mapped")
				break
			}
		}
	}
	return how
}

// mountOf is the mnt_id of a fdinfo file (proc_pid_fdinfo(5)), -1 for none.
func mountOf(info string) int {
	for line := range strings.Lines(info) {
		if id, found := strings.CutPrefix(line, "mnt_id:"); found {
			if n, err := strconv.Atoi(strings.TrimSpace(id)); err == nil {
				return n
			}
		}
	}
	return -1
}

func command(dir string) string {
	name, _ := os.ReadFile(filepath.Join(dir, "comm"))
	return strings.TrimSuffix(string(name), "\n")
}

var (
	// The kubelet's own directories (/var/lib/kubelet/pods/UID), and its control
	// groups by both drivers (pod<UID>, with _ for - in systemd's).
	podPath   = regexp.MustCompile(`/pods/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/`)
	podCgroup = regexp.MustCompile(`pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})`)
)

func podOfPath(path string) string {
	if m := podPath.FindStringSubmatch(path); m != nil {
		return m[1]
	}
	return ""
}

func podOf(dir string) string {
	groups, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
	if m := podCgroup.FindSubmatch(groups); m != nil {
		return strings.ReplaceAll(string(m[1]), "_", "-")
	}
	return ""
}
