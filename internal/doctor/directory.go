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

// The method `directory` adds the findings about one class directory and the mounts in this class directory.
func (e *examiner) directory(c *disk.Class) {
	host := &e.s.Host
	at, ok := host.place(c.Directory)
	if !ok {
		e.noDirectory(c)
		return
	}
	if p := at.mount.Path; at.mount.Shared == 0 {
		e.find(Finding{Class: c.Name, Paths: []string{p}}, Warning, NotShared, advice("make-shared", "mount", p),
			"the host's mount %s, which carries %s, is not shared: no other mount namespace sees what is mounted there", disk.Visible(p), c.Directory)
	}
	if m := at.mount; readOnly(m.Options) || readOnly(m.SuperOptions) {
		e.find(Finding{Class: c.Name, Paths: []string{m.Path}}, Problem, ReadOnly, advice("read-only", "mount", m.Path),
			"the host's mount %s, which carries %s, is read-only: hotmount cannot make mount points there", disk.Visible(m.Path), c.Directory)
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
	e.judgeViewers(c, at, disks)
}

// readOnly reports whether the options of a mount or of a superblock include ro. When the kernel finds an error in a
// filesystem, only the superblock options change to ro.
func readOnly(options string) bool { return slices.Contains(strings.Split(options, ","), "ro") }

// noDirectory adds a finding with the reason why the doctor does not see the class directory on the host.
func (e *examiner) noDirectory(c *disk.Class) {
	f := Finding{Class: c.Name, Paths: []string{c.Directory}}
	switch hidden := e.s.Host.mountsIn(c.Directory); {
	case !e.s.Host.Sights[c.Directory].Absent:
		e.find(f, Warning, NotSeen, nil, "cannot look at %s on the host: %s", c.Directory, e.s.Host.unknown(c.Directory))
	case len(hidden) > 0:
		f.Paths = hidden
		e.find(f, Problem, Covered, advice("hidden-directory", "dir", c.Directory),
			"%s does not exist on the host: a mount on a parent directory hides what is mounted at %s", c.Directory, summarizePaths(hidden))
	default:
		e.find(f, Note, NoDirectory, advice("make-directory", "dir", c.Directory), "%s does not exist on the host", c.Directory)
	}
}

// The method `covered` examines the mounts at the path p, and adds a finding for each mount that another mount hides.
// If the doctor cannot look at p, the method adds a finding with the reason.
func (e *examiner) covered(c *disk.Class, p string, top place, known bool) {
	f, shown := Finding{Class: c.Name, Paths: []string{p}}, disk.Visible(p)
	for i := range e.s.Host.Mounts {
		m := &e.s.Host.Mounts[i]
		if m.Path != p || known && top.own && m.ID == top.mount.ID {
			continue
		}
		lower := describe(m, m.Root)
		switch {
		case !known:
			e.find(f, Warning, NotSeen, nil, "cannot look at %s on the host: %s", shown, cmp.Or(e.s.Host.Sights[p].Failure, "the directory is gone"))
		case !top.own:
			e.find(f, Problem, Covered, advice("covered", "over", top.mount.Path),
				"%s is mounted at %s, but a mount at %s hides it", lower, shown, disk.Visible(top.mount.Path))
		case top.dev == m.Dev && top.mount.Root == m.Root:
			e.find(f, Warning, Covered, advice("covered", "over", p), "%s is mounted twice at %s", lower, shown)
		default:
			e.find(f, Problem, Covered, advice("covered", "over", p),
				"%s is mounted at %s, but %s is mounted over it and hides it", lower, shown, describe(top.mount, top.mount.Root))
		}
	}
}

// describe returns a text about a directory of a mounted filesystem: path, type, source and device.
func describe(m *mounts.Mount, dir string) string {
	name := fmt.Sprintf("%s %s (%s)", disk.Visible(m.Type), disk.Visible(m.Source), m.Dev)
	if dir != "/" {
		name = disk.Visible(dir) + " of " + name
	}
	return name
}

// The method `entry` adds a finding if something is wrong with an entry of a class directory.
func (e *examiner) entry(c *disk.Class, entry *Entry, mounted bool) {
	p := path.Join(c.Directory, entry.Name)
	f, shown := Finding{Class: c.Name, Paths: []string{p}}, disk.Visible(p)
	switch {
	case entry.Failure != "":
		e.find(f, Warning, NotSeen, nil, "cannot see what is in %s: %s", shown, disk.Visible(entry.Failure))
	case mounted && entry.First != "":
		f.Data = p
		e.find(f, Problem, DataHidden, advice("data-hidden", "dir", c.Directory, "name", entry.Name, "copy", e.copyDirectory(entry.Name)),
			"the mount %s hides files on the system disk: %s", shown, disk.Visible(entry.First))
	case mounted:
	case entry.Kind == "symlink" && strings.HasPrefix(entry.Target, "/dev/"): // the entry is a block volume
	case entry.Kind == "fifo":
		e.find(f, Problem, NotAMount, advice("fifo", "path", p), "%s is a FIFO: the provisioner hangs on it forever", shown)
	case entry.First != "":
		f.Data, f.Reach = p, p
		e.find(f, Problem, NotAMount, advice("not-a-mount-files", "path", p),
			"nothing is mounted at %s, but the directory has files (%s), which are on the system disk", shown, disk.Visible(entry.First))
	case entry.Kind == "directory":
		e.find(f, Warning, NotAMount, advice("not-a-mount-empty", "path", p),
			"%s is an empty directory with nothing mounted on it: the provisioner reports it as an error", shown)
	default:
		e.find(f, Warning, NotAMount, advice("not-a-mount", "path", p), "%s is a %s, not a mount: the provisioner reports it as an error", shown, entry.Kind)
	}
}
