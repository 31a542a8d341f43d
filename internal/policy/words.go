package policy

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// wording is the input of the functions that return a rule's words.
type wording struct {
	f *disk.Facts
	c *disk.Content
	s *disk.Settings
	d disk.Decision
	// class is the class that the decision names, or nil.
	class *disk.Class
	rule  *rule
}

// Words returns the reason for the decision in words, and the step that helps the operator. The result `next` is empty
// if no step is needed, or if hotmount knows no step that helps. Words escapes control characters and invalid bytes
// that come from outside hotmount.
func Words(f *disk.Facts, c *disk.Content, s *disk.Settings, d disk.Decision) (why, next string) {
	w := &wording{f, c, s, d, s.Class(d.Class), ruleOf(d.Reason)}
	if w.rule.why != nil {
		why = w.rule.why(w)
	}
	if why == "" {
		why = w.rule.means
		if found := w.found(); found != "" {
			why += ": " + found
		}
	}
	if w.rule.remedy != nil {
		next = w.rule.remedy(w)
	}
	if w.rule.lift&(byAccept|byRetry) != 0 {
		// Words adds the reason to the accept command. If the reason changes before the operator runs the command,
		// hotmount refuses the command, so the command cannot lift a later hold. Words does not change an accept
		// command that already names a reason.
		accept := "hotmount accept " + f.Name
		next = strings.TrimSuffix(strings.ReplaceAll(next+";", accept+";", accept+" "+string(d.Reason)+";"), ";")
	}
	return cmp.Or(why, string(d.Reason)), next
}

// w.found() returns the details on which the decision is based, or "".
func (w *wording) found() string {
	if w.rule.found == nil {
		return ""
	}
	return w.rule.found(w)
}

// textIf returns the text if the first argument is true, or "" otherwise.
func textIf(there bool, text string) string {
	if there {
		return text
	}
	return ""
}

func say(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func visible(s string) string { return disk.Visible(s) }

func joinVisible(all []string) string { return visible(strings.Join(all, ", ")) }

// firstMount returns the first mount point of the disk, or "".
func firstMount(f *disk.Facts) string {
	if len(f.Mounts) == 0 {
		return ""
	}
	return visible(f.Mounts[0].Path)
}

func claimedRemedy(w *wording) string {
	if slices.ContainsFunc(w.s.Classes, func(c disk.Class) bool { return c.Directory == path.Dir(w.f.Claim) }) {
		return "if no PersistentVolume uses the link, remove the link, then: hotmount rescan"
	}
	if !strings.HasPrefix(w.f.Claim, "/run/systemd/generator") {
		return ""
	}
	return "if the disk is no longer in fstab or on the kernel command line: systemctl daemon-reload; hotmount rescan"
}

func udevWhy(w *wording) string {
	// LVM hides a new volume from other udev rules while LVM zeroes the start of the volume. udev can miss the event
	// that makes the volume visible, because udev lets LVM continue before udev watches the device.
	if w.f.MapperName != "" {
		return "udev has not finished with the disk, or LVM has hidden the disk from udev's rules"
	}
	return w.rule.means
}

// giveUp returns the remedy for a disk on which data is missing.
func giveUp(w *wording) string {
	return "find out where the missing data is; if nobody needs this data: hotmount accept " + w.f.Name
}

// The function `held` describes in words what is on the disk according to udev and the kernel.
func held(f *disk.Facts) string {
	switch {
	case len(f.Partitions) > 0:
		return "partitions " + joinVisible(f.Partitions)
	case f.Udev.PartTable != "":
		return "a partition table, " + visible(f.Udev.PartTable)
	case f.Udev.FSType != "" && knownUUID(f) != "":
		return visible(f.Udev.FSType) + " " + knownUUID(f)
	case f.Udev.FSType != "":
		return visible(f.Udev.FSType)
	}
	return "something that udev does not name"
}

// sighted describes content that lay on a disk earlier, and the time of the last record of this content.
func sighted(l *disk.Sighting) string {
	if l == nil {
		return ""
	}
	return say("%s (recorded %s)", visible(strings.TrimSpace(l.Type+" "+l.UUID)), l.Mounted.UTC().Format("2006-01-02 15:04 MST"))
}

// sightedOn describes the disk from which the filesystem was mounted, and the time of the mount.
func sightedOn(l *disk.Sighting) string {
	return say("%s, mounted %s", identified(l.Identity), l.Mounted.UTC().Format("2006-01-02 15:04 MST"))
}

func identified(id disk.Identity) string {
	return say("a disk of %s (%s, at %s)", disk.HumanSize(id.Size), hardware(id.Serial, id.WWN), slot(id.Slot))
}

func serial(s string) string {
	if s == "" {
		return "no serial"
	}
	return "serial " + visible(s)
}

// hardware returns a text with the serial of a disk, or with its WWN if the disk has only a WWN. If the disk has
// neither, the text is "no serial".
func hardware(s, wwn string) string {
	if s == "" && wwn != "" {
		return "WWN " + visible(wwn)
	}
	return serial(s)
}

func slot(s string) string { return visible(cmp.Or(s, "an unknown slot")) }

func place(id disk.ID, slot string) string {
	if slot == "" {
		return id.String()
	}
	return id.String() + " at " + visible(slot)
}

// goneDiskBelow returns the name and the serial of the detached disk below this device, or "".
func goneDiskBelow(f *disk.Facts) string {
	u := f.Lost()
	if u == nil {
		return ""
	}
	return visible(u.Name) + textIf(u.Serial != "", ", "+serial(u.Serial))
}

// lostRemedy returns what helps once the missing disk is attached again. The operator must unmount the device first,
// because a mounted device cannot be set up again.
func lostRemedy(w *wording) string {
	if w.f.Multipath() {
		return "attach one of the device's disks again; multipathd then sets the device up again by itself; to see the paths: multipath -ll"
	}
	return "once the lost disk is attached again" + textIf(len(w.f.Mounts) > 0, " and no pod uses this device") + ": " + textIf(w.d.Mounted(), "hotmount release "+w.f.Name+"; ") +
		cmp.Or(w.f.Reopen(), "close this device and the devices below it; then open these devices again, with the same tools as before")
}

// The function `wipe` returns the remedy for a disk whose content is not needed. The remedy names only steps that help,
// such as a format by hand or by token. The host must not change an attached disk, because hotmount cannot see the
// change and the disk may be in use.
func wipe(w *wording) string {
	f := w.f
	if p := secondPath(f); p != nil {
		return twoPaths(p)
	}
	// Only the records show whether somebody else used the disk.
	if unread := recordsUnread(f); unread != "" {
		return unread
	}
	d, ok := Confirmable(f, w.c, w.s)
	hand := say("if nothing on the disk is needed, format the disk by hand: wipefs -a %s; mkfs.%s %[1]s", f.Node(), byHand(w))
	switch {
	case ok:
		return "if nothing on the disk is needed: hotmount format " + f.Name
	case f.Standing.Given != nil:
		return hand + say("; hotmount accept %s %s", f.Name, disk.ReasonFormerBlock)
	case d.Reason == disk.ReasonFormatOff:
		return formatOffRemedy(w) + "; then, if nothing on the disk is needed: hotmount format " + f.Name
	case f.Whole != "", d.Reason == disk.ReasonNoCreate:
		return hand
	case d.Reason == disk.ReasonTooSmall:
		return "attach a larger disk"
	}
	// If standard input is a terminal, blkdiscard refuses a disk on which libblkid recognises content.
	return say("if nothing on the disk is needed: blkdiscard -z %s </dev/null; or detach the disk and attach a new one", f.Node())
}

// recordsUnread returns the words for a disk that nobody may overwrite because hotmount could not read the records or
// the hold file. recordsUnread returns "" if hotmount has read the records and the hold file.
func recordsUnread(f *disk.Facts) string {
	off := f.Standing.Formatting
	if slices.Contains([]string{"", disk.HeldBack, disk.OffAtBoot, disk.StateFull}, off) || strings.HasPrefix(off, disk.StateGap) {
		return ""
	}
	why, helps, _ := strings.Cut(off, disk.Helps)
	return "nothing on the disk may be overwritten yet: " + visible(why) + textIf(helps != "", disk.Helps+visible(helps))
}

// onlyPath returns the given remedy, except in two cases. The given remedy writes to the disk. For a disk that may be a
// second path to a disk in use, onlyPath returns the text of twoPaths. If hotmount could not read the records, onlyPath
// returns the text of recordsUnread.
func onlyPath(f *disk.Facts, remedy string) string {
	if p := secondPath(f); p != nil {
		return twoPaths(p)
	}
	return cmp.Or(recordsUnread(f), remedy)
}

// sharedWith returns in words the identifier that the disk f shares with the disk p. The disk f may be a second path to
// the disk p.
func sharedWith(f *disk.Facts, p *disk.Peer) string {
	switch {
	case disk.SameSerial(f.Serial, p.Serial):
		return "serial " + visible(f.Serial)
	case f.WWN != "" && f.WWN == p.WWN:
		return "WWN " + visible(f.WWN)
	}
	return "filesystem " + p.UUID + " (no serial tells the two disks apart)"
}

// twoPaths returns the remedy for a disk that may be a second path to the disk p. A write to a second path reaches the
// disk p, which is in use.
func twoPaths(p *disk.Peer) string {
	return say("if this disk is a second path to %s: leave this disk to multipathd, or exclude this disk in the configuration; otherwise attach this disk with a serial of its own", p.Name)
}

// byHand returns the type for a filesystem that the operator makes by hand. The disk's class mounts filesystems of this
// type.
func byHand(w *wording) string {
	if w.class != nil && len(w.class.Accept) > 0 && !slices.Contains(w.class.Accept, disk.XFS) {
		return w.class.Accept[0]
	}
	return disk.XFS
}

// Check returns the command with which an operator checks a filesystem of that type on the disk. The command changes
// nothing.
func Check(f *disk.Facts, fstype string) string {
	if fstype == "xfs" {
		return "xfs_repair -n " + f.Node()
	}
	return "e2fsck -fn " + f.Node()
}

func describe(c *disk.Content) string {
	if file, _ := fileIs(c.Type); file != "" {
		return "what looks like " + file
	}
	if c.Type == disk.Ambivalent {
		return "the signatures of more than one format"
	}
	if c.Type == "" {
		return "something other than a filesystem with a UUID"
	}
	return visible(c.Type)
}

func evidence(c *disk.Content) string {
	if len(c.Evidence) == 0 {
		return ""
	}
	return " (" + strings.Join(c.Evidence, "; ") + ")"
}

// wasGiven describes the disk that was given out according to Standing.Given.
func wasGiven(f *disk.Facts) string {
	switch {
	case f.Whole != "":
		return "the whole disk " + visible(f.Whole)
	case f.Transport == "dm" || f.Transport == "md":
		return "the disk, or a disk below it,"
	}
	return "the disk"
}
