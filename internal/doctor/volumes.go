package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// pattern is a regular expression that is compiled when it is first used: the daemon and
// whoever it starts never do.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// volume is a volume of a pod as the path of a mount names it.
type volume struct {
	// root is kubelet's root directory.
	root, pod, name, container string
}

var (
	volumePath  = pattern(`^(.*)/pods/([^/]+)/volumes/kubernetes\.io~local-volume/([^/]+)$`)
	subPath     = pattern(`^(.*)/pods/([^/]+)/volume-subpaths/([^/]+)/([^/]+)/[0-9]+$`)
	barePodPath = pattern(`^(?:.*/|/)pods/([^/]+)/volumes/kubernetes\.io~local-volume/([^/]+)(?:/.*)?$`)
)

// podVolume reads a path that kubelet has mounted a local volume at, or a part of
// a volume for one container (pkg/volume/local and pkg/volume/util/subpath of
// Kubernetes).
func podVolume(p string) (volume, bool) {
	if !strings.Contains(p, "/pods/") {
		return volume{}, false
	}
	if m := volumePath().FindStringSubmatch(p); m != nil {
		return volume{root: m[1], pod: m[2], name: m[3]}, true
	}
	if m := subPath().FindStringSubmatch(p); m != nil {
		return volume{root: m[1], pod: m[2], name: m[3], container: m[4]}, true
	}
	return volume{}, false
}

// hit is a mount that should not be as it is.
type hit struct {
	view    *View
	mount   *mounts.Mount
	volume  volume
	deleted bool
	// level and why say what is wrong with it, where that is not that it is on the
	// system disk.
	level Level
	why   string
}

// process gives the process by which the mount is held: that of the container
// rather than kubelet.
func (h *hit) process() *Process {
	for i := range h.view.Processes {
		if h.view.Processes[i].Role == "" {
			return &h.view.Processes[i]
		}
	}
	if len(h.view.Processes) == 0 {
		return &Process{PID: 1}
	}
	return &h.view.Processes[0]
}

// newHit reads whose mount it is: by its path, else by the process's group.
func newHit(v *View, m *mounts.Mount) hit {
	h := hit{view: v, mount: m, deleted: strings.HasSuffix(m.Root, deletedSuffix)}
	var ok bool
	if h.volume, ok = podVolume(m.Path); !ok {
		h.volume.pod = h.process().Pod
	}
	return h
}

// pods gives the hits by pod. Those that tell no pod are left out if others of
// the same volume do: every service with a namespace of its own has copies of
// what kubelet mounts.
func pods(hits []hit) map[string][]hit {
	by := map[string][]hit{}
	for _, h := range hits {
		by[h.volume.pod] = append(by[h.volume.pod], h)
	}
	if len(by) > 1 {
		delete(by, "")
	}
	return by
}

// volumeFinding tells of one pod's volume that is not on its disk.
func (e *examiner) volumeFinding(kind Kind, class, uid string, hits []hit) Finding {
	f := Finding{Level: Problem, Kind: kind, Class: class}
	pod := Pod{UID: uid, Namespace: e.s.Pods[uid].Namespace, Name: e.s.Pods[uid].Name}
	best, score := hits[0], 0
	for i := range hits {
		h := &hits[i]
		f.Paths = append(f.Paths, h.mount.Path)
		pod.Volume = cmp.Or(pod.Volume, h.volume.name)
		p := h.process()
		pod.Container = cmp.Or(h.volume.container, pod.Container, e.s.Containers[p.Container])
		// A container keeps it reachable, also what was removed.
		s := 1
		switch {
		case p.Pod != "":
			s = 3
		case h.view == &e.s.Host:
			s = 2
		default:
			f.Processes = append(f.Processes, *p)
		}
		if s == 3 {
			f.Processes = append([]Process{*p}, f.Processes...)
		}
		if s > score {
			best, score = *h, s
		}
	}
	slices.Sort(f.Paths)
	f.Paths = slices.Compact(f.Paths)
	f.Reach = best.mount.Path
	if best.view != &e.s.Host {
		f.Reach = fmt.Sprintf("/proc/%d/root%s", best.process().PID, best.mount.Path)
	}
	deleted := slices.ContainsFunc(hits, func(h hit) bool { return h.deleted })
	subject := who(best.process())
	if uid != "" {
		f.Pod = &pod
		subject = "pod " + disk.Visible(uid)
		if pod.Name != "" {
			subject = fmt.Sprintf("pod %s/%s (%s)", disk.Visible(pod.Namespace), disk.Visible(pod.Name), disk.Visible(uid))
		}
		if pod.Container != "" {
			subject += ", container " + disk.Visible(pod.Container)
		}
		if pod.Volume != "" {
			subject += ", volume " + disk.Visible(pod.Volume)
		}
	}
	where := disk.Visible(strings.TrimSuffix(best.mount.Root, deletedSuffix)) + " of " + describeDevice(best.mount)
	f.What = fmt.Sprintf("%s: the data is on the system disk, in %s", subject, where)
	if best.why != "" {
		f.Level, f.What = best.level, fmt.Sprintf("%s: the data is in %s, %s", subject, where, best.why)
	}
	if !deleted {
		f.Data = e.hostPath(best.mount.Dev, best.mount.Root)
	} else {
		f.What += "; that directory was removed, and the data goes with its last user"
	}
	mkdir, dir := e.rescue(cmp.Or(uid, fmt.Sprintf("process-%d", best.process().PID)) + "-" + cmp.Or(pod.Volume, path.Base(strings.TrimSuffix(best.mount.Root, deletedSuffix))))
	f.Do = []string{fmt.Sprintf("%s && cp -a %s/. %s/", mkdir, shell(f.Reach), dir)}
	switch {
	case pod.Name != "":
		f.Do = append(f.Do, fmt.Sprintf("# once the copy is complete, and what kubelet sees is mended: kubectl -n %s delete pod %s", shell(pod.Namespace), shell(pod.Name)))
	case uid != "":
		f.Do = append(f.Do, fmt.Sprintf("kubectl get pods -A -o custom-columns=NS:.metadata.namespace,POD:.metadata.name,UID:.metadata.uid | grep %s   # names the pod to delete once the copy is complete, and what kubelet sees is mended", shell(uid)))
	default:
		f.Do = append(f.Do, "# once the copy is complete: end or restart the process")
	}
	return f
}

// rescue gives a directory for a copy that no other finding has, and the command
// that makes it and fails if it is there: copies into one directory overwrite each
// other, and cp(1) writes through the symlinks that an earlier copy has left.
func (e *examiner) rescue(name string) (mkdir, dir string) {
	name = strings.Map(func(r rune) rune {
		if r == '/' || !strings.ContainsRune(plain, r) {
			return '_'
		}
		return r
	}, name)
	name = name[:min(len(name), 200)] // of NAME_MAX (limits.h)
	for n := 1; dir == "" || e.rescued[dir]; n++ {
		dir = "/root/rescued/" + name
		if n > 1 {
			dir += fmt.Sprintf(".%d", n)
		}
	}
	e.rescued[dir] = true
	return "mkdir -p /root/rescued && mkdir " + dir, dir
}

// carriers gives the places where a class directory lies on the host, also those
// that something was mounted over later.
func (e *examiner) carriers(c *disk.Class) []place {
	var all []place
	if at, ok := e.s.Host.place(c.Directory); ok {
		all = append(all, at)
	}
	for i := range e.s.Host.Mounts {
		m := &e.s.Host.Mounts[i]
		if rest, ok := below(c.Directory, m.Path); ok {
			all = append(all, place{mount: m, dev: m.Dev, dir: path.Join(m.Root, rest)})
		}
	}
	return all
}

// entryOf gives the name of the entry of a class directory that a mount is of,
// empty if it is of none.
func entryOf(m *mounts.Mount, carriers []place) string {
	for _, at := range carriers {
		if rest, ok := below(strings.TrimSuffix(m.Root, deletedSuffix), at.dir); ok && rest != "" && m.Dev == at.dev {
			name, _, _ := strings.Cut(rest, "/")
			return name
		}
	}
	return ""
}

// onSystemDisk finds mounts of something below a class directory on the class
// directory's own filesystem: whoever made them wanted a disk that was not there.
func (e *examiner) onSystemDisk() {
	for i := range e.s.Classes {
		c := &e.s.Classes[i]
		at := e.carriers(c)
		hits := map[string][]hit{}
		for _, v := range e.s.all() {
			for j := range v.Mounts {
				if name := entryOf(&v.Mounts[j], at); name != "" {
					hits[name] = append(hits[name], newHit(v, &v.Mounts[j]))
				}
			}
		}
		e.volumes(OnSystemDisk, c.Name, hits)
	}
}

// provisioned is the name of a volume that the local-static-provisioner has made
// (disk.VolumeName).
var provisioned = pattern(`^local-pv-[0-9a-f]{1,8}$`)

// wrongDisks finds pods' volumes that are not on the disk they are made of. Which
// that is follows from the volume's name where the name of the StorageClass is
// known. Else a volume that the provisioner has made is a mount point of the host,
// and no volume is a container's own filesystem.
func (e *examiner) wrongDisks() {
	type directory struct {
		dev  disk.Dev
		root string
	}
	want, own, onHost := map[string][]*mounts.Mount{}, map[directory]bool{}, map[disk.Dev]bool{}
	for i := range e.s.Host.Mounts {
		m := &e.s.Host.Mounts[i]
		if _, ofPod := podVolume(m.Path); !ofPod {
			own[directory{m.Dev, m.Root}], onHost[m.Dev] = true, true
		}
		for _, c := range e.s.Classes {
			if c.StorageClass != "" && e.s.Node != "" && path.Dir(m.Path) == c.Directory {
				name := disk.VolumeName(path.Base(m.Path), e.s.Node, c.StorageClass)
				want[name] = append(want[name], m)
			}
		}
	}
	var told []place
	for i := range e.s.Classes {
		told = append(told, e.carriers(&e.s.Classes[i])...)
	}
	hits := map[string][]hit{}
	for _, v := range e.s.all() {
		for i := range v.Mounts {
			m := &v.Mounts[i]
			of, ok := podVolume(m.Path)
			if !ok || entryOf(m, told) != "" || m.Dev.Major != 0 && (e.s.Gone[m.Dev] || !onHost[m.Dev]) {
				continue // others tell of it
			}
			root := strings.TrimSuffix(m.Root, deletedSuffix)
			h := newHit(v, m)
			switch disks := want[of.name]; {
			case slices.ContainsFunc(disks, func(d *mounts.Mount) bool { return d.Dev == m.Dev && isBelow(root, d.Root) }):
				continue
			case len(disks) > 0:
				h.level, h.why = Problem, "not on the disk at "+disk.Visible(disks[0].Path)
			case of.container != "":
				continue // a part of any kind of volume
			case m.Type == "overlay":
				h.level, h.why = Problem, "which goes with its container"
			case provisioned().MatchString(of.name) && !own[directory{m.Dev, root}]:
				h.level, h.why = Warning, "which is no mount point of the host: the provisioner makes volumes of those alone"
			default:
				continue
			}
			hits[of.name] = append(hits[of.name], h)
		}
	}
	e.volumes(NotItsDisk, "", hits)
}

// volumes tells of each volume and pod once, in an order that stays the same.
func (e *examiner) volumes(kind Kind, class string, hits map[string][]hit) {
	for _, name := range slices.Sorted(maps.Keys(hits)) {
		by := pods(hits[name])
		for _, uid := range slices.Sorted(maps.Keys(by)) {
			e.find(e.volumeFinding(kind, class, uid, by[uid]))
		}
	}
}

// bareDirectories finds containers that were given the directory that kubelet
// mounts a volume at, without the volume.
func (e *examiner) bareDirectories() {
	hits := map[string][]hit{}
	for _, v := range e.s.all() {
		for i := range v.Mounts {
			m := &v.Mounts[i]
			if !strings.Contains(m.Root, "kubernetes.io~local-volume") {
				continue
			}
			if found := barePodPath().FindStringSubmatch(strings.TrimSuffix(m.Root, deletedSuffix)); found != nil {
				h := newHit(v, m)
				h.volume.pod, h.volume.name = found[1], found[2]
				hits[found[1]+"/"+found[2]] = append(hits[found[1]+"/"+found[2]], h)
			}
		}
	}
	e.volumes(BareDirectory, "", hits)
}

// sharedBack judges whether what a kubelet mounts for pods arrives where the
// container runtime is.
func (e *examiner) sharedBack() {
	var runtimes []*View
	for _, v := range e.s.all() {
		if v.has(Runtime) {
			runtimes = append(runtimes, v)
		}
	}
	if len(runtimes) == 0 {
		runtimes = []*View{&e.s.Host}
	}
	for _, v := range e.s.all() {
		i := slices.IndexFunc(v.Processes, func(p Process) bool { return p.Role == Kubelet })
		// The runtime of k3s and others is a child of kubelet's.
		if i < 0 || slices.ContainsFunc(runtimes, func(r *View) bool { return r.Namespace == v.Namespace }) {
			continue
		}
		p := &v.Processes[i]
		for _, dir := range p.Roots {
			at, ok := v.place(dir)
			if !ok || slices.ContainsFunc(runtimes, func(r *View) bool {
				there, ok := r.place(dir)
				return ok && there.is(at) && e.reaches(at.mount.Shared, there.mount)
			}) {
				continue
			}
			e.find(Finding{Level: Problem, Kind: NotSharedBack, Paths: []string{dir}, Processes: []Process{*p},
				What: fmt.Sprintf("what %s mounts below %s does not arrive at the container runtime: containers get the bare directory on the system disk instead of their volume", who(p), disk.Visible(dir)),
				Do:   remedyRoot(p, dir)})
		}
		type same struct {
			path, root string
			dev        disk.Dev
		}
		arrived := map[same]bool{}
		for _, r := range runtimes {
			for j := range r.Mounts {
				m := &r.Mounts[j]
				arrived[same{m.Path, m.Root, m.Dev}] = true
			}
		}
		var lost []string
		for j := range v.Mounts {
			m := &v.Mounts[j]
			if _, ok := podVolume(m.Path); ok && !arrived[same{m.Path, m.Root, m.Dev}] {
				lost = append(lost, m.Path)
			}
		}
		if len(lost) > 0 {
			e.find(Finding{Level: Problem, Kind: NotSharedBack, Paths: lost, Processes: []Process{*p},
				What: fmt.Sprintf("%s has mounted a volume that the container runtime does not see: %s", who(p), some(lost)), Do: remedyRoot(p, p.Roots[0])})
		}
	}
}

// staleCopies finds mounts of disks that the host does not have mounted any more.
func (e *examiner) staleCopies() {
	// The RuntimeDirectory= of hotmount-stage@.service.
	const staging = "/run/hotmount-stage/"
	onHost := map[disk.Dev]bool{}
	for i := range e.s.Host.Mounts {
		m := &e.s.Host.Mounts[i]
		if _, ofPod := podVolume(m.Path); !ofPod {
			onHost[m.Dev] = true
		}
	}
	ours := map[disk.Dev]bool{}
	for _, dev := range e.s.Disks {
		ours[dev] = true
	}
	hits := map[string][]hit{}
	groups := map[int]bool{}
	for i := range e.s.Host.Mounts {
		groups[e.s.Host.Mounts[i].Shared] = true
	}
	for _, v := range e.s.all() {
		for i := range v.Mounts {
			m := &v.Mounts[i]
			if v != &e.s.Host && strings.HasPrefix(m.Path, staging) {
				continue // hotmount-stage@ has it for a moment
			}
			if m.Dev.Major == 0 || onHost[m.Dev] && !e.s.Gone[m.Dev] {
				continue
			}
			if v != &e.s.Host && (m.Shared != 0 && groups[m.Shared] || m.Master != 0 && groups[m.Master]) {
				continue // it follows one that the host has, and goes with it
			}
			if _, ofPod := podVolume(m.Path); ofPod || e.s.Gone[m.Dev] || ours[m.Dev] {
				hits[m.Dev.String()] = append(hits[m.Dev.String()], newHit(v, m))
			}
		}
	}
	for _, dev := range slices.Sorted(maps.Keys(hits)) {
		f := Finding{Level: Warning, Kind: StaleCopy}
		first := hits[dev][0]
		var holders []string
		for i := range hits[dev] {
			h := &hits[dev][i]
			f.Paths = append(f.Paths, h.mount.Path)
			at := fmt.Sprintf("the host itself at %s", disk.Visible(h.mount.Path))
			if h.view != &e.s.Host {
				f.Processes = append(f.Processes, h.view.Processes...)
				at = fmt.Sprintf("%s at %s", who(h.process()), disk.Visible(h.mount.Path))
			}
			if uid := h.volume.pod; uid != "" {
				at += " (pod " + disk.Visible(uid) + ")"
				f.Pod = &Pod{UID: uid, Namespace: e.s.Pods[uid].Namespace, Name: e.s.Pods[uid].Name, Volume: h.volume.name}
			}
			holders = append(holders, at)
			if h.view != &e.s.Host {
				f.Do = append(f.Do, fmt.Sprintf("end %s, or delete its pod", who(h.process())))
			} else {
				f.Do = append(f.Do, fmt.Sprintf("fuser -vm %[1]s; umount %[1]s", shell(h.mount.Path)))
			}
		}
		why := "which is not mounted on the host any more"
		if e.s.Gone[first.mount.Dev] {
			why = "whose disk is gone"
		}
		more := ""
		if len(holders) > 3 {
			more = fmt.Sprintf(" and %d more", len(holders)-3)
			holders, f.Do = holders[:3], f.Do[:3]
		}
		f.What = fmt.Sprintf("a copy of %s, %s, is held by %s%s", describe(first.mount), why, strings.Join(holders, ", "), more)
		e.find(f)
	}
}
