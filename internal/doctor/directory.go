package doctor

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// directory judges one class directory and every mount in it.
func (e *examiner) directory(c *disk.Class) {
	host := &e.s.Host
	at, ok := host.place(c.Directory)
	if !ok {
		e.noDirectory(c)
		return
	}
	if p := at.mount.Path; at.mount.Shared == 0 {
		e.find(Finding{Class: c.Name, Paths: []string{p}}, Warning, NotShared, []string{"mount --make-rshared " + shell(p)},
			"the host's mount %s, which carries %s, is not shared: what is mounted there is seen by nobody in another mount namespace", disk.Visible(p), c.Directory)
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
	for _, entry := range e.s.Entries[c.Directory] {
		_, mounted := disks[path.Join(c.Directory, entry.Name)]
		e.entry(c, &entry, mounted)
	}
	e.viewers(c, at, disks)
}

// noDirectory finds why the host does not have the class directory.
func (e *examiner) noDirectory(c *disk.Class) {
	f := Finding{Class: c.Name, Paths: []string{c.Directory}}
	switch hidden := e.s.Host.mountsIn(c.Directory); {
	case !e.s.Host.Sights[c.Directory].Absent:
		e.find(f, Warning, Blind, nil, "%s can not be looked at on the host: %s", c.Directory, e.s.Host.unknown(c.Directory))
	case len(hidden) > 0:
		f.Paths = hidden
		e.find(f, Problem, Covered, []string{"findmnt -T " + c.Directory + "   # names what hides it"},
			"%s is not there on the host, although something is mounted at %s: it is hidden by what is mounted above it", c.Directory, some(hidden))
	default:
		e.find(f, Note, NoDirectory, []string{"mkdir -p " + c.Directory}, "%s does not exist on the host", c.Directory)
	}
}

// covered finds mounts at one path of which one hides another.
func (e *examiner) covered(c *disk.Class, p string, top place, known bool) {
	f, shown := Finding{Class: c.Name, Paths: []string{p}}, disk.Visible(p)
	do := func(over string) []string {
		return []string{"findmnt -o TARGET,SOURCE,MAJ:MIN,PROPAGATION " + shell(over), "umount " + shell(over) + "   # takes the upper one away; end first who uses it"}
	}
	for i := range e.s.Host.Mounts {
		m := &e.s.Host.Mounts[i]
		lower := describe(m, m.Root)
		switch {
		case m.Path != p || known && top.own && m.ID == top.mount.ID:
		case !known:
			e.find(f, Warning, Blind, nil, "%s can not be looked at on the host: %s", shown, cmp.Or(e.s.Host.Sights[p].Failure, "it is gone"))
		case !top.own:
			e.find(f, Problem, Covered, do(top.mount.Path), "%s is mounted at %s, but hidden by what is mounted at %s", lower, shown, disk.Visible(top.mount.Path))
		case top.dev == m.Dev && top.mount.Root == m.Root:
			e.find(f, Warning, Covered, do(p), "%s is mounted twice at %s", lower, shown)
		default:
			e.find(f, Problem, Covered, do(p), "%s is mounted at %s, but hidden by %s, which is mounted over it", lower, shown, describe(top.mount, top.mount.Root))
		}
	}
}

// describe names a directory of a mount's filesystem.
func describe(m *mounts.Mount, dir string) string {
	name := fmt.Sprintf("%s %s (%s)", disk.Visible(m.Type), disk.Visible(m.Source), m.Dev)
	if dir != "/" {
		name = disk.Visible(dir) + " of " + name
	}
	return name
}

// entry judges what lies in the class directory itself.
func (e *examiner) entry(c *disk.Class, entry *Entry, mounted bool) {
	p := path.Join(c.Directory, entry.Name)
	f, shown := Finding{Class: c.Name, Paths: []string{p}}, disk.Visible(p)
	switch {
	case entry.Failure != "":
		e.find(f, Warning, Blind, nil, "what lies in %s can not be seen: %s", shown, disk.Visible(entry.Failure))
	case mounted && entry.First != "":
		f.Data = p
		mkdir, dir := e.rescue(entry.Name)
		e.find(f, Problem, DataHidden, []string{
			fmt.Sprintf("unshare -m sh -c %s   # shows them", shell(fmt.Sprintf("mount --bind %s /mnt && ls -lA /mnt/%s", shell(c.Directory), shell(entry.Name)))),
			fmt.Sprintf("%s && unshare -m sh -c %s   # copies them", mkdir, shell(fmt.Sprintf("mount --bind %s /mnt && cp -a /mnt/%s/. %s/", shell(c.Directory), shell(entry.Name), dir))),
		}, "files are hidden on the system disk under the mount %s: %s", shown, disk.Visible(entry.First))
	case mounted:
	case entry.Kind == "symlink" && strings.HasPrefix(entry.Target, "/dev/"): // a block volume
	case entry.Kind == "fifo":
		e.find(f, Problem, NotAMount, []string{"rm " + shell(p)}, "%s is a FIFO: the provisioner hangs on it for ever", shown)
	case entry.First != "":
		f.Data, f.Reach = p, p
		e.find(f, Problem, NotAMount, []string{"ls -lA " + shell(p), fmt.Sprintf("chattr -i %[1]s, move them away, then: chattr -i %[1]s/"+disk.Marker+"; rm -f %[1]s/"+disk.Marker+"; rmdir %[1]s", shell(p))},
			"%s is no mount but has files in it (%s): they are on the system disk", shown, disk.Visible(entry.First))
	case entry.Kind == "directory":
		e.find(f, Warning, NotAMount, []string{disk.Unmake(shell(p))}, "%s is an empty directory on which nothing is mounted: the provisioner reports it as an error", shown)
	default:
		e.find(f, Warning, NotAMount, []string{"ls -la " + shell(p)}, "%s is a %s, not a mount: the provisioner reports it as an error", shown, entry.Kind)
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
