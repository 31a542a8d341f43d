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
)

// PIDs returns the IDs of all processes, in ascending order.
func PIDs(root string) ([]int, error) {
	entries, err := os.ReadDir(filepath.Join("/", root, "proc"))
	if err != nil {
		return nil, fmt.Errorf("cannot list the processes: %w", err)
	}
	var all []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	slices.Sort(all)
	return all, nil
}

// ProcessEnded reports whether an error from a file of /proc means that the process has ended (proc(5)). EINVAL comes
// from a process without a mount namespace (mounts_open_common in fs/proc_namespace.c).
func ProcessEnded(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL)
}

// Field returns the value of the line "name:" in a fdinfo or status file, or "" (proc_pid_fdinfo(5),
// proc_pid_status(5)).
func Field(text, name string) string {
	_, value, _ := strings.Cut("\n"+text, "\n"+name+":")
	value, _, _ = strings.Cut(value, "\n")
	return strings.TrimSpace(value)
}

// The regular expression `pod` matches the control groups of kubelet's pods. In the name of a pod's control group, both
// cgroup drivers of kubelet write "pod" and the UID of the pod. The systemd driver replaces each "-" in the UID by "_".
// The UID of a static pod is a hash without "-" and "_".
var pod = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})`)
})

// Pod returns the UID of the Kubernetes pod to which a process with the given control groups (proc_pid_cgroup(5))
// belongs, or "".
func Pod(groups string) string {
	if m := pod().FindStringSubmatch(groups); m != nil {
		return strings.ReplaceAll(m[1], "_", "-")
	}
	return ""
}

// podOf returns the UID of the Kubernetes pod to which the process with the given directory in /proc belongs, or "".
// podOf returns "" for a static pod, because nobody can delete a static pod by its UID.
func podOf(dir string) string {
	groups, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
	if uid := Pod(string(groups)); strings.Contains(uid, "-") {
		return uid
	}
	return ""
}

func command(dir string) string {
	name, _ := os.ReadFile(filepath.Join(dir, "comm"))
	return strings.TrimSuffix(string(name), "\n")
}

// The function `user` returns a User for the process with the given directory in /proc.
func user(dir, how string) User {
	pid, _ := strconv.Atoi(filepath.Base(dir))
	return User{PID: pid, Command: command(dir), Pod: podOf(dir), How: how}
}
