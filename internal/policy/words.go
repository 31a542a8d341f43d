package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// Words says why a decision was taken, and which command or act helps; next is
// empty where nothing needs to be done. Foreign bytes in them are made visible.
func Words(f *disk.Facts, c *disk.Content, s *disk.Settings, d disk.Decision) (why, next string) {
	switch d.Reason {
	case disk.ReasonSystem:
		return fmt.Sprintf("it carries the system: %s is on it", f.System), ""
	case disk.ReasonElsewhere:
		return "it is mounted at " + disk.Visible(f.Mounts[0].Path), ""
	case disk.ReasonSwap:
		return "it is swap space in use", ""
	case disk.ReasonMultipath:
		return "it is a path of a multipath device", ""
	case disk.ReasonNotReady:
		return "a udev rule says that it is not ready for use (SYSTEMD_READY=0)", ""
	case disk.ReasonHeld:
		if len(f.Holders) == 0 && len(f.Loops) > 0 {
			return f.Through(), fmt.Sprintf("what it is for: losetup -l /dev/%[1]s, lsblk /dev/%[1]s; once nothing needs it: losetup -d /dev/%[1]s; hotmount rescan", f.Loops[0])
		}
		return "it is held by " + disk.Visible(strings.Join(f.Holders, ", ")), ""
	case disk.ReasonClaimed:
		if strings.HasPrefix(f.Claim, "/run/systemd/generator") {
			next = "if that is no longer wanted (in fstab, or on the kernel command line): systemctl daemon-reload; hotmount rescan"
		}
		return "it is claimed in " + disk.Visible(f.Claim), next
	case disk.ReasonSeed:
		return fmt.Sprintf("its label %s says that it is a cloud-init seed", disk.Visible(f.Udev.FSLabel)), ""
	case disk.ReasonPartitioned:
		return "it has partitions, and a class asks for them: " + disk.Visible(strings.Join(f.Partitions, ", ")), ""
	case disk.ReasonWhole:
		class, _ := first(f, s)
		return fmt.Sprintf("class %s comes first and has its disk %s with all that is on it", disk.Visible(class.Name), disk.Visible(f.Whole)), ""
	case disk.ReasonPartition:
		return "it is a partition on which no finished filesystem is known, and partitions are never formatted" + evidence(c), onlyPath(f, fmt.Sprintf("if nothing on it is wanted: mkfs.%s %s by hand", byHand(f, s), f.Node()))
	case disk.ReasonNoClass:
		return "no class selects it", ""
	case disk.ReasonExcluded:
		return fmt.Sprintf("the configuration excludes it (exclude[%d])", excluded(f, s)), ""
	case disk.ReasonUdev:
		if f.MapperName != "" {
			// LVM hides a new volume from other rules while it zeroes its start, and
			// the event that ends this can be lost: udev begins to watch a device only
			// after it has told LVM to go on.
			return "udev has not finished with it, or LVM has hidden it", "if it stays so: udevadm trigger -c change " + f.Node()
		}
		// Or it had before hotmount's rules were there.
		return "udev has not finished with it", "if it stays so: udevadm trigger -c change " + f.Node()
	case disk.ReasonSize:
		return "it has no size", ""
	case disk.ReasonReadOnly:
		return "the kernel refuses writes to it", "attach it writable"
	case disk.ReasonPartitions:
		return "it has partitions: " + disk.Visible(strings.Join(f.Partitions, ", ")), wipe(f, c, s)
	case disk.ReasonHalfMade:
		if i := f.Standing.Intent; i != nil && c.UUID == i.UUID {
			return fmt.Sprintf("mkfs.xfs did not finish on it, and the unfinished filesystem %s was begun on %s, of which this may be a copy", c.UUID, begunOn(f.Standing.Intent)), wipe(f, c, s)
		}
		return fmt.Sprintf("mkfs.xfs did not finish on it, and this node has no record of having begun the unfinished filesystem %s", c.UUID), wipe(f, c, s)
	case disk.ReasonTwin:
		return twinWords(f, d)
	case disk.ReasonType:
		return fmt.Sprintf("it holds %s, which class %s does not accept", disk.Visible(c.Type), d.Class), "add " + disk.Visible(c.Type) + " to the class's accept, or detach the disk"
	case disk.ReasonOther:
		return fmt.Sprintf("it holds %s%s", describe(c), evidence(c)), wipe(f, c, s)
	case disk.ReasonUnknown:
		if i := f.Standing.Intent; i != nil && i.Over {
			return fmt.Sprintf("the operator had %s formatted, which did not finish, and what is left on it is not known%s", intended(f), evidence(c)), wipe(f, c, s)
		}
		return "what is on it is not known" + evidence(c), wipe(f, c, s)
	case disk.ReasonTooSmall:
		return fmt.Sprintf("its %s are less than the %s that class %s asks for", disk.HumanSize(f.Size), disk.HumanSize(minimum(s, d.Class)), d.Class), "attach a larger disk"
	case disk.ReasonNoCreate:
		if c.Kind == disk.HalfMade {
			return fmt.Sprintf("this node's format of it with %s did not finish, and class %s does not make that any more", disk.Visible(c.Type), d.Class), "create: " + disk.Visible(c.Type) + " in the class, until it is made; or " + wipe(f, c, s)
		}
		return fmt.Sprintf("no filesystem is known on it, and class %s creates none", d.Class), ""
	case disk.ReasonFormatFailed:
		return "formatting it failed: " + disk.Visible(f.Standing.Verdict.Failure), fmt.Sprintf("see journalctl -u hotmount-format@%d; once that is mended: hotmount accept %s", f.Seq, f.Name)
	case disk.ReasonUncounted:
		return "the kernel does not count the writes to it (queue/iostats), so that nobody can tell whether somebody writes to it", fmt.Sprintf("echo 1 >/sys/block/%s/queue/iostats; systemctl reload hotmount", f.Name)
	case disk.ReasonDisagree:
		return "it was read as blank, and udev knows something on it", "udevadm trigger -s block -y " + f.Name
	case disk.ReasonShared:
		if Intent(f, c) != nil && f.Standing.IntentBySlot {
			return fmt.Sprintf("it, or a disk that was in its slot, was blank to this node, which has no record of the %s %s that it holds now: another disk came, or another machine has the disk, too, or had it", disk.Visible(d.Type), d.UUID),
				"make sure that no other machine has it, then: hotmount accept " + f.Name
		}
		return fmt.Sprintf("it was blank to this node, and now it holds %s %s, which was not made here: another machine has the disk, too, or had it", disk.Visible(d.Type), d.UUID),
			"make sure that no other machine has it, then: hotmount accept " + f.Name
	case disk.ReasonOverwrite:
		if f.Standing.IntentDoubt {
			return fmt.Sprintf("the operator wanted %s formatted, which came to nothing; if it was this one, the %s %s that it holds may be damaged", intended(f), disk.Visible(d.Type), d.UUID),
				fmt.Sprintf("if it is another, or to use it as it is: hotmount accept %s; %s", f.Name, wipe(f, c, s))
		}
		return fmt.Sprintf("the operator wanted it formatted, which came to nothing, and what it held, %s %s, is still there and may be damaged", disk.Visible(d.Type), d.UUID),
			fmt.Sprintf("to use it as it is: hotmount accept %s; %s", f.Name, wipe(f, c, s))
	case disk.ReasonTorn:
		// Nobody can tell whether anything was stored on it: it may have been mounted
		// where this node has no record of it.
		return fmt.Sprintf("this node's format of it did not finish: the superblock of %s %s is there, and not all of the rest%s", disk.Visible(d.Type), d.UUID, evidence(c)),
			"to look at it: " + Check(f, d.Type) + "; " + wipe(f, c, s)
	case disk.ReasonDisturbed:
		i := f.Standing.Intent
		on := "it"
		if f.Standing.IntentBySlot {
			on = "it, or on a disk that was in its slot"
		}
		why = fmt.Sprintf("this node made %s %s on %s, and somebody else was, or may have been, at work on it before that was read back: %s", i.Type(), i.UUID, on, disk.Visible(i.Doubt))
		if c.Kind != disk.Filesystem {
			return why + "; it is not there any more", "make sure that nobody else has the disk, then: hotmount accept " + f.Name
		}
		return why + "; it may be damaged, and so may be what they wrote",
			fmt.Sprintf("find out who has the disk; then, to use it as it is: hotmount accept %s; %s", f.Name, wipe(f, c, s))
	case disk.ReasonFormatOff:
		if f.Standing.Formatting != "" {
			return "nothing is formatted: " + f.Standing.Formatting, ""
		}
		return "nothing is formatted: format: false in the configuration", ""
	case disk.ReasonPresent:
		p := f.Standing.Present
		return fmt.Sprintf("nothing is known on it, and a disk that may be it (sequence number %d then, %s, at %s, %s) was attached before hotmount was installed", p.Seq, serial(p.Serial), disk.Visible(cmp.Or(p.Slot, "an unknown place")), disk.HumanSize(p.Size)), "hotmount accept " + f.Name
	case disk.ReasonUnseen:
		file := disk.Visible(f.Unseen)
		return fmt.Sprintf("%s may claim it, and hotmount can not read that: it does not look into home directories, /tmp and /var/tmp", file),
			fmt.Sprintf("cat %s; if that is for another disk: hotmount accept %s; for all disks: put there the file itself, not a link to it, then: hotmount rescan", file, f.Name)
	case disk.ReasonSameSerial:
		return sameSerialWords(f), "hotmount accept " + f.Name
	case disk.ReasonBefore:
		return fmt.Sprintf("it looks blank, and since it was attached %s lay on it: this may be a fault of the storage", former(f.Standing.Before)), "if that is given up: hotmount accept " + f.Name
	case disk.ReasonFormerSerial:
		return fmt.Sprintf("it looks blank, and on the disk with its serial %s lay %s: this may be a fault of the storage", disk.Visible(f.Serial), former(f.Standing.FormerSerial)), "if that is given up: hotmount accept " + f.Name
	case disk.ReasonFormerSlot:
		return fmt.Sprintf("it looks blank, and at the last boot %s lay on a disk of its size at %s and is missing now: this may be a fault of the storage", former(f.Standing.FormerSlot), disk.Visible(f.Slot)), "if that is given up: hotmount accept " + f.Name
	case disk.ReasonBrake:
		return fmt.Sprintf("it came when as many disks had been formatted as format_limit allows (%d within %s)", s.FormatLimit, s.FormatPeriod), "hotmount accept " + f.Name + ", or see hotmount history"
	case disk.ReasonGivenElse:
		return wasGiven(f) + " is given out as a block volume at " + disk.Visible(f.Standing.Link), givenElseNext(f)
	case disk.ReasonNoSerial:
		if f.Transport == "loop" {
			return "a block volume is known by its serial, and a loop device has none", "have a class with mode: filesystem select it"
		}
		return "it has no serial, or one that is too long, and a block volume is known by its serial: without one it can not be told from another disk", "attach it with a serial (virsh attach-disk --serial)"
	case disk.ReasonSerialTwice:
		// A block volume is told from others by its serial alone.
		class := Select(f, s)
		if p := secondPath(f); p != nil && (disk.SameSerial(f.Serial, p.Serial) || class == nil || class.Mode != disk.ModeBlock) {
			return fmt.Sprintf("another disk has its %s and is in use (%s): %s; this may be a second path to it", sharedWith(f, p), disk.Visible(p.InUse), place(p.ID, p.Slot)), twoPaths(p)
		}
		return fmt.Sprintf("another disk has its serial %s: %s (virtio cuts serials at 20 characters); as block volumes they could not be told apart", disk.Visible(f.Serial), place(f.SameSerial[0].ID, f.SameSerial[0].Slot)), "attach each with a serial of its own"
	case disk.ReasonNeverFormat:
		return fmt.Sprintf("%s was given out as a block volume (%s, first on %s), and is never formatted by hotmount, whatever it looks like", wasGiven(f), disk.Visible(f.Standing.Given.Link), f.Standing.Given.First.UTC().Format("2006-01-02")),
			onlyPath(f, fmt.Sprintf("if nobody needs what is on it: mkfs.%s %s by hand, then hotmount accept %s", byHand(f, s), f.Node(), f.Name))
	case disk.ReasonFormerBlock:
		return fmt.Sprintf("%s was given out as a block volume (%s), and it holds %s %s", wasGiven(f), disk.Visible(f.Standing.Given.Link), disk.Visible(d.Type), d.UUID), "if nobody has that volume any more: hotmount accept " + f.Name
	case disk.ReasonOtherBlock:
		return otherBlockWords(f), "if it is the same, or nobody has that volume any more: hotmount accept " + f.Name
	case disk.ReasonOtherClass:
		class := Select(f, s)
		was := f.Standing.Volume.Place()
		if class.Mode == disk.ModeBlock {
			was = f.Standing.Given.Place()
		}
		old := formerly(was, s, class)
		return fmt.Sprintf("it was a volume of class %s (%s), and class %s (%s) selects it now: as a volume of that it would show what is on it under another name", disk.Visible(old.Name), old.Directory, disk.Visible(class.Name), class.Directory),
			fmt.Sprintf("if class %s shall have it, and nobody needs the old volume: hotmount accept %s; else mend the selectors (hotmount explain %[2]s)", disk.Visible(class.Name), f.Name)
	case disk.ReasonContent:
		return "whoever gets it as a block volume overwrites what is on it: " + held(f), "if nothing on it is wanted: hotmount accept " + f.Name
	case disk.ReasonBlock:
		return fmt.Sprintf("class %s gives it out as a block volume", d.Class), ""
	case disk.ReasonGivenOut:
		return "it is given out as a block volume at " + disk.Visible(f.Standing.Link), ""
	case disk.ReasonReleased:
		return "it was released", fmt.Sprintf("whether it is safe to detach says hotmount release %s; to use it again here: hotmount accept %[1]s", f.Name)
	case disk.ReasonUnmounted:
		return "somebody unmounted it", "to have it mounted again: hotmount accept " + f.Name
	case disk.ReasonIntent:
		if f.Standing.IntentBySlot {
			return "an earlier format of it, or of a disk that was in its slot, did not finish", ""
		}
		return "an earlier format of it did not finish", ""
	case disk.ReasonUnread:
		return "nothing is known on it; whether it is blank has to be proven", ""
	case disk.ReasonBlank:
		return "it is blank" + evidence(c), ""
	case disk.ReasonFilesystem:
		why := fmt.Sprintf("it holds %s %s", disk.Visible(d.Type), d.UUID)
		if l := f.Standing.LastOn; l != nil {
			why += ", which was last mounted from another disk: " + sightedOn(l)
		}
		return why, ""
	case disk.ReasonMisplaced:
		m := ours(f, Select(f, s))
		at := disk.Visible(m.Path)
		return fmt.Sprintf("it holds %s, and is mounted at %s, where another filesystem belongs: whoever uses that path has the wrong data", misplaced(f, m), at), outdated(f, m) + "stop who uses it, then umount " + at
	case disk.ReasonFault:
		return "it is mounted, and " + f.Fault + " (see journalctl -k)", fmt.Sprintf("stop who uses it, hotmount release %s, then %s", f.Name, Check(f, d.Type))
	case disk.ReasonShrunk:
		return shrunkWords(f, c, d)
	case disk.ReasonSmaller:
		return fmt.Sprintf("its filesystem takes %s of its %s", disk.ExactSize(f.Geometry.Size), disk.ExactSize(f.Size)), ""
	case disk.ReasonUnmeasured:
		return "it is mounted, and whether its filesystem fills it has to be measured", ""
	case disk.ReasonMounted:
		if v := f.Standing.Fit; v.Valid(f) && v.Failure != "" {
			return "it is mounted, and its filesystem could not be made to fill it: " + disk.Visible(v.Failure), fmt.Sprintf("once that is mended: systemctl start hotmount-grow@%d", f.Seq)
		}
		return "it is mounted", ""
	}
	return string(d.Reason), ""
}

// held names what udev and the kernel know on a disk.
func held(f *disk.Facts) string {
	switch {
	case len(f.Partitions) > 0:
		return "partitions " + disk.Visible(strings.Join(f.Partitions, ", "))
	case f.Udev.PartTable != "":
		return "a partition table, " + disk.Visible(f.Udev.PartTable)
	case f.Udev.FSType != "" && knownUUID(f) != "":
		return disk.Visible(f.Udev.FSType) + " " + knownUUID(f)
	case f.Udev.FSType != "":
		return disk.Visible(f.Udev.FSType)
	}
	return "something that udev does not name"
}

// former names what lay on a disk once.
func former(l *disk.Sighting) string {
	return fmt.Sprintf("%s (last seen %s)", disk.Visible(strings.TrimSpace(l.Type+" "+l.UUID)), l.Mounted.UTC().Format("2006-01-02 15:04 MST"))
}

// intended names the disk that the operator's word was for.
func intended(f *disk.Facts) string {
	if f.Standing.IntentDoubt {
		return "it, or " + begunOn(f.Standing.Intent) + ","
	}
	return "it"
}

// begunOn names the disk of an intent.
func begunOn(i *disk.Intent) string { return identified(i.Identity) }

// sightedOn names the disk that a filesystem was mounted from.
func sightedOn(l *disk.Sighting) string {
	return fmt.Sprintf("%s, mounted %s", identified(l.Identity), l.Mounted.UTC().Format("2006-01-02 15:04 MST"))
}

func identified(id disk.Identity) string {
	return fmt.Sprintf("a disk of %s (%s, at %s)", disk.HumanSize(id.Size), serial(id.Serial), disk.Visible(cmp.Or(id.Slot, "an unknown place")))
}

// wipe is the remedy for a disk whose content is not wanted any more, where it would help:
// it is the operator's own act, on the host or here, or needs the operator's word. What is
// changed on the host beneath an attached disk nobody here sees, and it may be in use.
func wipe(f *disk.Facts, c *disk.Content, s *disk.Settings) string {
	if p := secondPath(f); p != nil {
		return twoPaths(p)
	}
	d, ok := Confirmable(f, c, s)
	hand := fmt.Sprintf("if nothing on it is wanted: wipefs -a %s, then mkfs.%s %[1]s, by hand", f.Node(), byHand(f, s))
	switch {
	case f.Whole != "", d.Reason == disk.ReasonNoCreate:
		return hand
	case d.Reason == disk.ReasonNeverFormat:
		return hand + ", then hotmount accept " + f.Name
	case d.Reason == disk.ReasonTooSmall:
		return "attach a larger disk"
	}
	// From a terminal blkdiscard refuses what libblkid knows, unless it is told to do without
	// the exclusive open.
	next := fmt.Sprintf("if nothing on it is wanted: detach it, virsh vol-wipe or a new volume on the host, attach it again; or blkdiscard -z %s </dev/null here", f.Node())
	if ok {
		next += "; or hotmount format " + f.Name
	}
	return next
}

// onlyPath gives next, which writes to the disk, unless that may be a second path to one in use.
func onlyPath(f *disk.Facts, next string) string {
	if p := secondPath(f); p != nil {
		return twoPaths(p)
	}
	return next
}

// sharedWith says what the disk has in common with the one to which it may be another path.
func sharedWith(f *disk.Facts, p *disk.Peer) string {
	switch {
	case disk.SameSerial(f.Serial, p.Serial):
		return "serial " + disk.Visible(f.Serial)
	case f.WWN != "" && f.WWN == p.WWN:
		return "WWN " + disk.Visible(f.WWN)
	}
	return "filesystem " + p.UUID + ", no serial that tells them to be two,"
}

// twoPaths is what helps where a disk may be a second path to one in use: what is written to
// it is written to that.
func twoPaths(p *disk.Peer) string {
	return fmt.Sprintf("if it is a second path to %s: leave it to multipathd, or exclude it in the configuration; if it is not: attach it with a serial of its own", p.Name)
}

// byHand is the type of a filesystem that the disk's class mounts.
func byHand(f *disk.Facts, s *disk.Settings) string {
	if class := Select(f, s); class != nil && len(class.Accept) > 0 && !slices.Contains(class.Accept, disk.XFS) {
		return class.Accept[0]
	}
	return disk.XFS
}

// Check is the command with which a person looks what is wrong with a filesystem
// of that type on the disk. It changes nothing.
func Check(f *disk.Facts, fstype string) string {
	if fstype == "xfs" {
		return "xfs_repair -n " + f.Node()
	}
	return "e2fsck -fn " + f.Node()
}

func describe(c *disk.Content) string {
	if c.Type == "" {
		return "something that is no filesystem with a UUID"
	}
	return disk.Visible(c.Type)
}

func evidence(c *disk.Content) string {
	if len(c.Evidence) == 0 {
		return ""
	}
	return " (" + strings.Join(c.Evidence, "; ") + ")"
}

func minimum(s *disk.Settings, class string) uint64 {
	for i := range s.Classes {
		if s.Classes[i].Name == class {
			return s.Classes[i].MinimumSize
		}
	}
	return 0
}

func place(id disk.ID, slot string) string {
	if slot == "" {
		return id.String()
	}
	return id.String() + " at " + disk.Visible(slot)
}

func twinWords(f *disk.Facts, d disk.Decision) (why, next string) {
	// What was copied while it was mounted has a log that xfs_admin wants replayed, and
	// the kernel refuses the twin of what is mounted. Mounted below /run, not in the way
	// of a class directory. udev hears of no write to a disk on which it works just then, as on
	// the write before: it is asked to look once more.
	own := fmt.Sprintf("give this one a UUID of its own: mkdir -p /run/twin && mount -o nouuid %s /run/twin && umount /run/twin && xfs_admin -U generate %[1]s && udevadm trigger %[1]s", f.Node())
	if d.Type != "xfs" {
		own = fmt.Sprintf("give this one a UUID of its own: e2fsck -fp %s; tune2fs -U random %[1]s && udevadm trigger %[1]s", f.Node())
	}
	if len(f.SameUUID) == 0 && replaces(f) {
		left := "nobody saw leaving"
		if f.Standing.Beside {
			left = "left when this one was attached already"
		}
		return fmt.Sprintf("its UUID %s was last mounted from another disk, which %s: %s; volumes of that UUID would show this disk's data (%s)", d.UUID, left, sightedOn(f.Standing.LastOn), serial(f.Serial)),
			fmt.Sprintf("if they shall, since it is the same data: hotmount accept %s; else %s", f.Name, own)
	}
	if len(f.SameUUID) == 0 && f.Serial != "" && f.Standing.OnRecord {
		return fmt.Sprintf("a disk with its serial %s was refused while another had its UUID %s, and this may be it: volumes of that UUID would show this disk's data", disk.Visible(f.Serial), d.UUID),
			fmt.Sprintf("if they shall: hotmount accept %s; else %s", f.Name, own)
	}
	if len(f.SameUUID) == 0 {
		return fmt.Sprintf("it came while another disk had its UUID %s, and that one is gone: volumes of that UUID would show this disk's data", d.UUID),
			fmt.Sprintf("if they shall: hotmount accept %s; else %s", f.Name, own)
	}
	p := &f.SameUUID[0]
	i := slices.IndexFunc(f.SameUUID, func(p disk.Peer) bool { return p.InUse != "" && disk.SameSerial(p.Serial, f.Serial) })
	if i >= 0 {
		p = &f.SameUUID[i]
	}
	why = fmt.Sprintf("it has the UUID %s of another disk: %s (%s) and %s (%s)", d.UUID, place(p.ID, p.Slot), serial(p.Serial), place(f.ID, f.Slot), serial(f.Serial))
	if i >= 0 { // the kernel refuses the twin of what is mounted, and must not be told otherwise
		return why + "; the other is in use (" + disk.Visible(p.InUse) + "), and this may be a second path to it", twoPaths(p)
	}
	if p := secondPath(f); p != nil {
		own = "if it is no second path to " + p.Name + ": " + own
	}
	if p.Mounted != "" {
		return why + "; the other is mounted at " + disk.Visible(p.Mounted), "detach one, or " + own
	}
	return why, "detach one, and if the other stays refused, accept it (hotmount accept DISK), or " + own
}

func shrunkWords(f *disk.Facts, c *disk.Content, d disk.Decision) (why, next string) {
	span, state := c.Span, "it is not mounted"
	if d.Mounted() {
		span, state = f.Spans().Size, "it is still mounted"
	}
	return fmt.Sprintf("the disk has shrunk: %s %s takes %s, and the disk has only %s; %s, and what lay beyond the end is out of reach", disk.Visible(d.Type), d.UUID, disk.ExactSize(span), disk.ExactSize(f.Size), state),
		fmt.Sprintf("make it at least %d bytes again, at once (on the host: virsh blockresize), and check the filesystem before it is used", span)
}

// outdated has udev look once more where the kernel alone knows what it has mounted: by udev's word it would be mounted
// there again.
func outdated(f *disk.Facts, m *disk.MountPoint) string {
	if strings.EqualFold(f.Udev.FSUUID, misplaced(f, m)) {
		return ""
	}
	return "udevadm trigger --action=change " + f.Node() + "; "
}

func givenElseNext(f *disk.Facts) string {
	if f.Whole == "" && f.OwnLink() == "" {
		return fmt.Sprintf("to use it otherwise: hotmount release the disk that readlink -f %s names", disk.Visible(f.Standing.Link))
	}
	return "to use it otherwise: hotmount release " + cmp.Or(f.Whole, f.Name)
}

// wasGiven names the disk of Standing.Given.
func wasGiven(f *disk.Facts) string {
	switch {
	case f.Whole != "":
		return "its disk " + disk.Visible(f.Whole)
	case f.Transport == "dm":
		return "it, or a disk below it,"
	}
	return "it"
}

// otherBlockWords says why a disk may not be the one that was given out by its name.
func otherBlockWords(f *disk.Facts) string {
	g := f.Standing.Given
	why := fmt.Sprintf("by its serial %s it would have the name of a block volume (%s) that was on a disk of %s, WWN %s, at %s: it may be another disk", disk.Visible(f.Serial), disk.Visible(g.Link), disk.ExactSize(g.Size), disk.Visible(cmp.Or(g.WWN, "unknown")), disk.Visible(cmp.Or(g.Slot, "an unknown place")))
	if g.Twice {
		why += ", for two with this serial were seen, and this one is at " + disk.Visible(cmp.Or(f.Slot, "an unknown place"))
		if f.Holds() {
			why += ", and holds " + held(f)
		}
		return why
	}
	if f.SerialCut() && f.Holds() {
		return why + ", of which virtio cut the serial, and it holds " + held(f)
	}
	return why
}

func serial(s string) string {
	if s == "" {
		return "no serial"
	}
	return "serial " + disk.Visible(s)
}

func sameSerialWords(f *disk.Facts) string {
	p := sameSerial(f)
	why := fmt.Sprintf("it looks blank and has the serial %s of another disk: %s and %s", disk.Visible(f.Serial), place(p.ID, p.Slot), place(f.ID, f.Slot))
	if what := strings.TrimSpace(p.Type + " " + p.UUID); what != "" {
		why += "; the other holds " + disk.Visible(what)
	}
	return why
}
