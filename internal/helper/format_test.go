package helper

import (
	"strings"
	"testing"

	"hotmount/internal/disk"
	"hotmount/internal/nodetest"
	"hotmount/internal/report"
)

// TestIntentOfAnother checks that a copy of a disk does not end the intent of the original disk.
func TestIntentOfAnother(t *testing.T) {
	const begun, found = "0a0b0c0d-1111-4222-8333-abcdefabcdef", "99999999-1111-4222-8333-abcdefabcdef"
	itself := disk.Identity{Serial: "A", Size: 1 << 30}
	for name, tc := range map[string]struct {
		of    *disk.Identity
		doubt bool
		c     disk.Content
		do    disk.Action

		made, ends, failed bool
		// The field `own` is true if a format by token must use a new UUID and not the intent's UUID.
		own bool
	}{
		"no intent":                        {nil, false, disk.Content{Kind: disk.Filesystem, UUID: found}, disk.Mount, false, false, false, true},
		"finished":                         {&itself, false, disk.Content{Kind: disk.Filesystem, UUID: begun}, disk.Mount, true, true, false, false},
		"finished, and not to be mounted":  {&itself, false, disk.Content{Kind: disk.Filesystem, UUID: begun}, disk.Ignore, true, true, false, false},
		"accepted as it is":                {&itself, false, disk.Content{Kind: disk.Filesystem, UUID: found}, disk.Mount, false, true, true, false},
		"torn":                             {&itself, false, disk.Content{Kind: disk.Filesystem, UUID: begun, Torn: true}, disk.Refuse, false, false, false, false},
		"torn, and not to be used":         {&itself, false, disk.Content{Kind: disk.Filesystem, UUID: begun, Torn: true}, disk.Ignore, false, false, false, false},
		"somebody else wrote":              {&itself, false, disk.Content{Kind: disk.Filesystem, UUID: begun}, disk.Hold, false, false, false, false},
		"refused":                          {&itself, false, disk.Content{Kind: disk.Other}, disk.Refuse, false, false, false, false},
		"perhaps itself, finished":         {&itself, true, disk.Content{Kind: disk.Filesystem, UUID: begun}, disk.Mount, true, true, false, false},
		"a copy, finished by somebody":     {&disk.Identity{Serial: "B", Size: 1 << 30}, true, disk.Content{Kind: disk.Filesystem, UUID: begun}, disk.Mount, false, false, false, true},
		"a copy with something else on it": {&disk.Identity{Serial: "B", Size: 1 << 30}, true, disk.Content{Kind: disk.Filesystem, UUID: found}, disk.Mount, false, false, false, true},
		"a copy on a disk of another size": {&disk.Identity{Serial: "A", Size: 2 << 30}, true, disk.Content{Kind: disk.Filesystem, UUID: begun}, disk.Mount, false, false, false, true},
		"a copy that is refused":           {&disk.Identity{Serial: "B", Size: 1 << 30}, true, disk.Content{Kind: disk.HalfMade, UUID: begun}, disk.Refuse, false, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &disk.Facts{Serial: itself.Serial, Size: itself.Size}
			if tc.of != nil {
				f.Standing.Intent, f.Standing.IntentDoubt = &disk.Intent{Identity: *tc.of, UUID: begun}, tc.doubt
			}
			d := disk.Decision{Action: tc.do}
			if tc.do == disk.Hold {
				d.Reason = disk.ReasonDisturbed
			}
			if o := outcome(f, &tc.c, d); o.made != tc.made || o.ends != tc.ends || (o.failure != nil) != tc.failed || o.leaves {
				t.Errorf("%+v", o)
			}
			if uuid, err := intendedUUID(f, true); err != nil || (uuid != begun) != tc.own {
				t.Errorf("by the operator's word: %s, %v", uuid, err)
			}
			if uuid, err := intendedUUID(f, false); err != nil || tc.of != nil && uuid != begun {
				t.Errorf("without it: %s, %v", uuid, err)
			}
		})
	}
}

// TestAsProven checks that hotmount formats a disk only for the class for which the disk was proven. If the settings of
// this class have changed since the proof, hotmount must not format the disk.
func TestAsProven(t *testing.T) {
	then := disk.Class{Name: "a", Blank: "full", Directory: "/mnt/a", Create: disk.XFS}
	if now := then; !asProven(&then, &now) {
		t.Error("the same")
	}
	for what, change := range map[string]func(*disk.Class){
		"name":      func(c *disk.Class) { c.Name = "b" },
		"blank":     func(c *disk.Class) { c.Blank = "unsigned" },
		"directory": func(c *disk.Class) { c.Directory = "/mnt/b" },
		"create":    func(c *disk.Class) { c.Create = disk.Ext4 },
		"mkfs":      func(c *disk.Class) { c.MkfsOptions = []string{"-i size=1024"} },
		"owner":     func(c *disk.Class) { c.RootOwner = "1000:2000" },
		"mode":      func(c *disk.Class) { c.RootMode = "0770" },
		"options":   func(c *disk.Class) { c.Options = []string{"noatime"} },
	} {
		now := then
		if change(&now); asProven(&then, &now) {
			t.Error(what)
		}
	}
	if asProven(&then, nil) {
		t.Error("no class")
	}
}

// TestIntentBySlot checks that the next disk in a slot does not get the UUID of an unfinished format in that slot. If
// the next disk holds another filesystem, hotmount must keep the intent of the unfinished format.
func TestIntentBySlot(t *testing.T) {
	const begun, found = "0a0b0c0d-1111-4222-8333-abcdefabcdef", "99999999-1111-4222-8333-abcdefabcdef"
	f := &disk.Facts{Slot: "pci-0000:04:00.0", Size: 1 << 30}
	f.Standing.Intent, f.Standing.IntentBySlot = &disk.Intent{Identity: f.Identity("before"), UUID: begun}, true
	for _, over := range []bool{false, true} {
		if uuid, err := intendedUUID(f, over); err != nil || uuid == begun || !disk.ValidUUID(uuid) {
			t.Errorf("by the operator's word %v: %s, %v", over, uuid, err)
		}
	}
	f.Standing.Volume = &disk.Sighting{UUID: found}
	mount := disk.Decision{Action: disk.Mount}
	if o := outcome(f, &disk.Content{Kind: disk.Filesystem, UUID: found}, mount); o != (ending{}) {
		t.Errorf("on record: %+v", o)
	}
	if o := outcome(f, &disk.Content{Kind: disk.Filesystem, UUID: begun}, mount); o != (ending{made: true, ends: true}) {
		t.Errorf("its own: %+v", o)
	}
	f.Standing.Volume = nil
	if o := outcome(f, &disk.Content{Kind: disk.Filesystem, UUID: found}, mount); o != (ending{leaves: true}) {
		t.Errorf("accepted: %+v", o)
	}
}

// TestLastWord checks that hotmount formats a disk if nothing has changed since the disk was read. Any single change
// must prevent the format.
func TestLastWord(t *testing.T) {
	const begun = "0a0b0c0d-1111-4222-8333-abcdefabcdef"
	type given struct {
		f       disk.Facts
		c       disk.Content
		s       disk.Settings
		proven  disk.Standing
		confirm bool
	}
	class := disk.Class{Name: "default", Directory: "/mnt/disks", Selectors: disk.Selectors{Names: []string{"vd[a-z]"}}, Create: disk.XFS, Blank: "full", Accept: []string{disk.XFS}}
	base := func() given {
		return given{
			f: disk.Facts{ID: disk.ID{Name: "vdb", Seq: 7}, Size: 1 << 30, Udev: disk.Udev{Initialized: true}},
			c: disk.Content{Kind: disk.Blank, Proven: true},
			s: disk.Settings{Classes: []disk.Class{class}, Format: true, FormatLimit: 8},
		}
	}
	intent := func(g *given) {
		g.f.Standing.Intent = &disk.Intent{UUID: begun}
		g.proven = g.f.Standing
		g.c = disk.Content{Kind: disk.HalfMade, Type: disk.XFS, UUID: begun, Proven: true}
	}
	other := func(g *given) { g.c = disk.Content{Kind: disk.Other, Proven: true}; g.confirm = true }
	for name, tc := range map[string]struct {
		set    func(*given)
		action disk.Action
		err    string
	}{
		"blank":                         {func(*given) {}, disk.Format, ""},
		"switched off":                  {func(g *given) { g.s.Format = false }, disk.Hold, ""},
		"its class is proven otherwise": {func(g *given) { g.s.Classes[0].Blank = "sampled" }, disk.Format, "has to be proven again"},
		"its class is made otherwise":   {func(g *given) { g.s.Classes[0].RootMode = "0770" }, disk.Format, "has to be proven again"},
		"half-made":                     {intent, disk.Format, ""},
		"half-made, in doubt now":       {func(g *given) { intent(g); g.proven.IntentBySlot = true }, disk.Format, "has to be read again"},
		"over something":                {other, disk.Format, ""},
		"over something, mounted now":   {func(g *given) { other(g); g.f.Mounts = []disk.MountPoint{{Path: "/srv"}} }, disk.Ignore, "cannot format vdb: a token cannot override the decision ignore: the disk is mounted elsewhere: /srv"},
		"over something, looped now":    {func(g *given) { other(g); g.f.Loops = []string{"loop0"} }, disk.Ignore, "/dev/loop0"},
		"over something, beside a twin": {func(g *given) { other(g); g.f.Serial = "S"; g.f.SameSerial = []disk.Peer{{Serial: "S", InUse: "/srv"}} }, disk.Refuse, "cannot format vdb: refuse: another disk has the same serial S"},
		"over something, class changed": {func(g *given) { other(g); g.s.Classes[0].Blank = "sampled" }, disk.Format, "has to be proven again"},
	} {
		g := base()
		tc.set(&g)
		d, err := lastWord(&g.f, &g.c, &g.s, &class, &g.proven, g.confirm)
		if d.Action != tc.action || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %s, %v", name, d.Action, err)
		}
	}
}

func TestForbidden(t *testing.T) {
	on := disk.Settings{Format: true}
	if err := forbidden(&disk.Facts{}, &on); err != nil {
		t.Error(err)
	}
	off := disk.Facts{}
	off.Standing.Formatting = "lost"
	for what, err := range map[string]error{
		"the disk is in use through /dev/loop0": forbidden(&disk.Facts{Loops: []string{"loop0"}}, &on), "the disk's device file is bind-mounted at /x": forbidden(&disk.Facts{Bound: []string{"/x"}}, &on), "the disk seems to be": forbidden(&disk.Facts{Loops: []string{"loop0"}, LoopsUnsure: true}, &on), "lost": forbidden(&off, &on), "format: false": forbidden(&disk.Facts{}, &disk.Settings{}),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestWrites checks two errors of the function `writes`: the kernel no longer counts the writes, or another disk
// has got the disk's name.
func TestWrites(t *testing.T) {
	const dir = "sys/block/vdb/"
	for name, tc := range map[string]struct {
		now map[string]string
		err string
	}{
		"as it was":       {nil, ""},
		"not counted now": {map[string]string{dir + "queue/iostats": "0\n"}, "does not count the writes to the disk; to make the kernel count them: echo 1 >/sys/block/vdb/queue/iostats"},
		"another disk":    {map[string]string{dir + "diskseq": "2000\n"}, disk.ErrGone.Error()},
	} {
		h := nodetest.New(t)
		nodetest.Write(t, h.Root, map[string]string{dir + "inflight": "0 3\n"})
		f, err := h.Look("vdb")
		if err != nil {
			t.Fatal(err)
		}
		nodetest.Write(t, h.Root, tc.now)
		done, inFlight, err := writes(h, &f)
		if tc.err == "" && (err != nil || done != f.Writes || inFlight != 3) || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%s: %d, %d, %v", name, done, inFlight, err)
		}
		if _, _, err := bytesTransferred(h, &f); (err != nil) != (tc.err != "") {
			t.Errorf("%s: how much: %v", name, err)
		}
	}
}

// TestSameIntent checks that hotmount does not format a disk if the disk's intent has changed since the proof. An
// intent that was recorded only after the proof must also prevent the format.
func TestSameIntent(t *testing.T) {
	const begun, found = "0a0b0c0d-1111-4222-8333-abcdefabcdef", "99999999-1111-4222-8333-abcdefabcdef"
	then := disk.Standing{Intent: &disk.Intent{UUID: begun}}
	if now := (disk.Standing{Intent: &disk.Intent{UUID: begun, Left: true}}); !sameIntent(&then, &now) || !sameIntent(&disk.Standing{}, &disk.Standing{}) {
		t.Error("the same")
	}
	for what, now := range map[string]disk.Standing{
		"none":    {},
		"another": {Intent: &disk.Intent{UUID: found}},
		"doubt":   {Intent: &disk.Intent{UUID: begun}, IntentDoubt: true},
		"by slot": {Intent: &disk.Intent{UUID: begun}, IntentBySlot: true},
	} {
		if sameIntent(&then, &now) || sameIntent(&now, &then) {
			t.Error(what)
		}
	}
}

// TestReadFor checks that hotmount does not report "proven blank" for a disk that the operator overwrites.
func TestReadFor(t *testing.T) {
	scan := report.NewScan(nil, &disk.Facts{})
	blank, comparing := readFor(scan, false)
	if comparing(); blank != "the disk is proven blank" || scan.Doing != "proving that the disk is blank" {
		t.Errorf("%q, %q", blank, scan.Doing)
	}
	holds, comparing := readFor(scan, true)
	first := scan.Doing
	if comparing(); holds != "the token is valid" || first != "reading the content that the token names" || scan.Doing != "comparing the disk with the token" {
		t.Errorf("%q, %q, %q", holds, first, scan.Doing)
	}
}
