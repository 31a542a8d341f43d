package disk

import "testing"

// TestRecallBelow checks that the serial of a disk that is gone comes from earlier facts. The earlier facts must be of
// the same attachment of the device.
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

func TestLogicalVolume(t *testing.T) {
	for name, want := range map[string]string{
		"vg0-disk1": "vg0/disk1", "my--group-disk--1": "my-group/disk-1", "g.a_b+c-d": "g.a_b+c/d", "vg---lv": "vg-/lv",
		"nothing": "", "vg0--x": "", "vg0-x-real": "", "$(reboot)-x": "", "x-$(reboot)": "", "a b-x": "", "": "",
	} {
		if got := (&Facts{Serial: "LVM-x", MapperName: name}).LogicalVolume(); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if got := (&Facts{Serial: "CRYPT-LUKS2-x", MapperName: "vg0-disk1"}).LogicalVolume(); got != "" {
		t.Errorf("an encrypted device is the logical volume %q", got)
	}
}
