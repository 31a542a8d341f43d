package doctor

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// Level says how bad a finding is.
type Level string

// The levels. Problems and warnings want something to be done, notes do not.
const (
	// Problem: data is or will be where nobody expects it, or can not be kept.
	Problem Level = "problem"
	// Warning: something does not work, or may be in the way, and says so itself
	// or loses nothing.
	Warning Level = "warning"
	// Note: worth knowing.
	Note Level = "note"
)

// Kind is what was found, for programs.
type Kind string

// The kinds of findings.
const (
	// NotPropagated: what is mounted from now on does not arrive.
	NotPropagated Kind = "not-propagated"
	// OtherDirectory: at the class directory's path lies another one.
	OtherDirectory Kind = "other-directory"
	// NoDirectory: the class directory is not there.
	NoDirectory Kind = "no-directory"
	// WrongMount: at the path of a disk lies something else.
	WrongMount Kind = "wrong-mount"
	// NoMount: at the path of a disk lies nothing.
	NoMount Kind = "no-mount"
	// ReadOnly: the daemon can not make mount points.
	ReadOnly Kind = "read-only"
	// NotShared: the host's own mount of the class directory is not shared.
	NotShared Kind = "host-not-shared"
	// OnSystemDisk: a volume lies on the class directory's own filesystem.
	OnSystemDisk Kind = "volume-on-system-disk"
	// BareDirectory: a container has a pod's directory instead of the volume.
	BareDirectory Kind = "bare-pod-directory"
	// NotSharedBack: what kubelet mounts for pods does not arrive at the runtime.
	NotSharedBack Kind = "not-shared-back"
	// StaleCopy: a mount that the host has not any more is still held.
	StaleCopy Kind = "stale-copy"
	// Covered: one mount lies over another.
	Covered Kind = "covered"
	// DataHidden: there are files under a mount.
	DataHidden Kind = "data-hidden"
	// NotAMount: something in a class directory is no mount.
	NotAMount Kind = "not-a-mount"
	// UdevRule: a udev rule mounts as well.
	UdevRule Kind = "udev-rule"
	// Trimmed: fstrim.timer trims the disks.
	Trimmed Kind = "fstrim"
	// NoHelper: a program is missing.
	NoHelper Kind = "missing-helper"
	// NoKubelet: no kubelet runs.
	NoKubelet Kind = "no-kubelet"
	// Blind: something could not be seen.
	Blind Kind = "not-seen"
)

// Pod is a pod with a volume, as far as it is known.
type Pod struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Container string `json:"container,omitempty"`
	Volume    string `json:"volume,omitempty"`
}

// Finding is one thing that is not as it should be.
type Finding struct {
	Level Level `json:"level"`
	Kind  Kind  `json:"kind"`
	// Class is the name of the class it is about, Paths are the places.
	Class string   `json:"class,omitempty"`
	Paths []string `json:"paths,omitempty"`
	// Processes are those it is about, at most 10.
	Processes []Process `json:"processes,omitempty"`
	Pod       *Pod      `json:"pod,omitempty"`
	// Data is where the data really is on the host, also if something is mounted
	// over it; Reach a path by which root can read it now.
	Data  string `json:"data,omitempty"`
	Reach string `json:"reach,omitempty"`
	// What is the finding in words, Do what to do about it, one step a line.
	What string   `json:"what"`
	Do   []string `json:"do,omitempty"`
}

// same says whether two looks have found the same. Counts in the words may have
// changed.
func (f *Finding) same(o *Finding) bool {
	if f.Kind != o.Kind || f.Class != o.Class {
		return false
	}
	if len(f.Paths) == 0 || len(o.Paths) == 0 {
		return f.What == o.What
	}
	return slices.ContainsFunc(f.Paths, func(p string) bool { return slices.Contains(o.Paths, p) })
}

// Seen is what one process sees of one class directory.
type Seen struct {
	Process   Process `json:"process"`
	Namespace string  `json:"namespace"`
	Class     string  `json:"class"`
	// Directory is the path at which it has the class directory.
	Directory string `json:"directory"`
	// Sees is "same", "other", "absent" or "unknown", as against the host;
	// Arrives, whether what the host mounts from now on will be seen.
	Sees    string      `json:"sees"`
	Arrives bool        `json:"arrives"`
	Mounts  []SeenMount `json:"mounts,omitempty"`
}

// SeenMount is what one process sees at the path of one disk.
type SeenMount struct {
	Path string `json:"path"`
	// Sees is "same", "absent", "unknown", "directory" (that of the class
	// directory's own filesystem) or "other".
	Sees string   `json:"sees"`
	Dev  disk.Dev `json:"dev"`
	Root string   `json:"root,omitempty"`
}

// Report is the result of an examination.
type Report struct {
	// Host is what PID 1 has in the class directories, Seen what the others see
	// of it.
	Host     []HostDirectory `json:"host"`
	Seen     []Seen          `json:"seen"`
	Findings []Finding       `json:"findings"`
}

// HostDirectory is a class directory as PID 1 has it.
type HostDirectory struct {
	Class     string `json:"class"`
	Directory string `json:"directory"`
	// Dev and Root are the filesystem and the directory in it.
	Dev  disk.Dev `json:"dev"`
	Root string   `json:"root,omitempty"`
	// Shared is the peer group of the mount that carries it, 0 for none.
	Shared int            `json:"shared"`
	Mounts []mounts.Mount `json:"mounts"`
}

// Confirm keeps what both of two reports have found: a mount that was being made
// while the tables were read is no finding.
func (r *Report) Confirm(again *Report) {
	before := r.Findings
	*r = *again
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool {
		return !slices.ContainsFunc(before, func(o Finding) bool { return f.same(&o) })
	})
}

// Examine judges a snapshot.
func Examine(s *Snapshot) *Report {
	e := examiner{s: s, report: &Report{Host: []HostDirectory{}, Seen: []Seen{}, Findings: []Finding{}}, masters: map[int][]int{}}
	for _, v := range s.all() {
		for i := range v.Mounts {
			if m := &v.Mounts[i]; m.Shared != 0 && m.Master != 0 {
				e.masters[m.Shared] = append(e.masters[m.Shared], above(m)...)
			}
		}
	}
	for i := range s.Classes {
		e.directory(&s.Classes[i])
	}
	e.onSystemDisk()
	e.bareDirectories()
	e.sharedBack()
	e.staleCopies()
	e.system()
	levels := []Level{Problem, Warning, Note}
	slices.SortStableFunc(e.report.Findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(levels, a.Level), slices.Index(levels, b.Level))
	})
	return e.report
}

type examiner struct {
	s      *Snapshot
	report *Report
	// masters are the peer groups that a peer group is a slave of.
	masters map[int][]int
}

func (e *examiner) find(f Finding) {
	f.Processes = f.Processes[:min(len(f.Processes), 10)]
	e.report.Findings = append(e.report.Findings, f)
}

// above gives the peer groups that a slave hears from.
func above(m *mounts.Mount) []int {
	groups := []int{}
	for _, g := range []int{m.Master, m.From} {
		if g != 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// reaches says whether what is mounted on a mount of a peer group arrives at m:
// m is one of its peers, or its slave over any number of hops.
func (e *examiner) reaches(group int, m *mounts.Mount) bool {
	if group == 0 {
		return false
	}
	seen := map[int]bool{}
	for next := append(above(m), m.Shared); len(next) > 0; next = next[1:] {
		if next[0] == group {
			return true
		}
		if !seen[next[0]] {
			seen[next[0]] = true
			next = append(next, e.masters[next[0]]...)
		}
	}
	return false
}

// place is where a path ends: which directory of which filesystem.
type place struct {
	mount *mounts.Mount
	dev   disk.Dev
	// dir is the directory within the filesystem.
	dir string
	// own says that the path is a mount point.
	own bool
}

// is says whether both are the same directory.
func (p place) is(o place) bool { return p.dev == o.dev && p.dir == o.dir }

// deletedSuffix is what the kernel puts after the root of a mount that was
// removed (show_mountinfo, seq_dentry in fs/seq_file.c).
const deletedSuffix = "//deleted"

// place gives where a path ends in a view; false if that is not known, or if
// nothing is there.
func (v *View) place(p string) (place, bool) {
	s, ok := v.Sights[p]
	if !ok || s.Absent || s.Failure != "" {
		return place{}, false
	}
	for i := range v.Mounts {
		m := &v.Mounts[i]
		if m.ID != s.MountID {
			continue
		}
		rest, ok := below(s.Path, m.Path)
		return place{mount: m, dev: m.Dev, dir: path.Join(m.Root, rest), own: rest == ""}, ok
	}
	return place{}, false
}

// below gives the part of a path below a directory, empty for the directory
// itself.
func below(p, dir string) (string, bool) {
	if p == dir {
		return "", true
	}
	if dir == "/" {
		return strings.TrimPrefix(p, "/"), true
	}
	return strings.CutPrefix(p, dir+"/")
}

func isBelow(p, dir string) bool {
	_, ok := below(p, dir)
	return ok
}

// hostPath gives the path on the host of a directory of a filesystem, whether or
// not something is mounted over it; empty if the host does not have it.
func (e *examiner) hostPath(dev disk.Dev, dir string) string {
	best := ""
	for i := range e.s.Host.Mounts {
		m := &e.s.Host.Mounts[i]
		if rest, ok := below(dir, m.Root); ok && m.Dev == dev {
			if p := path.Join(m.Path, rest); best == "" || len(p) < len(best) {
				best = p
			}
		}
	}
	return best
}

// directory judges one class directory and every mount in it.
func (e *examiner) directory(c *Class) {
	host := &e.s.Host
	at, ok := host.place(c.Directory)
	if !ok {
		sight := host.Sights[c.Directory]
		if sight.Absent {
			e.find(Finding{Level: Note, Kind: NoDirectory, Class: c.Name, Paths: []string{c.Directory}, What: fmt.Sprintf("%s does not exist on the host", c.Directory), Do: []string{"mkdir -p " + c.Directory}})
		} else {
			e.find(Finding{Level: Warning, Kind: Blind, Class: c.Name, Paths: []string{c.Directory}, What: fmt.Sprintf("%s can not be looked at on the host: %s", c.Directory, cmp.Or(sight.Failure, "its mount is not in the mount table"))})
		}
		return
	}
	if at.mount.Shared == 0 {
		e.find(Finding{Level: Warning, Kind: NotShared, Class: c.Name, Paths: []string{at.mount.Path}, What: fmt.Sprintf("the host's mount %s, which carries %s, is not shared: what is mounted there is seen by nobody in another mount namespace", at.mount.Path, c.Directory),
			Do: []string{"mount --make-rshared " + at.mount.Path}})
	}
	have := HostDirectory{Class: c.Name, Directory: c.Directory, Dev: at.dev, Root: at.dir, Shared: at.mount.Shared, Mounts: []mounts.Mount{}}
	disks := map[string]place{}
	for _, p := range host.mountsIn(c.Directory) {
		top, ok := host.place(p)
		e.covered(c, p, top, ok)
		if ok && top.own {
			disks[p] = top
			have.Mounts = append(have.Mounts, *top.mount)
		}
	}
	e.report.Host = append(e.report.Host, have)
	e.entries(c, disks)
	kubelets, provisioners, seen := 0, 0, 0
	for _, v := range e.s.all() {
		for _, role := range []Role{Kubelet, Provisioner, Agent} {
			i := slices.IndexFunc(v.Processes, func(p Process) bool { return p.Role == role })
			if i < 0 {
				continue
			}
			sees := e.viewer(c, v, &v.Processes[i], at, disks)
			switch {
			case role == Kubelet:
				kubelets++
			case role == Provisioner:
				provisioners++
				if sees == "same" {
					seen++
				}
			}
		}
	}
	if kubelets == 0 {
		e.find(Finding{Level: Note, Kind: NoKubelet, Class: c.Name, What: "no kubelet runs on this node: nobody can say what it would see of " + c.Directory})
	}
	if provisioners > 0 && seen == 0 {
		e.find(Finding{Level: Warning, Kind: NoDirectory, Class: c.Name, Paths: []string{c.Directory}, What: fmt.Sprintf("no provisioner on this node has %s: no volumes are made of its disks", c.Directory), Do: remedy(Provisioner, nil, c.Directory)})
	}
}

// covered finds mounts at one path of which one hides another.
func (e *examiner) covered(c *Class, p string, top place, known bool) {
	for i := range e.s.Host.Mounts {
		m := &e.s.Host.Mounts[i]
		if m.Path != p || known && top.own && m.ID == top.mount.ID {
			continue
		}
		f := Finding{Level: Problem, Kind: Covered, Class: c.Name, Paths: []string{p}, Do: []string{"findmnt -o TARGET,SOURCE,MAJ:MIN,PROPAGATION " + p, "umount " + p + "   # takes the upper one away; end first who uses it"}}
		switch {
		case !known:
			f.Level, f.Kind = Warning, Blind
			f.What, f.Do = fmt.Sprintf("%s can not be looked at on the host: %s", p, cmp.Or(e.s.Host.Sights[p].Failure, "it is gone")), nil
		case !top.own:
			f.What = fmt.Sprintf("%s is mounted at %s, but hidden by what is mounted at %s", describe(m), p, top.mount.Path)
		case top.dev == m.Dev && top.mount.Root == m.Root:
			f.Level = Warning
			f.What = fmt.Sprintf("%s is mounted twice at %s", describe(m), p)
		default:
			f.What = fmt.Sprintf("%s is mounted at %s, but hidden by %s, which is mounted over it", describe(m), p, describe(top.mount))
		}
		e.find(f)
	}
}

// describe names a mount by its filesystem.
func describe(m *mounts.Mount) string {
	name := fmt.Sprintf("%s %s (%s)", disk.Visible(m.Type), disk.Visible(m.Source), m.Dev)
	if m.Root != "/" {
		name = disk.Visible(m.Root) + " of " + name
	}
	return name
}

// entries judges what lies in the class directory itself.
func (e *examiner) entries(c *Class, disks map[string]place) {
	for _, entry := range e.s.Entries[c.Directory] {
		p := path.Join(c.Directory, entry.Name)
		_, mounted := disks[p]
		shown := disk.Visible(p)
		f := Finding{Class: c.Name, Paths: []string{p}, Kind: NotAMount, Level: Warning}
		switch {
		case entry.Failure != "":
			f.Kind, f.What = Blind, fmt.Sprintf("what lies in %s can not be seen: %s", shown, entry.Failure)
		case mounted && entry.First != "":
			f.Level, f.Kind = Problem, DataHidden
			f.What = fmt.Sprintf("files are hidden on the system disk under the mount %s: %s", shown, disk.Visible(entry.First))
			f.Data = p
			f.Do = []string{
				fmt.Sprintf("unshare -m sh -c %s   # shows them", shell(fmt.Sprintf("mount --bind %s /mnt && ls -lA /mnt/%s", shell(c.Directory), shell(entry.Name)))),
				fmt.Sprintf("unshare -m sh -c %s   # copies them", shell(fmt.Sprintf("mount --bind %s /mnt && cp -a /mnt/%s/. /root/rescued/", shell(c.Directory), shell(entry.Name)))),
			}
		case mounted:
			continue
		case entry.Kind == "symlink" && strings.HasPrefix(entry.Target, "/dev/"):
			continue // a block volume
		case entry.Kind == "fifo":
			f.Level = Problem
			f.What = fmt.Sprintf("%s is a FIFO: the provisioner hangs on it for ever", shown)
			f.Do = []string{"rm " + shell(p)}
		case entry.First != "":
			f.Level = Problem
			f.Data, f.Reach = p, p
			f.What = fmt.Sprintf("%s is no mount but has files in it (%s): they are on the system disk", shown, disk.Visible(entry.First))
			f.Do = []string{"ls -lA " + shell(p), fmt.Sprintf("move them away, then: chattr -i %[1]s %[1]s/"+disk.Marker+"; rm -f %[1]s/"+disk.Marker+"; rmdir %[1]s", shell(p))}
		case entry.Kind == "directory":
			f.What = fmt.Sprintf("%s is an empty directory on which nothing is mounted: the provisioner reports it as an error", shown)
			f.Do = []string{fmt.Sprintf("chattr -i %[1]s %[1]s/"+disk.Marker+"; rm -f %[1]s/"+disk.Marker+"; rmdir %[1]s", shell(p))}
		default:
			f.What = fmt.Sprintf("%s is a %s, not a mount: the provisioner reports it as an error", shown, entry.Kind)
			f.Do = []string{"ls -la " + shell(p)}
		}
		e.find(f)
	}
}

// shell quotes a word for a shell.
func shell(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-:@+~") == "" {
		return s
	}
	if v := disk.Visible(s); v != s {
		// Not to be typed: bytes that a terminal does not show.
		return "'" + strings.ReplaceAll(v, "'", `'\''`) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// viewer judges what one process sees of a class directory, and gives that in a
// word.
func (e *examiner) viewer(c *Class, v *View, p *Process, host place, disks map[string]place) string {
	base := v.Bases[c.Directory]
	sight := v.Sights[base]
	seen := Seen{Process: *p, Namespace: v.Namespace, Class: c.Name, Directory: base, Sees: "unknown"}
	who := who(p)
	at, ok := v.place(base)
	switch {
	case sight.Absent:
		seen.Sees = "absent"
		if p.Role == Provisioner {
			break // it may be there for another class
		}
		e.find(Finding{Level: Warning, Kind: NoDirectory, Class: c.Name, Paths: []string{base}, Processes: []Process{*p},
			What: fmt.Sprintf("%s has no %s: no pod that uses a disk starts", who, base), Do: remedy(p.Role, p, c.Directory)})
	case !ok:
		e.find(Finding{Level: Warning, Kind: Blind, Class: c.Name, Paths: []string{base}, Processes: []Process{*p},
			What: fmt.Sprintf("what %s sees at %s can not be seen: %s", who, base, cmp.Or(sight.Failure, "its mount is not in the mount table"))})
	case !at.is(host):
		seen.Sees = "other"
		if p.Role == Provisioner {
			break
		}
		e.find(Finding{Level: Problem, Kind: OtherDirectory, Class: c.Name, Paths: []string{base}, Processes: []Process{*p}, Data: e.hostPath(at.dev, at.dir),
			What: fmt.Sprintf("%s has another directory at %s than the host: %s of %s", who, base, disk.Visible(at.dir), describeDevice(at.mount)), Do: remedy(p.Role, p, c.Directory)})
	default:
		seen.Sees = "same"
		seen.Arrives = v.Namespace == e.s.Host.Namespace && at.mount.ID == host.mount.ID || e.reaches(host.mount.Shared, at.mount)
		if !seen.Arrives {
			e.find(Finding{Level: Problem, Kind: NotPropagated, Class: c.Name, Paths: []string{base}, Processes: []Process{*p},
				What: fmt.Sprintf("%s does not see what is mounted in %s from now on: %s", who, base, consequence(p.Role)), Do: remedy(p.Role, p, c.Directory)})
		}
		if p.Role == Agent && slices.Contains(strings.Split(at.mount.Options, ","), "ro") {
			e.find(Finding{Level: Problem, Kind: ReadOnly, Class: c.Name, Paths: []string{base}, Processes: []Process{*p},
				What: fmt.Sprintf("%s may not write to %s: it mounts nothing there", who, base), Do: remedy(p.Role, p, c.Directory)})
		}
		e.mountsSeen(c, v, p, &seen, host, disks)
	}
	e.report.Seen = append(e.report.Seen, seen)
	return seen.Sees
}

// who names a process.
func who(p *Process) string {
	if p.Role == "" {
		return fmt.Sprintf("process %d (%s)", p.PID, disk.Visible(p.Name))
	}
	return fmt.Sprintf("the %s %d (%s)", p.Role, p.PID, disk.Visible(p.Name))
}

func consequence(r Role) string {
	switch r {
	case Provisioner:
		return "it makes no volumes of new disks, and keeps disks in use that are taken away"
	case Agent:
		return "it mounts nothing there"
	}
	return "pods on new disks will write to the system disk"
}

func describeDevice(m *mounts.Mount) string {
	return fmt.Sprintf("%s %s (%s)", disk.Visible(m.Type), disk.Visible(m.Source), m.Dev)
}

// mountsSeen judges what one process sees at the path of each disk.
func (e *examiner) mountsSeen(c *Class, v *View, p *Process, seen *Seen, host place, disks map[string]place) {
	wrong := map[string][]string{}
	for _, hostPath := range e.s.Host.mountsIn(c.Directory) {
		want, ok := disks[hostPath]
		if !ok {
			continue
		}
		at := path.Join(seen.Directory, path.Base(hostPath))
		m := SeenMount{Path: at, Sees: "unknown"}
		got, known := v.place(at)
		switch {
		case v.Sights[at].Absent:
			m.Sees = "absent"
		case !known:
		case got.is(want):
			m.Sees = "same"
		case got.dev == host.dev && isBelow(got.dir, host.dir):
			m.Sees = "directory"
		default:
			m.Sees = "other"
		}
		if known {
			m.Dev, m.Root = got.dev, got.dir
		}
		seen.Mounts = append(seen.Mounts, m)
		wrong[m.Sees] = append(wrong[m.Sees], at)
	}
	for _, sees := range []string{"directory", "other", "absent", "unknown"} {
		paths := wrong[sees]
		if len(paths) == 0 {
			continue
		}
		f := Finding{Level: Problem, Kind: WrongMount, Class: c.Name, Paths: paths, Processes: []Process{*p}, Do: remedy(p.Role, p, c.Directory)}
		many := some(paths)
		switch sees {
		case "directory":
			f.What = fmt.Sprintf("%s sees the directory on the system disk instead of the disk at %s", who(p), many)
			if p.Role == Kubelet {
				f.What += ": pods that start on it write to the system disk"
			}
		case "other":
			f.What = fmt.Sprintf("%s sees something else than the host's disk at %s", who(p), many)
		case "absent":
			f.Level, f.Kind = Warning, NoMount
			f.What = fmt.Sprintf("%s sees nothing at %s", who(p), many)
		case "unknown":
			f.Level, f.Kind, f.Do = Warning, Blind, nil
			f.What = fmt.Sprintf("what %s sees at %s can not be seen: %s", who(p), many, cmp.Or(v.Sights[paths[0]].Failure, "its mount is not in the mount table"))
		}
		e.find(f)
	}
}

// some names the first of the paths and how many more there are.
func some(paths []string) string {
	if len(paths) == 1 {
		return disk.Visible(paths[0])
	}
	return fmt.Sprintf("%s and %d more", disk.Visible(paths[0]), len(paths)-1)
}

// volume is a volume of a pod as the path of a mount names it.
type volume struct {
	// root is kubelet's root directory.
	root, pod, name, container string
}

var (
	volumePath  = regexp.MustCompile(`^(.*)/pods/([^/]+)/volumes/kubernetes\.io~local-volume/([^/]+)$`)
	subPath     = regexp.MustCompile(`^(.*)/pods/([^/]+)/volume-subpaths/([^/]+)/([^/]+)/[0-9]+$`)
	barePodPath = regexp.MustCompile(`^(?:.*/|/)pods/([^/]+)/volumes/kubernetes\.io~local-volume/([^/]+)(?:/.*)?$`)
)

// podVolume reads a path that kubelet has mounted a local volume at, or a part of
// a volume for one container (pkg/volume/local and pkg/volume/util/subpath of
// Kubernetes).
func podVolume(p string) (volume, bool) {
	if !strings.Contains(p, "/pods/") {
		return volume{}, false
	}
	if m := volumePath.FindStringSubmatch(p); m != nil {
		return volume{root: m[1], pod: m[2], name: m[3]}, true
	}
	if m := subPath.FindStringSubmatch(p); m != nil {
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
	if !deleted {
		f.Data = e.hostPath(best.mount.Dev, best.mount.Root)
	} else {
		f.What += "; that directory was removed, and the data goes with its last user"
	}
	f.Do = []string{fmt.Sprintf("cp -a %s/. /root/rescued/   # what is wanted of it", shell(f.Reach))}
	switch {
	case pod.Name != "":
		f.Do = append(f.Do, fmt.Sprintf("kubectl -n %s delete pod %s   # only then; mend first what kubelet sees", shell(pod.Namespace), shell(pod.Name)))
	case uid != "":
		f.Do = append(f.Do, fmt.Sprintf("kubectl get pods -A -o custom-columns=NS:.metadata.namespace,POD:.metadata.name,UID:.metadata.uid | grep %s   # names the pod to delete, only then; mend first what kubelet sees", shell(uid)))
	default:
		f.Do = append(f.Do, "end or restart the process, only then")
	}
	return f
}

// onSystemDisk finds mounts of something below a class directory on the class
// directory's own filesystem: whoever made them wanted a disk that was not there.
func (e *examiner) onSystemDisk() {
	for i := range e.s.Classes {
		c := &e.s.Classes[i]
		at, ok := e.s.Host.place(c.Directory)
		if !ok {
			continue
		}
		hits := map[string][]hit{}
		for _, v := range e.s.all() {
			for j := range v.Mounts {
				m := &v.Mounts[j]
				if m.Dev != at.dev {
					continue
				}
				rest, ok := below(strings.TrimSuffix(m.Root, deletedSuffix), at.dir)
				if !ok || rest == "" {
					continue
				}
				name, _, _ := strings.Cut(rest, "/")
				hits[name] = append(hits[name], newHit(v, m))
			}
		}
		e.volumes(OnSystemDisk, c.Name, hits)
	}
}

// volumes tells of each volume and pod once, in an order that stays the same.
func (e *examiner) volumes(kind Kind, class string, hits map[string][]hit) {
	for _, name := range sortedKeys(hits) {
		by := pods(hits[name])
		for _, uid := range sortedKeys(by) {
			e.find(e.volumeFinding(kind, class, uid, by[uid]))
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
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
			if found := barePodPath.FindStringSubmatch(strings.TrimSuffix(m.Root, deletedSuffix)); found != nil {
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
	onHost := map[disk.Dev]bool{}
	for i := range e.s.Host.Mounts {
		if m := &e.s.Host.Mounts[i]; !strings.Contains(m.Path, "/pods/") {
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
	for _, dev := range sortedKeys(hits) {
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

// system judges what is not about mounts.
func (e *examiner) system() {
	for _, rule := range e.s.Rules {
		file := rule[:strings.LastIndexByte(rule, ':')]
		e.find(Finding{Level: Warning, Kind: UdevRule, Paths: []string{rule}, What: fmt.Sprintf("the udev rule %s runs systemd-mount: two mount the same disks, and it may format or mount what hotmount refuses", rule),
			Do: []string{"rm " + file + "   # or the line in it", "udevadm control --reload"}})
	}
	if e.s.Trim && e.s.FstabEmpty {
		e.find(Finding{Level: Note, Kind: Trimmed, What: "fstrim.timer is on and fstab names nothing: it trims every mounted filesystem, the disks of pods as well, all in one hour of the week",
			Do: []string{"systemctl disable --now fstrim.timer   # if that is not wanted"}})
	}
	for i := range e.s.Classes {
		c := &e.s.Classes[i]
		for _, h := range c.Helpers() {
			if !e.s.Programs[h.Name] {
				e.find(Finding{Level: Warning, Kind: NoHelper, Class: c.Name, Paths: []string{"/sbin/" + h.Name}, What: fmt.Sprintf("%s is missing, which class %s needs", h.Name, c.Name), Do: []string{"apt install " + h.Package}})
			}
		}
	}
	for _, why := range e.s.Blind {
		e.find(Finding{Level: Warning, Kind: Blind, What: why})
	}
	for _, p := range e.s.Pinned {
		e.find(Finding{Level: Note, Kind: Blind, Paths: []string{p}, What: fmt.Sprintf("no process is in the mount namespace %s: what is mounted in it can not be seen", disk.Visible(p)), Do: []string{fmt.Sprintf("nsenter --mount=%s findmnt", shell(p))}})
	}
}
