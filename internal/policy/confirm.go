package policy

import "hotmount/internal/disk"

// Confirmable reports whether the operator's token may have the disk overwritten: the disk
// is refused for what is on it (c, by proof) and would be formatted if it were blank. It
// must not be a second path to a disk in use either: where multipathd does not run, the
// kernel keeps nobody from writing there. If the answer is no, the decision is why.
func Confirmable(f *disk.Facts, c *disk.Content, s *disk.Settings) (disk.Decision, bool) {
	d, r := decide(inputOf(f, c, s), nothing)
	if r.lift&byToken == 0 {
		return d, false
	}
	if secondPath(f) != nil {
		d.Action, d.Reason = disk.Refuse, disk.ReasonSerialTwice
		return d, false
	}
	// The token is for all that could be accepted beside what is on the disk. What lay on it
	// before has vanished only if the disk looks blank, and the token is not for that.
	in := inputOf(f, &disk.Content{Kind: disk.Blank, Proven: true}, s)
	d, _ = decide(in, byAccept|withToken)
	return d, d.Action == disk.Format
}

// secondPath returns the disk in use to which this one may be another path, nil if there
// is none: it has its serial, or where no serial tells them apart its WWN, or the same
// filesystem if no WWN tells them apart either. Use is Peer.InUse: whether a program has
// merely opened the disk is not known.
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
