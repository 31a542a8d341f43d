package policy

import (
	"strings"

	"hotmount/internal/disk"
)

// Condition is one condition for formatting a disk.
type Condition struct {
	// Wanted is the condition in words. The field Held reports whether the condition is met. Found is what is known
	// about the condition, or empty if Wanted needs no details.
	Wanted string
	Held   bool
	Found  string
	// Names is true if Found names data or a disk. A token that overrides the condition is then valid only for the same
	// text in Found.
	Names bool
	// Open is true if only a read of the disk can show whether the condition is met.
	Open bool
}

// Conditions returns the conditions under which the class formats the disk, or in block mode gives it out. Each
// condition corresponds to a rule that would otherwise prevent the format or the link. The conditions are in the order
// in which Decide checks the rules. All conditions are met if and only if Decide returns Format or Link, or the disk is
// already given out.
func Conditions(f *disk.Facts, c *disk.Content, s *disk.Settings, class *disk.Class) []Condition {
	in := input{f, c, s, class, blank}
	if class.Mode == disk.ModeBlock {
		in.situation = raw
	}
	unaccepted := *f
	unaccepted.Standing.Accepted = nil
	without := in
	without.f = &unaccepted
	var all []Condition
	for i := range rules {
		r := &rules[i]
		if r.situations&in.situation == 0 || r.condition == "" {
			continue
		}
		w := &wording{f, c, s, disk.Decision{}, class, ruleOf(r.reason)}
		one := Condition{Wanted: r.condition, Held: !r.when(in), Found: w.found(), Names: w.rule.kind == HoldData || w.rule.kind == HoldIdentity}
		if r.lift&byAccept != 0 {
			one.Wanted += ", or the disk was accepted"
			if one.Held && r.when(without) {
				one.Found = strings.TrimPrefix(one.Found+"; accepted", "; ")
			}
		}
		all = append(all, one)
	}
	if in.situation == raw {
		return all
	}
	return append(all, isBlank(in))
}

// isBlank returns the condition that the disk is proven blank. hotmount must read the disk for the proof.
func isBlank(in input) Condition {
	c := in.c
	one := Condition{Wanted: "the disk is proven blank (blank: " + in.class.Blank + ")", Found: string(c.Kind)}
	switch {
	case c.Proven:
		one.Held = c.Kind == disk.Blank || c.Kind == disk.HalfMade && begunHere(in.f, c)
	case c.Kind == disk.Unread || c.Kind == disk.Blank:
		one.Open = true
	}
	if c.Type != "" {
		one.Found += " " + visible(c.Type)
	}
	if len(c.Evidence) > 0 {
		one.Found += ": " + visible(strings.Join(c.Evidence, "; "))
	}
	return one
}

// Considered is the result of matching one class against a disk.
type Considered struct {
	Class *disk.Class
	// Matches are the results of the selectors of the class. If the disk is a partition and the class selects whole
	// disks, Matches are the results for the partition's disk.
	Matches []Match
	// The field Selected reports whether the class selects the disk. For a whole disk, the field Other reports whether
	// the class selects one of the disk's partitions. For a partition, the field Other reports whether the class
	// selects the partition's disk.
	Selected, Other bool
	// Has is true if the disk belongs to the class. Verdict is the result in words, as the end of a sentence that
	// begins with the name of the class.
	Has     bool
	Verdict string
}

// Excluded is one exclusion that matches a disk.
type Excluded struct {
	// Index is the position of the exclusion in the configuration. Matches are the results of the exclusion's selectors
	// for the disk or partition. If the exclusion matches only the whole disk of a partition, Matches are the results
	// for the whole disk.
	Index   int
	Matches []Match
}

// Consider returns the results for every class in order, and every exclusion that matches the disk. If no exclusion
// matches, the first class whose field Selected or Other is true determines whether the disk belongs to a class. A
// volume that no exclusion matches stays with its class, even if the selectors of another class match (Select).
func Consider(f *disk.Facts, s *disk.Settings) (classes []Considered, exclusions []Excluded) {
	for i := range s.Exclude {
		e := &s.Exclude[i]
		if !excludes(f, e) {
			continue
		}
		of := ownSubject(f)
		if !matchesAll(of, e) {
			of = wholeDisk(f)
		}
		exclusions = append(exclusions, Excluded{i, matchesOf(of, e)})
	}
	has, raw := Select(f, s), volume(f, s)
	var before *Considered // the class that decides
	for i := range s.Classes {
		c, of := &s.Classes[i], ownSubject(f)
		if !c.Partitions {
			of = wholeDisk(f)
		}
		one := Considered{Class: c, Matches: matchesOf(of, &c.Selectors), Has: has == c}
		isGivenOut := c.Partitions && raw
		one.Selected, one.Other = !isGivenOut && selects(ownSubject(f), c), !isGivenOut && selectsRelated(f, c)
		switch asks := one.Selected || one.Other; {
		case one.Has:
			one.Verdict = hasIt(f, &one)
		case asks && before != nil:
			one.Verdict = "would select " + selected(f, &one) + ", but class " + disk.Visible(before.Class.Name) + " comes first"
		case asks && has != nil:
			one.Verdict = "would select " + selected(f, &one) + ", but " + disk.Visible(f.Name) + " is a volume of class " + disk.Visible(has.Name)
		case one.Other && f.System == "" && len(exclusions) == 0:
			one.Verdict = "has " + selected(f, &one)
		case asks:
			one.Verdict = "would select " + selected(f, &one)
		default:
			one.Verdict = passedOver(of, c, isGivenOut)
		}
		classes = append(classes, one)
		if (one.Selected || one.Other) && before == nil {
			before = &one
		}
	}
	return classes, exclusions
}

// hasIt returns the verdict on the class to which the disk belongs.
func hasIt(f *disk.Facts, one *Considered) string {
	if !one.Selected {
		return "does not select the disk, but keeps the disk as long as the disk is mounted or given out in this class"
	}
	return "has " + selected(f, one)
}

// selected returns in words what the class selects: the disk or partition itself, its whole disk, or its partitions.
func selected(f *disk.Facts, one *Considered) string {
	switch {
	case one.Other && f.Whole != "":
		return "the partition's disk " + disk.Visible(f.Whole)
	case one.Other:
		return "the disk's partitions"
	case f.Whole != "":
		return "the partition"
	}
	return "the disk"
}

// passedOver returns why a class does not select the disk.
func passedOver(of subject, c *disk.Class, isGivenOut bool) string {
	switch {
	case isGivenOut:
		return "does not apply: another class has given the disk out as a block volume"
	case !nameMayMatch(of.name, &c.Selectors):
		return "cannot select this kind of device: the class needs a pattern such as dm-* or loop* in names"
	case unbacked(of, &c.Selectors) != "":
		return "cannot select the disk: " + unbacked(of, &c.Selectors)
	}
	return "does not select the disk"
}
