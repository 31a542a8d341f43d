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
)

// Source is the system of which Take takes a snapshot.
type Source struct {
	// Root is the directory below which the node lies. "" is the live system.
	Root string
	// Look and List are the functions of this package, run in processes of their own with a time limit. They return the
	// answers so far, and an error if those are not all.
	Look func(ctx context.Context, pid int, paths []string) ([]Answer, error)
	List func(ctx context.Context, dir string) ([]Answer, error)
	// Show returns properties of a unit as systemctl show prints them.
	Show func(ctx context.Context, unit string, properties []string) (string, error)
}

// initialPIDs is the link of the host's PID namespace (PROC_PID_INIT_INO in include/linux/proc_ns.h).
const initialPIDs = "pid:[4026531836]"

// Take gathers a snapshot. It leaves out processes that end meanwhile. Blind lists what it cannot see. It returns an
// error only if it cannot read what every verdict needs: PID 1's mount table.
func (src Source) Take(ctx context.Context, classes []disk.Class, disks []disk.Dev) (*Snapshot, error) {
	s := &Snapshot{Classes: classes, Disks: disks, Gone: map[disk.Dev]bool{}, Entries: map[string][]Entry{}}
	if pids, err := os.Readlink(src.path("/proc/self/ns/pid")); err == nil && pids != initialPIDs {
		s.Blind = append(s.Blind, "hotmount runs in a container: what it takes for PID 1 is not the host's")
	}
	views, err := src.views(s)
	if err != nil {
		return nil, err
	}
	s.Host, s.Views = views[0], views[1:]
	src.kubelets(ctx, s)
	src.services(ctx, s)
	src.lookAll(ctx, s)
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
			s.Blind = append(s.Blind, fmt.Sprintf("cannot see all that is in %s under the mounts: %v", c.Directory, err))
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

// kubelets reads the command lines of kubelets and daemons, and the root directories of kubelets.
func (src Source) kubelets(ctx context.Context, s *Snapshot) {
	var all []*Process
	for _, v := range s.all() {
		for i := range v.Processes {
			all = append(all, &v.Processes[i])
		}
	}
	each(all, lookers, func(p *Process) { src.arguments(ctx, p) })
	for _, v := range s.all() {
		for i := range v.Processes {
			p := &v.Processes[i]
			var left []string
			if p.Roots, left = rootDirectories(p, v.Mounts); len(left) > 0 {
				s.Blind = append(s.Blind, fmt.Sprintf("%s has %d root directories that are too many or have odd names, so they are not looked at: %s",
					who(p), len(left), some(left)))
			}
		}
	}
}

// lookers bounds how many processes are looked at concurrently. Hanging looks then time out together.
const lookers = 8

// each calls f for each element, at most atOnce at a time, and returns when all calls are done.
func each[T any](all []T, atOnce int, f func(T)) {
	free := make(chan struct{}, atOnce)
	var done sync.WaitGroup
	for _, one := range all {
		free <- struct{}{}
		done.Go(func() { f(one); <-free })
	}
	done.Wait()
}

// podsTime bounds all looks at processes in pods together. Anybody can make many of them, and all may hang.
const podsTime = 20 * time.Second

// lookAll looks at the class directories and every mount in them, first as PID 1, then as each process that needs them.
// Provisioners come last, because any process in a pod can pass for one.
func (src Source) lookAll(ctx context.Context, s *Snapshot) {
	var roots []string
	var nodes, pods []*View
	for _, v := range s.all() {
		for i := range v.Processes {
			roots = append(roots, v.Processes[i].Roots...)
		}
		switch {
		case v == &s.Host:
		case v.has(Kubelet) || v.has(Agent) || v.has(Runtime):
			nodes = append(nodes, v)
		case v.has(Provisioner):
			pods = append(pods, v)
		}
	}
	src.lookFrom(ctx, s, &s.Host, roots)
	each(nodes, lookers, func(v *View) { src.lookFrom(ctx, s, v, roots) })
	ctx, cancel := context.WithTimeout(ctx, podsTime)
	defer cancel()
	each(pods, lookers, func(v *View) {
		if ctx.Err() == nil {
			src.lookFrom(ctx, s, v, roots)
			return
		}
		v.blind = "there are more provisioners, or processes named like one, than could be looked at in " + podsTime.String()
		for i := range v.Processes {
			v.Processes[i].Role = ""
		}
	})
	for _, v := range s.all() {
		if v.blind != "" && !slices.Contains(s.Blind, v.blind) {
			s.Blind = append(s.Blind, v.blind)
		}
	}
}

// lookFrom looks at the class directories and the kubelets' root directories as the processes of a view do. A runtime
// needs only the root directories.
func (src Source) lookFrom(ctx context.Context, s *Snapshot, v *View, roots []string) {
	v.Bases = map[string]string{}
	paths := slices.Clone(roots)
	for _, c := range s.Classes {
		if v != &s.Host && v.has(Runtime) && !v.has(Kubelet) {
			break
		}
		base := c.Directory
		if p, ok := s.Host.place(base); ok && v != &s.Host && v.has(Provisioner) && !v.has(Kubelet) {
			base = v.placeOf(p, base)
		}
		v.Bases[c.Directory] = base
		paths = append(paths, base)
		for _, p := range s.Host.mountsIn(c.Directory) {
			paths = append(paths, path.Join(base, path.Base(p)))
		}
	}
	slices.Sort(paths)
	src.look(ctx, v, slices.Compact(paths))
}

// placeOf returns where a directory of a filesystem is mounted in the view, or otherwise if it is not.
func (v *View) placeOf(p place, otherwise string) string {
	for i := range v.Mounts {
		if m := &v.Mounts[i]; (point{m.Dev, m.Root}) == p.point {
			return m.Path
		}
	}
	return otherwise
}

// look fills in what the view's first process that answers has at each path, or why that cannot be seen. It reads the
// mount table again after a mount that the table does not have yet.
func (src Source) look(ctx context.Context, v *View, paths []string) {
	for reads := 1; len(v.Processes) > 0; reads++ {
		pid := v.Processes[0].PID
		sights, hung, err := src.sights(ctx, v, pid, paths)
		if err != nil {
			v.Sights = map[string]Sight{}
			v.blind = fmt.Sprintf("cannot see what process %d sees: %v", pid, err)
			return
		}
		if v.Sights = sights; sights == nil {
			v.Processes = v.Processes[1:]
			continue
		}
		known := map[int]bool{0: true}
		for i := range v.Mounts {
			known[v.Mounts[i].ID] = true
		}
		fresh := true
		for _, sight := range sights {
			fresh = fresh && known[sight.MountID]
		}
		if fresh || hung || reads >= 3 || src.table(v) != nil {
			return
		}
	}
}

// sights returns what a process has at each path, and whether a path hangs. The map is nil if the process has ended or
// its PID belongs to another one.
func (src Source) sights(ctx context.Context, v *View, pid int, paths []string) (sights map[string]Sight, hung bool, err error) {
	answers, err := src.Look(ctx, pid, paths)
	if len(answers) == 0 {
		if _, left := os.Readlink(src.path(fmt.Sprintf("/proc/%d/ns/mnt", pid))); gone(left) {
			return nil, false, nil
		}
		return nil, false, cmp.Or(err, errors.New("no answer"))
	}
	sights = map[string]Sight{}
	for _, a := range answers {
		if a.Namespace != "" && a.Namespace != v.Namespace {
			return nil, false, nil
		}
		if a.Sight != nil {
			if v.Root != "/" {
				// d_path() begins at this process's root, the table at the other's.
				a.Sight.Path = "/" + strings.TrimPrefix(strings.TrimPrefix(a.Sight.Path, v.Root), "/")
			}
			sights[a.At] = *a.Sight
		}
	}
	for _, p := range paths {
		if _, ok := sights[p]; !ok && err != nil {
			sights[p], hung = Sight{Failure: err.Error()}, true
		}
	}
	return sights, hung, nil
}

// all returns all views, the host's first.
func (s *Snapshot) all() []*View {
	all := []*View{&s.Host}
	for i := range s.Views {
		all = append(all, &s.Views[i])
	}
	return all
}

// mountsIn returns the paths of all mounts in a class directory, each once.
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
