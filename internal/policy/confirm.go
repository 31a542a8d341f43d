package policy

import "hotmount/internal/disk"

// Confirmable says whether the operator's word may have the disk overwritten: it
// is refused for what is on it, c by proof, would be formatted if it were
// blank, and is not known as a second path to a disk in use, where multipathd does not run: the
// kernel keeps nobody from writing there. If not, the decision that is given is why.
func Confirmable(f *disk.Facts, c *disk.Content, s *disk.Settings) (disk.Decision, bool) {
	d := Decide(f, c, s)
	switch d.Reason {
	case disk.ReasonOther, disk.ReasonUnknown, disk.ReasonHalfMade, disk.ReasonType, disk.ReasonTwin, disk.ReasonPartitions, disk.ReasonOverwrite,
		disk.ReasonTorn, disk.ReasonNoCreate: // half made, of a type that the class has given up
	case disk.ReasonDisturbed:
		if c.Kind != disk.Filesystem {
			return d, false // what is lost is not on it
		}
	default:
		return d, false
	}
	if secondPath(f) != nil {
		d.Action, d.Reason = disk.Refuse, disk.ReasonSerialTwice
		return d, false
	}
	g := *f
	g.Partitions, g.SameUUID = nil, nil
	g.Udev.FSType, g.Udev.FSUsage, g.Udev.Ambivalent, g.Udev.PartTable = "", "", "", ""
	g.Standing.Intent, g.Standing.IntentBySlot, g.Standing.Verdict = nil, false, nil
	// This word is for all that could be accepted beside what is on the disk. What lay on it
	// before has vanished only if it looks blank, and that is not for this word.
	g.SameSerial, g.Unseen = nil, ""
	g.Standing.Present, g.Standing.Before, g.Standing.FormerSerial, g.Standing.FormerSlot = nil, nil, nil, nil
	g.Standing.Braked, g.Standing.Formats = false, nil
	d = Decide(&g, &disk.Content{Kind: disk.Blank, Proven: true}, s)
	return d, d.Action == disk.Format
}

// secondPath gives the disk in use to which this one may be another path: it has its serial, or
// where no serial tells them to be two its WWN, or the same filesystem if no WWN tells it either.
// Use is Peer.InUse: who has merely opened the disk is not known.
func secondPath(f *disk.Facts) *disk.Peer {
	for _, same := range [][]disk.Peer{f.SameSerial, f.SameWWN, f.SameUUID} {
		for i := range same {
			if p := &same[i]; p.InUse != "" && (disk.SameSerial(p.Serial, f.Serial) || p.MayBe(f)) {
				return p
			}
		}
	}
	return nil
}
