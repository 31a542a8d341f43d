package doctor

import (
	"cmp"
	"path"
	"slices"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// Examine judges a snapshot, and returns the report.
func Examine(s *Snapshot) *Report {
	e := examiner{s: s, report: &Report{Host: []HostDirectory{}, Seen: []Seen{}, Findings: Findings{}}, rescued: map[string]bool{}}
	for i := range s.Classes {
		e.directory(&s.Classes[i])
	}
	e.mounts()
	e.sharedBack()
	e.report.Findings = append(e.report.Findings, s.Found...)
	levels := []Level{Problem, Warning, Note}
	slices.SortStableFunc(e.report.Findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(levels, a.Level), slices.Index(levels, b.Level))
	})
	return e.report
}

type examiner struct {
	s      *Snapshot
	report *Report
	// rescued are the directories that earlier findings propose for copies of data.
	rescued map[string]bool
}

func (e *examiner) find(f Finding, level Level, kind Kind, do []string, what string, args ...any) {
	e.report.Findings.Add(f, level, kind, do, what, args...)
}

// receivers returns the peer groups to which a new mount propagates, if the new mount is made on a mount of the given
// group.
func (e *examiner) receivers(group int) map[int]bool {
	var tables [][]mounts.Mount
	for _, v := range e.s.allViews() {
		tables = append(tables, v.Mounts)
	}
	return mounts.Receivers(group, tables)
}

// point is a directory of a filesystem.
type point struct {
	dev disk.Dev
	dir string
}

// place is the directory and the mount at which a path ends in a view.
type place struct {
	point
	mount *mounts.Mount
	// The field `own` reports whether the path is a mount point.
	own bool
}

// deletedSuffix is the text that the kernel appends in mountinfo to the root of a mount whose directory was removed
// (show_mountinfo; seq_dentry in fs/seq_file.c).
const deletedSuffix = "//deleted"

// place resolves a path in a view, and returns the place to which the path leads. The second result is false if the
// path does not exist, or if the doctor does not know what is at the path.
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

// compare examines whether a path leads to the same place in the view and on the host. The first result is seesSame,
// seesOther, seesAbsent or seesUnknown. For seesSame and seesOther, the second result is the place in the view. For
// seesAbsent and seesUnknown, the second result has no meaning.
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

// unknown returns the reason why the doctor does not know where a path ends in the view.
func (v *View) unknown(p string) string {
	return cmp.Or(v.Sights[p].Failure, "the mount at this path is not in the mount table")
}

// hostPath returns the shortest host path of a directory of a filesystem, even if a mount hides the directory.
// hostPath returns "" if the host does not have the directory.
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
