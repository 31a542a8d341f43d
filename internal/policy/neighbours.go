package policy

import (
	"cmp"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// driversOf returns the names of the drivers that are the reason for a hold, separated by commas.
func driversOf(w *wording) string { return joinVisible(Drivers(w.f, w.s)) }

// Drivers returns the names of the drivers on the node that may have attached the disk, or may use the disk. The names
// may contain unescaped bytes that the drivers chose.
func Drivers(f *disk.Facts, s *disk.Settings) []string {
	var names []string
	for _, d := range f.Drivers {
		if reaches(d, f, s) {
			names = append(names, d.Name)
		}
	}
	return names
}

func csiWhy(w *wording) string {
	return say("a storage driver seen on this node (%s) may have attached this disk or may use it, so hotmount does not open the disk", driversOf(w))
}

func csiRemedy(w *wording) string {
	return say("if the disk is the node's own: hotmount accept %s; if the driver was removed, list the driver in csi_ignore (hotmount.yaml(5)); to use the disk without hotmount accept, give the disk a class with %s", w.f.Name, cmp.Or(selectorOf(w.f), "neighbours: ignore"))
}

// selectorOf returns the configuration line with which a class selects the disk by its serial, WWN or mapper name.
// selectorOf returns "" if neither the serial nor the WWN nor the mapper name of the disk is fit for a selector.
func selectorOf(f *disk.Facts) string {
	wwn := f.WWN
	if f.WorldWide() == "" {
		wwn = "" // a WWN that is not worldwide may consist of model and slot
	}
	for _, s := range [...]struct {
		key, value string
		count      func(string) int
	}{{"serial", ownSubject(f).serial(), literals}, {"wwn", wwn, wwnLiterals}, {"mapper_names", f.MapperName, literals}} {
		glob := globEscaper.Replace(s.value)
		if strings.HasPrefix(glob, Regexp) {
			glob = `\` + glob
		}
		open := strings.ContainsFunc(glob, func(r rune) bool { return r < ' ' || r > '~' })
		if !open && len(glob) <= 128 && s.count(glob) >= leastLiterals {
			return say("%s: ['%s']", s.key, strings.ReplaceAll(glob, "'", "''"))
		}
	}
	return ""
}

// globEscaper escapes the characters that have a special meaning in path.Match.
var globEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

// Neighbours returns one line for each class that holds new disks because of the drivers on the node.
func Neighbours(drivers []disk.Driver, s *disk.Settings) []string {
	var lines []string
	for i := range s.Classes {
		c := &s.Classes[i]
		if c.Neighbours == disk.NeighboursIgnore || allSpell(c.Serial, literals) || allSpell(c.WWN, wwnLiterals) || allSpell(c.MapperNames, literals) {
			continue
		}
		var names []string
		for _, d := range drivers {
			if d.Reach&reachOf(&c.Selectors) != 0 && !slices.Contains(s.CSIIgnore, d.Name) {
				names = append(names, d.Name)
			}
		}
		if len(names) > 0 {
			lines = append(lines, say("class %s holds each new disk until you run hotmount accept DISK %s: a storage driver seen on this node (%s) can attach or use such disks; "+
				"to use the node's own disks at once, select them by serial, or set neighbours: ignore", visible(c.Name), disk.ReasonCSI, joinVisible(names)))
		}
	}
	return lines
}

// allSpell reports whether there is at least one pattern, and every pattern contains leastLiterals or more literal
// characters. Such patterns usually single out each disk that they match (singledOut). The parameter `count` is the
// function `literals` or the function wwnLiterals.
func allSpell(patterns []string, count func(string) int) bool {
	return len(patterns) > 0 && !slices.ContainsFunc(patterns, func(p string) bool { return count(p) < leastLiterals })
}

// transports maps the first two letters of a disk's name to the disk's transport.
var transports = map[string]string{"vd": "virtio", "sd": "scsi", "nv": "nvme", "dm": "dm", "lo": "loop", "md": "md"}

// reachOf returns the kinds of disks that the selectors for transports and names can select.
func reachOf(s *disk.Selectors) disk.Reach {
	of := func(transport string) disk.Reach {
		return (&disk.Facts{Transport: transport, Fabric: s.Local == nil || !*s.Local}).Reach()
	}
	var all disk.Reach
	for _, t := range s.Transport {
		all |= of(t)
	}
	if all != 0 {
		return all
	}
	for _, name := range s.Names {
		kind := strings.TrimPrefix(name, Regexp)
		kind = kind[:min(2, len(kind))]
		if len(kind) == 2 && strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz") == "" {
			all |= of(transports[kind])
		} else {
			all |= disk.Local | disk.Fabric // all virtio-blk, SCSI and NVMe disks, as in nameMayMatch
		}
	}
	if all == 0 {
		all = disk.Local | disk.Fabric
	}
	return all
}
