package policy

import (
	"strings"
	"testing"

	"hotmount/internal/disk"
)

func TestUse(t *testing.T) {
	srv := mountedAt("/srv")
	for name, test := range map[string]struct {
		put    func(*disk.Facts)
		config func(*disk.Settings)
		want   string
	}{
		"nobody":           {func(*disk.Facts) {}, nil, ""},
		"mounted":          {func(f *disk.Facts) { f.Mounts = []disk.MountPoint{srv} }, nil, "mounted at /srv"},
		"bound":            {func(f *disk.Facts) { f.Bound = []string{"/run/a", "/run/b"} }, nil, "bind-mounted as a device at /run/a"},
		"bound and looped": {func(f *disk.Facts) { f.Bound = []string{"/run/a"}; looped(f) }, nil, "bind-mounted as a device at /run/a"},
		"looped alone":     {looped, nil, "below loop3"},
		"looped perhaps":   {func(f *disk.Facts) { looped(f); f.LoopsUnsure = true }, nil, ""},
		"below a device":   {func(f *disk.Facts) { f.Holders = []string{"dm-0"}; looped(f) }, nil, "below dm-0, loop3"},
		"below LVM": {func(f *disk.Facts) {
			f.Holders = []string{"dm-0"}
			f.Udev.FSType, f.Udev.FSUsage = "LVM2_member", "raid"
		}, nil, ""},
		"a multipath leg": {func(f *disk.Facts) {
			f.Holders = []string{"dm-0"}
			f.Udev.FSType, f.Udev.FSUsage, f.Udev.Multipath = "mpath_member", "", true
		}, nil, ""},
		"below its own partition":   {func(f *disk.Facts) { f.Partitions, f.Holders = []string{"vdb1"}, []string{"vdb1"} }, nil, ""},
		"a partition, whole in use": {func(f *disk.Facts) { part(f); f.Holders = []string{f.Whole} }, parts, ""},
		"claimed":                   {func(f *disk.Facts) { f.Claim = "/etc/fstab:4" }, nil, "claimed by /etc/fstab:4"},
		"swap":                      {func(f *disk.Facts) { f.Swap = true }, nil, ""},
		"in its place":              {func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid), srv} }, nil, ""},
		"in its place, bound": {func(f *disk.Facts) {
			f.Mounts, f.Bound = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)}, []string{"/x"}
		}, nil, ""},
		"the twin's own place":   {func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt(twinMount)} }, nil, ""},
		"there and elsewhere":    {func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt(twinMount), srv} }, nil, "mounted at /srv"},
		"a volume on record":     {func(f *disk.Facts) { f.Mounts, f.Standing.Volume = []disk.MountPoint{srv}, &disk.Sighting{UUID: uuid} }, nil, ""},
		"a copy of a volume":     {func(f *disk.Facts) { copyOf(f); f.Mounts = []disk.MountPoint{srv} }, nil, "mounted at /srv"},
		"a block volume":         {func(f *disk.Facts) { f.Mounts, f.Standing.Given = []disk.MountPoint{srv}, &given }, block, ""},
		"of no class":            {func(f *disk.Facts) { f.Name, f.Mounts = "sda", []disk.MountPoint{srv} }, nil, "mounted at /srv"},
		"of no class, claimed":   {func(f *disk.Facts) { f.Name, f.Claim = "sda", "/etc/fstab:4" }, nil, "claimed by /etc/fstab:4"},
		"of no class, unused":    {func(f *disk.Facts) { f.Name = "sda" }, nil, ""},
		"of no class, dm":        {func(f *disk.Facts) { f.Name, f.Mounts = "dm-0", []disk.MountPoint{srv} }, nil, ""},
		"of a class, dm":         {func(f *disk.Facts) { f.Name, f.Mounts = "dm-0", []disk.MountPoint{srv} }, func(s *disk.Settings) { s.Classes[0].Names = []string{"dm-*"} }, "mounted at /srv"},
		"the system's":           {func(f *disk.Facts) { f.System, f.Mounts = "/", []disk.MountPoint{srv} }, nil, ""},
		"recorded already":       {func(f *disk.Facts) { f.Mounts, f.Standing.Used = []disk.MountPoint{srv}, &disk.Use{} }, nil, ""},
		"to be given out, bound": {func(f *disk.Facts) { f.Bound = []string{"/run/a"} }, block, "bind-mounted as a device at /run/a"},
	} {
		f, s := blankDisk(), settings()
		test.put(f)
		if test.config != nil {
			test.config(s)
		}
		if got := Use(f, Decide(f, xfs(), s)); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestWordsOfAVolumeInUse checks that the message says who uses the volume and what the operator must end. The claim
// contains bytes that the message must escape.
func TestWordsOfAVolumeInUse(t *testing.T) {
	const means = "hotmount does not mount this volume of the node, because something else uses the disk: "
	for how, put := range map[string]func(*disk.Facts){
		"mounted at /srv":                         func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt("/srv")} },
		"bind-mounted as a device at /run/volume": node,
		`claimed by /etc/a\x1b.mount`:             func(f *disk.Facts) { f.Claim = "/etc/a\x1b.mount" },
		"devices built on the disk: md0, loop3":   func(f *disk.Facts) { looped(f); f.Holders = []string{"md0"} },
	} {
		for unmounted, remedy := range map[disk.Reason]string{"": "hotmount mounts it by itself", disk.ReasonUnmounted: "hotmount accept vdb unmounted-by-hand"} {
			f, s := blankDisk(), settings()
			onRecordAnd(put)(f)
			f.Standing.Unmounted = unmounted
			d := Decide(f, xfs(), s)
			if why, next := Words(f, xfs(), s, d); why != means+how || !strings.Contains(next, remedy) || d.State() != "failed" || Priority(d) != 4 {
				t.Errorf("%s: %q, %q, %s at %d", how, why, next, d.State(), Priority(d))
			}
		}
	}
}

// TestMovedClass checks a volume that is still mounted in the former directory of its class. The message must not say
// that somebody else uses the volume, and must name the command that moves the volume.
func TestMovedClass(t *testing.T) {
	f, s := blankDisk(), settings()
	was("/mnt/old", "old")(f)
	f.Standing.OnRecord, f.Mounts = true, []disk.MountPoint{mountedAt("/mnt/old/" + uuid)}
	d := Decide(f, xfs(), s)
	why, next := Words(f, xfs(), s, d)
	if d.Reason != disk.ReasonInUse || why != "the disk is still mounted at /mnt/old/"+uuid+", but its class default has the directory /mnt/disks now" ||
		next != "if nobody needs the volume at the old path: umount /mnt/old/"+uuid+"; hotmount then mounts the disk in /mnt/disks" {
		t.Errorf("%s: %q, %q", d.Reason, why, next)
	}
	f.Claim = "/etc/fstab:4"
	if why, _ := Words(f, xfs(), s, Decide(f, xfs(), s)); !strings.Contains(why, "something else uses the disk: mounted at /mnt/old/") {
		t.Error(why)
	}
	f.Claim, f.Mounts = "", []disk.MountPoint{mountedAt("/srv")}
	if why, _ := Words(f, xfs(), s, Decide(f, xfs(), s)); !strings.Contains(why, "something else uses the disk: mounted at /srv") {
		t.Error(why)
	}
}

// copyOf changes the serial of the disk, so that the records show the filesystem on a disk with another serial.
func copyOf(f *disk.Facts) {
	was("/mnt/disks", "default")(f)
	f.Udev.FSType, f.Udev.FSUsage, f.Udev.FSUUID = "xfs", "filesystem", uuid
	f.Serial, f.Standing.LastOn = "COPY", &disk.Sighting{UUID: uuid, Left: true, Identity: disk.Identity{Serial: "FIRST"}}
}

func TestAsks(t *testing.T) {
	others := func(put func(*disk.Facts)) func(*disk.Facts) {
		return func(f *disk.Facts) {
			f.Neighbours = true
			if put != nil {
				put(f)
			}
		}
	}
	for name, test := range map[string]struct {
		put     func(*disk.Facts)
		content *disk.Content
		config  func(*disk.Settings)
		want    bool
	}{
		"a node without others":                    {func(*disk.Facts) {}, xfs(), nil, false},
		"a filesystem":                             {others(nil), xfs(), nil, true},
		"a filesystem on record":                   {others(was("/mnt/disks", "default")), xfs(), nil, false},
		"a copy of one on record, on another disk": {others(copyOf), xfs(), nil, true},
		"given out before, accepted as a filesystem": {others(func(f *disk.Facts) {
			f.Standing.Given, f.Standing.Accepted = &disk.Given{Serial: "S1", Size: f.Size}, everyWord
		}), xfs(), nil, true},
		"another one was on record": {others(func(f *disk.Facts) { f.Standing.Volume = &disk.Sighting{UUID: otherUUID} }), xfs(), nil, true},
		"one made here":             {others(nil), &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true, Made: true}, nil, false},
		"perhaps blank":             {others(nil), proven(disk.Unread), nil, true},
		"blank":                     {others(nil), proven(disk.Blank), nil, true},
		"to be given out":           {others(nil), proven(disk.Unread), block, true},
		"given out before":          {others(func(f *disk.Facts) { f.Standing.Given = &disk.Given{Serial: "S1", Size: f.Size} }), proven(disk.Unread), block, false},
		"refused":                   {others(nil), proven(disk.Other), nil, true},
		"creates nothing":           {others(nil), proven(disk.Blank), func(s *disk.Settings) { s.Classes[0].Create = "none" }, true},
		"refused, no others":        {func(*disk.Facts) {}, proven(disk.Other), nil, false},
		"partitions":                {others(func(f *disk.Facts) { f.Partitions = []string{"vdb1"} }), proven(disk.Other), nil, true},
		"a partition, blank":        {others(part), proven(disk.Blank), parts, true},
		"a twin":                    {others(func(f *disk.Facts) { f.SameUUID = []disk.Peer{{}} }), xfs(), nil, true},
		"a twin, on record":         {others(func(f *disk.Facts) { was("/mnt/disks", "default")(f); f.SameUUID = []disk.Peer{{}} }), xfs(), nil, false},
		"known only":                {others(nil), xfs(), knownOnly, true},
		"too small":                 {others(func(f *disk.Facts) { f.Size = 1 << 20 }), proven(disk.Blank), nil, false},
		"held for use":              {others(used), xfs(), nil, false},
		"held for a driver":         {others(func(f *disk.Facts) { f.Drivers = []disk.Driver{{Name: "x", Reach: disk.Local}} }), xfs(), nil, false},
		"held, on record":           {others(func(f *disk.Facts) { was("/mnt/disks", "default")(f); f.Standing.Unmounted = disk.ReasonReleased }), xfs(), nil, false},
		"mounted somewhere":         {func(f *disk.Facts) { f.Unlisted = true }, xfs(), nil, true},
		"a mount that is under way": {func(f *disk.Facts) { f.Unlisted = true; was("/mnt/disks", "default")(f) }, xfs(), nil, false},
		"claimed":                   {others(func(f *disk.Facts) { f.Claim = "/etc/fstab:4" }), xfs(), nil, false},
		"mounted":                   {others(func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)} }), xfs(), nil, false},
	} {
		f, s := blankDisk(), settings()
		test.put(f)
		if test.config != nil {
			test.config(s)
		}
		if got := Asks(f, test.content, Decide(f, test.content, s)); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
