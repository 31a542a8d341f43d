package policy

import (
	"testing"

	"pgregory.net/rapid"

	"hotmount/internal/disk"
)

// TestConditionsAreTheDecision: what is explained can not differ from what is
// done. All conditions hold exactly where the disk is formatted.
func TestConditionsAreTheDecision(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f, c, s := blankDisk(), proven(disk.Blank), settings()
		for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(conditions)-1), 0, 3, rapid.ID[int]).Draw(r, "conditions") {
			conditions[i].put(f, c, s)
		}
		f.Standing.Accepted = rapid.Bool().Draw(r, "accepted")
		s.FormatPresent = rapid.Bool().Draw(r, "format_present")
		class := Select(f, s)
		if class == nil {
			return
		}
		held := true
		all := Conditions(f, c, s, class)
		for _, c := range all {
			held = held && c.Held
		}
		if d := Decide(f, c, s); held != (d.Action == disk.Format) {
			r.Fatalf("%s (%s), but explained as %+v", d.Action, d.Reason, all)
		}
	})
}

func TestConsider(t *testing.T) {
	s := settings()
	s.Classes = append([]disk.Class{{Name: "nvme", Selectors: disk.Selectors{Transport: []string{"nvme"}, Serial: []string{"S*"}}}}, s.Classes...)
	s.Exclude = []disk.Selectors{{Serial: []string{"X"}}}
	classes, excluded := Consider(blankDisk(), s)
	if len(classes) != 2 || classes[0].Selected || classes[0].Has || !classes[1].Selected || !classes[1].Has || len(excluded) != 0 {
		t.Errorf("%+v %v", classes, excluded)
	}
	if m := classes[0].Matches; len(m) != 2 || m[0] != (Match{"transport", "nvme", "virtio", false}) || m[1] != (Match{"serial", "S*", "S1", true}) {
		t.Errorf("%+v", m)
	}
	s.Exclude[0].Serial[0] = "S1"
	if classes, excluded = Consider(blankDisk(), s); !classes[1].Selected || classes[1].Has || len(excluded) != 1 {
		t.Errorf("%+v %v", classes, excluded)
	}
	f := blankDisk()
	f.Name = "loop0"
	if classes, _ = Consider(f, s); !classes[0].Narrowed || classes[0].Selected {
		t.Errorf("%+v", classes)
	}
}
