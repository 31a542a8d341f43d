package policy

import (
	"testing"

	"pgregory.net/rapid"

	"hotmount/internal/disk"
)

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, value string
		want           bool
	}{
		{"vd[b-z]", "vdb", true},
		{"vd[b-z]", "vda", false},
		{"vd", "vdb", false},
		{"*", "a/b", true},
		{"a/?", "a/b", true},
		{"FAST*", "fast-1", false},
		{"re:vd[b-d]", "vdc", true},
		{"re:vd", "vdb", false},
		{"re:b", "vdb", false},
		{"re:vd|b", "vdb", false},
		{"re:.*", "a\nb", true},
		{"re:(", "(", false},
		{"[", "[", false},
		{"", "", true},
	} {
		if got := Pattern(c.pattern, c.value); got != c.want {
			t.Errorf("Pattern(%q, %q) = %v", c.pattern, c.value, got)
		}
	}
}

// TestNamespaces checks that a pattern for the serial of an NVMe controller matches the controller's second namespace,
// in a class and in an exclusion.
func TestNamespaces(t *testing.T) {
	f := &disk.Facts{ID: disk.ID{Name: "nvme0n2"}, Transport: "nvme", Serial: "n2-S5G "}
	for pattern, want := range map[string]bool{"S5G": true, "S5*": true, "n2-S5G": true, "n*-S5G": true, "n3-S5G": false, "5G": false} {
		s := &disk.Settings{Classes: []disk.Class{{Name: "a", Selectors: disk.Selectors{Serial: []string{pattern}}}}}
		if got := Select(f, s) != nil; got != want {
			t.Errorf("%s: selected %v", pattern, got)
		}
		s = &disk.Settings{Exclude: []disk.Selectors{s.Classes[0].Selectors}, Classes: []disk.Class{{Name: "a", Selectors: disk.Selectors{Names: []string{"nvme*"}}}}}
		if got := Select(f, s) == nil; got != want {
			t.Errorf("%s: excluded %v", pattern, got)
		}
	}
}

func TestSelectors(t *testing.T) {
	yes, no := true, false
	f := &disk.Facts{
		ID: disk.ID{Name: "sdb"}, Transport: "scsi", Serial: "S1", WWN: "naa.5000c500a1b2c3d4", Model: "QEMU HARDDISK", Vendor: "QEMU",
		Slot: "pci-0000:00:06.0-scsi-0:0:1:0", Size: 5 << 30, Rotational: true, LogicalSector: 512,
	}
	for name, c := range map[string]struct {
		s    disk.Selectors
		want bool
	}{
		"name":             {disk.Selectors{Names: []string{"vd*", "sd?"}}, true},
		"other name":       {disk.Selectors{Names: []string{"vd*"}}, false},
		"transport":        {disk.Selectors{Transport: []string{"nvme", "scsi"}}, true},
		"other transport":  {disk.Selectors{Transport: []string{"nvme"}}, false},
		"serial":           {disk.Selectors{Serial: []string{"S*"}}, true},
		"no mapper name":   {disk.Selectors{MapperNames: []string{"*"}}, false},
		"wwn":              {disk.Selectors{WWN: []string{"naa.5000c5*"}}, true},
		"other wwn":        {disk.Selectors{WWN: []string{"naa.6*"}}, false},
		"model":            {disk.Selectors{Model: []string{"QEMU*"}}, true},
		"other model":      {disk.Selectors{Model: []string{"QEMU"}}, false},
		"vendor":           {disk.Selectors{Vendor: []string{"QEMU"}}, true},
		"other vendor":     {disk.Selectors{Vendor: []string{"ATA"}}, false},
		"by path":          {disk.Selectors{ByPath: []string{"*-scsi-0:0:1:*"}}, true},
		"other path":       {disk.Selectors{ByPath: []string{"*-scsi-0:0:2:*"}}, false},
		"size":             {disk.Selectors{Size: disk.SizeRange{Least: 5 << 30, Most: 5 << 30}}, true},
		"too small":        {disk.Selectors{Size: disk.SizeRange{Least: 5<<30 + 1}}, false},
		"too large":        {disk.Selectors{Size: disk.SizeRange{Most: 5<<30 - 1}}, false},
		"rotational":       {disk.Selectors{Rotational: &yes}, true},
		"not rotational":   {disk.Selectors{Rotational: &no}, false},
		"removable":        {disk.Selectors{Removable: &yes}, false},
		"not removable":    {disk.Selectors{Removable: &no}, true},
		"local":            {disk.Selectors{Local: &yes}, true},
		"not local":        {disk.Selectors{Local: &no}, false},
		"sector":           {disk.Selectors{LogicalSector: []uint32{512, 4096}}, true},
		"other sector":     {disk.Selectors{LogicalSector: []uint32{4096}}, false},
		"all must hold":    {disk.Selectors{Transport: []string{"scsi"}, Vendor: []string{"ATA"}}, false},
		"nothing is given": {disk.Selectors{}, false},
	} {
		s := &disk.Settings{Classes: []disk.Class{{Name: "a", Selectors: c.s}}}
		if got := Select(f, s) != nil; got != c.want {
			t.Errorf("%s: selected %v", name, got)
		}
		s = &disk.Settings{Exclude: []disk.Selectors{c.s}, Classes: []disk.Class{{Name: "a", Selectors: disk.Selectors{Names: []string{"sd*"}}}}}
		if got := Select(f, s) == nil; got != c.want {
			t.Errorf("%s: excluded %v", name, got)
		}
	}
	// Selectors for SCSI disks also match virtio-scsi disks. Selectors for virtio-scsi disks do not match other SCSI
	// disks.
	for _, c := range []struct {
		is, wanted string
		want       bool
	}{{"scsi", "scsi", true}, {"scsi", disk.VirtioSCSI, false}, {disk.VirtioSCSI, "scsi", true}, {disk.VirtioSCSI, disk.VirtioSCSI, true}, {disk.VirtioSCSI, "virtio", false}} {
		f.Transport = c.is
		s := &disk.Settings{Classes: []disk.Class{{Name: "a", Selectors: disk.Selectors{Transport: []string{c.wanted}}}}}
		if got := Select(f, s) != nil; got != c.want {
			t.Errorf("transport %s: a %s disk is selected %v", c.wanted, c.is, got)
		}
	}
}

// TestNamed checks that a device of an unusual kind is selected only by a name pattern for that kind. The name pattern
// must spell at least the first two letters of the device's name.
func TestNamed(t *testing.T) {
	for _, tc := range []struct {
		name     string
		patterns []string
		want     bool
	}{
		{"vdb", nil, true},
		{"dm-0", []string{"*"}, false},
		{"dm-0", []string{"dm-*"}, true},
		{"dm-0", []string{"re:dm-[0-9]"}, true},
		{"dm-0", []string{"dm-1", "*"}, false},
		{"x", []string{"x*"}, false},
	} {
		if got := nameMayMatch(tc.name, &disk.Selectors{Names: tc.patterns}); got != tc.want {
			t.Errorf("%s by %q: %v", tc.name, tc.patterns, got)
		}
	}
}

func TestFirstClassHasIt(t *testing.T) {
	s := &disk.Settings{Classes: []disk.Class{
		{Name: "nvme", Selectors: disk.Selectors{Transport: []string{"nvme"}}},
		{Name: "b", Selectors: disk.Selectors{Names: []string{"vd*"}}},
		{Name: "c", Selectors: disk.Selectors{Names: []string{"vdb"}}},
	}}
	if c := Select(&disk.Facts{ID: disk.ID{Name: "vdb"}, Transport: "virtio"}, s); c == nil || c.Name != "b" {
		t.Errorf("%v", c)
	}
}

// TestNarrow checks that a device of an unusual kind is selected only by a pattern that begins with the letters of that
// kind.
func TestNarrow(t *testing.T) {
	for _, c := range []struct {
		name, pattern string
		want          bool
	}{
		{"dm-0", "*", false}, {"dm-0", "d*", false}, {"dm-0", "dm*", false}, {"dm-0", "[d]m-0", false}, {"dm-0", "re:.*", false},
		{"dm-0", "dm-*", true}, {"dm-0", "re:dm-[0-9]+", true}, {"dm-0", "dm-1", false},
		{"loop0", "*", false}, {"loop0", "loop0", false}, {"sr0", "*", false}, {"zram0", "re:.*", false},
		{"md0", "md*", true}, {"xvdb", "xvd[b-z]", true}, {"vdb", "*", true}, {"sdb", "re:sd.", true}, {"nvme0n1", "nvme*", true},
	} {
		s := &disk.Settings{Classes: []disk.Class{{Name: "a", Selectors: disk.Selectors{Names: []string{c.pattern}}}}}
		if got := Select(&disk.Facts{ID: disk.ID{Name: c.name}}, s) != nil; got != c.want {
			t.Errorf("%q selects %s: %v", c.pattern, c.name, got)
		}
	}
}

// TestLoopDevices checks that a class selects a loop device only with patterns for the device's name and its backing
// file.
func TestLoopDevices(t *testing.T) {
	files := []string{"/srv/ci/*.img", "/dev/shm/*", "/var/lib/*/*/*", "/srv/*/plugins/kubernetes.io/*", "/srv/*/volumes/kubernetes.io~x/*", "/srv/x/volumeDevices/*", "/srv/x/volume-subpaths/*"}
	for _, c := range []struct {
		file   string
		device bool
		want   bool
	}{
		{"/srv/ci/a.img", false, true},
		{"/srv/ci/a.img", true, false},
		{"/srv/ci/a.raw", false, false},
		{"/srv/ci/b/a.img", false, false},
		{"/srv/ci/a.img (deleted)", false, false},
		{"/var/lib/images/a/b (deleted)", false, false},
		{"", false, false},
		{"/dev/shm/a", false, false},
		{"/var/lib/images/a/b", false, true},
		{"/var/lib/kubelet/a/b", false, false},
		{"/srv/x/plugins/kubernetes.io/a", false, false},
		{"/srv/x/volumes/kubernetes.io~x/a", false, false},
		{"/srv/x/volumeDevices/a", false, false},
		{"/srv/x/volume-subpaths/a", false, false},
	} {
		f := &disk.Facts{ID: disk.ID{Name: "loop7"}, Transport: "loop", BackingFile: c.file, BackingDevice: c.device}
		for _, s := range []disk.Selectors{{Names: []string{"loop*"}, BackingFile: files}, {Names: []string{"*"}, BackingFile: files}, {Names: []string{"loop*"}}} {
			want := c.want && s.Names[0] == "loop*" && s.BackingFile != nil
			if got := Select(f, &disk.Settings{Classes: []disk.Class{{Name: "a", Selectors: s}}}) != nil; got != want {
				t.Errorf("%q, over a device: %v, by %q and %q: %v", c.file, c.device, s.Names, s.BackingFile, got)
			}
		}
	}
	// A device that is not a loop device has no backing file.
	s := &disk.Settings{Classes: []disk.Class{{Name: "a", Selectors: disk.Selectors{Names: []string{"vd*", "loop*"}, BackingFile: files}}}}
	if Select(blankDisk(), s) != nil {
		t.Error("a virtio disk is selected by a file")
	}
	// An exclusion of a loop device needs only one pattern, of its name or of its backing file.
	s = &disk.Settings{Classes: []disk.Class{{Name: "a", Selectors: disk.Selectors{Names: []string{"loop*"}, BackingFile: files}}}}
	f := &disk.Facts{ID: disk.ID{Name: "loop7"}, Transport: "loop", BackingFile: "/srv/ci/a.img"}
	for _, e := range []disk.Selectors{{Names: []string{"loop7"}}, {BackingFile: []string{"/srv/ci/a*"}}, {Names: []string{"loop*"}, BackingFile: []string{"/x/["}}} {
		s.Exclude = []disk.Selectors{e}
		if got, want := Select(f, s) == nil, len(e.BackingFile) == 0 || e.BackingFile[0] != "/x/["; got != want {
			t.Errorf("excluded by %q and %q: %v", e.Names, e.BackingFile, got)
		}
	}
}

// TestSelectAllocatesNothing checks that Select allocates no memory with many selectors and compiled regular
// expressions. Decide calls Select for every event.
func TestSelectAllocatesNothing(t *testing.T) {
	yes, no := true, false
	f := blankDisk()
	every := disk.Selectors{
		Names: []string{"vd[b-d]", "re:vd[a-z]+"}, Transport: []string{"virtio"}, Serial: []string{"re:S[0-9]"}, ByPath: []string{"pci-*.?"},
		Size: disk.SizeRange{Least: 1 << 30, Most: 1 << 40}, Rotational: &no, Removable: &no, Local: &yes, LogicalSector: []uint32{512},
	}
	s := settings()
	s.Exclude = []disk.Selectors{{Serial: []string{"re:OLD-.*"}}, {Serial: []string{"OLD-*"}, Removable: &no}}
	s.Classes[0].Selectors = every
	given := s
	s = Compile(s)
	if given.Exclude[0].Compiled != nil || given.Classes[0].Compiled != nil || s.Exclude[0].Compiled == nil || s.Classes[0].Compiled == nil {
		t.Fatal("the settings themselves were changed, or not prepared")
	}
	if c := Select(f, s); c == nil {
		t.Fatal("not selected")
	}
	if n := testing.AllocsPerRun(100, func() { Select(f, s) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	loop := &disk.Facts{ID: disk.ID{Name: "loop7"}, Transport: "loop", BackingFile: "/srv/ci/a.img"}
	s.Classes[0].Selectors = disk.Selectors{Names: []string{"loop*"}, BackingFile: []string{"/srv/ci/*.raw", "/srv/ci/*.img"}}
	if Select(loop, s) == nil {
		t.Fatal("the loop device is not selected")
	}
	if n := testing.AllocsPerRun(100, func() { Select(loop, s) }); n != 0 {
		t.Errorf("a loop device: %v allocations", n)
	}
}

// TestNoConfigurationHasTheSystem checks that a disk of the running system belongs to no class and is ignored, whatever
// the selectors match.
func TestNoConfigurationHasTheSystem(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		pick := func(of ...string) []string { return rapid.SliceOfN(rapid.SampledFrom(of), 0, 2).Draw(r, "list") }
		s := settings()
		s.Classes[0].Selectors = disk.Selectors{
			Names: pick("vda", "*", "re:.*", "vd[a-z]", "dm-*", "loop*"), BackingFile: pick("/srv/ci/*"), Transport: pick("virtio", "*"), Serial: pick("S1", "*"),
			Size: disk.SizeRange{Least: rapid.Uint64Range(0, 10).Draw(r, "least")},
		}
		f := blankDisk()
		f.Name = rapid.SampledFrom([]string{"vda", "dm-0", "sda", "nvme0n1", "loop0"}).Draw(r, "name")
		f.BackingFile = "/srv/ci/root.img"
		f.System = rapid.SampledFrom([]string{"/", "/boot", "/var"}).Draw(r, "system")
		if c := Select(f, s); c != nil {
			r.Fatalf("class %v has it", c.Selectors)
		}
		if d := Decide(f, proven(disk.Blank), s); d.Action != disk.Ignore {
			r.Fatalf("%v", d)
		}
	})
}
