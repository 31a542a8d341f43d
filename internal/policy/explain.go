package policy

import (
	"fmt"
	"strings"

	"hotmount/internal/disk"
)

// Condition is one thing that has to be so before a disk is formatted.
type Condition struct {
	// Wanted in words, Held whether it is so, Found what is known of it; empty
	// where Wanted says it all.
	Wanted string
	Held   bool
	Found  string
	// Open says that only reading the disk can tell.
	Open bool
}

// list is a list of conditions in the making.
type list []Condition

func (l *list) add(held bool, wanted, format string, args ...any) {
	*l = append(*l, Condition{Wanted: wanted, Held: held, Found: disk.Visible(fmt.Sprintf(format, args...))})
}

// lifted adds a condition that the operator's accept lifts.
func (l *list) lifted(accepted bool, wanted string, held bool, found string) {
	l.add(held || accepted, wanted+", or it was accepted", "%s%s", found, either(!held && accepted, "; accepted", ""))
}

// former adds a condition that a filesystem is missed, unless that is given up.
func (l *list) former(f *disk.Facts, s *disk.Sighting, r disk.Reason, wanted string) {
	l.lifted(s != nil && !missed(f, s, r), wanted, s == nil, either(s == nil, "none is known", ""))
}

func either(held bool, yes, no string) string {
	if held {
		return yes
	}
	return no
}

// Conditions gives all that has to hold before the disk is formatted by that
// class, or given out by one in block mode, in the order in which Decide asks for it.
// They hold all if and only if Decide answers Format, or Link.
func Conditions(f *disk.Facts, c *disk.Content, s *disk.Settings, class *disk.Class) []Condition {
	if class.Mode == disk.ModeBlock {
		return toGive(f, s, class)
	}
	var all list
	add := all.add
	st := &f.Standing
	free := notOurs(f, class) == "" && ours(f, class) == nil
	add(f.System == "", "it carries nothing of the running system", "%s", either(f.System == "", "", f.System+" is on it"))
	add(f.Whole == "", "it is a whole disk", "%s", either(f.Whole == "", "", "a partition of "+f.Whole+"; partitions are never formatted"))
	add(free, "nobody else has it", "%s", either(free, "not mounted, no swap, not held, not claimed, no path of a multipath device, no seed of cloud-init", string(either(notOurs(f, class) != "", string(notOurs(f, class)), "it is mounted in its place"))))
	add(f.Udev.Initialized, "udev has finished with it", "%s", either(f.Udev.Initialized, "yes", "no"))
	add(unusable(f) == "", "it has a size, no partitions, and takes writes", "%s, partitions: %s, read-only: %v", disk.HumanSize(f.Size), either(len(f.Partitions) > 0, strings.Join(f.Partitions, " "), "none"), f.ReadOnly)
	add(st.Unmounted == "", "nobody has released or unmounted it", "%s", st.Unmounted)
	add(creates(class, c), "its class makes filesystems on blank disks", "create: %s", class.Create)
	add(st.Given == nil, "it was never given out as a block volume", "%s", either(st.Given == nil, "never", "it was"))
	add(f.Size >= class.MinimumSize, "it is large enough", "%s, minimum_size: %s", disk.HumanSize(f.Size), disk.HumanSize(class.MinimumSize))
	failed := st.Verdict.Valid(f) && st.Verdict.Failure != "" && !st.Verdict.Retry
	add(!failed, "no earlier try to format it failed", "%s", either(failed, failure(st.Verdict), "none did"))
	add(!f.Uncounted, "the kernel counts the writes to it", "queue/iostats: %s; %d writes so far", either(f.Uncounted, "0", "1"), f.Writes)
	known := disagrees(f.Udev, c)
	add(!known, "udev knows nothing on it", "ID_FS_TYPE=%s ID_FS_USAGE=%s ID_FS_AMBIVALENT=%s ID_PART_TABLE_TYPE=%s", f.Udev.FSType, f.Udev.FSUsage, f.Udev.Ambivalent, f.Udev.PartTable)
	add(s.Format && st.Formatting == "", "formatting is switched on", "format: %v%s", s.Format, either(st.Formatting == "", "", "; "+st.Formatting))
	doubt := st.Intent != nil && st.Intent.Doubt != "" && !st.OnRecord
	all.lifted(doubt && !disturbed(f), "nobody else was at work on it when it was formatted", !doubt, either(doubt, "somebody was", "nobody was"))
	present := st.Present != nil
	all.lifted(st.Lifted(disk.ReasonPresent, ""), "it was attached after hotmount was installed", !present || s.FormatPresent, either(present, "before", "after"))
	all.lifted(st.Lifted(disk.ReasonUnseen, ""), "every unit file that may claim it can be read", f.Unseen == "", f.Unseen)
	undecided := func(l *disk.Sighting) *disk.Sighting {
		if l != nil && decided(c, l) {
			return nil
		}
		return l
	}
	all.former(f, undecided(st.Before), disk.ReasonBefore, "no filesystem lay on it since it was attached")
	add(sameSerial(f) == nil, "no other disk has its serial, or it was accepted", "%s", either(f.Serial == "", "it has none", "serial "+f.Serial))
	all.former(f, undecided(st.FormerSerial), disk.ReasonFormerSerial, "nothing lay on a disk of its serial")
	slot := st.FormerSlot
	if f.Moved != nil {
		slot = nil
	}
	all.former(f, undecided(slot), disk.ReasonFormerSlot, "nothing is missing that lay in its slot")
	brake := !st.Braked && recent(f, s) < s.FormatLimit
	all.lifted(st.Lifted(disk.ReasonBrake, ""), "not too many disks were formatted lately", brake, fmt.Sprintf("%d within %s, format_limit: %d", recent(f, s), s.FormatPeriod, s.FormatLimit))
	blank := Condition{Wanted: "it is blank, by proof (blank: " + class.Blank + ")"}
	switch {
	case c.Proven && (c.Kind == disk.Blank || c.Kind == disk.HalfMade && begun(f, c)):
		blank.Held = true
	case !c.Proven && (c.Kind == disk.Unread || c.Kind == disk.Blank):
		blank.Open = true
	}
	blank.Found = string(c.Kind)
	if c.Type != "" {
		blank.Found += " " + disk.Visible(c.Type)
	}
	if len(c.Evidence) > 0 {
		blank.Found += ": " + disk.Visible(strings.Join(c.Evidence, "; "))
	}
	return append(all, blank)
}

// toGive gives the conditions of a class in block mode.
func toGive(f *disk.Facts, s *disk.Settings, class *disk.Class) []Condition {
	var all list
	st := &f.Standing
	link := class.LinkTo(f)
	free := notOurs(f, class)
	if st.Link != "" && st.Link == link {
		free = ""
	}
	all.add(f.System == "", "it carries nothing of the running system", "%s", f.System)
	all.add(free == "", "nobody else has it", "%s", free)
	all.add(f.Udev.Initialized, "udev has finished with it", "%s", either(f.Udev.Initialized, "yes", "no"))
	all.add(f.Size > 0 && !f.ReadOnly, "it has a size and takes writes", "%s, read-only: %v", disk.HumanSize(f.Size), f.ReadOnly)
	all.add(link != "", "it has a serial by which it is known", "%s", either(f.Serial == "", "none", f.Serial))
	twice := ""
	for i := range f.SameSerial {
		twice += " " + f.SameSerial[i].Name
	}
	all.add(twice == "", "no other disk has its serial", "%s", strings.TrimSpace(twice))
	all.add(st.Unmounted == "", "nobody has released it", "%s", st.Unmounted)
	same := st.Given == nil || st.Given.Same(f)
	all.lifted(st.Lifted(disk.ReasonOtherBlock, ""), "it is the disk that was given out by this name, if one was", same, either(st.Given == nil, "none was", either(same, "it is", "")))
	old := formerly(st.Given.Place(), s, class)
	all.add(old == nil, "it is no volume of another class, or that is given up", "%s", either(old == nil, "", st.Given.Place().Directory))
	unknown := !f.Holds()
	all.lifted(st.Lifted(disk.ReasonContent, knownUUID(f)), "udev knows nothing on it, or it was given out before", unknown || st.Given != nil, either(unknown, "", held(f)))
	former := st.FormerSerial
	if st.Given != nil {
		former = nil
	}
	all.former(f, former, disk.ReasonFormerSerial, "nothing lay on a disk of its serial, or it was given out before")
	present := st.Present != nil
	all.lifted(st.Lifted(disk.ReasonPresent, ""), "it was attached after hotmount was installed, or given out before", !present || s.FormatPresent || st.Given != nil, either(present, "before", "after"))
	all.lifted(st.Lifted(disk.ReasonUnseen, ""), "every unit file that may claim it can be read, or it was given out before", f.Unseen == "" || st.Given != nil, f.Unseen)
	return all
}

func failure(v *disk.Verdict) string {
	if v == nil {
		return ""
	}
	return v.Failure
}

// Considered is one class as it was asked about a disk.
type Considered struct {
	Class *disk.Class
	// Matches are its selectors, of a partition's disk where the class asks for whole
	// disks.
	Matches []Match
	// Selected says that it asks for the disk, Other that it asks for one of its
	// partitions, or for the partition's disk.
	Selected, Other bool
	// Has says that it has the disk; Verdict is what became of it, in words after the
	// class's name.
	Has     bool
	Verdict string
}

// Excluded is one exclusion that a disk falls under.
type Excluded struct {
	// Index is its place in the configuration, Matches are its selectors, of a
	// partition or of its disk.
	Index   int
	Matches []Match
}

// Consider gives every class in order, and every exclusion that the disk falls
// under. Without an exclusion the first class that is Selected or Other decides, but
// for a volume, which stays with its class (Select).
func Consider(f *disk.Facts, s *disk.Settings) (classes []Considered, exclusions []Excluded) {
	for i := range s.Exclude {
		e := &s.Exclude[i]
		if !excludes(f, e) {
			continue
		}
		of := itself(f)
		if !holds(of, e) {
			of = whole(f)
		}
		exclusions = append(exclusions, Excluded{i, matchesOf(of, e)})
	}
	has, raw := Select(f, s), volume(f, s)
	none := f.System != "" || len(exclusions) > 0
	var before *Considered // decides
	for i := range s.Classes {
		c, of := &s.Classes[i], itself(f)
		if !c.Partitions {
			of = whole(f)
		}
		one := Considered{Class: c, Matches: matchesOf(of, &c.Selectors), Has: has == c, Verdict: "does not select it"}
		barred := c.Partitions && raw
		one.Selected, one.Other = !barred && selects(itself(f), c), !barred && takes(f, c)
		what := "it"
		switch {
		case one.Other && f.Whole != "":
			what = "its disk " + disk.Visible(f.Whole)
		case one.Other:
			what = "its partitions"
		}
		asks := one.Selected || one.Other
		switch {
		case one.Has && !one.Selected:
			one.Verdict = "does not select it, and has it: it is a volume of this class until that ends"
		case one.Has:
			one.Verdict = "has it"
		case asks && before != nil:
			one.Verdict = "would select " + what + ", but " + disk.Visible(before.Class.Name) + " comes first"
		case asks && has != nil:
			one.Verdict = "would select " + what + ", but it is a volume of class " + disk.Visible(has.Name)
		case one.Other && !none:
			one.Verdict = "has " + what
		case asks:
			one.Verdict = "would select " + what
		case barred:
			one.Verdict = "is not asked: it was given out as a block volume, and a class has it for that"
		case !named(of.name, &c.Selectors):
			one.Verdict = "may not select this kind of device: no pattern in names has its letters as they are"
		case unbacked(of, &c.Selectors) != "":
			one.Verdict = "may not select it: " + unbacked(of, &c.Selectors)
		}
		classes = append(classes, one)
		if asks && before == nil {
			before = &one
		}
	}
	return classes, exclusions
}
