// Package policy decides what is done with a disk. It is pure: the answer depends on
// nothing but the arguments. So the daemon, the process that formats and `hotmount
// plan` cannot come to different answers. The rules are one table (rules.go).
package policy

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// Decide returns what is to be done with one disk: the action of the first rule that
// holds. f is what is known of the disk, c what is on it, s the configuration. Call it
// with what udev knows of the content first (f.Known). Where the answer is Prove, call it
// again with what the proof found. Anything not foreseen here is refused.
func Decide(f *disk.Facts, c *disk.Content, s *disk.Settings) disk.Decision {
	d, _ := decide(inputOf(f, c, s), 0)
	return d
}

// decide returns the decision by the first rule that holds, and that rule. It passes over
// rules that one of the waived lifts.
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

// input is what a rule looks at. Rules take it as a value, so that a decision allocates
// nothing (TestDecide).
type input struct {
	f *disk.Facts
	c *disk.Content
	s *disk.Settings
	// class has the disk, nil if none does.
	class *disk.Class
	at    situation
}

// situation is where a disk stands. A disk is in one of them, a rule is about some of them.
type situation uint8

const (
	// No class has the disk.
	unselected situation = 1 << iota
	// It is mounted where its class mounts it.
	inPlace
	// Its class gives disks out as block volumes.
	raw
	// It holds a filesystem.
	filesystem
	// It may be blank, or holds what this node began to make.
	blank
	// It holds anything else.
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

// accepted reports whether the operator has accepted the disk for that reason, with the
// filesystem that is on it.
func (in input) accepted(r disk.Reason) bool { return in.f.Standing.Lifted(r, in.c.UUID) }

// Intent returns the unfinished format that concerns the disk with that content, nil if
// there is none.
func Intent(f *disk.Facts, c *disk.Content) *disk.Intent {
	if nextInSlot(f, c) {
		return nil
	}
	return f.Standing.Intent
}

// nextInSlot reports whether the intent is known by its slot alone, and is another disk's:
// this one holds a filesystem that this node has made or mounted before, and that was not
// to be overwritten.
func nextInSlot(f *disk.Facts, c *disk.Content) bool {
	i, v := f.Standing.Intent, f.Standing.Volume
	return f.Standing.IntentBySlot && c.UUID != i.UUID && c.UUID != i.Was && (c.Made || v != nil && v.UUID == c.UUID)
}

// begun reports whether this node began the half-made filesystem, on this disk. Where
// another disk has the same one, this disk has to be in its slot. Otherwise both would be
// made.
func begun(f *disk.Facts, c *disk.Content) bool {
	i := f.Standing.Intent
	return i != nil && c.UUID == i.UUID && !f.Standing.IntentDoubt && (len(f.SameUUID) == 0 || i.Identity.Like(f.Identity("")))
}

// ours returns the mount of the disk at a place that only the class gives out, nil if
// there is none. Whoever made that mount, it is right: a node that used the udev rule is
// taken over in place.
func ours(f *disk.Facts, class *disk.Class) *disk.MountPoint {
	for i := range f.Mounts {
		m := &f.Mounts[i]
		if m.Root == "/" && path.Dir(m.Path) == class.Directory && disk.ValidUUID(path.Base(m.Path)) {
			return m
		}
	}
	return nil
}

// misplaced returns the UUID of a filesystem that does not belong where the disk is
// mounted, empty if there is none. The kernel knows what it mounted; udev knows what it
// read from the disk.
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

// wasMounted reports whether this attachment of the disk had the filesystem of that UUID
// mounted in its place, as far as is on record.
func wasMounted(f *disk.Facts, uuid string) bool {
	v := f.Standing.Volume
	return !f.Standing.WasMounted.IsZero() && v != nil && v.Identity.Seq == f.Seq && v.UUID == uuid
}

// Grows reports whether the disk's filesystem is to fill it: that was not tried yet for
// the size that the disk has.
func Grows(f *disk.Facts, class *disk.Class) bool {
	return class.Grow && f.Whole == "" && !f.ReadOnly && !f.Standing.Fit.Valid(f)
}

// mayGrow reports whether the mounted filesystem can be grown. What grows it would ask
// what is mounted over it.
func mayGrow(in input) bool {
	return Grows(in.f, in.class) && !ours(in.f, in.class).Covered
}

// onlyPodMountsLeft reports whether the filesystem was mounted in its place during this
// attachment, and all that is left are kubelet's mounts of it for pods.
func onlyPodMountsLeft(f *disk.Facts, c *disk.Content) bool {
	return c.Kind == disk.Filesystem && wasMounted(f, c.UUID) &&
		!slices.ContainsFunc(f.Mounts, func(m disk.MountPoint) bool { return !ofPod(m.Path) })
}

// ofPod reports whether kubelet mounts volumes for pods there: GetPodVolumeDir in
// pkg/kubelet/kubelet_getters.go, and doBindSubPath in pkg/volume/util/subpath.
func ofPod(path string) bool {
	_, pod, _ := strings.Cut(path, "/pods/")
	return strings.Contains(pod, "/volumes/kubernetes.io~") || strings.Contains(pod, "/volume-subpaths/")
}

// seed reports whether the label is that of cloud-init's data sources NoCloud and
// ConfigDrive.
func seed(label string) bool {
	switch label {
	case "cidata", "CIDATA", "config-2", "CONFIG-2":
		return true
	}
	return false
}

// knownUUID returns the UUID of the filesystem that udev knows on the disk, empty for none.
func knownUUID(f *disk.Facts) string {
	uuid := strings.ToLower(f.Udev.FSUUID)
	if !disk.ValidUUID(uuid) {
		return ""
	}
	return uuid
}

// formerly returns the class that a volume belonged to, if that is another than class and
// still exists; otherwise nil.
func formerly(v disk.Place, s *disk.Settings, class *disk.Class) *disk.Class {
	for i := range s.Classes {
		c := &s.Classes[i]
		if c.Directory != class.Directory && v.In(c) {
			return c
		}
	}
	return nil
}

// made reports whether this node's unfinished format made the filesystem that is on the
// disk.
func made(in input) bool {
	i := Intent(in.f, in.c)
	return i != nil && i.UUID == in.c.UUID
}

// replaced reports whether a format is unfinished, and another filesystem than the one it
// makes is on the disk. over tells a format by token from one of a blank disk.
func replaced(in input, over bool) bool {
	i := Intent(in.f, in.c)
	return i != nil && i.UUID != in.c.UUID && i.Over == over
}

// foreign reports whether another machine made the filesystem: it appeared while this node
// proved the disk blank, or the disk was blank to udev and nobody here has written since.
func foreign(in input) bool {
	v := in.f.Standing.Verdict
	return v.Valid(in.f) && v.Shared ||
		Intent(in.f, in.c) == nil && in.c.Proven && !in.c.Made && in.f.Udev.FSType == ""
}

// unseen reports whether a unit file that cannot be read may claim the disk with that
// filesystem, or with none, and the operator has not accepted that.
func unseen(f *disk.Facts, uuid string) bool {
	return f.Unseen != "" && !f.Standing.Lifted(disk.ReasonUnseen, uuid)
}

// onRecord reports whether this node has mounted or made the filesystem.
func onRecord(in input) bool {
	v := in.f.Standing.Volume
	return v != nil && v.UUID == in.c.UUID || in.c.Made
}

// disturbed reports whether somebody else was at work on the disk after it was formatted,
// which nobody has accepted. What was mounted since was accepted.
func disturbed(f *disk.Facts) bool {
	i := f.Standing.Intent
	return i != nil && i.Doubt != "" && !f.Standing.OnRecord && !f.Standing.Lifted(disk.ReasonDisturbed, i.UUID)
}

// twin reports whether another disk has, or had while this one came, the filesystem's
// UUID, and this disk is the one to refuse. Which of the two is mounted does not depend on
// who comes first: no volume may show another disk's data because a disk left, or was
// slower at boot. The disk on record is mounted. If there is none, the one that was
// resized while the machine was off is mounted. A disk that was refused once stays so until the
// operator accepts it. So does one with its serial that comes alone, which may be it in
// another slot, and one that takes the place of a disk that nobody saw leave.
func twin(f *disk.Facts) bool {
	if len(f.SameUUID) == 0 {
		return f.Standing.Twin || replaces(f)
	}
	for i := range f.SameUUID {
		// Of two with one serial the slot tells which is on record.
		if p := &f.SameUUID[i]; p.Mounted != "" || p.OnRecord && (p.InPlace || !f.Standing.InPlace) || p.Resized && !f.Standing.OnRecord {
			return true
		}
	}
	return f.Standing.Twin && !f.Standing.InPlace || !f.Standing.OnRecord && !f.Standing.Resized
}

// replaces reports whether the filesystem was last seen on another disk, which the
// operator has not accepted. A disk that left before this one came has made room for it.
func replaces(f *disk.Facts) bool {
	l := f.Standing.LastOn
	return l != nil && (!l.Left || f.Standing.Beside) && !f.Standing.Lifted(disk.ReasonTwin, l.UUID)
}

// stillMissing reports whether the operator has neither given up what lay where the disk
// is, nor accepted the disk for that reason.
func stillMissing(f *disk.Facts, l *disk.Sighting, r disk.Reason) bool {
	return l != nil && !givenUp(&f.Standing, l.UUID) && !f.Standing.Lifted(r, l.UUID)
}

// givenUp reports whether the operator has accepted the loss of this filesystem, for
// whatever reason it was named.
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

// givenUpBeforeFormat reports whether the format that left its filesystem half made here
// began after what is missing was given up: neither the accept nor the token outlasts a
// reboot or a crash. It did not if the half-made one itself was mounted since: then the
// storage shows an old state.
func givenUpBeforeFormat(c *disk.Content, l *disk.Sighting) bool {
	return c.Kind == disk.HalfMade && l.UUID != c.UUID
}

// failed reports whether an earlier try to format the disk failed for good.
func failed(f *disk.Facts) bool {
	v := f.Standing.Verdict
	return v.Valid(f) && v.Failure != "" && !v.Retry
}

// disagrees reports whether udev names something on a disk that was read as blank, or as
// an XFS whose mkfs did not finish and which to udev is a whole one.
func disagrees(u disk.Udev, c *disk.Content) bool {
	if c.Kind == disk.HalfMade && u.FSType == "xfs" && u.FSUsage == "filesystem" {
		u.FSType, u.FSUsage = "", ""
	}
	return u.FSType != "" || u.FSUsage != "" || u.Ambivalent != "" || u.PartTable != ""
}

// sameSerial returns the disk whose serial a blank disk repeats, nil if there is none or
// it was accepted: one that came earlier, or that holds something. Of two blank disks the
// first is used.
func sameSerial(f *disk.Facts) *disk.Peer {
	for i := range f.SameSerial {
		p := &f.SameSerial[i]
		if (p.Seq < f.Seq || p.Known || p.UUID != "" || p.Mounted != "") && !f.Standing.Lifted(disk.ReasonSameSerial, p.UUID) {
			return p
		}
	}
	return nil
}

// braked reports whether the disk was found while too many were formatted, or would be
// one too many now.
func braked(in input) bool {
	return in.f.Standing.Braked || recent(in.f, in.s) >= in.s.FormatLimit
}

// recent returns how many other disks were formatted within the brake's period. One in the
// future counts: a clock was set back.
func recent(f *disk.Facts, s *disk.Settings) int {
	n := 0
	for _, age := range f.Standing.Formats {
		if age < s.FormatPeriod {
			n++
		}
	}
	return n
}

// creates reports whether the class makes filesystems, and of the type of one that is
// half made.
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
