package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"hotmount/internal/csi"
	"hotmount/internal/mounts"
)

// views returns the view of PID 1, then all others.
func (src Source) views(s *Snapshot) ([]View, error) {
	pids, err := src.pids()
	if err != nil {
		return nil, fmt.Errorf("cannot list the processes: %w", err)
	}
	host, err := src.key(1)
	if err != nil {
		return nil, fmt.Errorf("cannot see PID 1's mount namespace: %w", err)
	}
	views := []View{{Namespace: host.namespace, Root: host.root}}
	index := map[key]int{host: 0}
	unseen := 0
	for _, pid := range pids {
		k, err := src.key(pid)
		if gone(err) {
			continue
		}
		if err != nil {
			unseen++
			continue
		}
		p, err := src.process(pid)
		if err != nil {
			continue
		}
		if p.Role == "" && role(p.Name, p.Exe) == Kubelet {
			if _, err := src.key(pid); err == nil { // it has not just ended
				s.Unlikely = append(s.Unlikely, p)
			}
		}
		i, known := index[k]
		if !known {
			i = len(views)
			index[k] = i
			views = append(views, View{Namespace: k.namespace, Root: k.root})
			src.cgroup(&p)
		}
		if i == 0 && p.Role == "" && pid != 1 {
			continue // there are hundreds, and nothing needs them
		}
		views[i].Processes = append(views[i].Processes, p)
	}
	if unseen > 0 {
		s.Blind = append(s.Blind, fmt.Sprintf("cannot see the mount namespaces of %d processes", unseen))
	}
	if err := src.table(&views[0]); err != nil {
		return nil, fmt.Errorf("cannot read PID 1's mount table: %w", err)
	}
	for i := range views[1:] {
		v := &views[1+i]
		err := src.table(v)
		if err != nil && !gone(err) {
			s.Blind = append(s.Blind, fmt.Sprintf("cannot read the mount table of process %d: %v", v.Processes[0].PID, err))
		}
		if err != nil {
			v.Processes = nil
		}
	}
	return views, nil
}

// key identifies the view of a process.
type key struct{ namespace, root string }

func (src Source) key(pid int) (key, error) {
	proc := src.path("/proc/" + strconv.Itoa(pid))
	namespace, err := os.Readlink(proc + "/ns/mnt")
	if err != nil {
		return key{}, err
	}
	root, err := os.Readlink(proc + "/root")
	return key{namespace, root}, err
}

// gone reports whether an error means that a process has ended (proc(5)).
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

func (src Source) pids() ([]int, error) {
	entries, err := os.ReadDir(src.path("/proc"))
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, err
}

// maxTable bounds a mount table in bytes. A pod may make as many mounts as /proc/sys/fs/mount-max allows, with long
// names.
const maxTable = 32 << 20

// table reads the mount table of the view's first process that is still alive.
func (src Source) table(v *View) error {
	err := fs.ErrNotExist
	for len(v.Processes) > 0 {
		if v.Mounts, err = src.tableOf(v.Processes[0].PID); !gone(err) {
			return err
		}
		v.Processes = v.Processes[1:]
	}
	return err
}

func (src Source) tableOf(pid int) ([]mounts.Mount, error) {
	file, err := os.Open(src.path(fmt.Sprintf("/proc/%d/mountinfo", pid)))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	bounded := &io.LimitedReader{R: file, N: maxTable}
	tree, err := mounts.ParseTree(bounded)
	switch {
	case bounded.N == 0:
		return nil, fmt.Errorf("it has more than %d bytes", maxTable)
	case errors.Is(err, syscall.EINVAL):
		return nil, fs.ErrNotExist // the process has ended (m_start in fs/namespace.c)
	case err == nil && len(tree) == 0:
		return nil, fs.ErrNotExist
	}
	return tree, err
}

// maxStatus bounds how much of a process's small files is read, in bytes.
const maxStatus = 16 << 10

// process reads a process's name and role. It reads no file of /proc that can hang on the process's memory.
func (src Source) process(pid int) (Process, error) {
	p := Process{PID: pid}
	proc := src.path("/proc/" + strconv.Itoa(pid))
	name, err := readLimited(proc+"/comm", maxStatus)
	if err != nil {
		return p, err
	}
	p.Name = strings.TrimSuffix(name, "\n")
	if exe, err := os.Readlink(proc + "/exe"); err == nil {
		p.Exe = strings.TrimSuffix(exe, " (deleted)")
	}
	if p.Role = role(p.Name, p.Exe); p.Role != "" {
		src.cgroup(&p)
		if !src.plausible(&p) {
			p.Role = ""
		}
	}
	return p, nil
}

// roles maps the name of an executable to its role. The kernel cuts the name of a process to 15 bytes (TASK_COMM_LEN in
// include/linux/sched.h).
var roles = map[string]Role{
	"kubelet": Kubelet, "kubelite": Kubelet, "k3s": Kubelet, "k3s-server": Kubelet, "k3s-agent": Kubelet, "hyperkube": Kubelet,
	"local-provisioner": Provisioner, "local-volume-provisioner": Provisioner, "local-static-provisioner": Provisioner,
	"local-provision": Provisioner, "local-volume-pr": Provisioner, "local-static-pr": Provisioner,
	"containerd": Runtime, "dockerd": Runtime, "crio": Runtime, "cri-dockerd": Runtime,
	"hotmount": Agent,
}

func role(name, exe string) Role {
	// The containerd of k3s is the k3s executable under another name.
	if r := roles[name]; r != "" {
		return r
	}
	return roles[path.Base(exe)]
}

// plausible reports whether a process can be what its name claims, for anything in a pod can take any name. Kubelets
// and runtimes mount on the host, so they have CAP_SYS_ADMIN (capabilities(7)). They have it in the host's user
// namespace: in its own user namespace every process has it (user_namespaces(7)).
func (src Source) plausible(p *Process) bool {
	switch {
	case p.Role == Provisioner:
		return true
	case p.Role == Agent:
		return p.Pod == ""
	case p.Role == Runtime && p.Pod != "":
		return false
	}
	users, err := os.Readlink(src.path(fmt.Sprintf("/proc/%d/ns/user", p.PID)))
	host, hostErr := os.Readlink(src.path("/proc/1/ns/user"))
	status, statusErr := readLimited(src.path(fmt.Sprintf("/proc/%d/status", p.PID)), maxStatus)
	if errors.Join(err, hostErr, statusErr) != nil || users != host {
		return false
	}
	_, line, _ := strings.Cut("\n"+status, "\nCapEff:\t")
	line, _, _ = strings.Cut(line, "\n")
	effective, err := strconv.ParseUint(line, 16, 64)
	return err == nil && effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

var (
	podInCgroup       = pattern(`pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})`)
	containerInCgroup = pattern(`([0-9a-f]{64})(?:\.scope)?$`)
	serviceInCgroup   = pattern(`:((?:/[^/]+)*?/[\w:.@\\-]+\.service)(?:/|$)`)
)

// cgroup reads the pod, container and service of a process from its control group (cgroups(7)). Kubelet, the runtimes
// and systemd put them into the path.
func (src Source) cgroup(p *Process) {
	text, err := readLimited(src.path(fmt.Sprintf("/proc/%d/cgroup", p.PID)), maxStatus)
	if err != nil {
		return
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if m := podInCgroup().FindStringSubmatch(line); m != nil {
			p.Pod = strings.ReplaceAll(m[1], "_", "-")
		}
		if m := containerInCgroup().FindStringSubmatch(line); m != nil {
			p.Container = m[1]
		}
		if m := serviceInCgroup().FindStringSubmatch(line); m != nil {
			p.Service.Group = m[1]
		}
	}
	if p.Container != "" || p.Pod != "" {
		p.Service = Service{}
	}
}

// readLimited returns at most limit bytes from the beginning of a file of /proc.
func readLimited(name string, limit int64) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, limit))
	return string(b), err
}

// arguments reads the command line of a process that may be a kubelet. It clears the role if the process is another
// part of Kubernetes.
func (src Source) arguments(ctx context.Context, p *Process) {
	if p.Role != Kubelet && p.Role != Agent {
		return
	}
	answers, err := src.Look(ctx, p.PID, nil)
	for _, a := range answers {
		if a.Args != nil {
			p.Args = a.Args
		}
	}
	switch {
	case err != nil:
	case p.Role == Agent && !slices.Contains(p.Args, "run"):
		p.Role = ""
	// Hyperkube is one executable for all of Kubernetes: "hyperkube kubelet".
	case isHyperkube(p) && !slices.ContainsFunc(p.Args, func(a string) bool { return path.Base(a) == "kubelet" }):
		p.Role = ""
	}
}

func isHyperkube(p *Process) bool { return path.Base(p.Exe) == "hyperkube" || p.Name == "hyperkube" }

// defaultRoot is the default of kubelet's --root-dir.
const defaultRoot = csi.DefaultRoot

// maxRoots bounds how many root directories a kubelet may have. One is usual.
const maxRoots = 8

// rootDirectories returns a kubelet's root directories from its command line and its mounts. It also returns those that
// it leaves out: names with bytes that the configuration does not allow in a directory's name. The advice prints the
// names as lines to paste.
func rootDirectories(p *Process, table []mounts.Mount) (dirs, left []string) {
	if p.Role != Kubelet {
		return nil, nil
	}
	for i, a := range p.Args {
		_, dir, found := strings.Cut(a, "root-dir=")
		if (a == "--root-dir" || a == "-root-dir") && i+1 < len(p.Args) {
			dir, found = p.Args[i+1], true
		}
		if found && path.IsAbs(dir) {
			dirs = append(dirs, path.Clean(dir))
		}
	}
	for i := range table {
		if v, ok := podVolume(table[i].Path); ok {
			dirs = append(dirs, path.Join("/", v.root))
		}
	}
	slices.Sort(dirs)
	dirs = slices.DeleteFunc(slices.Compact(dirs), func(dir string) bool {
		odd := strings.Trim(dir, plain) != ""
		if odd {
			left = append(left, dir)
		}
		return odd
	})
	if len(dirs) > maxRoots {
		dirs, left = dirs[:maxRoots], append(left, dirs[maxRoots:]...)
	}
	if len(dirs) == 0 {
		dirs = []string{defaultRoot}
	}
	return dirs, left
}
