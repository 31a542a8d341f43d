package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"unicode"
)

// TestOutput checks that the output of a program becomes one line, and that its bytes are escaped once.
func TestOutput(t *testing.T) {
	for in, want := range map[string]string{
		"resize2fs 1.47.0\n\tPermission denied\n\n": "resize2fs 1.47.0 Permission denied",
		"a\\n\x1bb": `a\\n\x1bb`,
		"":          "",
	} {
		got := Output([]byte(in))
		if got != want {
			t.Errorf("%q becomes %q", in, got)
		}
		if again := OneLine(got); again != got {
			t.Errorf("%q becomes %q", got, again)
		}
	}
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"QM00001":          "QM00001",
		"a=b c":            "a=b c",
		"a\nb\x1b[31m\x00": `a\nb\x1b[31m\x00`,
		"\xff\xfe":         `\xff\xfe`,
		`back\slash`:       `back\\slash`,
		"\u202egnp.exe":    `\u202egnp.exe`,
		"größe":            "größe",
		"DEL\x7f":          `DEL\x7f`,
		"a \"b\"\n":        `a "b"\n`,

		strings.Repeat("a", 256): strings.Repeat("a", 256),
		strings.Repeat("a", 257): strings.Repeat("a", 256) + "…",
	} {
		if got := Visible(in); got != want {
			t.Errorf("Visible(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("a\u200bb\x80\x1b]0;x\a")
	f.Add(strings.Repeat("\x01", 1000))
	f.Fuzz(func(t *testing.T, s string) {
		v := Visible(s)
		if len(v) > 300 {
			t.Errorf("%d bytes long", len(v))
		}
		for _, r := range v {
			if !unicode.IsPrint(r) {
				t.Errorf("%q is not printable", r)
			}
		}
	})
}

func TestValidUUID(t *testing.T) {
	for s, want := range map[string]bool{
		"5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f":  true,
		"5F0C8F3E-2b3c-4d61-9c2e-0a1b2c3d4e5f":  false,
		"00000000-0000-0000-0000-000000000000":  false,
		"5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f0": false,
		"5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5":   false,
		"5f0c8f3e/2b3c-4d61-9c2e-0a1b2c3d4e5f":  false,
		"../../../../../etc/passwd-----------":  false,
		"ABCD-1234":                             false,
		"":                                      false,
	} {
		if got := ValidUUID(s); got != want {
			t.Errorf("ValidUUID(%q) = %v", s, got)
		}
	}
}

func TestSandboxed(t *testing.T) {
	id := ID{Name: "vdb", Seq: 12}
	for _, permission := range []error{syscall.EPERM, syscall.EACCES} {
		err := id.Sandboxed("hotmount-grow", &fs.PathError{Op: "open", Path: id.Node(), Err: permission})
		want := "open /dev/vdb: " + permission.Error() + ": this is a fault of the sandbox of hotmount-grow@12.service, not of the disk; the unit can write only to the device that /dev/disk/by-diskseq/12 named when the unit started, and only if root owns the device; to see the device and the unit's drop-ins: ls -lL /dev/disk/by-diskseq/12; systemctl cat hotmount-grow@12"
		if !errors.Is(err, permission) || err.Error() != want {
			t.Errorf("got %v", err)
		}
	}
	for _, other := range []error{nil, syscall.EIO, syscall.EBUSY, syscall.ENOENT} {
		if err := id.Sandboxed("hotmount-grow", other); err != other {
			t.Errorf("%v became %v", other, err)
		}
	}
}

// TestNode checks the path of the device node. The kernel writes "!" for "/" in a name (kobject_set_name_vargs).
func TestNode(t *testing.T) {
	for name, want := range map[string]string{"vdb": "/dev/vdb", "cciss!c0d0p1": "/dev/cciss/c0d0p1"} {
		if got := (ID{Name: name}).Node(); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestHumanSize(t *testing.T) {
	for in, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1 << 10: "1 KiB", 300 << 20: "300 MiB", 5 << 30: "5 GiB", 3 << 39: "1.5 TiB", 1 << 63: "8 EiB"} {
		if got := HumanSize(in); got != want {
			t.Errorf("HumanSize(%d) = %q, want %q", in, got, want)
		}
	}
}

func TestParseDev(t *testing.T) {
	if d, err := ParseDev("254:16\n"); err != nil || d != (Dev{254, 16}) || d.String() != "254:16" {
		t.Errorf("got %v, %v", d, err)
	}
	for _, s := range []string{"", "254", "a:b", "254:-1", "254:16:1", "4294967296:0"} {
		if _, err := ParseDev(s); err == nil {
			t.Errorf("ParseDev(%q) is no error", s)
		}
	}
}

func TestKnown(t *testing.T) {
	const uuid = "5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	base := Facts{ID: ID{Name: "vdb", Seq: 3}, Size: 1 << 30, Writes: 7, Udev: Udev{Initialized: true}}
	verdict := func(change func(*Verdict)) func(*Facts) {
		return func(f *Facts) {
			f.Standing.Verdict = &Verdict{Seq: 3, Size: 1 << 30, Writes: 7, Content: Content{Kind: Blank, Proven: true}}
			change(f.Standing.Verdict)
		}
	}
	for _, tt := range []struct {
		name string
		put  func(*Facts)
		kind Kind
		uuid string
		// The test expects this evidence.
		says string
	}{
		{"nothing", func(*Facts) {}, Unread, "", ""},
		{"udev has not seen it", func(f *Facts) { f.Udev = Udev{FSType: "xfs", FSUsage: "filesystem", FSUUID: uuid} }, Unread, "", ""},
		{"xfs", func(f *Facts) {
			f.Udev.FSType, f.Udev.FSUsage, f.Udev.FSUUID = "xfs", "filesystem", strings.ToUpper(uuid)
		}, Filesystem, uuid, "udev: ID_FS_TYPE=xfs ID_FS_UUID=" + strings.ToUpper(uuid)},
		{"xfs with a UUID that is none of an xfs", func(f *Facts) { f.Udev.FSType, f.Udev.FSUsage, f.Udev.FSUUID = "xfs", "filesystem", "ABCD-1234" }, Other, "", "udev: ID_FS_TYPE=xfs ID_FS_UUID=ABCD-1234"},
		{"ext4 with a path for a UUID", func(f *Facts) {
			f.Udev.FSType, f.Udev.FSUsage, f.Udev.FSUUID = "ext4", "filesystem", "../../../../../../../../../etc/passwd"
		}, Other, "", "udev: ID_FS_TYPE=ext4 ID_FS_UUID=../../../../../../../../../etc/passwd"},
		{"vfat", func(f *Facts) { f.Udev.FSType, f.Udev.FSUsage, f.Udev.FSUUID = "vfat", "filesystem", "ABCD-1234" }, Other, "", "udev: ID_FS_TYPE=vfat ID_FS_UUID=ABCD-1234"},
		{"LVM", func(f *Facts) { f.Udev.FSType, f.Udev.FSUsage, f.Udev.FSUUID = "LVM2_member", "raid", "x" }, Other, "", "udev: ID_FS_TYPE=LVM2_member ID_FS_USAGE=raid"},
		{"no type, a usage", func(f *Facts) { f.Udev.FSUsage = "crypto" }, Other, "", "udev: ID_FS_TYPE= ID_FS_USAGE=crypto"},
		{"partition table", func(f *Facts) { f.Udev.PartTable = "gpt" }, Other, "", "udev: ID_PART_TABLE_TYPE=gpt"},
		{"ambivalent", func(f *Facts) { f.Udev.Ambivalent = "filesystem:xfs:" }, Other, "", "udev: ID_FS_AMBIVALENT=filesystem:xfs:"},
		{"verdict", verdict(func(*Verdict) {}), Blank, "", ""},
		{"verdict, then written to", verdict(func(v *Verdict) { v.Writes = 6 }), Unread, "", ""},
		{"verdict, then resized", verdict(func(v *Verdict) { v.Size = 1 }), Unread, "", ""},
		{"verdict of another disk", verdict(func(v *Verdict) { v.Seq = 2 }), Unread, "", ""},
		{"verdict without content", verdict(func(v *Verdict) { v.Content = Content{} }), Unread, "", ""},
	} {
		f := base
		tt.put(&f)
		if c := f.KnownContent(); c.Kind != tt.kind || c.UUID != tt.uuid || strings.Join(c.Evidence, "\n") != tt.says {
			t.Errorf("%s: got %s %q by %q, want %s %q by %q", tt.name, c.Kind, c.UUID, c.Evidence, tt.kind, tt.uuid, tt.says)
		}
	}
}

func pointers(all []Facts) (p []*Facts) {
	for i := range all {
		p = append(p, &all[i])
	}
	return p
}

func TestFindPeers(t *testing.T) {
	const uuid = "5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	disk := func(name string, seq uint64, serial, uuid string) Facts {
		return Facts{ID: ID{Name: name, Seq: seq}, Serial: serial, Udev: Udev{Initialized: true, FSType: "xfs", FSUsage: "filesystem", FSUUID: uuid}}
	}
	all := []Facts{disk("vdb", 1, "S", uuid), disk("vdc", 2, "S", ""), disk("vdd", 3, "", uuid), disk("vde", 4, "", "")}
	all[0].Mounts = []MountPoint{{Path: "/x"}}
	all[0].Standing.OnRecord, all[2].Standing.Resized = true, true
	for i, want := range []struct{ serial, uuid int }{{1, 1}, {1, 0}, {0, 1}, {0, 0}} {
		f := all[i]
		f.FindPeers(pointers(all))
		if len(f.SameSerial) != want.serial || len(f.SameUUID) != want.uuid {
			t.Errorf("%s: %d with its serial, %d with its UUID; want %d and %d", f.Name, len(f.SameSerial), len(f.SameUUID), want.serial, want.uuid)
		}
	}
	f := all[3]
	f.Standing.FormerSlot = &Sighting{UUID: uuid}
	if f.FindPeers(pointers(all)); f.Moved == nil || f.Moved.Name != "vdb" {
		t.Errorf("the filesystem that was in its slot is on %+v", f.Moved)
	}
	if f.FindPeers(pointers(all[1:2])); f.Moved != nil {
		t.Errorf("a missing filesystem is on %+v", f.Moved)
	}
	lvm := Facts{ID: ID{Name: "vdq", Seq: 9}, Udev: Udev{Initialized: true, FSType: "LVM2_member", FSUsage: "raid", FSUUID: "a-B"}}
	for id, want := range map[string]bool{"a-B": true, "a-C": false, "": false} {
		f.Standing.FormerSlot = &Sighting{Type: "LVM2_member", UUID: id}
		if f.FindPeers(pointers([]Facts{disk("vdc", 2, "S", ""), lvm})); (f.Moved != nil) != want {
			t.Errorf("what is missing, %q, is on %+v", id, f.Moved)
		}
	}
	f = all[1]
	f.FindPeers(pointers(all))
	if p := f.SameSerial[0]; p.Name != "vdb" || p.UUID != uuid || p.Mounted != "/x" || !p.OnRecord || p.Resized {
		t.Errorf("peer %+v", p)
	}
	f = all[0]
	f.FindPeers(pointers(all))
	if p := f.SameUUID[0]; p.Name != "vdd" || p.OnRecord || !p.Resized {
		t.Errorf("peer %+v", p)
	}
	// The first peer must not depend on the order of the attached disks.
	all = []Facts{disk("vdd", 3, "S", ""), disk("vdb", 1, "S", uuid), disk("vdc", 2, "S", "")}
	f = disk("vde", 4, "S", "")
	if f.FindPeers(pointers(all)); len(f.SameSerial) != 3 || f.SameSerial[0].Name != "vdb" || f.SameSerial[0].Type != "xfs" || f.SameSerial[2].Name != "vdd" {
		t.Errorf("peers %+v", f.SameSerial)
	}
	all = []Facts{disk("vdd", 3, "", uuid), disk("vdb", 1, "", uuid), disk("vdc", 2, "", uuid)}
	same := disk("vde", 4, "", uuid)
	same.Standing.FormerSlot = &Sighting{UUID: uuid}
	if same.FindPeers(pointers(all)); same.SameUUID[0].Name != "vdb" || same.SameUUID[2].Name != "vdd" || same.Moved.Name != "vdb" {
		t.Errorf("peers %+v, moved to %+v", same.SameUUID, same.Moved)
	}
	// virtio truncates serials. Two disks are therefore peers if the serial of one is the truncated serial of the
	// other. A disk and its partition are not peers, although the partition's serial contains the disk's serial.
	long := disk("sda", 5, "ABCDEFGHIJKLMNOPQRST-and-more", uuid)
	cut, part := disk("vdf", 6, "ABCDEFGHIJKLMNOPQRST", ""), disk("vdf1", 6, "ABCDEFGHIJKLMNOPQRST-part1", "")
	part.Whole = "vdf"
	for _, f := range []*Facts{&long, &cut} {
		if f.FindPeers(pointers([]Facts{long, cut, part, disk("vdg", 7, "ABCDEFGHIJKLMNOPQRS", "")})); len(f.SameSerial) != 1 || f.SameSerial[0].Seq != 11-f.Seq {
			t.Errorf("%s: peers %+v", f.Name, f.SameSerial)
		}
	}
	// If a volume on record is mounted, the record shows the filesystem, even if udev does not know it.
	mounted := Facts{ID: ID{Name: "vdb", Seq: 1}, Serial: "S", Standing: Standing{Volume: &Sighting{UUID: uuid, Type: "ext4"}}}
	for _, at := range [][]MountPoint{nil, {{Path: "/mnt/disks/" + uuid}}} {
		mounted.Mounts = at
		f.FindPeers(pointers([]Facts{mounted}))
		if p := f.SameSerial[0]; (p.UUID == uuid && p.Type == "ext4") != (at != nil) {
			t.Errorf("mounted %v: peer %+v", at, p)
		}
	}
}

// TestPeersInUse checks that Peer.InUse shows a use of the peer itself and a use of any device on the peer.
func TestPeersInUse(t *testing.T) {
	for want, o := range map[string]Facts{
		"":      {},
		"/":     {System: "/", Holders: []string{"vdb1"}},
		"/x":    {Mounts: []MountPoint{{Path: "/x"}}},
		"vdb1":  {Holders: []string{"vdb1", "dm-0"}},
		"loop0": {Loops: []string{"loop0"}},
		"swap":  {Swap: true},
	} {
		f := Facts{ID: ID{Name: "vdc", Seq: 2}, Serial: "S"}
		o.ID, o.Serial = ID{Name: "vdb", Seq: 1}, "S"
		if f.FindPeers(pointers([]Facts{o})); f.SameSerial[0].InUse != want {
			t.Errorf("%q, want %q", f.SameSerial[0].InUse, want)
		}
	}
}

// TestUnescape checks that Unescape decodes \xNN and leaves all other text as it is.
func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		"":             "",
		"plain":        "plain",
		`a\x20b\x5cx`:  `a b\x`,
		`\xC3\xa4`:     "ä",
		`\x0a\x00`:     "\n\x00",
		`\x2`:          `\x2`,
		`\x`:           `\x`,
		`\xg0\x+1\x_1`: `\xg0\x+1\x_1`,
		`\\x20`:        `\ `,
		`\x5cx20`:      `\x20`,
		`\zz`:          `\zz`,
		`\`:            `\`,
		`\xff`:         "\xff",
	} {
		if got := Unescape(in); got != want {
			t.Errorf("Unescape(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestVisibleJSON(t *testing.T) {
	for _, s := range []string{"plain ü 磁盘 \"\\", "\x1b[2J", "\u009b31m\u202e", "\x7f\u0085\u2028", "\U000e0001\U0001f5b4", "\n\t"} {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		visible := VisibleJSON(text)
		if strings.ContainsFunc(string(visible), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q becomes %q", s, visible)
		}
		var back string
		if err := json.Unmarshal(visible, &back); err != nil || back != s {
			t.Errorf("%q becomes %s, which is %q: %v", s, visible, back, err)
		}
	}
	if got := string(VisibleJSON([]byte("{\n  \"a\": \"\u202e\"\n}\n"))); got != "{\n  \"a\": \"\\u202e\"\n}\n" {
		t.Errorf("got %q", got)
	}
}

// TestState checks that the state of a mounted disk shows whether the disk has a fault.
func TestState(t *testing.T) {
	for _, test := range []struct {
		action Action
		reason Reason
		want   string
	}{
		{Keep, ReasonMounted, "mounted"},
		{Grow, ReasonSmaller, "mounted"},
		{Keep, ReasonFault, "failed"},
		{Keep, ReasonShrunk, "failed"},
		{Refuse, ReasonShrunk, "refused"},
		{Keep, ReasonLost, "failed"},
		{Refuse, ReasonLost, "failed"},
		{Refuse, ReasonFormatFailed, "failed"},
		{Refuse, ReasonInUse, "failed"},
		{Keep, ReasonGivenOut, "given out"},
	} {
		if got := (Decision{Action: test.action, Reason: test.reason}).State(); got != test.want {
			t.Errorf("%s, %s: %s, want %s", test.action, test.reason, got, test.want)
		}
	}
}

// BenchmarkFindPeers finds the peers of one disk among 250 disks.
func BenchmarkFindPeers(b *testing.B) {
	var all []*Facts
	for i := range 250 {
		all = append(all, &Facts{
			ID: ID{Name: fmt.Sprintf("vd%d", i), Seq: uint64(i + 1)}, Slot: fmt.Sprintf("pci-0000:%02x", i),
			Udev: Udev{Initialized: true, FSType: XFS, FSUsage: "filesystem", FSUUID: fmt.Sprintf("0b6f4f0a-1111-4222-8333-%012d", i)},
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		all[7].FindPeers(all)
	}
}
