package policy

import (
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// The table `giving` contains the rules for a disk of a class in block mode. The content of a disk that was given out
// belongs to the user of the block volume. Before a class gives out a disk, hotmount holds the disk if udev or the
// records show content.
var giving = []rule{{
	// The link of this disk may have the same name as the link by which another disk was given out.
	reason: disk.ReasonOtherBlock, action: disk.Hold, situations: raw, lift: byAccept, kind: HoldIdentity,
	when: func(in input) bool {
		g := in.f.Standing.Given
		return g != nil && !g.Same(in.f) && !in.f.Standing.Lifted(disk.ReasonOtherBlock, "")
	},
	condition: "no other disk was given out under this name",
	means:     "a disk with this serial was given out as a block volume, but this may be a different disk",
	why:       otherBlockWhy,
	remedy: func(w *wording) string {
		return "if this is the disk of the block volume, or nobody needs that volume: hotmount accept " + w.f.Name
	},
}, {
	reason: disk.ReasonOtherClass, action: disk.Hold, situations: raw, lift: byAccept, kind: HoldData,
	when:      func(in input) bool { return formerClass(in.f.Standing.Given.Place(), in.s, in.class) != nil },
	condition: "the disk is not a volume of another class", means: "the disk was a volume of another class, and its present class would show the disk's data at another path",
	why: otherClassWhy,
	remedy: func(w *wording) string {
		return say("if nobody needs the volume at the old path: hotmount accept %s; otherwise correct the selectors of the classes (hotmount explain %[1]s)", w.f.Name)
	},
}, {
	reason: disk.ReasonContent, action: disk.Hold, situations: raw, lift: byAccept, givesUp: true, kind: HoldData,
	when: func(in input) bool {
		return in.f.Standing.Given == nil && (in.f.Holds() || in.f.Standing.Noted != nil || readData(in.f)) && !in.f.Standing.Lifted(disk.ReasonContent, knownUUID(in.f))
	},
	names:     func(in input) (string, string) { return knownUUID(in.f), "" },
	condition: "no known content is on the disk, or the disk was already given out as a block volume", means: "a pod that uses the disk as a block volume would overwrite the data on the disk",
	found: func(w *wording) string {
		if w.f.Holds() {
			return held(w.f)
		}
		if readData(w.f) {
			what, id := w.f.TypeAndID(&w.f.Standing.Verdict.Content)
			return visible(strings.TrimSpace(what + " " + id))
		}
		return sighted(w.f.Standing.Noted)
	},
	remedy: func(w *wording) string { return "if nothing on the disk is needed: hotmount accept " + w.f.Name },
}, {
	reason: disk.ReasonFormerSerial, action: disk.Hold, situations: raw, lift: byAccept, givesUp: true, kind: HoldData,
	when: func(in input) bool {
		return in.f.Standing.Given == nil && stillMissing(in.f, in.f.Standing.FormerSerial, disk.ReasonFormerSerial)
	},
	names:     func(in input) (string, string) { return in.f.Standing.FormerSerial.UUID, "" },
	condition: "no data is missing that was on a disk with the same serial or WWN", means: "the disk looks blank, but a disk with the same serial or WWN held data",
	found:  func(w *wording) string { return sighted(w.f.Standing.FormerSerial) },
	remedy: giveUp,
}}

// readData reports whether two conditions are met: the last proof found data on the disk, and nothing has written to
// the disk since that proof. A class in block mode never needs a proof, so the proof must have run for another class.
// hotmount records the content from the proof only a little later (Standing.Noted). The record of the content stays
// valid after a write to the disk.
func readData(f *disk.Facts) bool {
	v := f.Standing.Verdict
	return v.Valid(f) && v.Content.Kind != "" && v.Content.Kind != disk.Blank
}

// The table `unfinished` contains the rules for unfinished formats and for partitions.
var unfinished = []rule{{
	reason: disk.ReasonPartition, action: disk.Refuse, situations: content,
	when: func(in input) bool {
		return in.f.Whole != "" && (in.situation == blank || in.situation == filesystem && in.f.Standing.Intent != nil || in.situation == other && in.c.Kind != disk.Other)
	},
	condition: "the disk is not a partition", means: "hotmount never formats partitions, and this partition has no finished filesystem",
	found: func(w *wording) string {
		return textIf(w.f.Whole != "", "the partition is on the disk "+visible(w.f.Whole))
	},
	remedy: func(w *wording) string {
		return onlyPath(w.f, say("if nothing on the partition is needed, format the partition by hand: mkfs.%s %s", byHand(w), w.f.Node()))
	},
}, {
	// hotmount must read the disk after an unfinished format, because libblkid mistakes an unfinished XFS filesystem
	// for a finished one.
	reason: disk.ReasonIntent, action: disk.Prove, situations: content,
	when:  unproven,
	means: "an earlier format of the disk did not finish",
	why: func(w *wording) string {
		if w.f.Standing.IntentBySlot {
			return "an earlier format of the disk, or of another disk in the same slot, did not finish"
		}
		return w.rule.means
	},
}}

// mountable contains the rules for a disk that holds a filesystem or other content that hotmount recognises.
var mountable = []rule{{
	reason: disk.ReasonOther, action: disk.Refuse, situations: filesystem | other, lift: byToken,
	when: func(in input) bool {
		return in.situation == filesystem && !disk.ValidUUID(in.c.UUID) || in.c.Kind == disk.Other
	},
	names: func(in input) (string, string) {
		if in.situation != filesystem {
			return "", ""
		}
		return "", in.c.Type
	},
	means:  "the disk holds something that hotmount does not mount: LVM, LUKS, RAID, swap, a partition table or another format",
	why:    func(w *wording) string { return say("the disk holds %s%s", describe(w.c), evidence(w.c)) },
	remedy: otherRemedy,
}, {
	// The filesystem that the operator ordered hotmount to overwrite is still on the disk, perhaps only in part.
	reason: disk.ReasonOverwrite, action: disk.Hold, situations: filesystem, names: theFilesystem, lift: byAccept | byToken, kind: HoldData,
	when:  func(in input) bool { return replaced(in, true) && !in.accepted(disk.ReasonOverwrite) },
	means: "an operator's format of the disk did not finish; the old filesystem is still on the disk and may be damaged",
	why:   overwriteWhy,
	remedy: func(w *wording) string {
		return say("to use the disk as it is: hotmount accept %s; ", w.f.Name) + wipe(w)
	},
}, {
	// The disk was blank when this node began to format it, but the filesystem on the disk is not from this node.
	reason: disk.ReasonShared, action: disk.Hold, situations: filesystem, names: theFilesystem, lift: byAccept, kind: HoldUser,
	when:  func(in input) bool { return replaced(in, false) && !in.accepted(disk.ReasonShared) },
	means: "the disk was blank, and now holds a filesystem that this node did not make; perhaps another machine uses or used the disk",
	why:   sharedWhy,
	remedy: func(w *wording) string {
		return "make sure that no other machine uses the disk, then: hotmount accept " + w.f.Name
	},
}, {
	reason: disk.ReasonTorn, action: disk.Refuse, situations: filesystem, names: theFilesystem, lift: byToken,
	when:  func(in input) bool { return in.c.Torn },
	means: "this node's format of the disk did not finish: the superblock is there, but parts of the filesystem are missing",
	// The message does not claim that the filesystem was never mounted, because it may have been mounted without a
	// record on this node.
	why: func(w *wording) string {
		return say("this node's format of the disk did not finish: the superblock of %s %s is there, but parts of the filesystem are missing%s", visible(w.d.Type), w.d.UUID, evidence(w.c))
	},
	remedy: func(w *wording) string { return "to check the filesystem: " + Check(w.f, w.d.Type) + "; " + wipe(w) },
}, {
	reason: disk.ReasonDisturbed, action: disk.Hold, situations: filesystem, names: theFilesystem, lift: byAccept | byToken, kind: HoldUser,
	when:  func(in input) bool { return made(in) && wasDisturbed(in.f) },
	means: "somebody else may have used the disk while this node formatted the disk; the filesystem may be damaged",
	why:   disturbedWhy,
	remedy: func(w *wording) string {
		if w.c.Kind != disk.Filesystem {
			return "make sure that nobody else uses the disk, then: hotmount accept " + w.f.Name
		}
		return say("find out who uses the disk; then, to use the disk as it is: hotmount accept %s; ", w.f.Name) + wipe(w)
	},
}, {
	reason: disk.ReasonShared, action: disk.Hold, situations: filesystem, names: theFilesystem,
	when: func(in input) bool { return foreign(in) && !in.accepted(disk.ReasonShared) },
}, {
	reason: disk.ReasonType, action: disk.Refuse, situations: filesystem, names: theFilesystem, lift: byToken,
	when:  func(in input) bool { return !slices.Contains(in.class.Accept, in.c.Type) },
	means: "the disk's class does not accept the type of its filesystem",
	found: func(w *wording) string { return visible(w.c.Type) },
	remedy: func(w *wording) string {
		if w.c.Type != disk.XFS && w.c.Type != disk.Ext4 {
			return "hotmount mounts only xfs and ext4; " + wipe(w)
		}
		return say("add %s to the list accept of the class, or detach the disk", visible(w.c.Type))
	},
}, {
	// If a disk was given out, the user of the block volume made the filesystem on the disk.
	reason: disk.ReasonFormerBlock, action: disk.Hold, situations: filesystem, names: theFilesystem, lift: byAccept | byToken, kind: HoldData,
	when:  func(in input) bool { return in.f.Standing.Given != nil && !in.accepted(disk.ReasonFormerBlock) },
	means: "the disk, or a disk below it, was given out as a block volume, and now holds a filesystem",
	why: func(w *wording) string {
		return say("%s was given out as a block volume at %s, and now holds %s %s", wasGiven(w.f), visible(w.f.Standing.Given.Link), visible(w.d.Type), w.d.UUID)
	},
	remedy: func(w *wording) string { return "if nobody needs the block volume: hotmount accept " + w.f.Name },
}, {
	reason: disk.ReasonShrunk, action: disk.Refuse, situations: filesystem, names: theFilesystem,
	when: func(in input) bool { return in.c.Span > in.f.Size },
}, {
	reason: disk.ReasonTwin, action: disk.Refuse, situations: filesystem, names: theFilesystem, lift: byAccept | byToken, peers: withUUID,
	recorded: func(f *disk.Facts) bool { return f.Standing.Twin },
	when:     func(in input) bool { return isTwin(in.f) },
	means:    "another disk has or had the same filesystem UUID, so this disk's data would appear in the volume of the other disk",
	why:      twinWhy,
	remedy:   twinRemedy,
}, {
	// If a new class mounted the volume of another class, the volume's user would no longer find the data. Somebody
	// else would see the data.
	reason: disk.ReasonOtherClass, action: disk.Hold, situations: filesystem, names: theFilesystem,
	when: func(in input) bool { return formerClass(in.f.Standing.Volume.Place(), in.s, in.class) != nil },
}, {
	// If hotmount mounted a filesystem that this node does not know, another user of the filesystem could lose data. A
	// PersistentVolumeClaim could also bind to a volume with foreign data.
	reason: disk.ReasonNotAdopted, action: disk.Hold, situations: filesystem, names: theFilesystem, lift: byAccept | byToken, kind: HoldData,
	when: func(in input) bool {
		return in.class.Adopt == disk.AdoptKnown && !onRecord(in) && !in.f.Standing.Made && !in.accepted(disk.ReasonNotAdopted)
	},
	means: "this node neither made nor mounted the disk's filesystem before, and the disk's class mounts only known filesystems (adopt: known)",
	why: func(w *wording) string {
		return say("the disk holds %s %s, which this node neither made nor mounted before, and class %s mounts only known filesystems (adopt: known)", visible(w.d.Type), w.d.UUID, visible(w.d.Class))
	},
	remedy: func(w *wording) string {
		return say("if the filesystem belongs here: hotmount accept %s; ", w.f.Name) + wipe(w)
	},
}, {
	reason: disk.ReasonSettings, action: disk.Hold, situations: filesystem, names: theFilesystem,
	when: func(in input) bool { return in.s.Fault != "" && !onRecord(in) },
}, {
	reason: disk.ReasonFilesystem, action: disk.Mount, situations: filesystem, names: theFilesystem,
	means: "the disk holds a filesystem that its class accepts",
	why:   filesystemWhy,
}}

// The table `unknown` contains the rules for content that hotmount does not recognise, and for a half-made filesystem
// that this node does not finish.
var unknown = []rule{{
	reason: disk.ReasonHalfMade, action: disk.Refuse, situations: other, lift: byToken,
	when:   func(in input) bool { return in.c.Kind == disk.HalfMade },
	means:  "a format of the disk did not finish, and this node has no record of that format",
	why:    halfMadeWhy,
	remedy: wipe,
}, {
	reason: disk.ReasonUnknown, action: disk.Refuse, situations: other, lift: byToken,
	means:  "hotmount does not recognise the disk's content",
	why:    unknownWhy,
	remedy: wipe,
}}

// unproven reports whether a format of the disk is unfinished and the content of the disk is not proven yet.
func unproven(in input) bool {
	return in.f.Whole == "" && Intent(in.f, in.c) != nil && !in.c.Proven
}
