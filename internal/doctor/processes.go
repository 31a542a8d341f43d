package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"hotmount/internal/csi"
	"hotmount/internal/mounts"
)

// The method `views` stores the view of PID 1 and all other views in the snapshot.
func (src Source) views(s *Snapshot) error {
	pids, err := mounts.PIDs(src.Root)
	if err != nil {
		return err
	}
	host, err := src.key(1)
	if err != nil {
		return fmt.Errorf("cannot see PID 1's mount namespace: %w", err)
	}
	views := []View{{Namespace: host.namespace, Root: host.root}}
	index := map[key]int{host: 0}
	var unlikely []Process
	unseen := 0
	for _, pid := range pids {
		k, err := src.key(pid)
		if err != nil && !mounts.ProcessEnded(err) {
			unseen++
		}
		p, gone := src.process(pid)
		if err != nil || gone != nil {
			continue
		}
		if p.Role != "" && !src.isPlausible(&p) {
			claimed := p.Role
			p.Role = ""
			if _, err := src.key(pid); err == nil && claimed == Kubelet { // the process still exists
				unlikely = append(unlikely, p)
			}
		}
		i, known := index[k]
		if !known {
			i = len(views)
			index[k] = i
			views = append(views, View{Namespace: k.namespace, Root: k.root})
		}
		if i == 0 && p.Role == "" && pid != 1 {
			continue // a host has hundreds of processes without a role, which the doctor does not need
		}
		views[i].Processes = append(views[i].Processes, p)
	}
	if unseen > 0 {
		s.blind("cannot see the mount namespaces of %d processes", unseen)
	}
	if n := len(unlikely); n > 0 {
		s.Found.Add(Finding{Processes: unlikely}, Note, NotSeen, nil,
			"%s has the name but not the rights of a kubelet on this host, so hotmount ignores the process (number of such processes: %d)", describeProcess(&unlikely[0]), n)
	}
	s.Host, s.Views = views[0], views[1:]
	return src.tables(s)
}

// The method `tables` reads the mount tables of all views.
func (src Source) tables(s *Snapshot) error {
	if err := src.table(&s.Host); err != nil {
		return fmt.Errorf("cannot read PID 1's mount table: %w", err)
	}
	for i := range s.Views {
		v := &s.Views[i]
		err := src.table(v)
		if err != nil && !mounts.ProcessEnded(err) {
			s.blind("cannot read the mount table of process %d: %v", v.Processes[0].PID, err)
		}
		if err != nil {
			v.Processes = nil
		}
	}
	return nil
}

// key identifies the view of a process.
type key struct{ namespace, root string }

func (src Source) key(pid int) (key, error) {
	namespace, err := os.Readlink(src.proc(pid, "ns/mnt"))
	if err != nil {
		return key{}, err
	}
	root, err := os.Readlink(src.proc(pid, "root"))
	return key{namespace, root}, err
}

// proc returns the path of a file in the directory of a process in /proc.
func (src Source) proc(pid int, name string) string {
	return src.path(path.Join("/proc", strconv.Itoa(pid), name))
}

// table reads the mount table of the view's first process that is still alive.
func (src Source) table(v *View) error {
	err := fs.ErrNotExist
	for len(v.Processes) > 0 {
		if v.Mounts, err = mounts.ReadTable(src.proc(v.Processes[0].PID, "mountinfo")); !mounts.ProcessEnded(err) {
			return err
		}
		v.Processes = v.Processes[1:]
	}
	return err
}

// The method `process` reads the name, the executable and the control group of a process. The name or the executable
// determines the role. The method does not read files in /proc/PID that depend on the memory of the process, because
// such a read can hang.
func (src Source) process(pid int) (Process, error) {
	p := Process{PID: pid}
	name, err := os.ReadFile(src.proc(pid, "comm"))
	if err != nil {
		return p, err
	}
	p.Name = strings.TrimSuffix(string(name), "\n")
	if exe, err := os.Readlink(src.proc(pid, "exe")); err == nil {
		p.Exe = strings.TrimSuffix(exe, " (deleted)")
	}
	// The containerd of k3s is the k3s executable under another name.
	p.Role = cmp.Or(roles[p.Name], roles[path.Base(p.Exe)])
	src.cgroup(&p)
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

// isPlausible reports whether a process can have the role that its name claims. Any program in a pod can take any name.
// Kubelets and runtimes mount on the host, so they have CAP_SYS_ADMIN (capabilities(7)) in the host's user namespace.
// CAP_SYS_ADMIN in another user namespace proves nothing, because any process can get this capability there
// (user_namespaces(7)).
func (src Source) isPlausible(p *Process) bool {
	switch {
	case p.Role == Provisioner:
		return true
	case p.Role == Agent:
		return p.Pod == ""
	case p.Role == Runtime && p.Pod != "":
		return false
	}
	users, err := os.Readlink(src.proc(p.PID, "ns/user"))
	host, hostErr := os.Readlink(src.proc(1, "ns/user"))
	status, statusErr := os.ReadFile(src.proc(p.PID, "status"))
	effective, parseErr := strconv.ParseUint(mounts.Field(string(status), "CapEff"), 16, 64)
	return errors.Join(err, hostErr, statusErr, parseErr) == nil && users == host && effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

var (
	containerInCgroup = pattern(`(?m)([0-9a-f]{64})(?:\.scope)?$`)
	serviceInCgroup   = pattern(`(?m):((?:/[^/\n]+)*?/[\w:.@\\-]+\.service)(?:/|$)`)
)

// cgroup reads the pod, container and service of a process from its control group (cgroups(7)). Kubelet, the runtimes
// and systemd put the names of pods, containers and services into the path of the control group.
func (src Source) cgroup(p *Process) {
	text, _ := os.ReadFile(src.proc(p.PID, "cgroup"))
	p.Pod = mounts.Pod(string(text))
	if m := containerInCgroup().FindSubmatch(text); m != nil {
		p.Container = string(m[1])
	}
	if m := serviceInCgroup().FindSubmatch(text); m != nil && p.Container == "" && p.Pod == "" {
		p.Service.Group = string(m[1])
	}
}

// arguments reads the command line of a process that may be a kubelet or the daemon. The function clears the role if
// the command line shows that the process is neither a kubelet nor the daemon.
func (src Source) arguments(ctx context.Context, p *Process) {
	if p.Role != Kubelet && p.Role != Agent {
		return
	}
	answers, err := src.Look(ctx, p.PID, nil)
	if err != nil || len(answers) == 0 {
		return
	}
	p.Args = answers[len(answers)-1].Args
	agent := p.Role != Agent || slices.Contains(p.Args, "run")
	// Hyperkube is one executable for all Kubernetes components, and runs kubelet as "hyperkube kubelet".
	kubelet := !isHyperkube(p) || slices.ContainsFunc(p.Args, func(a string) bool { return path.Base(a) == "kubelet" })
	if !agent || !kubelet {
		p.Role = ""
	}
}

func isHyperkube(p *Process) bool { return path.Base(p.Exe) == "hyperkube" || p.Name == "hyperkube" }

// defaultRoot is the default of kubelet's --root-dir.
const defaultRoot = csi.DefaultRoot

// maxRoots is the maximum number of root directories that the doctor examines for one kubelet. A kubelet usually has
// one root directory.
const maxRoots = 8

// rootDirectories returns a kubelet's root directories from its command line and its mounts. The second result contains
// the directories that rootDirectories leaves out. rootDirectories leaves out directories beyond maxRoots.
// rootDirectories also leaves out directories whose names contain bytes that are not in the constant `plain`. Such names
// are not safe in the advice, because users paste lines of the advice into a shell.
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
