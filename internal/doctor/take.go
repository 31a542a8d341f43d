package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// Source is the system of which Take makes a snapshot.
type Source struct {
	// Root is the directory below which the node's files lie, or "" for the live system.
	Root string
	// The fields Look and List run the functions with the same names in child processes, with a time limit. If some
	// answers are missing, Look and List return the other answers and an error.
	Look func(ctx context.Context, pid int, paths []string) ([]Answer, error)
	List func(ctx context.Context, dir string) ([]Answer, error)
	// Show returns properties of a unit in the format of systemctl show.
	Show func(ctx context.Context, unit string, properties []string) (string, error)
}

// initialPIDs is the target of /proc/PID/ns/pid for the host's PID namespace (PROC_PID_INIT_INO in
// include/linux/proc_ns.h).
const initialPIDs = "pid:[4026531836]"

// Take gathers a snapshot. Take leaves out processes that end before Take has looked at them. Take adds a finding for
// everything that hotmount cannot see. Take returns an error only if it cannot list the processes, or cannot read PID
// 1's mount namespace or mount table. Every verdict needs PID 1's mount table.
func (src Source) Take(ctx context.Context, settings *disk.Settings, disks []disk.Dev) (*Snapshot, error) {
	s := &Snapshot{Classes: settings.Classes, Disks: disks, Gone: map[disk.Dev]bool{}, Entries: map[string][]Entry{}}
	if pids, err := os.Readlink(src.path("/proc/self/ns/pid")); err == nil && pids != initialPIDs {
		s.blind("hotmount runs in a container, so the PID 1 that it sees is not the host's")
	}
	if err := src.views(s); err != nil {
		return nil, err
	}
	src.kubelets(ctx, s)
	src.services(ctx, s)
	src.lookAll(ctx, s)
	// As soon as every process of a view has ended, the view is of no interest.
	s.Views = slices.DeleteFunc(s.Views, func(v View) bool { return len(v.Processes) == 0 })
	for _, v := range s.allViews() {
		for _, m := range v.Mounts {
			if _, known := s.Gone[m.Dev]; m.Dev.Major != 0 && !known {
				_, err := os.Lstat(src.path("/sys/dev/block/" + m.Dev.String()))
				s.Gone[m.Dev] = errors.Is(err, fs.ErrNotExist)
			}
		}
	}
	for _, c := range s.Classes {
		answers, err := src.List(ctx, c.Directory)
		if err != nil && !s.Host.Sights[c.Directory].Absent {
			s.blind("cannot list every entry of %s that a mount hides: %v", c.Directory, err)
		}
		for _, a := range answers {
			s.Entries[c.Directory] = append(s.Entries[c.Directory], *a.Entry)
		}
	}
	src.system(s, settings.Fault)
	return s, nil
}

func (src Source) path(p string) string { return filepath.Join("/", src.Root, p) }

// The method `blind` adds a finding with the reason why the doctor cannot see something.
func (s *Snapshot) blind(format string, args ...any) {
	s.Found.Add(Finding{}, Warning, NotSeen, nil, format, args...)
}

// The method `kubelets` reads the command lines of kubelets and daemons, and finds the root directories of kubelets.
func (src Source) kubelets(ctx context.Context, s *Snapshot) {
	var all []*Process
	for _, v := range s.allViews() {
		for i := range v.Processes {
			all = append(all, &v.Processes[i])
		}
	}
	forEach(all, lookers, func(p *Process) { src.arguments(ctx, p) })
	for _, v := range s.allViews() {
		for i := range v.Processes {
			p := &v.Processes[i]
			var left []string
			if p.Roots, left = rootDirectories(p, v.Mounts); len(left) > 0 {
				s.blind("hotmount did not look at %[2]d root directories of %[1]s, because they are too many or their names have special characters: %[3]s", describeProcess(p), len(left), summarizePaths(left))
			}
			s.roots = append(s.roots, p.Roots...)
		}
	}
}

// lookers is the maximum number of concurrent calls of Look. Calls that hang at the same time also reach their time
// limits at the same time, so the total delay of these calls is only one time limit.
const lookers = 8

// forEach calls f for each element, with at most atOnce calls at a time. forEach returns when all calls are done.
func forEach[T any](all []T, atOnce int, f func(T)) {
	free := make(chan struct{}, atOnce)
	var done sync.WaitGroup
	for _, one := range all {
		free <- struct{}{}
		done.Go(func() { f(one); <-free })
	}
	done.Wait()
}

// podsTime limits the time that the doctor needs for all provisioners together. In pods, anybody can run many processes
// that have the name of a provisioner. For each of these processes, a call of Look may hang.
const podsTime = 20 * time.Second

// lookAll looks at the class directories and every mount in them. lookAll calls Look first for PID 1, then for each
// view with a process that needs the disks. Provisioners come last, because any process in a pod can have the name of a
// provisioner.
func (src Source) lookAll(ctx context.Context, s *Snapshot) {
	var nodes, pods []*View
	for i := range s.Views {
		switch v := &s.Views[i]; {
		case v.hasRole(Kubelet), v.hasRole(Agent), v.hasRole(Runtime):
			nodes = append(nodes, v)
		case v.hasRole(Provisioner):
			pods = append(pods, v)
		}
	}
	src.readPaths(ctx, &s.Host, s.paths(&s.Host))
	forEach(nodes, lookers, func(v *View) { src.readPaths(ctx, v, s.paths(v)) })
	ctx, cancel := context.WithTimeout(ctx, podsTime)
	defer cancel()
	forEach(pods, lookers, func(v *View) {
		if ctx.Err() == nil {
			src.readPaths(ctx, v, s.paths(v))
		}
	})
	for _, v := range s.allViews() {
		if v.unseen != nil {
			s.blind("cannot see what process %d sees: %v", v.Processes[0].PID, v.unseen)
		}
	}
	late := slices.DeleteFunc(pods, func(v *View) bool { return v.Sights != nil })
	for _, v := range late {
		for i := range v.Processes {
			v.Processes[i].Role = ""
		}
	}
	if len(late) > 0 {
		s.blind("hotmount did not look at every process with a provisioner's name, because %s was not enough time", podsTime)
	}
}

// paths returns where to look in a view: the class directories, each mount in them, and the kubelets' root directories.
// For a container runtime, paths returns only the root directories of kubelets. The function also sets the view's
// Bases.
func (s *Snapshot) paths(v *View) []string {
	v.Bases = map[string]string{}
	paths := slices.Clone(s.roots)
	for _, c := range s.Classes {
		host := v == &s.Host
		if !host && v.hasRole(Runtime) && !v.hasRole(Kubelet) {
			break
		}
		base := c.Directory
		if p, ok := s.Host.place(base); ok && !host && v.hasRole(Provisioner) && !v.hasRole(Kubelet) {
			base = v.placeOf(p, base)
		}
		v.Bases[c.Directory] = base
		paths = append(paths, base)
		for _, p := range s.Host.mountsIn(c.Directory) {
			paths = append(paths, path.Join(base, path.Base(p)))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// placeOf returns the path at which a directory of a filesystem is mounted in the view. If the directory is not mounted
// in the view, placeOf returns the value of the parameter `otherwise`.
func (v *View) placeOf(p place, otherwise string) string {
	for i := range v.Mounts {
		if m := &v.Mounts[i]; (point{m.Dev, m.Root}) == p.point {
			return m.Path
		}
	}
	return otherwise
}

// readPaths stores in the view what one process sees at each path. The process is the view's first process that
// answers. If a process that still runs gives no answer, readPaths stores the reason in v.unseen.
func (src Source) readPaths(ctx context.Context, v *View, paths []string) {
	for v.Sights = map[string]Sight{}; len(v.Processes) > 0; v.Processes = v.Processes[1:] {
		pid := v.Processes[0].PID
		answers, err := src.Look(ctx, pid, paths)
		if len(answers) == 0 {
			if _, left := os.Readlink(src.path(fmt.Sprintf("/proc/%d/ns/mnt", pid))); mounts.ProcessEnded(left) {
				continue
			}
			v.unseen = cmp.Or(err, errors.New("no answer"))
			return
		}
		if answers[0].Namespace != v.Namespace {
			continue // another process has the PID now
		}
		for _, a := range answers[1:] {
			if v.Root != "/" {
				// The kernel (d_path) returns a path that does not begin at the root directory of the view. The paths
				// in the view's mount table begin at this root directory.
				a.Sight.Path = "/" + strings.TrimPrefix(strings.TrimPrefix(a.Sight.Path, v.Root), "/")
			}
			v.Sights[a.At] = *a.Sight
		}
		for _, p := range paths {
			if _, ok := v.Sights[p]; !ok && err != nil {
				v.Sights[p] = Sight{Failure: err.Error()}
			}
		}
		return
	}
}

// allViews returns all views, with the host's view first.
func (s *Snapshot) allViews() []*View {
	all := []*View{&s.Host}
	for i := range s.Views {
		all = append(all, &s.Views[i])
	}
	return all
}

// mountsIn returns the paths of all mounts in a class directory, each path once.
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

func (v *View) hasRole(r Role) bool { return v.first(r) != nil }

// The method `first` returns the view's first process with the role, or nil if no process has the role.
func (v *View) first(r Role) *Process {
	if i := slices.IndexFunc(v.Processes, func(p Process) bool { return p.Role == r }); i >= 0 {
		return &v.Processes[i]
	}
	return nil
}
