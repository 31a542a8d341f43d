// Package policy decides what is to be done with a disk. It is pure: the answer
// depends on nothing but the arguments, so that the daemon, the process that
// formats and `hotmount plan` can not come to different answers.
package policy

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// Decide answers for one disk what is to be done with it: f is what is known of
// the disk, c what is on it, s the configuration. It is called with what udev
// knows of the content first (f.Known); where the answer is Prove, again with
// what the proof found. Anything not foreseen here is refused.
func Decide(f *disk.Facts, c *disk.Content, s *disk.Settings) disk.Decision {
	if f.System != "" {
		return disk.Decision{Action: disk.Ignore, Reason: disk.ReasonSystem}
	}
	class := Select(f, s)
	if class == nil {
		return disk.Decision{Action: disk.Ignore, Reason: unselected(f, s)}
	}
	d := disk.Decision{Class: class.Name}
	if class.Mode == disk.ModeBlock {
		return give(d, f, s, class)
	}
	if m := ours(f, class); m != nil {
		d.Action, d.Reason = disk.Keep, disk.ReasonMounted
		// A device number is used again, and a mount that began for the disk before
		// may have come to be this one's.
		switch {
		case !f.Udev.Initialized && !wasMounted(f, path.Base(m.Path)):
			d.Action, d.Reason = disk.Wait, disk.ReasonUdev
			return d
		case misplaced(f, m) != "":
			d.Action, d.Reason = disk.Refuse, disk.ReasonMisplaced
			return d
		}
		d.UUID, d.Type = path.Base(m.Path), m.Type
		return mounted(d, f, class)
	}
	d.Reason = notOurs(f, class)
	if lost(f, c) {
		d.Reason = taken(f, class)
	}
	if d.Reason != "" {
		d.Action = disk.Ignore
		return d
	}
	if !f.Udev.Initialized {
		d.Action, d.Reason = disk.Wait, disk.ReasonUdev
		return d
	}
	if d.Reason = unusable(f); d.Reason != "" {
		d.Action = disk.Refuse
		return d
	}
	if d.Reason = f.Standing.Unmounted; d.Reason != "" {
		d.Action = disk.Hold
		return d
	}
	if f.Whole != "" {
		return partition(d, f, c, s, class)
	}
	// While an intent is open udev's word is not enough: a half-made XFS looks
	// like a whole one to libblkid.
	if Intent(f, c) != nil && !c.Proven {
		d.Action, d.Reason = disk.Prove, disk.ReasonIntent
		return d
	}

	switch c.Kind {
	case disk.Filesystem:
		return filesystem(d, f, c, s, class)
	case disk.Unread, disk.Blank:
		return blank(d, f, c, s, class)
	case disk.HalfMade:
		if !begun(f, c) {
			d.Action, d.Reason = disk.Refuse, disk.ReasonHalfMade
			return d
		}
		return blank(d, f, c, s, class)
	case disk.Other:
		d.Action, d.Reason = disk.Refuse, disk.ReasonOther
	default:
		d.Action, d.Reason = disk.Refuse, disk.ReasonUnknown
	}
	return d
}

// Intent gives the format of which the end is not recorded that concerns the disk with
// that content, nil if there is none.
func Intent(f *disk.Facts, c *disk.Content) *disk.Intent {
	if nextInSlot(f, c) {
		return nil
	}
	return f.Standing.Intent
}

// nextInSlot says that the intent is by its slot alone, and another disk's: this one holds
// a filesystem that this node has made, or has mounted before, and that is not what
// was to be overwritten.
func nextInSlot(f *disk.Facts, c *disk.Content) bool {
	i, v := f.Standing.Intent, f.Standing.Volume
	return f.Standing.IntentBySlot && c.UUID != i.UUID && c.UUID != i.Was && (c.Made || v != nil && v.UUID == c.UUID)
}

// begun says whether the half-made filesystem on the disk is this node's work, on
// this disk. Where another has the same one it has to be in its slot, or both
// would be made.
func begun(f *disk.Facts, c *disk.Content) bool {
	i := f.Standing.Intent
	return i != nil && c.UUID == i.UUID && !f.Standing.IntentDoubt && (len(f.SameUUID) == 0 || i.Identity.Like(f.Identity("")))
}

// partition answers for a partition: what holds a filesystem is mounted, and nothing
// is ever made of another.
func partition(d disk.Decision, f *disk.Facts, c *disk.Content, s *disk.Settings, class *disk.Class) disk.Decision {
	switch {
	case c.Kind == disk.Filesystem && f.Standing.Intent == nil:
		return filesystem(d, f, c, s, class)
	case c.Kind == disk.Other:
		d.Action, d.Reason = disk.Refuse, disk.ReasonOther
	default:
		d.Action, d.Reason = disk.Refuse, disk.ReasonPartition
	}
	return d
}

// ours gives the mount of the disk at a place that only the class gives out.
// Whoever made that mount, it is right: a node that used the udev rule is taken
// over in place.
func ours(f *disk.Facts, class *disk.Class) *disk.MountPoint {
	for i := range f.Mounts {
		m := &f.Mounts[i]
		if m.Root == "/" && path.Dir(m.Path) == class.Directory && disk.ValidUUID(path.Base(m.Path)) {
			return m
		}
	}
	return nil
}

// misplaced gives the UUID of a filesystem that does not belong where the disk is mounted: as the kernel has it,
// which alone has read what it mounted, or as udev has read it from the disk. Empty if there is none.
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

// wasMounted says whether it is on record that this attachment of the disk had the filesystem of
// that UUID mounted in its place.
func wasMounted(f *disk.Facts, uuid string) bool {
	v := f.Standing.Volume
	return !f.Standing.WasMounted.IsZero() && v != nil && v.Identity.Seq == f.Seq && v.UUID == uuid
}

// mounted says what is to be done with a disk that is mounted in its place.
func mounted(d disk.Decision, f *disk.Facts, class *disk.Class) disk.Decision {
	switch g := f.Spans(); {
	case g != nil && g.Size > f.Size: // which is where a fault may come from
		d.Reason = disk.ReasonShrunk
	case f.Fault != "":
		d.Reason = disk.ReasonFault
	case !Grows(f, class), ours(f, class).Covered: // what grows it would ask what lies over it
	case g == nil:
		d.Action, d.Reason = disk.Grow, disk.ReasonUnmeasured
	case g.Usable(f.Size) > g.Size:
		d.Action, d.Reason = disk.Grow, disk.ReasonSmaller
	}
	return d
}

// Grows says whether the disk's filesystem is to fill it: it was not tried yet for the
// size that the disk has.
func Grows(f *disk.Facts, class *disk.Class) bool {
	return class.Grow && f.Whole == "" && !f.ReadOnly && !f.Standing.Fit.Valid(f)
}

// notOurs gives the reason why somebody else has the disk, empty if nobody has.
func notOurs(f *disk.Facts, class *disk.Class) disk.Reason {
	if len(f.Mounts) > 0 {
		return disk.ReasonElsewhere
	}
	return taken(f, class)
}

// lost says whether the filesystem was mounted in its place during this attachment, and is
// not there now: all that is left are the mounts that kubelet made of that one for pods.
func lost(f *disk.Facts, c *disk.Content) bool {
	return c.Kind == disk.Filesystem && wasMounted(f, c.UUID) &&
		!slices.ContainsFunc(f.Mounts, func(m disk.MountPoint) bool { return !ofPod(m.Path) })
}

// ofPod says whether that is where kubelet mounts a volume for a pod: GetPodVolumeDir in
// pkg/kubelet/kubelet_getters.go, and doBindSubPath in pkg/volume/util/subpath.
func ofPod(path string) bool {
	_, pod, _ := strings.Cut(path, "/pods/")
	return strings.Contains(pod, "/volumes/kubernetes.io~") || strings.Contains(pod, "/volume-subpaths/")
}

// taken gives the reason why somebody else has a disk that is mounted nowhere else. The loop
// device on a block volume that was given out is kubelet's.
func taken(f *disk.Facts, class *disk.Class) disk.Reason {
	switch {
	case f.Standing.Link != "":
		return disk.ReasonGivenElse
	case f.Swap:
		return disk.ReasonSwap
	case f.Udev.Multipath:
		return disk.ReasonMultipath
	case f.Udev.NotReady:
		return disk.ReasonNotReady
	case len(f.Holders) > 0:
		return disk.ReasonHeld
	case len(f.Loops) > 0 && (class.Mode != disk.ModeBlock || f.Standing.Given == nil):
		return disk.ReasonHeld
	case f.Claim != "":
		return disk.ReasonClaimed
	}
	switch f.Udev.FSLabel {
	// cloud-init's NoCloud and ConfigDrive data sources.
	case "cidata", "CIDATA", "config-2", "CONFIG-2":
		return disk.ReasonSeed
	}
	return ""
}

// unusable gives the reason why the disk can not be used whatever is on it.
func unusable(f *disk.Facts) disk.Reason {
	switch {
	case f.Size == 0:
		return disk.ReasonSize
	case len(f.Partitions) > 0:
		return disk.ReasonPartitions
	case f.ReadOnly:
		return disk.ReasonReadOnly
	}
	return ""
}

// give answers for a disk of a class in block mode. What is on it is of no account
// once it was given out; before, what is known on it is nobody's to overwrite.
func give(d disk.Decision, f *disk.Facts, s *disk.Settings, class *disk.Class) disk.Decision {
	if class.Links(f, f.Standing.Link) {
		d.Action, d.Reason = disk.Keep, disk.ReasonGivenOut
		return d
	}
	if d.Reason = notOurs(f, class); d.Reason != "" {
		d.Action = disk.Ignore
		return d
	}
	if !f.Udev.Initialized {
		d.Action, d.Reason = disk.Wait, disk.ReasonUdev
		return d
	}
	switch {
	case f.Size == 0:
		d.Action, d.Reason = disk.Refuse, disk.ReasonSize
		return d
	case f.ReadOnly:
		d.Action, d.Reason = disk.Refuse, disk.ReasonReadOnly
		return d
	case f.Nameless():
		d.Action, d.Reason = disk.Refuse, disk.ReasonNoSerial
		return d
	case len(f.SameSerial) > 0:
		d.Action, d.Reason = disk.Refuse, disk.ReasonSerialTwice
		return d
	case f.Standing.Unmounted != "":
		d.Action, d.Reason = disk.Hold, f.Standing.Unmounted
		return d
	}
	if g := f.Standing.Given; g != nil && !g.Same(f) && !f.Standing.Lifted(disk.ReasonOtherBlock, "") {
		// Its link would have the name of the other's volume.
		d.Action, d.Reason = disk.Hold, disk.ReasonOtherBlock
		return d
	}
	if formerly(f.Standing.Given.Place(), s, class) != nil {
		d.Action, d.Reason = disk.Hold, disk.ReasonOtherClass
		return d
	}
	if f.Standing.Given == nil {
		switch uuid := knownUUID(f); {
		case f.Holds() && !f.Standing.Lifted(disk.ReasonContent, uuid):
			d.Action, d.Reason, d.UUID = disk.Hold, disk.ReasonContent, uuid
			return d
		case missed(f, f.Standing.FormerSerial, disk.ReasonFormerSerial):
			d.Action, d.Reason, d.UUID = disk.Hold, disk.ReasonFormerSerial, f.Standing.FormerSerial.UUID
			return d
		case f.Standing.Present != nil && !s.FormatPresent && !f.Standing.Lifted(disk.ReasonPresent, ""):
			d.Action, d.Reason = disk.Hold, disk.ReasonPresent
			return d
		case unseen(f, ""):
			d.Action, d.Reason = disk.Hold, disk.ReasonUnseen
			return d
		}
	}
	d.Action, d.Reason = disk.Link, disk.ReasonBlock
	return d
}

// knownUUID is that of the filesystem that udev knows on the disk, empty for none.
func knownUUID(f *disk.Facts) string {
	uuid := strings.ToLower(f.Udev.FSUUID)
	if !disk.ValidUUID(uuid) {
		return ""
	}
	return uuid
}

// formerly gives the class that a volume was of, if that is another than class and
// still there.
func formerly(v disk.Place, s *disk.Settings, class *disk.Class) *disk.Class {
	for i := range s.Classes {
		c := &s.Classes[i]
		if c.Directory != class.Directory && v.In(c) {
			return c
		}
	}
	return nil
}

func filesystem(d disk.Decision, f *disk.Facts, c *disk.Content, s *disk.Settings, class *disk.Class) disk.Decision {
	d.UUID, d.Type = c.UUID, c.Type
	lifted := func(r disk.Reason) bool { return f.Standing.Lifted(r, c.UUID) }
	switch i := Intent(f, c); {
	case !disk.ValidUUID(c.UUID):
		d.Action, d.Reason, d.UUID = disk.Refuse, disk.ReasonOther, ""
	case i != nil && i.UUID != c.UUID && i.Over && !lifted(disk.ReasonOverwrite):
		// What the operator wanted gone is still there, perhaps in part.
		d.Action, d.Reason = disk.Hold, disk.ReasonOverwrite
	case i != nil && i.UUID != c.UUID && !i.Over && !lifted(disk.ReasonShared):
		// The disk was blank when this node began to format it.
		d.Action, d.Reason = disk.Hold, disk.ReasonShared
	case c.Torn:
		d.Action, d.Reason = disk.Refuse, disk.ReasonTorn
	case i != nil && i.UUID == c.UUID && disturbed(f):
		d.Action, d.Reason = disk.Hold, disk.ReasonDisturbed
	case f.Standing.Verdict.Valid(f) && f.Standing.Verdict.Shared && !lifted(disk.ReasonShared):
		// It appeared while this node proved the disk blank.
		d.Action, d.Reason = disk.Hold, disk.ReasonShared
	case i == nil && c.Proven && !c.Made && f.Udev.FSType == "" && !lifted(disk.ReasonShared):
		// It was blank to udev, and nobody has written to it here since.
		d.Action, d.Reason = disk.Hold, disk.ReasonShared
	case !slices.Contains(class.Accept, c.Type):
		d.Action, d.Reason = disk.Refuse, disk.ReasonType
	case f.Standing.Given != nil && !lifted(disk.ReasonFormerBlock):
		// It is the work of whoever had the volume.
		d.Action, d.Reason = disk.Hold, disk.ReasonFormerBlock
	case c.Span > f.Size:
		d.Action, d.Reason = disk.Refuse, disk.ReasonShrunk
	case twin(f):
		d.Action, d.Reason = disk.Refuse, disk.ReasonTwin
	case formerly(f.Standing.Volume.Place(), s, class) != nil:
		// Who has the volume would not find it, and another would find its data.
		d.Action, d.Reason = disk.Hold, disk.ReasonOtherClass
	case unseen(f, c.UUID) && !known(f, c) && !c.Made:
		// Whoever wants it mounted elsewhere does not want it as a volume. What this node
		// made it made by the operator's word.
		d.Action, d.Reason = disk.Hold, disk.ReasonUnseen
	default:
		d.Action, d.Reason = disk.Mount, disk.ReasonFilesystem
	}
	return d
}

// unseen says whether somebody may have claimed the disk with that filesystem, or with none,
// where nobody can read it, and the operator has not accepted it all the same.
func unseen(f *disk.Facts, uuid string) bool {
	return f.Unseen != "" && !f.Standing.Lifted(disk.ReasonUnseen, uuid)
}

// known says whether the filesystem was a volume of this node before.
func known(f *disk.Facts, c *disk.Content) bool {
	return f.Standing.Volume != nil && f.Standing.Volume.UUID == c.UUID
}

// disturbed says that somebody else was at work on the disk after it was formatted,
// which nobody has accepted. What was mounted since was.
func disturbed(f *disk.Facts) bool {
	i := f.Standing.Intent
	return i != nil && i.Doubt != "" && !f.Standing.OnRecord && !f.Standing.Lifted(disk.ReasonDisturbed, i.UUID)
}

// twin says whether another disk has, or had while this one came, the
// filesystem's UUID. Which of them is mounted does not depend on who comes
// first: a volume never shows another disk's data because a disk went, or was
// slower at boot. The one on record is mounted, and where there is none the one that was
// resized since, while the machine was off. One that was refused once
// stays so until the operator says otherwise; as does one with its serial that comes alone, which
// may be it whatever its slot, and one that comes in the place of
// the one on record while nobody saw that leave.
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

// replaces says whether the filesystem was on another disk when it was seen last,
// which the operator has not accepted. One that left before this disk came has made
// room for it.
func replaces(f *disk.Facts) bool {
	l := f.Standing.LastOn
	return l != nil && (!l.Left || f.Standing.Beside) && !f.Standing.Lifted(disk.ReasonTwin, l.UUID)
}

// missed says whether the filesystem, or what else has no UUID, lay where the disk is, and
// the operator has not given it up, or accepted the disk for that reason.
func missed(f *disk.Facts, l *disk.Sighting, r disk.Reason) bool {
	return l != nil && !f.Standing.GivenUp(l.UUID) && !f.Standing.Lifted(r, l.UUID)
}

// decided says that what is missing was given up when the format began that has left its
// filesystem half made here: the word for it does not outlast a reboot, nor the token a
// crash. It was not if the half-made one itself was mounted since: then the storage shows
// an old state.
func decided(c *disk.Content, l *disk.Sighting) bool {
	return c.Kind == disk.HalfMade && l.UUID != c.UUID
}

func blank(d disk.Decision, f *disk.Facts, c *disk.Content, s *disk.Settings, class *disk.Class) disk.Decision {
	// What speaks against the disk for good comes before what the operator can
	// lift: nobody is asked to accept a disk that is refused afterwards. Of what can be
	// lifted the first is told, and its word lifts no other.
	switch {
	case f.Standing.Given != nil:
		// Those who had the volume, and the provisioner's cleaner, leave disks
		// that look blank.
		d.Action, d.Reason = disk.Refuse, disk.ReasonNeverFormat
		return d
	case !creates(class, c):
		d.Action, d.Reason = disk.Refuse, disk.ReasonNoCreate
		return d
	case f.Size < class.MinimumSize:
		d.Action, d.Reason = disk.Refuse, disk.ReasonTooSmall
		return d
	case f.Standing.Verdict.Valid(f) && f.Standing.Verdict.Failure != "" && !f.Standing.Verdict.Retry:
		d.Action, d.Reason = disk.Refuse, disk.ReasonFormatFailed
		return d
	case f.Uncounted:
		d.Action, d.Reason = disk.Refuse, disk.ReasonUncounted
		return d
	case disagrees(f.Udev, c):
		d.Action, d.Reason = disk.Refuse, disk.ReasonDisagree
		return d
	}
	switch {
	case !s.Format || f.Standing.Formatting != "":
		d.Action, d.Reason = disk.Hold, disk.ReasonFormatOff
		return d
	case disturbed(f):
		d.Action, d.Reason, d.UUID = disk.Hold, disk.ReasonDisturbed, f.Standing.Intent.UUID
		return d
	case f.Standing.Present != nil && !s.FormatPresent && !f.Standing.Lifted(disk.ReasonPresent, ""):
		d.Action, d.Reason = disk.Hold, disk.ReasonPresent
		return d
	case unseen(f, ""):
		d.Action, d.Reason = disk.Hold, disk.ReasonUnseen
		return d
	case missed(f, f.Standing.Before, disk.ReasonBefore) && !decided(c, f.Standing.Before):
		d.Action, d.Reason, d.UUID = disk.Hold, disk.ReasonBefore, f.Standing.Before.UUID
		return d
	case sameSerial(f) != nil:
		d.Action, d.Reason, d.UUID = disk.Hold, disk.ReasonSameSerial, sameSerial(f).UUID
		return d
	case missed(f, f.Standing.FormerSerial, disk.ReasonFormerSerial) && !decided(c, f.Standing.FormerSerial):
		d.Action, d.Reason, d.UUID = disk.Hold, disk.ReasonFormerSerial, f.Standing.FormerSerial.UUID
		return d
	case missed(f, f.Standing.FormerSlot, disk.ReasonFormerSlot) && !decided(c, f.Standing.FormerSlot) && f.Moved == nil:
		d.Action, d.Reason, d.UUID = disk.Hold, disk.ReasonFormerSlot, f.Standing.FormerSlot.UUID
		return d
	case !f.Standing.Lifted(disk.ReasonBrake, "") && (f.Standing.Braked || recent(f, s) >= s.FormatLimit):
		d.Action, d.Reason = disk.Hold, disk.ReasonBrake
		return d
	}
	switch {
	case c.Kind == disk.Blank && c.Proven:
		d.Action, d.Reason = disk.Format, disk.ReasonBlank
	case c.Kind == disk.HalfMade && c.Proven:
		d.Action, d.Reason = disk.Format, disk.ReasonIntent
	default:
		d.Action, d.Reason = disk.Prove, disk.ReasonUnread
	}
	return d
}

// creates says whether the class makes filesystems, and of the type of one that is
// half made.
func creates(class *disk.Class, c *disk.Content) bool {
	if c.Kind == disk.HalfMade && class.Create != cmp.Or(c.Type, disk.XFS) {
		return false
	}
	return class.Create == disk.XFS || class.Create == disk.Ext4
}

// disagrees says whether udev names something on a disk that was read as blank,
// or as an XFS whose mkfs did not finish and which to udev is a whole one.
func disagrees(u disk.Udev, c *disk.Content) bool {
	if c.Kind == disk.HalfMade && u.FSType == "xfs" && u.FSUsage == "filesystem" {
		u.FSType, u.FSUsage = "", ""
	}
	return u.FSType != "" || u.FSUsage != "" || u.Ambivalent != "" || u.PartTable != ""
}

// sameSerial gives the disk whose serial a blank disk repeats, unless that was
// accepted: one that came earlier, or that holds something. Of two blank ones the first
// is used.
func sameSerial(f *disk.Facts) *disk.Peer {
	for i := range f.SameSerial {
		p := &f.SameSerial[i]
		if (p.Seq < f.Seq || p.Known || p.UUID != "" || p.Mounted != "") && !f.Standing.Lifted(disk.ReasonSameSerial, p.UUID) {
			return p
		}
	}
	return nil
}

// recent counts the other disks that were formatted within the period of the brake. One in
// the future counts: a clock was set back.
func recent(f *disk.Facts, s *disk.Settings) int {
	n := 0
	for _, age := range f.Standing.Formats {
		if age < s.FormatPeriod {
			n++
		}
	}
	return n
}
