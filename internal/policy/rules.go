package policy

import (
	"cmp"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// rule is one row of the table of rules: an action for a disk, and the reason for the action.
type rule struct {
	reason disk.Reason
	action disk.Action
	// situations contains the situations to which the rule applies.
	situations situation
	// when(in) reports whether the rule applies. The field `when` is nil for a rule that applies to every disk in the
	// rule's situations.
	when func(input) bool
	// names(in) returns the filesystem for Decision.UUID and Decision.Type. The field `names` is nil for a decision
	// without a filesystem.
	names func(input) (uuid, fstype string)
	// lift is the set of ways in which the operator can lift the rule.
	lift lift
	// givesUp reports whether an accept for this reason gives up the filesystem that the decision names. After the
	// operator gives up a filesystem, other rules do not treat the filesystem as missing.
	givesUp bool
	// kind is the kind of the hold, or empty for a rule that does not hold a disk.
	kind Hold
	// recorded reports whether the reason is already on record for the disk. The record keeps a hold or a refusal in
	// force after its cause has ended. The field `recorded` is nil for a reason that needs no such record.
	recorded func(*disk.Facts) bool
	// peers returns the other disks on which the rule depends. The field `peers` is nil for a rule about one disk only.
	peers func(*disk.Facts) []disk.Peer
	// priority is the priority of the journal entry (syslog(3)), or 0 for the default priority of the action.
	priority int

	// condition is a text for `hotmount explain`. The text states what must be true so that the rule permits a format
	// or a link. The text is empty if `hotmount explain` does not list the rule as a condition.
	condition string
	// The field `means` is the general explanation of the reason, as in the manual page. found(w) returns the details
	// on which the decision is based, such as the names of partitions. The message joins the explanation and the
	// details, unless why(w) returns another message. remedy(w) returns the step that helps the operator. The functions
	// `found`, `why` and `remedy` escape bytes from outside hotmount. Each of these functions may be nil or return "".
	// If several rules have the same reason, only one of them has the texts and the other fields about the reason.
	means              string
	found, why, remedy func(*wording) string
}

// lift is a set of ways in which the operator can lift a rule.
type lift uint8

const (
	// byAccept: `hotmount accept` lifts the rule, for this reason and the filesystem that the decision names.
	byAccept lift = 1 << iota
	// byRetry: `hotmount accept` only makes hotmount try the disk again.
	byRetry
	// byToken: the token of `hotmount format` can lift the rule.
	byToken
	// withToken: a token that lifts another rule (byToken) also lifts this rule.
	withToken
)

// Hold is the kind of a hold, which shows what the operator has to consider.
type Hold string

// The kinds of holds.
const (
	HoldPresent  Hold = "pre-existing"
	HoldData     Hold = "previous data"
	HoldIdentity Hold = "unclear identity"
	HoldUser     Hold = "another user"
	HoldOperator Hold = "operator"
)

// The variable `rules` contains all rules, in the order in which hotmount checks them. The functions of the rules call
// Decide, and Decide reads the variable `rules`. A declaration of rules with an initial value would therefore be an
// initialisation cycle, so the function `init` sets the variable.
var rules []rule

func init() {
	rules = slices.Concat(selection, othersUse, readiness, mounting, giving, unfinished, mountable, formattable, unknown)
}

// ruleOf returns the rule that contains the texts for the reason, or an empty rule.
func ruleOf(r disk.Reason) *rule {
	for i := range rules {
		if rules[i].reason == r && rules[i].means != "" {
			return &rules[i]
		}
	}
	return &rule{}
}

// HoldOf returns the kind of a hold, or "" if the decision is not a hold.
func HoldOf(d disk.Decision) Hold {
	if d.Action != disk.Hold {
		return ""
	}
	return ruleOf(d.Reason).kind
}

// Word returns what `hotmount accept` lifts: the reason for the hold, and the filesystem that the decision names. The
// result is empty if `hotmount accept` only makes hotmount try again, or does not help. A disk with a duplicate UUID
// can be accepted only after the other disk is gone.
func Word(f *disk.Facts, d disk.Decision) disk.Word {
	if ruleOf(d.Reason).lift&byAccept == 0 || d.Reason == disk.ReasonTwin && len(f.SameUUID) > 0 {
		return disk.Word{}
	}
	return disk.Word{Reason: d.Reason, UUID: d.UUID}
}

// Unrecorded reports whether hotmount must still record the reason. The record keeps a hold or a refusal in force after
// its cause has ended.
func Unrecorded(f *disk.Facts, r disk.Reason) bool {
	recorded := ruleOf(r).recorded
	return recorded != nil && !recorded(f)
}

// Peers returns the other disks that the reason concerns. The second result is true if a change of any other disk can
// change the decision.
func Peers(f *disk.Facts, r disk.Reason) (peers []disk.Peer, looks bool) {
	if p := ruleOf(r).peers; p != nil {
		return p(f), true
	}
	return nil, false
}

// Priority returns the journal priority of a decision (syslog(3)).
func Priority(d disk.Decision) int {
	const warning, info, debug = 4, 6, 7
	if p := ruleOf(d.Reason).priority; p != 0 {
		return p
	}
	switch d.Action {
	case disk.Refuse, disk.Hold:
		return warning
	case disk.Ignore, disk.Wait:
		return debug
	}
	return info
}

// Priorities (syslog(3)) for rules that do not use the default priority of their action.
const (
	asError   = 3
	asWarning = 4
	asInfo    = 6
	asDebug   = 7
)

func withSerial(f *disk.Facts) []disk.Peer { return f.SameSerial }

func withWWN(f *disk.Facts) []disk.Peer { return f.SameWWN }

func withUUID(f *disk.Facts) []disk.Peer { return f.SameUUID }

// atItsSlot returns no peers. For a rule with atItsSlot, the second result of Peers is still true, because the missing
// content may reappear on any disk.
func atItsSlot(*disk.Facts) []disk.Peer { return nil }

func theFilesystem(in input) (uuid, fstype string) { return in.c.UUID, in.c.Type }

// theContent returns the filesystem on the disk. If the disk may be blank, the results are empty, even if the disk
// holds a filesystem that this node began to make. Conditions also uses the situation `blank` for other content.
func theContent(in input) (uuid, fstype string) {
	if in.situation == blank && in.c.Kind != disk.Filesystem {
		return "", ""
	}
	return theFilesystem(in)
}

// selection contains the rules for a disk that belongs to no class.
var selection = []rule{{
	reason: disk.ReasonSystem, action: disk.Ignore, situations: anywhere,
	when:      func(in input) bool { return in.f.System != "" },
	condition: "the disk carries nothing of the running system", means: "the disk carries the system",
	found: func(w *wording) string { return textIf(w.f.System != "", w.f.System+" is on the disk") },
}, {
	reason: disk.ReasonExcluded, action: disk.Ignore, situations: unselected,
	when:  func(in input) bool { return excluded(in.f, in.s) >= 0 },
	means: "the configuration excludes the disk",
	found: func(w *wording) string { return say("exclude[%d]", excluded(w.f, w.s)) },
}, {
	reason: disk.ReasonWhole, action: disk.Ignore, situations: unselected,
	when:  func(in input) bool { return in.f.Whole != "" && selectsOther(in) },
	means: "the disk is a partition, and another class selects the whole disk",
	why: func(w *wording) string {
		class, _ := first(w.f, w.s)
		return say("the disk is a partition of %s, and class %s, which comes earlier, selects the whole disk", visible(w.f.Whole), visible(class.Name))
	},
}, {
	reason: disk.ReasonPartitioned, action: disk.Ignore, situations: unselected,
	when:  selectsOther,
	means: "a class selects the disk's partitions instead of the disk",
	found: func(w *wording) string { return joinVisible(w.f.Partitions) },
}, {
	reason: disk.ReasonUnselected, action: disk.Ignore, situations: unselected, priority: asInfo,
	when:   func(in input) bool { return usable(in.f, in.c) && !mayBelongToDriver(in) },
	means:  "no class selects the disk, and nothing uses it",
	remedy: classToAdd,
}, {
	reason: disk.ReasonNoClass, action: disk.Ignore, situations: unselected,
	means: "no class selects the disk",
}}

// othersUse contains the rules for a disk that something other than hotmount uses. hotmount permits other software to
// use a disk that is given out as a block volume.
var othersUse = []rule{{
	reason: disk.ReasonGivenOut, action: disk.Keep, situations: raw,
	when:  func(in input) bool { return in.class.Links(in.f, in.f.Standing.Link) },
	means: "the disk is given out as a block volume",
	found: func(w *wording) string { return visible(w.f.Standing.Link) },
}, {
	// hotmount refuses the disk and does not ignore it, because hotmount logs no warning for an ignored disk. Pods may
	// need the volume, which the operator has not released.
	reason: disk.ReasonInUse, action: disk.Refuse, situations: filesystem, names: theFilesystem,
	when:  func(in input) bool { return in.f.Standing.Unmounted != disk.ReasonReleased && volumeInUse(in) },
	means: "hotmount does not mount this volume of the node, because something else uses the disk",
	found: func(w *wording) string {
		return visible(cmp.Or(user(w.f), "devices built on the disk: "+strings.Join(slices.Concat(w.f.Holders, w.f.Loops), ", ")))
	},
	why: func(w *wording) string {
		if at := formerPlace(w.f); at != "" {
			return say("the disk is still mounted at %s, but its class %s has the directory %s now", visible(at), w.class.Name, w.class.Directory)
		}
		return ""
	},
	remedy: func(w *wording) string {
		if at := formerPlace(w.f); at != "" {
			return say("if nobody needs the volume at the old path: umount %[2]s; hotmount then mounts the disk in %[1]s", w.class.Directory, visible(at))
		}
		if w.f.Standing.Unmounted != "" {
			return say("once nobody else uses the disk: hotmount accept %s %s", w.f.Name, w.f.Standing.Unmounted)
		}
		return "once nothing else uses the disk, hotmount mounts it by itself; to make hotmount look at the disk at once: hotmount rescan"
	},
}, {
	reason: disk.ReasonElsewhere, action: disk.Ignore, situations: free,
	when: func(in input) bool {
		return len(in.f.Mounts) > 0 && (in.situation == raw || !onlyPodMountsLeft(in.f, in.c))
	},
	condition: "the disk is not mounted", means: "the disk is mounted elsewhere",
	found: func(w *wording) string { return firstMount(w.f) },
}, {
	reason: disk.ReasonGivenElse, action: disk.Ignore, situations: free,
	when:      func(in input) bool { return in.f.Standing.Link != "" && !givenOut(in) },
	condition: "the disk is not given out as a block volume", means: "another class gave out the disk, or a disk below it, as a block volume",
	found: func(w *wording) string { return visible(w.f.Standing.Link) },
	why: func(w *wording) string {
		return wasGiven(w.f) + " is given out as a block volume at " + visible(w.f.Standing.Link)
	},
	remedy: givenElseRemedy,
}, {
	reason: disk.ReasonSwap, action: disk.Ignore, situations: free,
	when:      func(in input) bool { return in.f.Swap },
	condition: "the disk is not in use as swap space", means: "the disk is in use as swap space",
}, {
	// The udev property for multipath is not sufficient, because multipathd informs udev only of the paths that
	// multipathd uses.
	reason: disk.ReasonMultipath, action: disk.Ignore, situations: free, peers: withWWN,
	when:      func(in input) bool { return in.f.Udev.Multipath || multipath(in.f) != nil },
	condition: "the disk is not a path of a multipath device", means: "the disk is a path of a multipath device",
	found: func(w *wording) string {
		if p := multipath(w.f); p != nil {
			return say("%s has the disk's WWN %s", p.Name, visible(w.f.WWN))
		}
		return ""
	},
	remedy: func(*wording) string {
		return "to keep multipathd off the disk: list the disk in the section blacklist of a file in /etc/multipath/conf.d, then: systemctl reload multipathd"
	},
}, {
	reason: disk.ReasonNotReady, action: disk.Ignore, situations: free,
	when:      func(in input) bool { return in.f.Udev.NotReady },
	condition: "no udev rule marks the disk as not ready", means: "a udev rule marks the disk as not ready (SYSTEMD_READY=0)",
}, {
	reason: disk.ReasonHeld, action: disk.Ignore, situations: free,
	when: func(in input) bool {
		return len(in.f.Holders) > 0 || len(in.f.Loops) > 0 && (in.situation != raw || in.f.Standing.Given == nil)
	},
	condition: "no other device is built on the disk", means: "another device is built on the disk: device mapper, md, bcache or a loop device",
	found: func(w *wording) string { return joinVisible(slices.Concat(w.f.Holders, w.f.Loops)) },
	why: func(w *wording) string {
		if len(w.f.Holders) == 0 {
			return w.f.ThroughLoop()
		}
		return "the disk is in use by " + joinVisible(w.f.Holders)
	},
	remedy: func(w *wording) string {
		if len(w.f.Holders) > 0 {
			return ""
		}
		return say("to see what uses the loop device: losetup -l /dev/%[1]s; lsblk /dev/%[1]s; once nothing uses the loop device: losetup -d /dev/%[1]s; hotmount rescan", w.f.Loops[0])
	},
}, {
	reason: disk.ReasonBound, action: disk.Ignore, situations: free,
	when:      func(in input) bool { return len(in.f.Bound) > 0 && (in.situation != raw || in.f.Standing.Given == nil) },
	condition: "the disk's device file is not bind-mounted", means: "the disk's device file is bind-mounted, as kubelet does for a pod or a virtual machine",
	found: func(w *wording) string { return joinVisible(w.f.Bound) },
}, {
	reason: disk.ReasonClaimed, action: disk.Ignore, situations: free,
	when:      func(in input) bool { return in.f.Claim != "" && (in.situation != raw || in.f.Standing.Given == nil) },
	condition: "neither the system's configuration nor a link in a class directory claims the disk", means: "the system's configuration or a link in a class directory claims the disk",
	found:  func(w *wording) string { return visible(w.f.Claim) },
	remedy: claimedRemedy,
}, {
	reason: disk.ReasonSeed, action: disk.Ignore, situations: free,
	when:      func(in input) bool { return seed(in.f.Udev.FSLabel) && !onRecord(in) },
	condition: "the disk is neither a cloud-init seed nor a cloud's ephemeral disk", means: "the disk has the label of a cloud-init seed or of a cloud's ephemeral disk",
	found: func(w *wording) string { return visible(w.f.Udev.FSLabel) },
}}

// readiness contains the rules that come before the rules about the content of the disk.
var readiness = []rule{{
	reason: disk.ReasonLost, action: disk.Refuse, situations: free, priority: asError,
	when:      func(in input) bool { return in.f.Lost() != nil },
	condition: "every disk below this device is attached", means: "a disk below this device is gone: reads and writes fail until the device is set up again",
	found: func(w *wording) string { return goneDiskBelow(w.f) },
	why: func(w *wording) string {
		return say("a disk below this device is gone (%s): reads and writes fail until the device is set up again", goneDiskBelow(w.f))
	},
	remedy: lostRemedy,
}, {
	reason: disk.ReasonUdev, action: disk.Wait, situations: free | mountedInClass,
	// The kernel reuses device numbers. systemd may begin a mount for one disk, and then mount a later disk that has
	// got the same device number.
	when: func(in input) bool {
		return !in.f.Udev.Initialized && (in.situation != mountedInClass || !wasMounted(in.f, mountedUUID(in)))
	},
	condition: "udev has finished with the disk", means: "udev has not finished with the disk",
	why:    udevWhy,
	remedy: func(w *wording) string { return "if udev does not finish: udevadm trigger -c change " + w.f.Node() },
}, {
	reason: disk.ReasonSize, action: disk.Refuse, situations: free,
	when:      func(in input) bool { return in.f.Size == 0 },
	condition: "the kernel reports a size for the disk", means: "the kernel reports a size of 0 bytes for the disk",
}, {
	// The following holds are for a disk that somebody else may use. These holds precede each rule that orders a proof,
	// or advises the operator to overwrite the disk. A proof would prevent a driver from opening the disk.
	reason: disk.ReasonUsed, action: disk.Hold, situations: free, names: theContent, lift: byAccept, kind: HoldUser,
	when: func(in input) bool {
		return in.f.Standing.Used != nil && !isVolume(in) && !in.isAccepted(disk.ReasonUsed)
	},
	condition: "hotmount saw no other user of the disk on this node", means: "the disk is not a hotmount volume, and somebody else on this node used the disk",
	found:  usedHow,
	remedy: func(w *wording) string { return "if nobody else needs the disk: hotmount accept " + w.f.Name },
}, {
	reason: disk.ReasonUnseen, action: disk.Hold, situations: free, names: theContent, lift: byAccept, kind: HoldUser,
	when:      func(in input) bool { return in.f.Unseen != "" && !isVolume(in) && !in.isAccepted(disk.ReasonUnseen) },
	condition: "hotmount can read every file that may claim the disk", means: "a unit file, libvirt domain or class directory that hotmount cannot read may claim the disk",
	found: func(w *wording) string { return visible(w.f.Unseen) },
	remedy: func(w *wording) string {
		return say("if nothing in %s names this disk: hotmount accept %s", visible(w.f.Unseen), w.f.Name)
	},
}, {
	reason: disk.ReasonCSI, action: disk.Hold, situations: free, names: theContent, lift: byAccept, kind: HoldUser,
	when:      mayBeCSI,
	condition: "no storage driver can attach or use such a disk, or the disk's class or a record shows that the disk is the node's own", means: "a Kubernetes storage driver seen on this node may have attached this disk or may use it, so hotmount does not open the disk",
	found:  driversOf,
	why:    csiWhy,
	remedy: csiRemedy,
}, {
	reason: disk.ReasonPartitions, action: disk.Refuse, situations: content, lift: byToken | withToken,
	when:      func(in input) bool { return len(in.f.Partitions) > 0 },
	condition: "the disk has no partitions", means: "the disk has partitions",
	found:  func(w *wording) string { return joinVisible(w.f.Partitions) },
	remedy: wipe,
}, {
	reason: disk.ReasonReadOnly, action: disk.Refuse, situations: free,
	when:      func(in input) bool { return in.f.ReadOnly },
	condition: "the kernel accepts writes to the disk", means: "the kernel refuses writes to the disk",
	remedy: func(*wording) string { return "attach the disk writable" },
}, {
	reason: disk.ReasonNoSerial, action: disk.Refuse, situations: raw,
	when:      func(in input) bool { return in.f.Nameless() },
	condition: "the disk has a serial that is short enough for the name of a volume", means: "hotmount names a block volume after the disk's serial, but the disk has no serial, or the serial is too long",
	why: func(w *wording) string {
		if w.f.Transport == "loop" {
			return "hotmount names a block volume after the disk's serial, but a loop device has no serial"
		}
		return w.rule.means
	},
	remedy: func(w *wording) string {
		if w.f.Transport == "loop" {
			return "select the disk in a class with mode: filesystem"
		}
		return "attach the disk with a serial (virsh attach-disk --serial)"
	},
}, {
	reason: disk.ReasonSerialTwice, action: disk.Refuse, situations: raw,
	recorded:  func(f *disk.Facts) bool { return f.Standing.Given == nil || f.Standing.Given.Twice },
	peers:     withSerial,
	when:      func(in input) bool { return len(in.f.SameSerial) > 0 },
	condition: "no other disk has the same serial",
	means:     "another attached disk has the same serial, so hotmount cannot tell the two block volumes apart",
	why:       serialTwiceWhy,
	remedy:    serialTwiceRemedy,
}, {
	reason: disk.ReasonReleased, action: disk.Hold, situations: free, lift: byRetry, kind: HoldOperator,
	when:      func(in input) bool { return in.f.Standing.Unmounted == disk.ReasonReleased },
	condition: "nobody has released the disk", means: "somebody ran hotmount release for the disk",
	remedy: func(w *wording) string {
		return say("to see whether the disk is safe to detach: hotmount release %s; to use the disk again on this node: hotmount accept %[1]s", w.f.Name)
	},
}, {
	reason: disk.ReasonUnmounted, action: disk.Hold, situations: free, lift: byRetry, kind: HoldOperator,
	when:      func(in input) bool { return in.f.Standing.Unmounted != "" },
	condition: "nobody has unmounted the disk by hand", means: "somebody unmounted the disk by hand",
	remedy: func(w *wording) string { return "to let hotmount mount the disk again: hotmount accept " + w.f.Name },
}}

// mounting contains the rules for a disk that is mounted in the directory of its class.
var mounting = []rule{{
	reason: disk.ReasonMisplaced, action: disk.Refuse, situations: mountedInClass,
	when:  func(in input) bool { return misplacedUUID(in.f, ownMount(in.f, in.class)) != "" },
	means: "the disk is mounted where another filesystem belongs: pods that use that path have the wrong data",
	why: func(w *wording) string {
		m := ownMount(w.f, w.class)
		return say("the disk holds %s, and is mounted at %s, where another filesystem belongs: pods that use that path have the wrong data", misplacedUUID(w.f, m), visible(m.Path))
	},
	remedy: misplacedRemedy,
}, {
	// The rule for a lost disk comes before the rule for a fault, because a lost disk causes a fault.
	reason: disk.ReasonLost, action: disk.Keep, situations: mountedInClass, names: theMounted,
	when: func(in input) bool { return in.f.Lost() != nil },
}, {
	// The rule for a shrunk disk comes before the rule for a fault, because a shrunk disk may cause a fault.
	reason: disk.ReasonShrunk, action: disk.Keep, situations: mountedInClass, names: theMounted, priority: asError,
	when:   func(in input) bool { g := in.f.Spans(); return g != nil && g.Size > in.f.Size },
	means:  "the disk has become smaller than its filesystem",
	why:    shrunkWhy,
	remedy: shrunkRemedy,
}, {
	reason: disk.ReasonFault, action: disk.Keep, situations: mountedInClass, names: theMounted, priority: asError,
	when:  func(in input) bool { return in.f.Fault != "" },
	means: "the disk is mounted, and its filesystem has a fault (see journalctl -k)",
	found: func(w *wording) string { return w.f.Fault },
	remedy: func(w *wording) string {
		return say("stop the pods that use the disk, then: hotmount release %s; %s", w.f.Name, Check(w.f, w.d.Type))
	},
}, {
	reason: disk.ReasonCovered, action: disk.Keep, situations: mountedInClass, names: theMounted, priority: asError,
	when:  func(in input) bool { return coveredBy(in.f, in.class) != "" },
	means: "the disk is mounted, and another mount covers it: the disk's data is safe, but pods that start now see the other mount",
	found: func(w *wording) string { return visible(coveredBy(w.f, w.class)) },
	remedy: func(w *wording) string {
		return "if nothing needs the covering mount: umount " + visible(coveredBy(w.f, w.class)) + "; otherwise mount the covering filesystem at another path"
	},
}, {
	reason: disk.ReasonUnmeasured, action: disk.Grow, situations: mountedInClass, names: theMounted, priority: asDebug,
	when:  func(in input) bool { return mayGrow(in) && in.f.Spans() == nil },
	means: "the disk is mounted, and hotmount does not know yet whether its filesystem fills the disk",
}, {
	reason: disk.ReasonSmaller, action: disk.Grow, situations: mountedInClass, names: theMounted,
	when: func(in input) bool {
		return mayGrow(in) && !in.f.Fixed() && in.f.Spans().Usable(in.f.Size) > in.f.Spans().Size
	},
	means: "the disk is mounted, and its filesystem can be grown to fill the disk",
	found: func(w *wording) string {
		return say("the filesystem has %s, and the disk has %s", disk.ExactSize(w.f.Spans().Size), disk.ExactSize(w.f.Size))
	},
}, {
	reason: disk.ReasonNotGrown, action: disk.Keep, situations: mountedInClass, names: theMounted, priority: asWarning,
	when:   func(in input) bool { v := in.f.Standing.Fit; return v.Valid(in.f) && v.Failure != "" },
	means:  "the disk is mounted, and its filesystem could not be grown to fill the disk",
	found:  func(w *wording) string { return disk.OneLine(w.f.Standing.Fit.Failure) },
	remedy: notGrownRemedy,
}, {
	reason: disk.ReasonMounted, action: disk.Keep, situations: mountedInClass, names: theMounted,
	means: "the disk is mounted",
	why:   mountedWhy,
}}

// coveredBy returns the path of the mount that covers the disk's mount in the class directory, or "".
func coveredBy(f *disk.Facts, class *disk.Class) string { return ownMount(f, class).CoveredBy }

func givenOut(in input) bool {
	return in.situation == raw && in.class.Links(in.f, in.f.Standing.Link)
}

// selectsOther reports whether a class selects a partition of the disk, or the disk of the partition.
func selectsOther(in input) bool {
	_, other := first(in.f, in.s)
	return other
}
