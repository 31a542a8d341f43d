package disk

import "testing"

// TestWorldWide checks that a WWN of zeros, or a WWN that is made of model and serial, does not identify a disk.
func TestWorldWide(t *testing.T) {
	for wwn, want := range map[string]string{
		"naa.5000c50015ea71ac":                      "naa.5000c50015ea71ac",
		"eui.0025388b710116a1":                      "eui.0025388b710116a1",
		"uuid.0b6f4f0a-1111-4222-8333-000000000001": "uuid.0b6f4f0a-1111-4222-8333-000000000001",
		"naa.0000000000000000":                      "",
		"uuid.00000000-0000-0000-0000-000000000000": "",
		"naa.":                         "",
		"naa":                          "",
		"":                             "",
		"t10.ATA     QEMU HARDDISK":    "",
		"nvme.1af4--51454d55-00000001": "",
		"iqn.2003-01.org:disk":         "",
	} {
		f := Facts{WWN: wwn}
		if got := f.Identity("").WWN; got != want {
			t.Errorf("%q: %q", wwn, got)
		}
		f.Seq = PartitionSeq(1, 2)
		if got := f.Identity("").WWN; want != "" && got != want+"-part2" || want == "" && got != "" {
			t.Errorf("%q, a partition: %q", wwn, got)
		}
	}
}

// TestHardware checks what the serials and WWNs of two disks show: that they are one disk, that they are two disks, or
// nothing.
func TestHardware(t *testing.T) {
	const none, same, other = "none", "same", "other"
	for _, tt := range []struct {
		serial, wwn           string
		otherSerial, otherWWN string
		want                  string
	}{
		{"", "", "", "", none},
		{"", "naa.1", "", "", none},
		{"S1", "", "", "naa.1", none},
		{"", "naa.1", "", "naa.1", same},
		{"", "naa.1", "", "naa.2", other},
		{"", "naa.1", "", "eui.2", none},
		{"S1", "naa.1", "", "naa.1", same},
		{"S1", "naa.1", "", "naa.2", other},
		{"S1", "naa.1", "S1", "naa.2", same},
		{"S1", "naa.1", "S2", "naa.1", other},
		{"S1", "", "S1", "", same},
	} {
		a, b := Identity{Boot: "then", Serial: tt.serial, WWN: tt.wwn, Slot: "pci-1", Size: 1}, Identity{Boot: "now", Serial: tt.otherSerial, WWN: tt.otherWWN, Slot: "pci-2", Size: 1}
		for _, p := range [][2]Identity{{a, b}, {b, a}} {
			a, b := p[0], p[1]
			if a.Same(b) != (tt.want == same) || a.Other(b) != (tt.want == other) {
				t.Errorf("%+v: same %v, other %v", tt, a.Same(b), a.Other(b))
			}
			if a.Like(b) != (tt.want == same) || a.MayBe(b) != (tt.want == same) || a.Is(b) != (tt.want == same) {
				t.Errorf("%+v: like %v, may be %v, is %v", tt, a.Like(b), a.MayBe(b), a.Is(b))
			}
			a.Size = 2
			if a.Like(b) || a.ResizedTo(b) != (tt.want == same) {
				t.Errorf("%+v: shrunk, like %v, resized %v", tt, a.Like(b), a.ResizedTo(b))
			}
			// The two disks are in the same slot, so only serial and WWN can distinguish them.
			a.Slot, a.Size = b.Slot, 1
			if a.Like(b) != (tt.want == same || tt.want == none && a.Serial == b.Serial) || a.MayBe(b) != (tt.want != other) {
				t.Errorf("%+v: in one slot, like %v, may be %v", tt, a.Like(b), a.MayBe(b))
			}
			b.Size = 2
			if a.ResizedTo(b) != (tt.want == same || tt.want == none && a.Serial == b.Serial) {
				t.Errorf("%+v: grown in one slot %v", tt, a.ResizedTo(b))
			}
		}
	}
}

// TestPeersByWWN checks that disks with the same WWN of any kind are peers if no serial distinguishes the disks.
func TestPeersByWWN(t *testing.T) {
	const wwn = "naa.5000c50015ea71ac"
	sda := Facts{ID: ID{Name: "sda", Seq: 2}, WWN: wwn}
	for name, tt := range map[string]struct {
		f, o      Facts
		want      bool
		multipath bool
	}{
		"its WWN":                         {sda, Facts{WWN: wwn}, true, false},
		"another WWN":                     {sda, Facts{WWN: "naa.5000c50015ea71ad"}, false, false},
		"no WWN":                          {Facts{}, Facts{}, false, false},
		"its WWN, made of its model":      {Facts{WWN: "t10.ATA     DISK"}, Facts{WWN: "t10.ATA     DISK"}, true, false},
		"its WWN, one with a serial":      {sda, Facts{WWN: wwn, Serial: "S"}, true, false},
		"its WWN, and another serial":     {Facts{WWN: wwn, Serial: "S1"}, Facts{WWN: wwn, Serial: "S2"}, false, false},
		"its WWN, and its serial":         {Facts{WWN: wwn, Serial: "S1"}, Facts{WWN: wwn, Serial: "S1"}, false, false}, // the peer has the same serial, so the peer is in SameSerial
		"a partition of it":               {sda, Facts{ID: ID{Seq: PartitionSeq(2, 1)}, Whole: "sda", WWN: wwn}, false, false},
		"two partitions of a disk":        {Facts{ID: ID{Seq: PartitionSeq(2, 1)}, Whole: "sda", WWN: wwn}, Facts{ID: ID{Seq: PartitionSeq(2, 2)}, Whole: "sda", WWN: wwn}, false, false},
		"the same partition":              {Facts{ID: ID{Seq: PartitionSeq(2, 1)}, Whole: "sda", WWN: wwn}, Facts{ID: ID{Seq: PartitionSeq(3, 1)}, Whole: "sdb", WWN: wwn}, true, false},
		"multipath":                       {sda, Facts{Transport: "dm", Serial: "mpath-35000c50015ea71ac"}, true, true},
		"multipath, EUI-64":               {Facts{WWN: "eui.0025388b710116a1"}, Facts{Transport: "dm", Serial: "mpath-20025388b710116a1"}, true, true},
		"multipath, NVMe":                 {Facts{WWN: "eui.0025388b710116a1"}, Facts{Transport: "dm", Serial: "mpath-eui.0025388b710116a1"}, true, true},
		"multipath, T10":                  {Facts{WWN: "t10.ATA     QEMU HARDDISK        QM1"}, Facts{Transport: "dm", Serial: "mpath-1ATA_QEMU_HARDDISK_QM1"}, true, true},
		"multipath of a disk's partition": {Facts{ID: ID{Seq: PartitionSeq(2, 1)}, Whole: "sda", WWN: wwn}, Facts{Transport: "dm", Serial: "mpath-35000c50015ea71ac"}, true, true},
		"multipath of another":            {sda, Facts{Transport: "dm", Serial: "mpath-35000c50015ea71ad"}, false, false},
		"multipath, no WWN":               {Facts{}, Facts{Transport: "dm", Serial: "mpath-"}, false, false},
		"a disk of such a serial":         {sda, Facts{Transport: "scsi", Serial: "mpath-35000c50015ea71ac"}, false, false},
		"a volume on it":                  {sda, Facts{Transport: "dm", Serial: "part1-mpath-35000c50015ea71ac"}, false, false},
		"a kind without a digit":          {Facts{WWN: "uuid.1"}, Facts{Transport: "dm", Serial: "mpath-1"}, false, false},
	} {
		tt.o.Name = "other"
		tt.f.FindPeers([]*Facts{&tt.o})
		if got := len(tt.f.SameWWN) == 1; got != tt.want || got && tt.f.SameWWN[0].Multipath != tt.multipath {
			t.Errorf("%s: %+v", name, tt.f.SameWWN)
		}
	}
	// The first peer must not depend on the order of the attached disks.
	f := sda
	if f.FindPeers(pointers([]Facts{{ID: ID{Name: "sdc", Seq: 4}, WWN: wwn}, {ID: ID{Name: "sdb", Seq: 3}, WWN: wwn}})); len(f.SameWWN) != 2 || f.SameWWN[0].Name != "sdb" {
		t.Errorf("%+v", f.SameWWN)
	}
}
