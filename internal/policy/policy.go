// Package policy decides what is done with a disk. The package is pure: a decision depends only on the arguments of
// Decide. Because the rules are pure, the daemon, the process that formats and `hotmount plan` agree if they have the
// same facts. The table of all rules is the variable `rules` (rules.go).
package policy

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// Decide returns what to do with one disk: the action of the first rule that applies. f are the facts of the disk, c is
// its content, and s is the configuration. Call Decide first with the content that udev knows (f.KnownContent). If the
// action is Prove, call Decide again with the result of the proof. Decide refuses every disk that no rule covers.
func Decide(f *disk.Facts, c *disk.Content, s *disk.Settings) disk.Decision {
	d, _ := decide(inputOf(f, c, s), 0)
	return d
}

// decide returns the decision of the first rule that applies, and the rule itself. The parameter `waived` is a set of
// ways to lift a rule. decide skips a rule if the set `waived` contains one of the ways to lift that rule.
func decide(in input, waived lift) (disk.Decision, *rule) {
	d := disk.Decision{}
	if in.class != nil {
		d.Class = in.class.Name
	}
	for i := range rules {
		r := &rules[i]
		if r.situations&in.situation == 0 || r.lift&waived != 0 || r.when != nil && !r.when(in) {
			continue
		}
		d.Action, d.Reason = r.action, r.reason
		if r.names != nil {
			d.UUID, d.Type = r.names(in)
		}
		return d, r
	}
	d.Action, d.Reason = disk.Refuse, disk.ReasonUnknown
	return d, &rules[len(rules)-1]
}

// The type `input` is the argument of the functions rule.when and rule.names. An input is passed by value, so that a
// decision allocates no memory (TestDecide).
type input struct {
	f *disk.Facts
	c *disk.Content
	s *disk.Settings
	// class is the class to which the disk belongs, or nil.
	class     *disk.Class
	situation situation
}

// situation is the general state of a disk. A disk is in exactly one situation. Each rule names the situations to which
// it applies.
type situation uint8

const (
	// unselected: the disk belongs to no class.
	unselected situation = 1 << iota
	// mountedInClass: the disk is mounted in the directory of its class, at a path that ends in a UUID.
	mountedInClass
	// raw: the disk's class gives disks out as block volumes.
	raw
	// filesystem: the disk holds a filesystem.
	filesystem
	// blank: the disk may be blank, or it holds a filesystem that this node began to make.
	blank
	// other: none of the situations above applies.
	other

	content  = filesystem | blank | other
	free     = raw | content
	anywhere = unselected | mountedInClass | free
)

func inputOf(f *disk.Facts, c *disk.Content, s *disk.Settings) input {
	in := input{f, c, s, Select(f, s), other}
	switch {
	case in.class == nil:
		in.situation = unselected
	case in.class.Mode == disk.ModeBlock:
		in.situation = raw
	case ownMount(f, in.class) != nil:
		in.situation = mountedInClass
	case c.Kind == disk.Filesystem:
		in.situation = filesystem
	case c.Kind == disk.Unread, c.Kind == disk.Blank, c.Kind == disk.HalfMade && begunHere(f, c):
		in.situation = blank
	}
	return in
}

// The method `accepted` reports whether an accept of the disk names the reason r and the filesystem with the UUID
// in.c.UUID.
func (in input) accepted(r disk.Reason) bool { return in.f.Standing.Lifted(r, in.c.UUID) }

// isAccepted reports whether an accept of the disk names the reason r and the filesystem that theContent returns. In
// the situation `other`, a proof may find a UUID that differs from the UUID in the accept, so isAccepted ignores the
// UUID.
func (in input) isAccepted(r disk.Reason) bool {
	uuid, _ := theContent(in)
	return in.f.Standing.Lifted(r, uuid) ||
		in.situation == other && slices.ContainsFunc(in.f.Standing.Accepted, func(w disk.Word) bool { return w.Reason == r })
}

// Intent returns the record of the disk's unfinished format, or nil if there is none or the record is for another disk.
func Intent(f *disk.Facts, c *disk.Content) *disk.Intent {
	begunOnPeer := func(p disk.Peer) bool { return begunOn(f, &p) }
	if nextInSlot(f, c) || slices.ContainsFunc(f.SameSerial, begunOnPeer) || slices.ContainsFunc(f.SameWWN, begunOnPeer) {
		return nil
	}
	return f.Standing.Intent
}

// begunOn reports whether the unfinished format in the disk's record (Standing.Intent) began on the peer in this boot.
// The record of an unfinished format can match several disks. If the format began on the peer, hotmount finishes the
// format on the peer and not on this disk.
func begunOn(f *disk.Facts, p *disk.Peer) bool {
	i := f.Standing.Intent
	return i != nil && i.Attached && i.Identity.Seq == p.Seq
}

// nextInSlot reports whether the intent is for an earlier disk in this disk's slot. The result is true only under three
// conditions. First, only the slot and the size of this disk match the intent. Second, this node made or mounted the
// filesystem on this disk. Third, the format of the intent neither makes nor overwrites this filesystem.
func nextInSlot(f *disk.Facts, c *disk.Content) bool {
	i, v := f.Standing.Intent, f.Standing.Volume
	return f.Standing.IntentBySlot && c.UUID != i.UUID && c.UUID != i.Was && (c.Made || v != nil && v.UUID == c.UUID)
}

// begunHere reports whether this node began the half-made filesystem on this disk. If several disks contain the
// half-made filesystem, hotmount formats only the disk that looks like the intent's disk (Identity.Like).
func begunHere(f *disk.Facts, c *disk.Content) bool {
	i := f.Standing.Intent
	return i != nil && c.UUID == i.UUID && !f.Standing.IntentDoubt && (len(f.SameUUID) == 0 || i.Identity.Like(f.Identity("")))
}

// ownMount returns the disk's mount in the class directory at a path that ends in a UUID, or nil. Such a path is
// reserved for the volumes of the class. ownMount returns the mount even if another program made it. hotmount can
// therefore take over the mounts of an old udev rule after the operator has removed this rule.
func ownMount(f *disk.Facts, class *disk.Class) *disk.MountPoint {
	for i := range f.Mounts {
		m := &f.Mounts[i]
		if m.Root == "/" && path.Dir(m.Path) == class.Directory && disk.ValidUUID(path.Base(m.Path)) {
			return m
		}
	}
	return nil
}

// misplacedUUID returns the UUID of the mounted filesystem if the path of the mount m ends in another UUID, or "".
// misplacedUUID checks the UUID of the mounted filesystem in the kernel, and the UUID that udev read from the disk.
func misplacedUUID(f *disk.Facts, m *disk.MountPoint) string {
	kernel := ""
	if f.Geometry != nil {
		kernel = f.Geometry.UUID
	}
	for _, uuid := range [...]string{kernel, f.Udev.FSUUID} {
		if strings.EqualFold(uuid, path.Base(m.Path)) {
			continue
		}
		if uuid = strings.ToLower(uuid); disk.ValidUUID(uuid) {
			return uuid
		}
	}
	return ""
}

// wasMounted reports whether, according to the records, the filesystem with that UUID was mounted in a class directory
// during this attachment.
func wasMounted(f *disk.Facts, uuid string) bool {
	v := f.Standing.Volume
	return !f.Standing.WasMounted.IsZero() && v != nil && v.Identity.Seq == f.Seq && v.UUID == uuid
}

// Grows reports whether to measure the filesystem of the disk. After the measurement, hotmount grows a filesystem that
// does not fill its disk, unless Facts.Fixed reports true. Grows reports false after an attempt to grow the filesystem
// at the disk's present size (Standing.Fit).
func Grows(f *disk.Facts, class *disk.Class) bool {
	return class.Grow && f.Whole == "" && !f.ReadOnly && !f.Standing.Fit.Valid(f)
}

// mayGrow reports whether the mounted filesystem can be grown. If another mount covers the mount point, mayGrow returns
// false, because the growth command would grow the covering filesystem.
func mayGrow(in input) bool {
	return Grows(in.f, in.class) && !ownMount(in.f, in.class).Covered
}

// onlyPodMountsLeft reports whether the filesystem was mounted in a class directory during this attachment, and now has
// no mounts other than kubelet's mounts for pods.
func onlyPodMountsLeft(f *disk.Facts, c *disk.Content) bool {
	return c.Kind == disk.Filesystem && wasMounted(f, c.UUID) &&
		!slices.ContainsFunc(f.Mounts, func(m disk.MountPoint) bool { return !ofPod(m.Path) })
}

// ofPod reports whether kubelet mounts volumes for pods at the path (getPodVolumeDir in pkg/kubelet/kubelet_getters.go,
// doBindSubPath in pkg/volume/util/subpath).
func ofPod(path string) bool {
	_, pod, _ := strings.Cut(path, "/pods/")
	return strings.Contains(pod, "/volumes/kubernetes.io~") || strings.Contains(pod, "/volume-subpaths/")
}

// seed reports whether the label belongs to a cloud-init data source (NoCloud or ConfigDrive) or to an ephemeral disk.
// OpenStack labels ephemeral disks as ephemeral0, ephemeral1 and so on (_create_ephemeral in
// nova/virt/libvirt/driver.py).
func seed(label string) bool {
	switch label {
	case "cidata", "CIDATA", "config-2", "CONFIG-2":
		return true
	}
	const ephemeral = "ephemeral"
	return len(label) > len(ephemeral) && strings.EqualFold(label[:len(ephemeral)], ephemeral) && strings.Trim(label[len(ephemeral):], "0123456789") == ""
}

// knownUUID returns the UUID of the filesystem that udev found on the disk, or "".
func knownUUID(f *disk.Facts) string {
	uuid := strings.ToLower(f.Udev.FSUUID)
	if !disk.ValidUUID(uuid) {
		return ""
	}
	return uuid
}

// formerClass returns the former class of the volume, or nil. The result is nil if the former class is no longer
// configured, or if its directory is class.Directory.
func formerClass(v disk.Place, s *disk.Settings, class *disk.Class) *disk.Class {
	for i := range s.Classes {
		c := &s.Classes[i]
		if c.Directory != class.Directory && v.In(c) {
			return c
		}
	}
	return nil
}

// made reports whether this node's unfinished format made the filesystem on the disk.
func made(in input) bool {
	i := Intent(in.f, in.c)
	return i != nil && i.UUID == in.c.UUID
}

// The function `replaced` reports whether the disk has an unfinished format whose UUID differs from the UUID of the
// disk's filesystem. If `over` is true, only a format by token counts. If `over` is false, only a format of a blank
// disk counts.
func replaced(in input, over bool) bool {
	i := Intent(in.f, in.c)
	return i != nil && i.UUID != in.c.UUID && i.Over == over
}

// The function `foreign` reports whether another machine seems to have made the filesystem. A filesystem is foreign if
// another machine wrote to the disk during the proof or mkfs. A filesystem is also foreign if udev saw no content on
// the disk before the proof found the filesystem. The function `foreign` ignores what udev saw if hotmount has just
// made the filesystem, or if a format of the disk is unfinished.
func foreign(in input) bool {
	v := in.f.Standing.Verdict
	return v.Valid(in.f) && v.Shared ||
		Intent(in.f, in.c) == nil && in.c.Proven && !in.c.Made && in.f.Udev.FSType == ""
}

// isVolume reports whether this node has given the disk out, or has mounted or made the filesystem on the disk.
func isVolume(in input) bool {
	if in.situation == raw {
		return in.f.Standing.Given != nil
	}
	return in.c.Kind == disk.Filesystem && onRecord(in) && !copied(in)
}

// onRecord reports whether this node has mounted or made the filesystem.
func onRecord(in input) bool {
	v := in.f.Standing.Volume
	return v != nil && v.UUID == in.c.UUID || in.c.Made
}

// wasDisturbed reports whether somebody else may have used the disk while this node formatted it, and the operator has
// not accepted this (ReasonDisturbed). A filesystem that was mounted after the disturbed format counts as accepted.
func wasDisturbed(f *disk.Facts) bool {
	i := f.Standing.Intent
	return i != nil && i.Doubt != "" && !f.Standing.OnRecord && !f.Standing.Lifted(disk.ReasonDisturbed, i.UUID)
}

// isTwin reports whether to refuse this disk because of another disk. The other disk has a filesystem with the same
// UUID, or had such a filesystem when this disk was attached.
//
// The choice between two twins must not depend on the order in which the disks are attached. If a disk is detached or
// appears late at boot, the disk's volume must not show another disk's data. If two disks have the same UUID and
// neither is mounted, hotmount mounts the disk on record (Standing.OnRecord). If neither of the two disks is on record,
// hotmount mounts the disk whose size has changed since its last mount (Standing.Resized).
//
// A disk that was refused for a duplicate UUID stays refused until the operator accepts the disk. hotmount also refuses
// every disk that may be the refused disk, such as a disk with the same serial in another slot. While another disk with
// the same UUID is attached, an earlier refusal does not affect a disk in the slot of its last mount.
//
// If no other attached disk has the same UUID, isTwin also checks the last mount of this disk's filesystem. If the last
// mount was from another disk, that other disk must have been detached before this disk was attached.
func isTwin(f *disk.Facts) bool {
	if len(f.SameUUID) == 0 {
		return f.Standing.Twin || replaces(f)
	}
	for i := range f.SameUUID {
		// If two disks have the same serial, the slot shows which of them is on record.
		if p := &f.SameUUID[i]; p.Mounted != "" || p.OnRecord && (p.InSameSlot || !f.Standing.InSameSlot) || p.Resized && !f.Standing.OnRecord {
			return true
		}
	}
	return f.Standing.Twin && !f.Standing.InSameSlot || !f.Standing.OnRecord && !f.Standing.Resized
}

// The function `replaces` reports whether the filesystem was last seen on another disk. The result is true only if
// hotmount did not see that disk's removal before this disk was attached. If the operator has accepted this disk, the
// result is false.
func replaces(f *disk.Facts) bool {
	l := f.Standing.LastOn
	return l != nil && (!l.Left || f.Standing.Beside) && !f.Standing.Lifted(disk.ReasonTwin, l.UUID)
}

// stillMissing reports whether the content l is missing. stillMissing returns false if the operator has given the
// content up, or has accepted the disk for the reason r.
func stillMissing(f *disk.Facts, l *disk.Sighting, r disk.Reason) bool {
	return l != nil && !givenUp(&f.Standing, l.UUID) && !f.Standing.Lifted(r, l.UUID)
}

// givenUp reports whether the operator has given up the filesystem with that UUID. An accept gives up the filesystem
// that the accept names, if givesUp is true in the rule for the accept's reason.
func givenUp(st *disk.Standing, uuid string) bool {
	for _, w := range st.Accepted {
		if uuid != "" && w.UUID == uuid && ruleOf(w.Reason).givesUp {
			return true
		}
	}
	return false
}

// The function `missing` reports whether the content l of a disk is missing (stillMissing) when hotmount is to format the
// disk. The result is false for content that the operator gave up before an unfinished format began.
func missing(in input, l *disk.Sighting, r disk.Reason) bool {
	return stillMissing(in.f, l, r) && !givenUpBeforeFormat(in.c, l)
}

// givenUpBeforeFormat reports whether the operator gave up the missing content before the disk's unfinished format
// began. Earlier accepts and tokens are no longer valid after a reboot or a crash. In this case, only the half-made
// filesystem of that format shows that the operator gave up the content. If the missing content is the half-made
// filesystem itself, its format was once complete, and the storage has since returned to an older state. The operator
// did not give up a filesystem that the storage has restored in this way.
func givenUpBeforeFormat(c *disk.Content, l *disk.Sighting) bool {
	return c.Kind == disk.HalfMade && l.UUID != c.UUID
}

// The function `failed` reports whether an earlier proof or format of the disk failed and must not be tried again.
func failed(f *disk.Facts) bool {
	v := f.Standing.Verdict
	return v.Valid(f) && v.Failure != "" && !v.Retry
}

// disagrees reports whether udev found content on a disk on which hotmount found nothing or an unfinished filesystem.
// On an unfinished filesystem, disagrees ignores the type `xfs` from udev, because udev does not see that the filesystem
// is unfinished.
func disagrees(u disk.Udev, c *disk.Content) bool {
	if c.Kind == disk.HalfMade && u.FSType == "xfs" && u.FSUsage == "filesystem" {
		u.FSType, u.FSUsage = "", ""
	}
	return u.FSType != "" || u.FSUsage != "" || u.Ambivalent != "" || u.PartTable != ""
}

// sameSerial returns the disk that has the same serial as a blank disk, or nil.
func sameSerial(f *disk.Facts) *disk.Peer {
	return sameDisk(f, f.SameSerial, disk.ReasonSameSerial)
}

// sameWWN returns a disk with the same WWN as a blank disk, or nil. The blank disk may be a second path to that disk.
func sameWWN(f *disk.Facts) *disk.Peer { return sameDisk(f, f.SameWWN, disk.ReasonSameWWN) }

// sameDisk returns a peer that may be the same disk as a blank disk, or nil. sameDisk considers only a peer that was
// attached earlier, holds content, is in use, or is the disk on which the unfinished format began. sameDisk ignores a
// peer if an accept of the blank disk names the reason r and the peer's filesystem. If both disks are blank, hotmount
// therefore uses the disk that was attached first.
func sameDisk(f *disk.Facts, peers []disk.Peer, r disk.Reason) *disk.Peer {
	for i := range peers {
		p := &peers[i]
		if (p.Seq < f.Seq || p.HasContent || p.UUID != "" || p.Mounted != "" || p.InUse != "" || begunOn(f, p)) && !f.Standing.Lifted(r, p.UUID) {
			return p
		}
	}
	return nil
}

// multipath returns the multipath device with the disk's WWN, or nil. The disk is a path of this device.
func multipath(f *disk.Facts) *disk.Peer {
	for i := range f.SameWWN {
		if p := &f.SameWWN[i]; p.Multipath {
			return p
		}
	}
	return nil
}

// braked reports whether the disk was found while the format limit was reached, or whether another format would now
// exceed the limit.
func braked(in input) bool {
	return in.f.Standing.Braked || recent(in.f, in.s) >= in.s.FormatLimit
}

// recent returns the number of other disks on which a format began within the last FormatPeriod. The function `recent`
// also counts a format whose recorded time is in the future, because such a time shows that the clock was set back.
func recent(f *disk.Facts, s *disk.Settings) int {
	n := 0
	for _, age := range f.Standing.Formats {
		if age < s.FormatPeriod {
			n++
		}
	}
	return n
}

// The function `creates` reports whether the class makes filesystems. If the disk contains a half-made filesystem, the
// class must make filesystems of that type.
func creates(class *disk.Class, c *disk.Content) bool {
	if c.Kind == disk.HalfMade && class.Create != cmp.Or(c.Type, disk.XFS) {
		return false
	}
	return class.Create == disk.XFS || class.Create == disk.Ext4
}

// theMounted returns the UUID and the type of the disk's filesystem that is mounted in the directory of the class.
func theMounted(in input) (uuid, fstype string) {
	return mountedUUID(in), ownMount(in.f, in.class).Type
}

func mountedUUID(in input) string { return path.Base(ownMount(in.f, in.class).Path) }
