//go:build vm

package system

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hotmount/internal/disk"
	"hotmount/test/worker"
)

func regexpLine(text, pattern string) bool {
	return regexp.MustCompile(`(?m)` + pattern).MatchString(text)
}

// TestSerials: odd serials, none, and one that two blank disks share (issue 2,
// shown 3).
func TestSerials(t *testing.T) {
	m, w := start(t, worker.Options{})
	for _, serial := range []string{"a=b", "with space", "esc\x1b[31m\nnl\t", ""} {
		name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: serial})
		uuid := m.mounted(name)
		// It did reach the kernel, and what people read has it made visible.
		if got := m.run("cat /sys/block/" + name + "/serial | od -An -v -tx1 | tr -d ' \\n'"); got != fmt.Sprintf("%x", serial) {
			t.Errorf("the kernel has the serial %q as %s", serial, got)
		}
		shown := m.run("systemctl show -P Description " + quote(unitOf(uuid)) + "; journalctl -b -o cat --no-pager -u " + quote(unitOf(uuid)))
		if want := map[bool]string{true: "no serial", false: "serial " + disk.Visible(serial)}[serial == ""]; strings.Count(shown, want) < 2 {
			t.Errorf("%q is not %q in the unit's description and journal:\n%q", serial, want, shown)
		}
		if strings.ContainsAny(shown, "\x1b\t") {
			t.Errorf("a control character of a serial is shown as it is:\n%q", shown)
		}
	}

	first, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "TWICE"})
	uuid := m.mounted(first)
	second, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "TWICE"})
	m.says(fmt.Sprintf("/dev/%s .*hold: it looks blank, and another disk has its serial TWICE: %s .*; this is %s .*; the other holds xfs %s; .*hotmount accept %s", second, first, second, uuid, second))
	if got := m.run("cut -c1-200 /sys/block/" + second + "/stat | awk '{print $5+$12}'"); got != "0" {
		t.Errorf("%s write requests reached the disk that is held", got)
	}
	m.run("hotmount accept " + second)
	m.mounted(second)
}

// TestTwoBlankDisksOfOneSerialAtOnce: the earlier one is used.
func TestTwoBlankDisksOfOneSerialAtOnce(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("systemctl stop hotmount")
	one, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "TWICE"})
	two, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "TWICE"})
	m.run("systemctl start hotmount")
	m.mounted(one)
	m.says("/dev/" + two + " .*hold: it looks blank, and another disk has its serial TWICE: .*" + one + " .*; this is " + two + " ")
	// Not only until the other one is mounted.
	m.run("hotmount rescan")
	if got := m.run("hotmount plan | grep '^" + two + " '"); !strings.Contains(got, " hold ") || m.writes(two) != "0" {
		t.Errorf("%s: %s, %s write requests", two, got, m.writes(two))
	}
}

// untouchable are the ways to fill a disk that hotmount must not touch: shell
// commands for the disk $d.
var untouchable = map[string]string{
	"ext4, which the class does not accept": "mkfs.ext4 -q $d",
	"GPT":                                   "sgdisk -n 1:0:0 $d",
	"GPT, only the backup":                  "sgdisk -n 1:0:0 $d; dd if=/dev/zero of=$d bs=512 count=34 conv=notrunc",
	"MBR":                                   "printf 'label: dos\\n,\\n' | sfdisk -q $d",
	"LUKS":                                  "echo x | cryptsetup -q luksFormat --pbkdf pbkdf2 --pbkdf-force-iterations 1000 $d",
	"LVM":                                   "pvcreate -q $d",
	"swap":                                  "mkswap $d",
	"md":                                    "mdadm --zero-superblock $d; mdadm -q --create /dev/md9 --run --level=1 --raid-devices=2 $d missing; mdadm -q --stop /dev/md9",
	"random bytes":                          "dd if=/dev/urandom of=$d bs=1M count=8",
	"text in the middle":                    "echo hello | dd of=$d bs=1 seek=167772167 conv=notrunc",
	"one bit at the end":                    "printf '\\001' | dd of=$d bs=1 seek=335544319 conv=notrunc",
	"XFS with a zeroed head":                "mkfs.xfs -q $d; dd if=/dev/zero of=$d bs=4096 count=1 conv=notrunc",
	"ext4 with a zeroed head":               "mkfs.ext4 -q $d; dd if=/dev/zero of=$d bs=4096 count=1 conv=notrunc",
	"btrfs":                                 "mkfs.btrfs -q $d",
	"tar":                                   "tar -cf $d -C /usr/lib udev",
}

// TestUntouched: what hotmount must not touch is the same byte for byte
// afterwards (issue 2, shown 7). The disks are attached with their content, so
// that the write counters of the attachment have to stay 0 as well.
func TestUntouched(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("systemctl stop hotmount; systemctl mask --runtime --now lvm2-pvscan@.service >/dev/null 2>&1 || true")
	type filled struct{ what, image, digest, name string }
	var disks []filled
	for _, what := range slices.Sorted(maps.Keys(untouchable)) {
		fill, image := untouchable[what], blank(t, 320<<20)
		name, id := m.attach(w, worker.Disk{File: image})
		m.run("d=/dev/" + name + "; set -e; { " + fill + "; } >/dev/null 2>&1; sync; udevadm settle; blockdev --flushbufs $d")
		m.detach(w, id)
		disks = append(disks, filled{what: what, image: image, digest: digest(t, image)})
	}
	// The system writes to its own disk, but not before its first partition, and not
	// to what its packages have brought.
	const systemDisk = "lsblk -no NAME,PARTUUID,FSTYPE,UUID /dev/vda; dd if=/dev/vda bs=1M count=1 iflag=direct status=none | sha256sum; dpkg --verify coreutils systemd udev util-linux xfsprogs || true"
	system := m.run(systemDisk)
	m.run("printf 'classes:\\n  - name: default\\n    directory: /mnt/disks\\n    accept: [xfs]\\n' >/etc/hotmount/config.yaml; systemctl start hotmount")
	for i := range disks {
		disks[i].name, _ = m.attach(w, worker.Disk{File: disks[i].image})
	}
	for _, d := range disks {
		m.says(fmt.Sprintf("^/dev/%s .*(refuse|ignore): ", d.name))
	}
	plan := m.run("hotmount plan")
	for _, d := range disks {
		if !regexpLine(plan, `^`+d.name+` .*(refuse|ignore) `) {
			t.Errorf("%s: the plan does not refuse %s:\n%s", d.what, d.name, plan)
		}
		if got := m.run("awk '{print $5+$12}' /sys/block/" + d.name + "/stat"); got != "0" {
			t.Errorf("%s: %s write requests reached it", d.what, got)
		}
		if got := digest(t, d.image); got != d.digest {
			t.Errorf("%s: its bytes have changed", d.what)
		}
	}
	if got := m.run(systemDisk); got != system {
		t.Errorf("the system disk was %q and is %q", system, got)
	}
	if !regexpLine(plan, `^vda .*ignore .*carries the system`) {
		t.Errorf("the plan does not ignore the system disk:\n%s", plan)
	}
	if got := m.run("ls -A /mnt/disks"); got != "" {
		t.Errorf("/mnt/disks holds %s", got)
	}
}

// TestWhoeverWritesFirstWins: a disk on which somebody starts to write while it
// is proven blank is theirs.
func TestWhoeverWritesFirstWins(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("printf '[Service]\\nEnvironment=HOTMOUNT_SETTLE=8s\\n' >/etc/systemd/system/hotmount.service.d/quick.conf; systemctl daemon-reload; systemctl restart hotmount")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.wait("the proof to run", "systemctl is-active --quiet 'hotmount-format@*' || systemctl list-units 'hotmount-format@*' --no-legend | grep -q activating")
	wait := time.Duration(chance(t).IntN(5000)) * time.Millisecond
	m.run(fmt.Sprintf("sleep %.3f; printf hello | dd of=/dev/%s bs=1 seek=123456789 conv=notrunc,fsync 2>/dev/null", wait.Seconds(), name))
	m.says("/dev/" + name + " .*refuse: ")
	if got := m.run(fmt.Sprintf("dd if=/dev/%s bs=1 skip=123456789 count=5 2>/dev/null; ls -A /mnt/disks", name)); strings.TrimSpace(got) != "hello" {
		t.Errorf("the other writer's bytes are %q", got)
	}
}

// untouched fails if a write or discard has reached the disk.
func (m machine) untouched(name string) {
	m.t.Helper()
	if got := m.run("awk '{print $5+$12}' /sys/block/" + name + "/stat"); got != "0" {
		m.t.Errorf("%s write requests reached %s", got, name)
	}
}

// history is what `hotmount history -o json` prints.
func (m machine) history() []disk.Record {
	m.t.Helper()
	var all []disk.Record
	if err := json.Unmarshal([]byte(m.run("hotmount history -o json")), &all); err != nil {
		m.t.Fatal(err)
	}
	return all
}
