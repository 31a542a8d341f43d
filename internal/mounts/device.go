package mounts

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// DeviceUsers returns the processes that have the disk itself open, through any device node. Only root with all
// capabilities sees all processes. DeviceUsers leaves out processes that end during the call.
func DeviceUsers(root string, id disk.ID) ([]User, error) {
	pids, err := PIDs(root)
	if err != nil {
		return nil, err
	}
	var users []User
	for _, pid := range pids {
		dir := filepath.Join("/", root, "proc", strconv.Itoa(pid))
		fds, err := os.ReadDir(filepath.Join(dir, "fd"))
		if ProcessEnded(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot see what process %d uses: %w", pid, err)
		}
		open, writes := false, false
		for _, fd := range fds {
			var st unix.Statx_t
			// With AT_STATX_DONT_SYNC, statx sends no request to a file server that may be dead.
			err := unix.Statx(unix.AT_FDCWD, filepath.Join(dir, "fd", fd.Name()), unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
			if err == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK && (disk.Dev{Major: st.Rdev_major, Minor: st.Rdev_minor}) == id.Dev {
				info, _ := os.ReadFile(filepath.Join(dir, "fdinfo", fd.Name()))
				open, writes = true, writes || forWriting(string(info))
			}
		}
		if open {
			u := user(dir, "has the disk open")
			u.Unit, u.Writes, u.Machine = unitOf(dir), writes, isMonitor(dir)
			users = append(users, u)
		}
	}
	return users, nil
}

// forWriting reports whether a file is open for writing. The argument is the text of a file in /proc/PID/fdinfo, where
// the flags are octal (proc_pid_fdinfo(5)).
func forWriting(info string) bool {
	flags, err := strconv.ParseUint(Field(info, "flags"), 8, 64)
	return err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY
}

// isMonitor reports whether the name of the process or of its program is the name of a virtual machine monitor. The
// kernel shortens the name of a process to 15 characters.
func isMonitor(dir string) bool {
	program, _ := os.Readlink(filepath.Join(dir, "exe"))
	for _, name := range []string{command(dir), filepath.Base(program)} {
		switch {
		case strings.HasPrefix(name, "qemu-"), strings.HasPrefix(name, "cloud-hyperviso"), name == "firecracker", name == "virt-launcher":
			return true
		}
	}
	return false
}

// UnitOf returns the systemd unit of the process with the given PID, or "." if the control group is unknown.
func UnitOf(root string, pid int) string {
	return unitOf(filepath.Join("/", root, "proc", strconv.Itoa(pid)))
}

// unitOf returns the systemd unit of a process: the last part of its control group's path.
func unitOf(dir string) string {
	groups, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
	return filepath.Base(strings.TrimSpace(string(groups)))
}
