package policy

import (
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

// Conditions returns all that has to hold before the disk is formatted by that class, or
// given out by one in block mode, in the order in which Decide asks for it: the rules that
// stand in the way. They all hold if and only if Decide answers Format, or Link.
func Conditions(f *disk.Facts, c *disk.Content, s *disk.Settings, class *disk.Class) []Condition {
	in := input{f, c, s, class, blank}
	if class.Mode == disk.ModeBlock {
		in.at = raw
	}
	unaccepted := *f
	unaccepted.Standing.Accepted = nil
	without := in
	without.f = &unaccepted
	var all []Condition
	for i := range rules {
		r := &rules[i]
		if r.on&in.at == 0 || r.wanted == "" {
			continue
		}
		w := &told{f, c, s, disk.Decision{}, class, ruleOf(r.reason)}
		one := Condition{Wanted: r.wanted, Held: !r.when(in), Found: w.found()}
		if r.lift&byAccept != 0 {
			one.Wanted += ", or it was accepted"
			if one.Held && r.when(without) {
				one.Found = strings.TrimPrefix(one.Found+"; accepted", "; ")
			}
		}
		all = append(all, one)
	}
	if in.at == raw {
		return all
	}
	return append(all, isBlank(in))
}

// isBlank is the condition that reading the disk alone can show.
func isBlank(in input) Condition {
	c := in.c
	one := Condition{Wanted: "it is blank, by proof (blank: " + in.class.Blank + ")", Found: string(c.Kind)}
	switch {
	case c.Proven:
		one.Held = c.Kind == disk.Blank || c.Kind == disk.HalfMade && begun(in.f, c)
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
