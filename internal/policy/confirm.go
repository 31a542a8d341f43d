package policy

import "hotmount/internal/disk"

// Confirmable reports whether the operator's token may have the disk overwritten. The disk must be refused for its
// proven content c, or as a former block volume, or hold a filesystem that cannot be mounted, and would be formatted if
// it were blank. What holds it as somebody else's has to be accepted before. It must not be a second path to a disk in
// use: without multipathd the kernel prevents nobody from writing there. If the answer is no, the decision is the reason.
//
// That somebody unmounted the disk, or released it, is no obstacle.
func Confirmable(f *disk.Facts, c *disk.Content, s *disk.Settings) (disk.Decision, bool) {
	d := Decide(f, c, s)
	at, r := decide(inputOf(f, c, s), byRetry)
	unmountable := at.Action == disk.Mount && f.Standing.MountFailure != ""
	if r.lift&byToken == 0 && !unmountable {
		return d, false
	}
	// The user of a block volume has made what lies on it. The record protects the other volumes there as well.
	if g := f.Standing.Given; g != nil && !g.Is(f) {
		d.Action, d.Reason = disk.Refuse, disk.ReasonNeverFormat
		return d, false
	}
	if secondPath(f) != nil {
		d.Action, d.Reason = disk.Refuse, disk.ReasonSerialTwice
		return d, false
	}
	// The token covers every hold that an accept would lift, besides the content. Content vanishes only from a disk that
	// looks blank. A token is for such a disk only if it was a block volume, and the token is printed with its former content.
	in := inputOf(f, &disk.Content{Kind: disk.Blank, Proven: true}, s)
	d, _ = decide(in, byAccept|byRetry|withToken)
	return d, d.Action == disk.Format
}

// secondPath returns the disk in use to which this one may be another path, nil if there is none. The serial decides.
// If no serial distinguishes them the WWN decides, and if no WWN does, the filesystem. In use means Peer.InUse:
// hotmount does not know whether a program merely has the disk open.
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
