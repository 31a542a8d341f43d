package policy

import "hotmount/internal/disk"

// Confirmable reports whether the token of `hotmount format` may be used to overwrite the disk. One of these must be
// true: the disk is refused for its proven content c, it was a block volume, or its filesystem cannot be mounted. The
// disk must also be one that would be formatted if it were blank. A hold because the disk may belong to somebody else
// must be accepted first. The disk must not be a second path to a disk in use, because without multipathd the kernel
// does not prevent writes through the second path. If the answer is no, the returned decision shows why.
//
// The token is valid even if somebody unmounted or released the disk.
func Confirmable(f *disk.Facts, c *disk.Content, s *disk.Settings) (disk.Decision, bool) {
	d := Decide(f, c, s)
	at, r := decide(inputOf(f, c, s), byRetry)
	unmountable := at.Action == disk.Mount && f.Standing.MountFailure != ""
	if r.lift&byToken == 0 && !unmountable {
		return d, false
	}
	// The user of a block volume has made the content of the device. The record also protects the other volumes on that
	// device.
	if g := f.Standing.Given; g != nil && !g.Is(f) {
		d.Action, d.Reason = disk.Refuse, disk.ReasonNeverFormat
		return d, false
	}
	if secondPath(f) != nil {
		d.Action, d.Reason = disk.Refuse, disk.ReasonSerialTwice
		return d, false
	}
	// The token covers the content, and every hold that an accept would lift. A disk from which content has vanished
	// looks blank. A token exists for a disk that looks blank only if the disk was a block volume, and that token is
	// printed with the former content.
	in := inputOf(f, &disk.Content{Kind: disk.Blank, Proven: true}, s)
	d, _ = decide(in, byAccept|byRetry|withToken)
	return d, d.Action == disk.Format
}

// secondPath returns the disk in use to which this disk may be a second path. It returns nil if there is none. The
// serial decides. If no serial distinguishes the disks, the WWN decides, and if no WWN does, the filesystem. A disk is
// in use if Peer.InUse is set. A program that only has the disk open does not count, because hotmount does not know of
// it.
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
