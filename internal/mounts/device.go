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

// DeviceUsers returns the processes that have the disk itself open, by any node. Only root with all capabilities sees
// them all. It leaves out processes that end meanwhile.
func DeviceUsers(root string, id disk.ID) ([]User, error) {
	var users []User
	proc := filepath.Join("/", root, "proc")
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("cannot list the processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(proc, e.Name())
		fds, err := os.ReadDir(filepath.Join(dir, "fd"))
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot see what process %d uses: %w", pid, err)
		}
		for _, fd := range fds {
			var st unix.Statx_t
			// This flag avoids a request to a server, which may be dead.
			err := unix.Statx(unix.AT_FDCWD, filepath.Join(dir, "fd", fd.Name()), unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
			if err == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK && (disk.Dev{Major: st.Rdev_major, Minor: st.Rdev_minor}) == id.Dev {
				users = append(users, User{PID: pid, Command: command(dir), Pod: podOf(dir), Unit: unitOf(dir), How: "has it open"})
				break
			}
		}
	}
	return users, nil
}

// unitOf returns the last part of the name of a process's control group.
func unitOf(dir string) string {
	groups, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
	return filepath.Base(strings.TrimSpace(string(groups)))
}
