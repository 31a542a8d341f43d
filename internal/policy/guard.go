package policy

import (
	"slices"

	"hotmount/internal/disk"
)

// mayBeCSI reports whether the disk may belong to a storage driver on the node, and nothing shows that the disk belongs
// to hotmount (ADR 0012).
func mayBeCSI(in input) bool {
	return mayBelongToDriver(in) && !ofThisNode(in) && !singledOut(in) && !in.isAccepted(disk.ReasonCSI)
}

// mayBelongToDriver reports whether a storage driver on the node may have attached the disk or may use the disk.
func mayBelongToDriver(in input) bool {
	return slices.ContainsFunc(in.f.Drivers, func(d disk.Driver) bool { return reaches(d, in.f, in.s) })
}

// reaches reports whether the driver can attach or use disks of this kind, and is not listed in the setting csi_ignore.
func reaches(d disk.Driver, f *disk.Facts, s *disk.Settings) bool {
	return d.Reach&f.Reach() != 0 && !slices.Contains(s.CSIIgnore, d.Name)
}

// ofThisNode reports whether this node has given the disk out, has mounted its filesystem, or has made or begun to make
// its filesystem. ofThisNode ignores records that may belong to another disk.
func ofThisNode(in input) bool {
	switch {
	case in.situation == raw:
		return in.f.Standing.Given != nil
	case copied(in):
		return false
	}
	i, st := Intent(in.f, in.c), &in.f.Standing
	return onRecord(in) || st.Made || i != nil && !st.IntentDoubt && (!st.IntentBySlot || i.UUID == in.c.UUID)
}

// copied reports whether the filesystem is a copy: the records show the filesystem on a disk with another serial or
// WWN.
func copied(in input) bool {
	l := in.f.Standing.LastOn
	return l != nil && l.UUID == in.c.UUID && l.Identity.Other(in.f.Identity(""))
}

// singledOut reports whether the class shows that the disk belongs to the node itself. A disk is singled out if its
// class has the setting `neighbours: ignore`. A disk is also singled out if a pattern contains enough literal
// characters of the disk's serial, WWN or mapper name. singledOut ignores slot and model, because a disk of another
// owner may have the same slot or model.
func singledOut(in input) bool {
	s, a := &in.class.Selectors, ownSubject(in.f)
	return in.class.Neighbours == disk.NeighboursIgnore ||
		matchesLiterally(s, s.Serial, a.serial(), literals) || matchesLiterally(s, s.Serial, a.ControllerSerial(a.serial()), literals) ||
		in.f.WorldWide() != "" && matchesLiterally(s, s.WWN, a.WWN, wwnLiterals) || matchesLiterally(s, s.MapperNames, a.MapperName, literals)
}

// matchesLiterally reports whether one of the patterns matches the value and contains at least leastLiterals literal
// characters. The parameter `count` is the function `literals` or the function wwnLiterals.
func matchesLiterally(s *disk.Selectors, patterns []string, value string, count func(string) int) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return count(p) >= leastLiterals && pattern(s, p, value) })
}
