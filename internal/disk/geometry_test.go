package disk

import "testing"

func TestUsable(t *testing.T) {
	const block, group = 4096, 65536 * 4096
	xfs := Geometry{Size: 4 * group, Block: block, Group: group}
	ext4 := Geometry{Size: 4 * group, Block: block}
	for _, tt := range []struct {
		name string
		g    Geometry
		size uint64
		want uint64
	}{
		{"XFS that fills its disk", xfs, 4 * group, 4 * group},
		{"a tail of a part of a block", xfs, 4*group + block - 1, 4 * group},
		{"a tail too small for a group", xfs, 4*group + 63*block, 4 * group},
		{"a tail just large enough for a group", xfs, 4*group + 64*block, 4*group + 64*block},
		{"room in the last group", xfs, 4*group - block, 4*group - block},
		{"ext4", ext4, 4*group + 63*block + 5, 4*group + 63*block},
		{"nothing known", Geometry{}, group, 0},
	} {
		if got := tt.g.Usable(tt.size); got != tt.want {
			t.Errorf("%s: %d bytes, want %d", tt.name, got, tt.want)
		}
	}
}

// TestFull checks the results of Full. A filesystem is full if it fills its disk. Full accepts a measurement only if
// the superblock on the disk shows the same size. If the superblock or the measurement is unknown, Full accepts a
// record that the filesystem was full at the same disk size. For a filesystem that is larger than its disk, Full always
// returns false.
func TestFull(t *testing.T) {
	const block, group = 4096, 65536 * 4096
	xfs := &Geometry{Size: 4 * group, Block: block, Group: group}
	spans := func(n uint64) Udev {
		return Udev{Initialized: true, FSUsage: "filesystem", FSType: "xfs", FSUUID: "5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f", FSSpan: n}
	}
	before := func(n uint64, full bool) Standing {
		return Standing{Volume: &Sighting{Identity: Identity{Size: n}, Full: full}}
	}
	for _, tt := range []struct {
		name string
		f    Facts
		want bool
	}{
		{"not measured", Facts{Size: 4 * group, Udev: spans(4 * group)}, false},
		{"full", Facts{Size: 4 * group, Geometry: xfs, Udev: spans(4 * group)}, true},
		{"a tail too small for a group", Facts{Size: 4*group + 63*block, Geometry: xfs, Udev: spans(4 * group)}, true},
		{"room for a group", Facts{Size: 4*group + 64*block, Geometry: xfs, Udev: spans(4 * group)}, false},
		{"shrunk", Facts{Size: 4*group - block, Geometry: xfs, Udev: spans(4 * group)}, false},
		{"grown when it was mounted", Facts{Size: 4 * group, ID: ID{Seq: 2}, Udev: spans(3 * group), Standing: Standing{Fit: &Fit{Seq: 2, Size: 4 * group, Geometry: *xfs}}}, false},
		{"measured when it was to grow", Facts{Size: 4 * group, ID: ID{Seq: 2}, Udev: spans(4 * group), Standing: Standing{Fit: &Fit{Seq: 2, Size: 4 * group, Geometry: *xfs}}}, true},
		{"nothing known of the superblock", Facts{Size: 4 * group, Geometry: xfs, Udev: spans(0)}, false},
		{"not measured, but full before", Facts{Size: 4 * group, Udev: spans(0), Standing: before(4*group, true)}, true},
		{"full before, and shrunk", Facts{Size: 3 * group, Geometry: xfs, Standing: before(3*group, true)}, false},
		{"it was full at that size", Facts{Size: 4 * group, Geometry: xfs, Udev: spans(0), Standing: before(4*group, true)}, true},
		{"it was full at another size", Facts{Size: 4 * group, Geometry: xfs, Udev: spans(0), Standing: before(3*group, true)}, false},
		{"it was seen at that size, not full", Facts{Size: 4 * group, Geometry: xfs, Udev: spans(0), Standing: before(4*group, false)}, false},
	} {
		if got := tt.f.Full(); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}

// TestFixed checks that hotmount grows a filesystem from another machine only if the disk has grown since the
// filesystem's first mount on this node. In a Sighting, Adopted is 0 if this node made the filesystem.
func TestFixed(t *testing.T) {
	for _, tt := range []struct {
		name    string
		f       Facts
		adopted uint64
		fixed   bool
	}{
		{"from elsewhere, not mounted yet", Facts{Size: 5}, 5, true},
		{"made here, not mounted yet", Facts{Size: 5, Standing: Standing{Made: true}}, 0, false},
		{"on record, made here", Facts{Size: 5, Standing: Standing{Volume: &Sighting{}}}, 0, false},
		{"on record, from elsewhere", Facts{Size: 5, Standing: Standing{Volume: &Sighting{Adopted: 5}}}, 5, true},
		{"the disk is larger now", Facts{Size: 6, Standing: Standing{Volume: &Sighting{Adopted: 5}}}, 5, false},
		{"the disk is smaller now", Facts{Size: 4, Standing: Standing{Volume: &Sighting{Adopted: 5}}}, 5, true},
		{"from elsewhere, and its UUID begun here since", Facts{Size: 5, Standing: Standing{Made: true, Volume: &Sighting{Adopted: 5}}}, 5, true},
	} {
		if got := tt.f.Adopted(); got != tt.adopted || tt.f.Fixed() != tt.fixed {
			t.Errorf("%s: adopted at %d, fixed %v", tt.name, got, tt.f.Fixed())
		}
	}
}

// TestVolumeName compares the names with those of another implementation of FNV-1a (Python, by the definition: offset
// basis 2166136261, prime 16777619). The provisioner formats the hashes like Go's %x, without leading zeros.
func TestVolumeName(t *testing.T) {
	for _, tt := range []struct{ entry, node, class, want string }{
		{"5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f", "worker-1", "local-storage", "local-pv-fb8928b8"},
		{"vol1", "node-1", "sc1", "local-pv-b530e704"},
		{"5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f", "node-2", "fast", "local-pv-9c7b018"},
	} {
		if got := VolumeName(tt.entry, tt.node, tt.class); got != tt.want {
			t.Errorf("VolumeName(%q, %q, %q) = %s, want %s", tt.entry, tt.node, tt.class, got, tt.want)
		}
	}
}

func TestFitValid(t *testing.T) {
	f := Facts{ID: ID{Seq: 3}, Size: 5}
	for _, tt := range []struct {
		fit  *Fit
		want bool
	}{{nil, false}, {&Fit{Seq: 3, Size: 5}, true}, {&Fit{Seq: 4, Size: 5}, false}, {&Fit{Seq: 3, Size: 6}, false}} {
		if got := tt.fit.Valid(&f); got != tt.want {
			t.Errorf("%+v is valid: %v", tt.fit, got)
		}
	}
}
