package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// pattern returns a function that compiles a regular expression at its first call. The daemon and its helpers never
// call the returned function, and so never compile the doctor's regular expressions.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// volume is a pod's volume, as parsed from the path of a mount.
type volume struct {
	// root is kubelet's root directory.
	root, pod, name, container string
}

var (
	volumePath = pattern(`^(.*)/pods/([^/]+)/(?:volumes/kubernetes\.io~local-volume/([^/]+)|volume-subpaths/([^/]+)/([^/]+)/[0-9]+)$`)
	barePath   = pattern(`^(?:.*/|/)pods/([^/]+)/volumes/kubernetes\.io~local-volume/([^/]+)(?:/.*)?$`)
	// The expression `provisioned` matches the name of a volume of the local-static-provisioner (disk.VolumeName).
	provisioned = pattern(`^local-pv-[0-9a-f]{1,8}$`)
)

// podVolume parses a path at which kubelet mounts a pod's local volume or a subPath of any volume (pkg/volume/local
// and pkg/volume/util/subpath of Kubernetes).
func podVolume(p string) (volume, bool) {
	if !strings.Contains(p, "/pods/") {
		return volume{}, false
	}
	m := volumePath().FindStringSubmatch(p)
	if m == nil {
		return volume{}, false
	}
	return volume{root: m[1], pod: m[2], name: m[3] + m[4], container: m[5]}, true
}

// hit is a mount with a fault.
type hit struct {
	view   *View
	mount  *mounts.Mount
	volume volume
	// The fields `level` and `why` are set only for a hit of the kind NotItsDisk.
	level Level
	why   string
}

// process returns one process that sees the mount. A container's process takes precedence over kubelet's process.
func (h *hit) process() *Process {
	if p := h.view.first(""); p != nil {
		return p
	}
	return &h.view.Processes[0]
}

// group is a key: all mounts with an equal group become one finding. The field `key` is the entry of a class directory,
// the volume, or the device. Each pod gets its own finding. For a StaleCopy, all pods share one finding.
type group struct {
	kind            Kind
	class, key, pod string
}

// hostFacts are the facts from the host's mount table that every verdict on a mount needs.
type hostFacts struct {
	// For each place at the path of a class directory, the map `classes` contains the name of the class. If a mount
	// hides an earlier mount, one path can have several places.
	classes map[point]string
	// mounted[dev] is true if the host has mounted the filesystem of the device. points[p] is true if the host has
	// mounted the directory p of a filesystem. Neither map includes the mounts for pods.
	mounted map[disk.Dev]bool
	points  map[point]bool
	// groups are the peer groups of the host's mounts.
	groups map[int]bool
	// volumes maps a volume's name to the mounts of the disk from which the volume was made.
	volumes map[string][]*mounts.Mount
}

func (e *examiner) hostFacts() *hostFacts {
	h := &hostFacts{classes: map[point]string{}, mounted: map[disk.Dev]bool{}, points: map[point]bool{}, groups: map[int]bool{}, volumes: map[string][]*mounts.Mount{}}
	for i := range e.s.Host.Mounts {
		m := &e.s.Host.Mounts[i]
		h.groups[m.Shared] = true
		if _, ofPod := podVolume(m.Path); !ofPod {
			h.mounted[m.Dev], h.points[point{m.Dev, m.Root}] = true, true
		}
		for _, c := range e.s.Classes {
			if rest, ok := disk.Below(c.Directory, m.Path); ok {
				h.classes[point{m.Dev, path.Join(m.Root, rest)}] = c.Name
			}
			if c.StorageClass != "" && e.s.Node != "" && path.Dir(m.Path) == c.Directory {
				name := disk.VolumeName(path.Base(m.Path), e.s.Node, c.StorageClass)
				h.volumes[name] = append(h.volumes[name], m)
			}
		}
	}
	for _, c := range e.s.Classes {
		// A symlink may lead from the class directory to another place.
		if at, ok := e.s.Host.place(c.Directory); ok {
			h.classes[at.point] = c.Name
		}
	}
	return h
}

// The method `mounts` judges each mount of each view, in one pass. The verdicts of one group become one finding.
func (e *examiner) mounts() {
	host := e.hostFacts()
	hits := map[group][]hit{}
	for _, v := range e.s.allViews() {
		for i := range v.Mounts {
			e.judgeMount(host, v, &v.Mounts[i], hits)
		}
	}
	for g := range hits {
		if g.pod != "" {
			// If a pod's mount has a fault, copies of the mount in views without a pod need no finding of their own.
			// Every service with its own mount namespace has copies of kubelet's mounts.
			g.pod = ""
			delete(hits, g)
		}
	}
	for _, g := range slices.SortedFunc(maps.Keys(hits), func(a, b group) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.class, b.class), cmp.Compare(a.key, b.key), cmp.Compare(a.pod, b.pod))
	}) {
		if g.kind == StaleCopy {
			e.staleCopy(hits[g])
		} else {
			e.volume(g, hits[g])
		}
	}
}

// judgeMount judges one mount, and adds each verdict to the map. The possible verdicts are:
//   - OnSystemDisk: the mount shows a directory below a class directory, on the filesystem of the class directory
//     itself. The volume's disk was not mounted.
//   - BareDirectory: the mount shows the directory at which kubelet mounts a volume. The volume itself is missing.
//   - StaleCopy: the disk is gone, or the host no longer has it mounted.
//   - NotItsDisk: the mount is a pod's volume, but not on the disk from which the volume was made.
func (e *examiner) judgeMount(host *hostFacts, v *View, m *mounts.Mount, hits map[group][]hit) {
	root := strings.TrimSuffix(m.Root, deletedSuffix)
	of, ofPod := podVolume(m.Path)
	add := func(g group, h hit) {
		h.view, h.mount = v, m
		h.volume.pod = cmp.Or(h.volume.pod, h.process().Pod)
		if g.kind != StaleCopy {
			g.pod = h.volume.pod
		}
		hits[g] = append(hits[g], h)
	}
	inClass := false
	for dir := root; dir != path.Dir(dir); dir = path.Dir(dir) {
		if class, ok := host.classes[point{m.Dev, path.Dir(dir)}]; ok {
			add(group{kind: OnSystemDisk, class: class, key: path.Base(dir)}, hit{volume: of})
			inClass = true
		}
	}
	if found := barePath().FindStringSubmatch(root); found != nil {
		add(group{kind: BareDirectory, key: found[1] + "/" + found[2]}, hit{volume: volume{pod: found[1], name: found[2]}})
	}
	if m.Dev.Major != 0 && (e.s.Gone[m.Dev] || !host.mounted[m.Dev]) {
		if e.stale(host, v, m, ofPod) {
			add(group{kind: StaleCopy, key: m.Dev.String()}, hit{volume: of})
		}
	} else if ofPod && !inClass {
		if level, why := host.wrongDisk(m, root, of); why != "" {
			add(group{kind: NotItsDisk, key: of.name}, hit{volume: of, level: level, why: why})
		}
	}
}

// The method `stale` reports whether a mount is a StaleCopy. judgeMount calls stale() only for a mount whose disk is
// gone or is not mounted on the host. A StaleCopy belongs to a pod, or its disk is gone, or a class selects its disk.
func (e *examiner) stale(host *hostFacts, v *View, m *mounts.Mount, ofPod bool) bool {
	// Each RuntimeDirectory= of hotmount-stage@.service lies in staging. hotmount mounts a disk there for a short time.
	const staging = "/run/hotmount-stage/"
	if v != &e.s.Host {
		// A mount that propagates from the host disappears together with the host's mount.
		follows := m.Shared != 0 && host.groups[m.Shared] || m.Master != 0 && host.groups[m.Master]
		if follows || strings.HasPrefix(m.Path, staging) {
			return false
		}
	}
	return ofPod || e.s.Gone[m.Dev] || slices.Contains(e.s.Disks, m.Dev)
}

// wrongDisk returns the reason why a pod's volume is not on the disk from which the volume was made. wrongDisk returns
// "" if the volume may be on the right disk.
//
// If the StorageClass is known, the volume's name identifies the disk. If the name identifies no mounted disk, a volume
// of the provisioner must be a mount point of the host. Except for a subPath, no volume may be on a container's own
// filesystem.
func (h *hostFacts) wrongDisk(m *mounts.Mount, root string, of volume) (Level, string) {
	disks := h.volumes[of.name]
	switch {
	case slices.ContainsFunc(disks, func(d *mounts.Mount) bool { return d.Dev == m.Dev && disk.IsBelow(root, d.Root) }):
	case len(disks) > 0:
		return Problem, "not on the disk that is mounted at " + disk.Visible(disks[0].Path)
	case of.container != "": // a subPath of any kind of volume
	case m.Type == "overlay":
		return Problem, "which is deleted with the container"
	case provisioned().MatchString(of.name) && !h.points[point{m.Dev, root}]:
		return Warning, "which is not a mount point of the host: the provisioner makes volumes only of mount points"
	}
	return "", ""
}

// rank returns a higher number for a mount that gives better access to the data. A container's mount ranks highest,
// because removed data is still readable through the container's mount.
func (e *examiner) rank(h *hit) int {
	switch {
	case h.process().Pod != "":
		return 2
	case h.view == &e.s.Host:
		return 1
	}
	return 0
}

// The method `volume` adds one finding: a volume that a pod or process uses is not on the volume's disk.
func (e *examiner) volume(g group, hits []hit) {
	slices.SortStableFunc(hits, func(a, b hit) int { return e.rank(&b) - e.rank(&a) })
	best, holder := hits[0], hits[0].process()
	f := Finding{Class: g.class, Reach: best.mount.Path}
	if best.view != &e.s.Host {
		f.Reach = fmt.Sprintf("/proc/%d/root%s", holder.PID, best.mount.Path)
	}
	pod := e.pod(g.pod)
	deleted := false
	for i := range hits {
		h := &hits[i]
		f.Paths = append(f.Paths, h.mount.Path)
		pod.Volume = cmp.Or(pod.Volume, h.volume.name)
		pod.Container = cmp.Or(pod.Container, h.volume.container, e.s.Containers[h.process().Container])
		if h.view != &e.s.Host {
			f.Processes = append(f.Processes, *h.process())
		}
		deleted = deleted || strings.HasSuffix(h.mount.Root, deletedSuffix)
	}
	slices.Sort(f.Paths)
	f.Paths = slices.Compact(f.Paths)
	root := strings.TrimSuffix(best.mount.Root, deletedSuffix)
	where := describe(best.mount, root)
	what := "the data is on the system disk, in " + where
	if best.why != "" {
		what = fmt.Sprintf("the data is in %s, %s", where, best.why)
	}
	if deleted {
		what += "; that directory was removed, and the data is lost when the last process that uses the directory ends"
	} else {
		f.Data = e.hostPath(point{best.mount.Dev, best.mount.Root})
	}
	subject, then := describeProcess(holder), advice("after-copy-process")
	if g.pod != "" {
		f.Pod, subject, then = &pod, pod.words(), advice("after-copy-uid", "uid", pod.UID)
	}
	if pod.Name != "" {
		then = advice("after-copy-pod", "namespace", pod.Namespace, "pod", pod.Name)
	}
	copied := e.copyDirectory(cmp.Or(g.pod, fmt.Sprintf("process-%d", holder.PID)) + "-" + cmp.Or(pod.Volume, path.Base(root)))
	e.find(f, cmp.Or(best.level, Problem), g.kind, append(advice("copy", "reach", f.Reach, "copy", copied), then...), "%s: %s", subject, what)
}

// pod returns the Pod with this UID. If the doctor found the pod's namespace and name, the Pod contains them.
func (e *examiner) pod(uid string) Pod {
	return Pod{UID: uid, Namespace: e.s.Pods[uid].Namespace, Name: e.s.Pods[uid].Name}
}

// words returns a text about a pod, its container and its volume.
func (p *Pod) words() string {
	words := "pod " + disk.Visible(p.UID)
	if p.Name != "" {
		words = fmt.Sprintf("pod %s/%s (%s)", disk.Visible(p.Namespace), disk.Visible(p.Name), disk.Visible(p.UID))
	}
	if p.Container != "" {
		words += ", container " + disk.Visible(p.Container)
	}
	if p.Volume != "" {
		words += ", volume " + disk.Visible(p.Volume)
	}
	return words
}

// copyDirectory returns a directory for the copy of a finding's data. Each finding gets its own directory. The command
// in the advice creates the directory, and fails if the directory exists. A second copy in one directory would
// overwrite the first. cp(1) would also follow the symlinks that the first copy has created, and would change files
// elsewhere.
func (e *examiner) copyDirectory(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '/' || !strings.ContainsRune(plain, r) {
			return '_'
		}
		return r
	}, name)
	name = name[:min(len(name), 200)] // within NAME_MAX (limits.h)
	dir := "/root/rescued/" + name
	for n := 2; e.rescued[dir]; n++ {
		dir = fmt.Sprintf("/root/rescued/%s.%d", name, n)
	}
	e.rescued[dir] = true
	return dir
}

// staleCopy adds the finding that a mount of a disk still exists, although the disk is gone or the host no longer has
// the disk mounted.
func (e *examiner) staleCopy(hits []hit) {
	var f Finding
	var holders, do []string
	for i := range hits {
		h := &hits[i]
		f.Paths = append(f.Paths, h.mount.Path)
		holder, line := "the host itself", advice("stale-host", "path", h.mount.Path)
		if h.view != &e.s.Host {
			p := h.process()
			f.Processes = append(f.Processes, h.view.Processes...)
			holder, line = describeProcess(p), advice("stale-process", "pid", strconv.Itoa(p.PID), "name", p.Name)
		}
		holder += " at " + disk.Visible(h.mount.Path)
		if uid := h.volume.pod; uid != "" {
			holder += " (pod " + disk.Visible(uid) + ")"
			pod := e.pod(uid)
			pod.Volume = h.volume.name
			f.Pod = &pod
		}
		holders, do = append(holders, holder), append(do, line...)
	}
	why := "the disk's own mount on the host is gone"
	m := hits[0].mount
	if e.s.Gone[m.Dev] {
		why = "its disk is gone"
	}
	more := ""
	if len(holders) > 3 {
		more = fmt.Sprintf(" and %d more", len(holders)-3)
		holders, do = holders[:3], do[:3]
	}
	e.find(f, Warning, StaleCopy, do, "a mount of %s still exists, although %s: %s%s", describe(m, m.Root), why, strings.Join(holders, ", "), more)
}
