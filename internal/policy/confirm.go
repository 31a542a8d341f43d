package policy

import "hotmount/internal/disk"

// Confirmable reports whether the token of `hotmount format` may be used to overwrite the disk. The disk must be
// refused or held by a rule with byToken, or its filesystem must have failed to mount. A half-made filesystem of a type
// that the class does not make may also be overwritten. The disk's class must be a class that would format the disk if
// the disk were blank. If the disk is held because it may belong to somebody else, the operator must accept the disk
// first. The disk must not be a second path to a disk in use. Without multipathd, the kernel does not prevent writes
// through the second path. If Confirmable reports false, the returned decision shows why.
//
// The token of `hotmount format` is valid even if somebody unmounted or released the disk.
func Confirmable(f *disk.Facts, c *disk.Content, s *disk.Settings) (disk.Decision, bool) {
	d := Decide(f, c, s)
	at, r := decide(inputOf(f, c, s), byRetry)
	unmountable := at.Action == disk.Mount && f.Standing.MountFailure != ""
	if r.lift&byToken == 0 && !unmountable && at.Reason != disk.ReasonNoCreate {
		return d, false
	}
	// The content of a block volume belongs to the user of the volume. If f is a partition of a block volume or is
	// built on one, a format would overwrite a part of the block volume.
	if g := f.Standing.Given; g != nil && !g.Is(f) {
		d.Action, d.Reason = disk.Refuse, disk.ReasonNeverFormat
		return d, false
	}
	if secondPath(f) != nil {
		d.Action, d.Reason = disk.Refuse, disk.ReasonSerialTwice
		return d, false
	}
	// The token permits hotmount to overwrite the disk's content, and lifts every hold that an accept would lift. For a
	// disk that looks blank, a token is valid only if the disk was a block volume. `hotmount format` prints the record
	// of the block volume together with the token.
	in := inputOf(f, &disk.Content{Kind: disk.Blank, Proven: true}, s)
	d, _ = decide(in, byAccept|byRetry|withToken)
	return d, d.Action == disk.Format
}

// secondPath returns the disk in use (Peer.InUse) to which this disk may be a second path, or nil. secondPath compares
// the serials. If the serials decide nothing, secondPath compares the WWNs. If the WWNs decide nothing either,
// secondPath compares the UUIDs of the filesystems. A disk that another program merely has open does not count as in
// use, because hotmount does not know which programs open disks.
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
