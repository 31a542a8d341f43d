package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// Examine judges a snapshot.
func Examine(s *Snapshot) *Report {
	e := examiner{s: s, report: &Report{Host: []HostDirectory{}, Seen: []Seen{}, Findings: []Finding{}}, rescued: map[string]bool{}}
	for i := range s.Classes {
		e.directory(&s.Classes[i])
	}
	e.mounts()
	e.sharedBack()
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
	// rescued are the copy directories already in use.
	rescued map[string]bool
}

// find adds a finding to the report. What is a format. The caller makes all foreign bytes among args visible.
func (e *examiner) find(f Finding, level Level, kind Kind, do []string, what string, args ...any) {
	f.Level, f.Kind, f.Do, f.What = level, kind, do, fmt.Sprintf(what, args...)
	f.Processes = f.Processes[:min(len(f.Processes), 10)]
	e.report.Findings = append(e.report.Findings, f)
}

// reaches reports whether a new mount on a mount of the peer group arrives at m.
func (e *examiner) reaches(group int, m *mounts.Mount) bool {
	return m.Receives(mounts.Receivers(group, func(yield func([]mounts.Mount) bool) {
		for _, v := range e.s.all() {
			if !yield(v.Mounts) {
				return
			}
		}
	}))
}

// point is a directory of a filesystem.
type point struct {
	dev disk.Dev
	dir string
}

// place is where a path ends in a view.
type place struct {
	point
	mount *mounts.Mount
	// own reports whether the path is a mount point.
	own bool
}

// deletedSuffix is what the kernel appends to the root of a mount whose directory was removed (show_mountinfo;
// seq_dentry in fs/seq_file.c).
const deletedSuffix = "//deleted"

// place returns where a path ends in a view. It returns false if that is not known or nothing is there.
func (v *View) place(p string) (place, bool) {
	s, ok := v.Sights[p]
	if !ok || s.Absent || s.Failure != "" {
		return place{}, false
	}
	for i := range v.Mounts {
		if m := &v.Mounts[i]; m.ID == s.MountID {
			rest, ok := disk.Below(s.Path, m.Path)
			return place{point{m.Dev, path.Join(m.Root, rest)}, m, rest == ""}, ok
		}
	}
	return place{}, false
}

// compare compares what the view has at a path with the host's place. It returns seesSame, seesOther, seesAbsent or
// seesUnknown. For the first two it also returns the view's place, otherwise a zero one.
func (v *View) compare(p string, host place) (string, place) {
	at, ok := v.place(p)
	switch {
	case v.Sights[p].Absent:
		return seesAbsent, at
	case !ok:
		return seesUnknown, at
	case at.point == host.point:
		return seesSame, at
	}
	return seesOther, at
}

// unknown returns why a path cannot be compared.
func (v *View) unknown(p string) string {
	return cmp.Or(v.Sights[p].Failure, "its mount is not in the mount table")
}

// hostPath returns the shortest host path of a directory of a filesystem, even if a mount hides it. It is empty if the
// host does not have the directory.
func (e *examiner) hostPath(at point) string {
	best := ""
	for i := range e.s.Host.Mounts {
		m := &e.s.Host.Mounts[i]
		if rest, ok := disk.Below(at.dir, m.Root); ok && m.Dev == at.dev {
			if p := path.Join(m.Path, rest); best == "" || len(p) < len(best) {
				best = p
			}
		}
	}
	return best
}

// system judges everything that is not about mounts.
func (e *examiner) system() {
	if e.s.Fault != "" {
		e.find(Finding{}, Warning, FaultySettings, advice("configuration"),
			"the configuration has a fault, and hotmount runs on its last good settings: only what is on record is mounted or given out, and nothing is formatted: %s", e.s.Fault)
	}
	for _, rule := range e.s.Rules {
		file := rule[:strings.LastIndexByte(rule, ':')]
		e.find(Finding{Paths: []string{rule}}, Warning, UdevRule, advice("udev-rule", "file", file),
			"the udev rule %s runs systemd-mount: it may mount the same disks, also those that hotmount refuses", rule)
	}
	if e.s.Trim && e.s.FstabEmpty {
		e.find(Finding{}, Note, Trimmed, advice("fstrim"),
			"fstrim.timer is on and fstab has no entries: it trims every mounted filesystem, also the disks of pods, all in the same hour of the week")
	}
	for i := range e.s.Classes {
		c := &e.s.Classes[i]
		programs := helpers(c)
		for _, name := range slices.Sorted(maps.Keys(programs)) {
			if !e.s.Programs[name] {
				e.find(Finding{Class: c.Name, Paths: []string{"/sbin/" + name}}, Warning, NoHelper, advice("apt", "package", programs[name]),
					"class %s needs %s, which is missing", c.Name, name)
			}
		}
	}
	for _, f := range e.s.Failed {
		e.find(Finding{}, Problem, FailedDisk, []string{f.Do}, "%s", f.What)
	}
	for _, line := range e.s.Held {
		e.find(Finding{}, Note, NewDisksHeld, nil, "%s", line)
	}
	for _, why := range e.s.Blind {
		e.find(Finding{}, Warning, Blind, nil, "%s", why)
	}
	if n := len(e.s.Unlikely); n > 0 {
		e.find(Finding{Processes: e.s.Unlikely}, Note, Blind, nil,
			"%s is named like a kubelet, but does not have a kubelet's rights on this host, so it is not taken for one (%d such)", who(&e.s.Unlikely[0]), n)
	}
	for _, p := range e.s.Pinned {
		e.find(Finding{Paths: []string{p}}, Note, Blind, advice("pinned", "path", p),
			"no process is in the mount namespace %s: its mounts cannot be seen", disk.Visible(p))
	}
}
