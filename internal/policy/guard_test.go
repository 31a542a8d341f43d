package policy

import (
	"cmp"
	"regexp"
	"strings"
	"testing"

	"hotmount/internal/disk"
)

var cinder = disk.Driver{Name: "cinder.csi.openstack.org", Reach: disk.Local}

// driven puts the disk on a node with a CSI driver that may have attached the disk.
func driven(f *disk.Facts) { f.Drivers = []disk.Driver{cinder} }

// drivenWith returns a function that first calls the function `driven` and then the function `put`.
func drivenWith(put func(*disk.Facts)) func(*disk.Facts) {
	return func(f *disk.Facts) { driven(f); put(f) }
}

// csiDrivers returns a function that puts the disk on a node with one driver. The driver has the given reach.
func csiDrivers(reach disk.Reach) func(*disk.Facts) {
	return func(f *disk.Facts) { f.Drivers = []disk.Driver{{Name: "a.example", Reach: reach}} }
}

// TestGuard checks that hotmount holds a disk that a storage driver on the node may have attached or may use. hotmount
// must not open such a disk. hotmount must not hold a disk if a fact shows that the disk belongs to hotmount.
func TestGuard(t *testing.T) {
	serial := func(patterns ...string) func(*disk.Settings) {
		return func(s *disk.Settings) { s.Classes[0].Serial = patterns }
	}
	unread, lvm := proven(disk.Unread), &disk.Content{Kind: disk.Other, Type: "LVM2_member"}
	halfMade := &disk.Content{Kind: disk.HalfMade, UUID: uuid, Type: "xfs", Proven: true}
	named := func(f *disk.Facts) { driven(f); f.Serial = "DATA-1" }
	of := func(name, transport string, reach disk.Reach) func(*disk.Facts) {
		return func(f *disk.Facts) { csiDrivers(reach)(f); f.Name, f.Transport = name, transport }
	}
	fabric := func(put func(*disk.Facts)) func(*disk.Facts) {
		return func(f *disk.Facts) { put(f); f.Fabric = true }
	}
	names := func(pattern string) func(*disk.Settings) {
		return func(s *disk.Settings) { s.Classes[0].Names = []string{pattern} }
	}
	for _, tt := range []struct {
		name    string
		facts   func(*disk.Facts)
		content *disk.Content
		config  func(*disk.Settings)
		action  disk.Action
		reason  disk.Reason
	}{
		{"a filesystem", driven, xfs(), nil, disk.Hold, disk.ReasonCSI},
		{"nothing known on it", driven, unread, nil, disk.Hold, disk.ReasonCSI},
		{"proven blank before the driver came", driven, proven(disk.Blank), nil, disk.Hold, disk.ReasonCSI},
		{"block", driven, unread, block, disk.Hold, disk.ReasonCSI},
		{"a filesystem on a partition", partOf(driven), xfs(), parts, disk.Hold, disk.ReasonCSI},
		{"one of two drivers", func(f *disk.Facts) { f.Drivers = []disk.Driver{{Name: "a.example", Reach: disk.Fabric}, cinder} }, xfs(), nil, disk.Hold, disk.ReasonCSI},
		{"LVM", driven, lvm, nil, disk.Hold, disk.ReasonCSI},
		{"LVM, udev has not finished", drivenWith(func(f *disk.Facts) { f.Udev.Initialized = false }), lvm, nil, disk.Wait, disk.ReasonUdev},
		{"too small", driven, unread, func(s *disk.Settings) { s.Classes[0].MinimumSize = 6 << 30 }, disk.Hold, disk.ReasonCSI},
		{"mounted by the driver", drivenWith(func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt("/var/lib/kubelet/x")} }), xfs(), nil, disk.Ignore, disk.ReasonElsewhere},
		{"mounted in its place", drivenWith(func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)} }), xfs(), nil, disk.Keep, disk.ReasonMounted},

		{"a driver of a fabric, virtio", csiDrivers(disk.Fabric), unread, nil, disk.Prove, disk.ReasonUnread},
		{"a driver that builds devices, virtio", csiDrivers(disk.Mapper), xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"a driver that takes disks, virtio", csiDrivers(disk.Whole), unread, nil, disk.Hold, disk.ReasonCSI},
		{"an unknown driver, virtio", csiDrivers(disk.Anything), unread, nil, disk.Hold, disk.ReasonCSI},
		{"a driver of a fabric, SCSI", fabric(of("sdb", "scsi", disk.Fabric)), xfs(), names("sd*"), disk.Hold, disk.ReasonCSI},
		{"a driver of a fabric, NVMe", fabric(of("nvme0n1", "nvme", disk.Fabric)), xfs(), names("nvme*"), disk.Hold, disk.ReasonCSI},
		{"a driver of a fabric, SCSI that is local", of("sdb", "scsi", disk.Fabric), xfs(), names("sd*"), disk.Mount, disk.ReasonFilesystem},
		{"a driver of a fabric, virtio-scsi", of("sdb", disk.VirtioSCSI, disk.Fabric), xfs(), names("sd*"), disk.Mount, disk.ReasonFilesystem},
		{"a driver of local disks, virtio-scsi", of("sdb", disk.VirtioSCSI, disk.Local), xfs(), names("sd*"), disk.Hold, disk.ReasonCSI},
		{"a driver of a fabric, multipath", fabric(of("dm-3", "dm", disk.Fabric)), xfs(), names("dm-*"), disk.Hold, disk.ReasonCSI},
		{"a driver of local disks, SCSI on a fabric", fabric(of("sdb", "scsi", disk.Local)), xfs(), names("sd*"), disk.Hold, disk.ReasonCSI},
		{"a driver of local disks, SCSI", of("sdb", "scsi", disk.Local), xfs(), names("sd*"), disk.Hold, disk.ReasonCSI},
		{"a driver that builds devices, SCSI", of("sdb", "scsi", disk.Mapper), xfs(), names("sd*"), disk.Mount, disk.ReasonFilesystem},
		{"a driver that builds devices, LVM", of("dm-3", "dm", disk.Mapper), xfs(), names("dm-*"), disk.Hold, disk.ReasonCSI},
		{"a driver of local disks, LVM or an encrypted disk", of("dm-3", "dm", disk.Local), xfs(), names("dm-*"), disk.Hold, disk.ReasonCSI},
		{"a driver of local disks, md", of("md0", "md", disk.Local), xfs(), names("md*"), disk.Hold, disk.ReasonCSI},
		{"a driver of a fabric, an unknown bus", of("xvdb", "", disk.Fabric), xfs(), names("xvd*"), disk.Hold, disk.ReasonCSI},

		{"ignored", driven, xfs(), func(s *disk.Settings) { s.CSIIgnore = []string{"other", cinder.Name} }, disk.Mount, disk.ReasonFilesystem},
		{"another is ignored", driven, xfs(), func(s *disk.Settings) { s.CSIIgnore = []string{"other"} }, disk.Hold, disk.ReasonCSI},
		{"neighbours ignored", driven, unread, func(s *disk.Settings) { s.Classes[0].Neighbours = disk.NeighboursIgnore }, disk.Prove, disk.ReasonUnread},
		{"neighbours held", driven, unread, func(s *disk.Settings) { s.Classes[0].Neighbours = disk.NeighboursHold }, disk.Hold, disk.ReasonCSI},

		{"by serial", named, xfs(), serial("DATA-1"), disk.Mount, disk.ReasonFilesystem},
		{"by the beginning of its serial", named, unread, serial("DATA*"), disk.Prove, disk.ReasonUnread},
		{"by too little of its serial", named, xfs(), serial("DAT*"), disk.Hold, disk.ReasonCSI},
		{"by too little of its serial, and another's", named, xfs(), serial("DAT*", "OTHER-1"), disk.Hold, disk.ReasonCSI},
		{"by the serial of a namespace", drivenWith(func(f *disk.Facts) { f.Name, f.Transport, f.Serial = "nvme0n2", "nvme", "n2-S3Z1NB0K" }), xfs(), func(s *disk.Settings) { names("nvme*")(s); serial("S3Z1NB0K")(s) }, disk.Mount, disk.ReasonFilesystem},
		{"by the whole serial of a namespace", drivenWith(func(f *disk.Facts) { f.Name, f.Transport, f.Serial = "nvme0n2", "nvme", "n2-S3Z1NB0K" }), xfs(), func(s *disk.Settings) { names("nvme*")(s); serial("n2-S3Z1NB0K")(s) }, disk.Mount, disk.ReasonFilesystem},
		{"by WWN", drivenWith(func(f *disk.Facts) { f.WWN = "naa.5000c50015ea71ad" }), xfs(), func(s *disk.Settings) { s.Classes[0].WWN = []string{"naa.5000c5*"} }, disk.Mount, disk.ReasonFilesystem},
		{"by a WWN of model and slot", drivenWith(func(f *disk.Facts) { f.WWN = "t10.QEMU    QEMU HARDDISK   drive-scsi0-0-0-1" }), xfs(), func(s *disk.Settings) { s.Classes[0].WWN = []string{"t10.QEMU*"} }, disk.Hold, disk.ReasonCSI},
		{"by the kind of its WWN", drivenWith(func(f *disk.Facts) { f.WWN = "naa.5000c50015ea71ad" }), xfs(), func(s *disk.Settings) { s.Classes[0].WWN = []string{"naa.500*", `re:(?i)naa\..*`} }, disk.Hold, disk.ReasonCSI},
		{"by mapper name", func(f *disk.Facts) { of("dm-3", "dm", disk.Mapper)(f); f.MapperName = "vg0-data1" }, xfs(), func(s *disk.Settings) { names("dm-*")(s); s.Classes[0].MapperNames = []string{"vg0-data*"} }, disk.Mount, disk.ReasonFilesystem},
		{"by slot and model", drivenWith(func(f *disk.Facts) { f.Model = "MODEL" }), xfs(), func(s *disk.Settings) {
			s.Classes[0].ByPath, s.Classes[0].Model = []string{"pci-0000:05:00.0"}, []string{"MODEL"}
		}, disk.Hold, disk.ReasonCSI},

		{"on record", drivenWith(was("/mnt/disks", "default")), xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"a copy of what is on record, on another disk", drivenWith(func(f *disk.Facts) {
			was("/mnt/disks", "default")(f)
			f.Standing.Made, f.Serial, f.Standing.LastOn = true, "COPY", &disk.Sighting{UUID: uuid, Left: true, Identity: disk.Identity{Serial: "FIRST"}}
		}), xfs(), nil, disk.Hold, disk.ReasonCSI},
		{"what is on record here, another filesystem before it on another disk", drivenWith(func(f *disk.Facts) {
			was("/mnt/disks", "default")(f)
			f.Serial, f.Standing.LastOn = "COPY", &disk.Sighting{UUID: otherUUID, Left: true, Identity: disk.Identity{Serial: "FIRST"}}
		}), xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"what is on record, on the same disk in another slot", drivenWith(func(f *disk.Facts) {
			was("/mnt/disks", "default")(f)
			f.Serial, f.Standing.LastOn = "FIRST", &disk.Sighting{UUID: uuid, Left: true, Identity: disk.Identity{Serial: "FIRST", Slot: "x"}}
		}), xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"another is on record", drivenWith(func(f *disk.Facts) { f.Standing.Volume = &disk.Sighting{UUID: otherUUID} }), xfs(), nil, disk.Hold, disk.ReasonCSI},
		{"made here, and not mounted yet", driven, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true, Made: true}, nil, disk.Mount, disk.ReasonFilesystem},
		{"made here in an earlier boot", drivenWith(func(f *disk.Facts) { f.Standing.Made = true }), xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"given out before", drivenWith(another(given)), unread, block, disk.Link, disk.ReasonBlock},
		{"begun here", drivenWith(func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }), unproved(halfMade), nil, disk.Prove, disk.ReasonIntent},
		{"begun here, nothing known on it", drivenWith(func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }), unproved(unread), nil, disk.Prove, disk.ReasonIntent},
		{"begun here, and proven so", drivenWith(func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }), halfMade, nil, disk.Format, disk.ReasonIntent},
		{"begun in its slot", drivenWith(func(f *disk.Facts) { f.Standing.Intent, f.Standing.IntentBySlot = &disk.Intent{UUID: uuid}, true }), unproved(unread), nil, disk.Hold, disk.ReasonCSI},
		{"begun in its slot, and proven so", drivenWith(func(f *disk.Facts) { f.Standing.Intent, f.Standing.IntentBySlot = &disk.Intent{UUID: uuid}, true }), halfMade, nil, disk.Format, disk.ReasonIntent},
		{"begun here, or a copy of that", drivenWith(func(f *disk.Facts) { f.Standing.Intent, f.Standing.IntentDoubt = &disk.Intent{UUID: uuid}, true }), xfs(), nil, disk.Hold, disk.ReasonCSI},

		{"accepted", drivenWith(func(f *disk.Facts) { f.Standing.Accepted = word(disk.ReasonCSI, uuid) }), xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"accepted, a filesystem came since", drivenWith(func(f *disk.Facts) { f.Standing.Accepted = word(disk.ReasonCSI, "") }), xfs(), nil, disk.Hold, disk.ReasonCSI},
		{"accepted, nothing known on it", drivenWith(func(f *disk.Facts) { f.Standing.Accepted = word(disk.ReasonCSI, "") }), unread, nil, disk.Prove, disk.ReasonUnread},
	} {
		f, s := blankDisk(), settings()
		tt.facts(f)
		if tt.config != nil {
			tt.config(s)
		}
		if d := Decide(f, tt.content, s); d.Action != tt.action || d.Reason != tt.reason {
			t.Errorf("%s: got %s (%s), want %s (%s)", tt.name, d.Action, d.Reason, tt.action, tt.reason)
		}
	}
}

// TestOthersComeBeforeContent checks that no remedy changes a disk that may belong to somebody else, whatever is on the
// disk. Until the operator has accepted the hold, hotmount must neither refuse the disk for its content nor offer the
// token.
func TestOthersComeBeforeContent(t *testing.T) {
	over := &disk.Intent{UUID: otherUUID, Over: true}
	contents := []struct {
		name    string
		facts   func(*disk.Facts)
		content *disk.Content
		config  func(*disk.Settings)
		reason  disk.Reason
	}{
		{"LUKS", nil, &disk.Content{Kind: disk.Other, Type: "crypto_LUKS"}, nil, disk.ReasonOther},
		{"LUKS, by its UUID", nil, &disk.Content{Kind: disk.Other, Type: "crypto_LUKS", UUID: uuid}, nil, disk.ReasonOther},
		{"partitions", func(f *disk.Facts) { f.Partitions = []string{"vdb1"} }, proven(disk.Other), nil, disk.ReasonPartitions},
		{"unknown bytes", nil, proven(disk.Unknown), nil, disk.ReasonUnknown},
		{"half made", nil, &disk.Content{Kind: disk.HalfMade, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.ReasonHalfMade},
		{"another type", nil, &disk.Content{Kind: disk.Filesystem, Type: "btrfs", UUID: uuid}, nil, disk.ReasonType},
		{"twin", func(f *disk.Facts) { f.SameUUID = []disk.Peer{{ID: disk.ID{Name: "vdc"}}} }, xfs(), nil, disk.ReasonTwin},
		{"known only", nil, xfs(), knownOnly, disk.ReasonNotAdopted},
		{"not overwritten", func(f *disk.Facts) { f.Standing.Intent, f.Standing.IntentDoubt = over, true }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.ReasonOverwrite},
		{"a partition with nothing known on it", part, proven(disk.Unread), parts, disk.ReasonPartition},
		{"a class that creates nothing", nil, proven(disk.Unread), func(s *disk.Settings) { s.Classes[0].Create = "none" }, disk.ReasonNoCreate},
		{"given out once", another(given), proven(disk.Blank), nil, disk.ReasonNeverFormat},
	}
	changing := regexp.MustCompile("hotmount format|xfs_admin|tune2fs|wipefs|mkfs|blkdiscard")
	for hold, put := range map[disk.Reason]func(*disk.Facts){disk.ReasonCSI: driven, disk.ReasonUsed: used, disk.ReasonUnseen: hidden} {
		for _, tt := range contents {
			f, s := blankDisk(), settings()
			if tt.facts != nil {
				tt.facts(f)
			}
			if tt.config != nil {
				tt.config(s)
			}
			put(f)
			d := Decide(f, tt.content, s)
			_, next := Words(f, tt.content, s, d)
			if d.Action != disk.Hold || d.Reason != hold || changing.MatchString(next) || !strings.Contains(next, "hotmount accept "+f.Name) {
				t.Errorf("%s, %s: %s (%s); %q", hold, tt.name, d.Action, d.Reason, next)
			}
			if _, ok := Confirmable(f, tt.content, s); ok {
				t.Errorf("%s, %s: a token is offered", hold, tt.name)
			}
			f.Standing.Accepted = []disk.Word{Word(f, d)}
			if d := Decide(f, tt.content, s); d.Reason != tt.reason {
				t.Errorf("%s, %s, accepted: %s (%s)", hold, tt.name, d.Action, d.Reason)
			}
			// hotmount checks a token before it reads the disk.
			if d, _ := Confirmable(f, proven(disk.Unknown), s); d.Reason == hold {
				t.Errorf("%s, %s: no token is taken after the accept", hold, tt.name)
			}
		}
	}
}

// unproved returns the content as udev sees it, without a proof.
func unproved(c *disk.Content) *disk.Content {
	other := *c
	other.Proven = false
	return &other
}

// TestLiterals checks how many characters of a pattern are literal. Wildcards are not literal. In a pattern for WWNs,
// only the literal characters after the first dot count.
func TestLiterals(t *testing.T) {
	for pattern, want := range map[string]struct{ all, wwn int }{
		"DATA-1": {6, 0}, "*": {}, "????": {}, "D*T?A": {3, 0}, "[DATA]1": {1, 0}, `[\]D]1`: {1, 0}, `\*\?ab`: {4, 0}, `ab\`: {2, 0}, "": {}, "[": {},
		"ü*ü*": {2, 0}, "naa.ü*ü": {6, 2}, "\xff*": {1, 0},
		"naa.*": {4, 0}, "naa.500*": {7, 3}, "naa.5000*": {8, 4}, "naa?5000": {7, 0}, "eui.0025385b*": {12, 8}, "nvme.*": {5, 0}, "uuid.1*": {6, 1}, "t10.ATA*": {7, 3},
		"na?.5*": {4, 1}, "n?a.50*": {5, 2}, "*.5000": {5, 4}, "*5000c5": {6, 0}, `naa\.5000`: {8, 4}, "naa*.500": {7, 3}, "naa[.]5000": {7, 0}, "t10.A.B": {7, 3},
		"re:DATA-1": {6, 0}, "re:.*": {}, "re:DATA-.*": {5, 0}, "re:(DATA|LOG)-.*": {4, 0}, "re:(DATA|LO)-.*": {3, 0}, "re:[0-9a-f]{8}-[0-9a-f]{4}": {1, 0},
		"re:a{3}b": {4, 0}, "re:(ab)?cd": {2, 0}, "re:(ab)*cd": {2, 0}, "re:(abcd)+": {4, 0}, "re:(?:)": {}, "re:(": {}, "re:ü+ü": {2, 0},
		"re:naa[.]5.*": {5, 1}, "re:naa.5000": {7, 0}, `re:naa\.500`: {7, 3}, "re:(naa|eui)[.]500.*": {7, 3}, "re:(naa.5001|abcde)": {5, 0},
		`re:(?i)naa\..*`: {4, 0}, `re:[nN]aa\..*`: {4, 0}, `re:(?i)nvme\..*`: {5, 0}, `re:(?i)naa\.5000.*`: {8, 4}, `re:(naa\.)?5000c500`: {8, 0}, `re:(naa\.)+5000`: {8, 4},
		`re:naa\.(50001|600)`: {7, 3}, `re:(naa\.5|nvme\.)000`: {8, 3}, `re:(naa\.500|5000)`: {4, 0}, `re:naa\.(aaaa\.b|cc)`: {6, 2}, `re:(naa|eui\.5)\.50`: {6, 2},
	} {
		if all, wwn := literals(pattern), wwnLiterals(pattern); all != want.all || wwn != want.wwn {
			t.Errorf("%s: %d, in a WWN %d, want %d", pattern, all, wwn, want)
		}
	}
}

// TestSelectorOfADisk checks the selector that the remedy of a hold names. A serial in the selector must match the
// serial of the disk, but not the same serial with a letter in front.
func TestSelectorOfADisk(t *testing.T) {
	for _, tt := range []struct {
		put  func(*disk.Facts)
		want string
	}{
		{func(f *disk.Facts) { f.Serial = "4d8ac1b2-9f6e-4a3c-8" }, "serial: ['4d8ac1b2-9f6e-4a3c-8']"},
		{func(f *disk.Facts) { f.Serial = "DATA 1  " }, "serial: ['DATA 1']"},
		{func(f *disk.Facts) { f.Serial = `it's[*]\` }, `serial: ['it''s\[\*]\\']`},
		{func(f *disk.Facts) { f.Serial = "re:DATA" }, `serial: ['\re:DATA']`},
		{func(f *disk.Facts) { f.Serial = "DATA\n- x: y" }, ""},
		{func(f *disk.Facts) { f.Serial = strings.Repeat("x", 129) }, ""},
		{func(f *disk.Facts) { f.Serial, f.WWN = "S1", "naa.5000c50015ea71ad" }, "wwn: ['naa.5000c50015ea71ad']"},
		{func(f *disk.Facts) { f.Serial, f.WWN = "S1", "naa.500" }, ""},
		{func(f *disk.Facts) { f.Serial, f.WWN = "", "t10.QEMU    QEMU HARDDISK   drive-scsi0-0-0-1" }, ""},
		{func(f *disk.Facts) { f.Serial, f.MapperName = "", "vg0-data" }, "mapper_names: ['vg0-data']"},
		{partOf(func(f *disk.Facts) { f.Serial = "DATA-1-part1" }), "serial: ['DATA-1']"},
		{func(f *disk.Facts) { f.Serial = "S1" }, ""},
		{func(f *disk.Facts) { f.Serial = "" }, ""},
	} {
		f := blankDisk()
		driven(f)
		tt.put(f)
		if got := selectorOf(f); got != tt.want {
			t.Errorf("serial %q: %s, want %s", f.Serial, got, tt.want)
		}
		s := settings()
		d := Decide(f, xfs(), s)
		if _, next := Words(f, xfs(), s, d); f.Whole == "" && !strings.HasSuffix(next, "give the disk a class with "+cmp.Or(tt.want, "neighbours: ignore")) {
			t.Errorf("serial %q: %s", f.Serial, next)
		}
		if !strings.HasPrefix(tt.want, "serial: ['") {
			continue
		}
		pasted := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(tt.want, "serial: ['"), "']"), "''", "'")
		if !Pattern(pasted, ownSubject(f).serial()) || Pattern(pasted, "x"+ownSubject(f).serial()) {
			t.Errorf("%s does not select %q alone", pasted, f.Serial)
		}
	}
}

// TestWordsOfAGuard checks that the message names the drivers that may have attached the disk, and no other drivers.
func TestWordsOfAGuard(t *testing.T) {
	f, s := blankDisk(), settings()
	f.Drivers = []disk.Driver{{Name: "a\x1b[1m.example", Reach: disk.Anything}, cinder, {Name: "net.example", Reach: disk.Fabric}, {Name: "old.example", Reach: disk.Local}}
	s.CSIIgnore = []string{"old.example"}
	d := Decide(f, xfs(), s)
	if why, _ := Words(f, xfs(), s, d); why != `a storage driver seen on this node (a\x1b[1m.example, cinder.csi.openstack.org) may have attached this disk or may use it, so hotmount does not open the disk` {
		t.Error(why)
	}
}

// TestNeighbours checks that the warning names each class that will hold new disks, and the drivers that cause the
// holds.
func TestNeighbours(t *testing.T) {
	class := func(name string, s disk.Selectors) disk.Class { return disk.Class{Name: name, Selectors: s} }
	s := &disk.Settings{CSIIgnore: []string{"old.example"}, Classes: []disk.Class{
		class("virtio", disk.Selectors{Names: []string{"vd[a-z]"}}),
		class("weak", disk.Selectors{Names: []string{"re:vd."}, Serial: []string{"DATA-*", "D*"}}),
		class("strong", disk.Selectors{Serial: []string{"DATA-*", "LOG-*"}}),
		class("wwn", disk.Selectors{WWN: []string{"naa.5000c5*"}}),
		class("kind", disk.Selectors{Names: []string{"vd*"}, WWN: []string{"naa.500*"}}),
		class("lvm", disk.Selectors{Names: []string{"dm-*"}}),
		class("named", disk.Selectors{Names: []string{"dm-*"}, MapperNames: []string{"vg0-data"}}),
		class("scsi", disk.Selectors{Transport: []string{"scsi"}}),
		class("large", disk.Selectors{Size: disk.SizeRange{Least: 1}}),
		class("any", disk.Selectors{Names: []string{"*"}}),
		class("ignores", disk.Selectors{Names: []string{"vd*"}}),
	}}
	s.Classes[10].Neighbours = disk.NeighboursIgnore
	for _, tt := range []struct {
		driver disk.Driver
		want   string
	}{
		{cinder, "virtio weak kind lvm scsi large any"},
		{disk.Driver{Name: "net.example", Reach: disk.Fabric}, "lvm scsi large any"},
		{disk.Driver{Name: "lvm.example", Reach: disk.Mapper}, "lvm"},
		{disk.Driver{Name: "old.example", Reach: disk.Anything}, ""},
	} {
		var got []string
		for _, line := range Neighbours([]disk.Driver{tt.driver}, s) {
			got = append(got, strings.Fields(line)[1])
			if !strings.Contains(line, "("+tt.driver.Name+")") {
				t.Errorf("%s is not named: %s", tt.driver.Name, line)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q, want %s", tt.driver.Name, got, tt.want)
		}
	}
	if lines := Neighbours(nil, s); lines != nil {
		t.Error(lines)
	}
}
