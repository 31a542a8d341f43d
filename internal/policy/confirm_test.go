package policy

import (
	"testing"
	"time"

	"hotmount/internal/disk"
)

func TestConfirmable(t *testing.T) {
	for _, tt := range []struct {
		name    string
		facts   func(*disk.Facts)
		content *disk.Content
		config  func(*disk.Settings)
		reason  disk.Reason // the reason of the refusal, or empty if the disk can be accepted
	}{
		{"unknown bytes", nil, proven(disk.Unknown), nil, ""},
		{"LVM", nil, &disk.Content{Kind: disk.Other, Type: "LVM2_member", Proven: true}, nil, ""},
		{"LVM, and udev says so", func(f *disk.Facts) { f.Udev.FSType, f.Udev.FSUsage = "LVM2_member", "raid" }, proven(disk.Other), nil, ""},
		{"a partition table, and its partitions", func(f *disk.Facts) { f.Udev.PartTable = "gpt"; f.Partitions = []string{"vdb1"} }, proven(disk.Other), nil, ""},
		{"two filesystems, and udev says so", func(f *disk.Facts) { f.Udev.Ambivalent = "x" }, proven(disk.Other), nil, ""},
		{"a filesystem that is not accepted", func(f *disk.Facts) { f.Udev.FSType = "btrfs" }, &disk.Content{Kind: disk.Filesystem, Type: "btrfs", UUID: uuid, Proven: true}, nil, ""},
		{"a twin", func(f *disk.Facts) { f.SameUUID = []disk.Peer{{}} }, xfs(), nil, ""},
		{"a twin of the serial of one that nobody uses", func(f *disk.Facts) { f.SameUUID = []disk.Peer{{Serial: f.Serial}}; f.SameSerial = f.SameUUID }, xfs(), nil, ""},
		{"a twin without a serial of one that is mounted", func(f *disk.Facts) { f.Serial, f.SameUUID = "", []disk.Peer{{UUID: uuid, InUse: "/srv"}} }, xfs(), nil, disk.ReasonSerialTwice},
		{"a twin without a serial of one that nobody uses", func(f *disk.Facts) { f.Serial, f.SameUUID = "", []disk.Peer{{UUID: uuid}} }, xfs(), nil, ""},
		{"a twin of a serial of one without that is mounted", func(f *disk.Facts) { f.SameUUID = []disk.Peer{{UUID: uuid, InUse: "/srv"}} }, xfs(), nil, disk.ReasonSerialTwice},
		{"a twin without a serial of another WWN", func(f *disk.Facts) {
			f.Serial, f.WWN, f.SameUUID = "", "naa.1", []disk.Peer{{UUID: uuid, WWN: "naa.2", InUse: "/srv"}}
		}, xfs(), nil, ""},
		{"a twin without a serial of the same WWN", func(f *disk.Facts) {
			f.Serial, f.WWN, f.SameUUID = "", "naa.1", []disk.Peer{{UUID: uuid, WWN: "naa.1", InUse: "/srv"}}
		}, xfs(), nil, disk.ReasonSerialTwice},
		{"a twin of another serial, which is mounted", func(f *disk.Facts) { f.SameUUID = []disk.Peer{{Serial: "other", Mounted: "/srv", InUse: "/srv"}} }, xfs(), nil, ""},
		{"a second path to what is mounted", func(f *disk.Facts) {
			f.SameSerial = []disk.Peer{{}, {Serial: f.Serial, InUse: "/srv"}}
			f.SameUUID = f.SameSerial[1:]
		}, xfs(), nil, disk.ReasonSerialTwice},
		{"of the serial of a disk in use, of another WWN", func(f *disk.Facts) {
			f.WWN, f.SameSerial = "naa.1", []disk.Peer{{Serial: f.Serial, WWN: "naa.2", InUse: "/srv"}}
		}, proven(disk.Other), nil, disk.ReasonSerialTwice},
		{"a second path to the system, and its partitions", func(f *disk.Facts) { f.SameSerial = []disk.Peer{{InUse: "/"}}; f.Partitions = []string{"vdb1"} }, proven(disk.Other), nil, disk.ReasonSerialTwice},
		{"half made by another", nil, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, nil, ""},
		{"there before installation", func(f *disk.Facts) { f.Standing.Present = &disk.Identity{} }, proven(disk.Unknown), nil, ""},
		{"a filesystem lay on it", vanished, proven(disk.Unknown), nil, ""},
		{"a filesystem lay on it, blank", vanished, proven(disk.Blank), nil, disk.ReasonBefore},
		{"used by another", used, proven(disk.Unknown), nil, disk.ReasonUsed},
		{"used by another, accepted", func(f *disk.Facts) { used(f); f.Standing.Accepted = word(disk.ReasonUsed, uuid) }, proven(disk.Unknown), nil, ""},
		{"used by another, blank", used, proven(disk.Blank), nil, disk.ReasonUsed},
		{"its node bound", node, proven(disk.Unknown), nil, disk.ReasonBound},
		{"a claim unseen", hidden, proven(disk.Unknown), nil, disk.ReasonUnseen},
		{"a filesystem lay on a disk with its serial", func(f *disk.Facts) { f.Standing.FormerSerial = &lay }, proven(disk.Unknown), nil, ""},
		{"a filesystem lay in its slot", func(f *disk.Facts) { f.Standing.FormerSlot = &lay }, proven(disk.Unknown), nil, ""},
		{"too many formats", func(f *disk.Facts) { f.Standing.Braked = true }, proven(disk.Unknown), nil, ""},
		{"somebody wrote when another one was formatted", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: otherUUID, Doubt: "x"} }, proven(disk.Unknown), nil, ""},
		{"beside a storage driver", driven, proven(disk.Unknown), nil, disk.ReasonCSI},
		{"beside a storage driver, accepted", func(f *disk.Facts) { driven(f); f.Standing.Accepted = word(disk.ReasonCSI, uuid) }, proven(disk.Unknown), nil, ""},
		{"beside a storage driver, a filesystem", driven, xfs(), nil, disk.ReasonCSI},
		{"a claim unseen, blank", hidden, proven(disk.Blank), nil, disk.ReasonUnseen},
		{"refused before", func(f *disk.Facts) {
			f.Standing.Verdict = &disk.Verdict{Seq: f.Seq, Size: f.Size, Failure: "x"}
		}, proven(disk.Unknown), nil, ""},
		{"an intent that came to nothing", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }, proven(disk.Unknown), nil, ""},

		{"a filesystem that should have been overwritten", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: otherUUID, Over: true} }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, ""},
		{"a format that a power cut has torn", func(f *disk.Facts) {
			f.Standing.Intent = &disk.Intent{UUID: uuid}
			f.Udev.FSType, f.Udev.FSUsage = "xfs", "filesystem"
		}, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true, Torn: true}, nil, ""},
		{"a format during which somebody else wrote", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid, Doubt: "x"} }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, ""},
		{"a format during which somebody else wrote, and which is gone", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid, Doubt: "x"} }, proven(disk.Blank), nil, disk.ReasonDisturbed},
		{"a format that is whole", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.ReasonFilesystem},
		{"a format that a power cut has torn, formatting off", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true, Torn: true}, func(s *disk.Settings) { s.Format = false }, disk.ReasonFormatOff},
		{"a filesystem from elsewhere, known only", nil, xfs(), knownOnly, ""},
		{"another machine's filesystem", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: otherUUID} }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.ReasonShared},

		{"an intent of its slot", func(f *disk.Facts) { f.Standing.Intent, f.Standing.IntentBySlot = &disk.Intent{UUID: uuid}, true }, proven(disk.Unknown), nil, ""},
		{"this node's, half made, of another type", halfExt4, &disk.Content{Kind: disk.HalfMade, Type: disk.Ext4, UUID: uuid, Proven: true}, nil, ""},
		{"this node's, half made, class creates nothing", halfExt4, &disk.Content{Kind: disk.HalfMade, Type: disk.Ext4, UUID: uuid, Proven: true}, func(s *disk.Settings) { s.Classes[0].Create = "none" }, disk.ReasonNoCreate},

		{"unmounted by hand, and wiped", func(f *disk.Facts) { vanished(f); f.Standing.Unmounted = disk.ReasonUnmounted }, proven(disk.Unknown), nil, ""},
		{"released, and wiped", func(f *disk.Facts) { f.Standing.Unmounted = disk.ReasonReleased }, proven(disk.Unknown), nil, ""},
		{"unmounted by hand, and blank", func(f *disk.Facts) { f.Standing.Unmounted = disk.ReasonUnmounted }, proven(disk.Blank), nil, disk.ReasonUnmounted},
		{"unmounted by hand", func(f *disk.Facts) { f.Standing.Unmounted = disk.ReasonUnmounted }, xfs(), nil, disk.ReasonUnmounted},
		{"unmounted by hand, and mounted by a pod", func(f *disk.Facts) {
			f.Standing.Unmounted, f.Mounts = disk.ReasonUnmounted, []disk.MountPoint{mountedAt("/var/lib/kubelet/pods/p/volumes/kubernetes.io~local-volume/v")}
		}, proven(disk.Unknown), nil, disk.ReasonElsewhere},
		{"a filesystem that cannot be mounted", unmountable, xfs(), nil, ""},
		{"a filesystem that cannot be mounted, formatting off", unmountable, xfs(), func(s *disk.Settings) { s.Format = false }, disk.ReasonFormatOff},
		{"a filesystem that cannot be mounted, of the serial of a disk in use", func(f *disk.Facts) {
			unmountable(f)
			f.SameSerial = []disk.Peer{{Serial: f.Serial, InUse: "/srv"}}
		}, xfs(), nil, disk.ReasonSerialTwice},
		{"a filesystem that cannot be mounted, beside a storage driver", func(f *disk.Facts) { unmountable(f); driven(f) }, xfs(), nil, disk.ReasonCSI},
		{"a filesystem that cannot be mounted, in use by a pod", func(f *disk.Facts) {
			unmountable(f)
			f.Standing.Volume, f.Standing.WasMounted = &disk.Sighting{UUID: uuid, Identity: f.Identity("")}, time.Unix(1, 0)
			f.Mounts = []disk.MountPoint{mountedAt("/var/lib/kubelet/pods/p/volumes/kubernetes.io~local-volume/v")}
		}, xfs(), nil, disk.ReasonElsewhere},
		{"a disk image", nil, &disk.Content{Kind: disk.Other, Type: "qcow2", Proven: true}, nil, ""},
		{"blank", nil, proven(disk.Blank), nil, disk.ReasonBlank},
		{"given out once, blank", func(f *disk.Facts) { f.Standing.Given = &given }, proven(disk.Blank), nil, ""},
		{"given out once, unknown bytes", func(f *disk.Facts) { f.Standing.Given = &given }, proven(disk.Unknown), nil, ""},
		{"given out once, partitions", func(f *disk.Facts) { f.Standing.Given, f.Partitions = &given, []string{"vdb1"} }, proven(disk.Other), nil, ""},
		{"given out once, xfs", func(f *disk.Facts) { f.Standing.Given = &given }, xfs(), nil, ""},
		{"given out once, blank, formatting off", func(f *disk.Facts) { f.Standing.Given = &given }, proven(disk.Blank), func(s *disk.Settings) { s.Format = false }, disk.ReasonFormatOff},
		{"given out once, blank, a second path to it", func(f *disk.Facts) {
			f.Standing.Given, f.SameSerial = &given, []disk.Peer{{Serial: f.Serial, InUse: "/srv"}}
		}, proven(disk.Blank), nil, disk.ReasonSerialTwice},
		{"given out now", func(f *disk.Facts) { f.Standing.Given, f.Standing.Link = &given, given.Link }, proven(disk.Unknown), nil, disk.ReasonGivenElse},
		{"on a block volume, blank", onBlockVolume, proven(disk.Blank), nil, disk.ReasonNeverFormat},
		{"on a block volume, unknown bytes", onBlockVolume, proven(disk.Unknown), nil, disk.ReasonNeverFormat},
		{"on a block volume, xfs", onBlockVolume, xfs(), nil, disk.ReasonNeverFormat},
		{"there at a new machine-id", arrived, proven(disk.Unknown), nil, ""},
		{"there at a new machine-id, blank", arrived, proven(disk.Blank), nil, disk.ReasonNewMachine},
		{"of a class in block mode", nil, proven(disk.Unknown), block, disk.ReasonBlock},
		{"not read", nil, proven(disk.Unread), nil, disk.ReasonUnread},
		{"a filesystem that is mounted", nil, xfs(), nil, disk.ReasonFilesystem},
		{"mounted", func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt("/srv")} }, proven(disk.Unknown), nil, disk.ReasonElsewhere},
		{"mounted in its place", func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)} }, proven(disk.Unknown), nil, disk.ReasonMounted},
		{"system", func(f *disk.Facts) { f.System = "/" }, proven(disk.Unknown), nil, disk.ReasonSystem},
		{"system, with partitions", func(f *disk.Facts) { f.System = "/"; f.Partitions = []string{"vda1"} }, proven(disk.Other), nil, disk.ReasonSystem},
		{"swap", func(f *disk.Facts) { f.Swap = true }, proven(disk.Other), nil, disk.ReasonSwap},
		{"held", func(f *disk.Facts) { f.Holders = []string{"dm-0"} }, proven(disk.Other), nil, disk.ReasonHeld},
		{"held through a partition", func(f *disk.Facts) { f.Holders = []string{"dm-0"}; f.Partitions = []string{"vdb1"} }, proven(disk.Other), nil, disk.ReasonHeld},
		{"below a loop device", looped, proven(disk.Other), nil, disk.ReasonHeld},
		{"a partition", part, proven(disk.Other), parts, disk.ReasonPartition},
		{"claimed", func(f *disk.Facts) { f.Claim = "/etc/fstab:4" }, proven(disk.Unknown), nil, disk.ReasonClaimed},
		{"no class", func(f *disk.Facts) { f.Name = "sda" }, proven(disk.Unknown), nil, disk.ReasonNoClass},
		{"read-only", func(f *disk.Facts) { f.ReadOnly = true }, proven(disk.Unknown), nil, disk.ReasonReadOnly},
		{"read-only, with partitions", func(f *disk.Facts) { f.ReadOnly = true; f.Partitions = []string{"vdb1"} }, proven(disk.Unknown), nil, disk.ReasonReadOnly},
		{"too small", func(f *disk.Facts) { f.Size = 1 << 20 }, proven(disk.Unknown), nil, disk.ReasonTooSmall},
		{"class creates nothing", nil, proven(disk.Unknown), func(s *disk.Settings) { s.Classes[0].Create = "none" }, disk.ReasonNoCreate},
		{"formatting off", nil, proven(disk.Unknown), func(s *disk.Settings) { s.Format = false }, disk.ReasonFormatOff},
		{"formatting off on this node", func(f *disk.Facts) { f.Standing.Formatting = "lost" }, proven(disk.Unknown), nil, disk.ReasonFormatOff},
		{"writes not counted", func(f *disk.Facts) { f.Uncounted = true }, proven(disk.Unknown), nil, disk.ReasonUncounted},
	} {
		f, s := blankDisk(), settings()
		if tt.facts != nil {
			tt.facts(f)
		}
		if tt.config != nil {
			tt.config(s)
		}
		d, ok := Confirmable(f, tt.content, s)
		if ok != (tt.reason == "") || !ok && d.Reason != tt.reason {
			t.Errorf("%s: %v, %s (%s)", tt.name, ok, d.Action, d.Reason)
		}
	}
}

func unmountable(f *disk.Facts) { f.Standing.MountFailure = "x" }

func vanished(f *disk.Facts) { f.Standing.Before = &disk.Sighting{UUID: uuid} }

// halfExt4 sets the record of an ext4 format that did not finish.
func halfExt4(f *disk.Facts) {
	f.Standing.Intent = &disk.Intent{UUID: uuid, Ext4: &disk.MkfsExt4{}}
}

// TestWord checks which hold of a disk an accept lifts. If an accept lifts no hold, Word must return an empty
// disk.Word. A disk that is refused for a duplicate UUID can be accepted only after the other disk is gone.
func TestWord(t *testing.T) {
	for name, tt := range map[string]struct {
		facts   func(*disk.Facts)
		content *disk.Content
		config  func(*disk.Settings)
		want    disk.Word
	}{
		"made by another":            {func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: otherUUID} }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, word(disk.ReasonShared, uuid)[0]},
		"not overwritten":            {func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: otherUUID, Over: true} }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, word(disk.ReasonOverwrite, uuid)[0]},
		"disturbed":                  {func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid, Doubt: "x"} }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, word(disk.ReasonDisturbed, uuid)[0]},
		"on a former block volume":   {func(f *disk.Facts) { f.Standing.Given = &given }, xfs(), nil, word(disk.ReasonFormerBlock, uuid)[0]},
		"another block volume":       {func(f *disk.Facts) { f.Standing.Given = &disk.Given{Serial: "S1", Size: f.Size + 1} }, proven(disk.Unread), block, word(disk.ReasonOtherBlock, "")[0]},
		"content to be given out":    {func(f *disk.Facts) { f.Udev.FSType = "LVM2_member" }, proven(disk.Other), block, word(disk.ReasonContent, "")[0]},
		"former serial, block":       {func(f *disk.Facts) { f.Standing.FormerSerial = &lay }, proven(disk.Unread), block, word(disk.ReasonFormerSerial, otherUUID)[0]},
		"of another class":           {was("/mnt/whole", "whole"), xfs(), beside(wholeClass), word(disk.ReasonOtherClass, uuid)[0]},
		"another class, block":       {another(disk.Given{Serial: "S1", Link: "/mnt/block/virtio-S1", Class: "raw"}), proven(disk.Unread), func(s *disk.Settings) { block(s); beside(rawClass)(s) }, word(disk.ReasonOtherClass, "")[0]},
		"used by another":            {used, xfs(), nil, word(disk.ReasonUsed, uuid)[0]},
		"from elsewhere":             {nil, xfs(), knownOnly, word(disk.ReasonNotAdopted, uuid)[0]},
		"a claim unseen":             {hidden, xfs(), nil, word(disk.ReasonUnseen, uuid)[0]},
		"beside a storage driver":    {driven, xfs(), nil, word(disk.ReasonCSI, uuid)[0]},
		"a twin whose peer is gone":  {func(f *disk.Facts) { f.Standing.Twin = true }, xfs(), nil, word(disk.ReasonTwin, uuid)[0]},
		"a twin whose peer is there": {func(f *disk.Facts) { f.Standing.Twin, f.SameUUID = true, []disk.Peer{{}} }, xfs(), nil, disk.Word{}},
		"released":                   {func(f *disk.Facts) { f.Standing.Unmounted = disk.ReasonReleased }, xfs(), nil, disk.Word{}},
		"unmounted by hand":          {func(f *disk.Facts) { f.Standing.Unmounted = disk.ReasonUnmounted }, xfs(), nil, disk.Word{}},
		"formatting is off":          {nil, proven(disk.Blank), func(s *disk.Settings) { s.Format = false }, disk.Word{}},
		"refused":                    {nil, proven(disk.Other), nil, disk.Word{}},
		"to be mounted":              {nil, xfs(), nil, disk.Word{}},
	} {
		f, s := blankDisk(), settings()
		if tt.facts != nil {
			tt.facts(f)
		}
		if tt.config != nil {
			tt.config(s)
		}
		if d := Decide(f, tt.content, s); Word(f, d) != tt.want {
			t.Errorf("%s: %+v, %+v, want %+v", name, d, Word(f, d), tt.want)
		}
	}
}

// TestRetry checks the accept after a failed format, after a release, and after an unmount. Such an accept must only
// make hotmount try again, and must leave no record.
func TestRetry(t *testing.T) {
	for _, r := range []disk.Reason{disk.ReasonFormatFailed, disk.ReasonReleased, disk.ReasonUnmounted} {
		if l := ruleOf(r).lift; l&byRetry == 0 || l&byAccept != 0 {
			t.Errorf("%s: %b", r, l)
		}
	}
}

// TestUnrecorded checks for which reasons hotmount must still make a record. The record keeps a hold or a refusal in
// force after its cause has ended.
func TestUnrecorded(t *testing.T) {
	for _, tt := range []struct {
		reason disk.Reason
		st     disk.Standing
		want   bool
	}{
		{disk.ReasonBrake, disk.Standing{}, true},
		{disk.ReasonBrake, disk.Standing{Braked: true}, false},
		{disk.ReasonTwin, disk.Standing{}, true},
		{disk.ReasonTwin, disk.Standing{Twin: true}, false},
		{disk.ReasonSerialTwice, disk.Standing{}, false},
		{disk.ReasonSerialTwice, disk.Standing{Given: &disk.Given{}}, true},
		{disk.ReasonSerialTwice, disk.Standing{Given: &disk.Given{Twice: true}}, false},
		{disk.ReasonPresent, disk.Standing{}, false},
		{disk.ReasonFormerSlot, disk.Standing{}, false},
	} {
		if got := Unrecorded(&disk.Facts{Standing: tt.st}, tt.reason); got != tt.want {
			t.Errorf("%s, %+v: %v", tt.reason, tt.st, got)
		}
	}
}
