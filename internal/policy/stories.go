package policy

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// The functions in this file return the longer messages and remedies of rules.

func givenElseRemedy(w *wording) string {
	name := w.f.Name
	switch {
	case w.f.Whole != "":
		name = w.f.Whole
	case w.f.OwnLink() == "":
		name = "the disk that readlink -f " + visible(w.f.Standing.Link) + " names"
	}
	return "to use the disk for something else: hotmount release " + name
}

// formatOffRemedy returns how to turn formatting on again, or the remedy for a fault of the records.
func formatOffRemedy(w *wording) string {
	switch off := w.f.Standing.Formatting; {
	case off == "":
		return "to find the file that switches formatting off: hotmount config show; set format: true there, then: systemctl reload hotmount"
	case off == disk.HeldBack:
		return say("to allow formats again: rm %s; hotmount rescan", disk.HoldFile)
	case off == disk.OffAtBoot:
		return "to allow formats again, remove hotmount.format=no from the kernel command line, and reboot"
	case off == disk.StateFull:
		return "make room on the filesystem of /var/lib/hotmount, then: hotmount rescan"
	case strings.HasPrefix(off, disk.StateGap):
		return "make sure that the state directory can be written, then: hotmount state init"
	default:
		_, helps, _ := strings.Cut(off, disk.Helps)
		return visible(helps)
	}
}

func serialTwiceWhy(w *wording) string {
	f := w.f
	// For a class in block mode, only the serial shows that two disks may be the same disk.
	if p := secondPath(f); p != nil && (disk.SameSerial(f.Serial, p.Serial) || w.class == nil || w.class.Mode != disk.ModeBlock) {
		return say("another disk has the same %s and is in use (%s): %s; this disk may be a second path to that disk", sharedWith(f, p), visible(p.InUse), place(p.ID, p.Slot))
	}
	return say("another disk has the same serial %s: %s%s; hotmount cannot tell the two block volumes apart", visible(f.Serial), place(f.SameSerial[0].ID, f.SameSerial[0].Slot), textIf(f.SerialCut(), " (virtio cuts serials at 20 characters)"))
}

func serialTwiceRemedy(w *wording) string {
	return onlyPath(w.f, "attach each disk with a serial of its own"+textIf(w.f.SerialCut(), ", which differs in its first 20 characters"))
}

func misplacedRemedy(w *wording) string {
	m, again := ownMount(w.f, w.class), ""
	// If only the kernel knows which filesystem is mounted, udev has to read the disk again. Without udevadm trigger,
	// hotmount would mount the disk at the same wrong path again.
	if !strings.EqualFold(w.f.Udev.FSUUID, misplacedUUID(w.f, m)) {
		again = "udevadm trigger --action=change " + w.f.Node() + "; "
	}
	return "stop the pods that use the disk, then: " + again + "umount " + visible(m.Path)
}

func shrunkWhy(w *wording) string {
	span, state := shrunkFrom(w), "the filesystem is not mounted"
	if w.d.Mounted() {
		state = "the filesystem is still mounted"
	}
	return say("the disk has shrunk: its %s %s takes %s, and the disk has only %s; %s, and the data beyond the disk's end cannot be read", visible(w.d.Type), w.d.UUID, disk.ExactSize(span), disk.ExactSize(w.f.Size), state)
}

func shrunkRemedy(w *wording) string {
	return say("restore the disk's size to at least %d bytes at once (on the host: virsh blockresize), and check the filesystem before anything uses it", shrunkFrom(w))
}

func shrunkFrom(w *wording) uint64 {
	if w.d.Mounted() {
		return w.f.Spans().Size
	}
	return w.c.Span
}

func mountedWhy(w *wording) string {
	if g := w.f.Spans(); g != nil && w.class != nil && w.class.Grow && w.f.Fixed() && g.Usable(w.f.Size) > g.Size {
		return say("the disk is mounted; the filesystem has %s, and the disk has %s: this node did not make the filesystem, so hotmount grows the filesystem only when the disk becomes larger", disk.ExactSize(g.Size), disk.ExactSize(w.f.Size))
	}
	return w.rule.means
}

func notGrownRemedy(w *wording) string {
	if w.f.Standing.Fit.Recorded {
		return say("stop the pods that use the disk, then: hotmount release %s; e2fsck -f %s; hotmount accept %[1]s %[3]s", w.f.Name, w.f.Node(), disk.ReasonReleased)
	}
	return say("once the problem is solved: systemctl start hotmount-grow@%d", w.f.Seq)
}

// otherBlockWhy returns why this disk is possibly not the disk that was given out under the same name.
func otherBlockWhy(w *wording) string {
	f, g := w.f, w.f.Standing.Given
	wwn := "an unknown WWN"
	if g.WWN != "" {
		wwn = "WWN " + visible(g.WWN)
	}
	why := say("a disk with the serial %s was given out as a block volume (%s); that disk had %s and %s, and was at %s; the attached disk may be a different disk", visible(f.Serial), visible(g.Link), disk.ExactSize(g.Size), wwn, slot(g.Slot))
	switch {
	case g.Twice:
		why += "; hotmount has seen two disks with this serial, and this disk is at " + slot(f.Slot)
	case f.SerialCut() && f.Holds():
		why += "; virtio may have cut the serial"
	default:
		return why
	}
	if f.Holds() {
		why += "; this disk holds " + held(f)
	}
	return why
}

func otherClassWhy(w *wording) string {
	if w.class == nil {
		return w.rule.means
	}
	was := w.f.Standing.Volume.Place()
	if w.class.Mode == disk.ModeBlock {
		was = w.f.Standing.Given.Place()
	}
	old := formerClass(was, w.s, w.class)
	if old == nil {
		return w.rule.means
	}
	return say("the disk was a volume of class %s (%s), but class %s selects the disk now; the data would appear at another path (%s)", visible(old.Name), old.Directory, visible(w.class.Name), w.class.Directory)
}

func sameSerialWhy(w *wording) string {
	why := describePossiblySame(w.f, sameSerial(w.f), serial(w.f.Serial))
	if w.f.SerialCut() {
		why += "; virtio passes on only the first 20 characters of a serial"
	}
	return why
}

func sameWWNWhy(w *wording) string {
	return describePossiblySame(w.f, sameWWN(w.f), "WWN "+visible(w.f.WWN)) + "; both may be paths to one disk"
}

// describePossiblySame describes the peer that may be the same disk as the blank disk f. The parameter `what` is the
// serial or WWN that both disks have, as a text such as "serial S1".
func describePossiblySame(f *disk.Facts, p *disk.Peer, what string) string {
	why := say("the disk looks blank, and another disk has the same %s: %s; this disk is %s", what, place(p.ID, p.Slot), place(f.ID, f.Slot))
	if content := strings.TrimSpace(p.Type + " " + p.UUID); content != "" {
		why += "; the other disk holds " + visible(content)
	}
	return why
}

func sameSerialRemedy(w *wording) string {
	switch accept := "if these are two different disks: hotmount accept " + w.f.Name; {
	case w.f.SerialCut():
		return "on the host, give each disk a serial that differs in its first 20 characters (virsh attach-disk --serial); or, " + accept
	case w.f.Transport == "virtio":
		return accept
	}
	return pathOrDisk(w, sameSerial(w.f))
}

// pathOrDisk returns the remedy for a blank disk that may be a second path to the disk p.
func pathOrDisk(w *wording, p *disk.Peer) string {
	return say("if this disk is a second path to %s: leave both to multipathd, or exclude this disk in the configuration; if these are two different disks: hotmount accept %s", p.Name, w.f.Name)
}

// itOrItsSlots names the disk on which the unfinished format began: this disk, or a disk that was in the same slot
// earlier.
func itOrItsSlots(f *disk.Facts) string {
	if f.Standing.IntentBySlot {
		return "the disk, or a disk that was in its slot,"
	}
	return "the disk"
}

// intendedDisk names the disk that the operator ordered hotmount to format.
func intendedDisk(f *disk.Facts) string {
	if f.Standing.IntentDoubt {
		return "the disk, or " + identified(f.Standing.Intent.Identity) + ","
	}
	return "the disk"
}

func sharedWhy(w *wording) string {
	it := "the disk"
	if Intent(w.f, w.c) != nil {
		it = itOrItsSlots(w.f)
	}
	return say("%s was blank; the disk now holds %s %s, which this node did not make; perhaps another machine uses or used the disk", it, visible(w.d.Type), w.d.UUID)
}

func overwriteWhy(w *wording) string {
	what := say("%s %s", visible(w.d.Type), w.d.UUID)
	if w.f.Standing.IntentDoubt {
		return say("an operator's format of %s did not finish; if this is the disk that was being formatted, its filesystem %s may be damaged", intendedDisk(w.f), what)
	}
	return say("an operator's format of the disk did not finish; the old filesystem %s is still on the disk and may be damaged", what)
}

func disturbedWhy(w *wording) string {
	i := w.f.Standing.Intent
	why := say("this node made %s %s on %s; somebody else may have used the disk before hotmount had checked the new filesystem: %s", i.Type(), i.UUID, strings.TrimSuffix(itOrItsSlots(w.f), ","), visible(i.Doubt))
	if w.c.Kind != disk.Filesystem {
		return why + "; the filesystem is no longer there"
	}
	return why + "; the filesystem and the other user's data may be damaged"
}

func halfMadeWhy(w *wording) string {
	if i := w.f.Standing.Intent; i != nil && w.c.UUID == i.UUID {
		return say("mkfs.xfs did not finish: this node began to make the filesystem %s on %s, and this disk may be a copy of that disk", w.c.UUID, identified(i.Identity))
	}
	return say("mkfs.xfs did not finish the filesystem %s on the disk, and this node has no record of that format", w.c.UUID)
}

func unknownWhy(w *wording) string {
	if i := w.f.Standing.Intent; i != nil && i.Over {
		return say("an operator's format of %s did not finish; hotmount does not know what the disk holds now%s", intendedDisk(w.f), evidence(w.c))
	}
	return w.rule.means + evidence(w.c)
}

func filesystemWhy(w *wording) string {
	why := say("the disk holds %s %s", visible(w.d.Type), w.d.UUID)
	if l := w.f.Standing.LastOn; l != nil {
		why += ", which was last mounted from another disk: " + sightedOn(l)
	}
	return why
}

// The function `rival` returns another disk with the same UUID, for the message about the refusal. If this disk may be
// a second path to such a disk in use, `rival` returns that disk and true.
func rival(f *disk.Facts) (p *disk.Peer, path bool) {
	i := slices.IndexFunc(f.SameUUID, func(p disk.Peer) bool { return p.InUse != "" && p.Same(f) })
	return &f.SameUUID[max(i, 0)], i >= 0
}

func twinWhy(w *wording) string {
	f, d := w.f, w.d
	const danger = "this disk's data would appear in the volume of the other disk"
	switch {
	case len(f.SameUUID) > 0:
		p, path := rival(f)
		why := say("another disk has the same UUID %s: %s (%s); this disk is %s (%s)", d.UUID, place(p.ID, p.Slot), hardware(p.Serial, p.WWN), place(f.ID, f.Slot), hardware(f.Serial, f.WWN))
		if path {
			return why + "; the other disk is in use (" + visible(p.InUse) + "), and both may be paths to one disk"
		}
		if p.Mounted != "" {
			why += "; the other disk is mounted at " + visible(p.Mounted)
		}
		return why
	case replaces(f):
		left := "whose removal hotmount did not see"
		if f.Standing.Beside {
			left = "which was detached while this one was attached"
		}
		return say("the filesystem %s was last mounted from another disk, %s: %s; %s; this disk has %s", d.UUID, left, sightedOn(f.Standing.LastOn), danger, hardware(f.Serial, f.WWN))
	case (f.Serial != "" || f.WorldWide() != "") && f.Standing.OnRecord:
		return say("hotmount refused a disk with the same %s, because another disk had the UUID %s; this disk may be the refused disk; %s", hardware(f.Serial, f.WWN), d.UUID, danger)
	}
	return say("when this disk was attached, another disk had the same UUID %s; the other disk is gone now; %s", d.UUID, danger)
}

// twinMount is the path at which the commands of twinRemedy mount a disk. hotmount does not treat a mount at twinMount
// as a use by somebody else, because only an operator who follows twinRemedy mounts a disk there.
const twinMount = "/run/twin"

// twinRemedy returns how to give the disk a UUID of its own. The log of a copied XFS filesystem must be recovered
// before xfs_admin can run. Without the option nouuid, the kernel refuses to mount an XFS filesystem whose UUID is
// already mounted. The mount of the copy is below /run and not in a class directory. udev may miss the last write to
// the disk, so the remedy ends with udevadm trigger.
func twinRemedy(w *wording) string {
	f := w.f
	own := say("give this disk a UUID of its own: mkdir -p %[2]s && mount -o nouuid %[1]s %[2]s && umount %[2]s && xfs_admin -U generate %[1]s && udevadm trigger %[1]s", f.Node(), twinMount)
	if w.d.Type != "xfs" {
		own = say("give this disk a UUID of its own: e2fsck -fp %s; tune2fs -U random %[1]s && udevadm trigger %[1]s", f.Node())
	}
	if len(f.SameUUID) == 0 {
		return say("if this disk holds the same data as the other disk: hotmount accept %s; otherwise %s", f.Name, own)
	}
	p, path := rival(f)
	if path { // if the disk is a second path, nouuid must not override the kernel's refusal
		return twoPaths(p)
	}
	if other := secondPath(f); other != nil || p.Same(f) {
		own = "if this disk is not a second path to " + cmp.Or(other, p).Name + ": " + own
	}
	if p.Mounted != "" {
		return "detach one of the two disks, or " + own
	}
	return say("detach one of the two disks; if this disk stays refused: hotmount accept %s; or %s", f.Name, own)
}

// formerPlace returns the path at which the disk's filesystem is still mounted as a volume, in a directory that no
// class uses any more. formerPlace returns "" if the disk has no such mount, or if the disk is also in use in another
// way.
func formerPlace(f *disk.Facts) string {
	v := f.Standing.Volume
	others := len(f.Bound) + len(f.Holders) + len(f.Loops)
	if v == nil || v.Directory == "" || len(f.Mounts) != 1 || others > 0 || f.Claim != "" || f.Standing.Unmounted != "" {
		return ""
	}
	if at := f.Mounts[0].Path; at == path.Join(v.Directory, v.UUID) {
		return at
	}
	return ""
}
