package disk

import "testing"

// TestRecallBelow checks that the serial of a detached disk comes from earlier facts. The earlier facts must be of the
// same attachment of the device.
func TestRecallBelow(t *testing.T) {
	before := Facts{ID: ID{Seq: 7}, Below: []Underlying{{Name: "vdb", Serial: "OLD"}, {Name: "vdc", Serial: "PV"}}}
	f := Facts{ID: ID{Seq: 7}, Below: []Underlying{{Name: "vdb", Serial: "NEW"}, {Name: "vdc", Gone: true}, {Name: "vdd", Gone: true}}}
	if f.RecallBelow(&before); f.Below[0].Serial != "NEW" || f.Lost().Serial != "PV" || f.Below[2].Serial != "" {
		t.Errorf("%+v", f.Below)
	}
	if f.Seq, f.Below[1].Serial = 8, ""; f.Lost() != &f.Below[1] {
		t.Error("the first that is gone is not found")
	}
	if f.RecallBelow(&before); f.Below[1].Serial != "" {
		t.Error("the serial is of another attachment")
	}
	if f.Below = f.Below[:1]; f.Lost() != nil {
		t.Error("a disk is gone that is there")
	}
}

func TestReopen(t *testing.T) {
	const id, uuid = "0123456789abcdef0123456789abcdef", "01234567-89ab-cdef-0123-456789abcdef"
	lvchange := func(volume string) string { return "lvchange -an " + volume + "; lvchange -ay " + volume }
	for _, c := range []struct {
		f    Facts
		want string
	}{
		{Facts{Serial: "LVM-x", MapperName: "vg0-disk1"}, lvchange("vg0/disk1")},
		{Facts{Serial: "LVM-x", MapperName: "my--group-disk--1"}, lvchange("my-group/disk-1")},
		{Facts{Serial: "LVM-x", MapperName: "g.a_b+c-d"}, lvchange("g.a_b+c/d")},
		{Facts{Serial: "LVM-x", MapperName: "vg---lv"}, lvchange("vg-/lv")},
		{Facts{Serial: "LVM-x", MapperName: "nothing"}, ""},
		{Facts{Serial: "LVM-x", MapperName: "vg0--x"}, ""},
		{Facts{Serial: "LVM-x", MapperName: "vg0-x-real"}, ""},
		{Facts{Serial: "LVM-x", MapperName: "$(reboot)-x"}, ""},
		{Facts{Serial: "LVM-x", MapperName: "a b-x"}, ""},
		{Facts{Serial: "LVM-x"}, ""},
		{Facts{Serial: "CRYPT-LUKS2-" + id + "-secret-1", MapperName: "secret-1"}, "cryptsetup close secret-1; cryptsetup open UUID=" + uuid + " secret-1"},
		{Facts{Serial: "CRYPT-LUKS1-" + id + "-a", MapperName: "a"}, "cryptsetup close a; cryptsetup open UUID=" + uuid + " a"},
		{Facts{Serial: "CRYPT-LUKS2-" + id + "-a", MapperName: "$(reboot)"}, ""},
		{Facts{Serial: "CRYPT-LUKS2-" + id + "-a", MapperName: "--help"}, ""},
		{Facts{Serial: "CRYPT-LUKS2-0123-a", MapperName: "a"}, ""},
		{Facts{Serial: "CRYPT-PLAIN-a", MapperName: "a"}, ""},
		{Facts{Serial: "CRYPT-VERITY-" + id + "-a", MapperName: "a"}, ""},
		{Facts{ID: ID{Name: "md127"}, Transport: "md"}, ""},
		{Facts{Serial: "LVM-x", MapperName: "vg0-disk1", Below: []Underlying{{Name: "md0"}, {Name: "vdb", Gone: true}}}, ""},
		{Facts{Serial: "LVM-x", MapperName: "vg0-disk1", Below: []Underlying{{Name: "dm-0"}, {Name: "vdb", Gone: true}}}, ""},
		{Facts{Serial: "LVM-x", MapperName: "vg0-disk1", Below: []Underlying{{Name: "vda"}, {Name: "vdb", Gone: true}}}, lvchange("vg0/disk1")},
		{Facts{Serial: "mpath-x", MapperName: "mpatha"}, ""},
		{Facts{ID: ID{Name: "vdb"}, Transport: "virtio", Serial: "LVM"}, ""},
	} {
		if got := c.f.Reopen(); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.f.Serial, c.f.MapperName, got, c.want)
		}
	}
}
