package doctor

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// directory judges one class directory and every mount in it.
func (e *examiner) directory(c *disk.Class) {
	host := &e.s.Host
	at, ok := host.place(c.Directory)
	if !ok {
		sight := host.Sights[c.Directory]
		hidden := host.mountsIn(c.Directory)
		if sight.Absent && len(hidden) > 0 {
			e.find(Finding{Level: Problem, Kind: Covered, Class: c.Name, Paths: hidden, What: fmt.Sprintf("%s is not there on the host, although something is mounted at %s: it is hidden by what is mounted above it", c.Directory, some(hidden)), Do: []string{"findmnt -T " + c.Directory + "   # names what hides it"}})
		} else if sight.Absent {
			e.find(Finding{Level: Note, Kind: NoDirectory, Class: c.Name, Paths: []string{c.Directory}, What: fmt.Sprintf("%s does not exist on the host", c.Directory), Do: []string{"mkdir -p " + c.Directory}})
		} else {
			e.find(Finding{Level: Warning, Kind: Blind, Class: c.Name, Paths: []string{c.Directory}, What: fmt.Sprintf("%s can not be looked at on the host: %s", c.Directory, cmp.Or(sight.Failure, "its mount is not in the mount table"))})
		}
		return
	}
	if at.mount.Shared == 0 {
		e.find(Finding{Level: Warning, Kind: NotShared, Class: c.Name, Paths: []string{at.mount.Path}, What: fmt.Sprintf("the host's mount %s, which carries %s, is not shared: what is mounted there is seen by nobody in another mount namespace", disk.Visible(at.mount.Path), c.Directory),
			Do: []string{"mount --make-rshared " + shell(at.mount.Path)}})
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
			case role == Provisioner && sees != "unknown":
				provisioners++
				if sees == "same" {
					seen++
				}
			}
		}
	}
	if kubelets == 0 {
		e.find(Finding{Level: Note, Kind: NoKubelet, Class: c.Name, What: "no kubelet runs on this node: nobody can say what it would see of " + c.Directory})
	} else if c.LoopDevices() {
		e.find(Finding{Level: Warning, Kind: LoopDevices, Class: c.Name,
			What: fmt.Sprintf("class %s selects loop devices on a node with a kubelet: they are for trying hotmount, and their files share a disk", c.Name),
			Do:   []string{"editor /etc/hotmount/config.yaml   # remove backing_file and loop* from the class", "systemctl reload hotmount"}})
	}
	if provisioners > 0 && seen == 0 {
		e.find(Finding{Level: Warning, Kind: NoDirectory, Class: c.Name, Paths: []string{c.Directory}, What: fmt.Sprintf("no provisioner on this node has %s: no volumes are made of its disks", c.Directory), Do: remedy(Provisioner, nil, c.Directory)})
	}
}

// covered finds mounts at one path of which one hides another.
func (e *examiner) covered(c *disk.Class, p string, top place, known bool) {
	for i := range e.s.Host.Mounts {
		m := &e.s.Host.Mounts[i]
		if m.Path != p || known && top.own && m.ID == top.mount.ID {
			continue
		}
		shown := disk.Visible(p)
		f := Finding{Level: Problem, Kind: Covered, Class: c.Name, Paths: []string{p}}
		over := p // where the upper one is mounted
		switch {
		case !known:
			f.Level, f.Kind = Warning, Blind
			f.What = fmt.Sprintf("%s can not be looked at on the host: %s", shown, cmp.Or(e.s.Host.Sights[p].Failure, "it is gone"))
			e.find(f)
			continue
		case !top.own:
			over = top.mount.Path
			f.What = fmt.Sprintf("%s is mounted at %s, but hidden by what is mounted at %s", describe(m), shown, disk.Visible(over))
		case top.dev == m.Dev && top.mount.Root == m.Root:
			f.Level = Warning
			f.What = fmt.Sprintf("%s is mounted twice at %s", describe(m), shown)
		default:
			f.What = fmt.Sprintf("%s is mounted at %s, but hidden by %s, which is mounted over it", describe(m), shown, describe(top.mount))
		}
		f.Do = []string{"findmnt -o TARGET,SOURCE,MAJ:MIN,PROPAGATION " + shell(over), "umount " + shell(over) + "   # takes the upper one away; end first who uses it"}
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
func (e *examiner) entries(c *disk.Class, disks map[string]place) {
	for _, entry := range e.s.Entries[c.Directory] {
		p := path.Join(c.Directory, entry.Name)
		_, mounted := disks[p]
		shown := disk.Visible(p)
		f := Finding{Class: c.Name, Paths: []string{p}, Kind: NotAMount, Level: Warning}
		switch {
		case entry.Failure != "":
			f.Kind, f.What = Blind, fmt.Sprintf("what lies in %s can not be seen: %s", shown, disk.Visible(entry.Failure))
		case mounted && entry.First != "":
			f.Level, f.Kind = Problem, DataHidden
			f.What = fmt.Sprintf("files are hidden on the system disk under the mount %s: %s", shown, disk.Visible(entry.First))
			f.Data = p
			mkdir, dir := e.rescue(entry.Name)
			f.Do = []string{
				fmt.Sprintf("unshare -m sh -c %s   # shows them", shell(fmt.Sprintf("mount --bind %s /mnt && ls -lA /mnt/%s", shell(c.Directory), shell(entry.Name)))),
				fmt.Sprintf("%s && unshare -m sh -c %s   # copies them", mkdir, shell(fmt.Sprintf("mount --bind %s /mnt && cp -a /mnt/%s/. %s/", shell(c.Directory), shell(entry.Name), dir))),
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
			f.Do = []string{"ls -lA " + shell(p), fmt.Sprintf("chattr -i %[1]s, move them away, then: chattr -i %[1]s/"+disk.Marker+"; rm -f %[1]s/"+disk.Marker+"; rmdir %[1]s", shell(p))}
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

// plain are the bytes that mean only themselves, everywhere.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-"

// shell quotes a word for a shell.
func shell(s string) string {
	if s != "" && strings.Trim(s, plain+":@+") == "" {
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
func (e *examiner) viewer(c *disk.Class, v *View, p *Process, host place, disks map[string]place) string {
	base := v.Bases[c.Directory]
	sight := v.Sights[base]
	seen := Seen{Process: *p, Namespace: v.Namespace, Class: c.Name, Directory: base, Sees: "unknown"}
	who, shown := who(p), disk.Visible(base)
	at, ok := v.place(base)
	switch {
	case sight.Absent:
		seen.Sees = "absent"
		if p.Role == Provisioner {
			break // it may be there for another class
		}
		then := "no pod that uses a disk starts"
		if p.Role == Agent {
			then = consequence(Agent)
		}
		e.find(Finding{Level: Warning, Kind: NoDirectory, Class: c.Name, Paths: []string{base}, Processes: []Process{*p},
			What: fmt.Sprintf("%s has no %s: %s", who, shown, then), Do: remedy(p.Role, p, c.Directory)})
	case !ok:
		e.find(Finding{Level: Warning, Kind: Blind, Class: c.Name, Paths: []string{base}, Processes: []Process{*p},
			What: fmt.Sprintf("what %s sees at %s can not be seen: %s", who, shown, cmp.Or(sight.Failure, "its mount is not in the mount table"))})
	case !at.is(host):
		seen.Sees = "other"
		if p.Role == Provisioner {
			break
		}
		e.find(Finding{Level: Problem, Kind: OtherDirectory, Class: c.Name, Paths: []string{base}, Processes: []Process{*p}, Data: e.hostPath(at.dev, at.dir),
			What: fmt.Sprintf("%s has another directory at %s than the host: %s of %s", who, shown, disk.Visible(at.dir), describeDevice(at.mount)), Do: remedy(p.Role, p, c.Directory)})
	default:
		seen.Sees = "same"
		seen.Arrives = v.Namespace == e.s.Host.Namespace && at.mount.ID == host.mount.ID || e.reaches(host.mount.Shared, at.mount)
		if !seen.Arrives {
			e.find(Finding{Level: Problem, Kind: NotPropagated, Class: c.Name, Paths: []string{base}, Processes: []Process{*p},
				What: fmt.Sprintf("%s does not see what is mounted in %s from now on: %s", who, shown, consequence(p.Role)), Do: remedy(p.Role, p, c.Directory)})
		}
		if p.Role == Agent && slices.Contains(strings.Split(at.mount.Options, ","), "ro") {
			e.find(Finding{Level: Problem, Kind: ReadOnly, Class: c.Name, Paths: []string{base}, Processes: []Process{*p},
				What: fmt.Sprintf("%s may not write to %s: it mounts nothing there", who, shown), Do: remedyReadOnly(c.Directory)})
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
func (e *examiner) mountsSeen(c *disk.Class, v *View, p *Process, seen *Seen, host place, disks map[string]place) {
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
