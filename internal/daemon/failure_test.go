package daemon

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/nodetest"
	"hotmount/internal/run/runtest"
)

const (
	dustbin   = "wrong fs type, bad option, bad superblock on /dev/vdc, missing codepage or helper program, or other error."
	unclean   = "mount(2) system call failed: Structure needs cleaning."
	duplicate = "XFS (vdc): Filesystem has duplicate UUID aaaaaaaa-0000-4000-8000-000000000001 - can't mount"
)

// TestWhyAMountFailed checks which advice follows from the messages of mount(8) (Debian 12 and 13) and of the kernel
// (Linux 5.10 to 6.18). Only messages about damage may lead to the advice to check the filesystem. A fault of the node
// or of the configuration is not a fault of the disk.
func TestWhyAMountFailed(t *testing.T) {
	const (
		options = "the disk is not damaged; correct the options of class fast; then: hotmount config check && systemctl reload hotmount"
		newer   = "the filesystem is newer than this kernel"
		sectors = "the filesystem was made for smaller sectors than this disk has"
		apart   = "the filesystem has its log on another device"
		module  = "this kernel cannot mount xfs, because the module is missing or cannot be loaded; the disk is not the cause; to see the cause: modprobe xfs"
		check   = "check the filesystem with: xfs_repair -n /dev/vdc; or, if its data is not needed: hotmount format vdc"
		unknown = "nothing reports damage; to check the options of class fast: hotmount config check"
		reads   = "the disk has read or write errors"
		open    = "the kernel did not read the disk, so this is not a sign of damage; to see which process has the disk open: fuser -v /dev/vdc"
	)
	for _, test := range []struct{ mount, kernel, want string }{
		{dustbin, "xfs: Unknown parameter 'noattime'", options},
		{"fsconfig() failed: xfs: Unknown parameter 'noattime'.", "", options}, // util-linux 2.41
		{dustbin, "xfs: Bad value for 'logbufs'", options},
		{dustbin, "XFS (vdc): invalid logbufsize: 17408 [not 16k,32k,64k,128k or 256k]", options},
		{dustbin, "EXT4-fs: Project quota feature not enabled. Cannot enable project quota enforcement.", options},
		{dustbin, `EXT4-fs (vdc): Unrecognized mount option "logbsize=256k" or missing value`, options}, // Linux 5.10
		{"unknown filesystem type 'xfs'.", "", module},
		{dustbin, "XFS (vdc): Superblock has unknown read-only compatible features (0x80) enabled. / XFS (vdc): Attempted to mount read-only compatible filesystem read-write. / XFS (vdc): Filesystem can only be safely mounted read only. / XFS (vdc): SB validate failed with error -22.", newer},
		{dustbin, "XFS (vdc): Superblock has unknown incompatible features (0x180) enabled. / XFS (vdc): Filesystem cannot be safely mounted by this kernel. / XFS (vdc): SB validate failed with error -22.", newer},
		{dustbin, "EXT4-fs (vdc): couldn't mount RDWR because of unsupported optional features (80000000)", newer},
		{dustbin, "EXT4-fs (vdc): Couldn't mount because of unsupported optional features (80000)", newer},
		{"mount(2) system call failed: Function not implemented.", "XFS (vdc): device supports 4096 byte sectors (not 512)", sectors},
		{dustbin, "EXT4-fs (vdc): bad block size 1024", sectors},
		{dustbin, "XFS (vdc): filesystem is marked as having an external log; specify logdev on the mount command line. / XFS (vdc): SB validate failed with error -22.", apart},
		{dustbin, "EXT4-fs (vdc): failed to open journal device unknown-block(254,48) -6", apart},
		{unclean, "XFS (vdc): Metadata CRC error detected at xfs_agi_read_verify+0x7a/0x110, xfs_agi block 0x2 / XFS (vdc): metadata I/O error in \"xfs_read_agi+0x9d/0x180\" at daddr 0x2 len 1 error 74", check},
		{unclean, "", check},
		{dustbin, "EXT4-fs (vdc): group descriptors corrupted!", check},
		{dustbin, "EXT4-fs (vdc): bad geometry: block count 81920 exceeds size of device (51200 blocks)", check},
		{"can't read superblock on /dev/vdc.", "XFS (vdc): metadata I/O error in \"xfs_read_agf\" at daddr 0x1 len 1 error 5", reads},
		{dustbin, "/dev/vdc: Can't open blockdev", open},
		{dustbin, "", unknown},
		{"", "", unknown},
	} {
		a := attempt{result: "failed"}
		if test.mount != "" {
			a.mount = []string{test.mount}
		}
		if test.kernel != "" {
			a.kernel = strings.Split(test.kernel, " / ")
		}
		err := a.mountError(&disk.Facts{ID: disk.ID{Name: "vdc"}}, &disk.Class{Name: "fast"}, disk.XFS)
		got := err.Error()
		if of := (*disk.NodeError)(nil); errors.As(err, &of) != slices.Contains([]string{options, module, open}, test.want) {
			t.Errorf("%q, %q: %T", test.mount, test.kernel, err)
		}
		if !strings.Contains(got, test.want) || !strings.Contains(got, strings.TrimSuffix(test.kernel, ".")) {
			t.Errorf("%q, %q: %s", test.mount, test.kernel, got)
		}
		if damaged := test.want == check; strings.Contains(got, "xfs_repair -n") != damaged {
			t.Errorf("%q, %q: %s", test.mount, test.kernel, got)
		}
		if hidden := test.mount == dustbin && test.kernel != ""; test.mount != "" && strings.Contains(got, "mount(8) says: "+strings.TrimSuffix(test.mount, ".")) == hidden {
			t.Errorf("%q, %q: %s", test.mount, test.kernel, got)
		}
	}
}

// TestFailure checks that the message names the disk, the result of the job and the lines of the journal. If the kernel
// reports a duplicate UUID, the message also names the processes that used the filesystem when the disk was detached.
func TestFailure(t *testing.T) {
	const held = "cannot mount vdc (disk sequence number 7): "
	for _, test := range []struct {
		attempt
		holders, want string
		held          bool
	}{
		{attempt{kernel: []string{duplicate}}, "process 7 (db): has a file open", held + disk.ErrHeld.Error() + "; when the disk was detached, the filesystem was used by: process 7 (db): has a file open; hotmount mounts the disk when the earlier mount has ended; to see what uses the earlier mount: hotmount doctor", true},
		{attempt{kernel: []string{duplicate}}, "", held + disk.ErrHeld.Error() + "; hotmount mounts the disk when the earlier mount has ended; to see what uses the earlier mount: hotmount doctor", true},
		{attempt{kernel: []string{"XFS (vdc): Corruption", "XFS (vdc): b"}, result: "failed"}, "process 7", held + "the kernel says: XFS (vdc): Corruption / XFS (vdc): b; check the filesystem with: e2fsck -fn /dev/vdc; or, if its data is not needed: hotmount format vdc; for the whole log: journalctl -b -u 'a.mount'", false},
		{attempt{result: "canceled"}, "", held + `systemd ended the job with "canceled"; nothing reports damage; to check the options of class fast: hotmount config check; for the whole log: journalctl -b -u 'a.mount'`, false},
		// If the mount unit is masked, mount(8) does not run, and prints nothing.
		{attempt{unread: errors.New("no time")}, "", held + `the job of a.mount failed, and its messages could not be read: no time; to see why: systemctl status 'a.mount'`, false},
		{attempt{}, "", held + `the job of a.mount failed, mount(8) printed nothing, and nothing reports damage; to see why: systemctl status 'a.mount'`, false},
	} {
		err := test.failure(&disk.Facts{ID: disk.ID{Name: "vdc", Seq: 7}}, &disk.Class{Name: "fast"}, disk.Ext4, "a.mount", test.holders)
		if err.Error() != test.want || errors.Is(err, disk.ErrHeld) != test.held {
			t.Errorf("%+v: %v", test.attempt, err)
		}
	}
}

// TestHeard checks which journal lines explain a failed mount. Lines about another disk, and lines from before the
// mount request, must be ignored.
func TestHeard(t *testing.T) {
	const asked = 100 * time.Second
	kernel := func(at time.Duration, message string) string {
		return fmt.Sprintf(`{"_TRANSPORT":"kernel","__MONOTONIC_TIMESTAMP":"%d","_SOURCE_MONOTONIC_TIMESTAMP":"1","MESSAGE":%s}`+"\n", at.Microseconds(), message)
	}
	other := func(fields, message string) string {
		return fmt.Sprintf(`{%s,"__MONOTONIC_TIMESTAMP":"%d","MESSAGE":%q}`+"\n", fields, (asked + time.Second).Microseconds(), message)
	}
	const mount8, pid1 = `"_PID":"4711","_SYSTEMD_UNIT":"a.mount"`, `"_PID":"1","UNIT":"a.mount"`
	words := func(s string) string { return strconv.Quote("XFS (vdb): " + s) }
	before, after := asked-time.Microsecond, asked+time.Second
	vdb := disk.ID{Name: "vdb", Seq: 1016}
	many, ten := "", "kernel XFS (vdb): n"
	for range 20 {
		many += kernel(after, words("n"))
	}
	for name, tt := range map[string]struct {
		id            disk.ID
		journal, want string
	}{
		"of this attempt":       {vdb, kernel(asked, words("a")) + kernel(after, words("b")), "kernel XFS (vdb): a / XFS (vdb): b"},
		"of an earlier one":     {vdb, kernel(before, words("a")) + kernel(after, words("b")), "kernel XFS (vdb): b"},
		"of an earlier alone":   {vdb, kernel(before, words("a")), ""},
		"of another disk":       {vdb, kernel(after, `"XFS (vdc): a"`) + kernel(after, `"/dev/vdbb: a"`), ""},
		"of another attachment": {disk.ID{Name: "vdb", Seq: 1015}, kernel(after, words("a")), ""},
		"of one that is gone":   {disk.ID{Name: "vdz", Seq: 1099}, kernel(after, `"XFS (vdz): a"`), ""},
		"of no known time":      {vdb, `{"_TRANSPORT":"kernel","MESSAGE":` + words("a") + `}`, ""},
		"of the layer below":    {vdb, kernel(after, `"/dev/vdb: Can't open blockdev"`), "kernel /dev/vdb: Can't open blockdev"},
		"hostile bytes":         {vdb, kernel(after, "[88,70,83,32,40,118,100,98,41,58,32,27]"), `kernel XFS (vdb): \x1b`},
		"nothing":               {vdb, "", ""},
		"of a class's option":   {vdb, kernel(after, `"xfs: Unknown parameter 'noattime'"`), "kernel xfs: Unknown parameter 'noattime'"},
		"of a value":            {vdb, kernel(after, `"ext4: Bad value for 'commit'"`), "kernel ext4: Bad value for 'commit'"},
		"of another's option":   {vdb, kernel(after, `"xfs: Unknown parameter 'noctime'"`), ""},
		"of a quota":            {vdb, kernel(after, `"EXT4-fs: Project quota feature not enabled."`), "kernel EXT4-fs: Project quota feature not enabled."},
		"of another filesystem": {vdb, kernel(after, `"btrfs: Unknown parameter 'noattime'"`), ""},
		"too many":              {vdb, many, ten + strings.Repeat(" / XFS (vdb): n", 9)},
		"mount(8)":              {vdb, other(mount8, "mount: /mnt/a: unknown filesystem type 'xfs'.") + other(mount8, "       dmesg(1) may have more information after failed mount system call."), "mount unknown filesystem type 'xfs'."},
		"PID 1's child":         {vdb, other(`"_PID":"4712","_UID":"0","SYSLOG_IDENTIFIER":"(mount)","UNIT":"a.mount"`, "a.mount: Failed at step EXEC spawning /bin/mount: Permission denied"), "mount Failed at step EXEC spawning /bin/mount: Permission denied"},
		"PID 1":                 {vdb, other(pid1, "a.mount: Mounting timed out. Terminating.") + other(pid1, "Mounting a.mount...") + other(pid1+`,"JOB_RESULT":"timeout"`, "Failed to mount a."), "mount Mounting timed out. Terminating. result timeout"},
	} {
		h := nodetest.New(t)
		r := runtest.New(t)
		r.On("/usr/bin/journalctl --sync", runtest.Print("", 0))
		r.On(`/usr/bin/journalctl -b -q -o json --no-pager -n 500 _TRANSPORT=kernel + _SYSTEMD_UNIT=a.mount + _PID=1 UNIT=a.mount + _UID=0 SYSLOG_IDENTIFIER=(mount) UNIT=a.mount`, runtest.Print(tt.journal, 0))
		a := readAttempt(t.Context(), r, h, &disk.Facts{ID: tt.id}, &disk.Class{Options: []string{"noattime", "commit=5"}}, "a.mount", asked)
		if gone := tt.id != vdb; errors.Is(a.unread, disk.ErrGone) != gone {
			t.Errorf("%s: %v", name, a.unread)
		}
		var got []string
		for _, part := range [][]string{{"mount", strings.Join(a.mount, " / ")}, {"kernel", strings.Join(a.kernel, " / ")}, {"result", a.result}} {
			if part[1] != "" {
				got = slices.Concat(got, part)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
