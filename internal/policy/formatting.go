package policy

import (
	"cmp"
	"strings"

	"hotmount/internal/disk"
)

// formattable contains the rules for a disk that may be blank. Some of these rules also apply to a disk that is to be
// given out as a block volume. Permanent refusals come before the holds, so that nobody accepts a disk that is refused
// afterwards. Only the refusal of a disk that is too small comes after the holds. hotmount must read the disk before it
// refuses the disk for its size, but hotmount does not read a held disk. hotmount shows the first hold that applies. An
// accept lifts only that hold, and other holds about the same missing filesystem (givenUp).
var formattable = []rule{{
	// The user of a block volume or the provisioner's cleaner can write zeros, so that the disk looks blank.
	reason: disk.ReasonNeverFormat, action: disk.Refuse, situations: blank, lift: byToken | withToken,
	when:      func(in input) bool { return in.f.Standing.Given != nil },
	condition: "the disk was never given out as a block volume", means: "the disk, or a disk below it, was given out as a block volume, and hotmount does not format it by itself",
	found: givenBefore,
	why: func(w *wording) string {
		return say("%s was given out as a block volume (%s), and hotmount does not format it by itself", wasGiven(w.f), givenBefore(w))
	},
	remedy: wipe,
}, {
	reason: disk.ReasonNoCreate, action: disk.Refuse, situations: blank,
	when:      func(in input) bool { return !creates(in.class, in.c) },
	condition: "the disk's class makes filesystems on blank disks", means: "no filesystem was found on the disk, and the disk's class makes no filesystems",
	found: func(w *wording) string { return "create: " + w.class.Create },
	why: func(w *wording) string {
		if w.c.Kind == disk.HalfMade {
			return say("this node began to make %s on the disk and did not finish, and class %s no longer makes filesystems of that type", visible(w.c.Type), w.d.Class)
		}
		return say("no filesystem was found on the disk, and class %s makes no filesystems", w.d.Class)
	},
	remedy: func(w *wording) string {
		if w.c.Kind != disk.HalfMade {
			return ""
		}
		return say("to let hotmount finish the format, set create: %s in the class; or ", visible(w.c.Type)) + wipe(w)
	},
}, {
	reason: disk.ReasonFormatFailed, action: disk.Refuse, situations: blank, lift: byRetry | withToken,
	when:      func(in input) bool { return failed(in.f) },
	condition: "formatting the disk has not failed before", means: "formatting the disk failed",
	found: failure,
	remedy: func(w *wording) string {
		return say("to see why: journalctl -u hotmount-format@%d; once the problem is solved: hotmount accept %s", w.f.Seq, w.f.Name)
	},
}, {
	reason: disk.ReasonUncounted, action: disk.Refuse, situations: blank,
	when:      func(in input) bool { return in.f.Uncounted },
	condition: "the kernel counts the writes to the disk",
	means:     "the kernel does not count the writes to the disk (queue/iostats), so hotmount cannot tell whether somebody writes to the disk",
	remedy: func(w *wording) string {
		return say("to let the kernel count the writes: echo 1 >/sys/block/%s/queue/iostats; systemctl reload hotmount", w.f.Name)
	},
}, {
	reason: disk.ReasonDisagree, action: disk.Refuse, situations: blank, lift: withToken,
	when:      func(in input) bool { return disagrees(in.f.Udev, in.c) },
	condition: "udev reports no signature on the disk", means: "hotmount found the disk blank, but udev reports a signature on the disk",
	found: udevKnows,
	remedy: func(w *wording) string {
		return "to make udev read the disk again: udevadm trigger -s block -y " + w.f.Name
	},
}, {
	// The corrected configuration may exclude the disk, so hotmount does not use the disk until the operator corrects
	// the configuration.
	reason: disk.ReasonSettings, action: disk.Hold, situations: raw | blank, kind: HoldOperator,
	when:      func(in input) bool { return in.s.Fault != "" && in.f.Standing.Given == nil },
	condition: "the configuration has no fault, or the disk was already given out as a block volume", means: "hotmount uses only disks that are already in its records, because the configuration has a fault",
	found:  func(w *wording) string { return w.s.Fault },
	remedy: func(*wording) string { return "to see each fault: hotmount config check" },
}, {
	reason: disk.ReasonFormatOff, action: disk.Hold, situations: blank, kind: HoldOperator,
	when:      func(in input) bool { return !in.s.Format || in.f.Standing.Formatting != "" },
	condition: "formatting is switched on",
	found: func(w *wording) string {
		why, _, _ := strings.Cut(w.f.Standing.Formatting, disk.Helps)
		return cmp.Or(disk.OneLine(why), say("format: %v in the configuration", w.s.Format))
	},
	means:  "hotmount formats no disk",
	remedy: formatOffRemedy,
}, {
	reason: disk.ReasonDisturbed, action: disk.Hold, situations: blank, lift: byAccept,
	when:      func(in input) bool { return wasDisturbed(in.f) },
	names:     func(in input) (string, string) { return in.f.Standing.Intent.UUID, "" },
	condition: "nobody else used the disk while it was formatted",
}, {
	reason: disk.ReasonPresent, action: disk.Hold, situations: raw | blank, lift: byAccept, kind: HoldPresent,
	when: func(in input) bool {
		return in.f.Standing.Present != nil && in.f.Standing.Given == nil && !in.s.FormatPresent && !in.f.Standing.Lifted(disk.ReasonPresent, "")
	},
	condition: "the disk was attached after hotmount was installed", means: "no known content was found on the disk, but the disk was attached before hotmount was installed",
	found:  func(w *wording) string { return possiblySameDisk(w.f.Standing.Present) },
	remedy: func(w *wording) string { return "to let hotmount use the disk: hotmount accept " + w.f.Name },
}, {
	reason: disk.ReasonNewMachine, action: disk.Hold, situations: raw | blank, lift: byAccept, kind: HoldPresent,
	when: func(in input) bool {
		return in.f.Standing.Arrived != nil && in.f.Standing.Given == nil && !in.s.FormatPresent && !in.f.Standing.Lifted(disk.ReasonNewMachine, "")
	},
	condition: "the disk was attached after hotmount first started with this machine-id", means: "no known content was found on the disk, and the disk was already attached when hotmount first started with the present machine-id",
	found: func(w *wording) string { return possiblySameDisk(w.f.Standing.Arrived) },
	remedy: func(w *wording) string {
		return say("to let hotmount use the disk: hotmount accept %s; for all such disks, if this is the same worker as before: hotmount state keep", w.f.Name)
	},
}, {
	reason: disk.ReasonBefore, action: disk.Hold, situations: blank, lift: byAccept, givesUp: true, kind: HoldData,
	when:      func(in input) bool { return missing(in, in.f.Standing.Before, disk.ReasonBefore) },
	names:     func(in input) (string, string) { return in.f.Standing.Before.UUID, "" },
	condition: "no filesystem was seen on the disk since it was attached", means: "the disk looks blank now, but held data at some time since it was attached",
	found:  func(w *wording) string { return sighted(w.f.Standing.Before) },
	remedy: giveUp,
}, {
	reason: disk.ReasonSameSerial, action: disk.Hold, situations: blank, lift: byAccept, givesUp: true, kind: HoldIdentity, peers: withSerial,
	when:      func(in input) bool { return sameSerial(in.f) != nil },
	names:     func(in input) (string, string) { return sameSerial(in.f).UUID, "" },
	condition: "no other disk has the same serial", means: "the disk looks blank, and another attached disk has the same serial",
	found:  func(w *wording) string { return textIf(w.f.Serial != "", serial(w.f.Serial)) },
	why:    sameSerialWhy,
	remedy: sameSerialRemedy,
}, {
	reason: disk.ReasonSameWWN, action: disk.Hold, situations: blank, lift: byAccept, givesUp: true, kind: HoldIdentity, peers: withWWN,
	when:      func(in input) bool { return sameWWN(in.f) != nil },
	names:     func(in input) (string, string) { return sameWWN(in.f).UUID, "" },
	condition: "no other disk has the same WWN", means: "the disk looks blank, and another attached disk has the same WWN: the two may be paths to one disk",
	found:  func(w *wording) string { return textIf(w.f.WWN != "", "WWN "+visible(w.f.WWN)) },
	why:    sameWWNWhy,
	remedy: func(w *wording) string { return pathOrDisk(w, sameWWN(w.f)) },
}, {
	reason: disk.ReasonFormerSerial, action: disk.Hold, situations: blank, lift: byAccept,
	when:      func(in input) bool { return missing(in, in.f.Standing.FormerSerial, disk.ReasonFormerSerial) },
	names:     func(in input) (string, string) { return in.f.Standing.FormerSerial.UUID, "" },
	condition: "no data is missing that was on a disk with the same serial or WWN",
}, {
	reason: disk.ReasonFormerSlot, action: disk.Hold, situations: blank, lift: byAccept, givesUp: true, kind: HoldData, peers: atItsSlot,
	when: func(in input) bool {
		return in.f.Moved == nil && missing(in, in.f.Standing.FormerSlot, disk.ReasonFormerSlot)
	},
	names:     func(in input) (string, string) { return in.f.Standing.FormerSlot.UUID, "" },
	condition: "no data is missing that was on a disk in the same slot before a reboot", means: "the disk looks blank, but a disk in the same slot held data before a reboot, and this data is missing now",
	found:  inItsSlot,
	remedy: giveUp,
}, {
	reason: disk.ReasonBrake, action: disk.Hold, situations: blank, lift: byAccept, kind: HoldOperator,
	recorded:  func(f *disk.Facts) bool { return f.Standing.Braked },
	when:      func(in input) bool { return braked(in) && !in.f.Standing.Lifted(disk.ReasonBrake, "") },
	condition: "fewer disks than format_limit were formatted within format_period",
	found: func(w *wording) string {
		return say("at most %d formats within %s; now: %[3]d formats in the last %[2]s", w.s.FormatLimit, w.s.FormatPeriod, recent(w.f, w.s))
	},
	means: "the limit of formats (format_limit) was already reached when hotmount found the disk",
	remedy: func(w *wording) string {
		return say("to see the formatted disks: hotmount history; to let hotmount format this disk: hotmount accept %s", w.f.Name)
	},
}, {
	// The rule for the link comes after all rules that can prevent the link.
	reason: disk.ReasonBlock, action: disk.Link, situations: raw,
	means: "the disk's class gives the disk out as a block volume",
}, {
	reason: disk.ReasonUnread, action: disk.Prove, situations: blank,
	when:  func(in input) bool { return !in.c.Proven || in.c.Kind == disk.Unread },
	means: "no known content was found on the disk, but hotmount must first prove that the disk is blank",
}, {
	// hotmount reads the disk before it refuses the disk as too small. A small disk may really be an image file of a
	// larger disk, such as a qcow2 file. In this case, somebody attached the image file as a raw disk.
	reason: disk.ReasonTooSmall, action: disk.Refuse, situations: blank,
	when:      func(in input) bool { return in.f.Size < in.class.MinimumSize },
	condition: "the disk is large enough for its class",
	found: func(w *wording) string {
		size, minimum := disk.HumanSize(w.f.Size), disk.HumanSize(w.class.MinimumSize)
		if size == minimum {
			size, minimum = disk.ExactSize(w.f.Size), disk.ExactSize(w.class.MinimumSize)
		}
		return say("%s, minimum_size: %s", size, minimum)
	},
	means:  "the disk is too small for its class",
	remedy: func(*wording) string { return "attach a larger disk" },
}, {
	reason: disk.ReasonBlank, action: disk.Format, situations: blank,
	when:  func(in input) bool { return in.c.Kind == disk.Blank && in.c.Proven },
	means: "the disk is blank",
	why:   func(w *wording) string { return w.rule.means + evidence(w.c) },
}, {
	reason: disk.ReasonIntent, action: disk.Format, situations: blank,
	when: func(in input) bool { return in.c.Kind == disk.HalfMade && in.c.Proven },
}}

func givenBefore(w *wording) string {
	g := w.f.Standing.Given
	if g == nil {
		return ""
	}
	return say("%s, first on %s", visible(g.Link), g.First.UTC().Format("2006-01-02"))
}

func usedHow(w *wording) string {
	u := w.f.Standing.Used
	if u == nil {
		return ""
	}
	return say("%s, seen %s", visible(u.How), u.Seen.UTC().Format("2006-01-02 15:04 MST"))
}

func failure(w *wording) string {
	if !failed(w.f) {
		return ""
	}
	return disk.OneLine(w.f.Standing.Verdict.Failure)
}

func udevKnows(w *wording) string {
	u := &w.f.Udev
	return say("ID_FS_TYPE=%s ID_FS_USAGE=%s ID_FS_AMBIVALENT=%s ID_PART_TABLE_TYPE=%s", visible(u.FSType), visible(u.FSUsage), visible(u.Ambivalent), visible(u.PartTable))
}

// possiblySameDisk describes the recorded disk that may be this disk, or returns "".
func possiblySameDisk(p *disk.Identity) string {
	if p == nil {
		return ""
	}
	return say("hotmount has a record of a disk that may be this disk (%s, at %s, %s, disk sequence number %d)", serial(p.Serial), slot(p.Slot), disk.HumanSize(p.Size), p.Seq)
}

func inItsSlot(w *wording) string {
	l := w.f.Standing.FormerSlot
	return textIf(l != nil, sighted(l)+" at "+slot(w.f.Slot))
}
