package policy

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hotmount/internal/disk"
)

// TestConditionsAreTheDecision checks that the explanation always agrees with the decision. All conditions are met if
// and only if the disk is formatted or given out.
func TestConditionsAreTheDecision(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f, c, s := blankDisk(), proven(disk.Blank), settings()
		for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(conditions)-1), 0, 3, rapid.ID[int]).Draw(r, "conditions") {
			conditions[i].put(f, c, s)
		}
		f.Standing.Accepted = rapid.SliceOfN(rapid.SampledFrom(everyWord), 0, 6).Draw(r, "accepted")
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
		does := disk.Format
		if class.Mode == disk.ModeBlock {
			does = disk.Link
		}
		if d := Decide(f, c, s); !d.GivenOut() && held != (d.Action == does) {
			r.Fatalf("%s (%s), but explained as %+v", d.Action, d.Reason, all)
		}
	})
}

// TestConditionsOfWhatIsMadeAgain checks a disk on which this node's format did not finish. Content from before this
// format must not prevent a new format, and must not make a condition fail.
func TestConditionsOfWhatIsMadeAgain(t *testing.T) {
	before := &disk.Sighting{UUID: otherUUID, Type: "xfs"}
	for name, put := range map[string]func(*disk.Standing){
		"during this attachment": func(st *disk.Standing) { st.Before = before },
		"with its serial":        func(st *disk.Standing) { st.FormerSerial = before },
		"in its slot":            func(st *disk.Standing) { st.FormerSlot = before },
	} {
		f, c, s := blankDisk(), proven(disk.HalfMade), settings()
		c.UUID, c.Type = uuid, disk.XFS
		f.Standing.Intent = &disk.Intent{UUID: uuid}
		put(&f.Standing)
		if d := Decide(f, c, s); d.Action != disk.Format {
			t.Errorf("%s: %s (%s)", name, d.Action, d.Reason)
		}
		for _, cond := range Conditions(f, c, s, Select(f, s)) {
			if !cond.Held {
				t.Errorf("%s: %s: %s", name, cond.Wanted, cond.Found)
			}
		}
	}
}

// TestConditionsOfWhatIsGivenOut checks that a disk that is given out meets all conditions, despite its link and its
// record.
func TestConditionsOfWhatIsGivenOut(t *testing.T) {
	f, s := blankDisk(), settings()
	block(s)
	f.Standing.Link, f.Standing.Given = "/mnt/disks/virtio-S1", &disk.Given{Serial: f.Serial, Size: f.Size}
	for _, cond := range Conditions(f, proven(disk.Unread), s, Select(f, s)) {
		if !cond.Held {
			t.Errorf("%s: %s", cond.Wanted, cond.Found)
		}
	}
}

// TestConditionsTellOfAccepts checks a condition that is met only because the operator has accepted the disk. The field
// Found of this condition must mention the accept. The field Found of every other condition must not mention an accept.
func TestConditionsTellOfAccepts(t *testing.T) {
	for _, accepted := range []bool{false, true} {
		f, s := blankDisk(), settings()
		f.Standing.FormerSerial = &lay
		if accepted {
			f.Standing.Accepted = word(disk.ReasonFormerSerial, otherUUID)
		}
		for _, cond := range Conditions(f, proven(disk.Unread), s, Select(f, s)) {
			if former := strings.HasPrefix(cond.Wanted, "no data is missing that was on a disk with the same serial or WWN, or the disk was accepted"); former && (cond.Held != accepted || strings.HasSuffix(cond.Found, "; accepted") != accepted) || !former && strings.Contains(cond.Found, "accepted") {
				t.Errorf("%+v", cond)
			}
		}
	}
}

// TestConditionsOfAFilesystem checks the conditions for a disk with a filesystem. An accept of a hold names the
// filesystem, and the condition of this hold must be met. A use must be no problem for a volume of this node.
func TestConditionsOfAFilesystem(t *testing.T) {
	for name, put := range map[string]func(*disk.Facts){
		"a driver, accepted": func(f *disk.Facts) { driven(f); f.Standing.Accepted = word(disk.ReasonCSI, uuid) },
		"a use, accepted":    func(f *disk.Facts) { used(f); f.Standing.Accepted = word(disk.ReasonUsed, uuid) },
		"a used volume":      func(f *disk.Facts) { used(f); f.Standing.Volume = &disk.Sighting{UUID: uuid} },
	} {
		f, s := blankDisk(), settings()
		put(f)
		all := Conditions(f, xfs(), s, Select(f, s))
		for _, cond := range all[:len(all)-1] { // the last condition is that the disk is blank
			if !cond.Held {
				t.Errorf("%s: %+v", name, cond)
			}
		}
	}
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
	if classes, _ = Consider(f, s); !strings.HasPrefix(classes[0].Verdict, "cannot select this kind") || classes[0].Selected {
		t.Errorf("%+v", classes)
	}
}

// TestConsiderLoopDevices checks that the explanation says why a class does not select a loop device, even if all
// selectors of the class match.
func TestConsiderLoopDevices(t *testing.T) {
	for want, f := range map[string]disk.Facts{
		"has the disk":             {BackingFile: "/srv/ci/a.img"},
		"does not select the disk": {BackingFile: "/srv/a/b/c.img"},
		"cannot select the disk: the loop device's backing file is deleted":                          {BackingFile: "/srv/ci/a.img (deleted)"},
		"cannot select the disk: the loop device's backing file is a block device, or is below /dev": {BackingFile: "/srv/ci/a.img", BackingDevice: true},
		"cannot select the disk: the loop device's backing file is below a kubelet's root directory": {BackingFile: "/srv/kubelet/a.img"},
		"cannot select the disk: the disk is a loop device, and the class has no backing_file":       {Model: "no pattern"},
	} {
		s := settings()
		s.Classes[0].Selectors = disk.Selectors{Names: []string{"loop*"}, BackingFile: []string{"/srv/*/*"}}
		if f.Model != "" {
			s.Classes[0].BackingFile = nil
		}
		f.Name, f.Transport = "loop7", "loop"
		if classes, _ := Consider(&f, s); classes[0].Verdict != want {
			t.Errorf("%q, want %q", classes[0].Verdict, want)
		}
	}
}

// TestConsiderPartitions checks the texts for a disk, for its partition, and for an exclusion of both.
func TestConsiderPartitions(t *testing.T) {
	disks := disk.Class{Name: "hdd", Selectors: disk.Selectors{Transport: []string{"virtio"}}, Directory: "/mnt/hdd"}
	parted := func(f *disk.Facts) { f.Partitions = []string{"vdb1"} }
	for name, c := range map[string]struct {
		facts func(*disk.Facts)
		order func(disk.Class) func(*disk.Settings)
		want  []string
	}{
		"partition, disk's class first": {part, before, []string{"has the partition's disk vdb", "would select the partition, but class hdd comes first"}},
		"partition, disk's class last":  {part, after, []string{"has the partition", "would select the partition's disk vdb, but class default comes first"}},
		"disk, its class first":         {parted, before, []string{"has the disk", "would select the disk's partitions, but class hdd comes first"}},
		"disk, its class last":          {parted, after, []string{"has the disk's partitions", "would select the disk, but class default comes first"}},
		"disk without partitions":       {func(*disk.Facts) {}, after, []string{"does not select the disk", "has the disk"}},
	} {
		f, s := blankDisk(), settings()
		c.facts(f)
		c.order(disks)(s)
		var got []string
		classes, _ := Consider(f, s)
		for _, one := range classes {
			got = append(got, one.Verdict)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	f, s := blankDisk(), settings()
	part(f)
	parts(s)
	s.Exclude = []disk.Selectors{{Names: []string{"vdc"}}, {Names: []string{"vdb"}}}
	classes, exclusions := Consider(f, s)
	if len(exclusions) != 1 || exclusions[0].Index != 1 || !exclusions[0].Matches[0].Held || classes[0].Has || classes[0].Verdict != "would select the partition" {
		t.Errorf("%+v %+v", classes, exclusions)
	}
}

// TestConsiderIsTheDecision checks which class gets a disk or its partitions: without a matching exclusion, the first
// class that selects them. A disk does not belong to a class if a partition of the disk belongs to a class.
func TestConsiderIsTheDecision(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		selectors := func(label string) disk.Selectors {
			pick := func(of ...string) []string {
				return rapid.SliceOfN(rapid.SampledFrom(of), 0, 1).Draw(r, label)
			}
			s := disk.Selectors{Names: pick("vd?", "vdb", "vdb1", "vd?[12]", "*"), Transport: pick("virtio", "scsi"), Serial: pick("S1", "S2")}
			s.Size.Least = rapid.SampledFrom([]uint64{0, 3 << 30, 6 << 30}).Draw(r, label)
			return s
		}
		d, s := blankDisk(), settings()
		s.Classes = nil
		for i := range rapid.IntRange(0, 4).Draw(r, "classes") {
			c := disk.Class{Name: string(rune('a' + i)), Selectors: selectors("class"), Directory: "/mnt/" + string(rune('a'+i)), Accept: []string{"xfs"}}
			switch rapid.IntRange(0, 2).Draw(r, "kind") {
			case 1:
				c.Partitions = true
			case 2:
				c.Mode = disk.ModeBlock
			}
			s.Classes = append(s.Classes, c)
		}
		for range rapid.IntRange(0, 1).Draw(r, "exclusions") {
			s.Exclude = append(s.Exclude, selectors("exclude"))
		}
		if rapid.Bool().Draw(r, "given") {
			d.Standing.Given = &given
		}
		d.Partitions = []string{"vdb1"}
		p := *d
		part(&p)
		p.Partitions = nil
		for _, f := range []*disk.Facts{d, &p} {
			classes, exclusions := Consider(f, s)
			var want *disk.Class
			reason := disk.ReasonNoClass
			for _, one := range classes {
				if one.Selected && slices.ContainsFunc(one.Matches, func(m Match) bool { return !m.Held }) {
					r.Fatalf("selected, but %+v", one)
				}
				if want == nil && reason == disk.ReasonNoClass && one.Selected {
					want = one.Class
				}
				if want == nil && reason == disk.ReasonNoClass && one.Other {
					if reason = disk.ReasonPartitioned; f.Whole != "" {
						reason = disk.ReasonWhole
					}
				}
			}
			if len(exclusions) > 0 {
				want, reason = nil, disk.ReasonExcluded
			}
			for _, one := range classes {
				if one.Has != (one.Class == want) {
					r.Fatalf("%s: %+v, want %v", f.Name, one, want)
				}
			}
			if got := Select(f, s); got != want {
				r.Fatalf("%s: %v, considered %v", f.Name, got, want)
			}
			if got := Decide(f, xfs(), s); want == nil && got.Reason != reason || want != nil && got.Class != want.Name {
				r.Fatalf("%s: %v, want %v (%s)", f.Name, got, want, reason)
			}
		}
		if Select(d, s) != nil && Select(&p, s) != nil {
			r.Fatalf("the disk has class %s, its partition %s", Select(d, s).Name, Select(&p, s).Name)
		}
	})
}
