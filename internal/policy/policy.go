// Package policy decides what is done with a disk. It is pure: the answer depends only on the arguments. So the daemon,
// the process that formats and `hotmount plan` always agree. The rules are one table (rules.go).
package policy

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// Decide returns what to do with one disk: the action of the first rule that applies. f are the disk's facts, c is its
// content, s the configuration. Call it first with the content that udev knows (f.Known). If the answer is Prove, call
// it again with the result of the proof. Decide refuses anything that no rule covers.
func Decide(f *disk.Facts, c *disk.Content, s *disk.Settings) disk.Decision {
	d, _ := decide(inputOf(f, c, s), 0)
	return d
}

// decide returns the decision of the first rule that applies, and that rule. It skips rules that one of the waived
// lifts covers.
func decide(in input, waived lift) (disk.Decision, *rule) {
	d := disk.Decision{}
	if in.class != nil {
		d.Class = in.class.Name
	}
	for i := range rules {
		r := &rules[i]
		if r.on&in.at == 0 || r.lift&waived != 0 || r.when != nil && !r.when(in) {
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

// input is what a rule looks at. Rules take it as a value, so that a decision allocates nothing (TestDecide).
type input struct {
	f *disk.Facts
	c *disk.Content
	s *disk.Settings
	// class has the disk, nil if none does.
	class *disk.Class
	at    situation
}

// situation is the state of a disk in general. A disk is in exactly one, a rule applies to one or more.
type situation uint8

const (
	// No class has the disk.
	unselected situation = 1 << iota
	// The disk is mounted where its class mounts it.
	inPlace
	// The disk's class gives disks out as block volumes.
	raw
	// The disk holds a filesystem.
	filesystem
	// The disk may be blank, or holds what this node began to make.
	blank
	// The disk holds anything else.
	other

	content  = filesystem | blank | other
	free     = raw | content
	anywhere = unselected | inPlace | free
)

func inputOf(f *disk.Facts, c *disk.Content, s *disk.Settings) input {
	in := input{f, c, s, Select(f, s), other}
	switch {
	case in.class == nil:
		in.at = unselected
	case in.class.Mode == disk.ModeBlock:
		in.at = raw
	case ours(f, in.class) != nil:
		in.at = inPlace
	case c.Kind == disk.Filesystem:
		in.at = filesystem
	case c.Kind == disk.Unread, c.Kind == disk.Blank, c.Kind == disk.HalfMade && begun(f, c):
		in.at = blank
	}
	return in
}

// accepted reports whether the operator has accepted the disk for that reason, with the filesystem that is now on it.
func (in input) accepted(r disk.Reason) bool { return in.f.Standing.Lifted(r, in.c.UUID) }

// spared reports whether the operator has accepted that the disk may be somebody else's. On a disk that is refused for
// what it holds, an accept with any content counts: what a proof finds may have another UUID.
func (in input) spared(r disk.Reason) bool {
	uuid, _ := theContent(in)
	return in.f.Standing.Lifted(r, uuid) ||
		in.at == other && slices.ContainsFunc(in.f.Standing.Accepted, func(w disk.Word) bool { return w.Reason == r })
}

// Intent returns the unfinished format that concerns the disk with this content, nil if there is none.
func Intent(f *disk.Facts, c *disk.Content) *disk.Intent {
	on := func(p disk.Peer) bool { return begunOn(f, &p) }
	if nextInSlot(f, c) || slices.ContainsFunc(f.SameSerial, on) || slices.ContainsFunc(f.SameWWN, on) {
		return nil
	}
	return f.Standing.Intent
}

// begunOn reports whether the disk's unfinished format began on the peer, which is attached. The peer finishes it.
func begunOn(f *disk.Facts, p *disk.Peer) bool {
	i := f.Standing.Intent
	return i != nil && i.Identity.Seq == p.Seq
}

// nextInSlot reports whether the intent is recognised only by its slot and is another disk's. That is so if this disk
// holds a filesystem that this node has made or mounted before, and that was not to be overwritten.
func nextInSlot(f *disk.Facts, c *disk.Content) bool {
	i, v := f.Standing.Intent, f.Standing.Volume
	return f.Standing.IntentBySlot && c.UUID != i.UUID && c.UUID != i.Was && (c.Made || v != nil && v.UUID == c.UUID)
}

// begun reports whether this node began the half-made filesystem on this disk. If another disk has the same filesystem,
// this one must match the intent's serial or slot. Otherwise both would be made.
func begun(f *disk.Facts, c *disk.Content) bool {
	i := f.Standing.Intent
	return i != nil && c.UUID == i.UUID && !f.Standing.IntentDoubt && (len(f.SameUUID) == 0 || i.Identity.Like(f.Identity("")))
}

// ours returns the disk's mount at a place that only the class uses, nil if there is none. It does not matter who made
// the mount: a node that used the udev rule is taken over in place.
func ours(f *disk.Facts, class *disk.Class) *disk.MountPoint {
	for i := range f.Mounts {
		m := &f.Mounts[i]
		if m.Root == "/" && path.Dir(m.Path) == class.Directory && disk.ValidUUID(path.Base(m.Path)) {
			return m
		}
	}
	return nil
}

// misplaced returns the UUID of a filesystem that is mounted in another's place, empty if there is none. It checks both
// the UUID that the kernel mounted and the one that udev read from the disk.
func misplaced(f *disk.Facts, m *disk.MountPoint) string {
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

// wasMounted reports whether the filesystem of that UUID was mounted in its place from this attachment, as far as is on
// record.
func wasMounted(f *disk.Facts, uuid string) bool {
	v := f.Standing.Volume
	return !f.Standing.WasMounted.IsZero() && v != nil && v.Identity.Seq == f.Seq && v.UUID == uuid
}

// Grows reports whether the disk's filesystem is to be measured, and grown unless it is Fixed: this was not yet tried at
// the disk's present size.
func Grows(f *disk.Facts, class *disk.Class) bool {
	return class.Grow && f.Whole == "" && !f.ReadOnly && !f.Standing.Fit.Valid(f)
}

// mayGrow reports whether the mounted filesystem can be grown. At a covered mount point the growth would reach the
// mount above it.
func mayGrow(in input) bool {
	return Grows(in.f, in.class) && !ours(in.f, in.class).Covered
}

// onlyPodMountsLeft reports whether the filesystem was mounted in its place during this attachment, and kubelet's
// mounts for pods are all that is left.
func onlyPodMountsLeft(f *disk.Facts, c *disk.Content) bool {
	return c.Kind == disk.Filesystem && wasMounted(f, c.UUID) &&
		!slices.ContainsFunc(f.Mounts, func(m disk.MountPoint) bool { return !ofPod(m.Path) })
}

// ofPod reports whether kubelet mounts volumes for pods at the path: GetPodVolumeDir in pkg/kubelet/kubelet_getters.go,
// and doBindSubPath in pkg/volume/util/subpath.
func ofPod(path string) bool {
	_, pod, _ := strings.Cut(path, "/pods/")
	return strings.Contains(pod, "/volumes/kubernetes.io~") || strings.Contains(pod, "/volume-subpaths/")
}

// seed reports whether the label is one of cloud-init's data sources NoCloud and ConfigDrive, or that of an ephemeral
// disk: OpenStack names them ephemeral0 and so on (_create_ephemeral in nova/virt/libvirt/driver.py).
func seed(label string) bool {
	switch label {
	case "cidata", "CIDATA", "config-2", "CONFIG-2":
		return true
	}
	const ephemeral = "ephemeral"
	return len(label) > len(ephemeral) && strings.EqualFold(label[:len(ephemeral)], ephemeral) && strings.Trim(label[len(ephemeral):], "0123456789") == ""
}

// knownUUID returns the UUID of the filesystem that udev knows on the disk, empty for none.
func knownUUID(f *disk.Facts) string {
	uuid := strings.ToLower(f.Udev.FSUUID)
	if !disk.ValidUUID(uuid) {
		return ""
	}
	return uuid
}

// formerly returns the class to which the volume belonged, if it still exists and has another directory than class.
// Otherwise it returns nil.
func formerly(v disk.Place, s *disk.Settings, class *disk.Class) *disk.Class {
	for i := range s.Classes {
		c := &s.Classes[i]
		if c.Directory != class.Directory && v.In(c) {
			return c
		}
	}
	return nil
}

// made reports whether this node's unfinished format made the filesystem that is on the disk.
func made(in input) bool {
	i := Intent(in.f, in.c)
	return i != nil && i.UUID == in.c.UUID
}

// replaced reports whether a format is unfinished and the disk holds another filesystem than the one it makes. over
// selects formats by token, otherwise those of blank disks.
func replaced(in input, over bool) bool {
	i := Intent(in.f, in.c)
	return i != nil && i.UUID != in.c.UUID && i.Over == over
}

// foreign reports whether another machine made the filesystem. Either it appeared while this node proved the disk
// blank, or udev saw a blank disk and this node has not written since.
func foreign(in input) bool {
	v := in.f.Standing.Verdict
	return v.Valid(in.f) && v.Shared ||
		Intent(in.f, in.c) == nil && in.c.Proven && !in.c.Made && in.f.Udev.FSType == ""
}

// isVolume reports whether this node has given the disk out, or has mounted or made the filesystem on this disk.
func isVolume(in input) bool {
	if in.at == raw {
		return in.f.Standing.Given != nil
	}
	return in.at == filesystem && onRecord(in) && !copied(in)
}

// onRecord reports whether this node has mounted or made the filesystem.
func onRecord(in input) bool {
	v := in.f.Standing.Volume
	return v != nil && v.UUID == in.c.UUID || in.c.Made
}

// disturbed reports whether another process used the disk after it was formatted, and the operator has not accepted
// that. A filesystem that was mounted since was accepted.
func disturbed(f *disk.Facts) bool {
	i := f.Standing.Intent
	return i != nil && i.Doubt != "" && !f.Standing.OnRecord && !f.Standing.Lifted(disk.ReasonDisturbed, i.UUID)
}

// twin reports whether this disk is to be refused because another disk has the filesystem's UUID, or had it when this
// one came.
//
// The choice must not depend on which disk comes first: no volume may show another disk's data because a disk left, or
// was slower at boot. The disk on record is mounted. If there is none, the disk that was resized while the machine was
// off is mounted.
//
// A refused disk stays refused until the operator accepts it. So does a lone disk with its serial, which may be the
// same disk in another slot. So does a disk that replaces one that was not seen leaving.
func twin(f *disk.Facts) bool {
	if len(f.SameUUID) == 0 {
		return f.Standing.Twin || replaces(f)
	}
	for i := range f.SameUUID {
		// With two disks of one serial, the slot tells which is on record.
		if p := &f.SameUUID[i]; p.Mounted != "" || p.OnRecord && (p.InPlace || !f.Standing.InPlace) || p.Resized && !f.Standing.OnRecord {
			return true
		}
	}
	return f.Standing.Twin && !f.Standing.InPlace || !f.Standing.OnRecord && !f.Standing.Resized
}

// replaces reports whether the filesystem was last seen on another disk, which the operator has not accepted. A disk
// that left before this one came is no obstacle.
func replaces(f *disk.Facts) bool {
	l := f.Standing.LastOn
	return l != nil && (!l.Left || f.Standing.Beside) && !f.Standing.Lifted(disk.ReasonTwin, l.UUID)
}

// stillMissing reports whether the content l is missing. It is not if the operator has given it up, or has accepted the
// disk for that reason.
func stillMissing(f *disk.Facts, l *disk.Sighting, r disk.Reason) bool {
	return l != nil && !givenUp(&f.Standing, l.UUID) && !f.Standing.Lifted(r, l.UUID)
}

// givenUp reports whether the operator has accepted the loss of this filesystem, under any reason that named it.
func givenUp(st *disk.Standing, uuid string) bool {
	for _, w := range st.Accepted {
		if uuid != "" && w.UUID == uuid && ruleOf(w.Reason).givesUp {
			return true
		}
	}
	return false
}

// missing is stillMissing for a disk that is to be formatted.
func missing(in input, l *disk.Sighting, r disk.Reason) bool {
	return stillMissing(in.f, l, r) && !givenUpBeforeFormat(in.c, l)
}

// givenUpBeforeFormat reports whether the operator gave up the missing content before the format that left the
// half-made filesystem: neither accept nor token outlasts a reboot or crash. It is false if the half-made filesystem
// itself was mounted since, because the storage then shows an old state.
func givenUpBeforeFormat(c *disk.Content, l *disk.Sighting) bool {
	return c.Kind == disk.HalfMade && l.UUID != c.UUID
}

// failed reports whether an earlier format of the disk failed for good.
func failed(f *disk.Facts) bool {
	v := f.Standing.Verdict
	return v.Valid(f) && v.Failure != "" && !v.Retry
}

// disagrees reports whether udev names something on a disk that was read as blank or as an unfinished XFS. Udev takes
// an unfinished XFS for a whole one, so that alone is no disagreement.
func disagrees(u disk.Udev, c *disk.Content) bool {
	if c.Kind == disk.HalfMade && u.FSType == "xfs" && u.FSUsage == "filesystem" {
		u.FSType, u.FSUsage = "", ""
	}
	return u.FSType != "" || u.FSUsage != "" || u.Ambivalent != "" || u.PartTable != ""
}

// sameSerial returns the disk whose serial a blank disk repeats, nil if there is none.
func sameSerial(f *disk.Facts) *disk.Peer {
	return sameDisk(f, f.SameSerial, disk.ReasonSameSerial)
}

// sameWWN returns the disk to which a blank disk may be a second path by its WWN, nil if there is none.
func sameWWN(f *disk.Facts) *disk.Peer { return sameDisk(f, f.SameWWN, disk.ReasonSameWWN) }

// sameDisk returns the peer that a blank disk may be: one that came earlier, holds something, is in use or is being
// formatted. It returns nil if there is none or it was accepted. Of two blank disks the first is used.
func sameDisk(f *disk.Facts, peers []disk.Peer, r disk.Reason) *disk.Peer {
	for i := range peers {
		p := &peers[i]
		if (p.Seq < f.Seq || p.Known || p.UUID != "" || p.Mounted != "" || p.InUse != "" || begunOn(f, p)) && !f.Standing.Lifted(r, p.UUID) {
			return p
		}
	}
	return nil
}

// multipath returns the multipath device that the disk is a path of by its WWN, nil if there is none.
func multipath(f *disk.Facts) *disk.Peer {
	for i := range f.SameWWN {
		if p := &f.SameWWN[i]; p.Multipath {
			return p
		}
	}
	return nil
}

// braked reports whether the disk was found while the format limit was reached, or would exceed it now.
func braked(in input) bool {
	return in.f.Standing.Braked || recent(in.f, in.s) >= in.s.FormatLimit
}

// recent returns how many other disks were formatted within FormatPeriod. A format in the future counts: a clock was
// set back.
func recent(f *disk.Facts, s *disk.Settings) int {
	n := 0
	for _, age := range f.Standing.Formats {
		if age < s.FormatPeriod {
			n++
		}
	}
	return n
}

// creates reports whether the class makes filesystems. For a half-made filesystem the class must make that type.
func creates(class *disk.Class, c *disk.Content) bool {
	if c.Kind == disk.HalfMade && class.Create != cmp.Or(c.Type, disk.XFS) {
		return false
	}
	return class.Create == disk.XFS || class.Create == disk.Ext4
}

// theMounted returns the filesystem that is mounted in its place.
func theMounted(in input) (uuid, fstype string) {
	return mountedUUID(in), ours(in.f, in.class).Type
}

func mountedUUID(in input) string { return path.Base(ours(in.f, in.class).Path) }
