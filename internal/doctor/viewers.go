package doctor

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"hotmount/internal/disk"
)

// judgeViewers adds the findings about what each kubelet, provisioner and daemon sees of a class directory.
func (e *examiner) judgeViewers(c *disk.Class, host place, disks map[string]place) {
	groups := e.receivers(host.mount.Shared)
	count := map[Role]int{}
	have := 0 // the number of provisioners that have the directory
	for _, v := range e.s.allViews() {
		for _, role := range []Role{Kubelet, Provisioner, Agent} {
			p := v.first(role)
			if p == nil {
				continue
			}
			sees := e.judgeViewer(c, v, p, host, groups, disks)
			if role != Provisioner || sees != seesUnknown {
				count[role]++
			}
			if role == Provisioner && sees == seesSame {
				have++
			}
		}
	}
	if count[Kubelet] == 0 {
		e.find(Finding{Class: c.Name}, Note, NoKubelet, nil, "no kubelet runs on this node, so hotmount cannot check what a kubelet would see of %s", c.Directory)
	} else if c.LoopDevices() {
		e.find(Finding{Class: c.Name}, Warning, LoopDevices, advice("loop-devices"),
			"class %s selects loop devices on a node with a kubelet: use loop devices only for tests of hotmount, because several loop devices can share one disk", c.Name)
	}
	if count[Provisioner] > 0 && have == 0 {
		e.find(Finding{Class: c.Name, Paths: []string{c.Directory}}, Warning, NoDirectory, remedy(&Process{Role: Provisioner}, c.Directory),
			"no provisioner on this node has the directory %s, so the disks there do not become volumes", c.Directory)
	}
}

// judgeViewer judges what one process sees of a class directory, and returns the result in the form of Seen.Sees. The
// parameter `groups` contains the peer groups that receive new mounts in the host's directory.
func (e *examiner) judgeViewer(c *disk.Class, v *View, p *Process, host place, groups map[int]bool, disks map[string]place) string {
	base := v.Bases[c.Directory]
	f := Finding{Class: c.Name, Paths: []string{base}, Processes: []Process{*p}}
	who, shown, do := describeProcess(p), disk.Visible(base), remedy(p, c.Directory)
	sees, at := v.compare(base, host)
	seen := Seen{Process: *p, Namespace: v.Namespace, Class: c.Name, Directory: base, Sees: sees}
	switch {
	case sees == seesUnknown:
		e.find(f, Warning, NotSeen, nil, "cannot see what %s has at %s: %s", who, shown, v.unknown(base))
	case sees == seesSame:
		seen.Arrives = v.Namespace == e.s.Host.Namespace && at.mount.ID == host.mount.ID || at.mount.Receives(groups)
		if !seen.Arrives {
			e.find(f, Problem, NotPropagated, do, "%s will not see new mounts in %s: %s", who, shown, consequence(p.Role))
		}
		if p.Role == Agent && readOnly(at.mount.Options) {
			e.find(f, Problem, ReadOnly, advice("daemon-read-only", "dir", c.Directory), "%s cannot write to %s, so it cannot mount disks there", who, shown)
		}
		e.disksSeen(c, v, p, &seen, host, disks)
	case p.Role == Provisioner: // the provisioner may serve only other classes
	case sees == seesAbsent:
		then := "pods that use a disk do not start"
		if p.Role == Agent {
			then = consequence(Agent)
		}
		e.find(f, Warning, NoDirectory, do, "%s has no %s: %s", who, shown, then)
	default:
		f.Data = e.hostPath(at.point)
		e.find(f, Problem, OtherDirectory, do, "at %s, %s has a different directory than the host: %s", shown, who, describe(at.mount, at.dir))
	}
	e.report.Seen = append(e.report.Seen, seen)
	return sees
}

// describeProcess returns the role, PID and name of a process as text.
func describeProcess(p *Process) string {
	if p.Role == "" {
		return fmt.Sprintf("process %d (%s)", p.PID, disk.Visible(p.Name))
	}
	return fmt.Sprintf("the %s %d (%s)", p.Role, p.PID, disk.Visible(p.Name))
}

func consequence(r Role) string {
	switch r {
	case Provisioner:
		return "the provisioner makes no volumes of new disks, and still uses disks that were removed"
	case Agent:
		return "hotmount mounts nothing there"
	}
	return "pods on new disks will write to the system disk"
}

// disksSeen judges what one process sees at the path of each disk.
func (e *examiner) disksSeen(c *disk.Class, v *View, p *Process, seen *Seen, host place, disks map[string]place) {
	wrong := map[string][]string{}
	for _, hostPath := range slices.Sorted(maps.Keys(disks)) {
		at := path.Join(seen.Directory, path.Base(hostPath))
		sees, got := v.compare(at, disks[hostPath])
		if sees == seesOther && got.dev == host.dev && disk.IsBelow(got.dir, host.dir) {
			sees = seesDirectory
		}
		seen.Mounts = append(seen.Mounts, SeenMount{Path: at, Sees: sees, Dev: got.dev, Root: got.dir})
		wrong[sees] = append(wrong[sees], at)
	}
	then := ""
	if p.Role == Kubelet {
		then = ": new pods there write to the system disk"
	}
	do := remedy(p, c.Directory)
	for _, verdict := range []struct {
		sees  string
		level Level
		kind  Kind
		do    []string
		what  string
	}{
		{seesDirectory, Problem, WrongMount, do, "%[1]s sees a directory on the system disk instead of the disk at %[2]s" + then},
		{seesOther, Problem, WrongMount, do, "%[1]s sees something other than the host's disk at %[2]s"},
		{seesAbsent, Warning, NoMount, do, "%[1]s sees nothing at %[2]s"},
		{seesUnknown, Warning, NotSeen, nil, "cannot see what %[1]s has at %[2]s: %[3]s"},
	} {
		if paths := wrong[verdict.sees]; len(paths) > 0 {
			e.find(Finding{Class: c.Name, Paths: paths, Processes: []Process{*p}}, verdict.level, verdict.kind, verdict.do,
				verdict.what, describeProcess(p), summarizePaths(paths), v.unknown(paths[0]))
		}
	}
}

// summarizePaths returns a text with the first of the paths and the number of the other paths.
func summarizePaths(paths []string) string {
	if len(paths) == 1 {
		return disk.Visible(paths[0])
	}
	return fmt.Sprintf("%s and %d more", disk.Visible(paths[0]), len(paths)-1)
}

// sharedBack adds a finding if the kubelets' mounts for pods do not propagate to the container runtime.
func (e *examiner) sharedBack() {
	var runtimes []*View
	for _, v := range e.s.allViews() {
		if v.hasRole(Runtime) {
			runtimes = append(runtimes, v)
		}
	}
	if len(runtimes) == 0 {
		runtimes = []*View{&e.s.Host}
	}
	for _, v := range e.s.allViews() {
		kubelet, culprit := v.first(Kubelet), v.first(Kubelet)
		// The runtime of k3s and similar distributions is a child process of kubelet, in the same mount namespace as
		// kubelet.
		if kubelet == nil || slices.ContainsFunc(runtimes, func(r *View) bool { return r.Namespace == v.Namespace }) {
			continue
		}
		if v.Namespace == e.s.Host.Namespace {
			culprit = runtimes[0].first(Runtime) // the runtime is not in the host's mount namespace
		}
		for _, dir := range kubelet.Roots {
			if at, ok := v.place(dir); ok && !e.arrives(at, dir, runtimes) {
				e.find(Finding{Paths: []string{dir}, Processes: []Process{*kubelet}}, Problem, NotSharedBack, remedyRoot(culprit, dir),
					"the container runtime does not see what %s mounts below %s: "+
						"containers get the bare directory on the system disk instead of their volume", describeProcess(kubelet), disk.Visible(dir))
			}
		}
		if missing := v.lostVolumes(runtimes); len(missing) > 0 {
			e.find(Finding{Paths: missing, Processes: []Process{*kubelet}}, Problem, NotSharedBack, remedyRoot(culprit, kubelet.Roots[0]),
				"the container runtime does not see a volume that %s has mounted: %s", describeProcess(kubelet), summarizePaths(missing))
		}
	}
}

// arrives reports whether new mounts below a kubelet's root directory propagate to a container runtime.
func (e *examiner) arrives(at place, dir string, runtimes []*View) bool {
	groups := e.receivers(at.mount.Shared)
	return slices.ContainsFunc(runtimes, func(r *View) bool {
		there, ok := r.place(dir)
		return ok && there.point == at.point && there.mount.Receives(groups)
	})
}

// lostVolumes returns the paths of the view's pod volumes that no container runtime sees.
func (v *View) lostVolumes(runtimes []*View) []string {
	type volumeMount struct {
		path string
		point
	}
	arrived := map[volumeMount]bool{}
	for _, r := range runtimes {
		for i := range r.Mounts {
			m := &r.Mounts[i]
			arrived[volumeMount{m.Path, point{m.Dev, m.Root}}] = true
		}
	}
	var missing []string
	for i := range v.Mounts {
		m := &v.Mounts[i]
		if _, ok := podVolume(m.Path); ok && !arrived[volumeMount{m.Path, point{m.Dev, m.Root}}] {
			missing = append(missing, m.Path)
		}
	}
	return missing
}
