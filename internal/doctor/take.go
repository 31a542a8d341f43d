package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// Source is where a snapshot is taken from.
type Source struct {
	// Root is the directory below which the node is; "" is the live system.
	Root string
	// Look and List are the functions of this package, run in processes of
	// their own with a time limit. They give what was answered until then, and
	// an error if that is not all.
	Look func(ctx context.Context, pid int, paths []string) ([]Answer, error)
	List func(ctx context.Context, dir string) ([]Answer, error)
}

// initialPIDs is the link of the host's PID namespace (PROC_PID_INIT_INO in
// include/linux/proc_ns.h).
const initialPIDs = "pid:[4026531836]"

// Take gathers a snapshot. Processes that end meanwhile are left out; what else
// can not be seen stands in Blind. The error is that of what nothing can be said
// without: PID 1's mount table.
func (src Source) Take(ctx context.Context, classes []Class, disks []disk.Dev) (*Snapshot, error) {
	s := &Snapshot{Classes: classes, Disks: disks, Gone: map[disk.Dev]bool{}, Entries: map[string][]Entry{}}
	if pids, err := os.Readlink(src.path("/proc/self/ns/pid")); err == nil && pids != initialPIDs {
		s.Blind = append(s.Blind, "hotmount runs in a container: what it takes for PID 1 is not the host's")
	}
	views, err := src.views(s)
	if err != nil {
		return nil, err
	}
	s.Host, s.Views = views[0], views[1:]
	for _, v := range s.all() {
		for i := range v.Processes {
			p := &v.Processes[i]
			src.arguments(ctx, p)
			var left []string
			if p.Roots, left = rootDirectories(p, v.Mounts); len(left) > 0 {
				s.Blind = append(s.Blind, fmt.Sprintf("%s has %d root directories that are too many or have odd names, which are not looked at: %s", who(p), len(left), some(left)))
			}
		}
	}
	src.lookFromHost(ctx, s)
	for i := range s.Views {
		src.lookFrom(ctx, s, &s.Views[i])
	}
	// A process that has ended sees nothing any more.
	s.Views = slices.DeleteFunc(s.Views, func(v View) bool { return len(v.Processes) == 0 })
	for _, v := range s.all() {
		for _, m := range v.Mounts {
			if _, known := s.Gone[m.Dev]; m.Dev.Major != 0 && !known {
				_, err := os.Lstat(src.path("/sys/dev/block/" + m.Dev.String()))
				s.Gone[m.Dev] = errors.Is(err, fs.ErrNotExist)
			}
		}
	}
	for _, c := range classes {
		answers, err := src.List(ctx, c.Directory)
		if err != nil && !s.Host.Sights[c.Directory].Absent {
			s.Blind = append(s.Blind, fmt.Sprintf("what lies in %s under the mounts can not be seen: %v", c.Directory, err))
		}
		for _, a := range answers {
			if a.Entry != nil {
				s.Entries[c.Directory] = append(s.Entries[c.Directory], *a.Entry)
			}
		}
	}
	src.system(s)
	return s, nil
}

func (src Source) path(p string) string { return filepath.Join("/", src.Root, p) }

// views gives the view of PID 1, then all others.
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
			s.Unlikely = append(s.Unlikely, p)
		}
		i, known := index[k]
		if !known {
			i = len(views)
			index[k] = i
			views = append(views, View{Namespace: k.namespace, Root: k.root})
			src.cgroup(&p)
		}
		if i == 0 && p.Role == "" && pid != 1 {
			continue // hundreds, of which nothing is asked
		}
		views[i].Processes = append(views[i].Processes, p)
	}
	if unseen > 0 {
		s.Blind = append(s.Blind, fmt.Sprintf("the mount namespaces of %d processes can not be seen", unseen))
	}
	for i := range views {
		if err := src.table(&views[i]); err != nil && i == 0 {
			return nil, fmt.Errorf("cannot read PID 1's mount table: %w", err)
		} else if err != nil {
			if !gone(err) {
				s.Blind = append(s.Blind, fmt.Sprintf("the mount table of process %d can not be read: %v", views[i].Processes[0].PID, err))
			}
			views[i].Processes = nil
		}
	}
	return views, nil
}

// key tells the views of processes apart.
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

// gone says that a process has ended (proc(5)).
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

func (src Source) pids() ([]int, error) {
	dir, err := os.Open(src.path("/proc"))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// maxTable bounds a mount table in bytes: a pod may make as many mounts as
// /proc/sys/fs/mount-max allows, with long names.
const maxTable = 32 << 20

// table reads the mount table of the view's first process that still lives.
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

// process reads a process's name and role. Of the files of /proc that can hang
// on a process's memory none is touched.
func (src Source) process(pid int) (Process, error) {
	p := Process{PID: pid}
	proc := src.path("/proc/" + strconv.Itoa(pid))
	name, err := readLimited(proc + "/comm")
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

// roles by the name of the executable. The kernel cuts the name of a process at
// 15 bytes (TASK_COMM_LEN, include/linux/sched.h).
var roles = map[string]Role{
	"kubelet": Kubelet, "kubelite": Kubelet, "k3s": Kubelet, "k3s-server": Kubelet, "k3s-agent": Kubelet, "hyperkube": Kubelet,
	"local-provisioner": Provisioner, "local-volume-provisioner": Provisioner, "local-static-provisioner": Provisioner,
	"local-provision": Provisioner, "local-volume-pr": Provisioner, "local-static-pr": Provisioner,
	"containerd": Runtime, "dockerd": Runtime, "crio": Runtime, "cri-dockerd": Runtime,
	"hotmount": Agent,
}

func role(name, exe string) Role {
	// The containerd of k3s is k3s by another name.
	if r := roles[name]; r != "" {
		return r
	}
	return roles[path.Base(exe)]
}

// plausible says whether a process can be what it is called: what runs in a pod
// can give itself any name. Kubelets and runtimes mount on the host: they have
// CAP_SYS_ADMIN (capabilities(7)), and that in the host's user namespace, for in
// one of its own everybody has it (user_namespaces(7)).
func (src Source) plausible(p *Process) bool {
	switch p.Role {
	case Provisioner:
		return true
	case Agent:
		return p.Pod == ""
	case Runtime:
		if p.Pod != "" {
			return false
		}
	}
	users, err := os.Readlink(src.path(fmt.Sprintf("/proc/%d/ns/user", p.PID)))
	if err != nil {
		return false
	}
	if host, err := os.Readlink(src.path("/proc/1/ns/user")); err != nil || host != users {
		return false
	}
	status, err := readLimited(src.path(fmt.Sprintf("/proc/%d/status", p.PID)))
	if err != nil {
		return false
	}
	for line := range strings.Lines(status) {
		if set, found := strings.CutPrefix(line, "CapEff:"); found {
			effective, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64)
			return err == nil && effective&(1<<unix.CAP_SYS_ADMIN) != 0
		}
	}
	return false
}

var (
	podInCgroup       = regexp.MustCompile(`pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})`)
	containerInCgroup = regexp.MustCompile(`([0-9a-f]{64})(?:\.scope)?$`)
)

// cgroup reads which pod and container the process is in (cgroups(7)); kubelet
// and the runtimes name both in the control group's path.
func (src Source) cgroup(p *Process) {
	text, err := readLimited(src.path(fmt.Sprintf("/proc/%d/cgroup", p.PID)))
	if err != nil {
		return
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if m := podInCgroup.FindStringSubmatch(line); m != nil {
			p.Pod = strings.ReplaceAll(m[1], "_", "-")
		}
		if m := containerInCgroup.FindStringSubmatch(line); m != nil {
			p.Container = m[1]
		}
	}
}

// readLimited reads the begin of a file of /proc.
func readLimited(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, 16<<10))
	return string(b), err
}

// lookFromHost looks at the class directories and every mount in them as PID 1.
func (src Source) lookFromHost(ctx context.Context, s *Snapshot) {
	h := &s.Host
	h.Bases = map[string]string{}
	var paths []string
	for _, c := range s.Classes {
		h.Bases[c.Directory] = c.Directory
		paths = append(paths, c.Directory)
		paths = append(paths, h.mountsIn(c.Directory)...)
	}
	src.look(ctx, s, h, append(paths, s.roots()...))
}

// lookFrom looks at the same as the processes of another view.
func (src Source) lookFrom(ctx context.Context, s *Snapshot, v *View) {
	if !v.has(Kubelet) && !v.has(Provisioner) && !v.has(Agent) && !v.has(Runtime) {
		return
	}
	v.Bases = map[string]string{}
	var paths []string
	if !v.has(Runtime) || v.has(Kubelet) {
		for _, c := range s.Classes {
			base := c.Directory
			if p, ok := s.Host.place(c.Directory); ok && v.has(Provisioner) && !v.has(Kubelet) {
				base = v.placeOf(p, base)
			}
			v.Bases[c.Directory] = base
			paths = append(paths, base)
			for _, p := range s.Host.mountsIn(c.Directory) {
				paths = append(paths, path.Join(base, path.Base(p)))
			}
		}
	}
	src.look(ctx, s, v, append(paths, s.roots()...))
}

// placeOf gives where a directory of a filesystem is mounted in the view, or
// otherwise.
func (v *View) placeOf(p place, otherwise string) string {
	for i := range v.Mounts {
		if m := &v.Mounts[i]; m.Dev == p.dev && m.Root == p.dir {
			return m.Path
		}
	}
	return otherwise
}

// arguments reads the command line of a process that may be a kubelet, and takes
// the role away from one that is another part of Kubernetes.
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
	// One executable for all of Kubernetes: "hyperkube kubelet".
	case (path.Base(p.Exe) == "hyperkube" || p.Name == "hyperkube") && !slices.ContainsFunc(p.Args, func(a string) bool { return path.Base(a) == "kubelet" }):
		p.Role = ""
	}
}

// look fills in what the view's first process that answers has at each path. A
// mount that was made since the table was read makes it be read again.
func (src Source) look(ctx context.Context, s *Snapshot, v *View, paths []string) {
	slices.Sort(paths)
	paths = slices.Compact(paths)
	for reads := 1; len(v.Processes) > 0; reads++ {
		v.Sights = src.sights(ctx, s, v, v.Processes[0].PID, paths)
		if v.Sights == nil {
			v.Processes = v.Processes[1:]
			continue
		}
		known := map[int]bool{0: true}
		for i := range v.Mounts {
			known[v.Mounts[i].ID] = true
		}
		fresh := true
		for _, sight := range v.Sights {
			fresh = fresh && known[sight.MountID]
		}
		if fresh || reads >= 3 || src.table(v) != nil {
			return
		}
	}
}

// sights gives nil for a process that has ended or is another one by now.
func (src Source) sights(ctx context.Context, s *Snapshot, v *View, pid int, paths []string) map[string]Sight {
	sights := map[string]Sight{}
	for len(paths) > 0 {
		answers, err := src.Look(ctx, pid, paths)
		if len(answers) == 0 {
			if _, left := os.Readlink(src.path(fmt.Sprintf("/proc/%d/ns/mnt", pid))); gone(left) {
				return nil
			}
			s.Blind = append(s.Blind, fmt.Sprintf("what process %d sees can not be seen: %v", pid, err))
			return map[string]Sight{}
		}
		for _, a := range answers {
			if a.Namespace != "" && a.Namespace != v.Namespace {
				return nil
			}
			if a.Sight != nil {
				if v.Root != "/" {
					// d_path() begins at our root, the table at the process's.
					a.Sight.Path = "/" + strings.TrimPrefix(strings.TrimPrefix(a.Sight.Path, v.Root), "/")
				}
				sights[a.At] = *a.Sight
			}
		}
		rest := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { _, ok := sights[p]; return ok })
		if err == nil || len(rest) == 0 {
			return sights
		}
		// It hangs on the first that has no answer.
		sights[rest[0]] = Sight{Failure: err.Error()}
		paths = rest[1:]
	}
	return sights
}

// all gives all views, the host's first.
func (s *Snapshot) all() []*View {
	all := []*View{&s.Host}
	for i := range s.Views {
		all = append(all, &s.Views[i])
	}
	return all
}

// roots gives the root directories of all kubelets.
func (s *Snapshot) roots() []string {
	var dirs []string
	for _, v := range s.all() {
		for i := range v.Processes {
			dirs = append(dirs, v.Processes[i].Roots...)
		}
	}
	return dirs
}

// mountsIn gives the paths of all mounts in a class directory, each once.
func (v *View) mountsIn(dir string) []string {
	var paths []string
	for i := range v.Mounts {
		if path.Dir(v.Mounts[i].Path) == dir {
			paths = append(paths, v.Mounts[i].Path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func (v *View) has(r Role) bool {
	return slices.ContainsFunc(v.Processes, func(p Process) bool { return p.Role == r })
}

// defaultRoot is kubelet's --root-dir where nobody says otherwise.
const defaultRoot = "/var/lib/kubelet"

// maxRoots bounds how many root directories a kubelet is believed to have. One
// is usual.
const maxRoots = 8

// rootDirectories gives the root directories of a kubelet, which its command line
// and its mounts say, and those that are left out: what is not of the bytes that
// the configuration allows in a directory's name would stand in lines to paste.
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
