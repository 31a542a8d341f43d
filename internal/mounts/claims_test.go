package mounts

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
)

func TestClaims(t *testing.T) {
	root := files(t, map[string]string{
		"etc/fstab": `# comment UUID=no
UUID=7ab12e3a-d2c2-4b94-a3cf-9a3aa3a4b2d7 / ext4 errors=remount-ro 0 1

	LABEL="my\040data"	/data	xfs	logdev=/dev/vdd,noatime,rtdev="/dev/vde"	0 0
'PARTUUID=1-2' none swap sw 0 0
proc /proc proc defaults
server:/export /nfs nfs addr=fe80::1,x=y 0 0
/dev/vdz
`,
		"etc/crypttab": `# <target> <source> <key> <options>
a UUID=aaaa none luks,discard
b /dev/vdf /key:LABEL=keys luks,header=/dev/vdg,tcrypt-keyfile=/x:/dev/vdh
c
d /dev/vdi /dev/urandom
`,
		"etc/mdadm/mdadm.conf": `# mdadm
DEVICE partitions containers /dev/vdj
	/dev/sd[a-c]1 # more
HOMEHOST <system>
ARRAY /dev/md/0 metadata=1.2 UUID=3aaa0122:29827cfa:5331ad66:ca767371 name=/dev/x
  devices=/dev/vdk,/dev/vdl
arr /dev/md1 uuid="b:c:d:e"
MAILADDR UUID=x devices=/dev/x
`,
		"etc/mdadm.conf":                                 "dev /dev/vdm\n",
		"etc/mdadm/mdadm.conf.d/more.conf":               "DEVICE /dev/vdn\n",
		"etc/mdadm/mdadm.conf.d/README":                  "DEVICE /dev/no\n",
		"etc/systemd/system/srv.mount":                   "[Unit]\nWhat=/dev/no\n[Mount]\n# What=/dev/no\n What = \\\n; comment\n  /dev/disk/by-label/a\\x20b%%c  \nWhere=/srv\n[Install]\nWhat=/dev/no",
		"etc/systemd/system/srv.mount.d/override.conf":   "[Mount]\nWhat=\nWhat=\"/dev/vdo\"",
		"etc/systemd/system/srv.mount.d/README":          "[Mount]\nWhat=/dev/no\n",
		"etc/systemd/system/masked.mount":                "-> /dev/null",
		"etc/systemd/system/dangling.swap":               "-> nowhere",
		"etc/systemd/system/x.service":                   "[Mount]\nWhat=/dev/no\n",
		"etc/systemd/system/local-fs.target.wants/x":     "",
		"run/systemd/system/swap.d/all.conf":             "[Swap]\nWhat=UUID=bbbb\\",
		"run/systemd/transient/mnt-disks-x.mount":        "[Mount]\nWhat=/dev/no\n",
		"etc/systemd/system.control/a.mount":             "[Mount]\nWhat=/dev/vds\n",
		"run/systemd/system.control/a.mount":             "[Mount]\nWhat=/dev/vdt\n",
		"run/systemd/generator.early/a.mount":            "[Mount]\nWhat=/dev/vdu\n",
		"run/systemd/generator.late/a.swap":              "[Swap]\nWhat=/dev/vdv\n",
		"run/systemd/generator/srv.mount":                "[Mount]\nWhat=/dev/vdr\n",
		"usr/local/lib/systemd/system/a-.mount.d/x.conf": "[Mount]\nWhat=/dev/vdp\n",
		"usr/lib/systemd/system/dev-vdq.swap":            "[Swap]\nWhat=/dev/vdq\n",
		"usr/lib/systemd/system/tmp.mount":               "[Mount]\nWhat=tmpfs\n",
		"usr/lib/systemd/system/odd.mount/file":          "",
		"usr/lib/systemd/system/odd.mount.d":             "",
		"usr/lib/systemd/system/unnamed.mount":           "[Mount]\nWhat=\"\"\n",
	})
	got, err := Claims(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []Claim{
		{"/etc/fstab:2", "UUID=7ab12e3a-d2c2-4b94-a3cf-9a3aa3a4b2d7"},
		{"/etc/fstab:4", "LABEL=my data"},
		{"/etc/fstab:4", "/dev/vdd"},
		{"/etc/fstab:4", "/dev/vde"},
		{"/etc/fstab:5", "PARTUUID=1-2"},
		{"/etc/fstab:6", "proc"},
		{"/etc/fstab:7", "server:/export"},
		{"/etc/fstab:8", "/dev/vdz"},
		{"/etc/crypttab:2", "UUID=aaaa"},
		{"/etc/crypttab:3", "/dev/vdf"},
		{"/etc/crypttab:3", "LABEL=keys"},
		{"/etc/crypttab:3", "/dev/vdg"},
		{"/etc/crypttab:3", "/dev/vdh"},
		{"/etc/crypttab:5", "/dev/vdi"},
		{"/etc/crypttab:5", "/dev/urandom"},
		{"/etc/mdadm/mdadm.conf:2", "/dev/vdj"},
		{"/etc/mdadm/mdadm.conf:3", "/dev/sd[a-c]1"},
		{"/etc/mdadm/mdadm.conf:5", "UUID=3aaa0122:29827cfa:5331ad66:ca767371"},
		{"/etc/mdadm/mdadm.conf:6", "/dev/vdk"},
		{"/etc/mdadm/mdadm.conf:6", "/dev/vdl"},
		{"/etc/mdadm/mdadm.conf:7", "UUID=b:c:d:e"},
		{"/etc/mdadm/mdadm.conf.d/more.conf:1", "/dev/vdn"},
		{"/etc/mdadm.conf:1", "/dev/vdm"},
		{"/etc/systemd/system.control/a.mount:2", "/dev/vds"},
		{"/run/systemd/system.control/a.mount:2", "/dev/vdt"},
		{"/etc/systemd/system/srv.mount:5", `/dev/disk/by-label/a\x20b%c`},
		{"/etc/systemd/system/srv.mount.d/override.conf:3", "/dev/vdo"},
		{"/run/systemd/system/swap.d/all.conf:2", "UUID=bbbb"},
		{"/run/systemd/generator.early/a.mount:2", "/dev/vdu"},
		{"/run/systemd/generator/srv.mount:2", "/dev/vdr"},
		{"/run/systemd/generator.late/a.swap:2", "/dev/vdv"},
		{"/usr/local/lib/systemd/system/a-.mount.d/x.conf:2", "/dev/vdp"},
		{"/usr/lib/systemd/system/dev-vdq.swap:2", "/dev/vdq"},
		{"/usr/lib/systemd/system/tmp.mount:2", "tmpfs"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

func TestNoClaims(t *testing.T) {
	if got, err := Claims(t.TempDir()); err != nil || got != nil {
		t.Errorf("a system without any of the files: %v, %v", got, err)
	}
}

// TestUnreadableClaims checks that Claims returns an error for an unreadable file, because the file may claim any disk.
// A symbolic link to itself is unreadable even for root.
func TestUnreadableClaims(t *testing.T) {
	for _, name := range []string{"etc/fstab", "etc/crypttab", "etc/mdadm/mdadm.conf", "etc/mdadm.conf", "etc/mdadm.conf.d", "etc/systemd/system", "etc/mdadm/mdadm.conf.d/x.conf"} {
		if got, err := Claims(files(t, map[string]string{name: "-> " + filepath.Base(name)})); err == nil {
			t.Errorf("%s: got no error, but %v", name, got)
		}
	}
	if got, err := Claims(files(t, map[string]string{"etc/fstab": strings.Repeat("# x\n", maxFile/4+1)})); err == nil {
		t.Errorf("a huge file: got no error, but %v", got)
	}
}

// TestUnseenClaims checks that Claims returns a claim without a Spec for an unreadable unit file. An unreadable unit
// file must not hide the claims of other files. Claims must treat a link into a directory that the daemon cannot see as
// unreadable.
func TestUnseenClaims(t *testing.T) {
	hidden := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(hidden, []byte("[Mount]\nWhat=/dev/vdx\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !disk.Hidden(hidden) {
		t.Fatalf("%s is not hidden from the daemon", hidden)
	}
	for name, to := range map[string]string{
		"usr/lib/systemd/system/x.mount":        "x.mount",
		"run/systemd/system/x.swap.d":           "x.swap.d",
		"usr/lib/systemd/system/mount.d/x.conf": "x.conf",
		"etc/systemd/system/x.mount":            hidden,
		"etc/systemd/system/y.mount":            "../../../root/y.mount",
		"etc/systemd/system/z.swap":             "/tmp/nowhere",
		"etc/systemd/system/x.mount.d":          "/home/nobody",
		"etc/systemd/system/x.swap.d/x.conf":    "/var/tmp/nowhere",
	} {
		got, err := Claims(files(t, map[string]string{name: "-> " + to, "etc/fstab": "/dev/vda1 / ext4\n"}))
		if want := []Claim{{"/etc/fstab:1", "/dev/vda1"}, {Where: "/" + name}}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	root := files(t, map[string]string{"etc/systemd/system/x.mount": "-> /opt/x.mount", "opt/x.mount": "-> /run/user/0/x.mount", "etc/fstab": "\"\" /x xfs\n"})
	if got, err := Claims(root); err != nil || !slices.Equal(got, []Claim{{Where: "/etc/systemd/system/x.mount"}}) {
		t.Errorf("a link to a link: %v, %v", got, err)
	}
}

func TestMatches(t *testing.T) {
	vdb := disk.Facts{
		ID:         disk.ID{Name: "vdb", Dev: disk.Dev{Major: 254, Minor: 16}, Seq: 12},
		Partitions: []string{"vdb1", "odd"},
		Udev: disk.Udev{
			Initialized: true, FSType: "xfs", FSUsage: "filesystem",
			FSUUID: "7ab12e3a-d2c2-4b94-a3cf-9a3aa3a4b2d7", FSLabel: "my data",
			Links: []string{"/dev/disk/by-id/virtio-S", "/dev/disk/by-path/pci-0000:05:00.0", "/dev/disk/by-diskseq/12"},
		},
	}
	bare := disk.Facts{ID: disk.ID{Name: "vdb"}}
	nvme := disk.Facts{ID: disk.ID{Name: "nvme0n1"}}
	cciss := disk.Facts{ID: disk.ID{Name: "cciss!c0d0"}}
	md := disk.Facts{ID: disk.ID{Name: "vdb"}, Udev: disk.Udev{Initialized: true, FSType: "linux_raid_member", FSUsage: "raid", FSUUID: "3aaa0122-2982-7cfa-5331-ad66ca767371"}}
	vfat := disk.Facts{ID: disk.ID{Name: "vdb"}, Udev: disk.Udev{Initialized: true, FSType: "vfat", FSUsage: "filesystem", FSUUID: "ABCD-1234"}}
	dm := disk.Facts{ID: disk.ID{Name: "dm-0"}, Udev: disk.Udev{Links: []string{"/dev/mapper/vg-lv", "/dev/vg/lv"}}}
	vdb1 := disk.Facts{ID: disk.ID{Name: "vdb1"}, Whole: "vdb", Udev: disk.Udev{Links: []string{"/dev/disk/by-partuuid/ab12-01", `/dev/disk/by-partlabel/my\x20data`}}}
	proven := disk.Facts{ID: disk.ID{Name: "vdb"}, Standing: disk.Standing{Verdict: &disk.Verdict{Content: disk.Content{Kind: disk.Filesystem, UUID: "7ab12e3a-d2c2-4b94-a3cf-9a3aa3a4b2d7", Label: "my data"}}}}
	for _, test := range []struct {
		spec string
		disk disk.Facts
		want bool
	}{
		{"/dev/vdb", vdb, true},
		{"/dev//./vdb", vdb, true},
		{"/dev/vdb", nvme, false},
		{"/dev/vdba", vdb, false},
		{"/dev/vd", vdb, false},
		{"/dev/vdb1", vdb, true},
		{"/dev/odd", vdb, true},
		{"/dev/vdb1", bare, true},
		{"/dev/vdb12", bare, true},
		{"/dev/vdb1x", bare, false},
		{"/dev/vdbp1", bare, false},
		{"/dev/vdc1", vdb, false},
		{"/dev/nvme0n1p2", nvme, true},
		{"/dev/nvme0n12", nvme, false},
		{"/dev/nvme0n1p", nvme, false},
		{"/dev/cciss/c0d0", cciss, true},
		{"/dev/cciss/c0d0p1", cciss, true},
		{"/dev/block/254:16", vdb, true},
		{"/dev/block/254:17", vdb, false},
		{"/dev/disk/by-id/virtio-S", vdb, true},
		{"/dev/disk/by-id/virtio-S-part1", vdb, true},
		{"/dev/disk/by-id/virtio-S2", vdb, false},
		{"/dev/disk/by-path/pci-0000:05:00.0", vdb, true},
		{"/dev/disk/by-diskseq/12", vdb, true},
		{"/dev/disk/by-diskseq/1", vdb, false},
		{"/dev/disk/by-uuid/7ab12e3a-d2c2-4b94-a3cf-9a3aa3a4b2d7", vdb, true},
		{"/dev/disk/by-uuid/7ab12e3a-d2c2-4b94-a3cf-000000000000", vdb, false},
		{`/dev/disk/by-label/my\x20data`, vdb, true},
		{"/dev/disk/by-label/my", vdb, false},
		{"/dev/disk/by-uuid/", bare, false},
		{"/dev/disk/by-label/", bare, false},
		{"/dev/mapper/vg-lv", vdb, false},
		{"/dev/mapper/vg-lv", dm, true},
		{"/dev/vg/lv", dm, true},
		{"/dev/root", vdb, false},
		{"/dev", vdb, false},
		{"/", vdb, false},
		{"/srv/vdb", vdb, false},
		{"/dev/vd[bc]", vdb, true},
		{"/dev/vd*", vdb, true},
		{"/dev/vd[cd]", vdb, false},
		{"/dev/vd?1", vdb, true},
		{"/dev/disk/by-id/virtio-*", vdb, true},
		{"/dev/vd[", vdb, false},

		{"UUID=7ab12e3a-d2c2-4b94-a3cf-9a3aa3a4b2d7", vdb, true},
		{"uuid=7AB12E3A-D2C2-4B94-A3CF-9A3AA3A4B2D7", vdb, true},
		{"UUID=7ab12e3a-d2c2-4b94-a3cf-9a3aa3a4b2d7", proven, true},
		{"UUID=7ab12e3a-d2c2-4b94-a3cf-9a3aa3a4b2d8", vdb, false},
		{"UUID=7ab12e3a-d2c2-4b94-a3cf-9a3aa3a4b2d7", bare, false},
		{"UUID=", bare, false},
		{"UUID=-", bare, false},
		{"UUID=3aaa0122:29827cfa:5331ad66:ca767371", md, true},
		{"UUID=abcd-1234", vfat, true},
		{"LABEL=my data", vdb, true},
		{"LABEL=my data", proven, true},
		{"LABEL=My Data", vdb, false},
		{"LABEL=", bare, false},
		{"ID=virtio-S", vdb, true},
		{"ID=virtio-T", vdb, false},
		{"PARTUUID=7ab12e3a-d2c2-4b94-a3cf-9a3aa3a4b2d7", vdb, false},
		{"PARTLABEL=my data", vdb, false},
		{"PARTUUID=ab12-01", vdb1, true},
		{"partuuid=AB12-01", vdb1, true},
		{"PARTUUID=ab12-02", vdb1, false},
		{"PARTUUID=", vdb1, false},
		{"PARTLABEL=my data", vdb1, true},
		{"PARTLABEL=My data", vdb1, false},
		{"PARTLABEL=", vdb1, false},
		{"PARTLABEL=ab12-01", vdb1, false},
		{"/dev/disk/by-partuuid/ab12-01", vdb1, true},
		{`/dev/disk/by-partlabel/my\x20data`, vdb1, true},

		{"", vdb, false},
		{"vdb", vdb, false},
		{"tmpfs", vdb, false},
		{"proc", vdb, false},
		{"none", vdb, false},
		{"nfs:/dev/vdb", vdb, false},
		{"host:/x", vdb, false},
	} {
		if got := (Claim{Spec: test.spec}).Matches(&test.disk); got != test.want {
			t.Errorf("%q matches %s: %v, want %v", test.spec, test.disk.Name, got, test.want)
		}
	}
}

// fuzzParser checks the claims that a parser returns: the field Where of each claim must contain the number of an
// existing line.
func fuzzParser(t *testing.T, text string, parse func(text, where string) []Claim) {
	t.Helper()
	f := disk.Facts{ID: disk.ID{Name: "vdb"}, Udev: disk.Udev{FSUUID: "x", Links: []string{"/dev/x"}}}
	for _, c := range parse(text, "/etc/x") {
		c.Matches(&f)
		line, err := strconv.Atoi(strings.TrimPrefix(c.Where, "/etc/x:"))
		if err != nil || line < 1 || line > strings.Count(text, "\n")+1 {
			t.Errorf("claim at %q", c.Where)
		}
	}
}

func FuzzFstab(f *testing.F) {
	f.Add("UUID=x / ext4 logdev=/dev/vdb 0 0\n# x\n\tLABEL=\"a\\040b\" /x xfs\n")
	f.Add("\\\n'\n\"=\"\n")
	f.Fuzz(func(t *testing.T, text string) { fuzzParser(t, text, parseFstab) })
}

func FuzzCrypttab(f *testing.F) {
	f.Add("a UUID=x /key:LABEL=y luks,header=/dev/vdb\n")
	f.Add("a ' : =:\n")
	f.Fuzz(func(t *testing.T, text string) { fuzzParser(t, text, parseCrypttab) })
}

func FuzzMdadm(f *testing.F) {
	f.Add("DEVICE /dev/vdb\n /dev/vdc\nARRAY /dev/md0 UUID=a:b devices=/dev/x,/dev/y\n")
	f.Add(" x\n#\nARR devices=\"\"\n")
	f.Fuzz(func(t *testing.T, text string) { fuzzParser(t, text, parseMdadm) })
}

func FuzzUnit(f *testing.F) {
	f.Add("[Mount]\nWhat=\\\n/dev/vdb\n")
	f.Add("[Swap]\n;\nWhat=%%\\")
	f.Add("[Mount]\nWhat==\n[\n")
	f.Fuzz(func(t *testing.T, text string) { fuzzParser(t, text, parseUnit) })
}

func FuzzMatches(f *testing.F) {
	f.Add("/dev/vdb", "vdb", "/dev/disk/by-id/x", "uuid")
	f.Add("/dev/[a-", "", "", "")
	f.Add("UUID=a:b", "nvme0n1", "-part1", "A-B")
	f.Fuzz(func(t *testing.T, spec, name, link, uuid string) {
		facts := disk.Facts{ID: disk.ID{Name: name}, Udev: disk.Udev{FSUUID: uuid, Links: []string{link}}}
		got := Claim{Spec: spec}.Matches(&facts)
		if spec == "/dev/"+name && name != "" && !strings.ContainsAny(name, "/!.") && !got {
			t.Errorf("%q does not match its own node", name)
		}
	})
}

// TestLiveClaims reads the files of this machine. Claims may return a permission error, but no other error.
func TestLiveClaims(t *testing.T) {
	if _, err := Claims(""); err != nil && !os.IsPermission(err) {
		t.Error(err)
	}
}
